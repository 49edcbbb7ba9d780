//! The code of a function: its bytes, and the file with its source lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

use pyrograph_disassemble::Arch;
use pyrograph_elf::Image;
use pyrograph_elf::object::{Architecture, Object};
use pyrograph_profile::Profile;
use pyrograph_symbol::{BuildId, JitDump, Kallsyms, Module, Options, Source};

use crate::choose::Located;
use crate::kernel::Kernel;
use crate::{Error, Function, jit, kernel};

/// Code of a function.
#[derive(Default)]
pub(crate) struct Code {
    /// Path of its file, or the module's name if it has no file.
    pub module_path: String,
    /// Instruction set.
    pub arch: Arch,
    /// Address of its first byte.
    pub start: u64,
    /// Machine code.
    pub bytes: Vec<u8>,
    /// Addresses and values of samples.
    pub samples: Vec<Located>,
    /// These addresses minus the offsets in the profile.
    pub bias: u64,
    /// The file, for symbols and source lines of addresses.
    pub module: Option<Rc<Module>>,
    /// Names of the running kernel's functions, if there is no file.
    pub symbols: Option<Rc<Kallsyms>>,
    /// Lines of JIT-compiled code.
    pub lines: Option<JitLines>,
    /// Modification time of the file: newer source files may differ from those that were compiled.
    pub modified: Option<SystemTime>,
}

/// Identifies a function in a jitdump file.
pub(crate) struct JitLines {
    pub dump: JitDump<File>,
    pub number: u32,
}

/// perf's name of the kernel.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";

impl Code {
    /// Finds the code of `function`, whose name is `name`.
    pub fn find(
        function: &Function,
        name: &str,
        profile: &Profile,
        options: &Options,
        modules: &mut Modules,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        match function.module.as_str() {
            KERNEL => kernel::find(function, name, profile, options, &mut modules.kernels, notes),
            path if path.ends_with(".dump") => jit::find(function, name, options, notes),
            _ => Self::of_file(function, options, modules, notes),
        }
    }

    fn of_file(
        function: &Function,
        options: &Options,
        modules: &mut Modules,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let (module, modified) = modules.open(function, options)?;
        let no_code = |reason: &str| {
            Err(Error::NoCode(format!("the code cannot be shown: {} {reason}", function.module)))
        };
        let arch = match architecture(module.image()) {
            Ok(arch) => arch,
            Err(other) => return no_code(&format!("is of {other}")),
        };
        let address = |offset| module.file_offset_to_address(offset);
        let places = function.offsets.iter().filter(|(offset, _)| address(*offset).is_some());
        let extent = |offset| module.extent(address(offset)?, &options.locator);
        let moved = |offset| address(offset).unwrap_or(offset);
        let Some((extent, samples, bias)) = hottest(places.cloned(), extent, moved, notes) else {
            return no_code("has no symbol there");
        };
        let Range { start, end } = extent;
        let image = module.image();
        let bytes = image.offset_of(start).and_then(|offset| {
            let from = usize::try_from(offset).ok()?;
            let len = usize::try_from(end.checked_sub(start)?).ok()?;
            let bytes = image.bytes().get(from..)?;
            Some(bytes[..len.min(bytes.len())].to_vec())
        });
        let Some(bytes) = bytes else { return no_code("does not hold its own code") };
        let module_path = function.module.clone();
        Ok(Self {
            module_path,
            arch,
            start,
            bytes,
            samples,
            bias,
            module: Some(module),
            modified,
            ..Self::default()
        })
    }
}

/// Returns the instruction set of a file, or the name of an unsupported one.
pub(crate) fn architecture(image: &Image) -> Result<Arch, String> {
    match image.elf().architecture() {
        Architecture::X86_64 => Ok(Arch::X86_64),
        Architecture::Aarch64 => Ok(Arch::Aarch64),
        other => Err(format!("{other:?}; x86-64 and AArch64 are shown")),
    }
}

/// Result of [`hottest`]: extent, samples with their addresses, and the difference between addresses and offsets.
pub(crate) type Hottest = (Range<u64>, Vec<Located>, u64);

/// Among the functions that contain the samples, returns the one with the most samples: its extent in the file, its
/// samples, and the difference between their addresses and offsets. A file can have several static functions of the
/// same name.
///
/// `extent` returns the address range in the file of the function at an offset; `moved` returns the address in the file
/// of an offset.
pub(crate) fn hottest(
    places: impl Iterator<Item = Located>,
    mut extent: impl FnMut(u64) -> Option<Range<u64>>,
    moved: impl Fn(u64) -> u64,
    notes: &mut Vec<String>,
) -> Option<Hottest> {
    let mut parts: Vec<Hottest> = Vec::new();
    for (place, values) in places {
        let address = moved(place);
        // Finding an extent takes a pass over all symbols.
        let known = parts.iter_mut().find(|(extent, ..)| extent.contains(&address));
        if let Some((_, samples, _)) = known {
            samples.push((address, values));
        } else if let Some(extent) = extent(place) {
            parts.push((extent, vec![(address, values)], address.wrapping_sub(place)));
        }
    }
    let count = parts.len();
    let value = |samples: &Vec<Located>| -> u64 {
        let values = samples.iter().filter_map(|(_, values)| values.first());
        values.fold(0, |a, b| a.saturating_add(*b))
    };
    let found = parts.into_iter().rev().max_by_key(|(_, of, _)| value(of))?;
    if count > 1 {
        notes.push(format!(
            "{count} functions of this file have the name: this one has the most samples"
        ));
    }
    Some(found)
}

/// An opened file, and its modification time.
type Opened = (Rc<Module>, Option<SystemTime>);

/// Cache of opened files.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Files by path and build ID.
    files: BTreeMap<(String, String), Opened>,
    kernels: Vec<(BuildId, Kernel)>,
}

impl Modules {
    fn open(&mut self, function: &Function, options: &Options) -> Result<Opened, Error> {
        let key = (function.module.clone(), function.build_id.clone());
        if let Some(known) = self.files.get(&key) {
            return Ok(known.clone());
        }
        let (module, modified) = open(function, options)?;
        Ok(self.files.entry(key).or_insert((Rc::new(module), modified)).clone())
    }
}

/// Returns the instruction set of this machine.
pub(crate) fn native() -> Arch {
    if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 }
}

/// Opens the file that contained the code when samples were taken.
fn open(function: &Function, options: &Options) -> Result<(Module, Option<SystemTime>), Error> {
    let path = Path::new(&function.module);
    let build_id = function.build_id.parse::<BuildId>().ok();
    let file = options.locator.open_module(path, build_id.as_ref()).map_err(|error| {
        Error::NoCode(match (File::open(path), &build_id) {
            (Ok(_), Some(id)) => format!(
                "the code cannot be shown: {} has another build ID than {id}, which ran: record again, or name a copy \
                 of the file system that has it with --symfs",
                function.module
            ),
            _ => format!(
                "the code cannot be shown: failed to open {}: {error}; --symfs names a copy of the file system that has it",
                function.module
            ),
        })
    })?;
    let modified = file.metadata().and_then(|data| data.modified()).ok();
    let source = Source { path: &function.module, build_id: build_id.as_ref(), root: None };
    let module = Module::open(&file, source);
    let module =
        module.map_err(|error| Error::NoCode(format!("the code cannot be shown: {error}")))?;
    Ok((module, modified))
}
