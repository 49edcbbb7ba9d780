//! Following the scheduler in the kernel: programs whose sleeps, switches, migrations and contention are known, and events
//! against counts of the same run.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use pyrograph_profile::{
    Durations, SchedAction, SchedCount, SchedEvent, SchedTask, SchedTasks, TaskState, WaitReason,
};
use pyrograph_session::{Error, SchedEnd, SchedKey, SchedPlan, SchedRecording, Scope, Target};

use crate::scheduled::{
    INSIDE, MS, Program, Run, Thread, added_up, all, both, command, counts, near, open, plan, row,
    sharp, stolen,
};

/// Events and counts say the same of a program that does much.
#[test]
fn counts_are_the_sums_of_events() {
    for arguments in [&["turns", "3000"][..], &["sleeps", "100", "1000000"], &["forks", "200"]] {
        let Some(Run { threads, events, end, counts, stolen, .. }) = both(arguments) else {
            return;
        };
        let process = threads.last().expect("a thread").tid;
        let sums = added_up(&events, &end);
        let sums = sums.iter().map(|(task, sum)| (end.tasks.get(*task), sum));
        let mut compared = 0;
        for (names, sum) in sums.filter(|(names, _)| names.pid == process) {
            let count = row(&counts, names.tid);
            let both = format!("{names:?}: {count:?}, {sum:?}, {stolen} ns stolen");
            let (unreported, at_most, sum) = (sum.unreported, sum.at_most, &sum.of);
            assert_eq!(count.switches, sum.switches, "{both}");
            assert_eq!(count.delays.count, sum.delays.count + unreported, "{both}");
            // A switch is a few microseconds of CPU time before it is an event, longer where other recordings have events of it,
            // too, or a hypervisor took the CPU away there. What it took elsewhere is between switches, but no CPU time: how little
            // it may be is known to the thread's own clock alone.
            let slack = sharp(10 * MS, 0) + 50_000 * sum.switches;
            assert!(count.run_time < sum.run_time + slack, "{both}");
            // The clock is read twice for each event, and a CPU may be taken away between the two: then a single delay is
            // longer by as much. So most of them must be alike, and the sum and the longest but for that.
            for share in [0.5, 0.9] {
                // A few more or less may be beyond a gap.
                let below = |a: &Durations, b: &Durations| {
                    a.percentile(share) as f64 <= 1.25 * b.percentile(share + 0.03) as f64 + 2000.0
                };
                let (a, b) = (&count.delays, &sum.delays);
                assert!(below(a, b) && below(b, a), "{both}");
            }
            let (a, b) = (count.delays.total, sum.delays.total);
            let slack = 10 * MS + stolen + at_most;
            assert!(near(a, b, 0.05, 2000 * sum.delays.count + slack), "{both}");
            let (a, b) = (count.delays.longest, sum.delays.longest);
            assert!(near(a, b, 0.05, slack), "{both}");
            compared += 1;
        }
        assert_eq!(compared, threads.len());
        // All processes that it started, each with its ID.
        let others = counts.iter().filter(|row| row.pid != process);
        let started = if arguments[0] == "forks" { 200 } else { 0 };
        assert_eq!(others.count(), started, "{arguments:?}");
    }
}

/// How long a program that naps has a CPU, and none: by events, and by what it asks for.
#[test]
fn times_on_a_cpu_and_off_it_are_those_between_switches() {
    const NAPS: u64 = 60;
    let mut program = Program::start(&["sleeps", &NAPS.to_string(), "5000000"]);
    let plan_of_total = SchedPlan { counts: Some(SchedKey::Total), ..plan(program.target()) };
    let Some(counted) = open(&plan_of_total) else { return };
    let Some(events) = open(&plan(program.target())) else { return };
    let before = stolen();
    program.go_on();
    let (events, end) = all(events);
    let (_, counted) = all(counted);
    let Thread { tid, voluntary, involuntary, .. } = program.threads()[0];
    let (mut given, mut gone) = (None, None);
    let (mut on_cpu, mut off_cpu) = (Durations::default(), Durations::default());
    for event in &events {
        let SchedAction::Switch { previous, next, .. } = event.action else { continue };
        if end.tasks.get(previous).tid == tid {
            given.take().into_iter().for_each(|since| on_cpu.add(event.time - since));
            gone = Some(event.time);
        } else if end.tasks.get(next).tid == tid {
            gone.take().into_iter().for_each(|since| off_cpu.add(event.time - since));
            given = Some(event.time);
        }
    }
    let [row] = &counted.counts[..] else { panic!("{:?}", counted.counts) };
    for (found, expect) in [(&row.on_cpu, on_cpu), (&row.off_cpu, off_cpu)] {
        let both = format!("{found:?}, of events {expect:?}");
        assert_eq!(found.count, expect.count, "{both}");
        let slack = 3000 * expect.count + 10 * MS + stolen() - before;
        assert!(near(found.total, expect.total, 0.05, slack), "{both}");
        assert!(near(found.percentile(0.5), expect.percentile(0.5), 0.25, 3000), "{both}");
    }
    let naps = row.off_cpu.ranges().filter(|(from, ..)| *from >= 4 * MS).map(|of| of.2);
    // Where the CPU is taken away as it falls asleep, its time may have come before it leaves the CPU, by the kernel's count, or
    // be near when it gets one, and it naps for what is left.
    let least = voluntary.min(NAPS);
    assert!(least >= NAPS * 9 / 10, "{voluntary}");
    // A time off a CPU whose begin or end the kernel did not report is not known.
    let known = least - 2;
    assert!(naps.sum::<u64>() + involuntary >= known, "{involuntary} {row:?}");
    assert!(row.off_cpu.total >= known * 5 * MS, "{row:?}");
}

/// The kernel's own counts of switches, and clocks, agree.
#[test]
fn switches_and_run_time_are_those_of_the_kernel() {
    for arguments in [&["turns", "2000"][..], &["sleeps", "200", "1000000"]] {
        let Some(Run { threads, counts, switches, .. }) = both(arguments) else { return };
        for (at, thread) in threads.iter().enumerate() {
            let count = row(&counts, thread.tid);
            // Each was given a CPU before it first left it; after it has looked at these numbers, it ends. The first one writes
            // them to a file before.
            let expected = thread.voluntary + thread.involuntary + 1;
            let is_first = at + 1 == threads.len();
            let known = if is_first { switches..=switches + 1 } else { expected..=expected + 5 };
            assert!(known.contains(&count.switches), "{thread:?}, {switches}: {count:?}");
            assert!(count.switches >= expected, "{thread:?}: {count:?}");
            assert!(near(count.run_time, thread.cpu, 0.02, 2 * MS), "{thread:?}: {count:?}");
        }
    }
}

/// Sleeps are waits for a timer, as many and as long as they should be.
#[test]
fn sleeps_are_as_many_and_as_long_as_they_are() {
    let Some(Run { threads, events, end, .. }) = both(&["sleeps", "50", "5000000"]) else {
        return;
    };
    let [thread] = threads[..] else { panic!("{threads:?}") };
    let (mut begun, mut sleeps) = (0, Vec::new());
    for event in &events {
        match event.action {
            // Who leaves the CPU to the thread may sleep, too.
            SchedAction::Switch { previous, reason: WaitReason::Sleep, state, .. }
                if end.tasks.get(previous).tid == thread.tid =>
            {
                assert_eq!(state, TaskState::Sleeping);
                begun = event.time;
            }
            SchedAction::Wakeup { task, waker, .. } if begun > 0 => {
                assert_eq!(end.tasks.get(task).tid, thread.tid);
                // A timer's interrupt, of whatever task.
                assert_ne!(waker, task);
                sleeps.push(event.time - begun);
                begun = 0;
            }
            _ => {}
        }
    }
    // By the kernel's count. A thread that has to leave its CPU before it sleeps may have nothing left to wait for.
    // Once or twice it waits for something else, as for a page.
    let known = thread.voluntary.saturating_sub(2)..=thread.voluntary;
    assert!(known.contains(&(sleeps.len() as u64)), "{} sleeps: {thread:?}", sleeps.len());
    assert!(sleeps.len() <= 50 && thread.voluntary + thread.involuntary >= 50, "{thread:?}");
    sleeps.sort_unstable();
    // From the call to the switch some time has passed already.
    assert!(near(sleeps[sleeps.len() / 2], 5 * MS, 0.1, 0), "{sleeps:?}");
}

/// For how long a thread waited for a CPU before it first ran, at least and at most: some kernels do not report each switch.
fn first_delay(events: &[SchedEvent], end: &SchedEnd, tid: i32) -> (u64, u64) {
    let mut woken = None;
    for event in events {
        match event.action {
            SchedAction::Wakeup { task, .. } if end.tasks.get(task).tid == tid => {
                woken = Some(event.time);
            }
            SchedAction::Switch { next, .. } if end.tasks.get(next).tid == tid => {
                let delay = event.time - woken.unwrap_or(event.time);
                return (delay, delay);
            }
            SchedAction::Switch { previous, .. } if end.tasks.get(previous).tid == tid => {
                return (0, event.time - woken.unwrap_or(event.time));
            }
            _ => {}
        }
    }
    (0, 0)
}

/// For how long a thread slept: as it starts, it may have to wait for memory that another one has locked.
fn asleep(events: &[SchedEvent], end: &SchedEnd, tid: i32) -> u64 {
    let (mut since, mut sum) = (None, 0);
    for event in events {
        match event.action {
            SchedAction::Switch { previous, state, .. } if end.tasks.get(previous).tid == tid => {
                let sleeps = !matches!(state, TaskState::Runnable | TaskState::Dead);
                since = sleeps.then_some(event.time);
            }
            SchedAction::Wakeup { task, .. } if end.tasks.get(task).tid == tid => {
                sum += since.take().map_or(0, |since| event.time - since);
            }
            _ => {}
        }
    }
    sum
}

/// Two threads that spin on one CPU wait for it while the other has it.
#[test]
fn contention_is_run_time_of_one_and_delay_of_the_other() {
    let Some(Run { threads, events, end, counts, stolen, .. }) = both(&["spins", "400"]) else {
        return;
    };
    let [first, second] = [0, 1].map(|index| row(&counts, threads[index].tid));
    for (thread, count, other) in [(threads[0], first, second), (threads[1], second, first)] {
        assert!(near(count.run_time, thread.cpu, 0.02, 2 * MS), "{thread:?}: {count:?}");
        // Its life begins when it first runs.
        let (least, most) = first_delay(&events, &end, thread.tid);
        let sum = count.run_time + count.delays.total + asleep(&events, &end, thread.tid) - least;
        let slack = 5 * MS + stolen + (most - least);
        assert!(near(sum, thread.life, 0.05, slack), "{thread:?}: {count:?}");
        let least = (other.run_time as f64 * 0.9) as u64;
        assert!(count.delays.total + 5 * MS + stolen > least, "{count:?} {other:?}");
    }
    assert!(first.run_time > 5 * MS && first.delays.longest > MS / 2, "{first:?}");
}

/// A thread that moves to and fro is seen to move as often.
#[test]
fn migrations_are_as_many_as_they_are() {
    let cpus = std::thread::available_parallelism().expect("a number").get();
    if cpus < 2 {
        return;
    }
    let Some(Run { threads, events, end, .. }) = both(&["migrates", "100"]) else { return };
    let pinned = |event: &SchedEvent| match event.action {
        SchedAction::Migrate { task, from, to } if end.tasks.get(task).tid == threads[0].tid => {
            assert_ne!(from, to);
            Some((from, to))
        }
        _ => None,
    };
    let moves: Vec<(u32, u32)> = events.iter().filter_map(pinned).collect();
    // Before it is pinned, it may be moved; then it goes to the other CPU each time.
    let before = moves.len() - 100;
    assert!(before <= 4, "{moves:?}");
    let to = |index: usize| u32::from(index.is_multiple_of(2));
    for (index, (_, cpu)) in moves[before..].iter().enumerate() {
        assert_eq!(*cpu, to(index), "{moves:?}");
    }
}

/// What a thread waits for is known from the system call that it is in, and from its file.
#[test]
fn reasons_of_waits_are_known() {
    let Some(Run { threads, events, end, .. }) = both(&["waits"]) else { return };
    let reason = |event: &SchedEvent| match event.action {
        SchedAction::Switch { previous, state: TaskState::Sleeping, reason, .. }
            if end.tasks.get(previous).tid == threads[0].tid =>
        {
            Some(reason)
        }
        _ => None,
    };
    let mut reasons: Vec<WaitReason> = events.iter().filter_map(reason).collect();
    reasons.dedup();
    use WaitReason::{Child, Lock, Network, Pipe, Sleep};
    // It first waits at the barrier, and in the end for the other thread, which may have ended, and for its child.
    let expected = [Lock, Pipe, Network, Pipe, Sleep];
    assert_eq!(reasons[..5], expected, "{reasons:?}");
    assert_eq!(reasons.last(), Some(&Child), "{reasons:?}");
}

/// Processes that are started and end are tasks of their own.
#[test]
fn processes_that_start_and_end_are_events() {
    let Some(Run { threads, events, end, .. }) = both(&["forks", "300"]) else { return };
    let mut children = BTreeMap::new();
    for event in &events {
        match &event.action {
            SchedAction::Fork { parent, child } => {
                assert_eq!(end.tasks.get(*parent).tid, threads[0].tid);
                assert_eq!(end.tasks.get(*child).parent, Some(*parent));
                children.insert(*child, false);
            }
            SchedAction::Exit { task } => {
                if let Some(has_ended) = children.get_mut(task) {
                    *has_ended = true;
                }
            }
            _ => {}
        }
    }
    assert_eq!(children.len(), 300);
    assert!(children.values().all(|has_ended| *has_ended));
}

/// A task that stops to run has its stack, from what called the scheduler on.
#[test]
fn stacks_are_those_of_who_stops_to_run() {
    let mut program = Program::start(&["sleeps", "20", "1000000"]);
    let Some(recording) = open(&SchedPlan { stacks: true, ..plan(program.target()) }) else {
        return;
    };
    program.go_on();
    let (events, end) = all(recording);
    let tid = program.threads()[0].tid;
    assert_eq!(end.lost_records, 0);
    let mut sleeps = 0;
    for event in &events {
        let functions: Vec<&str> = event.stack.iter().map(|line| &*line.function).collect();
        match event.action {
            SchedAction::Switch { previous, reason: WaitReason::Sleep, .. }
                if end.tasks.get(previous).tid == tid =>
            {
                assert!(!functions.iter().any(|name| name.starts_with("bpf_")), "{functions:?}");
                let callers =
                    ["nap", "main"].map(|name| functions.iter().position(|of| *of == name));
                let ([Some(nap), Some(main)], Some(_)) =
                    (callers, functions.iter().position(|name| name.contains("nanosleep")))
                else {
                    panic!("{functions:?}")
                };
                assert_eq!(main, nap + 1, "{functions:?}");
                sleeps += 1;
            }
            SchedAction::Switch { previous, .. } if end.tasks.get(previous).tid == tid => {
                assert!(!functions.is_empty(), "{event:?}");
            }
            _ => assert!(functions.is_empty(), "{event:?}"),
        }
    }
    assert!(sleeps >= 10, "{events:?}");
}

/// Runs a test of this file again, below a command.
fn run_inside(wrapper: &[&str], test: &str) {
    let program = std::env::current_exe().expect("this test");
    let test = format!("sched::{test}");
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(program).args(["--exact", &test, "--nocapture"]);
    let output = command.env(INSIDE, "yes").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

/// Tasks have the numbers that this process sees; those that it cannot see are one row, and lack nothing.
#[test]
fn numbers_are_those_of_this_pid_namespace() {
    let machine = counts(Target::System);
    if open(&machine).is_none() {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let wrapper = ["unshare", "-p", "-f", "--mount-proc"];
        return run_inside(&wrapper, "numbers_are_those_of_this_pid_namespace");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; sleep 0.3; :", file.display());
    let beside = Some(["sh", "-c", &script].map(Into::into).to_vec());
    let scope = Scope { beside, ..Scope::new(Target::System) };
    let tasks = open(&counts(scope.clone())).expect("as before");
    let (_, end) = all(tasks);
    let pid: i32 =
        std::fs::read_to_string(&file).expect("it ran").trim().parse().expect("a number");
    assert!(pid < 100, "{pid}");
    assert_eq!(row(&end.counts, pid).name, "sh");
    let others: Vec<_> = end.counts.iter().filter(|row| row.pid == -1).collect();
    let [others] = others[..] else { panic!("{:?}", end.counts) };
    assert_eq!((others.tid, &*others.name), (-1, "[other PID namespaces]"));
    assert!(others.switches > 0 && others.run_time > 0, "{others:?}");
    // One by one, they have names.
    let (_, end) = all(open(&plan(scope)).expect("as before"));
    let pid: i32 =
        std::fs::read_to_string(&file).expect("it ran").trim().parse().expect("a number");
    assert!(end.tasks.iter().any(|(_, task)| task.pid == pid && task.name == "sh"));
    assert!(end.tasks.iter().any(|(_, task)| task.pid == -1 && task.name.starts_with("rcu_")));
}

/// Who may not load programs gets one sentence.
#[test]
fn without_privilege_it_is_said_what_would_permit_it() {
    if std::env::var_os(INSIDE).is_some() {
        let error = SchedRecording::open(&counts(Target::System)).err().expect("not permitted");
        assert!(error.is_refusal());
        let text = error.to_string();
        assert!(text.contains("CAP_BPF and CAP_PERFMON") && !text.contains('\n'), "{text}");
        return;
    }
    // SAFETY: it takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let wrapper = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    run_inside(&wrapper, "without_privilege_it_is_said_what_would_permit_it");
}

/// What finds no room is counted.
#[test]
fn events_that_are_lost_are_counted() {
    let mut program = Program::start(&["turns", "20000"]);
    let Some(mut recording) = open(&SchedPlan { memory: 4096, ..plan(program.target()) }) else {
        return;
    };
    program.go_on();
    // Nobody reads meanwhile.
    program.threads();
    let mut events = 0;
    let mut count = |_: &SchedTasks, _| {
        events += 1;
        Ok::<(), Error>(())
    };
    while recording.step(&mut count).expect("it goes on") {}
    let end = recording.finish();
    // Forty thousand switches, and wakeups of nearly as many.
    assert!(end.lost > 0 && end.lost + events >= 40_000, "{} lost, {events} events", end.lost);
}

/// A command is followed from its start on, by the name that it gets.
#[test]
fn a_command_is_followed_from_its_start_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, _) = command(folder.path(), &["sleeps", "20", "1000000"]);
    let mut line = vec![
        "sh".to_owned(),
        "-c".to_owned(),
        "exec \"$@\" </dev/null".to_owned(),
        "sh".to_owned(),
    ];
    line.extend(program);
    let target = Target::Command(line.into_iter().map(Into::into).collect());
    let Some(recording) = open(&counts(target.clone())) else { return };
    let (_, end) = all(recording);
    let mut child = end.child.expect("the command");
    assert_eq!(child.exit_code().expect("it has ended"), 0);
    let [row] = &end.counts[..] else { panic!("one task: {:?}", end.counts) };
    assert_eq!((&*row.name, row.pid, row.tid), ("schedule", child.pid(), child.pid()));
    assert!(row.switches >= 10 && row.run_time > MS / 2, "{row:?}");
    let (events, end) = all(open(&plan(target)).expect("as before"));
    let pid = end.child.as_ref().expect("the command").pid();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.action {
            SchedAction::Rename { task, name } if end.tasks.get(*task).pid == pid => Some(&**name),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["sh", "schedule"]);
    // Programs of other tests have the same name.
    let is_it = |task: &SchedTask| task.name == "schedule" && task.pid == pid;
    let command = end.tasks.iter().find(|(_, task)| is_it(task)).expect("its task");
    assert!(added_up(&events, &end)[&command.0].of.switches >= 10);
}

/// The sums of an interval are those of the time in it.
#[test]
fn intervals_add_up() {
    let mut program = Program::start(&["spins", "500"]);
    let interval = Some(Duration::from_millis(100));
    let Some(mut recording) = open(&SchedPlan { interval, ..counts(program.target()) }) else {
        return;
    };
    program.go_on();
    let mut parts: BTreeMap<i32, (u64, u64, Durations)> = BTreeMap::new();
    let mut intervals = 0;
    let (started, mut sum) = (Instant::now(), 0);
    while recording.step(&mut |_, _| Ok::<(), Error>(())).expect("it goes on") {
        let rows = recording.counts().expect("counts");
        // Threads run whole intervals without a switch, if nothing else wants their CPU: on one, and one moves there first. The
        // kernel may account a time late, in the next interval, but never before it has passed.
        sum += rows.iter().map(|row| row.run_time).sum::<u64>();
        let most = 2 * started.elapsed().as_nanos() + u128::from(30 * MS);
        assert!(u128::from(sum) <= most, "{sum} of {most}: {rows:?}");
        intervals += 1;
        for row in rows {
            let sum = parts.entry(row.tid).or_default();
            sum.0 += row.run_time;
            sum.1 += row.switches;
            sum.2.merge(&row.delays);
        }
    }
    let end = recording.finish();
    program.threads();
    assert!(intervals >= 2, "{intervals}");
    for row in &end.counts {
        let whole = (row.run_time, row.switches, row.delays.clone());
        assert_eq!(parts[&row.tid], whole);
    }
}

/// CPUs and the machine have all that tasks have.
#[test]
fn cpus_and_the_machine_have_what_tasks_have() {
    let mut program = Program::start(&["turns", "2000"]);
    let target = program.target();
    let keyed = |key| SchedPlan { counts: Some(key), ..plan(target.clone()) };
    let keys = [SchedKey::Task, SchedKey::Cpu, SchedKey::Total];
    let recordings = keys.map(|key| open(&keyed(key)));
    if recordings.iter().any(Option::is_none) {
        return;
    }
    let before = stolen();
    program.go_on();
    let ends = recordings.map(|recording| all(recording.expect("it is open")).1.counts);
    program.threads();
    let sum = |rows: &[SchedCount]| {
        let delays = |row: &SchedCount| row.delays.count;
        (
            rows.iter().map(|row| row.switches).sum::<u64>(),
            rows.iter().map(delays).sum::<u64>(),
            rows.iter().map(|row| row.run_time).sum::<u64>(),
        )
    };
    let [tasks, cpus, total] = ends.each_ref().map(|rows| sum(rows));
    assert_eq!((tasks.0, tasks.1), (cpus.0, cpus.1));
    assert_eq!((tasks.0, tasks.1), (total.0, total.1));
    let most = 5 * MS + stolen() - before;
    assert!(
        near(tasks.2, cpus.2, 0.05, most) && near(tasks.2, total.2, 0.05, most),
        "{tasks:?} {cpus:?} {total:?}"
    );
    assert!(ends[1].iter().all(|row| row.cpu.is_some()) && ends[2].len() == 1);
}

/// What starts while programs are being attached has room like all others: where a task runs first, there may be no memory for it.
#[test]
fn tasks_that_start_at_the_beginning_are_followed() {
    let shell = |script: &str| Command::new("sh").args(["-c", script]).spawn().expect("a shell");
    let mut starters = [0; 2].map(|_| shell("while :; do /bin/true; done"));
    let beside = Some(
        ["sh", "-c", "for i in 1 2 3 4 5; do /bin/true & done; wait"].map(Into::into).to_vec(),
    );
    let scope = Scope { beside, ..Scope::new(Target::System) };
    for _ in 0..5 {
        for plan in [counts(scope.clone()), plan(scope.clone())] {
            let Some(recording) = open(&plan) else { break };
            // It looks for tasks without room.
            all(recording);
        }
    }
    for starter in &mut starters {
        starter.kill().expect("it runs");
        starter.wait().expect("it has ended");
    }
}
