//! Opening of the events: one for each thread (or for all threads) on each CPU.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use pyrograph_event::{Header, Layout, Record, flag, kind, type_id};

use crate::copy::Copier;
use crate::error::Error;
use crate::limits::parse_cpu_list;
use crate::permission::Wanted;
use crate::plan::Plan;
use crate::procfs;
use crate::ring::Ring;
use crate::sys;

/// Open events.
pub(crate) struct Attached<'a> {
    plan: &'a Plan,
    rings: &'a mut [Ring],
    copier: Copier,
    /// Records drained from each ring buffer until now: attaching to many threads takes time.
    pub early: Vec<Vec<u8>>,
    core_types: Vec<CoreType>,
    /// Descriptors of all events that sample.
    pub events: Vec<OwnedFd>,
    /// CPUs to sample. `None` for all.
    cpus: Option<&'a [u32]>,
    /// Events on the other CPUs, which take no samples: processes start and map files there, too.
    pub others: Vec<OwnedFd>,
    threads: usize,
    /// Also opened for each thread.
    pub also: Option<ThreadCounters<'a>>,
}

/// Counters of each thread, beside its events.
pub(crate) struct ThreadCounters<'a> {
    /// Number of counters of a thread.
    pub of_each: usize,
    /// Opens those of a thread.
    pub open: &'a mut dyn FnMut(i32) -> io::Result<()>,
}

impl<'a> Attached<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        rings: &'a mut [Ring],
        copier: Copier,
        cpus: Option<&'a [u32]>,
    ) -> Self {
        let generic = matches!(plan.attr.type_, type_id::HARDWARE | type_id::HW_CACHE);
        let core_types = if generic { CoreType::of_this_machine() } else { Vec::new() };
        let early = vec![Vec::new(); rings.len()];
        let (events, others) = (Vec::new(), Vec::new());
        Self {
            plan,
            rings,
            copier,
            early,
            core_types,
            events,
            cpus,
            others,
            threads: 0,
            also: None,
        }
    }

    /// Samples single threads, and nothing that they start.
    pub(crate) fn threads(&mut self, tids: &[i32]) -> Result<(), Error> {
        self.threads = tids.len();
        self.allow_files();
        tids.iter().try_for_each(|tid| {
            self.thread(*tid).map_err(|error| self.error(error, Wanted::Process { pid: *tid }))
        })
    }

    /// Samples all processes of the machine.
    pub(crate) fn system(&mut self) -> Result<(), Error> {
        self.threads = 1;
        self.allow_files();
        self.thread(-1).map_err(|error| self.error(error, Wanted::System))?;
        Ok(())
    }

    /// Samples a child that waits to execute the command.
    pub(crate) fn command(&mut self, pid: i32) -> Result<(), Error> {
        self.threads = 1;
        self.allow_files();
        self.thread(pid).map_err(|error| self.error(error, Wanted::User))?;
        Ok(())
    }

    /// Samples all threads of a process.
    ///
    /// Threads start and end meanwhile. A thread that was started by an attached thread has inherited the events, one
    /// that was started by another thread has not; a second event would count it twice. The attached events are
    /// enabled, so that the kernel writes a FORK record for each thread that inherits them.
    pub(crate) fn process(&mut self, pid: i32) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        loop {
            let threads = list_threads(pid).ok_or(Error::NoSuchProcess { pid })?;
            let mut new: BTreeSet<i32> = threads.difference(&seen).copied().collect();
            if !new.is_empty() && !seen.is_empty() && self.plan.attr.has(flag::INHERIT) {
                // A thread is listed a moment before the kernel writes its FORK record.
                std::thread::sleep(Duration::from_millis(2));
                self.drain();
                let inherited = forked_threads(&self.early, &self.plan.layout);
                seen.extend(&inherited);
                new.retain(|tid| !inherited.contains(tid));
            }
            if new.is_empty() {
                break;
            }
            self.threads += new.len();
            self.allow_files();
            for tid in new {
                self.thread(tid).map_err(|error| self.error(error, Wanted::Process { pid }))?;
                self.drain();
                seen.insert(tid);
            }
        }
        Ok(())
    }

    /// Samples processes and, with `inherit`, the processes that they have started. Returns the number of the latter
    /// that this user may not sample.
    pub(crate) fn processes(&mut self, pids: &[i32], inherit: bool) -> Result<usize, Error> {
        pids.iter().try_for_each(|pid| self.process(*pid))?;
        let mut denied = 0;
        let mut seen: BTreeSet<i32> = pids.iter().copied().collect();
        // Processes that start from now on inherit the events, and have a FORK record.
        let descendants = |pids| if inherit { procfs::descendants(pids) } else { Vec::new() };
        loop {
            let mut new = descendants(pids);
            new.retain(|pid| !seen.contains(pid));
            if new.is_empty() {
                break;
            }
            // A process is listed a moment before the kernel writes its FORK record.
            std::thread::sleep(Duration::from_millis(2));
            self.drain();
            let inherited = forked_threads(&self.early, &self.plan.layout);
            for pid in new {
                seen.insert(pid);
                if inherited.contains(&pid) {
                    continue;
                }
                match self.process(pid) {
                    Err(Error::NotPermitted(_)) => denied += 1,
                    // The process has ended meanwhile.
                    Ok(()) | Err(Error::NoSuchProcess { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(denied)
    }

    fn drain(&mut self) {
        for (ring, early) in self.rings.iter_mut().zip(&mut self.early) {
            ring.drain(self.copier, early);
        }
    }

    /// Opens the events of one thread, or none if it has ended. CPUs that went offline are left out.
    fn thread(&mut self, tid: i32) -> io::Result<()> {
        for ring in &*self.rings {
            let is_sampled = self.cpus.is_none_or(|cpus| cpus.contains(&ring.cpu));
            let attr = match is_sampled {
                true => CoreType::attr_for(&self.core_types, &self.plan.attr, ring.cpu),
                false => without_samples(&self.plan.attr),
            };
            match sys::perf_event_open(&attr, tid, Some(ring.cpu)) {
                Ok(event) => {
                    sys::set_output(&event, ring.fd())?;
                    if is_sampled { &mut self.events } else { &mut self.others }.push(event);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        self.also.as_mut().map_or(Ok(()), |counters| (counters.open)(tid))
    }

    /// Raises the limit of file descriptors to what all threads need, as far as that is permitted. Returns both.
    fn allow_files(&self) -> (u64, u64) {
        let of_each = self.rings.len() + self.also.as_ref().map_or(0, |counters| counters.of_each);
        // Allowance for other descriptors: the ring buffers, pipes, and those of the caller.
        let needed = ((self.threads + 1) * of_each + 100) as u64;
        (needed, sys::allow_files(needed))
    }

    fn error(&self, source: io::Error, what: Wanted) -> Error {
        match source.raw_os_error() {
            Some(errno @ (libc::EACCES | libc::EPERM | libc::ENOSYS)) => {
                self.plan.rights.explain(what, errno).into()
            }
            Some(libc::EMFILE) => {
                let (needed, limit) = self.allow_files();
                Error::TooManyFiles { threads: self.threads, needed, limit }
            }
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL) => {
                Error::Unsupported { event: self.plan.event.name().to_owned(), answer: source }
            }
            _ => Error::System {
                doing: format!("opening the event '{}'", self.plan.event.name()),
                source,
            },
        }
    }
}

/// Returns the attributes of a dummy event: it writes mmap, comm, fork and exit records with the same layout, but no
/// samples.
fn without_samples(attr: &pyrograph_event::Attr) -> pyrograph_event::Attr {
    let mut attr = *attr;
    // `PERF_COUNT_SW_DUMMY` in include/uapi/linux/perf_event.h.
    (attr.type_, attr.config, attr.sample_period) = (type_id::SOFTWARE, 9, 0);
    attr.flags &= !flag::FREQ;
    attr
}

/// Returns the threads of a process, or `None` if there is no such process.
fn list_threads(pid: i32) -> Option<BTreeSet<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let threads: BTreeSet<i32> =
        entries.flatten().filter_map(|entry| procfs::number(&entry.file_name())).collect();
    (!threads.is_empty()).then_some(threads)
}

/// Returns the threads that have a FORK record in any ring buffer.
fn forked_threads(rings: &[Vec<u8>], layout: &Layout) -> BTreeSet<i32> {
    let mut threads = BTreeSet::new();
    for mut rest in rings.iter().map(Vec::as_slice) {
        while let Ok(header) = Header::parse(rest, layout.order()) {
            if header.kind == kind::FORK
                && let Ok(Record::Fork(task)) = layout.decode(rest)
            {
                threads.insert(task.tid);
            }
            rest = &rest[usize::from(header.size)..];
        }
    }
    threads
}

/// One kind of core of a hybrid machine. Each kind has its own PMU, and a generic event such as `cycles` must contain
/// the type of the PMU. Linux 5.13, on x86.
#[derive(Debug)]
pub(crate) struct CoreType {
    pmu: u32,
    cpus: Vec<u32>,
}

impl CoreType {
    /// Returns the kinds `cpu_core` and `cpu_atom`. Empty if all cores are alike.
    pub(crate) fn of_this_machine() -> Vec<Self> {
        let devices = fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
        let cores =
            devices.filter(|device| device.file_name().as_encoded_bytes().starts_with(b"cpu_"));
        let read = |path| fs::read_to_string(path).ok();
        cores
            .filter_map(|core| {
                let cpus = parse_cpu_list(&read(core.path().join("cpus"))?);
                Some(Self { pmu: read(core.path().join("type"))?.trim().parse().ok()?, cpus })
            })
            .collect()
    }

    /// Returns an event's attributes for one CPU, or with `None` the attributes for each kind of core.
    pub(crate) fn attrs_for(
        types: &[Self],
        attr: &pyrograph_event::Attr,
        cpu: Option<u32>,
    ) -> Vec<pyrograph_event::Attr> {
        let is_generic = matches!(attr.type_, type_id::HARDWARE | type_id::HW_CACHE);
        match cpu {
            Some(cpu) if is_generic => vec![Self::attr_for(types, attr, cpu)],
            None if is_generic && !types.is_empty() => types
                .iter()
                .filter_map(|core| core.cpus.first())
                .map(|&cpu| Self::attr_for(types, attr, cpu))
                .collect(),
            _ => vec![*attr],
        }
    }

    fn attr_for(types: &[Self], attr: &pyrograph_event::Attr, cpu: u32) -> pyrograph_event::Attr {
        let mut attr = *attr;
        if let Some(core) = types.iter().find(|core| core.cpus.contains(&cpu)) {
            attr.config |= u64::from(core.pmu) << type_id::PMU_SHIFT;
        }
        attr
    }
}
