//! Kernel code. For the running kernel it is read from memory if that is permitted; for other kernels from their
//! `vmlinux`, which provides the source lines for both.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use pyrograph_elf::object::elf::{FileHeader64, PT_LOAD};
use pyrograph_elf::object::read::elf::{FileHeader, ProgramHeader};
use pyrograph_elf::object::{Endianness, FileKind};
use pyrograph_profile::Profile;
use pyrograph_symbol::{BuildId, KALLSYMS, Kallsyms, Options, running_kernel_build_id};

use crate::code::{Code, KERNEL, architecture, hottest, native};
use crate::vmlinux::Vmlinux;
use crate::{Error, Function};

/// Memory of the kernel, as a core file (proc(5)).
const KCORE: &str = "/proc/kcore";

/// Maximum size of a kernel function.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum size of the headers of a core file, enough for a machine with thousands of memory ranges.
const MOST_HEADERS: u64 = 1 << 20;

/// A kernel, cached because reading it is slow and many of its functions have samples.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// True for the running kernel.
    runs: bool,
    /// Symbols of the running kernel; `None` if they cannot be read.
    symbols: Option<Rc<Kallsyms>>,
    file: Option<Vmlinux>,
}

impl Kernel {
    fn read(profile: &Profile, options: &Options, build_id: &BuildId) -> Result<Self, Error> {
        let digits = build_id.to_string();
        let text = |id| profile.strings.get(id);
        let ours = profile.addresses.iter().filter(|of| {
            text(of.module) == KERNEL && text(of.build_id) == digits && !of.function.is_empty()
        });
        let known = ours.map(|of| (text(of.function), of.offset));
        let file = Vmlinux::find(&options.locator, build_id, known);
        let runs = running_kernel_build_id().as_ref() == Some(build_id);
        if file.is_none() {
            can_be_shown(runs, build_id)?;
        }
        let symbols = if runs { Kallsyms::open(Path::new(KALLSYMS)).ok() } else { None };
        Ok(Self { runs, symbols: symbols.map(Rc::new), file })
    }
}

/// Returns an error that explains why the code cannot be shown, and what would help.
fn can_be_shown(runs: bool, build_id: &BuildId) -> Result<(), Error> {
    let package = "install the kernel's debug package";
    if !runs {
        return Err(no_code(&format!(
            "the samples are of another kernel than the one that runs, and there is no vmlinux with its build ID, {build_id}: \
             annotate where it runs, {package}, or name a copy of the file system that has it with --symfs"
        )));
    }
    match File::open(KCORE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_code(&format!(
            "this kernel has no {KCORE}, and there is no vmlinux with its build ID, {build_id}: {package}"
        ))),
        Err(error) => Err(no_code(&format!(
            "neither {KCORE} ({error}) nor a vmlinux with its build ID can be read; run as root, or {package}"
        ))),
    }
}

fn no_code(reason: &str) -> Error {
    Error::NoCode(format!("the kernel's code cannot be shown: {reason}"))
}

/// Finds the code of the kernel function `function`, whose name is `name`.
pub(crate) fn find(
    function: &Function,
    name: &str,
    profile: &Profile,
    options: &Options,
    known: &mut Vec<(BuildId, Kernel)>,
    notes: &mut Vec<String>,
) -> Result<Code, Error> {
    let Ok(build_id) = function.build_id.parse::<BuildId>() else {
        return Err(no_code("the recording does not have the build ID of its kernel"));
    };
    let at = match known.iter().position(|(id, _)| *id == build_id) {
        Some(at) => at,
        None => {
            let kernel = Kernel::read(profile, options, &build_id)?;
            known.push((build_id, kernel));
            known.len() - 1
        }
    };
    let kernel = &known[at].1;
    if let Some(file) = &kernel.file
        && let Some(code) = of_file(function, name, kernel.runs, file, options, notes)
    {
        return code;
    }
    match &kernel.symbols {
        Some(symbols) => of_memory(function, symbols, kernel.file.is_some(), notes),
        None if kernel.runs => Err(no_code(&format!("{KALLSYMS} cannot be read"))),
        None => Err(no_code(&format!(
            "{name} is not in the vmlinux of the kernel that ran: code of its modules is shown only where it runs"
        ))),
    }
}

/// Returns code of a function in the file. If that kernel is running and its memory is readable, the code is read from
/// there. `None` if the function is not in the file.
fn of_file(
    function: &Function,
    name: &str,
    runs: bool,
    file: &Vmlinux,
    options: &Options,
    notes: &mut Vec<String>,
) -> Option<Result<Code, Error>> {
    // In the file's addresses, to which KASLR adds an offset.
    let extent = |address| file.extent(name, address, &options.locator);
    let moved = |address: u64| address.wrapping_sub(file.distance);
    let (extent, samples, bias) = hottest(function.offsets.iter().cloned(), extent, moved, notes)?;
    let Range { start, end } = extent;
    let len = usize::try_from(end.checked_sub(start)?.min(MOST_BYTES)).ok()?;
    let image = file.module.image();
    let memory = runs
        .then(|| read_memory(Path::new(KCORE), start.wrapping_add(file.distance), len))
        .and_then(Result::ok);
    let bytes = match memory {
        Some(bytes) => bytes,
        None => {
            notes.push(if runs {
                format!("code is that of the file: {KCORE}, which has it as it was patched, cannot be read")
            } else {
                "code is that of the file, before the kernel patched it".to_owned()
            });
            let from = usize::try_from(image.offset_of(start)?).ok()?;
            let bytes = image.bytes().get(from..)?;
            bytes[..len.min(bytes.len())].to_vec()
        }
    };
    let arch = match architecture(image) {
        Ok(arch) => arch,
        Err(other) => return Some(Err(no_code(&format!("it is of {other}")))),
    };
    Some(Ok(Code {
        module_path: function.module.clone(),
        arch,
        start,
        bytes,
        samples,
        bias,
        module: Some(Rc::clone(&file.module)),
        ..Code::default()
    }))
}

/// Returns code of the running kernel, or of one of its modules.
fn of_memory(
    function: &Function,
    symbols: &Rc<Kallsyms>,
    is_module: bool,
    notes: &mut Vec<String>,
) -> Result<Code, Error> {
    let extent = |address| extent(symbols, address).map(|(start, end)| start..end);
    let places = function.offsets.iter().cloned();
    let Some((extent, samples, _)) = hottest(places, extent, |address| address, notes) else {
        return Err(no_code(&format!("{KALLSYMS} hides addresses: run as root")));
    };
    let Range { start, end } = extent;
    let bytes = read_memory(Path::new(KCORE), start, (end - start) as usize)
        .map_err(|error| no_code(&format!("{KCORE}: {error}; run as root")))?;
    notes.push(
        if is_module {
            "no source lines: the function is not in the kernel's vmlinux, but in a module"
        } else {
            "no source lines: there is no vmlinux of this kernel; its debug package has it"
        }
        .to_owned(),
    );
    Ok(Code {
        module_path: function.module.clone(),
        arch: native(),
        start,
        bytes,
        samples,
        symbols: Some(Rc::clone(symbols)),
        ..Code::default()
    })
}

/// Returns start and end of the function at an address.
fn extent(symbols: &Kallsyms, address: u64) -> Option<(u64, u64)> {
    let start = symbols.lookup(address)?.start;
    let is_in = |at: u64| symbols.lookup(at).is_some_and(|symbol| symbol.start == start);
    // All addresses up to the next symbol belong to this one.
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

/// Reads memory at an address from a core file.
fn read_memory(core: &Path, address: u64, len: usize) -> io::Result<Vec<u8>> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, "it is no core file with this address");
    let file = File::open(core)?;
    // Only its headers: the rest is the memory of the machine.
    let mut head = vec![0; size_of::<FileHeader64<Endianness>>()];
    file.read_exact_at(&mut head, 0)?;
    let headers = {
        let header = FileHeader64::<Endianness>::parse(&*head).map_err(|_| damaged())?;
        let endian = header.endian().map_err(|_| damaged())?;
        let size = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
        header.e_phoff(endian).checked_add(size).filter(|&len| len <= MOST_HEADERS)
    };
    head.resize(headers.ok_or_else(damaged)? as usize, 0);
    file.read_exact_at(&mut head, 0)?;
    let head = &*head;
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
