//! Source files that compilers embed in debug information (`-gembed-source`).

use std::sync::Arc;

use crate::frames;
use crate::lines;
use crate::module::Module;
use crate::symbolize::Options;
use crate::symbols::text_ranges;

impl Module {
    /// Returns the embedded source files of the units that hold the code at an address: paths, as in
    /// [`Frame`](crate::Frame), and texts.
    pub fn embedded_sources(&self, address: u64, options: &Options) -> Vec<(Arc<str>, String)> {
        let lowest = text_ranges(self.image()).first().map_or(0, |range| range.start);
        let debug = self.debug(&options.locator);
        let info = debug.dwarf(self, options, lowest);
        let (_, image) = debug.place(self);
        let Some(file) = &info.main else { return Vec::new() };
        let (dwarf, index) = frames::open(file, image, lowest);
        let addresses = [address];
        let units = index.units_of(&addresses).filter_map(|(position, _)| {
            let header = dwarf.debug_info.header_from_offset(index.offset(position)).ok()?;
            dwarf.unit(header).ok()
        });
        units.flat_map(|unit| lines::embedded(&dwarf, &unit)).collect()
    }
}
