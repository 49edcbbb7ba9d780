//! Real programs, recorded. What needs a privilege that this user lacks says so and is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyrograph_event::{Header, Record, kind, misc, regs};
use pyrograph_record::*;

/// What a recording told.
#[derive(Debug)]
struct Recorded {
    rate: Rate,
    /// Sum of the periods by (pid, tid).
    periods: BTreeMap<(i32, i32), u64>,
    /// Samples with a user instruction pointer, and how many of these lie in a mapping that was told.
    user_ips: (usize, usize),
    /// Names by exec: (pid, name).
    execs: Vec<(i32, String)>,
    /// Threads and processes that were there before.
    initial: BTreeSet<i32>,
    /// Threads and processes that were started meanwhile.
    forked: BTreeSet<i32>,
    kernel_addresses: usize,
    stacks: usize,
    summary: Summary,
}

/// Records to the end, or until `stop` says so. `None` if it is not permitted.
fn record(options: &Options, mut stop: impl FnMut(&mut Recording) -> bool) -> Option<Recorded> {
    let session = match Session::open(options) {
        Ok(session) => session,
        Err(error @ Error::NotPermitted(_)) => {
            eprintln!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (layout, rate) = (session.layout(), session.rate());
    let every = if let Rate::Every(period) = rate { period } else { 0 };
    let mut recording = session.start().unwrap();
    let mut maps: BTreeMap<i32, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut periods, mut forked, mut initial) =
        (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let (mut execs, mut user_ips, mut kernel_addresses, mut stacks, mut newest) =
        (Vec::new(), (0, 0), 0, 0, 0);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < deadline, "the recording does not end");
        if stop(&mut recording) {
            recording.stopper().stop();
        }
        let batch = match recording.next(Duration::from_millis(20)) {
            Next::Batch(batch) => batch,
            Next::Waiting => continue,
            Next::End => break,
        };
        for bytes in batch.iter() {
            let time = layout.time(bytes).unwrap();
            assert!(time >= newest, "records are out of order");
            newest = time;
            match layout.decode(bytes).unwrap() {
                Record::Sample(sample) => {
                    let pid = sample.id.pid.unwrap();
                    *periods.entry((pid, sample.id.tid.unwrap())).or_insert(0) +=
                        sample.period.unwrap_or(every);
                    kernel_addresses += sample
                        .callchain
                        .iter()
                        .filter(|word| (1 << 63..u64::MAX - 4095).contains(word))
                        .count();
                    if let (Some(regs), Some(stack)) = (sample.user_regs, sample.user_stack) {
                        // In the midst of exec or of its end a process has none.
                        stacks += usize::from(!stack.bytes.is_empty());
                        let ip = regs.get(if cfg!(target_arch = "x86_64") {
                            regs::x86_64::IP
                        } else {
                            regs::aarch64::PC
                        });
                        let known = maps.get(&pid).is_some_and(|maps| {
                            maps.iter().any(|(start, end)| (*start..*end).contains(&ip.unwrap()))
                        });
                        user_ips.0 += 1;
                        user_ips.1 += usize::from(known);
                    }
                }
                Record::Mmap2(map) => {
                    maps.entry(map.pid).or_default().push((map.start, map.start + map.len))
                }
                Record::Comm(comm) if comm.exec => {
                    maps.remove(&comm.pid);
                    execs.push((comm.pid, String::from_utf8_lossy(comm.name).into_owned()));
                }
                Record::Fork(task) => {
                    if task.synthesized {
                        initial.insert(task.tid);
                    } else {
                        forked.insert(task.tid);
                    }
                    let inherited = maps.get(&task.parent_pid).cloned();
                    if let Some(maps_of_parent) = inherited.filter(|_| task.pid != task.parent_pid)
                    {
                        maps.insert(task.pid, maps_of_parent);
                    }
                }
                _ => {}
            }
        }
    }
    let summary = recording.finish();
    Some(Recorded {
        rate,
        periods,
        user_ips,
        execs,
        initial,
        forked,
        kernel_addresses,
        stacks,
        summary,
    })
}

fn to_the_end(options: &Options) -> Option<Recorded> {
    record(options, |_| false)
}

fn command<const N: usize>(words: [&str; N]) -> Options {
    Options::new(Target::Command(words.map(OsString::from).to_vec()))
}

fn shell(script: &str) -> Options {
    command(["sh", "-c", script])
}

/// This very program, as something to be recorded: see [`subject`].
fn subject_command(name: &str, out: &Path) -> Options {
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "SUBJECT={name} OUT={} exec {} --exact subject --ignored",
        out.display(),
        this.display()
    );
    shell(&format!("{script} >/dev/null"))
}

fn start_subject(name: &str, out: &Path) -> Child {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", "subject", "--ignored"])
        .env("SUBJECT", name)
        .env("OUT", out)
        .stdout(Stdio::null());
    this.spawn().unwrap()
}

fn pid(child: &Child) -> i32 {
    child.id().cast_signed()
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into `time`.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Keeps a CPU busy until this thread has used so much of its time.
fn burn(time: Duration) {
    let end = clock(libc::CLOCK_THREAD_CPUTIME_ID) + time.as_nanos() as u64;
    while clock(libc::CLOCK_THREAD_CPUTIME_ID) < end {
        std::hint::black_box((0..10_000_u64).map(std::hint::black_box).sum::<u64>());
    }
}

fn thread_id() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Waits until something is so. How long that takes is the machine's affair.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "not yet so: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The file that a subject makes when it may be attached to.
fn ready(out: &Path) -> PathBuf {
    out.with_extension("ready")
}

/// The file that a test makes when it has attached to its subject.
fn attached(out: &Path) -> PathBuf {
    out.with_extension("attached")
}

/// Records a subject from when it is ready until it ends, and tells it when recording has begun.
fn attach(subject: &Child, out: &Path) -> Option<Recorded> {
    wait_until("the subject is ready", || ready(out).exists());
    let recorded = record(&Options::new(Target::Processes(vec![pid(subject)])), |_| {
        std::fs::write(attached(out), "").unwrap();
        false
    });
    if recorded.is_none() {
        std::fs::write(attached(out), "").unwrap();
    }
    recorded
}

#[test]
#[ignore = "a program for the other tests to record"]
fn subject() {
    let Ok(name) = std::env::var("SUBJECT") else { return };
    let out = PathBuf::from(std::env::var("OUT").unwrap());
    let is_attached = attached(&out);
    let is_attached = move || is_attached.exists();
    let text = match name.as_str() {
        "threads" => join(start_threads(3, LONG, || ())),
        // They are there before, and are busy all the time.
        "attached" => {
            let before = move || {
                while !is_attached() {
                    burn(Duration::from_millis(5))
                }
            };
            let threads = start_threads(3, LONG, before);
            std::fs::write(ready(&out), "").unwrap();
            join(threads)
        }
        "many" => {
            // Attaching to these takes its time. Meanwhile there is always one thread that is new.
            let parked: Vec<_> = (0..500).map(|_| std::thread::spawn(std::thread::park)).collect();
            std::fs::write(ready(&out), "").unwrap();
            let mut told = String::new();
            while !is_attached() {
                told += &join(start_threads(1, SHORT, || ()));
            }
            (0..LATER).for_each(|_| told += &join(start_threads(1, SHORT, || ())));
            parked.into_iter().for_each(|thread| {
                thread.thread().unpark();
                thread.join().unwrap();
            });
            told
        }
        "faults" => faults(3000),
        _ => panic!("unknown subject {name}"),
    };
    std::fs::write(out, text).unwrap();
}

/// So many threads the subject `many` starts when it was attached to.
const LATER: usize = 6;

/// The CPU time that one of a few threads uses, and that one of many uses.
const LONG: Duration = Duration::from_millis(300);
const SHORT: Duration = Duration::from_millis(60);

/// Starts threads that each do what is asked for and then use some time, of which they tell `TID
/// NANOSECONDS`.
fn start_threads(
    count: usize,
    time: Duration,
    before: impl Fn() + Clone + Send + 'static,
) -> Vec<JoinHandle<String>> {
    let each = move || {
        before();
        let start = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        burn(time);
        format!("{} {}\n", thread_id(), clock(libc::CLOCK_THREAD_CPUTIME_ID) - start)
    };
    (0..count).map(|_| std::thread::spawn(each.clone())).collect()
}

fn join(threads: Vec<JoinHandle<String>>) -> String {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Touches so many new pages, and tells how many faults this process had.
fn faults(pages: usize) -> String {
    // SAFETY: new memory, written to within its bounds; the kernel fills `usage`.
    unsafe {
        let size = 4096 * pages;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        libc::madvise(memory, size, libc::MADV_NOHUGEPAGE);
        (0..pages).for_each(|page| memory.cast::<u8>().add(4096 * page).write_volatile(1));
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        format!("{}", usage.ru_minflt + usage.ru_majflt)
    }
}

#[test]
fn a_busy_command_is_sampled_for_all_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let times = dir.path().join("times");
    let script =
        format!("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times > {}", times.display());
    let Some(recorded) = to_the_end(&shell(&script)) else { return };
    assert_eq!(recorded.summary.ended, Ended::TargetEnded);
    assert!(recorded.summary.status.is_some_and(|status| status.success()));
    assert_eq!(recorded.periods.len(), 1, "one process, one thread");
    assert!(matches!(&recorded.execs[..], [(_, name)] if name == "sh"), "{:?}", recorded.execs);

    // `0m0.23s 0m0.01s`: its user and system time.
    let text = std::fs::read_to_string(times).unwrap();
    let own = text.lines().next().unwrap().split(' ').map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    });
    let used: f64 = own.sum();
    let clock = recorded.periods.values().sum::<u64>() as f64 / 1e9;
    // As wide as in `check_time`; the shell's clock counts in hundredths of a second.
    if recorded.summary.lost == 0 {
        assert!(
            (0.5 * used - 0.02..1.5 * used + 0.02).contains(&clock),
            "{clock} s sampled of {used} s"
        );
    }
    assert!(recorded.stacks > 10);
    let (all, known) = recorded.user_ips;
    assert_eq!(all, known, "instruction pointers outside of all mappings");
}

#[test]
fn the_threads_of_a_command_are_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let Some(recorded) = to_the_end(&subject_command("threads", &out)) else { return };
    let told = read_times(&out);
    assert_eq!(told.len(), 3);
    for (tid, used) in told {
        assert!(recorded.forked.contains(&tid));
        check_time(&recorded, tid, used);
    }
}

/// `TID NANOSECONDS` of each thread, as [`subject`] writes it.
fn read_times(out: &Path) -> Vec<(i32, u64)> {
    let text = std::fs::read_to_string(out).unwrap();
    let words = text.lines().map(|line| line.split_once(' ').unwrap());
    words.map(|(tid, used)| (tid.parse().unwrap(), used.parse().unwrap())).collect()
}

fn sampled_time(recorded: &Recorded, tid: i32) -> u64 {
    recorded
        .periods
        .iter()
        .filter(|((_, thread), _)| *thread == tid)
        .map(|(_, period)| *period)
        .sum()
}

fn check_time(recorded: &Recorded, tid: i32, used: u64) {
    let sampled = sampled_time(recorded, tid);
    // A sample or two may fall on either side of the clock's reading; and where a virtual machine is
    // not run for a while, the clock goes on without samples. To be sampled twice is twice as much.
    let slack = used / 2 + 4_000_000;
    assert!(sampled <= used + slack, "thread {tid}: {sampled} ns sampled of {used}");
    if recorded.summary.lost == 0 {
        assert!(sampled + slack >= used, "thread {tid}: {sampled} ns sampled of {used}");
    }
}

#[test]
fn short_lived_children_are_followed() {
    let script = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done";
    let count = |options: &Options| {
        let recorded = to_the_end(options)?;
        assert_eq!(recorded.summary.lost, 0);
        let pids: BTreeSet<i32> =
            recorded.execs.iter().filter(|(_, name)| name == "true").map(|(pid, _)| *pid).collect();
        Some(pids.len())
    };
    let Some(followed) = count(&shell(script)) else { return };
    assert_eq!(followed, 40);
    let alone = Options { inherit: false, ..shell(script) };
    assert_eq!(count(&alone), Some(0));
}

#[test]
fn without_children_threads_are_still_followed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let options = Options { inherit: false, ..subject_command("threads", &out) };
    let Some(recorded) = to_the_end(&options) else { return };
    for (tid, used) in read_times(&out) {
        check_time(&recorded, tid, used);
    }
}

#[test]
fn an_exec_is_told() {
    let Some(recorded) = to_the_end(&shell("exec sleep 0.01")) else { return };
    let names: Vec<&str> = recorded.execs.iter().map(|(_, name)| &name[..]).collect();
    assert_eq!(names, ["sh", "sleep"]);
    assert_eq!(recorded.execs[0].0, recorded.execs[1].0);
}

#[test]
fn a_running_process_is_attached_to_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut subject = start_subject("attached", &out);
    let pid = pid(&subject);
    let recorded = attach(&subject, &out);
    subject.wait().unwrap();
    let Some(recorded) = recorded else { return };
    assert_eq!(recorded.summary.ended, Ended::TargetEnded);
    assert!(recorded.initial.contains(&pid), "{:?}", recorded.initial);
    assert!(recorded.periods.keys().all(|(process, _)| *process == pid));
    let told = read_times(&out);
    assert_eq!(told.len(), 3);
    for (tid, used) in told {
        assert!(recorded.initial.contains(&tid), "{:?}", recorded.initial);
        let sampled = sampled_time(&recorded, tid);
        let lost = recorded.summary.lost > 0;
        assert!(lost || sampled >= used / 2, "thread {tid}: {sampled} ns sampled of {used}");
    }
    let (all, known) = recorded.user_ips;
    assert!(
        known * 100 >= all * 99,
        "{known} of {all} instruction pointers are in a known mapping"
    );
}

/// Threads that start while we attach either inherit the events or get their own, never both.
#[test]
fn threads_that_start_meanwhile_are_sampled_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut subject = start_subject("many", &out);
    let recorded = attach(&subject, &out);
    subject.wait().unwrap();
    let Some(recorded) = recorded else { return };
    let told = read_times(&out);
    assert!(told.len() > LATER, "some were started before");
    for (tid, used) in &told {
        let sampled = sampled_time(&recorded, *tid);
        assert!(
            sampled <= used * 3 / 2 + 4_000_000,
            "thread {tid}: {sampled} ns sampled of {used}"
        );
    }
    for (tid, used) in &told[told.len() - LATER..] {
        check_time(&recorded, *tid, *used);
    }
}

#[test]
fn each_page_fault_counts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let check = |rate: Option<Rate>, stack: StackMode| {
        let event = Event::parse("page-faults").ok();
        let options = Options { event, rate, stack, ..subject_command("faults", &out) };
        let Some(recorded) = to_the_end(&options) else { return };
        let told: u64 = std::fs::read_to_string(&out).unwrap().parse().unwrap();
        let counted: u64 = recorded.periods.values().sum();
        let lost = match recorded.rate {
            Rate::Every(period) => period * recorded.summary.lost,
            Rate::Hertz(_) => panic!("page faults are counted, not timed"),
        };
        // Those of the shell before, and of the end after it told, are beyond its count.
        assert!(told > 3000);
        assert!(
            counted + lost + 100 >= told && counted <= told + 1000,
            "{counted} counted, {lost} lost, {told} told"
        );
    };
    check(None, StackMode::FramePointers);
    check(None, StackMode::Dwarf { bytes: 8192 });
    check(Some(Rate::Every(7)), StackMode::FramePointers);
}

#[test]
fn context_switches_happen_in_the_kernel_and_have_stacks_of_both_parts() {
    let options = Options { event: Event::parse("cs").ok(), ..shell("sleep 0.01; sleep 0.01") };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.periods.values().sum::<u64>() >= 3);
    assert!(recorded.kernel_addresses > 0);
    assert!(recorded.stacks > 0);
    let user_only = Options { kernel: false, ..options };
    let recorded = to_the_end(&user_only).unwrap();
    assert!(recorded.periods.values().sum::<u64>() >= 3);
    assert_eq!(recorded.kernel_addresses, 0);
}

#[test]
fn the_kernel_alone() {
    let options = Options {
        user: false,
        ..shell("dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null")
    };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.kernel_addresses > 0);
    assert_eq!(recorded.stacks, 0);
}

#[test]
fn the_whole_machine() {
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    // Half a second of its time gives 50 samples, however long it takes the machine.
    let mut clock_of_child = 0;
    // SAFETY: the kernel writes a clock's number.
    unsafe { libc::clock_getcpuclockid(pid(&child), &raw mut clock_of_child) };
    let start = clock(clock_of_child);
    let recorded =
        record(&Options::new(Target::System), |_| clock(clock_of_child) - start > 500_000_000);
    child.kill().unwrap();
    child.wait().unwrap();
    let Some(recorded) = recorded else { return };
    let pid = pid(&child);
    assert_eq!(recorded.summary.ended, Ended::Stopped);
    assert!(recorded.initial.contains(&pid) && recorded.initial.contains(&1));
    assert!(recorded.periods.contains_key(&(pid, pid)), "{:?}", recorded.periods);
    assert!(recorded.periods.keys().all(|(pid, _)| *pid != 0), "the idle task is left out");
    assert!(recorded.user_ips.1 > 0);
}

#[test]
fn the_exit_status_passes_through() {
    let Some(recorded) = to_the_end(&shell("exit 7")) else { return };
    assert_eq!(recorded.summary.status.unwrap().code(), Some(7));
    let recorded = to_the_end(&shell("kill -TERM $$")).unwrap();
    assert_eq!(recorded.summary.status.unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_recording_can_be_stopped_before_the_command_ends() {
    let start = Instant::now();
    let mut child = None;
    let recorded = record(&command(["sleep", "100"]), |recording| {
        child = recording.child().map(|child| child.pid());
        start.elapsed() > Duration::from_millis(100)
    });
    let Some(recorded) = recorded else { return };
    assert_eq!((recorded.summary.ended, recorded.summary.status), (Ended::Stopped, None));
    // SAFETY: our own child, that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.unwrap(), libc::SIGKILL) }, 0, "it still ran");
}

#[test]
fn commands_that_cannot_run() {
    let fail = |words: &[&str]| {
        let argv = words.iter().map(OsString::from).collect();
        let opened = Session::open(&Options::new(Target::Command(argv)));
        opened.and_then(Session::start).map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        fail(&["./no-such-program"]),
        "failed to run './no-such-program': No such file or directory (os error 2)"
    );
    assert_eq!(
        fail(&["/etc/passwd"]),
        "failed to run '/etc/passwd': Permission denied (os error 13)"
    );
    assert_eq!(fail(&[]), "no command to run");
}

#[test]
fn a_command_that_was_never_started_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let options = command(["touch", file.to_str().unwrap()]);
    drop(Session::open(&options));
    assert!(!file.exists());
}

#[test]
fn a_process_that_does_not_exist() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = pid(&gone);
    let error = Session::open(&Options::new(Target::Processes(vec![pid]))).unwrap_err();
    assert_eq!(error.to_string(), format!("no process has the PID {pid}"));
}

#[test]
fn options_out_of_their_range() {
    let fail = |options: Options| Session::open(&options).unwrap_err().to_string();
    let base = || command(["true"]);
    let stack = Options { stack: StackMode::Dwarf { bytes: 65_529 }, ..base() };
    assert_eq!(fail(stack), "stack size 65529 is out of range: a multiple of 8, up to 65528");
    assert_eq!(
        fail(Options { rate: Some(Rate::Hertz(0)), ..base() }),
        "frequency 0 is out of range: at least 1 a second"
    );
    assert_eq!(
        fail(Options { user: false, kernel: false, ..base() }),
        "nothing to sample: both user and kernel mode are excluded"
    );
}

#[test]
fn a_frequency_above_the_kernels_limit_is_lowered() {
    let options = Options { rate: Some(Rate::Hertz(1 << 40)), ..command(["true"]) };
    match Session::open(&options) {
        Ok(session) => {
            let lowered = |notice: &Notice| matches!(notice, Notice::RateLowered { .. });
            assert!(session.notices().iter().any(lowered), "{:?}", session.notices());
        }
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn a_caller_who_is_busy_for_a_while_loses_nothing() {
    let options = shell("i=0; while [ $i -lt 800000 ]; do i=$((i+1)); done");
    // A ring holds a quarter of a second of these.
    let mut pause = Duration::from_millis(800);
    let recorded = record(&options, |_| {
        std::thread::sleep(std::mem::take(&mut pause));
        false
    });
    let Some(recorded) = recorded else { return };
    let (stacks, lost) = (recorded.stacks, recorded.summary.lost);
    assert!(stacks > 300, "{stacks}");
    // It could be hundreds; those of a pause of the whole machine are no fault of the caller's.
    assert!(lost * 20 < stacks as u64, "{lost} lost, {stacks} recorded");
}

/// The largest stack that can be asked for makes the largest record that there can be.
#[test]
fn the_largest_stacks_are_recorded() {
    let stack = StackMode::Dwarf { bytes: StackMode::MOST_BYTES };
    let options = Options { stack, ..shell("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done") };
    let Some(recorded) = to_the_end(&options) else { return };
    assert!(recorded.stacks > 5);
}

#[test]
fn a_user_without_rights_is_told_which_setting_forbids_it() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    Command::new("chmod").arg("-R").arg("a+rx").arg(dir.path()).status().unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&program)
        .args(["--exact", "unprivileged", "--ignored", "--nocapture"])
        .current_dir("/")
        .status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(error) => eprintln!("skipped: setpriv: {error}"),
    }
}

#[test]
#[ignore = "run by another test as a user without rights"]
fn unprivileged() {
    let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = setting.trim().parse().unwrap();
    let cause = |options: &Options| match Session::open(options) {
        Err(Error::NotPermitted(refused)) => Some(refused.cause),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    };
    let forbidden =
        |needed| (paranoid > needed).then_some(Cause::Paranoid { value: paranoid, needed });
    assert_eq!(cause(&Options::new(Target::System)), forbidden(0));
    assert_eq!(
        cause(&Options { event: Event::parse("cs").ok(), ..command(["true"]) }),
        forbidden(1)
    );
    assert_eq!(cause(&Options { user: false, ..command(["true"]) }), forbidden(1));
    if paranoid <= 2 {
        assert_eq!(cause(&Options::new(Target::Processes(vec![1]))), Some(Cause::OtherUser));
        let options = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        let session = Session::open(&options).unwrap();
        assert_eq!(session.samples_kernel(), paranoid <= 1);
        let excluded =
            session.notices().iter().any(|notice| matches!(notice, Notice::KernelExcluded(_)));
        assert_eq!(excluded, paranoid > 1);
        drop(session);
        let recorded = to_the_end(&options).unwrap();
        assert!(recorded.stacks > 10 && recorded.kernel_addresses == 0);
    } else {
        assert_eq!(cause(&command(["true"])), forbidden(2));
    }
}

/// Kernels from 5.12 on put the build ID into the records of mappings.
#[test]
fn mappings_tell_build_ids() {
    let session = match Session::open(&command(["true"])) {
        Ok(session) => session,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let layout = session.layout();
    let mut recording = session.start().unwrap();
    let (mut all, mut with_build_id) = (0, 0);
    loop {
        match recording.next(Duration::from_millis(20)) {
            Next::Batch(batch) => {
                let headers =
                    batch.iter().filter_map(|bytes| Header::parse(bytes, layout.order()).ok());
                let maps: Vec<u16> = headers
                    .filter(|header| header.kind == kind::MMAP2)
                    .map(|header| header.misc)
                    .collect();
                all += maps.len();
                with_build_id +=
                    maps.iter().filter(|bits| *bits & misc::MMAP_BUILD_ID != 0).count();
            }
            Next::Waiting => {}
            Next::End => break,
        }
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(all >= 3, "program, loader and C library are mapped");
    if version >= (5, 12) {
        assert!(with_build_id >= 3, "{with_build_id} of {all}");
    }
}
