//! Symbolization at the end of a recording or at a pause in it: every distinct address is symbolized once, and a
//! profile is made.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use pyrograph_profile::{AddressId, FrameId, Profile, Sample, StackId, Strings};
use pyrograph_symbol::{
    BuildId, KALLSYMS, Kallsyms, KernelSymbol, RunningKernel, Symbolized, Warning,
};

use crate::chains::Chains;
use crate::frame_rows::{FrameRows, Names};
use crate::jit::{JitName, name_jit};
use crate::module_ids::ModuleId;
use crate::modules::{Held, Module, ModuleKind};
use crate::stacks::{Marker, RawFrame, RawStacks};

/// Function that maps the name of a symbol to another name.
pub type Rename = fn(&str) -> Cow<'_, str>;

/// Options of symbolization.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Options for finding symbols.
    pub symbols: pyrograph_symbol::Options,
    /// True if functions without a symbol keep their address.
    pub unknown_addresses: bool,
    /// True if samples keep the address of their leaf.
    pub instructions: bool,
    /// Replacement for names of functions.
    pub rename: Option<Rename>,
    /// Path of the kernel's symbol table, if there is one for the kernel that ran.
    pub kallsyms: Option<PathBuf>,
    /// Build ID of the kernel, if it is known.
    pub kernel_build_id: Option<BuildId>,
    /// Number of threads to use.
    pub threads: usize,
    /// True if the function at an address may depend on the time. Then sample times are on the clock of the process
    /// that compiled it.
    pub by_time: bool,
    /// True if samples keep their times.
    pub keep_times: bool,
    /// Names that are kept for the next pass, if one will come soon.
    pub kept: Option<Arc<KeptNames>>,
}

/// Names that are kept until the next pass, in addition to those that modules keep.
#[derive(Debug, Default)]
pub struct KeptNames {
    kernel: Mutex<Option<RunningKernel>>,
}

#[cfg(test)]
impl Naming {
    /// Options with defaults for everything: only the modules' own data is used.
    pub fn plain() -> Self {
        let symbols = pyrograph_symbol::Options::default();
        Self {
            symbols,
            unknown_addresses: true,
            instructions: false,
            rename: None,
            kallsyms: None,
            kernel_build_id: None,
            threads: 1,
            by_time: false,
            keep_times: false,
            kept: None,
        }
    }
}

/// Counts of symbolization.
#[derive(Clone, Debug, Default)]
pub struct NameStats {
    /// Number of distinct addresses in stacks. In a recording with several naming passes, an address counts once for
    /// each pass that it was in: to recognize it again would need the memory that the passes save.
    pub addresses: u64,
    /// Number of these without a symbol.
    pub unknown: u64,
    /// True if the kernel hides its addresses (`kernel.kptr_restrict`) and some were needed.
    pub kernel_hidden: bool,
    /// Problems that kept names from being found or made them worse.
    pub warnings: Vec<Warning>,
}

impl NameStats {
    /// Adds the counts of another pass.
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

/// Symbolizes the frames of the tables and puts the samples into `profile`, which has the threads that the samples
/// refer to. `labels`: texts of label frames.
pub fn name_stacks(
    tables: &[&RawStacks],
    labels: &Strings,
    modules: &Held,
    options: &Naming,
    profile: &mut Profile,
) -> NameStats {
    let mut stats = NameStats::default();
    let frames: Vec<&[RawFrame]> = tables.iter().map(|raw| raw.frames()).collect();
    let named = name_addresses(&frames, modules, options, &mut stats);
    for (raw, names) in tables.iter().zip(&named.tables) {
        let names = Names { frames: raw.frames(), names, all: &named.names };
        let mut rows = FrameRows::new(names, labels, modules, options);
        add_stacks(raw, &mut rows, options, profile);
    }
    profile.tell_overloads_apart();
    stats
}

/// Like [`name_stacks`], with the stacks of a file, which become the profile's only samples.
pub fn name_chains(
    chains: Chains,
    modules: &Held,
    options: &Naming,
    profile: &mut Profile,
) -> NameStats {
    let mut stats = NameStats::default();
    let named = name_addresses(&[chains.frames()], modules, options, &mut stats);
    let names = Names { frames: chains.frames(), names: &named.tables[0], all: &named.names };
    let labels = Strings::default();
    let mut rows = FrameRows::new(names, &labels, modules, options);
    // Frames of the last chain, from the root on, with the stack up to each: the next chain mostly has the same outer
    // frames.
    let mut path: Vec<(FrameId, StackId)> = Vec::new();
    let stack = |number| {
        let mut frames = chains.chain(number).rev();
        let mut same = 0;
        let mut next = frames.next();
        while let Some(frame) = next
            && path.get(same).is_some_and(|(known, _)| *known == frame)
        {
            same += 1;
            next = frames.next();
        }
        path.truncate(same);
        for frame in next.into_iter().chain(frames) {
            let caller = path.last().map_or(StackId::ROOT, |(_, stack)| *stack);
            let ids = rows.of(frame, profile).iter();
            let stack = ids.fold(caller, |stack, &frame| profile.stacks.intern(stack, frame));
            path.push((frame, stack));
        }
        path.last().map_or(StackId::ROOT, |(_, stack)| *stack)
    };
    let stacks: Vec<StackId> = (0..chains.len()).map(stack).collect();
    let leaves = (0..chains.len()).filter(|_| options.instructions);
    let addresses: Vec<Option<AddressId>> =
        leaves.map(|number| rows.address(chains.chain(number).next()?, profile)).collect();
    let mut samples = chains.into_samples();
    if options.instructions {
        samples.set_addresses(|chain| addresses[chain.index()]);
    }
    samples.map_stacks(|chain| stacks[chain.index()]);
    debug_assert!(profile.samples.is_empty());
    profile.samples = samples;
    profile.tell_overloads_apart();
    stats
}

fn add_stacks(raw: &RawStacks, rows: &mut FrameRows<'_>, options: &Naming, profile: &mut Profile) {
    let mut stacks = vec![StackId::ROOT; raw.stacks.len()];
    // True for stacks that end in the stack of a waker, which is reversed: there, callees are below their callers.
    let mut turned = vec![false; raw.stacks.len()];
    for index in 1..raw.stacks.len() {
        if let Some((parent, frame)) = raw.stacks.get(StackId::from_index(index)) {
            let rows = rows.of(frame, profile).iter();
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
        let stack = row.sample.stack;
        let leaf = raw.stacks.get(stack).filter(|_| options.instructions && !turned[stack.index()]);
        let address = leaf.and_then(|(_, frame)| rows.address(frame, profile));
        let sample = Sample { stack: stacks[stack.index()], address, ..row.sample };
        profile.push(sample, &row.weight.columns());
    }
}

/// Names of the addresses in some tables of frames.
pub(crate) struct Named {
    pub names: Vec<Name>,
    /// For each name, the start address of the symbol; [`NO_START`] if it is unknown.
    pub starts: Vec<u64>,
    /// For each frame of each table, the index of its name, or [`NAMELESS`].
    pub tables: Vec<Vec<u32>>,
}

/// Value in place of an unknown start address.
pub const NO_START: u64 = u64::MAX;

/// A name, shared by all addresses of one module that have it.
pub enum Name {
    /// Symbol in an ELF file: frames, innermost first.
    Elf(Arc<[pyrograph_symbol::Frame]>),
    /// Symbol in the kernel: the function, and its module in brackets if it is in one.
    Kernel(String, Option<String>),
    /// Symbol of JIT-compiled code.
    Jit(JitName),
}

/// Value in place of the index of a name.
pub const NAMELESS: u32 = u32::MAX;

/// An address in a module (64 bits), its version (32), and the index of the frame over all tables (32). One number is
/// sorted in half the time of three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u128);

impl Place {
    fn new(frame: RawFrame, number: FrameId) -> Self {
        let place = u128::from(frame.address) << 32 | u128::from(frame.version());
        Self(place << 32 | u128::from(number.0))
    }

    fn address(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn version(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn number(self) -> u32 {
        self.0 as u32
    }
}

pub(crate) fn name_addresses(
    tables: &[&[RawFrame]],
    modules: &Held,
    options: &Naming,
    stats: &mut NameStats,
) -> Named {
    let mut by_module: HashMap<ModuleId, Vec<Place>> = HashMap::new();
    for (number, frame) in tables.iter().copied().flatten().enumerate() {
        if frame.is_code() {
            let places = by_module.entry(frame.module).or_default();
            places.push(Place::new(*frame, FrameId::from_index(number)));
        }
    }
    let mut work: Vec<(ModuleId, Vec<Place>)> = by_module.into_iter().collect();
    // The largest first, so that no thread is left with a large one at the end; the module number settles ties.
    work.sort_by_key(|(module, places)| (std::cmp::Reverse(places.len()), *module));

    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work: Vec<_> = work.into_iter().map(|(id, places)| (id, Mutex::new(places))).collect();
    let work_on = || {
        while let Some((id, places)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let places = std::mem::take(&mut *lock(places));
            let result = name_places(*id, modules.get(id), places, options);
            lock(&results).push((*id, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(work.len()) {
            scope.spawn(work_on);
        }
        work_on();
    });

    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(module, _)| *module);
    let mut all = vec![NAMELESS; tables.iter().map(|frames| frames.len()).sum()];
    let (mut names, mut starts) = (Vec::new(), Vec::new());
    for (_, result) in results {
        stats.kernel_hidden |= result.names.kernel_hidden;
        stats.warnings.extend(result.names.warnings);
        let has_name = |name: &&u32| **name != NAMELESS;
        let known = result.names.of.iter().filter(has_name).count();
        stats.addresses += result.addresses as u64;
        stats.unknown += (result.addresses - known) as u64;
        for (frame, name) in result.frames {
            all[frame as usize] = name + names.len() as u32;
        }
        names.extend(result.names.names);
        starts.extend(result.names.starts);
    }
    let mut rest = &all[..];
    let tables = tables.iter().map(|frames| {
        let (own, others) = rest.split_at(frames.len());
        rest = others;
        own.to_vec()
    });
    Named { tables: tables.collect(), names, starts }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of the frames in one module.
struct PlaceNames {
    names: ModuleNames,
    /// Number of distinct addresses.
    addresses: usize,
    /// Indices of frames, with the indices of their names.
    frames: Vec<(u32, u32)>,
}

fn name_places(
    id: ModuleId,
    module: Option<&Arc<Module>>,
    mut places: Vec<Place>,
    options: &Naming,
) -> PlaceNames {
    places.sort_unstable();
    let mut distinct: Vec<(u64, u32)> =
        places.iter().map(|place| (place.address(), place.version())).collect();
    // The same address can be in several tables.
    distinct.dedup();
    let names = module.map(|module| name_module(id, module, &distinct, options));
    let names = names.unwrap_or_default();
    if let Some(ModuleKind::Elf { symbols: Some(symbols), .. }) = module.map(|module| &module.kind)
    {
        symbols.give_pages_back();
    }
    let mut at = 0;
    let frames = places.into_iter().filter_map(|place| {
        at += usize::from(distinct[at] != (place.address(), place.version()));
        Some((place.number(), *names.of.get(at)?)).filter(|&(_, name)| name != NAMELESS)
    });
    PlaceNames { frames: frames.collect(), addresses: distinct.len(), names }
}

/// Result of symbolizing one module.
#[derive(Default)]
struct ModuleNames {
    names: Vec<Name>,
    /// For each name, the start address of its symbol.
    starts: Vec<u64>,
    /// For each requested address and version, the index of its name, or [`NAMELESS`]; empty if no address has a name.
    of: Vec<u32>,
    warnings: Vec<Warning>,
    kernel_hidden: bool,
}

impl ModuleNames {
    /// Creates a result for `count` addresses without names.
    fn nameless(count: usize) -> Self {
        Self { of: vec![NAMELESS; count], ..Self::default() }
    }

    /// Adds a name and assigns it to an address.
    fn add(&mut self, at: usize, name: Name, start: u64) {
        self.of[at] = self.names.len() as u32;
        self.names.push(name);
        self.starts.push(start);
    }

    /// Assigns the last name to an address.
    fn add_last(&mut self, at: usize) {
        self.of[at] = self.names.len().wrapping_sub(1) as u32;
    }
}

fn name_module(
    id: ModuleId,
    module: &Module,
    places: &[(u64, u32)],
    options: &Naming,
) -> ModuleNames {
    // Only JIT-compiled code has versions.
    let addresses: Vec<u64> = match &module.kind {
        ModuleKind::Jit { .. } => Vec::new(),
        _ => places.iter().map(|(address, _)| *address).collect(),
    };
    match &module.kind {
        ModuleKind::Kernel => {
            let cache = options.symbols.cache.as_deref();
            match options.kallsyms.as_deref() {
                Some(path) if path == Path::new(KALLSYMS) => match &options.kept {
                    Some(kept) => {
                        let mut kernel = lock(&kept.kernel);
                        let kernel = kernel.get_or_insert_with(|| RunningKernel::new(cache));
                        kernel.renew(cache);
                        name_running_kernel(kernel, &addresses)
                    }
                    None => name_running_kernel(&mut RunningKernel::new(cache), &addresses),
                },
                Some(path) => name_kernel(path, &addresses),
                None => ModuleNames::default(),
            }
        }
        ModuleKind::KernelCode { name, start } => ModuleNames {
            names: vec![Name::Kernel(name.clone(), None)],
            starts: vec![*start],
            of: vec![0; addresses.len()],
            ..Default::default()
        },
        ModuleKind::Jit { map, dump } => {
            let named = name_jit(map.as_deref(), dump.as_deref(), places);
            let mut names = ModuleNames::nameless(places.len());
            for (place, name) in named.names {
                if let Ok(at) = places.binary_search(&place) {
                    let start = name.start;
                    names.add(at, Name::Jit(name), start);
                }
            }
            names.warnings.extend(named.warning);
            names
        }
        ModuleKind::Elf { symbols: Some(symbols), .. } => name_elf(symbols, &addresses, options),
        ModuleKind::Elf { symbols: None, .. } | ModuleKind::Unknown | ModuleKind::OtherKernel => {
            debug_assert_ne!(id, ModuleId::KERNEL);
            ModuleNames::default()
        }
    }
}

fn name_elf(symbols: &pyrograph_symbol::Module, offsets: &[u64], options: &Naming) -> ModuleNames {
    let address = |(at, &offset)| Some((symbols.file_offset_to_address(offset)?, at));
    let mut known: Vec<(u64, usize)> = offsets.iter().enumerate().filter_map(address).collect();
    known.sort_unstable();
    let mut addresses: Vec<u64> = known.iter().map(|&(address, _)| address).collect();
    addresses.dedup();
    let result = match options.kept {
        Some(_) => symbols.symbolize_again(&addresses, &options.symbols),
        None => symbols.symbolize(&addresses, &options.symbols),
    };
    let mut names = ModuleNames::nameless(offsets.len());
    names.warnings = result.warnings;
    let mut found = addresses.iter().zip(result.addresses).peekable();
    for (address, at) in known {
        while found.next_if(|(other, _)| **other < address).is_some() {}
        let Some((_, Symbolized { frames, start })) = found.peek() else { break };
        // Converted to a file offset, as the addresses of frames are.
        let into = start.and_then(|start| address.checked_sub(start));
        let start = into.map_or(NO_START, |into| offsets[at].wrapping_sub(into));
        match names.names.last() {
            _ if frames.is_empty() => {}
            Some(Name::Elf(last)) if Arc::ptr_eq(last, frames) => names.add_last(at),
            _ => names.add(at, Name::Elf(Arc::clone(frames)), start),
        }
    }
    names
}

fn name_kernel(path: &Path, addresses: &[u64]) -> ModuleNames {
    match Kallsyms::open(path) {
        Ok(symbols) if !symbols.is_restricted() => {
            let mut names = ModuleNames::nameless(addresses.len());
            for (at, &address) in addresses.iter().enumerate() {
                add_kernel_name(&mut names, at, symbols.lookup(address));
            }
            names
        }
        _ => ModuleNames { kernel_hidden: true, ..Default::default() },
    }
}

fn name_running_kernel(symbols: &mut RunningKernel, addresses: &[u64]) -> ModuleNames {
    if symbols.is_hidden() {
        return ModuleNames { kernel_hidden: true, ..Default::default() };
    }
    let mut names = ModuleNames::nameless(addresses.len());
    for (at, &address) in addresses.iter().enumerate() {
        add_kernel_name(&mut names, at, symbols.lookup(address));
    }
    names
}

fn add_kernel_name(names: &mut ModuleNames, at: usize, symbol: Option<KernelSymbol<'_>>) {
    let Some(KernelSymbol { name, module, start, .. }) = symbol else { return };
    match names.names.last() {
        Some(Name::Kernel(last, of)) if last == name && of.as_deref() == module => {
            names.add_last(at);
        }
        _ => names.add(at, Name::Kernel(name.to_owned(), module.map(str::to_owned)), start),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::sync::Arc;

    use pyrograph_profile::{FrameKind, ThreadId, ValueType};

    use super::*;
    use crate::stacks::Weight;

    /// Of `perf.data` from elsewhere: perf keeps the symbols of its kernel.
    #[test]
    fn addresses_of_a_kernel_that_ran_elsewhere_have_its_build_id() {
        let mut kallsyms = tempfile::NamedTempFile::new().expect("a temporary file");
        kallsyms.write_all(b"ffffffff81000100 T vfs_read\n").expect("it can be written");
        let path = "[kernel.kallsyms]".to_owned();
        let module = Module { path: path.clone(), kind: ModuleKind::Kernel };
        let modules = Held::from([(ModuleId::KERNEL, Arc::new(module))]);
        let mut raw = RawStacks::default();
        let stack = raw.intern(&[RawFrame::new(ModuleId::KERNEL, 0xffff_ffff_8100_0123)]);
        raw.push(Sample { thread: ThreadId(0), ..Sample::new(stack) }, Weight::one(1));

        let mut profile = Profile::new(vec![ValueType::samples(); Weight::COLUMNS]);
        let options = Naming {
            instructions: true,
            kallsyms: Some(kallsyms.path().to_owned()),
            kernel_build_id: BuildId::new(&[7; 20]),
            ..Naming::plain()
        };
        name_stacks(&[&raw], &Strings::default(), &modules, &options, &mut profile);
        let address = profile.addresses.iter().next().expect("an address");
        let text = |id| profile.strings.get(id);
        assert_eq!((text(address.module), text(address.function)), (&*path, "vfs_read"));
        assert_eq!(text(address.build_id), "07".repeat(20));
        assert_eq!(address.offset, 0xffff_ffff_8100_0123);
    }

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
        raw.push(Sample { thread: ThreadId(0), ..Sample::new(stack) }, Weight::one(1));

        let mut profile = Profile::new(vec![ValueType::samples(); Weight::COLUMNS]);
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
