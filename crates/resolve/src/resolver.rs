//! Records, one after the other, to stacks.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pyrograph_event::interpreter::Language;
use pyrograph_event::{Record, Sample};
use pyrograph_profile as profile;
use pyrograph_profile::{Profile, StringId, Thread, ThreadDetail, ThreadId, ValueType};
use pyrograph_symbol::Options as SymbolOptions;
use pyrograph_unwind::{AddressSpace, Arch};

use crate::announced::Announced;
use crate::chains::Chains;
use crate::collect::{Collected, Collector, Extra, Spaces, mapping_tag};
use crate::copied::CopiedStacks;
use crate::cut::Cuts;
use crate::files::{Files, as_command_line};
use crate::jit_code::{Code, JitCode};
use crate::jit_tables::Dump;
use crate::languages::{LanguageStats, Languages};
use crate::modules::Modules;
use crate::names::{KeptNames, NameStats, Naming, Rename, name_chains};
use crate::processes::Processes;
use crate::run_time_code::Watch;
use crate::settle::{MOST_OPENED, Order, Part, Settler, StackMemory, Unnamed};
use crate::stacks::{Marker, RawFrame, Weight};

mod records;

/// The same of control groups.
const MOST_CGROUPS: usize = 1 << 16;

/// In place of a name that was new when there was no memory left for one.
const NAME_LEFT_OUT: &str = "[name left out]";

/// Options of a [`Resolver`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Type of the samples' periods.
    pub value_type: ValueType,
    /// Count samples, not their periods.
    pub count_samples: bool,
    /// The name of a second column: the number of samples, waits, calls … behind each value. `None`: there is none.
    pub number_of: Option<String>,
    /// Keep each sample with its time and CPU. Otherwise only a total for each stack and thread is
    /// kept, so that a long recording needs no more memory than a short one.
    pub keep_time: bool,
    /// The most bytes that stacks may take, with names and without, if no times are kept; then new ones end
    /// where they leave those that are known ([`Stats::left_out`]). `None`: as many as it takes. See
    /// [`Resolver::settle`].
    pub stack_memory: Option<usize>,
    /// Times are those of `CLOCK_MONOTONIC`, by which processes date the code that they compile.
    pub monotonic_time: bool,
    /// How far threads are kept apart. By name, a long recording of a machine that starts many
    /// processes needs no more memory than a short one, either.
    pub threads: ThreadDetail,
    /// Leave the kernel's frames out.
    pub user_only: bool,
    /// Tell functions without a symbol apart by their addresses; otherwise they are named by their
    /// module alone.
    pub addresses: bool,
    /// Keep the address of each sample's leaf: which instruction it was.
    pub instructions: bool,
    /// Find the callers of code that has no unwind table by its instructions.
    pub guessing: bool,
    /// Architecture of the programs.
    pub arch: Arch,
    /// Languages whose calls are wanted.
    pub languages: Vec<Language>,
    /// How to find symbols.
    pub symbols: SymbolOptions,
}

/// Counts of a [`Resolver`].
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
    /// Of these, those of recursions deeper than the copy: what led to the recursion may be of that later moment.
    pub of_recursions: u64,
    /// User stacks that could not be unwound to their end for another reason.
    pub broken: u64,
    /// All user stacks that end early, by cause.
    pub cuts: Cuts,
    /// User stacks with a frame that was guessed, for want of an unwind table: its caller was found by what its
    /// instructions, or by a word on the stack.
    pub guessed: u64,
    /// User stacks of which nothing could be read; not counted among `user_stacks`.
    pub unreadable_stacks: u64,
    /// Samples that were lost because a buffer was full.
    pub lost: u64,
    /// Times that the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// How calls of interpreted languages were found.
    pub languages: LanguageStats,
    /// The value of samples whose stacks were left out, or end early with `[stack left out]`, since there was
    /// no memory for more: [`Options::stack_memory`].
    pub left_out: u64,
    /// The paths of mapped files that could not be opened, or were replaced since.
    pub missing_files: Vec<String>,
    /// The paths of files in the profile that were written over while they were mapped.
    pub rewritten_files: Vec<String>,
    /// Counts of names.
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

/// State of a process with which its stacks are collected.
pub(crate) struct Present {
    /// Its mappings.
    pub process: AddressSpace,
    /// The kernel's own code.
    pub kernel: AddressSpace,
    /// The jitdump file of the process.
    pub dump: Option<Dump>,
    /// Each sample is kept with its time.
    pub keep_time: bool,
}

/// Takes records, gives a profile.
pub struct Resolver<F> {
    pub(crate) files: F,
    pub(crate) options: Options,
    pub(crate) modules: Modules,
    pub(crate) processes: Processes,
    announced: Announced,
    /// Paths of control groups by their numbers, in recordings whose samples have these.
    cgroups: HashMap<u64, Arc<str>>,
    /// The code that the kernel has compiled.
    pub(crate) kernel: AddressSpace,
    /// Names, from one snapshot to the next.
    pub(crate) kept: Arc<KeptNames>,
    collector: Collector,
    pub(crate) unnamed: Unnamed,
    /// Processes that have mapped what somebody asked for.
    pub(crate) watch: Watch,
    pub(crate) settler: Settler,
    pub(crate) profile: Profile,
    pub(crate) stats: Stats,
    rename: Option<Rename>,
    /// For one stack, so that it need not be allocated for each.
    pub(crate) frames: Vec<RawFrame>,
    pub(crate) copied: CopiedStacks,
    pub(crate) jit_code: JitCode,
    pub(crate) languages: Languages,
}

impl<F: Files> Resolver<F> {
    /// Nothing is known yet; `files` finds what will be mapped.
    pub fn new(files: F, options: Options) -> Self {
        let copied = CopiedStacks::new(options.arch);
        let value_type =
            if options.count_samples { ValueType::samples() } else { options.value_type.clone() };
        let number = options.number_of.as_deref().unwrap_or("samples");
        let user_only = options.user_only;
        Self {
            files,
            profile: Profile::new(vec![value_type, ValueType::new(number, "count")]),
            collector: Collector::new(options.arch, user_only).guessing(options.guessing),
            modules: Modules::new(options.symbols.locator.clone()),
            settler: Settler::new(options.stack_memory.filter(|_| !options.keep_time)),
            options,
            processes: Processes::default(),
            announced: Announced::default(),
            cgroups: HashMap::default(),
            kernel: AddressSpace::new(),
            kept: Arc::default(),
            unnamed: Unnamed::default(),
            watch: Watch::default(),
            stats: Stats::default(),
            rename: None,
            frames: Vec::new(),
            copied,
            jit_code: JitCode::default(),
            languages: Languages::default(),
        }
    }

    /// Functions get other names than their symbols have.
    pub fn with_names(self, rename: Rename) -> Self {
        Self { rename: Some(rename), ..self }
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
            Record::Ksymbol(symbol) => self.kernel_symbol(symbol),
            Record::Cgroup(group) if self.cgroups.len() < MOST_CGROUPS => {
                let path = String::from_utf8_lossy(group.path);
                self.cgroups.insert(group.cgroup, Arc::from(path));
            }
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

    /// Keeps the memory of a long recording small; call it now and then. If stacks without names take more
    /// than a small part of [`Options::stack_memory`], a background thread begins to name them, and a later call
    /// puts them into the profile, where stacks with equal names are one. The result is the same, but for the
    /// order of samples. Returns whether much memory was just given up.
    pub fn settle(&mut self) -> bool {
        let done = self.settler.done();
        let mut has_settled = done.is_some();
        self.take(done);
        if let Some((unnamed, is_all)) = self.settler.take_due(&mut self.unnamed, &self.modules) {
            let before = self.settler.wait();
            has_settled |= before.is_some();
            self.take(before);
            let order = self.order(unnamed, 1);
            if is_all {
                let mapped = self.processes.tags();
                self.modules.jit.forget(|id| mapped.contains(&mapping_tag(id, false)));
                if self.modules.opened_lately() >= MOST_OPENED {
                    self.modules.forget_files(|id| mapped.contains(&mapping_tag(id, true)));
                }
            }
            let done = self.settler.begin(order);
            self.take(done);
        }
        has_settled
    }

    /// Returns true if a process has written down which functions it compiles, and when.
    pub fn has_timed_code(&self) -> bool {
        self.modules.jit.has_dumps()
    }

    /// Gives back the pages of mapped files; they are read again where they are needed.
    pub fn give_pages_back(&self) {
        self.modules.give_pages_back();
    }

    /// Memory of stacks.
    pub fn stack_memory(&self) -> StackMemory {
        self.settler.memory(&self.unnamed, &self.profile)
    }

    fn order(&mut self, unnamed: Unnamed, threads: usize) -> Order {
        let naming = self.naming(threads);
        let modules = self.modules.of(unnamed.frames());
        Order { unnamed, modules, naming, values: self.profile.value_types.clone() }
    }

    pub(crate) fn naming(&mut self, threads: usize) -> Naming {
        Naming {
            symbols: self.options.symbols.clone(),
            addresses: self.options.addresses,
            instructions: self.options.instructions,
            rename: self.rename,
            kallsyms: self.files.kallsyms(),
            kernel_build_id: self.files.kernel_build_id(),
            threads,
            by_time: self.options.monotonic_time && self.modules.jit.has_dumps(),
            keep_time: self.options.keep_time,
            kept: None,
        }
    }

    /// Puts stacks that have names into the profile.
    fn take(&mut self, part: Option<Part>) {
        if let Some(part) = part {
            self.settler.add(&part, &mut self.profile);
            self.stats.names.add(part.stats);
        }
    }

    /// Names what was collected since the last call, and returns it as a profile of its own; the first time, all
    /// until now. [`Self::finish`] still returns everything.
    ///
    /// JIT-compiled code has the names that its process has written down until now.
    pub fn snapshot(&mut self) -> Profile {
        self.name_collected();
        let profile = self.settler.snapshot(&self.profile);
        self.only_shown(profile)
    }

    /// The same, and forgets it, threads included: a recording that is only watched needs no more memory, however
    /// long it goes on. [`Self::finish`] returns what came after it.
    pub fn take_collected(&mut self) -> Profile {
        self.name_collected();
        self.settler.forget();
        let empty = Profile::new(self.profile.value_types.clone());
        let profile = std::mem::replace(&mut self.profile, empty);
        self.only_shown(profile)
    }

    /// Names what was collected and puts it into the profile. No sample refers to its threads from elsewhere then.
    fn name_collected(&mut self) {
        let before = self.settler.wait();
        self.take(before);
        self.modules.jit.refresh_all(&mut self.files);
        let unnamed = std::mem::take(&mut self.unnamed);
        let mut order = self.order(unnamed, available_threads());
        order.naming.kept = Some(Arc::clone(&self.kept));
        self.take(Some(order.run()));
        self.modules.limit_names();
    }

    fn only_shown(&self, mut profile: Profile) -> Profile {
        if self.options.number_of.is_none() {
            profile.keep_shown();
        }
        profile
    }

    /// The processes that descend from one, itself left out, and of which no end was seen; each with its name. Starts and ends
    /// must have been recorded.
    pub fn descendants(&self, of: i32) -> Vec<(i32, Option<Arc<str>>)> {
        self.processes.descendants(of)
    }

    /// Names all addresses and makes the profile.
    pub fn finish(mut self) -> Resolved {
        let before = self.settler.wait();
        self.take(before);
        self.modules.jit.refresh_all(&mut self.files);
        self.stats.missing_files = self.modules.missing();
        let unnamed = std::mem::take(&mut self.unnamed);
        let order = self.order(unnamed, available_threads());
        if self.settler.has_settled() {
            self.take(Some(order.run()));
        } else {
            let Order { unnamed, modules, naming, .. } = order;
            self.stats.names = unnamed.name(&modules, &naming, &mut self.profile);
        }
        self.stats.left_out = self.settler.left_out();
        self.resolved()
    }

    fn resolved(mut self) -> Resolved {
        if self.options.number_of.is_none() {
            self.profile.keep_shown();
        }
        debug_assert_eq!(self.profile.check(), Ok(()));
        let rewritten = self.modules.rewritten(&self.files);
        let modules: HashSet<_> = self.profile.frames.iter().map(|frame| frame.module).collect();
        let in_profile = modules.into_iter().map(|module| self.profile.strings.get(module));
        let mut rewritten: Vec<String> =
            in_profile.filter(|path| rewritten.contains(*path)).map(str::to_owned).collect();
        rewritten.sort_unstable();
        self.stats.rewritten_files = rewritten;
        Resolved { profile: self.profile, stats: self.stats }
    }

    /// The same with the stacks that were collected elsewhere.
    pub(crate) fn finish_with(mut self, chains: Chains, stats: &Stats) -> Resolved {
        self.stats.add(stats);
        if self.options.monotonic_time && self.modules.jit.has_dumps() {
            self.unnamed.files = chains.into_stacks(self.options.keep_time);
            return self.finish();
        }
        self.modules.jit.refresh_all(&mut self.files);
        self.stats.missing_files = self.modules.missing();
        let naming = self.naming(available_threads());
        let modules = self.modules.of(chains.frames());
        self.stats.names = name_chains(chains, &modules, &naming, &mut self.profile);
        self.resolved()
    }

    /// Options for collecting frames elsewhere: the architecture, and whether to leave out the kernel's frames.
    pub(crate) fn collecting(&self) -> (Arch, bool) {
        (self.options.arch, self.options.user_only)
    }

    /// The thread as it is now, and what there is to know about its process.
    pub(crate) fn at_present(&mut self, pid: i32, tid: i32) -> (ThreadId, Present) {
        let present = Present {
            process: self.processes.space(pid).clone(),
            kernel: self.kernel.clone(),
            dump: self.dump(pid),
            keep_time: self.keeps_time(pid),
        };
        (self.thread(pid, tid), present)
    }

    /// The jitdump file of a process, if the tables in it can be used.
    pub(crate) fn dump(&self, pid: i32) -> Option<Dump> {
        let file = self.modules.jit.dump(self.processes.space(pid))?;
        let by_time = self.options.monotonic_time;
        (self.options.arch == Arch::X86_64).then_some(Dump { file, by_time })
    }

    /// The process is in a control group, by its number. Returns true if that is new.
    pub(crate) fn in_cgroup(&mut self, pid: i32, cgroup: u64) -> bool {
        let path = self.cgroups.get(&cgroup);
        path.is_some_and(|path| self.processes.moved(pid, path))
    }

    /// Returns true if times of the process's samples are kept, if only to the end: which function was at an
    /// address may depend on them.
    pub(crate) fn keeps_time(&self, pid: i32) -> bool {
        let Options { keep_time, monotonic_time, .. } = self.options;
        keep_time || monotonic_time && self.modules.jit.has_dump(pid)
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.stats.samples += 1;
        let (pid, tid) = (sample.id.pid.unwrap_or(-1), sample.id.tid.unwrap_or(-1));
        let collected = self.collect(sample, (pid, tid));
        self.stats.count_stack(collected);
        let value = if self.options.count_samples { 1 } else { sample.period.unwrap_or(1) };
        let weight = Weight::one(value);
        let thread = self.thread(pid, tid);
        let (all_times, keeps_time) = (self.options.keep_time, self.keeps_time(pid));
        let is_jit = Unnamed::is_jit(&self.frames);
        // With times, they are in the order of time.
        let raw = self.unnamed.table(is_jit && !all_times);
        let stack = raw.intern(&self.frames);
        let (cpu, time) = (sample.id.cpu, sample.id.time);
        let row = profile::Sample { thread, cpu, time, ..profile::Sample::new(stack) };
        if all_times || keeps_time && is_jit {
            raw.push(row, weight);
        } else {
            raw.add(row, weight);
        }
    }

    /// Collects the frames of a sample, in `frames`.
    fn collect(&mut self, sample: &Sample<'_>, thread: (i32, i32)) -> Collected {
        let process = self.processes.space(thread.0);
        let (dump, time) = (self.dump(thread.0), sample.id.time);
        let code = Code { dump: dump.as_ref(), time, thread, guessing: self.options.guessing };
        let extra = Extra::default();
        let (live, collector) = (Some(&mut self.files as &mut dyn Files), &mut self.collector);
        let collected =
            self.jit_code.walk(live, &code, process, collector, |collector, space, live| {
                collector.collect(sample, space, extra, live)
            });
        let spaces = Spaces { process, kernel: &self.kernel };
        self.frames.clear();
        self.frames.extend(self.collector.places().iter().map(|place| place.frame(spaces)));
        collected
    }

    fn thread(&mut self, pid: i32, tid: i32) -> ThreadId {
        let idle = (pid == 0).then(|| Arc::from("swapper"));
        let name = idle.or_else(|| self.processes.name(tid));
        let process = self.processes.name(pid).or_else(|| name.clone());
        // Its name was in a record that got lost: the number is all that is left.
        let process = process.unwrap_or_else(|| Arc::from(format!(":{pid}")));
        self.thread_named((pid, tid), &process, name.as_ref().unwrap_or(&process))
    }

    /// The control group of a process, where processes are kept apart.
    fn cgroup(&mut self, pid: i32) -> Option<Arc<str>> {
        let is_kept = self.options.threads != ThreadDetail::Name;
        is_kept.then(|| self.processes.cgroup(pid, || self.files.control_group(pid))).flatten()
    }

    /// A process has begun to run a program, at a time of the clock of samples, with these words, each of which ends with a NUL.
    /// Call this before [`Self::record`] with what the kernel says about it.
    pub fn add_command_line(&mut self, pid: i32, time: u64, words: &[u8]) {
        if self.keeps_command_lines()
            && pid > 0
            && let Some(line) = as_command_line(words)
        {
            self.announced.add(pid, time, line);
        }
    }

    fn keeps_command_lines(&self) -> bool {
        self.options.threads != ThreadDetail::Name
    }

    /// The command line of a process, where processes are kept apart.
    fn command_line(&mut self, pid: i32) -> Option<Arc<str>> {
        let is_kept = self.keeps_command_lines() && pid > 0;
        is_kept.then(|| self.processes.command_line(pid, || self.files.command_line(pid))).flatten()
    }

    /// The thread with these numbers, as far as they are to be kept apart, and names: its process's and its
    /// own.
    pub(crate) fn thread_named(
        &mut self,
        (pid, tid): (i32, i32),
        process: &str,
        name: &str,
    ) -> ThreadId {
        let is_full = self.settler.is_full();
        let (cgroup, command_line) = (self.cgroup(pid), self.command_line(pid));
        let strings = &mut self.profile.strings;
        let mut intern = |text: &str| match strings.find(text) {
            None if is_full => strings.intern(NAME_LEFT_OUT),
            known => known.unwrap_or_else(|| strings.intern(text)),
        };
        let (process, name) = (intern(process), intern(name));
        let mut known = |text: Option<Arc<str>>| text.map_or(StringId::EMPTY, |text| intern(&text));
        let (cgroup, command_line) = (known(cgroup), known(command_line));
        // In another PID namespace, they have no numbers here.
        let [pid, tid] = [pid, tid].map(|id| Some(id).filter(|&id| id >= 0));
        let thread = Thread { pid, tid, process, name, cgroup, command_line, ..Thread::default() };
        let thread = self.options.threads.keep(thread);
        match self.profile.threads.find(thread) {
            Some(known) => known,
            None if is_full => self.profile.threads.intern(ThreadDetail::Name.keep(thread)),
            None => self.profile.threads.intern(thread),
        }
    }
}

impl Stats {
    /// Adds what was counted of other samples.
    pub(crate) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.user_stacks += other.user_stacks;
        self.truncated += other.truncated;
        self.completed += other.completed;
        self.of_recursions += other.of_recursions;
        self.broken += other.broken;
        self.cuts.add_all(&other.cuts);
        self.guessed += other.guessed;
        self.unreadable_stacks += other.unreadable_stacks;
        self.unreadable += other.unreadable;
    }

    pub(crate) fn count_stack(&mut self, collected: Collected) {
        self.count_stacks(collected, 1);
    }

    /// Counts as many stacks that are the same.
    pub(crate) fn count_stacks(&mut self, collected: Collected, times: u64) {
        let Collected { user, marker, cut, guessed, completed, of_recursion } = collected;
        self.completed += u64::from(completed) * times;
        self.of_recursions += u64::from(of_recursion) * times;
        self.guessed += u64::from(guessed) * times;
        if let Some(cut) = cut {
            self.cuts.add(cut, times);
        }
        match marker {
            Some(Marker::Truncated) => self.truncated += times,
            Some(Marker::Broken) => self.broken += times,
            Some(Marker::Unreadable) => {
                self.unreadable_stacks += times;
                return;
            }
            _ => {}
        }
        self.user_stacks += u64::from(user) * times;
    }
}

pub(crate) fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The architecture this was built for: that of live samples.
pub const NATIVE: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
