//! Names of a module beside its own symbol tables: mini debug information, a debug file, DWARF.

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

/// Mini debug information is a symbol table, some hundred KB. Larger is not it.
const MAX_MINI_SIZE: u64 = 256 << 20;

/// A file with DWARF, and its index, made at the first use.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub sections: DebugSections,
    pub index: OnceLock<UnitIndex>,
}

/// A separate debug file.
#[derive(Debug, Default)]
pub(crate) struct DebugFile {
    pub file: Option<(PathBuf, Arc<Image>)>,
    /// Why others in its place are not used.
    pub warnings: Vec<Warning>,
}

impl DebugFile {
    /// That of `module`, if it has no debug information of its own.
    pub fn find(module: &Module, locator: &Locator) -> Self {
        let mut warnings = Vec::new();
        let file = match DebugSections::are_in(&module.image) {
            true => None,
            false => locator.debug_file(&module.wanted(), &mut warnings),
        };
        Self { file: file.map(|(path, image)| (path, Arc::new(image))), warnings }
    }
}

/// All that was found, once, when the first address asked for it.
#[derive(Debug, Default)]
pub(crate) struct DebugInfo {
    /// The ELF file in `.gnu_debugdata`.
    pub mini: Option<Image>,
    /// A separate debug file.
    pub file: Option<(PathBuf, Arc<Image>)>,
    pub warnings: Vec<Warning>,
    /// Read when more is asked for than symbol tables know: it may have to be decompressed.
    dwarf: OnceLock<DwarfInfo>,
}

/// DWARF, and what belongs to it.
#[derive(Debug, Default)]
pub(crate) struct DwarfInfo {
    /// Of the separate debug file if there is one, else of the module.
    pub main: Option<DwarfFile>,
    /// The file of what `dwz` took out of several debug files.
    pub supplementary: Option<(Image, DwarfFile)>,
    /// The functions of split units.
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

    /// The DWARF of `module`, for which this was found, and whose code begins at `lowest`.
    pub fn dwarf(&self, module: &Module, options: &Options, lowest: u64) -> &DwarfInfo {
        self.dwarf.get_or_init(|| {
            let (path, image) = self.place(module);
            DwarfInfo::load(path, image, module, options, lowest)
        })
    }

    /// The file that DWARF is in, if it is anywhere.
    pub fn place<'a>(&'a self, module: &'a Module) -> (&'a Path, &'a Image) {
        match &self.file {
            Some((path, image)) => (path, image),
            None => (&module.path, &module.image),
        }
    }

    /// `.gnu_debugdata` is an xz-compressed ELF file that has only the symbols that `.dynsym`
    /// lacks ("Debugging information in a special section" in GDB's manual).
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
