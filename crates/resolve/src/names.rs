//! The end of a recording, or a pause in it: every distinct address gets its name, once, and a profile is made.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Strings};
use pyrograph_symbol::{
    KALLSYMS, Kallsyms, KernelSymbol, RunningKernel, Symbolized, Warning, inlined_names,
};

use crate::jit::{JitName, name_jit};
use crate::modules::{Held, Module, ModuleId, ModuleKind};
use crate::stacks::{Marker, RawFrame, RawStacks};

/// How frames get their names.
#[derive(Clone, Debug)]
pub struct Naming {
    /// How to find symbols.
    pub symbols: pyrograph_symbol::Options,
    /// Whether functions without a symbol keep their address.
    pub addresses: bool,
    /// The kernel's symbol table, if there is one that is right.
    pub kallsyms: Option<PathBuf>,
    /// How many threads work on it.
    pub threads: usize,
    /// Which function was at an address may depend on the time, which is on the clock of those who made it.
    pub by_time: bool,
    /// Samples keep their times.
    pub keep_time: bool,
}

#[cfg(test)]
impl Naming {
    /// With no more than the modules tell.
    pub fn plain() -> Self {
        let symbols = pyrograph_symbol::Options::default();
        Self {
            symbols,
            addresses: true,
            kallsyms: None,
            threads: 1,
            by_time: false,
            keep_time: false,
        }
    }
}

/// What the names came to.
#[derive(Clone, Debug, Default)]
pub struct NameStats {
    /// Distinct addresses in stacks. In a recording whose stacks got names several times, each of an
    /// address's times counts: to know them again would need the memory that is to be saved.
    pub addresses: u64,
    /// Those of them for which there was no symbol.
    pub unknown: u64,
    /// The kernel hides its addresses (`kernel.kptr_restrict`), and some were needed.
    pub kernel_hidden: bool,
    /// What stood in the way of better names.
    pub warnings: Vec<Warning>,
}

impl NameStats {
    /// Adds what others came to.
    pub fn add(&mut self, other: Self) {
        self.addresses += other.addresses;
        self.unknown += other.unknown;
        self.kernel_hidden |= other.kernel_hidden;
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Names the frames of the tables and puts the samples into `profile`, whose threads the samples refer to.
/// `labels`: the texts of those.
pub fn name_stacks(
    tables: &[&RawStacks],
    labels: &Strings,
    modules: &Held,
    options: &Naming,
    profile: &mut Profile,
) -> NameStats {
    let mut stats = NameStats::default();
    let named = name_addresses(tables, modules, options, &mut stats);
    for raw in tables {
        add_stacks(raw, labels, modules, &named, options.addresses, profile);
    }
    stats
}

fn add_stacks(
    raw: &RawStacks,
    labels: &Strings,
    modules: &Held,
    named: &Named,
    addresses: bool,
    profile: &mut Profile,
) {
    // Each raw frame becomes one frame, or several where calls were inlined: root first.
    let frames: Vec<Vec<FrameId>> = raw
        .frames()
        .iter()
        .map(|&frame| frame_rows(frame, named, labels, modules, addresses, profile))
        .collect();

    let mut stacks = vec![StackId::ROOT; raw.stacks.len()];
    // Which ones end in the stack of a waker, which is turned round: callees stand below their callers.
    let mut turned = vec![false; raw.stacks.len()];
    for index in 1..raw.stacks.len() {
        if let Some((parent, frame)) = raw.stacks.get(StackId::from_index(index)) {
            let rows = frames[frame.index()].iter();
            let mut intern = |stack, &frame: &FrameId| profile.stacks.intern(stack, frame);
            let begin = stacks[parent.index()];
            stacks[index] = match turned[parent.index()] {
                true => rows.rev().fold(begin, &mut intern),
                false => rows.fold(begin, &mut intern),
            };
            let turns = raw.frames()[frame.index()].as_marker() == Some(Marker::Waker);
            turned[index] = turned[parent.index()] || turns;
        }
    }
    for row in raw.samples() {
        let sample = Sample { stack: stacks[row.sample.stack.index()], ..row.sample };
        profile.push(sample, &[row.value]);
    }
}

/// What is known of each address.
type Named = HashMap<RawFrame, Name>;

/// The name of an address.
enum Name {
    /// Of an ELF file.
    Elf(Symbolized),
    /// Of the kernel: function, and its module in brackets if it is in one.
    Kernel(String, Option<String>),
    /// Of code made at run time.
    Jit(JitName),
}

fn name_addresses(
    tables: &[&RawStacks],
    modules: &Held,
    options: &Naming,
    stats: &mut NameStats,
) -> Named {
    let mut by_module: HashMap<ModuleId, Vec<(u64, u32)>> = HashMap::new();
    let frames = tables.iter().flat_map(|raw| raw.frames());
    for frame in frames.filter(|frame| frame.is_code()) {
        by_module.entry(frame.module).or_default().push((frame.address, frame.version));
    }
    for places in by_module.values_mut() {
        // Each table has an address once.
        if tables.len() > 1 {
            places.sort_unstable();
            places.dedup();
        }
        stats.addresses += places.len() as u64;
    }
    let mut work: Vec<(ModuleId, Vec<(u64, u32)>)> = by_module.into_iter().collect();
    // The largest first, so that no thread is left with one at the end; the number settles ties.
    work.sort_by_key(|(module, addresses)| (std::cmp::Reverse(addresses.len()), *module));

    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work_on = || {
        while let Some((id, addresses)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(module) = modules.get(id) else { continue };
            let result = name_module(*id, module, addresses, options);
            results.lock().unwrap_or_else(|error| error.into_inner()).push((*id, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(work.len()) {
            scope.spawn(work_on);
        }
        work_on();
    });

    let mut results = results.into_inner().unwrap_or_else(|error| error.into_inner());
    results.sort_by_key(|(module, _)| *module);
    let mut named = Named::new();
    for (module, result) in results {
        stats.kernel_hidden |= result.kernel_hidden;
        stats.warnings.extend(result.warnings);
        for ((address, version), name) in result.names {
            named.insert(RawFrame { module, address, version }, name);
        }
    }
    stats.unknown = stats.addresses.saturating_sub(named.len() as u64);
    named
}

/// What one module's pass gave.
#[derive(Default)]
struct ModuleNames {
    /// By address and version.
    names: Vec<((u64, u32), Name)>,
    warnings: Vec<Warning>,
    kernel_hidden: bool,
}

fn name_module(
    id: ModuleId,
    module: &Module,
    places: &[(u64, u32)],
    options: &Naming,
) -> ModuleNames {
    // Only code that was made at run time has versions.
    let addresses: Vec<u64> = match &module.kind {
        ModuleKind::Jit { .. } => Vec::new(),
        _ => places.iter().map(|(address, _)| *address).collect(),
    };
    match &module.kind {
        ModuleKind::Kernel => {
            let cache = options.symbols.cache.as_deref();
            match options.kallsyms.as_deref() {
                Some(path) if path == Path::new(KALLSYMS) => name_running_kernel(cache, &addresses),
                Some(path) => name_kernel(path, &addresses),
                None => ModuleNames::default(),
            }
        }
        ModuleKind::KernelCode { name } => {
            let name = |&address: &u64| ((address, 0), Name::Kernel(name.clone(), None));
            ModuleNames { names: addresses.iter().map(name).collect(), ..Default::default() }
        }
        ModuleKind::Jit { map, dump } => {
            let named = name_jit(map.as_deref(), dump.as_deref(), places);
            let names = named.names.into_iter().map(|(at, name)| (at, Name::Jit(name))).collect();
            ModuleNames {
                names,
                warnings: named.warning.into_iter().collect(),
                ..Default::default()
            }
        }
        ModuleKind::Elf { symbols: Some(symbols), .. } => {
            name_elf(symbols, &addresses, &options.symbols)
        }
        ModuleKind::Elf { symbols: None, .. } | ModuleKind::Unknown | ModuleKind::OtherKernel => {
            debug_assert_ne!(id, ModuleId::KERNEL);
            ModuleNames::default()
        }
    }
}

fn name_elf(
    symbols: &pyrograph_symbol::Module,
    offsets: &[u64],
    options: &pyrograph_symbol::Options,
) -> ModuleNames {
    let mut known: Vec<(u64, u64)> = offsets
        .iter()
        .filter_map(|&offset| Some((symbols.file_offset_to_address(offset)?, offset)))
        .collect();
    known.sort_unstable();
    known.dedup_by_key(|(address, _)| *address);
    let addresses: Vec<u64> = known.iter().map(|&(address, _)| address).collect();
    let result = symbols.symbolize(&addresses, options);
    let names = known
        .iter()
        .zip(result.addresses)
        .filter(|(_, name)| !name.frames.is_empty())
        .map(|(&(_, offset), name)| ((offset, 0), Name::Elf(name)))
        .collect();
    ModuleNames { names, warnings: result.warnings, kernel_hidden: false }
}

fn name_kernel(path: &Path, addresses: &[u64]) -> ModuleNames {
    match Kallsyms::open(path) {
        Ok(symbols) if !symbols.is_restricted() => {
            let name = |&address| Some((address, kernel_name(symbols.lookup(address)?)));
            kernel_names(addresses.iter().filter_map(name))
        }
        _ => ModuleNames { kernel_hidden: true, ..Default::default() },
    }
}

fn name_running_kernel(cache: Option<&Path>, addresses: &[u64]) -> ModuleNames {
    let mut symbols = RunningKernel::new(cache);
    if symbols.is_hidden() {
        return ModuleNames { kernel_hidden: true, ..Default::default() };
    }
    let name = |&address| Some((address, kernel_name(symbols.lookup(address)?)));
    kernel_names(addresses.iter().filter_map(name))
}

fn kernel_name(symbol: KernelSymbol<'_>) -> Name {
    Name::Kernel(symbol.name.to_owned(), symbol.module.map(str::to_owned))
}

fn kernel_names(names: impl Iterator<Item = (u64, Name)>) -> ModuleNames {
    let names = names.map(|(address, name)| ((address, 0), name)).collect();
    ModuleNames { names, ..Default::default() }
}

/// The frames of one address, root first.
fn frame_rows(
    raw: RawFrame,
    named: &Named,
    labels: &Strings,
    modules: &Held,
    addresses: bool,
    profile: &mut Profile,
) -> Vec<FrameId> {
    if let Some(marker) = raw.as_marker() {
        let function = profile.strings.intern(marker.label());
        return vec![profile.frames.intern(Frame::named(function, FrameKind::Marker))];
    }
    if let Some((text, kind)) = raw.as_label() {
        let text = profile.strings.intern(labels.get(text));
        return vec![profile.frames.intern(Frame::named(text, kind))];
    }
    let forgotten;
    let module = match modules.get(&raw.module) {
        Some(module) => &**module,
        None => {
            forgotten = Module::forgotten(raw.module);
            &forgotten
        }
    };
    let path = profile.strings.intern(&module.path);
    let kind = match module.kind {
        ModuleKind::Kernel | ModuleKind::KernelCode { .. } | ModuleKind::OtherKernel => {
            FrameKind::Kernel
        }
        ModuleKind::Jit { .. } => FrameKind::Jit,
        ModuleKind::Elf { .. } | ModuleKind::Unknown => FrameKind::User,
    };
    let bare = Frame { module: path, kind, ..Frame::default() };
    match named.get(&raw) {
        Some(Name::Elf(symbolized)) => {
            let outermost = symbolized.frames.len() - 1;
            let frame = |(index, frame): (usize, &pyrograph_symbol::Frame)| {
                let file = frame
                    .file
                    .as_deref()
                    .map_or(StringId::EMPTY, |file| profile.strings.intern(file));
                let frame = Frame {
                    function: profile.strings.intern(&frame.function),
                    file,
                    line: frame.line,
                    kind: if index == outermost { kind } else { FrameKind::Inlined },
                    ..bare
                };
                profile.frames.intern(frame)
            };
            // The symbolizer gives the innermost first.
            symbolized.frames.iter().enumerate().rev().map(frame).collect()
        }
        Some(Name::Kernel(function, module)) => {
            let function = profile.strings.intern(function);
            let module = module.as_deref().map_or(path, |module| profile.strings.intern(module));
            vec![profile.frames.intern(Frame { function, module, ..bare })]
        }
        Some(Name::Jit(name)) => {
            let file = name.file.as_deref().map_or(StringId::EMPTY, |f| profile.strings.intern(f));
            let methods = inlined_names(&name.function).enumerate().map(|(depth, function)| {
                let kind = if depth == 0 { kind } else { FrameKind::Inlined };
                let function = profile.strings.intern(function);
                profile.frames.intern(Frame { function, file, line: name.line, kind, ..bare })
            });
            methods.collect()
        }
        None => {
            let place = unwind_function(module, raw.address);
            let frame = match place {
                // By convention: the linker takes this name for the program's entry.
                Some(Function { is_entry: true, .. }) => {
                    Frame { function: profile.strings.intern("_start"), ..bare }
                }
                _ if !addresses => bare,
                Some(Function { start, .. }) => Frame { address: start, ..bare },
                None => Frame { address: raw.address, ..bare },
            };
            vec![profile.frames.intern(frame)]
        }
    }
}

/// A function of which only the place is known.
struct Function {
    /// Where it starts, as a file offset.
    start: u64,
    /// Whether the program starts with it.
    is_entry: bool,
}

/// The function that holds a file offset, by the file's unwind table, which a stripped file has,
/// too: so that all its samples are of one frame, and not of one for each call that it makes.
fn unwind_function(module: &Module, offset: u64) -> Option<Function> {
    let ModuleKind::Elf { unwind: Some(unwind), .. } = &module.kind else { return None };
    let address = unwind.svma(offset)?;
    let start = unwind.function(address)?.start;
    Some(Function {
        start: offset.checked_sub(address - start)?,
        is_entry: unwind.entry() == Some(start),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::sync::Arc;

    use pyrograph_profile::{ThreadId, ValueType};

    use super::*;

    #[test]
    fn inlined_methods_of_a_java_map_are_frames() {
        let mut map = tempfile::tempfile().expect("a temporary file");
        map.write_all(b"1000 10 LApp;::run->LList;::get->LArray;::at\n2000 10 Ptr::operator->()\n")
            .and_then(|()| map.rewind())
            .expect("it can be written");
        let kind = ModuleKind::Jit { map: Some(Arc::new(map)), dump: None };
        let modules = Held::from([(ModuleId(0), Arc::new(Module { path: String::new(), kind }))]);
        let frame = |address| RawFrame::new(ModuleId(0), address);
        let mut raw = RawStacks::default();
        let stack = raw.intern(&[frame(0x2004), frame(0x1008)]);
        raw.push(Sample { thread: ThreadId(0), ..Sample::new(stack) }, 1);

        let mut profile = Profile::new(vec![ValueType::samples()]);
        let options = Naming::plain();
        let stats = name_stacks(&[&raw], &Strings::default(), &modules, &options, &mut profile);
        assert_eq!((stats.addresses, stats.unknown), (2, 0));

        let sample = profile.samples.iter().next().expect("a sample");
        let frames: Vec<_> = profile
            .stacks
            .leaf_first(sample.stack)
            .map(|id| profile.frames.get(id))
            .map(|frame| (profile.strings.get(frame.function), frame.kind))
            .collect();
        let expect = [
            ("Ptr::operator->()", FrameKind::Jit),
            ("LArray;::at", FrameKind::Inlined),
            ("LList;::get", FrameKind::Inlined),
            ("LApp;::run", FrameKind::Jit),
        ];
        assert_eq!(frames, expect);
    }
}
