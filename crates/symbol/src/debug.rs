//! What a module has beside its own symbol tables: mini debug information, a debug file, DWARF.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::{Object, ObjectSection};

use crate::build_id::BuildId;
use crate::dwarf::{DebugSections, UnitIndex};
use crate::image::{Image, read_to};
use crate::locate::Locator;
use crate::module::Module;
use crate::split::Package;
use crate::symbolize::Warning;

/// Mini debug information is a symbol table, some hundred KB. Larger is not it.
const MAX_MINI_SIZE: u64 = 256 << 20;

/// A file with DWARF, and its index, made at the first use.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub sections: DebugSections,
    pub index: OnceLock<UnitIndex>,
}

/// All that was found, once, when the first address asked for it.
#[derive(Debug, Default)]
pub(crate) struct DebugInfo {
    /// The ELF file in `.gnu_debugdata`.
    pub mini: Option<Image>,
    /// A separate debug file.
    pub file: Option<(PathBuf, Image)>,
    /// DWARF, of `file` if there is one, else of the module.
    pub dwarf: Option<DwarfFile>,
    /// What `dwz` took out of several debug files.
    pub supplementary: Option<(Image, DwarfFile)>,
    /// The functions of split units.
    pub package: Option<Package>,
    pub warnings: Vec<Warning>,
}

impl DebugInfo {
    pub fn find(module: &Module, locator: &Locator) -> Self {
        let mut debug = Self::default();
        let Ok(elf) = module.image.elf() else { return debug };
        debug.load_dwarf(&elf, &module.path);
        if debug.dwarf.is_none() {
            debug.file = locator.debug_file(&module.wanted(&elf), &mut debug.warnings);
        }
        if let Some((path, image)) = debug.file.take() {
            if let Ok(elf) = image.elf() {
                debug.load_dwarf(&elf, &path);
            }
            debug.file = Some((path, image));
        } else if elf.section_by_name(".symtab").is_none() {
            debug.load_mini(&elf, &module.path);
        }
        debug.load_supplementary(module, locator);
        if debug.dwarf.is_some() {
            let path = debug.file.as_ref().map_or(&module.path, |(path, _)| path);
            debug.package = Package::open(path).or_else(|| Package::open(&module.path));
        }
        debug
    }

    fn load_dwarf(&mut self, elf: &object::File<'_>, path: &Path) {
        match DebugSections::load(elf) {
            Ok(sections) => {
                self.dwarf =
                    sections.map(|sections| DwarfFile { sections, index: OnceLock::new() });
            }
            Err(reason) => self.warn(path, reason),
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
            Ok(bytes) => self.mini = Some(Image::Owned(bytes)),
            Err(reason) => self.warn(path, format!(".gnu_debugdata: {reason}")),
        }
    }

    fn load_supplementary(&mut self, module: &Module, locator: &Locator) {
        if self.dwarf.is_none() {
            return;
        }
        let (path, image) = match &self.file {
            Some((path, image)) => (path.as_path(), image),
            None => (module.path.as_path(), &module.image),
        };
        let Ok(elf) = image.elf() else { return };
        let Ok(Some((link, id))) = elf.gnu_debugaltlink() else { return };
        let (Ok(link), Some(id)) = (std::str::from_utf8(link), BuildId::new(id)) else { return };
        let found = locator.supplementary_file(
            path,
            module.root.as_deref(),
            Path::new(link),
            &id,
            &mut self.warnings,
        );
        let Some(supplementary) = found else {
            let reason = format!("its supplementary file {link} is missing");
            let path = path.to_owned();
            self.warnings.push(Warning::DebugInfo { path, reason });
            return;
        };
        if let Ok(elf) = supplementary.elf()
            && let Ok(Some(sections)) = DebugSections::load(&elf)
        {
            let file = DwarfFile { sections, index: OnceLock::new() };
            self.supplementary = Some((supplementary, file));
        }
    }

    fn warn(&mut self, path: &Path, reason: String) {
        self.warnings.push(Warning::DebugInfo { path: path.to_owned(), reason });
    }
}
