//! Long recordings: stacks are symbolized and dropped while the recording goes on.
//!
//! Before symbolization, stacks differ by the addresses in them, and a long recording has new addresses all the time.
//! After it, they differ by functions, of which programs have a limited number. So once raw stacks take much memory,
//! they are symbolized on a background thread (a naming pass), and the result is added to the profile, in which equal
//! stacks are merged. The profile is bounded, too: when it is full, new stacks are cut where they depart from known
//! ones.
//!
//! Names of JIT-compiled code may come late, at worst when the process ends. So stacks that lead through such code are
//! in a table of their own, which has more room.

use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyrograph_profile::{
    Address, AddressId, Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Strings,
    ValueType,
};

use crate::modules::{Held, ModuleKind, Modules};
use crate::names::{NameStats, Naming, name_stacks};
use crate::stacks::{Marker, RawFrame, RawStacks, Totals, Weight};
use crate::versions::split_versions;

/// Limits the CPU time of naming passes to one part in this many: the next pass starts only when that share is kept,
/// unless stacks take four times their share of memory. Each pass reads whole symbol tables.
const MOST_CPU: u32 = 20;

/// Number of modules of ended processes that start a naming pass ([`crate::modules::JitModules::gone`]).
const MOST_GONE: usize = 2048;

/// Number of opened files at which files without mappings in any process are closed. Each is mapped into our own
/// memory, most with a debug file, and Linux permits 65,530 mappings (`vm.max_map_count`).
pub const MOST_OPENED: usize = 4096;

/// Thresholds for the memory of stacks, in bytes.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// Raw stacks that take this much are symbolized.
    unnamed: usize,
    /// The same for stacks with JIT-compiled code.
    jit: usize,
    /// A profile that takes this much accepts no more stacks: its tables double when they are full.
    profile: usize,
}

impl Shares {
    fn of(memory: usize) -> Self {
        Self { unnamed: memory / 64, jit: memory / 16, profile: memory / 4 }
    }
}

/// Memory of stacks, and the work that keeps it small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackMemory {
    /// Size of all stacks, raw and symbolized, in bytes.
    pub bytes: usize,
    /// Limit to the size, in bytes.
    pub limit: Option<usize>,
    /// Number of naming passes before the end.
    pub settled: u32,
    /// Time that these took on a background thread.
    pub took: Duration,
}

/// Stacks that are not symbolized yet.
#[derive(Debug, Default)]
pub struct Unnamed {
    /// Stacks without JIT-compiled code.
    pub files: RawStacks,
    /// Stacks that lead through JIT-compiled code.
    pub jit: RawStacks,
    /// Texts of labels in both.
    pub labels: Strings,
}

impl Unnamed {
    /// Returns true if a stack leads through JIT-compiled code.
    pub fn is_jit(frames: &[RawFrame]) -> bool {
        frames.iter().any(|frame| frame.module.is_jit())
    }

    /// Table for stacks with or without JIT-compiled code.
    pub fn table(&mut self, is_jit: bool) -> &mut RawStacks {
        if is_jit { &mut self.jit } else { &mut self.files }
    }

    /// All distinct frames.
    pub fn frames(&self) -> impl Iterator<Item = &RawFrame> {
        self.files.frames().iter().chain(self.jit.frames())
    }

    fn bytes(&self) -> usize {
        self.files.bytes() + self.jit.bytes() + self.labels.bytes()
    }

    /// Takes out the stacks that are due: all, or all without JIT-compiled code.
    fn take(&mut self, with_jit: bool) -> Self {
        match with_jit {
            true => std::mem::take(self),
            false => Self {
                files: std::mem::take(&mut self.files),
                jit: RawStacks::default(),
                labels: self.labels.clone(),
            },
        }
    }

    /// Symbolizes all addresses and puts the samples into `profile`.
    pub fn name(mut self, modules: &Held, naming: &Naming, profile: &mut Profile) -> NameStats {
        if naming.by_time {
            for raw in [&mut self.files, &mut self.jit] {
                *raw = split_versions(std::mem::take(raw), modules);
                if !naming.keep_times {
                    raw.forget_times();
                }
            }
        }
        name_stacks(&[&self.files, &self.jit], &self.labels, modules, naming, profile)
    }
}

/// Stacks to symbolize, with everything needed for it.
pub struct Order {
    pub unnamed: Unnamed,
    /// Modules that the stacks lead through.
    pub modules: Held,
    pub naming: Naming,
    /// Types of the values in the samples' columns.
    pub values: Vec<ValueType>,
}

impl Order {
    /// Symbolizes the stacks.
    pub fn run(self) -> Part {
        let begun = Instant::now();
        let mut profile = Profile::new(self.values);
        let stats = self.unnamed.name(&self.modules, &self.naming, &mut profile);
        Part { profile, stats, took: begun.elapsed() }
    }

    /// Symbolizes the stacks, and then frees debug information. Otherwise it would stay in memory for as long as the
    /// modules are kept.
    fn run_and_forget(self) -> Part {
        let modules = self.modules.clone();
        let part = self.run();
        for module in modules.values() {
            if let ModuleKind::Elf { symbols: Some(symbols), .. } = &module.kind {
                symbols.forget_debug();
            }
        }
        part
    }
}

/// Symbolized stacks, in a profile of their own. Its samples refer to the threads of the whole profile.
#[derive(Debug)]
pub struct Part {
    profile: Profile,
    /// Counts of the symbolization.
    pub stats: NameStats,
    took: Duration,
}

/// Keeps the memory of a recording small.
#[derive(Debug, Default)]
pub struct Settler {
    /// Thresholds; `None` if the memory is not limited.
    shares: Option<Shares>,
    work: Option<JoinHandle<Option<Part>>>,
    /// Size of the stacks that the background thread works on, in bytes.
    in_work: usize,
    /// End of the last naming pass, and the time that it took.
    last: Option<(Instant, Duration)>,
    /// Index of the profile's samples, once a naming pass has added some.
    totals: Totals,
    memory: StackMemory,
    /// True if the profile accepts no more stacks.
    is_full: bool,
    /// Sum of the values of samples whose stacks were left out or cut.
    left_out: u64,
    /// Stacks since the last snapshot, once a snapshot was taken.
    fresh: Option<Fresh>,
}

/// Symbolized stacks since the last snapshot.
#[derive(Debug)]
struct Fresh {
    profile: Profile,
    totals: Totals,
}

/// Urgency of a naming pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// A pass is due if its cost is acceptable.
    Names,
    /// A pass is due now; nothing else may go on before it.
    Now,
}

impl Settler {
    /// Creates a settler with a limit in bytes; `None` for no limit.
    pub fn new(limit: Option<usize>) -> Self {
        let memory = StackMemory { limit, ..StackMemory::default() };
        Self { shares: limit.map(Shares::of), memory, ..Self::default() }
    }

    /// Current memory of stacks.
    pub fn memory(&self, unnamed: &Unnamed, profile: &Profile) -> StackMemory {
        let unnamed = unnamed.bytes() + self.in_work;
        StackMemory { bytes: unnamed + profile.bytes() + self.totals.bytes(), ..self.memory }
    }

    /// Returns true if a naming pass was begun.
    pub fn has_settled(&self) -> bool {
        self.memory.settled > 0 || self.work.is_some()
    }

    /// Returns true if there is no more memory for new stacks.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sum of the values of samples whose stacks were left out or cut.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn due(&self, bytes: usize, share: usize) -> Due {
        let is_dear = || self.last.is_some_and(|(at, took)| at.elapsed() < MOST_CPU * took);
        match bytes / share.max(1) {
            0 => Due::Nothing,
            1..4 if self.work.is_some() || is_dear() => Due::Nothing,
            1..4 => Due::Names,
            4.. => Due::Now,
        }
    }

    /// Takes out the stacks that are due for a naming pass, if any. The flag is true if these are all stacks.
    pub fn take_due(
        &mut self,
        unnamed: &mut Unnamed,
        modules: &Modules,
    ) -> Option<(Unnamed, bool)> {
        let shares = self.shares?;
        let files = self.due(unnamed.files.bytes(), shares.unnamed);
        let labels = self.due(unnamed.labels.bytes(), shares.unnamed);
        let jit = self.due(unnamed.jit.bytes(), shares.jit);
        let gone = self.due(modules.jit.gone(), MOST_GONE);
        let opened = self.due(modules.opened_lately(), MOST_OPENED);
        let with_jit = [labels, jit, gone, opened].iter().any(|due| *due != Due::Nothing);
        (with_jit || files != Due::Nothing).then(|| (unnamed.take(with_jit), with_jit))
    }

    /// Symbolizes stacks on a background thread, whose earlier result must have been taken. If no thread can be
    /// started, it is done at once and the result returned.
    pub fn begin(&mut self, order: Order) -> Option<Part> {
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            step_back();
            receiver.recv().map(Order::run_and_forget).ok()
        };
        match std::thread::Builder::new().name("names".to_owned()).spawn(work) {
            Ok(thread) => {
                self.in_work = order.unnamed.bytes();
                self.work = Some(thread);
                // The thread waits for nothing else.
                let _ = sender.send(order);
                None
            }
            Err(_) => Some(order.run_and_forget()),
        }
    }

    /// Result of the background thread, if it has finished.
    pub fn done(&mut self) -> Option<Part> {
        self.work.as_ref().is_some_and(JoinHandle::is_finished).then(|| self.wait()).flatten()
    }

    /// Waits for the background thread's result; `None` if it has no work.
    pub fn wait(&mut self) -> Option<Part> {
        let part = self.work.take()?.join();
        self.in_work = 0;
        part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Adds symbolized stacks to the whole profile.
    pub fn add(&mut self, part: &Part, profile: &mut Profile) {
        self.memory.settled += 1;
        self.memory.took += part.took;
        self.last = Some((Instant::now(), part.took));
        let most = self.shares.map_or(usize::MAX, |shares| shares.profile);
        let mut whole = Whole { profile, totals: &mut self.totals, room: Room::Enough };
        whole.room = whole.room_in(most);
        self.left_out = self.left_out.saturating_add(whole.add(&part.profile));
        self.is_full = whole.room_in(most) != Room::Enough;
        if let Some(Fresh { profile, totals }) = &mut self.fresh {
            let mut fresh = Whole { profile, totals, room: Room::Enough };
            fresh.room = fresh.room_in(most);
            fresh.add(&part.profile);
        }
    }

    /// Resets the state, for a whole profile that is empty again.
    pub fn forget(&mut self) {
        self.totals = Totals::default();
        self.is_full = false;
        self.fresh = None;
    }

    /// Stacks that were added to the whole profile since the last call, as a profile of their own.
    pub fn snapshot(&mut self, whole: &Profile) -> Profile {
        let profile = Profile::new(whole.value_types.clone());
        let fresh = self.fresh.replace(Fresh { profile, totals: Totals::default() });
        let Some(Fresh { mut profile, .. }) = fresh else { return whole.clone() };
        // Interned in the same order, threads have the same numbers.
        for thread in whole.threads.iter() {
            let strings = &mut profile.strings;
            let same = thread.map_texts(|id| strings.intern(whole.strings.get(id)));
            profile.threads.intern(same);
        }
        profile
    }
}

/// Lowers the priority of the background thread, which it has inherited from the recording thread. It must not take
/// time from the recorded programs or from the recording thread.
fn step_back() {
    // SAFETY: it affects only this thread.
    unsafe { libc::nice(10) };
}

/// Room of a profile for more stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// Only for known stacks, and for one marker frame below each, which says that others are left out.
    Scarce,
    /// Not even for known stacks in combination with another thread.
    None,
}

/// The profile of the whole recording, in which equal stacks are merged.
struct Whole<'a> {
    profile: &'a mut Profile,
    totals: &'a mut Totals,
    room: Room,
}

impl Whole<'_> {
    fn room_in(&self, most: usize) -> Room {
        match (self.profile.bytes() + self.totals.bytes()) / most.max(1) {
            0 => Room::Enough,
            1 => Room::Scarce,
            _ => Room::None,
        }
    }

    /// Adds all samples of a part. Returns the sum of the values of those whose stacks were left out or cut.
    fn add(&mut self, part: &Profile) -> u64 {
        let strings: Vec<_> = part.strings.iter().map(|text| self.string(text)).collect();
        let frames: Vec<_> = part
            .frames
            .iter()
            .map(|frame| {
                let text = |id: StringId| strings[id.index()];
                let (function, module) = (text(frame.function)?, text(frame.module)?);
                self.frame(Frame { function, module, file: text(frame.file)?, ..frame })
            })
            .collect();
        let addresses: Vec<_> = part
            .addresses
            .iter()
            .map(|address| {
                let text = |id: StringId| strings[id.index()];
                let (module, build_id) = (text(address.module)?, text(address.build_id)?);
                let function = text(address.function)?;
                self.address(Address { module, build_id, function, ..address })
            })
            .collect();
        // For each stack of the part: its stack in the whole profile, and true if it was cut.
        let mut stacks = vec![(StackId::ROOT, false)];
        for (caller, frame) in part.stacks.rows() {
            let at = match stacks[caller.index()] {
                (caller, true) => (caller, true),
                (caller, false) => {
                    let stack = frames[frame.index()].and_then(|frame| self.stack(caller, frame));
                    stack.map_or_else(|| (self.ended(caller), true), |stack| (stack, false))
                }
            };
            stacks.push(at);
        }
        let mut left_out = 0u64;
        for (row, sample) in part.samples.iter().enumerate() {
            let weight = Weight::at(&part.samples, row);
            let (stack, mut is_cut) = stacks[sample.stack.index()];
            let address = sample.address.and_then(|address| addresses[address.index()]);
            let mut sample = Sample { stack, address, ..sample };
            if self.room == Room::None
                && self.totals.find(&self.profile.samples, sample).is_none()
                && !is_cut
            {
                (sample.stack, is_cut) = (self.ended(StackId::ROOT), true);
            }
            match sample.time {
                None => self.totals.add(&mut self.profile.samples, sample, weight),
                Some(_) => self.profile.samples.push(sample, &weight.columns()),
            }
            left_out = left_out.saturating_add(if is_cut { weight.value } else { 0 });
        }
        left_out
    }

    fn string(&mut self, text: &str) -> Option<StringId> {
        let strings = &mut self.profile.strings;
        if self.room == Room::Enough { Some(strings.intern(text)) } else { strings.find(text) }
    }

    fn frame(&mut self, frame: Frame) -> Option<FrameId> {
        let frames = &mut self.profile.frames;
        if self.room == Room::Enough { Some(frames.intern(frame)) } else { frames.find(frame) }
    }

    /// The exact instruction is the first detail that is dropped when room is scarce.
    fn address(&mut self, address: Address) -> Option<AddressId> {
        (self.room == Room::Enough).then(|| self.profile.addresses.intern(address))
    }

    fn stack(&mut self, caller: StackId, frame: FrameId) -> Option<StackId> {
        let stacks = &mut self.profile.stacks;
        match self.room {
            Room::Enough => Some(stacks.intern(caller, frame)),
            _ => stacks.find(caller, frame),
        }
    }

    /// Stack that ends with a marker, in place of one that goes on from `caller`.
    fn ended(&mut self, caller: StackId) -> StackId {
        let text = self.profile.strings.intern(Marker::LeftOut.label());
        let frame =
            self.profile.frames.intern(Frame::named(text, FrameKind::Marker(Marker::LeftOut)));
        let stacks = &mut self.profile.stacks;
        match self.room {
            Room::None => stacks.find(caller, frame),
            _ => Some(stacks.intern(caller, frame)),
        }
        .unwrap_or_else(|| stacks.intern(StackId::ROOT, frame))
    }
}

#[cfg(test)]
mod tests;
