//! The `vmlinux` of a kernel: found by build ID, with the offset at which the kernel was loaded (KASLR).

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pyrograph_elf::Image;
use pyrograph_elf::object::{Object, ObjectSymbol};
use pyrograph_symbol::{BuildId, Locator, Module, Source};

/// Alignment of the kernel's load address: 2 MiB on x86-64 (`CONFIG_PHYSICAL_ALIGN`), 64 KiB on AArch64
/// (`EFI_KIMG_ALIGN`).
const ALIGNMENT: u64 = 1 << 16;

/// Maximum number of functions from which the KASLR offset is determined.
const MOST_FUNCTIONS: usize = 1 << 12;

/// A `vmlinux`.
#[derive(Debug)]
pub(crate) struct Vmlinux {
    pub module: Rc<Module>,
    /// KASLR offset: addresses in memory minus addresses in the file.
    pub distance: u64,
}

impl Vmlinux {
    /// Finds the file with a build ID. `known` gives names of functions, and addresses inside them in memory.
    pub fn find<'a>(
        locator: &Locator,
        build_id: &BuildId,
        known: impl Iterator<Item = (&'a str, u64)>,
    ) -> Option<Self> {
        let module = places(locator, build_id).into_iter().find_map(|path| {
            let file = File::open(&path).ok()?;
            let source = Source { path: path.to_str()?, build_id: Some(build_id), root: None };
            Module::open(&file, source).ok()
        })?;
        let distance = distance(module.image(), known.take(MOST_FUNCTIONS))?;
        Some(Self { module: Rc::new(module), distance })
    }

    /// Returns the address range in the file of the function at an address in memory. `None` if the file has no
    /// function of this name there: the code belongs to a module, or was generated while the kernel ran.
    pub fn extent(&self, name: &str, address: u64, locator: &Locator) -> Option<Range<u64>> {
        let extent = self.module.extent(address.wrapping_sub(self.distance), locator)?;
        let mut symbols = self.module.image().elf().symbols();
        let is_it = symbols
            .any(|of| extent.contains(&of.address()) && of.name().is_ok_and(|of| of == name));
        is_it.then_some(extent)
    }
}

/// Returns the paths at which distributions install it, and where a build leaves it; those below `symfs` come first.
fn places(locator: &Locator, build_id: &BuildId) -> Vec<PathBuf> {
    let digits = build_id.to_string();
    let by_id = digits.split_at_checked(2).map(|(first, rest)| format!("{first}/{rest}"));
    let mut places = Vec::new();
    for root in locator.symfs.as_deref().into_iter().chain([Path::new("/")]) {
        let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        for dir in &locator.debug_dirs {
            let dir = below(dir);
            places.extend(by_id.as_ref().map(|id| dir.join(format!(".build-id/{id}.debug"))));
            places.extend(entries(&dir.join("boot")).filter(|path| is_vmlinux(path)));
            places.extend(entries(&dir.join("lib/modules")).map(|path| path.join("vmlinux")));
        }
        places.extend(entries(&below(Path::new("/boot"))).filter(|path| is_vmlinux(path)));
        for release in entries(&below(Path::new("/lib/modules"))) {
            places.extend(["build/vmlinux", "vmlinux"].map(|path| release.join(path)));
        }
    }
    if let Some((cache, id)) = locator.build_id_cache.as_ref().zip(by_id) {
        places.push(cache.join(format!(".build-id/{id}/elf")));
    }
    places
}

fn is_vmlinux(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinux"))
}

/// Returns the entries of a directory, sorted by name; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths.into_iter()
}

/// Returns the offset with which most of the known addresses are in the function of their name.
fn distance<'a>(image: &Image, known: impl Iterator<Item = (&'a str, u64)>) -> Option<u64> {
    let mut addresses: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, address) in known {
        addresses.entry(name).or_default().push(address);
    }
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    for symbol in image.functions() {
        let Ok(name) = symbol.name() else { continue };
        for address in addresses.get(name).into_iter().flatten() {
            let away = address.wrapping_sub(symbol.address());
            let into = away % ALIGNMENT;
            if into < symbol.size() {
                *votes.entry(away - into).or_default() += 1;
            }
        }
    }
    votes.into_iter().rev().max_by_key(|(_, votes)| *votes).map(|(distance, _)| distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> PathBuf {
        std::env::current_exe().expect("a path")
    }

    #[test]
    fn the_distance_is_what_most_functions_agree_on() {
        let image = Image::open(&own()).expect("an ELF file");
        let moved = 0xffff_ffff_8c40_0000;
        let functions: Vec<_> = image.functions().filter(|of| of.size() > 8).take(500).collect();
        let mut known: Vec<(&str, u64)> = functions
            .iter()
            .filter_map(|of| Some((of.name().ok()?, of.address() + of.size() - 1 + moved)))
            .collect();
        assert!(known.len() > 100);
        assert_eq!(distance(&image, known.iter().copied()), Some(moved));
        // A module has a function of the same name as the kernel.
        known[0].1 += 5 * ALIGNMENT;
        assert_eq!(distance(&image, known.iter().copied()), Some(moved));
        assert_eq!(distance(&image, [("no such function", 5)].into_iter()), None);
    }

    #[test]
    fn a_kernel_is_found_by_its_build_id() {
        let image = Image::open(&own()).expect("an ELF file");
        let main = image.functions_named("main").next().expect("a function");
        let known = || [("main", main.address() + 0x20_0000)].into_iter();
        let id = BuildId::new(image.build_id().expect("one")).expect("it is whole");
        let other = BuildId::new(&[7; 20]).expect("it is whole");
        for place in [
            "usr/lib/debug/boot/vmlinux-6.1.0-50-amd64",
            "usr/lib/debug/lib/modules/6.1.0/vmlinux",
            "boot/vmlinux",
            "lib/modules/6.1.0/build/vmlinux",
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(place);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is new");
            std::fs::copy(own(), &path).expect("it can be copied");
            let symfs = Some(folder.path().to_owned());
            let locator = Locator { symfs, build_id_cache: None, ..Locator::default() };
            let found = Vmlinux::find(&locator, &id, known()).expect(place);
            assert_eq!(found.distance, 0x20_0000);
            let at = main.address() + 0x20_0000;
            let extent = main.address()..main.address() + main.size();
            assert_eq!(found.extent("main", at, &locator), Some(extent));
            assert_eq!(found.extent("main_of_a_module", at, &locator), None);
            assert!(Vmlinux::find(&locator, &other, known()).is_none());
        }
    }
}
