//! Start and end of the function at an address.

use std::ops::Range;

use object::{Object, ObjectSymbol};

use crate::entries::Entries;
use crate::locate::Locator;
use crate::module::Module;
use crate::plt;
use crate::symbols::{Finder, text_ranges};

impl Module {
    /// Addresses of the function that holds `address`, from the symbol that names it in [`Module::symbolize`]. A
    /// symbol without a size reaches to the next symbol, or to the end of its section. A PLT stub has a range as
    /// well, although it has no symbol. `None` if there is neither symbol nor stub.
    pub fn extent(&self, address: u64, locator: &Locator) -> Option<Range<u64>> {
        let (image, text) = (self.image(), text_ranges(self.image()));
        if let Some(stub) = plt::extent(image.elf(), address, &text) {
            return Some(stub);
        }
        let debug = self.debug(locator);
        let file = debug.file.as_ref().map(|(_, image)| &**image);
        let images = [Some(&**image), file, debug.mini.as_ref()];
        let addresses = [address];
        let mut finder = Finder::new(&addresses, &text);
        images.iter().flatten().for_each(|image| finder.read(image.elf()));
        let entries = Entries::read(image.elf());
        let divided =
            |label, address| entries.as_ref().is_some_and(|entries| entries.divide(label, address));
        let symbol = finder.finish(divided).pop()??;
        if symbol.size > 0 {
            return Some(symbol.start..symbol.start.saturating_add(symbol.size));
        }
        let section = text.iter().find(|range| range.contains(&symbol.start))?;
        let elves = images.iter().flatten().map(|image| image.elf());
        let starts = elves.flat_map(|elf| elf.symbols().chain(elf.dynamic_symbols()));
        let starts = starts.filter(|symbol| !symbol.is_undefined()).map(|symbol| symbol.address());
        let next = starts.filter(|&start| start > address && start < section.end).min();
        Some(symbol.start..next.unwrap_or(section.end))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::module::Source;

    #[test]
    fn every_address_of_a_function_has_its_extent() {
        let path = std::env::current_exe().expect("a path");
        let file = File::open(&path).expect("it is there");
        let source = Source { path: path.to_str().expect("UTF-8"), ..Source::default() };
        let module = Module::open(&file, source).expect("an ELF file");
        let main = module.image().functions_named("main").next().expect("a function");
        let extent = main.address()..main.address() + main.size();
        for address in [extent.start, extent.start + 1, extent.end - 1] {
            assert_eq!(module.extent(address, &Locator::default()), Some(extent.clone()));
        }
        assert_ne!(module.extent(extent.end, &Locator::default()), Some(extent));
        assert_eq!(module.extent(0, &Locator::default()), None);
    }
}
