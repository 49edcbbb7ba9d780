//! Processing of records, one after the other, into stacks.

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
use crate::collect::{Collected, Collector, Extra, Spaces};
use crate::copied::CopiedStacks;
use crate::cut::Cuts;
use crate::files::{Files, as_command_line};
use crate::jit_code::{Code, JitCode};
use crate::jit_tables::Dump;
use crate::languages::{LanguageStats, Languages};
use crate::module_ids::mapping_tag;
use crate::modules::Modules;
use crate::names::{KeptNames, NameStats, Naming, Rename, name_chains};
use crate::processes::Processes;
use crate::run_time_code::Watch;
use crate::settle::{MOST_OPENED, Order, Part, Settler, StackMemory, Unnamed};
use crate::stacks::{Marker, RawFrame, Weight};

mod copied;
mod languages;
mod records;
mod run_time_code;

/// Number of control groups whose paths are kept. A damaged file must not use memory without bound.
const MOST_CGROUPS: usize = 1 << 16;

/// Replacement for a new name when no memory is left for it.
const NAME_LEFT_OUT: &str = "[name left out]";

/// Options of a [`Resolver`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Type of the samples' periods.
    pub value_type: ValueType,
    /// Count samples instead of summing their periods.
    pub count_samples: bool,
    /// Name of a second column: the number of samples, waits, calls … behind each value. `None` for no such column.
    pub number_of: Option<String>,
    /// Keep each sample with its time and CPU. Otherwise only a total for each stack and thread is
    /// kept, so that a long recording needs no more memory than a short one.
    pub keep_times: bool,
    /// Limit to the size of stacks in bytes, raw and symbolized, if no times are kept. At the limit, new stacks are cut
    /// where they depart from known ones ([`Stats::left_out`]). `None` for no limit. See [`Resolver::settle`].
    pub stack_memory: Option<usize>,
    /// True if times are on `CLOCK_MONOTONIC`, the clock of the times in jitdump files.
    pub monotonic_time: bool,
    /// How far threads are distinguished. By name only, a long recording of a machine that starts many processes needs
    /// no more memory than a short one.
    pub threads: ThreadDetail,
    /// The text at the root of counted stacks is a field of the thread's events
    /// ([`Thread::field`](pyrograph_profile::Thread::field)), and no frame.
    pub root_is_field: bool,
    /// Leave out the kernel's frames.
    pub user_only: bool,
    /// Distinguish functions without a symbol by their addresses; otherwise they are named by their module alone.
    pub unknown_addresses: bool,
    /// Keep the address of each sample's leaf, which identifies the instruction.
    pub instructions: bool,
    /// Find the callers of code without an unwind table by analysing its instructions.
    pub guessing: bool,
    /// Architecture of the programs.
    pub arch: Arch,
    /// Languages whose calls are to be read.
    pub languages: Vec<Language>,
    /// Options for finding symbols.
    pub symbols: SymbolOptions,
}

/// Counts of a [`Resolver`].
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Number of samples.
    pub samples: u64,
    /// Number of samples with a user stack.
    pub user_stacks: u64,
    /// Number of user stacks whose copy was too small for the whole stack.
    pub truncated: u64,
    /// Number of user stacks whose copy was too small and whose outer frames were read from the process when the sample
    /// was processed, a fraction of a second later.
    pub completed: u64,
    /// Number of these with recursion deeper than the copy: the frames that led into it may be from that later moment.
    pub of_recursions: u64,
    /// Number of user stacks that could not be unwound to the end for another reason.
    pub broken: u64,
    /// All user stacks that end early, by reason.
    pub cuts: Cuts,
    /// Number of user stacks with a guessed frame. Its caller was found by analysing its instructions, or by a word on
    /// the stack, because there was no unwind table.
    pub guessed: u64,
    /// Number of user stacks that could not be read at all; not counted in `user_stacks`.
    pub unreadable_stacks: u64,
    /// Number of samples that were lost because a buffer was full.
    pub lost: u64,
    /// Number of times that the kernel throttled sampling.
    pub throttled: u64,
    /// Number of records that could not be read.
    pub unreadable: u64,
    /// Counts of stacks with calls of interpreted languages.
    pub languages: LanguageStats,
    /// Sum of the values of samples whose stacks were left out, or end early with `[stack left out]`, because there was
    /// no memory for more: [`Options::stack_memory`].
    pub left_out: u64,
    /// Paths of mapped files that could not be opened or were replaced.
    pub missing_files: Vec<String>,
    /// Paths of files in the profile that were overwritten while they were mapped.
    pub rewritten_files: Vec<String>,
    /// Counts of symbolization.
    pub names: NameStats,
}

/// The profile and its counts.
#[derive(Debug)]
pub struct Resolved {
    /// The profile.
    pub profile: Profile,
    /// Counts of samples, stacks and names.
    pub stats: Stats,
}

/// State of a process at the time of its samples.
pub(crate) struct Present {
    /// Mappings of the process.
    pub process: AddressSpace,
    /// Code that the kernel has compiled.
    pub kernel: AddressSpace,
    /// The jitdump file of the process.
    pub dump: Option<Dump>,
    /// True if each sample is kept with its time.
    pub keep_times: bool,
}

/// Turns records into a profile.
pub struct Resolver<F> {
    pub(crate) files: F,
    pub(crate) options: Options,
    pub(crate) modules: Modules,
    pub(crate) processes: Processes,
    announced: Announced,
    /// Paths of control groups by number, in recordings whose samples have these numbers.
    cgroups: HashMap<u64, Arc<str>>,
    /// Code that the kernel has compiled.
    pub(crate) kernel: AddressSpace,
    /// Names that are kept from one snapshot to the next.
    pub(crate) kept: Arc<KeptNames>,
    collector: Collector,
    pub(crate) unnamed: Unnamed,
    /// Processes that have mapped a file that is watched for.
    pub(crate) watch: Watch,
    pub(crate) settler: Settler,
    pub(crate) profile: Profile,
    pub(crate) stats: Stats,
    rename: Option<Rename>,
    /// Buffer for one stack, kept to avoid an allocation for each.
    pub(crate) frames: Vec<RawFrame>,
    pub(crate) copied: CopiedStacks,
    pub(crate) jit_code: JitCode,
    pub(crate) languages: Languages,
}

impl<F: Files> Resolver<F> {
    /// Creates a resolver without processes; `files` opens the files that processes map.
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
            settler: Settler::new(options.stack_memory.filter(|_| !options.keep_times)),
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

    /// Replaces the names of functions with others.
    pub fn with_names(self, rename: Rename) -> Self {
        Self { rename: Some(rename), ..self }
    }

    /// Counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Processes a record. Records of all CPUs must come in the order of time.
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

    /// Keeps the memory of a long recording small; call it now and then. If stacks that are not symbolized take more
    /// than a small part of [`Options::stack_memory`], a background thread begins to symbolize them. A later call puts
    /// them into the profile, where stacks with equal names are merged. The result is the same, except for the order of
    /// samples. Returns true if much memory was just freed.
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

    /// Returns true if a process has written a jitdump file, which gives functions with the times at which they were
    /// compiled.
    pub fn has_timed_code(&self) -> bool {
        self.modules.jit.has_dumps()
    }

    /// Releases the pages of mapped files; they are read again on access.
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
            unknown_addresses: self.options.unknown_addresses,
            instructions: self.options.instructions,
            rename: self.rename,
            kallsyms: self.files.kallsyms(),
            kernel_build_id: self.files.kernel_build_id(),
            threads,
            by_time: self.options.monotonic_time && self.modules.jit.has_dumps(),
            keep_times: self.options.keep_times,
            kept: None,
        }
    }

    /// Puts symbolized stacks into the profile.
    fn take(&mut self, part: Option<Part>) {
        if let Some(part) = part {
            self.settler.add(&part, &mut self.profile);
            self.stats.names.add(part.stats);
        }
    }

    /// Symbolizes the stacks collected since the last call, and returns them as a profile of their own; the first call
    /// returns everything so far. [`Self::finish`] still returns everything.
    ///
    /// JIT-compiled code gets the names that its process has written so far.
    pub fn snapshot(&mut self) -> Profile {
        self.name_collected();
        let profile = self.settler.snapshot(&self.profile);
        self.only_shown(profile)
    }

    /// Like [`Self::snapshot`], but drops the stacks and threads that it returns: a recording that is only watched
    /// needs no more memory, however long it goes on. [`Self::finish`] returns the rest.
    pub fn take_collected(&mut self) -> Profile {
        self.name_collected();
        self.settler.forget();
        let empty = Profile::new(self.profile.value_types.clone());
        let profile = std::mem::replace(&mut self.profile, empty);
        self.only_shown(profile)
    }

    /// Symbolizes the collected stacks and puts them into the profile. After that, no sample outside of it refers to
    /// its threads.
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

    /// Descendants of a process, without itself, whose end was not recorded; each with its name. Starts and ends of
    /// processes must have been recorded.
    pub fn descendants(&self, of: i32) -> Vec<(i32, Option<Arc<str>>)> {
        self.processes.descendants(of)
    }

    /// Symbolizes all addresses and makes the profile.
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

    /// Makes the profile from stacks that were collected by other threads.
    pub(crate) fn finish_with(mut self, chains: Chains, stats: &Stats) -> Resolved {
        self.stats.add(stats);
        if self.options.monotonic_time && self.modules.jit.has_dumps() {
            self.unnamed.files = chains.into_stacks(self.options.keep_times);
            return self.finish();
        }
        self.modules.jit.refresh_all(&mut self.files);
        self.stats.missing_files = self.modules.missing();
        let naming = self.naming(available_threads());
        let modules = self.modules.of(chains.frames());
        self.stats.names = name_chains(chains, &modules, &naming, &mut self.profile);
        self.resolved()
    }

    /// Options for collecting frames on other threads: the architecture, and true to leave out the kernel's frames.
    pub(crate) fn collecting(&self) -> (Arch, bool) {
        (self.options.arch, self.options.user_only)
    }

    /// Current ID of the thread, and the current state of its process.
    pub(crate) fn at_present(&mut self, pid: i32, tid: i32) -> (ThreadId, Present) {
        let present = Present {
            process: self.processes.space(pid).clone(),
            kernel: self.kernel.clone(),
            dump: self.dump(pid),
            keep_times: self.keeps_time(pid),
        };
        (self.thread(pid, tid), present)
    }

    /// Jitdump file of a process, if its unwind tables can be used.
    pub(crate) fn dump(&self, pid: i32) -> Option<Dump> {
        let file = self.modules.jit.dump(self.processes.space(pid))?;
        let by_time = self.options.monotonic_time;
        (self.options.arch == Arch::X86_64).then_some(Dump { file, by_time })
    }

    /// Sets the control group of a process by its number. Returns true if it differs from the previous one.
    pub(crate) fn in_cgroup(&mut self, pid: i32, cgroup: u64) -> bool {
        let path = self.cgroups.get(&cgroup);
        path.is_some_and(|path| self.processes.moved(pid, path))
    }

    /// Returns true if times of the process's samples are kept, if only until the end: the function at an address may
    /// depend on them.
    pub(crate) fn keeps_time(&self, pid: i32) -> bool {
        let Options { keep_times, monotonic_time, .. } = self.options;
        keep_times || monotonic_time && self.modules.jit.has_dump(pid)
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.stats.samples += 1;
        let (pid, tid) = (sample.id.pid.unwrap_or(-1), sample.id.tid.unwrap_or(-1));
        let collected = self.collect(sample, (pid, tid));
        self.stats.count_stack(collected);
        let value = if self.options.count_samples { 1 } else { sample.period.unwrap_or(1) };
        let weight = Weight::one(value);
        let thread = self.thread(pid, tid);
        let (all_times, keeps_time) = (self.options.keep_times, self.keeps_time(pid));
        let is_jit = Unnamed::is_jit(&self.frames);
        // If all times are kept, samples stay in the order of time, in one table.
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

    /// Collects the frames of a sample into `frames`.
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
        // The record with its name was lost: the number is all that is left.
        let process = process.unwrap_or_else(|| Arc::from(format!(":{pid}")));
        self.thread_named((pid, tid), &process, name.as_ref().unwrap_or(&process))
    }

    /// Control group of a process, if processes are distinguished.
    fn cgroup(&mut self, pid: i32) -> Option<Arc<str>> {
        let is_kept = self.options.threads != ThreadDetail::Name;
        is_kept.then(|| self.processes.cgroup(pid, || self.files.control_group(pid))).flatten()
    }

    /// Adds the command line of a program that a process has begun to run. `time` is on the clock of samples; each of
    /// the words ends with a NUL. Call this before [`Self::record`] with the kernel's record of the `exec`.
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

    /// Command line of a process, if processes are distinguished.
    fn command_line(&mut self, pid: i32) -> Option<Arc<str>> {
        let is_kept = self.keeps_command_lines() && pid > 0;
        is_kept.then(|| self.processes.command_line(pid, || self.files.command_line(pid))).flatten()
    }

    /// The same thread, for events whose field has some value.
    pub(crate) fn with_field(&mut self, thread: ThreadId, field: &str) -> ThreadId {
        let is_full = self.settler.is_full();
        let strings = &mut self.profile.strings;
        let field = match strings.find(field) {
            None if is_full => strings.intern(NAME_LEFT_OUT),
            known => known.unwrap_or_else(|| strings.intern(field)),
        };
        let thread = Thread { field, ..self.profile.threads.get(thread) };
        self.profile.threads.intern(thread)
    }

    /// The thread with these numbers, as far as threads are distinguished by them, and these names of its process and
    /// itself.
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
        // Threads in another PID namespace have no numbers here.
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
    /// Adds the counts of other samples.
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

    /// Counts `times` equal stacks.
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

/// Architecture of this build, and so of live samples.
pub const NATIVE: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
