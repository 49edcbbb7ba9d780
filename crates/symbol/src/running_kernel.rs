//! Symbols of the running kernel, cached until the machine restarts.
//!
//! The kernel takes 50 ms and more to print its symbols, most of the time of symbolization in many recordings. Its
//! own symbols stay the same as long as it runs; a module's symbols, as long as the module is loaded.

use std::fs;
use std::hash::BuildHasher;
use std::path::Path;

use foldhash::quality::FixedState;
use pyrograph_cache::{Folder, Stamp};

use crate::build_id::BuildId;
use crate::kallsyms::{Kallsyms, KernelSymbol};

/// File with the symbols of the running kernel.
pub const KALLSYMS: &str = "/proc/kallsyms";
const FILE: &str = "symbols";

/// Build ID of the running kernel, from `/sys/kernel/notes`.
pub fn running_kernel_build_id() -> Option<BuildId> {
    note_build_id(&fs::read("/sys/kernel/notes").ok()?)
}

/// Finds the build ID in ELF notes with this machine's byte order.
fn note_build_id(notes: &[u8]) -> Option<BuildId> {
    const BUILD_ID: u32 = 3;
    let mut rest = notes;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
    };
    loop {
        let (name, size, kind) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
        let name_end = 12usize.checked_add(usize::try_from(name).ok()?)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        if kind == BUILD_ID && rest.get(12..name_end)? == b"GNU\0" {
            return BuildId::new(rest.get(start..end)?);
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// Symbols of the running kernel.
#[derive(Debug)]
pub struct RunningKernel {
    identity: Option<u64>,
    /// Cache folder, and stamp of this kernel and its modules.
    folder: Option<(Folder, Stamp)>,
    kept: Option<Kallsyms>,
    read: Option<Option<Kallsyms>>,
}

impl RunningKernel {
    /// Loads cached symbols, if any. `cache` is a folder such as `~/.cache`; `None` disables the cache.
    pub fn new(cache: Option<&Path>) -> Self {
        let identity = identity();
        let folder = cache.and_then(|cache| Folder::open(cache, "kernel")).zip(identity.map(stamp));
        let kept = folder.as_ref().and_then(|(folder, stamp)| folder.read(FILE, *stamp));
        Self { identity, folder, kept: kept.and_then(Kallsyms::kept), read: None }
    }

    /// Updates the symbols after a while. If modules were loaded or unloaded, all are read again; else only symbols
    /// that come and go (BPF programs, trampolines) are, at the next lookup that needs them.
    pub fn renew(&mut self, cache: Option<&Path>) {
        if self.identity.is_none() || self.identity != identity() {
            *self = Self::new(cache);
            return;
        }
        let read = self.read.take().flatten().filter(|read| !read.is_restricted());
        self.kept = self.kept.take().or(read);
    }

    /// Finds the function at an address.
    pub fn lookup(&mut self, address: u64) -> Option<KernelSymbol<'_>> {
        if self.kept.as_ref().and_then(|kept| kept.lookup(address)).is_some_and(stays) {
            return self.kept.as_ref()?.lookup(address);
        }
        // Kernel callchains can end in user-space addresses. Code that the kernel loaded since is never at such an
        // address.
        let of_programs = |kept: &Kallsyms| is_upper(kept.last_start()) && !is_upper(address);
        if self.kept.as_ref().is_some_and(of_programs) {
            return None;
        }
        self.read()?.lookup(address)
    }

    /// Returns true if addresses are hidden from this user.
    pub fn is_hidden(&mut self) -> bool {
        self.kept.is_none() && self.read().is_none_or(Kallsyms::is_restricted)
    }

    /// Reads all symbols from [`KALLSYMS`], once, and stores them in the cache if it has none.
    fn read(&mut self) -> Option<&Kallsyms> {
        if self.read.is_none() {
            let read = Kallsyms::open(Path::new(KALLSYMS)).ok();
            if let (Some(symbols), Some((folder, stamp)), None) = (&read, &self.folder, &self.kept)
                && !symbols.is_empty()
            {
                // If the file cannot be written, the symbols are read again the next time.
                let _ = folder.write(FILE, *stamp, symbols.bytes());
            }
            self.read = Some(read);
        }
        self.read.as_ref()?.as_ref()
    }
}

/// Returns true if an address is in the upper half of the address space, where 64-bit kernels are on nearly all
/// machines.
fn is_upper(address: u64) -> bool {
    address >> 63 == 1
}

fn stamp(of: u64) -> Stamp {
    Stamp { kind: *b"symbols", version: 1, of }
}

/// Returns true if a symbol remains valid as long as the kernel runs, or its module is loaded. Code that the kernel
/// generates at run time (BPF programs, trampolines) comes and goes; it is never between two functions of a module.
fn stays(symbol: KernelSymbol<'_>) -> bool {
    let is_made = |module: &str| module == "[bpf]" || module.starts_with("[__builtin__");
    !symbol.is_last && !symbol.module.is_some_and(is_made)
}

/// Hash that identifies this run of the kernel and its loaded modules; `None` if there is no boot ID.
fn identity() -> Option<u64> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    // A kernel can be built without modules.
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    Some(hash(&boot, &modules))
}

/// Hashes the boot ID and lines of `/proc/modules`: `ext4 978944 1 - Live 0xffffffffc0a3c000`. Only name, size and
/// address of a module are used, because its use count changes.
fn hash(boot: &[u8], modules: &str) -> u64 {
    let mut modules: Vec<_> = modules
        .lines()
        .map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next(), words.next(), words.nth(3))
        })
        .collect();
    modules.sort_unstable();
    FixedState::default().hash_one((boot, modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_the_same() {
        let base = tempfile::tempdir().expect("a folder");
        let all = Kallsyms::open(Path::new(KALLSYMS)).expect("the kernel has them");
        if all.is_restricted() || all.is_empty() {
            eprintln!("skipped: only root may see the kernel's addresses");
            return;
        }
        let text = fs::read_to_string(KALLSYMS).expect("the kernel has them");
        let start = |line: &str| u64::from_str_radix(line.get(..16)?, 16).ok();
        // BPF programs come and go at any moment, those of other tests as well.
        let stays = |address: &u64| all.lookup(*address).is_some_and(stays);
        let addresses = text.lines().filter_map(start).map(|start| start + 1).filter(stays);
        let mut first = RunningKernel::new(Some(base.path()));
        let mut second = None;
        for address in addresses.step_by(97) {
            let found = first.lookup(address);
            assert_eq!(found, all.lookup(address), "{address:x}");
            let second = second.get_or_insert_with(|| {
                let second = RunningKernel::new(Some(base.path()));
                assert!(second.kept.is_some(), "the first has written them");
                second
            });
            assert_eq!(second.lookup(address), all.lookup(address), "{address:x}");
        }
        assert!(!first.is_hidden() && second.is_some_and(|mut second| !second.is_hidden()));

        let mut third = RunningKernel::new(Some(base.path()));
        assert_eq!(third.lookup(0x7f61_af8d_d557), None);
        assert!(third.read.is_none(), "nothing was loaded at a program's address");
    }

    #[test]
    fn what_is_of_another_kernel_or_damaged_is_not_taken() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(base.path(), "kernel").expect("our own folder");
        let symbols =
            Kallsyms::read(&b"1000 T a\n2000 T b\n3000 t c\t[m]\n"[..]).expect("it is read");
        let whole = symbols.bytes();
        let kept = |bytes: &[u8]| {
            folder.write(FILE, stamp(7), bytes).expect("it is ours");
            Kallsyms::kept(folder.read(FILE, stamp(7)).expect("it was written"))
        };
        let found = kept(whole).expect("it is whole");
        for address in [0, 0x1000, 0x1fff, 0x2010, 0x3004, u64::MAX] {
            assert_eq!(found.lookup(address), symbols.lookup(address));
        }
        assert_eq!(found.lookup(0x3004).and_then(|symbol| symbol.module), Some("[m]"));
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 4;
            // Damage that the container's check would have found: searching goes on as well as it can.
            if let Some(found) = kept(&damaged) {
                let _ = found.lookup(0x1000);
                let _ = found.lookup(0x3004);
            }
            assert!(kept(&whole[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn modules_that_are_loaded_make_a_difference() {
        let modules =
            "ext4 978944 1 - Live 0xffffffffc0a3c000\njbd2 1 1 ext4, Live 0xffffffffc0000000 (E)\n";
        let same =
            "jbd2 1 3 ext4, Live 0xffffffffc0000000 (E)\next4 978944 2 - Live 0xffffffffc0a3c000\n";
        assert_eq!(hash(b"a", modules), hash(b"a", same));
        assert_ne!(hash(b"a", modules), hash(b"b", modules));
        assert_ne!(hash(b"a", modules), hash(b"a", &modules.replace("a3c0", "a3d0")));
        assert_ne!(hash(b"a", modules), hash(b"a", ""));
    }
}
