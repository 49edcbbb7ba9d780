//! Recording with the in-kernel engine: programs in the kernel unwind and count, and what is done here
//! is to tell them what they need to know, and to take what they counted.

use std::collections::HashSet;
use std::time::{Duration, Instant};

pub use pyrograph_bpf::Engine;
use pyrograph_bpf::{
    Counted, Cut, FileKey, Question as FileQuestion, Sort, Stats, TableBackend, TableStats,
    UserStack, Wait, What, prefer_this_thread,
};
use pyrograph_event::Record;
use pyrograph_record::{
    Child, Error as RecordError, Next, Notice, Recording, Session, Summary, Target, Waiting,
};
use pyrograph_resolve::{CountedStack, CountedWaker, LiveFiles, Looked, Resolver};

use crate::answers;
use crate::needed;
use crate::progress::Progress;
use crate::question::Question;
use crate::say::say;
use crate::tables::{self, TableArgs};
use crate::units::{counted, grouped};
use crate::whom::Whom;

/// How often counts are taken out of the kernel.
const DRAIN: Duration = Duration::from_millis(500);

/// How long to wait at most for the unwind tables of what runs already: on the whole machine, and where
/// that is one or a few programs.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_WITH_FEW: Duration = Duration::from_secs(20);

/// How long to wait for questions of the programs before looking at records, the clock and signals.
const TICK: Duration = Duration::from_millis(10);

/// Whom and what to record.
pub struct InKernel<'a> {
    /// Whom.
    pub target: &'a Target,
    /// Follow the children of the target.
    pub inherit: bool,
    /// For how long.
    pub duration: Option<Duration>,
    /// Whether the user has seen enough.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Say more.
    pub verbose: bool,
    /// The function whose returns are counted, if that was asked for.
    pub returned: Option<&'a str>,
}

/// What a recording leaves besides its profile.
pub struct Recorded {
    /// How it went.
    pub summary: Summary,
    /// The command, if one was started.
    pub child: Option<Child>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Opening events.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The programs.
    #[error(transparent)]
    Engine(#[from] pyrograph_bpf::Error),
}

/// Loads the engine.
pub fn load(
    options: &pyrograph_record::Options,
    question: &Question,
    whom: &Whom,
    tables: TableArgs,
) -> Result<Engine, pyrograph_bpf::Error> {
    let processes = match &options.target {
        Target::Processes(pids) => Some(pids.clone()),
        Target::Command(_) => Some(Vec::new()),
        Target::System => None,
    };
    Engine::load(&pyrograph_bpf::Options {
        processes,
        inherit: options.inherit,
        user: options.user,
        kernel: options.kernel,
        trigger: answers::trigger(question),
        waits: answers::waits(question),
        min_block: question.waits.map_or(Duration::ZERO, |(_, min_block)| min_block),
        names: whom.names.clone(),
        group: whom.group,
        by_cpu: whom.by_cpu(),
        table_budget: tables.table_memory,
        table_backend: tables.tables.map(|backend| match backend {
            tables::TableBackend::Arena => TableBackend::Arena,
            tables::TableBackend::Arrays => TableBackend::Arrays,
        }),
    })
}

impl InKernel<'_> {
    fn adder<'a>(&'a self, resolver: &'a mut Resolver<LiveFiles>) -> Adder<'a> {
        Adder { resolver, returned: self.returned }
    }

    /// Records until the target ends, the time is over, or the user has seen enough.
    pub fn record(
        &self,
        mut engine: Engine,
        session: Session,
        mut command: Option<Waiting>,
        resolver: &mut Resolver<LiveFiles>,
    ) -> Result<Recorded, Error> {
        resolver.expect_file("[vdso]");
        if let Target::Command(argv) = self.target {
            for path in argv.first().into_iter().flat_map(|program| needed::files(program)) {
                resolver.expect_file(&path.to_string_lossy());
            }
        }
        tell_files(&mut engine, resolver);
        engine.trigger(session.events())?;
        engine.follow()?;
        prefer_this_thread();
        let layout = session.layout();
        let mut recording = session.start()?;
        let stopper = recording.stopper();
        let mut follower = Follower::new(self.target, self.inherit);
        let progress = Progress::start();

        let mut child: Option<Child> = None;
        let patience = match self.target {
            Target::System => PATIENCE,
            Target::Processes(_) | Target::Command(_) => PATIENCE_WITH_FEW,
        };
        let mut begun: Option<Instant> = None;
        let mut first: Option<usize> = None;
        let opened = Instant::now();
        let mut drained = Instant::now();
        loop {
            // Files that nobody has seen before are looked at as soon as code in them is met.
            for question in engine.questions(TICK)? {
                answer(&question, &mut engine, resolver);
            }
            let next = recording.next(Duration::ZERO);
            if let Next::Batch(batch) = &next {
                for record in batch.iter() {
                    match layout.decode(record) {
                        Ok(record) => follower.record(&record, resolver),
                        Err(_) => resolver.unreadable(),
                    }
                }
                follower.tell(&mut engine);
            }
            tell_files(&mut engine, resolver);
            if matches!(next, Next::End) {
                break;
            }
            // The first records are of what ran already: its tables are worth waiting for.
            let (asked, made) = engine.tables();
            let first = *first.get_or_insert(asked);
            if begun.is_none() && (made >= first || opened.elapsed() > patience) {
                if let Some(command) = &command {
                    engine.expect_command(command.pid());
                    follower.add_target(command.pid());
                }
                engine.start()?;
                begun = Some(Instant::now());
                if self.verbose {
                    for lacking in engine.lacks() {
                        say!("the kernel: {lacking}");
                    }
                    say!("recording; {}", tables(&engine));
                }
                child = command.take().map(Waiting::run).transpose()?;
            }
            let over = self.duration.zip(begun).is_some_and(|(limit, at)| at.elapsed() >= limit);
            if over || (self.interrupted)() || follower.all_gone() || has_ended(&mut child) {
                engine.stop()?;
                stopper.stop();
            }
            if drained.elapsed() >= DRAIN {
                engine.drain(&mut |counted| self.adder(resolver).add(&counted))?;
                drained = Instant::now();
            }
            let samples = counted(resolver.stats().samples, "sample");
            progress.say(format!("{samples}, {} lost", grouped(engine.stats().lost)));
        }
        progress.end();
        engine.stop()?;
        // Each call takes what was counted before the one before.
        let mut add = |counted: Counted<'_>| self.adder(resolver).add(&counted);
        engine.drain(&mut add)?;
        engine.drain(&mut add)?;
        engine.unfinished(&mut add)?;
        engine.held(&mut add)?;
        if self.verbose {
            say!("{}; {}", tables(&engine), stacks(&engine.stats()));
        }
        Ok(Recorded { summary: summary(recording, &engine), child })
    }
}

fn has_ended(child: &mut Option<Child>) -> bool {
    // If it cannot be waited for, nobody will tell when it has.
    child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
}

/// `412 unwind tables of 3,114,212 rows in 21 MiB of an arena, made in 812 ms`.
fn tables(engine: &Engine) -> String {
    let TableStats { tables, rows, bytes, time, .. } = engine.table_stats();
    format!(
        "{} of {} rows in {} MiB of {}, made in {} ms",
        counted(tables, "unwind table"),
        grouped(rows),
        bytes >> 20,
        match engine.table_backend() {
            TableBackend::Arena => "an arena",
            TableBackend::Arrays => "arrays",
        },
        time.as_millis()
    )
}

/// How user stacks ended.
fn stacks(stats: &Stats) -> String {
    format!(
        "{}: {} whole, {} too long or unreadable, {} in files that were not known yet, {} not led on",
        counted(stats.user_stacks, "user stack"),
        grouped(stats.whole),
        grouped(stats.truncated),
        grouped(stats.unknown),
        grouped(stats.broken)
    )
}

fn summary(recording: Recording, engine: &Engine) -> Summary {
    for notice in recording.notices() {
        // Of processes that were just ending: the programs look up mappings themselves.
        if !matches!(notice, Notice::ProcessesUnreadable { .. }) {
            say!("{notice}");
        }
    }
    let mut summary = recording.finish();
    summary.lost = summary.lost.saturating_add(engine.stats().lost);
    let tables = engine.table_stats();
    if tables.omitted > 0 {
        say!(
            "{} left out, for which there was no room: stacks end in these files",
            counted(tables.omitted, "unwind table")
        );
    }
    summary
}

/// Adds what was counted to the profile.
struct Adder<'a> {
    resolver: &'a mut Resolver<LiveFiles>,
    /// The function whose returns are counted.
    returned: Option<&'a str>,
}

impl Adder<'_> {
    fn add(&mut self, counted: &Counted<'_>) {
        let waker = counted.waker.map(|waker| CountedWaker {
            pid: waker.pid,
            process: waker.process,
            kernel: waker.kernel,
            user: frames(waker.user),
            cut: cut(waker.user),
            alone: counted.sort == Sort::Woken,
        });
        self.resolver.counted(CountedStack {
            pid: counted.pid,
            process: counted.process,
            tid: counted.tid,
            cpu: counted.cpu,
            thread: counted.thread,
            kernel: counted.kernel,
            has_user: !counted.user.is_empty(),
            user: frames(counted.user),
            cut: cut(counted.user),
            wait: wait(counted.sort),
            labels: &answers::labels(counted.sort, self.returned),
            waker,
            events: counted.events,
            value: counted.value,
        });
    }
}

fn frames<'a>(stack: UserStack<'a>) -> impl Iterator<Item = (Option<u32>, u64)> + use<'a> {
    stack.frames().map(|frame| (frame.module, frame.address))
}

fn cut(stack: UserStack<'_>) -> Option<pyrograph_resolve::Cut> {
    Some(match stack.cut()? {
        Cut::Truncated => pyrograph_resolve::Cut::Truncated,
        Cut::Broken => pyrograph_resolve::Cut::Broken,
    })
}

fn wait(sort: Sort) -> Option<pyrograph_resolve::Wait> {
    let Sort::Wait(wait) = sort else { return None };
    Some(match wait {
        Wait::Sleep => pyrograph_resolve::Wait::Sleep,
        Wait::Lock => pyrograph_resolve::Wait::Lock,
        Wait::Io => pyrograph_resolve::Wait::Io,
        Wait::Uninterruptible => pyrograph_resolve::Wait::Uninterruptible,
        Wait::Preempted => pyrograph_resolve::Wait::Preempted,
    })
}

/// Looks at a file that the programs have met.
fn answer(question: &FileQuestion, engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    let FileQuestion { pid, range, .. } = question;
    let link = match range.is_empty() {
        true => format!("/proc/{pid}/exe"),
        false => format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end),
    };
    let looked = match std::fs::read_link(link) {
        Ok(path) => resolver.look_at(*pid, range.clone(), &path.to_string_lossy()),
        Err(_) => Looked::Gone,
    };
    match looked {
        Looked::File(file) => {
            engine.answer(question, Some((What::Module(file.module), file.unwind.as_ref())));
        }
        Looked::Anonymous => engine.answer(question, Some((What::Anonymous, None))),
        Looked::Gone => engine.answer(question, None),
    }
}

/// Tells the programs of files that were opened meanwhile.
fn tell_files(engine: &mut Engine, resolver: &mut Resolver<LiveFiles>) {
    for file in resolver.opened_files() {
        let key = file.key.map_or(FileKey::VDSO, |key| {
            let device = (libc::major(key.device), libc::minor(key.device));
            FileKey::new(device, key.inode, key.size, key.changed)
        });
        engine.add_file(key, file.module, file.unwind.as_ref());
    }
}

/// Follows processes: their names, and the code that they make as they run.
struct Follower {
    /// The processes that are looked at; none for all.
    targets: Option<HashSet<i32>>,
    /// Those that were asked for and still run.
    asked: Vec<i32>,
    /// A command was asked for, which tells its end itself.
    command: bool,
    inherit: bool,
    gone: Vec<i32>,
}

impl Follower {
    fn new(target: &Target, inherit: bool) -> Self {
        let asked = match target {
            Target::Processes(pids) => pids.clone(),
            Target::System | Target::Command(_) => Vec::new(),
        };
        let targets = (*target != Target::System).then(|| asked.iter().copied().collect());
        let command = matches!(target, Target::Command(_));
        Self { targets, asked, command, inherit, gone: Vec::new() }
    }

    fn add_target(&mut self, pid: i32) {
        self.targets.get_or_insert_default().insert(pid);
    }

    fn is_target(&self, pid: i32) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.contains(&pid))
    }

    fn record(&mut self, record: &Record<'_>, resolver: &mut Resolver<LiveFiles>) {
        let pid = match record {
            Record::Mmap(mapping) => mapping.pid,
            Record::Mmap2(mapping) => mapping.pid,
            Record::Comm(comm) => comm.pid,
            Record::Exit(task) => task.pid,
            Record::Fork(task) => {
                if self.inherit
                    && let Some(targets) = &mut self.targets
                    && targets.contains(&task.parent_pid)
                {
                    targets.insert(task.pid);
                }
                task.pid
            }
            // Its samples are none of ours: the programs have them.
            Record::Sample(_) => return,
            _ => return resolver.record(record),
        };
        if !self.is_target(pid) {
            return;
        }
        resolver.record(record);
        if matches!(record, Record::Exit(_)) && !resolver.runs(pid) {
            self.gone.push(pid);
        }
    }

    /// Forgets processes that are gone.
    fn tell(&mut self, engine: &mut Engine) {
        for pid in self.gone.drain(..) {
            engine.forget_process(pid);
            if let Some(targets) = &mut self.targets {
                targets.remove(&pid);
            }
        }
    }

    /// Whether all processes that were asked for have ended.
    fn all_gone(&mut self) -> bool {
        self.asked.retain(|pid| is_running(*pid));
        self.targets.is_some() && !self.command && self.asked.is_empty()
    }
}

/// Whether a process with this number runs.
pub fn is_running(pid: i32) -> bool {
    // SAFETY: signal 0 is not delivered.
    unsafe { libc::kill(pid, 0) == 0 }
}
