//! Code of the running kernel: as it is in memory, where that may be read, and its lines, where there is a `vmlinux`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pyrograph_elf::object::elf::{FileHeader64, PT_LOAD};
use pyrograph_elf::object::read::elf::{FileHeader, ProgramHeader};
use pyrograph_elf::object::{Endianness, FileKind, ObjectSymbol};
use pyrograph_symbol::{
    BuildId, KALLSYMS, Kallsyms, Module, Options, Source, running_kernel_build_id,
};

use crate::choose::Located;
use crate::code::{Code, native};
use crate::{Error, Function};

/// The memory of the kernel, as a core file (proc(5)).
const KCORE: &str = "/proc/kcore";

/// Longer functions of the kernel there are none.
const MOST_BYTES: u64 = 1 << 20;

/// The headers of a core file of a machine with thousands of pieces of memory.
const MOST_HEADERS: usize = 1 << 20;

/// What is known of the running kernel: to read it takes long, and samples are of many of its functions.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// None if they cannot be read.
    symbols: Option<Kallsyms>,
    debug: Option<Rc<Module>>,
}

impl Kernel {
    fn read(options: &Options, build_id: Option<&BuildId>) -> Result<Self, Error> {
        let debug = vmlinux(options, build_id).map(Rc::new);
        if debug.is_none()
            && let Err(error) = File::open(KCORE)
        {
            return Err(no_code(&format!(
                "neither {KCORE} ({error}) nor a vmlinux with its build ID can be read; run as root, or install the \
                 kernel's debug package"
            )));
        }
        Ok(Self { symbols: Kallsyms::open(Path::new(KALLSYMS)).ok(), debug })
    }
}

fn no_code(reason: &str) -> Error {
    Error::NoCode(format!("the kernel's code cannot be shown: {reason}"))
}

/// The code of a function of the kernel.
pub(crate) fn find(
    function: &Function,
    options: &Options,
    known: &mut Option<Kernel>,
    notes: &mut Vec<String>,
) -> Result<Code, Error> {
    let recorded = function.build_id.parse::<BuildId>().ok();
    if recorded.is_none() || recorded != running_kernel_build_id() {
        return Err(no_code(
            "the samples are of another kernel than the one that runs: annotate where it runs",
        ));
    }
    let kernel = match known {
        Some(kernel) => kernel,
        None => known.insert(Kernel::read(options, recorded.as_ref())?),
    };
    let hottest = function.offsets.iter().max_by_key(|(_, values)| values.first());
    let Some((address, _)) = hottest else { return Err(no_code("there is no sample")) };
    let place = kernel.symbols.as_ref().and_then(|of| Some((extent(of, *address)?, of)));
    let Some(((start, end), symbols)) = place else {
        return Err(no_code(&format!("{KALLSYMS} hides addresses: run as root")));
    };
    let is_in = |(address, _): &&Located| (start..end).contains(address);
    let samples: Vec<_> = function.offsets.iter().filter(is_in).cloned().collect();
    let memory = read_memory(Path::new(KCORE), start, (end - start) as usize);
    let name = symbols.lookup(start).map(|symbol| symbol.name.to_owned()).unwrap_or_default();
    let in_file = kernel.debug.clone().and_then(|module| {
        let at = module.image().functions_named(&name).next().map(|symbol| symbol.address())?;
        Some((module, at))
    });
    let module_path = function.module.clone();
    let Some((module, at)) = in_file else {
        let bytes = memory.map_err(|error| no_code(&format!("{KCORE}: {error}; run as root")))?;
        notes.push(
            "no source lines: there is no vmlinux of this kernel; its debug package has it"
                .to_owned(),
        );
        return Ok(Code { module_path, arch: native(), start, bytes, samples, ..Code::default() });
    };
    // In the addresses of the file, which the kernel moves as it starts.
    let moved = |(address, values): Located| (at.wrapping_add(address - start), values);
    let samples = samples.into_iter().map(moved).collect();
    let bytes = match memory {
        Ok(bytes) => bytes,
        Err(_) => {
            notes.push(format!(
                "code is that of the file: {KCORE}, which has it as it was patched, cannot be read"
            ));
            let image = module.image();
            let symbol = image.functions_named(&name).next();
            symbol.and_then(|symbol| image.code_of(&symbol).map(<[u8]>::to_vec)).unwrap_or_default()
        }
    };
    Ok(Code {
        module_path,
        arch: native(),
        start: at,
        bytes,
        samples,
        module: Some(module),
        ..Code::default()
    })
}

/// Where the function at an address begins and ends.
fn extent(symbols: &Kallsyms, address: u64) -> Option<(u64, u64)> {
    let start = symbols.lookup(address)?.start;
    let is_in = |at: u64| symbols.lookup(at).is_some_and(|symbol| symbol.start == start);
    // All addresses up to the next symbol are of this one.
    let (mut inside, mut outside) = (address, start.saturating_add(MOST_BYTES));
    if inside >= outside {
        return None;
    }
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if is_in(middle) { inside = middle } else { outside = middle }
    }
    Some((start, outside))
}

/// A `vmlinux` with symbols, in the places where distributions have it.
fn vmlinux(options: &Options, build_id: Option<&BuildId>) -> Option<Module> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim();
    let mut paths: Vec<PathBuf> = Vec::new();
    for dir in &options.locator.debug_dirs {
        paths.push(dir.join(format!("boot/vmlinux-{release}")));
        paths.push(dir.join(format!("lib/modules/{release}/vmlinux")));
    }
    paths.push(format!("/boot/vmlinux-{release}").into());
    paths.push(format!("/lib/modules/{release}/build/vmlinux").into());
    paths.push(format!("/lib/modules/{release}/vmlinux").into());
    paths.iter().find_map(|path| {
        let file = File::open(path).ok()?;
        let source = Source { path: path.to_str()?, build_id, root: None };
        Module::open(&file, source).ok()
    })
}

/// Bytes of memory at an address, out of a core file.
fn read_memory(core: &Path, address: u64, len: usize) -> io::Result<Vec<u8>> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, "it is no core file with this address");
    let file = File::open(core)?;
    let mut head = vec![0; MOST_HEADERS];
    let mut read = 0;
    while read < head.len() {
        match file.read_at(&mut head[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    let head = &head[..read];
    if FileKind::parse(head).ok() != Some(FileKind::Elf64) {
        return Err(damaged());
    }
    let header = FileHeader64::<Endianness>::parse(head).map_err(|_| damaged())?;
    let endian = header.endian().map_err(|_| damaged())?;
    let segments = header.program_headers(endian, head).map_err(|_| damaged())?;
    let offset =
        segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
            let into = address.checked_sub(segment.p_vaddr(endian))?;
            let fits = into.checked_add(len as u64)? <= segment.p_memsz(endian);
            fits.then(|| segment.p_offset(endian).checked_add(into))?
        });
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset.ok_or_else(damaged)?)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_the_next_begins() {
        let text = "ffffffff81000000 T one\nffffffff81000040 t two\nffffffff81000123 T three\n";
        let symbols = Kallsyms::read(text.as_bytes()).expect("readable");
        let two = (0xffff_ffff_8100_0040, 0xffff_ffff_8100_0123);
        for address in [two.0, two.0 + 0x80, two.1 - 1] {
            assert_eq!(extent(&symbols, address), Some(two));
        }
        assert_eq!(extent(&symbols, 5), None);
        assert_eq!(extent(&symbols, 0xffff_ffff_8120_0000), None, "far behind the last one");
    }

    /// A core file with one piece of memory: 16 bytes at ffffffff81000000.
    #[test]
    fn memory_is_read_from_a_core_file() {
        let mut core = Vec::new();
        core.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        core.extend([4u16, 62].iter().flat_map(|of| of.to_le_bytes()));
        core.extend(1u32.to_le_bytes());
        core.extend([0u64, 64, 0].iter().flat_map(|of| of.to_le_bytes()));
        core.extend(0u32.to_le_bytes());
        core.extend([64u16, 56, 1, 0, 0, 0].iter().flat_map(|of| of.to_le_bytes()));
        core.extend([1u32, 5].iter().flat_map(|of| of.to_le_bytes()));
        let base = 0xffff_ffff_8100_0000u64;
        core.extend([120u64, base, 0, 16, 16, 0].iter().flat_map(|of| of.to_le_bytes()));
        core.extend(0u8..16);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kcore");
        std::fs::write(&path, core).expect("it is writable");
        assert_eq!(read_memory(&path, base + 4, 3).expect("it is there"), [4, 5, 6]);
        for (address, len) in [(base - 1, 2), (base + 15, 2), (u64::MAX, 1)] {
            assert!(read_memory(&path, address, len).is_err());
        }
        std::fs::write(&path, b"\x7fELF").expect("it is writable");
        assert!(read_memory(&path, base, 1).is_err());
    }
}
