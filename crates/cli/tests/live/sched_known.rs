//! Programs whose sleeps, contention and migrations are known, as `sched` shows them: of what runs, and of a file that
//! `perf sched record` makes of the same run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::perf::{run_perf, with_perf_as_root};
use crate::common::perf_sched::{BUSY, Event, events, woken_by_nothing};
use crate::common::{is_root, kept, pyrograph, run, sharp, stolen, text};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// What a thread of `schedule.c` says of itself: nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Thread {
    tid: i64,
    voluntary: u64,
    involuntary: u64,
    cpu: u64,
    life: u64,
}

/// A run of the program, and what was recorded of it: by perf, and live.
struct Run {
    threads: Vec<Thread>,
    data: PathBuf,
    latency: PathBuf,
    history: PathBuf,
    /// For how long CPUs were taken away meanwhile, nanoseconds: clocks of CPU time leave that out, and switches do not.
    stolen: u64,
}

/// The program that the tests of `session` use, too.
fn program(folder: &Path) -> PathBuf {
    let source = crate::common::program_source("../../../session/tests/programs/schedule.c");
    let program = folder.join("schedule");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-fno-inline", "-pthread", "-o"]).arg(&program).arg(source);
    run(&mut compiler);
    program
}

/// What the threads of the program say of themselves.
fn threads(file: &Path) -> Vec<Thread> {
    let thread = |line: &str| {
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [tid, voluntary, involuntary, cpu, life] = numbers[..] else { panic!("{line}") };
        Thread { tid: tid as i64, voluntary, involuntary, cpu, life }
    };
    std::fs::read_to_string(file).expect("its file").lines().map(thread).collect()
}

/// Runs the program, which waits until all that records has begun.
fn observe(folder: &Path, arguments: &[&str]) -> Run {
    let program = program(folder);
    let file = folder.join("threads");
    // The program begins once nobody holds its input any more.
    let holds = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn();
    let mut holds = holds.expect("sleep");
    let input = holds.stdout.take().expect("a pipe");
    let child = Command::new(&program).arg(&file).args(arguments).stdin(input).spawn();
    let mut child = child.expect("it runs");
    let begin = format!(
        "kill {}; while [ ! -s {} ]; do sleep 0.02; done; sleep 0.05",
        holds.id(),
        file.display()
    );
    let [data, latency, history] =
        ["perf.data", "latency.json", "history.json"].map(|name| folder.join(name));
    let mut record = Command::new("perf");
    record.args(["sched", "record", "-q", "-o"]).arg(&data).arg("--");
    let live = pyrograph();
    for (view, to) in
        [(&["latency", "--by", "thread"][..], &latency), (&["timehist", "-M"], &history)]
    {
        record
            .arg(live.get_program())
            .arg("sched")
            .args(view)
            .args(["--json", "-a", "-o"])
            .arg(to)
            .arg("--");
    }
    record.env("XDG_CACHE_HOME", kept().join("cache"));
    let before = stolen();
    run_perf(record.args(["sh", "-c", &begin]));
    let stolen = (stolen() - before).as_nanos() as u64;
    holds.wait().expect("it was ended");
    assert!(child.wait().expect("it ends").success());
    let threads = threads(&file);
    Run { threads, data, latency, history, stolen }
}

impl Run {
    /// The rows of threads in `sched latency`: live, and of the file.
    fn latencies(&self) -> [Vec<Value>; 2] {
        let live = std::fs::read_to_string(&self.latency).expect("written");
        let of_file = of_file(&self.data, &["latency", "--by", "thread", "--json"]);
        [live, of_file].map(|text| {
            let table: Value = serde_json::from_str(&text).expect("JSON");
            table["rows"].as_array().expect("rows").clone()
        })
    }

    /// The rows of `sched timehist -M`: live, and of the file.
    fn histories(&self) -> [Vec<Value>; 2] {
        let live = std::fs::read_to_string(&self.history).expect("written");
        let of_file = of_file(&self.data, &["timehist", "-M", "--json"]);
        [live, of_file].map(|text| {
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        })
    }
}

fn of_file(data: &Path, arguments: &[&str]) -> String {
    text(&run(pyrograph().arg("sched").args(arguments).arg("-i").arg(data)).stdout)
}

/// The row of a thread.
fn row(rows: &[Value], tid: i64) -> &Value {
    let mut found = rows.iter().filter(|row| row["tid"] == tid);
    let row = found.next().unwrap_or_else(|| panic!("no thread {tid}"));
    assert!(found.next().is_none(), "one row of thread {tid}");
    row
}

/// The switches with which a thread left its CPU.
fn left(history: &[Value], tid: i64) -> Vec<&Value> {
    let is_it = |row: &&Value| row["event"] == "switch" && row["task"]["tid"] == tid;
    history.iter().filter(is_it).collect()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

fn near(found: u64, expected: u64, share: f64, least: u64) -> bool {
    found.abs_diff(expected) <= ((expected as f64 * share) as u64).max(least)
}

/// All delays of a row of `sched latency`.
fn delay(row: &Value) -> u64 {
    number(row, "avg_delay_ns") * number(row, "delays")
}

/// Each of fifty sleeps is a switch, and the time without a CPU is that of the sleeps and what the thread waited for a CPU then.
#[test]
fn known_sleeps_are_as_many_and_as_long() {
    with_perf_as_root("known_sleeps_are_as_many_and_as_long", |folder| {
        let run = observe(folder, &["sleeps", "50", "5000000"]);
        let [thread] = run.threads[..] else { panic!("one thread: {:?}", run.threads) };
        for (at, (history, latency)) in run.histories().iter().zip(&run.latencies()).enumerate() {
            let switches = left(history, thread.tid);
            // It may have to leave its CPU where it is about to sleep, and sleeps then all the same.
            let slept = switches.iter().filter(|row| row["state"] == "S").count() as u64;
            assert!(slept == thread.voluntary && slept <= 50, "{slept} and {thread:?}");
            assert!(slept + thread.involuntary >= 50, "{thread:?}");
            let is_known = |row: &&Value| !row["wait_ns"].is_null();
            if at == 1 && !switches.iter().skip(1).all(is_known) {
                eprintln!(
                    "skipped: waits in a file: this kernel hides switches of an idle task from perf"
                );
                continue;
            }
            // When it began to wait for its input was not seen; then it waits as long as it has no CPU.
            let wait: u64 = switches.iter().map(|row| number(row, "wait_ns")).sum();
            // That it has a CPU is not all of its CPU time: interrupts take of it, and before a switch is an event, all who
            // record switches take theirs, which counts for the thread, too. Beside other work each is some milliseconds.
            let runs: u64 = switches.iter().map(|row| number(row, "run_ns")).sum();
            // After it has read its clocks, it writes them, and ends. Beside other work and its recordings some of its life is neither,
            // or both, as far as events tell: 5 % were seen. That no wait is missing, their number says.
            let most = 10 * MS + run.stolen;
            assert!(
                near(wait + runs, thread.life, sharp(0.15, 0.01), most),
                "{wait} {runs} and {thread:?}: {switches:?}"
            );
            let delays: u64 = switches.iter().map(|row| number(row, "delay_ns")).sum();
            // Where its CPU is taken away as it falls asleep, its time comes while it could run.
            let least = 50 * 5 * MS - sharp(50, 12) * MS;
            assert!(wait - delays + run.stolen >= least, "{wait} {delays} and {thread:?}");
            let row = row(latency, thread.tid);
            assert!(
                near(number(row, "runtime_ns"), thread.cpu, 0.02, 2 * MS),
                "{row} and {thread:?}"
            );
            // It was given a CPU before it left it for the first time.
            assert!(number(row, "switches") > thread.voluntary + thread.involuntary, "{row}");
        }
    });
}

/// Two threads that spin on one CPU wait for it as long as they do not run, and that is at least as long as the other runs.
#[test]
fn shares_of_known_contention_are_delay() {
    with_perf_as_root("shares_of_known_contention_are_delay", |folder| {
        let run = observe(folder, &["spins", "400"]);
        let [first, second, _] = run.threads[..] else { panic!("{:?}", run.threads) };
        for (history, latency) in run.histories().iter().zip(&run.latencies()) {
            for (thread, other) in [(first, second), (second, first)] {
                let row = row(latency, thread.tid);
                let waits = thread.life - thread.cpu;
                // Before its life begins, it waits for its first run.
                let switches = left(history, thread.tid);
                let first = switches.first().map_or(0, |row| number(row, "delay_ns"));
                let most = 5 * MS + run.stolen;
                // Beside other work, a thread is off its CPU for more than waits that events tell of: one that were missing, or
                // counted twice, would be half of all.
                let (share, least) = sharp((0.2, 0.8), (0.05, 0.95));
                let delay = delay(row);
                assert!(near(delay - first.min(delay), waits, share, most), "{row} and {thread:?}");
                assert!((delay + most) as f64 > least * other.cpu as f64, "{row} and {other:?}");
                // Now and then perf gets no event of a part of the time that the kernel counts.
                assert!(
                    near(number(row, "runtime_ns"), thread.cpu, share, 10 * MS),
                    "{row} and {thread:?}"
                );
                // It was preempted each time; before it first ran it had no CPU to wait without.
                let wait: u64 = switches.iter().map(|row| number(row, "wait_ns")).sum();
                assert!(near(wait, waits, share, most), "{wait} and {thread:?}");
                let runs: u64 = switches.iter().map(|row| number(row, "run_ns")).sum();
                assert!(near(runs, thread.cpu, share, most), "{runs} and {thread:?}");
            }
        }
    });
}

/// A thread that moves to and fro a hundred times is seen to move as often, in each view.
#[test]
fn known_migrations_are_as_many() {
    if std::thread::available_parallelism().expect("a number").get() < 2 {
        return;
    }
    with_perf_as_root("known_migrations_are_as_many", |folder| {
        let run = observe(folder, &["migrates", "100"]);
        let tid = run.threads[0].tid;
        let [live, recorded] = run.histories();
        let moves = |history: &[Value]| -> Vec<(u64, u64)> {
            let is_it = |row: &&Value| row["event"] == "migration" && row["moved"]["tid"] == tid;
            let cpus = |row: &Value| (number(row, "from_cpu"), number(row, "to_cpu"));
            history.iter().filter(is_it).map(cpus).collect()
        };
        let moved = moves(&recorded);
        assert_eq!(moves(&live), moved);
        // Before it is pinned to CPU 0, it may be moved there, or to any; the last hundred are its own.
        let own = &moved[moved.len() - 100..];
        assert!(own.chunks(2).all(|two| two == [(0, 1), (1, 0)]), "{moved:?}");
        assert!(moved.len() <= 104, "{moved:?}");
        // perf and the text have as many, and so has the sum.
        let name = format!("migrated: schedule[{tid}]");
        let mut perf = Command::new("perf");
        let theirs =
            text(&run_perf(perf.args(["sched", "timehist", "-M", "-i"]).arg(&run.data)).stdout);
        assert_eq!(theirs.matches(&name).count(), moved.len());
        assert_eq!(of_file(&run.data, &["timehist", "-M"]).matches(&name).count(), moved.len());
        let sums = of_file(&run.data, &["timehist", "-s"]);
        let line = sums.lines().find(|line| line.contains(&format!("schedule[{tid}]")));
        let last = line.expect("its row").split_whitespace().last();
        assert_eq!(last, Some(&moved.len().to_string()[..]), "{line:?}");
    });
}

/// The tables of intervals have no gap, and add up to what the threads say of themselves.
#[test]
fn a_table_each_interval_adds_up_to_the_whole() {
    if !is_root("a_table_each_interval_adds_up_to_the_whole") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (program, file) = (program(folder.path()), folder.path().join("threads"));
    let mut command = pyrograph();
    command.args(["sched", "-I", "0.1", "--by", "thread", "--json", "--"]).arg(program);
    let output = run(command.arg(&file).args(["spins", "450"]).stdin(Stdio::null()));
    let tables: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a table a line"))
        .collect();
    // Four, or fewer where it comes too late.
    assert!(tables.len() >= 2, "{tables:?}");
    assert_eq!(tables[0]["from_ns"], 0);
    assert!(tables.windows(2).all(|two| two[0]["to_ns"] == two[1]["from_ns"]), "{tables:?}");
    for thread in &threads(&file)[..2] {
        let rows = tables.iter().flat_map(|table| table["rows"].as_array().expect("rows"));
        let rows: Vec<&Value> = rows.filter(|row| row["tid"] == thread.tid).collect();
        let sum = |key: &str| rows.iter().map(|row| number(row, key)).sum::<u64>();
        assert!(near(sum("runtime_ns"), thread.cpu, 0.02, 2 * MS), "{rows:?} and {thread:?}");
        // It may have to leave its CPU once more after it has looked at these.
        let switches = thread.voluntary + thread.involuntary + 1;
        assert!((switches..=switches + 5).contains(&sum("switches")), "{rows:?} and {thread:?}");
    }
}

/// What was written is seen while the command runs on.
#[test]
fn history_is_seen_as_it_happens() {
    if !is_root("history_is_seen_as_it_happens") {
        return;
    }
    let mut command = pyrograph();
    command.args(["sched", "timehist", "--", "sh", "-c", "sleep 0.05; sleep 20; :"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let slept = lines.map(|line| line.expect("text")).find(|line| line.contains(" sleep["));
    assert!(slept.is_some());
    // Its own end would have been that of the command.
    assert!(child.try_wait().expect("its state").is_none());
    let pid = i32::try_from(child.id()).expect("a number");
    // SAFETY: it takes numbers.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    child.wait().expect("it ends");
}

/// In one run that both follow, live figures of each task that began and ended in it are those of perf's recording.
#[test]
fn live_figures_are_those_of_perf_in_the_same_run() {
    with_perf_as_root("live_figures_are_those_of_perf_in_the_same_run", |folder| {
        let [data, live, shell] = ["perf.data", "live.json", "shell"].map(|name| folder.join(name));
        let ours = pyrograph();
        let mut record = Command::new("perf");
        record.args(["sched", "record", "-q", "-o"]).arg(&data).arg("--");
        record.arg(ours.get_program()).args(["sched", "--pids", "--json", "-a", "-o"]).arg(&live);
        record.env("XDG_CACHE_HOME", kept().join("cache"));
        let before = stolen();
        let busy = format!("echo $$ >{}; {BUSY}", text(shell.as_os_str().as_encoded_bytes()));
        run_perf(record.args(["--", "sh", "-c", &busy]));
        let stolen = (stolen() - before).as_nanos() as u64;
        let rows = |text: &str| {
            let table: Value = serde_json::from_str(text).expect("JSON");
            table["rows"].as_array().expect("rows").clone()
        };
        let live = rows(&std::fs::read_to_string(&live).expect("written"));
        let of_file = rows(&of_file(&data, &["--pids", "--json"]));
        let history = self::of_file(&data, &["timehist", "--json"]);
        let history: Vec<Value> =
            history.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let events = events(&data);
        // The shell started them, or who it started: then both recorded.
        let shell = std::fs::read_to_string(&shell).expect("written");
        let shell: i32 = shell.trim().parse().expect("a number");
        let mut started = BTreeSet::new();
        for (_, event) in &events {
            if let Event::Fork(by, thread) = event
                && (*by == shell || started.contains(by))
            {
                started.insert(*thread);
            }
        }
        let hidden = woken_by_nothing(&events);
        let (mut compared, mut near_in_time, mut near_in_delay, mut all) = (0, 0, 0, [0, 0]);
        for ours in &live {
            let tid = ours["tid"].as_i64().expect("a number");
            let switches = left(&history, tid);
            let has_ended = switches.last().is_some_and(|row| row["state"] == "X");
            if !has_ended || !started.contains(&(tid as i32)) || hidden.contains(&(tid as i32)) {
                continue;
            }
            // Of some tasks, the idle one of a CPU among them, this kernel reports no switch to perf: what ran after them has
            // come out of nowhere.
            if switches.iter().any(|row| row["wait_ns"].is_null() && row["delay_ns"].is_null()) {
                continue;
            }
            let theirs = row(&of_file, tid);
            assert_eq!(ours["switches"], theirs["switches"], "{ours} {theirs}");
            assert_eq!(ours["delays"], theirs["delays"], "{ours} {theirs}");
            // Now and then perf gets no event of a part of the time that the kernel counts: then it is more than that of the
            // events, which is more than that between switches if programs on the switches take long.
            let [a, b] = [ours, theirs].map(|row| number(row, "runtime_ns"));
            let on_cpu: u64 = switches.iter().map(|row| number(row, "run_ns")).sum();
            let most = on_cpu.max(b);
            let is_between = a >= b && a < most + most / 20 + 2000;
            assert!(near(a, b, 0.01, 2000) || is_between, "{ours} {theirs} {on_cpu}");
            near_in_time += usize::from(near(a, b, 0.01, 2000));
            // The clock is read twice for each event, one program after the other; a hypervisor may take the CPU between.
            let [a, b] = [ours, theirs].map(delay);
            near_in_delay += usize::from(near(a, b, 0.01, 3000 * number(ours, "delays")));
            all = [all[0] + a, all[1] + b];
            compared += 1;
        }
        assert!(compared >= 20, "{compared} of {}", live.len());
        assert!(near_in_time * 20 >= compared * 19, "{near_in_time} of {compared}");
        assert!(near_in_delay * 20 >= compared * 19, "{near_in_delay} of {compared}");
        assert!(near(all[0], all[1], 0.01, 10 * MS + stolen), "{all:?}");
    });
}
