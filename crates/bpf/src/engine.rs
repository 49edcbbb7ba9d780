//! The engine: loads and attaches the programs, and collects their counts.

use std::cell::RefCell;
use std::fs::Metadata;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, RingBuffer};
use pyrograph_event::clock::monotonic_now;
use pyrograph_event::counted::{Cut, UserFrame};
use pyrograph_event::engine::{Feature, TableStats};
use pyrograph_event::interpreter::{Function, Interpreter, Language};
use pyrograph_event::request::{Trigger, Waits};
use pyrograph_unwind::UnwindInfo;

use crate::allocators::Names;
use crate::builder::{Builder, Keeping};
use crate::cache::Cache;
use crate::command_line::CommandLine;
use crate::copies::CopiedStack;
use crate::counted::Stacks;
use crate::end::End;
use crate::error::Error;
use crate::features;
use crate::files::{self, Aliases, FileFacts, Files, Question, What};
use crate::interpreters::{Interpreters, read_function};
use crate::kernel_text::KernelText;
use crate::key_texts::KeyTexts;
use crate::layout::{FileKey, MAX_INTERPRETERS, State};
use crate::load::{self, Loaded, RefusedLanguages};
use crate::object::{handle, program, ring};
use crate::options::{
    Options, copies_stacks, counts_at_once, lists_waiting, sampling, wait_programs,
};
use crate::prepare::{check_machine, set_names};
use crate::shared::Shared;
use crate::tables::Tables;
use crate::trigger::{Programs, attach_allocators};

mod counts;
mod stats;

pub use stats::Stats;

const ON_FORK: &str = "on_fork";
const ON_EXEC: &str = "on_exec";
const LOOK_UP: &str = "look_up";
pub(crate) const ON_TASK: &str = "on_task";
pub(crate) const ON_ABSENT: &str = "on_absent";
/// Accounts for events that were counted without a stack of their own, when a thread or the recording ends.
const ON_EXIT: &str = "on_exit";
const ON_REST: &str = "on_rest";

/// The programs in the kernel. They are unloaded when this is dropped, or when the process ends in any way.
pub struct Engine {
    // Fields are dropped in this order: first, no program runs any more.
    links: Vec<Link>,
    rings: RingBuffer<'static>,
    stacks: Stacks,
    asking: RingBuffer<'static>,
    asked: Rc<RefCell<Vec<Question>>>,
    copying: RingBuffer<'static>,
    copied: Rc<RefCell<Vec<CopiedStack>>>,
    copies_stacks: bool,
    naming: RingBuffer<'static>,
    functions: Rc<RefCell<Vec<Function>>>,
    beginning: RingBuffer<'static>,
    begun: Rc<RefCell<Vec<CommandLine>>>,
    interpreters: Interpreters,
    counts: [MapHandle; 2],
    state: Shared<State>,
    ticks: MapHandle,
    files: Files,
    builder: Builder,
    /// Modules that were passed to the builder, each with true if it had unwind information.
    built: HashSet<(u32, bool)>,
    /// Device and inode of the files in which allocators were looked for.
    searched: HashSet<(u64, u64)>,
    targets: MapHandle,
    /// True if the children of recorded processes are recorded, too.
    follows_forks: bool,
    /// Waits and calls that have not ended yet.
    unfinished: [MapHandle; 2],
    /// Sites of live allocations, if these are counted.
    sites: Option<MapHandle>,
    trigger: Trigger,
    waits: Waits,
    /// Name of the program that lists waiting threads.
    list_waiting: Option<&'static str>,
    /// True if the kernel has a tracepoint for threads that resume.
    resumes: bool,
    min_block: Duration,
    end: Arc<End>,
    /// True if every event is counted when its stack is taken, so that stacks can be forgotten.
    may_forget: bool,
    /// Number of drains since stacks were last forgotten.
    drains_since: u32,
    refused: Option<RefusedLanguages>,
    object: Object,
}

/// Device and inode of a regular file.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().filter(Metadata::is_file).map(|file| (file.dev(), file.ino()))
}

impl Engine {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// If the user lacks permission, or the kernel lacks a feature.
    pub fn load(options: &Options) -> Result<Self, Error> {
        check_machine()?;
        if let Some(what) = options.trigger.missing() {
            return Err(Error::Lacks { what });
        }
        let needs_text = options.waits != Waits::None || options.trigger.is_traced();
        let cache = options.scope.cache.as_deref();
        let text = match needs_text {
            true => KernelText::of_this_kernel(cache),
            false => KernelText::default(),
        };
        let resumes = matches!(options.waits, Waits::Alone | Waits::WithWakers)
            && !options.at_switches
            && features::has_resume();
        let samples = sampling(options).is_some();
        let list_waiting = match lists_waiting(options) {
            true if resumes => Some(ON_ABSENT),
            true => Some(ON_TASK),
            false if samples => Some(ON_REST),
            false => None,
        };
        let live = matches!(options.trigger, Trigger::Allocations { live: true, .. });
        let programs = [options.trigger.programs(), wait_programs(options.waits, resumes)].concat();
        let needed = |name: &str| match name {
            ON_FORK => options.scope.follows_forks(),
            ON_EXEC | LOOK_UP => true,
            ON_TASK | ON_ABSENT | ON_REST => list_waiting == Some(name),
            ON_EXIT => samples,
            name => programs.contains(&name),
        };
        let Loaded { object, memory, refused } = load::load(options, &text, live, &needed)?;
        Files::check(&program(&object, LOOK_UP)?)?;
        programs.iter().try_for_each(|name| program(&object, name).map(drop))?;
        let aliases = Aliases::default();
        let readers = Arc::default();
        let state = Shared::map(&handle(&object, ".bss")?, "state", 1)?;
        let end = End::new(state.clone(), &object, list_waiting, Arc::clone(&readers))?;
        let key_texts = KeyTexts::new(handle(&object, "key_texts")?);
        let stacks = Stacks::new(text, Rc::clone(&aliases), key_texts, options.keep_times);
        let seen = stacks.clone();
        let rings = ring(&object, "stacks", move |bytes| seen.add(bytes))?;
        let asked = Rc::new(RefCell::new(Vec::new()));
        let questions = Rc::clone(&asked);
        let asking = ring(&object, "questions", move |bytes| {
            questions.borrow_mut().extend(Question::read(bytes));
        })?;
        let copied = Rc::new(RefCell::new(Vec::new()));
        let copies = Rc::clone(&copied);
        let copying = ring(&object, "copies", move |bytes| {
            copies.borrow_mut().extend(CopiedStack::read(bytes));
        })?;
        let functions = Rc::new(RefCell::new(Vec::new()));
        let named = Rc::clone(&functions);
        let naming = ring(&object, "functions", move |bytes| {
            named.borrow_mut().extend(read_function(bytes));
        })?;
        let begun = Rc::new(RefCell::new(Vec::new()));
        let lines = Rc::clone(&begun);
        let beginning = ring(&object, "commands", move |bytes| {
            lines.borrow_mut().extend(CommandLine::read(bytes));
        })?;
        let mut engine = Self {
            links: Vec::new(),
            rings,
            stacks,
            asking,
            asked,
            copying,
            copied,
            copies_stacks: copies_stacks(options),
            naming,
            functions,
            beginning,
            begun,
            interpreters: Interpreters::new(handle(&object, "interpreters")?),
            counts: [handle(&object, "counts_0")?, handle(&object, "counts_1")?],
            state,
            ticks: handle(&object, "ticks")?,
            files: Files::new(handle(&object, "files")?, aliases),
            builder: Builder::start(Tables::new(memory, readers), cache.and_then(Cache::open))
                .map_err(Error::map("tables"))?,
            built: HashSet::new(),
            searched: HashSet::new(),
            targets: handle(&object, "targets")?,
            follows_forks: options.scope.follows_forks(),
            unfinished: [handle(&object, "blocked")?, handle(&object, "pending")?],
            sites: live.then(|| handle(&object, "sites")).transpose()?,
            trigger: options.trigger.clone(),
            waits: options.waits,
            list_waiting,
            resumes,
            min_block: options.min_block,
            end: Arc::new(end),
            may_forget: counts_at_once(options, resumes),
            drains_since: 0,
            refused,
            object,
        };
        engine.forget_questions()?;
        // A clock's samples are few: keeping times costs little, and nothing is lost before a process is found to
        // compile code.
        if options.hertz.is_some() && options.waits == Waits::None {
            engine.keep_times();
        }
        set_names(&engine.object, &options.scope.names)?;
        Ok(engine)
    }

    /// Discards the questions so far: the check has hit our own program, which is not recorded and will not be hit
    /// again.
    fn forget_questions(&mut self) -> Result<(), Error> {
        self.asking.consume().map_err(Error::map("questions"))?;
        for question in self.asked.take() {
            self.files.answer(&question, None);
        }
        Ok(())
    }

    /// Features that the kernel lacks and that would improve this recording, which works without them.
    pub fn lacks(&self) -> Vec<Feature> {
        // If only wakers are recorded, stacks of waiting threads are not taken.
        let waiting =
            self.list_waiting.is_some_and(|name| name != ON_REST) && self.waits != Waits::Wakers;
        features::lacks(self.trigger == Trigger::Locks, waiting)
    }

    /// Languages whose walkers the verifier rejects; returned once.
    pub fn refused_languages(&mut self) -> Option<RefusedLanguages> {
        self.refused.take()
    }

    /// Records a process that already runs.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn add_target(&self, pid: i32) -> Result<(), Error> {
        let one = 1u32.to_ne_bytes();
        self.targets.update(&pid.to_ne_bytes(), &one, MapFlags::ANY).map_err(Error::map("targets"))
    }

    /// Records a process from the time when it executes a program.
    pub fn expect_command(&mut self, pid: i32) {
        self.state.write_field(std::mem::offset_of!(State, command), pid.cast_unsigned());
    }

    /// Begins to follow forks and executions, and the scheduler if waits are counted.
    ///
    /// # Errors
    ///
    /// If the programs cannot be attached.
    pub fn follow(&mut self) -> Result<(), Error> {
        if self.follows_forks {
            self.attach(ON_FORK)?;
        }
        self.attach(ON_EXEC)?;
        if self.list_waiting == Some(ON_REST) {
            self.attach(ON_EXIT)?;
        }
        for name in wait_programs(self.waits, self.resumes) {
            self.attach(name)?;
        }
        Ok(())
    }

    /// Attaches the programs to the events that trigger them. `events` are the perf events, if these are the trigger;
    /// their own buffers get no samples.
    ///
    /// # Errors
    ///
    /// If the event does not exist, or the kernel does not permit it.
    pub fn trigger<'a>(
        &mut self,
        events: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<(), Error> {
        self.links.extend(self.trigger.attach(&self.object, events)?);
        if let Trigger::Allocations { path, others, .. } = self.trigger.clone() {
            self.searched.extend(file_of(&path));
            others.iter().for_each(|path| self.watch_allocators(path, Names::Prefixed));
        }
        Ok(())
    }

    /// If allocations are recorded, watches the functions of a mapped file that give memory, once.
    pub fn look_for_allocators(&mut self, path: &Path) {
        if self.records_allocations() {
            self.watch_allocators(path, Names::AllIfMalloc);
        }
    }

    fn watch_allocators(&mut self, path: &Path, names: Names) {
        if file_of(path).is_some_and(|file| self.searched.insert(file)) {
            let programs = self.trigger.programs();
            // A file that is not an ELF file has none.
            let _ = attach_allocators(&self.object, programs, path, names, &mut self.links);
        }
    }

    /// Returns true if allocations are recorded.
    pub fn records_allocations(&self) -> bool {
        matches!(self.trigger, Trigger::Allocations { .. })
    }

    fn attach(&mut self, name: &'static str) -> Result<(), Error> {
        let link = program(&self.object, name)?.attach().map_err(Error::attach(name))?;
        self.links.push(link);
        Ok(())
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// If the threads that already wait cannot be listed.
    pub fn start(&mut self) -> Result<(), Error> {
        self.state.write_field(std::mem::offset_of!(State, on), 1u32);
        self.end.list_waiting()
    }

    /// Stops counting, except for threads that wait at this moment.
    ///
    /// # Errors
    ///
    /// If these cannot be listed.
    pub fn stop(&self) -> Result<(), Error> {
        self.end.end()
    }

    /// Handle that stops counting from any thread.
    pub fn end(&self) -> Arc<End> {
        Arc::clone(&self.end)
    }

    /// Sets the period of a clock that triggers on each CPU, whether it is in user or kernel mode. The time that a
    /// sample represents is measured, because some ticks never come.
    pub fn set_period(&mut self, period: Duration) {
        self.state.write_field(std::mem::offset_of!(State, period), nanoseconds(period));
    }

    /// Makes a clock's samples stop by themselves after a time.
    pub fn end_after(&mut self, time: Duration) {
        let until = monotonic_now().saturating_add(nanoseconds(time));
        self.state.write_field(std::mem::offset_of!(State, until), until);
    }

    /// Adds a file that is mapped or may be mapped later, and builds its table.
    pub fn add_file(
        &mut self,
        key: FileKey,
        module: u32,
        FileFacts { unwind: info, interpreter }: FileFacts<'_>,
    ) {
        let mapped = info.zip(program(&self.object, LOOK_UP).ok());
        let known = mapped.and_then(|(info, look_up)| files::key_of_mapped(&look_up, info.bytes()));
        let key = known.unwrap_or(key);
        let row = self.row_of(module, interpreter);
        self.files.add(key, What::Module(module), (info.map(AsRef::as_ref), row));
        self.files_changed();
        self.build(module, info);
    }

    /// Row of an interpreter plus 1; 0 if there is none, so that the file is treated like any other.
    fn row_of(&mut self, module: u32, interpreter: Option<&Interpreter>) -> u16 {
        if interpreter.is_some_and(|interpreter| interpreter.language == Language::Lua) {
            self.state.write_field(std::mem::offset_of!(State, luajit), 1u32);
        }
        let row = interpreter.map(|interpreter| self.interpreters.add(module, interpreter));
        row.and_then(Result::ok).unwrap_or(0)
    }

    /// Makes the programs drop what they have cached about files.
    fn files_changed(&mut self) {
        let files = self.state.read(0).files.wrapping_add(1);
        self.state.write_field(std::mem::offset_of!(State, files), files);
    }

    fn build(&mut self, module: u32, info: Option<&Arc<UnwindInfo>>) {
        // A mapping may be seen before its file is found.
        if self.built.insert((module, info.is_some())) {
            self.builder.add(module, info.cloned());
        }
    }

    /// Descriptor that is readable when there are [`Self::questions`].
    pub fn questions_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer owns the descriptor, and outlives the returned borrow.
        unsafe { BorrowedFd::borrow_raw(self.asking.epoll_fd()) }
    }

    /// Returns the unknown files that the programs have hit.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn questions(&mut self) -> Result<Vec<Question>, Error> {
        self.asking.consume().map_err(Error::map("questions"))?;
        Ok(self.asked.take())
    }

    /// From now on, stacks with JIT-compiled code are counted by time, too: the function at an address may depend on
    /// it.
    pub fn keep_times(&mut self) {
        self.state.write_field(std::mem::offset_of!(State, times), 1u32);
    }

    /// Current time as programs record it: nanoseconds of `CLOCK_MONOTONIC`.
    pub fn now() -> u64 {
        monotonic_now()
    }

    /// Returns true if stacks that cannot be unwound in the kernel are copied to user space.
    pub fn copies_stacks(&self) -> bool {
        self.copies_stacks
    }

    /// Descriptor that is readable when [`Self::copies`] should be taken soon.
    pub fn copies_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer owns the descriptor, and outlives the returned borrow.
        unsafe { BorrowedFd::borrow_raw(self.copying.epoll_fd()) }
    }

    /// Returns the user stacks that were copied since the last call, in the order of time for each CPU. For each stack,
    /// [`Self::unwound`] or [`Self::postpone`] must be called before the second [`Self::drain`] from now.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn copies(&mut self) -> Result<Vec<CopiedStack>, Error> {
        self.copying.consume().map_err(Error::map("copies"))?;
        Ok(self.copied.take())
    }

    /// Defers the counts of a copied stack until [`Self::unwound`] is called for it, which must be within
    /// [`Self::POSTPONED_FOR`].
    pub fn postpone(&mut self, stack: &CopiedStack) {
        self.stacks.postpone(stack);
    }

    /// Time after which data that the kernel sent with a stack may be forgotten, if counts are drained twice a second.
    pub const POSTPONED_FOR: Duration = Duration::from_millis(1500);

    /// Accepts the result of unwinding a copied stack: frames, leaf first, the reason if it ends early, and true if a
    /// frame was guessed.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn unwound(
        &mut self,
        stack: &CopiedStack,
        frames: impl Iterator<Item = UserFrame>,
        end: (Option<Cut>, bool),
    ) -> Result<(), Error> {
        // The part that was unwound in the kernel was sent before the copy.
        self.rings.consume().map_err(Error::map("stacks"))?;
        self.stacks.add_copied(stack, frames, end);
        Ok(())
    }

    /// Maximum number of interpreter files whose calls are read.
    pub const INTERPRETERS: usize = MAX_INTERPRETERS;

    /// Number of interpreter files whose calls are not read, because there are [`Self::INTERPRETERS`] others.
    pub fn interpreters_left_out(&self) -> usize {
        self.interpreters.left_out()
    }

    /// Returns the functions of interpreters that were found in stacks since the last call, each with the memory that
    /// names it. Call this before [`Self::drain`].
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn functions(&mut self) -> Result<Vec<Function>, Error> {
        self.naming.consume().map_err(Error::map("functions"))?;
        Ok(self.functions.take())
    }

    /// Returns the command lines of programs that were executed since the last call.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn command_lines(&mut self) -> Result<Vec<CommandLine>, Error> {
        self.beginning.consume().map_err(Error::map("commands"))?;
        Ok(self.begun.take())
    }

    /// Guard that keeps unwind tables for the next recording when this one is over; returned once.
    pub fn keeping(&mut self) -> Option<Keeping> {
        self.builder.keeping()
    }

    /// Answers a question about a file; `None` if the file could not be found.
    pub fn answer(&mut self, question: &Question, answer: Option<(What, FileFacts<'_>)>) {
        let row = match answer {
            Some((What::Module(module), facts)) => self.row_of(module, facts.interpreter),
            _ => 0,
        };
        let known = answer.map(|(what, facts)| (what, (facts.unwind.map(AsRef::as_ref), row)));
        self.files.answer(question, known);
        self.files_changed();
        if let Some((What::Module(module), facts)) = answer {
            self.build(module, facts.unwind);
        }
    }

    /// Forgets a process that has ended.
    pub fn forget_process(&mut self, pid: i32) {
        let _ = self.targets.delete(&pid.to_ne_bytes());
    }

    /// Number of unwind tables that were requested, and number of these that are made. Until a file's table is made,
    /// stacks end in that file.
    pub fn tables(&self) -> (usize, usize) {
        self.builder.progress()
    }

    /// Counts of the tables so far.
    pub fn table_stats(&self) -> TableStats {
        self.builder.stats()
    }

    /// Modules in which user stacks end because there was no room for their tables, with the number of events that have
    /// such stacks; most first.
    pub fn left_out(&self) -> Vec<(u32, u64)> {
        self.stacks.left_out()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
