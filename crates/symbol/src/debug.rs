//! Sources of names besides a module's own symbol tables: mini debug information, debug files, DWARF.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::{Object, ObjectSection};
use pyrograph_elf::{Image, read_to};

use crate::build_id::BuildId;
use crate::dwarf::{DebugSections, UnitIndex};
use crate::locate::Locator;
use crate::module::Module;
use crate::split::Package;
use crate::symbolize::{Options, Warning};
use crate::unpacked;

/// Size limit of mini debug information, in bytes. It is a symbol table and has some hundred KB.
const MAX_MINI_SIZE: u64 = 256 << 20;

/// A file with DWARF, and its unit index, which is built at the first use.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub sections: DebugSections,
    pub index: OnceLock<UnitIndex>,
}

/// Separate debug file of a module.
#[derive(Debug, Default)]
pub(crate) struct DebugFile {
    pub file: Option<(PathBuf, Arc<Image>)>,
    /// Reasons why other candidates were rejected.
    pub warnings: Vec<Warning>,
}

impl DebugFile {
    /// Finds the debug file of `module`. It is not searched if the module has debug information of its own.
    pub fn find(module: &Module, locator: &Locator) -> Self {
        let mut warnings = Vec::new();
        let file = match DebugSections::are_in(&module.image) {
            true => None,
            false => locator.debug_file(&module.wanted(), &mut warnings),
        };
        Self { file: file.map(|(path, image)| (path, Arc::new(image))), warnings }
    }
}

/// Everything found for a module. It is searched once, when the first address needs it.
#[derive(Debug, Default)]
pub(crate) struct DebugInfo {
    /// ELF file in `.gnu_debugdata`.
    pub mini: Option<Image>,
    /// Separate debug file.
    pub file: Option<(PathBuf, Arc<Image>)>,
    pub warnings: Vec<Warning>,
    /// Loaded when symbol tables are not enough: it may have to be decompressed.
    dwarf: OnceLock<DwarfInfo>,
}

/// DWARF of a module, with its supplementary file and package.
#[derive(Debug, Default)]
pub(crate) struct DwarfInfo {
    /// DWARF of the separate debug file if there is one, else of the module.
    pub main: Option<DwarfFile>,
    /// Supplementary file: entries that `dwz` moved out of several debug files.
    pub supplementary: Option<(Image, DwarfFile)>,
    /// DWARF package (`.dwp`) with the split units.
    pub package: Option<Package>,
    pub warnings: Vec<Warning>,
}

impl DebugInfo {
    pub fn find(module: &Module, locator: &Locator) -> Self {
        let DebugFile { file, warnings } = module.debug_file(locator);
        let (file, warnings) = (file.clone(), warnings.clone());
        let mut debug = Self { file, warnings, ..Self::default() };
        let elf = module.image.elf();
        if debug.file.is_none() && elf.section_by_name(".symtab").is_none() {
            debug.load_mini(elf, &module.path);
        }
        debug
    }

    /// DWARF of `module`, which must be the module passed to [`Self::find`]. `lowest` is the lowest address of its
    /// code.
    pub fn dwarf(&self, module: &Module, options: &Options, lowest: u64) -> &DwarfInfo {
        self.dwarf.get_or_init(|| {
            let (path, image) = self.place(module);
            DwarfInfo::load(path, image, module, options, lowest)
        })
    }

    /// Path and image of the file that has the DWARF, if any file has.
    pub fn place<'a>(&'a self, module: &'a Module) -> (&'a Path, &'a Image) {
        match &self.file {
            Some((path, image)) => (path, image),
            None => (&module.path, &module.image),
        }
    }

    /// Loads `.gnu_debugdata`: an xz-compressed ELF file with only the symbols that `.dynsym` lacks ("Debugging
    /// information in a special section" in GDB's manual).
    fn load_mini(&mut self, elf: &object::File<'_>, path: &Path) {
        let Some(section) = elf.section_by_name(".gnu_debugdata") else { return };
        let result = section.data().map_err(|error| error.to_string()).and_then(|data| {
            let decoder = liblzma::read::XzDecoder::new(Cursor::new(data));
            read_to(decoder, MAX_MINI_SIZE).map_err(|error| error.to_string())
        });
        match result {
            Ok(bytes) => self.mini = Image::from_bytes(bytes).ok(),
            Err(reason) => self.warn(path, format!(".gnu_debugdata: {reason}")),
        }
    }

    fn warn(&mut self, path: &Path, reason: String) {
        self.warnings.push(Warning::DebugInfo { path: path.to_owned(), reason });
    }
}

impl DwarfInfo {
    fn load(path: &Path, image: &Image, module: &Module, options: &Options, lowest: u64) -> Self {
        let mut dwarf = Self::default();
        match unpacked::load(image, lowest, options.cache.as_deref()) {
            Ok(Some(file)) => {
                dwarf.main = Some(file);
                dwarf.load_supplementary(path, image, module, &options.locator);
                dwarf.package = Package::open(path).or_else(|| Package::open(&module.path));
            }
            Ok(None) => {}
            Err(error) => dwarf.warn(path, error.to_string()),
        }
        dwarf
    }

    fn load_supplementary(
        &mut self,
        path: &Path,
        image: &Image,
        module: &Module,
        locator: &Locator,
    ) {
        let Ok(Some((link, id))) = image.elf().gnu_debugaltlink() else { return };
        let (Ok(link), Some(id)) = (std::str::from_utf8(link), BuildId::new(id)) else { return };
        let found = locator.supplementary_file(
            path,
            module.root.as_deref(),
            Path::new(link),
            &id,
            &mut self.warnings,
        );
        let Some(supplementary) = found else {
            return self.warn(path, format!("its supplementary file {link} is missing"));
        };
        if let Ok(Some(sections)) = DebugSections::load(&supplementary) {
            let file = DwarfFile { sections, index: OnceLock::new() };
            self.supplementary = Some((supplementary, file));
        }
    }

    fn warn(&mut self, path: &Path, reason: String) {
        self.warnings.push(Warning::DebugInfo { path: path.to_owned(), reason });
    }
}
