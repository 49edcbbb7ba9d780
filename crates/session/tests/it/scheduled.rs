//! A program that does something known with the scheduler, and what recordings of it say.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pyrograph_profile::{SchedAction, SchedCount, SchedEvent, SchedTasks, TaskId, TaskState};
use pyrograph_session::{Error, SchedEnd, SchedKey, SchedPlan, SchedRecording, Scope, Target};

pub const MS: u64 = 1_000_000;

/// Set where a test runs again in a PID namespace of its own, or as another user.
pub const INSIDE: &str = "PYROGRAPH_TEST_INSIDE";

/// `programs/schedule.c`, which waits, and the file that it writes.
pub struct Program {
    child: Child,
    /// How often its first thread had left its CPU when it began to read.
    switches_before: u64,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

/// A thread's own account.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub tid: i32,
    pub voluntary: u64,
    pub involuntary: u64,
    pub cpu: u64,
    pub life: u64,
}

pub fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/schedule.c")
}

/// The command of the program, and its file.
pub fn command(folder: &Path, arguments: &[&str]) -> (Vec<String>, PathBuf) {
    let (program, file) = (folder.join("schedule"), folder.join("threads"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-fno-inline", "-pthread", "-o"]).args([&program, &source()]);
    assert!(compiler.status().expect("gcc").success());
    let words = [program.to_str().expect("plain"), file.to_str().expect("plain")];
    (words.iter().chain(arguments).map(ToString::to_string).collect(), file)
}

/// Waits until the program reads: before, that would be one of the waits that are followed. The system call is said only of a
/// thread that has left its CPU; its state says "asleep" before.
pub fn until_it_reads(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let reads = format!("{} 0x0 ", libc::SYS_read);
    loop {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("it runs");
        if call.starts_with(&reads) {
            return;
        }
        assert!(Instant::now() < deadline, "{call}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs, or is not waited for")
}

/// The kernel's count of how often a thread has left its CPU.
pub fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    counts.map(|(_, count)| count.trim().parse::<u64>().expect("a number")).sum()
}

impl Program {
    pub fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (command, file) = command(folder.path(), arguments);
        let child = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).spawn();
        let child = child.expect("it runs");
        until_it_reads(child.id());
        let switches_before = switches(&status(child.id()));
        Self { child, switches_before, file, _folder: folder }
    }

    pub fn target(&self) -> Target {
        Target::Processes(vec![i32::try_from(self.child.id()).expect("a small number")])
    }

    pub fn go_on(&mut self) {
        drop(self.child.stdin.take());
    }

    /// How often its first thread has left its CPU since, until it has ended; the last time may not be among them yet.
    pub fn switches(&self) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = status(self.child.id());
            if status.contains("\nState:\tZ") {
                return switches(&status) - self.switches_before;
            }
            assert!(Instant::now() < deadline, "{status}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Its threads, when it has ended: of those that it started, and then the first one.
    pub fn threads(&mut self) -> Vec<Thread> {
        assert!(self.child.wait().expect("it ends").success());
        let text = std::fs::read_to_string(&self.file).expect("its file");
        let thread = |line: &str| {
            let numbers: Vec<u64> =
                line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [tid, voluntary, involuntary, cpu, life] = numbers[..] else { panic!("{line}") };
            Thread { tid: tid as i32, voluntary, involuntary, cpu, life }
        };
        text.lines().map(thread).collect()
    }
}

pub fn plan(scope: impl Into<Scope>) -> SchedPlan {
    SchedPlan { memory: 16 << 20, ..SchedPlan::new(scope) }
}

pub fn counts(scope: impl Into<Scope>) -> SchedPlan {
    SchedPlan { counts: Some(SchedKey::Task), ..plan(scope) }
}

/// Opens a recording and starts it; `None`, and a word about it, where that is not permitted.
pub fn open(plan: &SchedPlan) -> Option<SchedRecording> {
    match SchedRecording::open(plan) {
        Err(error) if error.is_refusal() => {
            eprintln!("skipped: {error}");
            None
        }
        recording => {
            let mut recording = recording.expect("a recording");
            recording.start().expect("it starts");
            Some(recording)
        }
    }
}

/// Takes all that is left.
pub fn all(mut recording: SchedRecording) -> (Vec<SchedEvent>, SchedEnd) {
    let mut events = Vec::new();
    let mut keep = |_: &SchedTasks, event| {
        events.push(event);
        Ok::<(), Error>(())
    };
    while recording.step(&mut keep).expect("it goes on") {}
    let end = recording.finish();
    // Tasks that this process cannot see have no room made for them before.
    let most = if std::env::var_os(INSIDE).is_some() { 100 } else { 0 };
    assert!(end.lost == 0 && end.lost_tasks <= most, "{} {}", end.lost, end.lost_tasks);
    assert!(events.is_sorted_by_key(|event| event.time));
    (events, end)
}

/// The program's own account, and events and counts of the same run.
pub struct Run {
    pub threads: Vec<Thread>,
    pub events: Vec<SchedEvent>,
    pub end: SchedEnd,
    pub counts: Vec<SchedCount>,
    /// [`Program::switches`]
    pub switches: u64,
    /// How much time CPUs were taken away for meanwhile.
    pub stolen: u64,
}

/// Runs the program, followed twice.
pub fn both(arguments: &[&str]) -> Option<Run> {
    let mut program = Program::start(arguments);
    let target = program.target();
    let counted = open(&counts(target.clone()))?;
    let events = open(&plan(target))?;
    let before = stolen();
    program.go_on();
    let (events, end) = all(events);
    let (_, counted) = all(counted);
    let switches = program.switches();
    let threads = program.threads();
    let stolen = stolen() - before;
    Some(Run { threads, events, end, counts: counted.counts, switches, stolen })
}

/// How long the host of a virtual machine has kept its CPUs from it, nanoseconds: what is between two readings of a clock may be
/// that. The eighth number of the line `cpu` of `/proc/stat`, hundredths of a second.
pub fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel has it");
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    10 * MS * ticks.unwrap_or(0u64)
}

/// The times of a task, added up from events.
#[derive(Debug, Default)]
pub struct Sum {
    pub of: SchedCount,
    /// Waits for a CPU whose ends some kernels do not report: how many, and how long they were at most, nanoseconds.
    pub unreported: u64,
    pub at_most: u64,
}

/// The times of tasks, added up from events by brute force.
pub fn added_up(events: &[SchedEvent], end: &SchedEnd) -> HashMap<TaskId, Sum> {
    let mut rows: HashMap<TaskId, Sum> = HashMap::new();
    let (mut running, mut runnable) = (HashMap::new(), HashMap::new());
    let mut seen = std::collections::HashSet::new();
    for event in events {
        match event.action {
            SchedAction::Switch { previous, state, next, .. } => {
                // Of tasks that are not followed, only some switches are known.
                let since = running.remove(&previous);
                let is_new = seen.insert(previous);
                // Some kernels do not report each switch: it was given a CPU all the same, also for the first time.
                let woken = runnable.remove(&previous);
                let row = rows.entry(previous).or_default();
                if since.is_none() && (!is_new || woken.is_some()) {
                    row.of.switches += 1;
                    row.unreported += u64::from(woken.is_some());
                    row.at_most += event.time - woken.unwrap_or(event.time);
                }
                let since = since.or(woken).or(is_new.then_some(end.started));
                row.of.run_time += event.time - since.unwrap_or(event.time);
                if state == TaskState::Runnable {
                    runnable.insert(previous, event.time);
                }
                seen.insert(next);
                running.insert(next, event.time);
                let row = rows.entry(next).or_default();
                row.of.switches += 1;
                if let Some(since) = runnable.remove(&next) {
                    row.of.delays.add(event.time - since);
                }
            }
            SchedAction::Wakeup { task, .. } if !running.contains_key(&task) => {
                runnable.insert(task, event.time);
            }
            _ => {}
        }
    }
    rows.remove(&TaskId::IDLE);
    rows
}

/// The first bound, or the second where `PYROGRAPH_SHARP` is set: a bound that holds on any machine, and one that holds on a
/// calm one, which `.ci/nightly` tries.
pub fn sharp(loose: u64, sharp: u64) -> u64 {
    if std::env::var_os("PYROGRAPH_SHARP").is_some() { sharp } else { loose }
}

pub fn near(found: u64, expected: u64, share: f64, least: u64) -> bool {
    found.abs_diff(expected) <= ((expected as f64 * share) as u64).max(least)
}

/// The row of a thread.
pub fn row(rows: &[SchedCount], tid: i32) -> &SchedCount {
    let mut found = rows.iter().filter(|row| row.tid == tid);
    let row = found.next().unwrap_or_else(|| panic!("no thread {tid}: {rows:?}"));
    assert!(found.next().is_none(), "one row of thread {tid}");
    row
}
