//! Recordings and their records.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::Child;
use std::time::{Duration, Instant};

use pyrograph_event::{Record, regs};
use pyrograph_record::*;

/// Records of a recording.
#[derive(Debug)]
pub struct Recorded {
    pub rate: Rate,
    /// Sum of the periods by (pid, tid).
    pub periods: BTreeMap<(i32, i32), u64>,
    /// Samples with a user instruction pointer, and how many of these lie in a known mapping.
    pub user_ips: (usize, usize),
    /// Names by exec: (pid, name).
    pub execs: Vec<(i32, String)>,
    /// Threads and processes that were there before.
    pub initial: BTreeSet<i32>,
    /// Threads and processes that were started meanwhile.
    pub forked: BTreeSet<i32>,
    pub kernel_addresses: usize,
    pub stacks: usize,
    pub summary: Summary,
}

/// How long a host has kept its CPUs from this machine, in hundredths of a second: the eighth number of the line `cpu`.
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    ticks.unwrap_or(0)
}

/// Opens the events. `None` if it is not permitted.
pub fn open(options: &Options) -> Option<Session> {
    match Session::open(options) {
        Ok(session) => Some(session),
        Err(error @ Error::NotPermitted(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Records to the end, or until `stop` returns true. `None` if it is not permitted.
pub fn record(options: &Options, mut stop: impl FnMut(&mut Recording) -> bool) -> Option<Recorded> {
    let session = open(options)?;
    let (layout, rate) = (session.layout(), session.rate());
    let every = if let Rate::Every(period) = rate { period } else { 0 };
    let mut recording = session.start().unwrap();
    let mut maps: BTreeMap<i32, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut periods, mut forked, mut initial) =
        (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let (mut execs, mut user_ips, mut kernel_addresses, mut stacks, mut newest) =
        (Vec::new(), (0, 0), 0, 0, 0);
    let (mut late, mut records) = (0u64, 0u64);
    let taken = stolen();
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
            late += u64::from(time < newest);
            records += 1;
            newest = newest.max(time);
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
    // A host that takes a CPU away while the kernel writes a record makes that late, or all that others write meanwhile.
    let taken = stolen() - taken;
    assert!(
        late * 100 <= records || taken >= 2,
        "{late} of {records} records are out of order, {taken} ticks taken by the host"
    );
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

pub fn to_the_end(options: &Options) -> Option<Recorded> {
    record(options, |_| false)
}

pub fn command<const N: usize>(words: [&str; N]) -> Options {
    Options::new(Target::Command(words.map(OsString::from).to_vec()))
}

pub fn shell(script: &str) -> Options {
    command(["sh", "-c", script])
}

pub fn pid(child: &Child) -> i32 {
    child.id().cast_signed()
}

pub fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into `time`.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until something is so. How long that takes is the machine's affair.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "not yet so: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
