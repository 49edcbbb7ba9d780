//! Split DWARF (`-gsplit-dwarf`): the functions of each unit are in a `.dwo` file, or all in one `.dwp`.
//!
//! The linked file keeps a skeleton of each unit, with the line table, the addresses, and an identifier that the
//! split unit repeats (DWARF 5, 3.1.2; for DWARF 4, the GNU extension).

use std::path::{Path, PathBuf};

use gimli::{DwarfPackage, DwarfPackageSections, DwoId, SectionId};
use pyrograph_elf::{Image, Section};

use crate::debug::DwarfInfo;
use crate::dwarf::{DebugSections, Dwarf, Reader, Unit, UnitIndex};
use crate::names::Names;

/// Error: no file with the split unit of a skeleton was found.
#[derive(Debug)]
pub(crate) struct Missing;

/// A DWARF package (`.dwp` file).
#[derive(Debug)]
pub(crate) struct Package {
    image: Image,
    sections: DwarfPackageSections<Section>,
}

impl Package {
    /// Opens the package next to `path`; `None` if there is none that can be read.
    pub fn open(path: &Path) -> Option<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".dwp");
        let image = Image::open(Path::new(&name)).ok()?;
        // Load all sections: the index refers to locations and macros too, and must find them.
        let load = |id: SectionId| match id.dwo_name() {
            Some(name) => Section::load(&image, name).map_err(|_| gimli::Error::Io),
            None => Ok(Section::EMPTY),
        };
        let sections = DwarfPackageSections::load(load).ok()?;
        Some(Self { image, sections })
    }
}

/// Locations of the split units of a file.
pub(crate) struct Split<'d> {
    /// Path of the file with the skeletons.
    pub path: PathBuf,
    package: Option<&'d Package>,
}

impl<'d> Split<'d> {
    pub fn new(path: PathBuf, debug: &'d DwarfInfo) -> Self {
        Self { path, package: debug.package.as_ref() }
    }

    /// Calls `with` with the split unit of `skeleton`.
    pub fn with_unit(
        &self,
        parent: &Dwarf<'_>,
        skeleton: &Unit<'_>,
        id: DwoId,
        with: impl FnOnce(&Dwarf<'_>, &Unit<'_>, &mut Names<'_>),
    ) -> Result<(), Missing> {
        if let Some(package) = self.package {
            let endian = gimli::Reader::endian(gimli::Section::reader(&parent.debug_info));
            let sections = package.sections.borrow(
                |section| Reader::new(section.bytes(&package.image), endian),
                Reader::new(&[], endian),
            );
            let dwarf = sections.and_then(|package: DwarfPackage<_>| package.find_cu(id, parent));
            if let Ok(Some(dwarf)) = dwarf {
                return with_matching(&dwarf, skeleton, id, with);
            }
        }
        let (image, sections) =
            self.paths(parent, skeleton).into_iter().find_map(open).ok_or(Missing)?;
        let mut dwarf = sections.dwarf(&image);
        dwarf.make_dwo(parent);
        with_matching(&dwarf, skeleton, id, with)
    }

    /// Paths to try for the `.dwo` file: where the compiler wrote it, and next to the module in case it was moved.
    fn paths(&self, dwarf: &Dwarf<'_>, skeleton: &Unit<'_>) -> Vec<PathBuf> {
        let name = skeleton.dwo_name().ok().flatten();
        let Some(name) = name.and_then(|name| dwarf.attr_string(skeleton, name).ok()) else {
            return Vec::new();
        };
        let name = name.to_string_lossy();
        let directory = skeleton.comp_dir.map(|dir| dir.to_string_lossy().into_owned());
        let built = Path::new(directory.as_deref().unwrap_or("")).join(&*name);
        let beside = Path::new(&*name).file_name().map(|file| self.path.with_file_name(file));
        std::iter::once(built).chain(beside).collect()
    }
}

fn open(path: PathBuf) -> Option<(Image, DebugSections)> {
    let image = Image::open(&path).ok()?;
    let sections = DebugSections::load_named(&image, SectionId::dwo_name).ok()??;
    Some((image, sections))
}

/// Calls `with` with the unit whose identifier is `id`. A file of another build has no such unit.
fn with_matching<'a>(
    dwarf: &Dwarf<'a>,
    skeleton: &Unit<'a>,
    id: DwoId,
    with: impl FnOnce(&Dwarf<'a>, &Unit<'a>, &mut Names<'_>),
) -> Result<(), Missing> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(mut unit) = dwarf.unit(header) else { continue };
        if unit.dwo_id == Some(id) {
            unit.copy_relocated_attributes(skeleton);
            let index = UnitIndex::build(dwarf, 0).map_err(|_| Missing)?;
            with(dwarf, &unit, &mut Names::new((dwarf, &index), None));
            return Ok(());
        }
    }
    Err(Missing)
}
