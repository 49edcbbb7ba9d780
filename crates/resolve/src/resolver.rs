//! Records, one after the other, to stacks.

use pyrograph_event::{
    Abi, Comm, Context, CpuMode, Entry, FileId, Mmap, Mmap2, Record, Regs, Sample, Task, UserStack,
};
use pyrograph_profile as profile;
use pyrograph_profile::{Profile, Thread, ThreadId, ValueType};
use pyrograph_symbol::Options as SymbolOptions;
use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, StackEnd, Unwinder};

use crate::beyond::Beyond;
use crate::files::{Files, Identity, MappedFile};
use crate::modules::{ModuleId, Modules};
use crate::names::{NameStats, name_stacks};
use crate::processes::Processes;
use crate::stacks::{Marker, RawFrame, RawStacks};

/// The executable bit of a mapping's protection (`PROT_EXEC`).
const PROT_EXEC: u32 = 4;

/// More frames than any stack that makes sense: runaway recursion is cut here.
const MAX_FRAMES: usize = 4096;

/// What to make of the events.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the samples' periods count.
    pub value_type: ValueType,
    /// Count samples, not their periods.
    pub count_samples: bool,
    /// Keep each sample with its time and CPU. Otherwise only a total for each stack and thread is
    /// kept, so that a long recording needs no more memory than a short one.
    pub keep_time: bool,
    /// Leave the kernel's frames out.
    pub user_only: bool,
    /// How to find symbols.
    pub symbols: SymbolOptions,
}

/// What was counted on the way.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Samples.
    pub samples: u64,
    /// Samples that have a user stack.
    pub user_stacks: u64,
    /// User stacks whose copy was too small to hold them whole.
    pub truncated: u64,
    /// User stacks whose outer frames, for which the copy was too small, were read from the process
    /// when its sample was taken up: a fraction of a second later.
    pub completed: u64,
    /// User stacks that could not be unwound to their end for another reason.
    pub broken: u64,
    /// User stacks of which nothing could be read; not counted among `user_stacks`.
    pub unreadable_stacks: u64,
    /// Samples that were lost because a buffer was full.
    pub lost: u64,
    /// Times that the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// The paths of mapped files that could not be opened, or were replaced since.
    pub missing_files: Vec<String>,
    /// What the names came to.
    pub names: NameStats,
}

/// The profile, and what was counted on the way.
#[derive(Debug)]
pub struct Resolved {
    /// The profile.
    pub profile: Profile,
    /// The counts.
    pub stats: Stats,
}

/// Takes records, gives a profile.
pub struct Resolver<F> {
    files: F,
    options: Options,
    modules: Modules,
    processes: Processes,
    unwinder: Unwinder,
    raw: RawStacks,
    profile: Profile,
    stats: Stats,
    scratch: Scratch,
}

/// Memory that each sample uses again.
#[derive(Default)]
struct Scratch {
    frames: Vec<RawFrame>,
    unwound: Vec<pyrograph_unwind::Frame>,
}

impl<F: Files> Resolver<F> {
    /// Nothing is known yet; `files` finds what will be mapped.
    pub fn new(files: F, options: Options) -> Self {
        let value_type =
            if options.count_samples { ValueType::samples() } else { options.value_type.clone() };
        Self {
            files,
            profile: Profile::new(vec![value_type]),
            options,
            modules: Modules::default(),
            processes: Processes::default(),
            unwinder: Unwinder::new(ARCH),
            raw: RawStacks::default(),
            stats: Stats::default(),
            scratch: Scratch::default(),
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes a record. Records of all CPUs must come in the order of time.
    pub fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Mmap(mapping) => self.mmap(mapping),
            Record::Mmap2(mapping) => self.mmap2(mapping),
            Record::Comm(comm) => self.comm(comm),
            Record::Fork(task) => self.fork(task),
            Record::Exit(task) => self.exit(task),
            Record::Lost(lost) => self.stats.lost += lost.count,
            Record::LostSamples(lost) => self.stats.lost += lost.count,
            Record::Throttle(_) => self.stats.throttled += 1,
            _ => {}
        }
    }

    /// Counts a record that could not be read.
    pub fn unreadable(&mut self) {
        self.stats.unreadable += 1;
    }

    /// Names all addresses and makes the profile.
    pub fn finish(mut self) -> Resolved {
        self.modules.refresh_all_jit(&mut self.files);
        self.stats.missing_files = self.modules.missing();
        self.stats.names =
            name_stacks(&self.raw, self.modules.rows(), &self.options.symbols, &mut self.profile);
        Resolved { profile: self.profile, stats: self.stats }
    }

    fn comm(&mut self, comm: &Comm<'_>) {
        if comm.exec {
            self.processes.executed(comm.pid);
            self.modules.forget_process(&mut self.files, comm.pid);
        }
        let name = self.profile.strings.intern(&String::from_utf8_lossy(comm.name));
        self.processes.named(comm.pid, comm.tid, name);
    }

    fn fork(&mut self, task: &Task) {
        if task.pid != task.parent_pid {
            self.modules.forget_process(&mut self.files, task.pid);
        }
        let parent = (task.parent_pid, task.parent_tid);
        self.processes.forked(parent, (task.pid, task.tid));
        if task.synthesized && task.pid != task.parent_pid {
            self.processes.executed(task.pid);
        }
    }

    fn exit(&mut self, task: &Task) {
        if self.processes.exited(task.pid, task.tid) {
            self.modules.forget_process(&mut self.files, task.pid);
        }
    }

    fn mmap(&mut self, mapping: &Mmap<'_>) {
        if mapping.executable {
            let range = (mapping.start, mapping.len);
            self.map(mapping.pid, range, mapping.offset, &Identity::Unknown, mapping.path);
        }
    }

    fn mmap2(&mut self, mapping: &Mmap2<'_>) {
        if mapping.protection & PROT_EXEC == 0 {
            return;
        }
        let identity = match mapping.file {
            FileId::BuildId(id) => Identity::BuildId(id.as_bytes().to_vec()),
            FileId::Inode { inode: 0, .. } => Identity::Unknown,
            FileId::Inode { major, minor, inode, .. } => Identity::Inode { major, minor, inode },
        };
        let range = (mapping.start, mapping.len);
        self.map(mapping.pid, range, mapping.offset, &identity, mapping.path);
    }

    fn map(
        &mut self,
        pid: i32,
        (start, len): (u64, u64),
        offset: u64,
        identity: &Identity,
        path: &[u8],
    ) {
        // −1 stands for the kernel, whose symbols say where its modules are.
        let (Some(end), 0..) = (start.checked_add(len), pid) else { return };
        let path = String::from_utf8_lossy(path);
        let mapped = MappedFile { pid, range: start..end, path: &path, identity };
        let module = self.modules.mapped(&mut self.files, &mapped);
        let unwind = self.modules.unwind(module).cloned();
        self.processes.space_mut(pid).map(start..end, offset, unwind, module.0);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.stats.samples += 1;
        let (pid, tid) = (sample.id.pid.unwrap_or(-1), sample.id.tid.unwrap_or(-1));
        self.collect_frames(sample, pid);
        let stack = self.raw.intern(&self.scratch.frames);
        let value = if self.options.count_samples { 1 } else { sample.period.unwrap_or(1) };
        let thread = self.thread(pid, tid);
        let row = profile::Sample { stack, thread, cpu: sample.id.cpu, time: sample.id.time };
        if self.options.keep_time {
            self.raw.push(row, value);
        } else {
            self.raw.add(row, value);
        }
    }

    fn thread(&mut self, pid: i32, tid: i32) -> ThreadId {
        let strings = &mut self.profile.strings;
        let idle = (pid == 0).then(|| strings.intern("swapper"));
        let name = idle.or_else(|| self.processes.name(tid));
        let process = self.processes.name(pid).or(name);
        // Its name was told by a record that got lost: the number is all that is left.
        let process = process.unwrap_or_else(|| strings.intern(&format!(":{pid}")));
        let thread =
            Thread { pid: Some(pid), tid: Some(tid), process, name: name.unwrap_or(process) };
        self.profile.threads.intern(thread)
    }

    /// Collects the sample's frames, leaf first: the kernel's, then the program's.
    fn collect_frames(&mut self, sample: &Sample<'_>, pid: i32) {
        let Scratch { frames, unwound } = &mut self.scratch;
        frames.clear();
        let space = self.processes.space(pid);
        let mut chain =
            Chain { frames, space, modules: &self.modules, user_only: self.options.user_only };
        let mut user = chain.callchain(sample);
        let mut marker = None;
        match (&sample.user_regs, sample.user_stack) {
            (Some(regs), Some(stack)) => {
                user = true;
                if let Some(registers) = registers(regs)
                    && !stack.bytes.is_empty()
                {
                    unwound.clear();
                    let start = registers.sp().unwrap_or(0);
                    let tid = sample.id.tid.unwrap_or(-1);
                    let live = Beyond::new(&self.files, tid, start, stack.bytes);
                    let beyond = |address| stack.is_cut().then(|| live.read(address)).flatten();
                    let copy = StackCopy { start, bytes: stack.bytes };
                    let found = self
                        .unwinder
                        .unwind_live(space, &registers, copy, &beyond, MAX_FRAMES, unwound);
                    chain.unwound(unwound);
                    marker = marker_for(found.end, stack);
                    self.stats.completed += u64::from(found.beyond_copy > 0 && marker.is_none());
                } else {
                    if sample.mode == CpuMode::User {
                        chain.lone(sample);
                    }
                    let is_empty = stack.bytes.is_empty();
                    marker = Some(if is_empty { Marker::Unreadable } else { Marker::Broken });
                }
            }
            _ if chain.frames.is_empty() => user = chain.lone(sample),
            _ => {}
        }
        frames.extend(marker.map(RawFrame::marker));
        self.stats.count_stack(user, marker);
    }
}

impl Stats {
    fn count_stack(&mut self, user: bool, marker: Option<Marker>) {
        match marker {
            Some(Marker::Truncated) => self.truncated += 1,
            Some(Marker::Broken) => self.broken += 1,
            Some(Marker::Unreadable) => {
                self.unreadable_stacks += 1;
                return;
            }
            None => {}
        }
        self.user_stacks += u64::from(user);
    }
}

/// What stands in place of the missing outer part of a stack.
fn marker_for(end: StackEnd, stack: UserStack<'_>) -> Option<Marker> {
    match end {
        StackEnd::Root => None,
        // A copy that is not full ends where the mapped memory ends: more would not have helped.
        StackEnd::Truncated if !stack.is_cut() => Some(Marker::Broken),
        StackEnd::Truncated | StackEnd::TooManyFrames => Some(Marker::Truncated),
        StackEnd::OffStack | StackEnd::NoRule | StackEnd::BadRule => Some(Marker::Broken),
    }
}

/// The stack of one sample as it is put together.
struct Chain<'a> {
    frames: &'a mut Vec<RawFrame>,
    space: &'a AddressSpace,
    modules: &'a Modules,
    user_only: bool,
}

impl Chain<'_> {
    /// Adds the callchain that the kernel took; returns whether it has a user part.
    fn callchain(&mut self, sample: &Sample<'_>) -> bool {
        let mut context = match sample.mode {
            CpuMode::User => Context::User,
            _ => Context::Kernel,
        };
        // The first address is where the program was; the first of the user part after a kernel
        // part is where the kernel will return to. All others return from calls.
        let mut first = true;
        let mut user = false;
        for entry in sample.callchain.entries() {
            match entry {
                Entry::Context(next) => {
                    context = next;
                    first = true;
                }
                Entry::Address(address) => {
                    let lookup = address.wrapping_sub(u64::from(!first));
                    first = false;
                    match context {
                        Context::User => {
                            self.user(lookup);
                            user = true;
                        }
                        Context::Kernel if !self.user_only => self.kernel(lookup),
                        _ => {}
                    }
                }
                Entry::Cookie(_) => {}
            }
        }
        user
    }

    /// Adds the frames of an unwound stack.
    fn unwound(&mut self, frames: &[pyrograph_unwind::Frame]) {
        for frame in frames {
            self.user(frame.lookup_address());
        }
    }

    /// Adds the place itself, for a sample that has no stack; returns whether it is the program's.
    fn lone(&mut self, sample: &Sample<'_>) -> bool {
        match (sample.ip, sample.mode) {
            (Some(ip), CpuMode::User) => {
                self.user(ip);
                true
            }
            (Some(ip), CpuMode::Kernel) if !self.user_only => {
                self.kernel(ip);
                false
            }
            _ => false,
        }
    }

    fn kernel(&mut self, address: u64) {
        self.frames.push(RawFrame { module: ModuleId::KERNEL, address });
    }

    fn user(&mut self, address: u64) {
        let frame = match self.space.lookup(address) {
            Some(mapping) => {
                let module = ModuleId(mapping.tag);
                let offset = || address - mapping.range.start + mapping.file_offset;
                let address = if self.modules.is_file(module) { offset() } else { address };
                RawFrame { module, address }
            }
            None => RawFrame { module: ModuleId::UNKNOWN, address },
        };
        self.frames.push(frame);
    }
}

/// The architecture this was built for: that of live samples.
const ARCH: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };

/// The user registers, if the program is a 64-bit one.
fn registers(regs: &Regs<'_>) -> Option<Registers> {
    if regs.abi != Abi::Bits64 {
        return None;
    }
    let mut values = [0; 64];
    let mut count = 0;
    for (slot, (_, value)) in values.iter_mut().zip(regs.iter()) {
        *slot = value;
        count += 1;
    }
    Some(Registers::from_perf(ARCH, regs.mask(), &values[..count]))
}
