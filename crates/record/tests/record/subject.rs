//! This very program, as something to be recorded.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use pyrograph_record::*;

use crate::recorded::{Recorded, clock, pid, record, shell, wait_until};

/// This very program, as something to be recorded: see [`subject`].
pub fn subject_command(name: &str, out: &Path) -> Options {
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "SUBJECT={name} OUT={} exec {} --exact subject::subject --ignored",
        out.display(),
        this.display()
    );
    shell(&format!("{script} >/dev/null"))
}

pub fn start_subject(name: &str, out: &Path) -> Child {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", "subject::subject", "--ignored"])
        .env("SUBJECT", name)
        .env("OUT", out)
        .stdout(Stdio::null());
    this.spawn().unwrap()
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
            let mut reported = String::new();
            while !is_attached() {
                reported += &join(start_threads(1, SHORT, || ()));
            }
            (0..LATER).for_each(|_| reported += &join(start_threads(1, SHORT, || ())));
            parked.into_iter().for_each(|thread| {
                thread.thread().unpark();
                thread.join().unwrap();
            });
            reported
        }
        "faults" => faults(3000),
        _ => panic!("unknown subject {name}"),
    };
    std::fs::write(out, text).unwrap();
}

/// The file that a subject makes when it may be attached to.
fn ready(out: &Path) -> PathBuf {
    out.with_extension("ready")
}

/// The file that a test makes when it has attached to its subject.
fn attached(out: &Path) -> PathBuf {
    out.with_extension("attached")
}

/// Records a subject from when it is ready until it ends, and notifies it when recording has begun.
pub fn attach(subject: &Child, out: &Path) -> Option<Recorded> {
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

/// So many threads the subject `many` starts when it was attached to.
pub const LATER: usize = 6;

/// The CPU time that one of a few threads uses, and that one of many uses.
const LONG: Duration = Duration::from_millis(300);
const SHORT: Duration = Duration::from_millis(60);

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

/// Starts threads that each do what is asked for and then use some time, which they report as `TID
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

/// Touches so many new pages, and reports how many faults this process had.
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

/// `TID NANOSECONDS` of each thread, as [`subject`] writes it.
pub fn read_times(out: &Path) -> Vec<(i32, u64)> {
    let text = std::fs::read_to_string(out).unwrap();
    let words = text.lines().map(|line| line.split_once(' ').unwrap());
    words.map(|(tid, used)| (tid.parse().unwrap(), used.parse().unwrap())).collect()
}

pub fn sampled_time(recorded: &Recorded, tid: i32) -> u64 {
    recorded
        .periods
        .iter()
        .filter(|((_, thread), _)| *thread == tid)
        .map(|(_, period)| *period)
        .sum()
}

pub fn check_time(recorded: &Recorded, tid: i32, used: u64) {
    let sampled = sampled_time(recorded, tid);
    // A sample or two may fall on either side of the clock's reading; and where a virtual machine is
    // not run for a while, the clock goes on without samples. To be sampled twice is twice as much.
    let slack = used / 2 + 4_000_000;
    assert!(sampled <= used + slack, "thread {tid}: {sampled} ns sampled of {used}");
    if recorded.summary.lost == 0 {
        assert!(sampled + slack >= used, "thread {tid}: {sampled} ns sampled of {used}");
    }
}
