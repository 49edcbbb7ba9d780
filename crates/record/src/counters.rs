//! Counting of events without samples: the counters can be read at any time.
//!
//! Sources: perf_event_open(2), `Documentation/admin-guide/perf-security.rst`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pyrograph_event::{Attr, flag, read_format};

use crate::attach::{Attached, CoreType, ThreadCounters};
use crate::copy::Copier;
use crate::error::Error;
use crate::event::{Event, Refusal};
use crate::limits;
use crate::options::{Options, Rate};
use crate::permission::{Rights, Wanted};
use crate::plan::Plan;
use crate::stack_mode::StackMode;
use crate::sys;
use crate::target::Target;

/// Targets of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterTarget {
    /// A child of this process, from the first instruction of the program that it executes next.
    Command(i32),
    /// Processes, with all their threads.
    Processes(Vec<i32>),
    /// Everything that runs on these CPUs. `None` for all CPUs.
    Cpus(Option<Vec<u32>>),
}

/// Options of counters.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// Target of the counters.
    pub target: CounterTarget,
    /// Events in groups. The events of a group are on the hardware together, or none of them is.
    pub groups: Vec<Vec<Event>>,
    /// Count in child processes that the target starts, too.
    pub inherit: bool,
    /// Keep the counts of each CPU apart.
    pub by_cpu: bool,
}

/// Value of one event, for one thread and CPU if these are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Index of the event, counting through the groups in order.
    pub event: usize,
    /// The thread of the target that the counter was opened for, including what it has started since. `None` for the
    /// whole target.
    pub thread: Option<i32>,
    /// The CPU, if CPUs are kept apart.
    pub cpu: Option<u32>,
    /// The count.
    pub value: u64,
    /// Time in nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Time in nanoseconds for which it was counted: less if there are more events than hardware counters.
    pub running: u64,
}

/// Open counters. They count from [`start`](Self::start) on.
#[derive(Debug)]
pub struct Counters {
    refused: Vec<Option<Refusal>>,
    user_only: Vec<bool>,
    open: Vec<Open>,
    /// Number of processes that the target has started and that this user may not count.
    denied: usize,
    /// True if the kernel starts the counters when a command executes its program.
    start_on_exec: bool,
}

#[derive(Debug)]
struct Open {
    event: usize,
    thread: Option<i32>,
    cpu: Option<u32>,
    fd: OwnedFd,
}

/// An event with the attributes that the kernel accepts here.
struct Prepared {
    event: usize,
    attr: Attr,
    /// True if it is in the group of the event before.
    joins: bool,
}

impl Counters {
    /// Opens all counters that this machine has and this user may use.
    ///
    /// # Errors
    ///
    /// If a process does not exist, the target belongs to another user, or the kernel lacks resources. An event that
    /// cannot be counted here is not an error: [`Self::into_parts`] returns the reason.
    pub fn open(options: &CounterOptions) -> Result<Self, Error> {
        let rights = Rights::read();
        let (mut prepared, mut refused, mut user_only) = (Vec::new(), Vec::new(), Vec::new());
        let mut probes = Vec::new();
        for group in &options.groups {
            let mut joins = false;
            for event in group {
                let attr = prepare(event, options, &rights, &mut probes);
                let index = refused.len();
                user_only.push(attr.as_ref().is_ok_and(|attr| {
                    attr.has(flag::EXCLUDE_KERNEL) && event.modifiers.counts_kernel()
                }));
                if let Ok(attr) = attr {
                    prepared.push(Prepared { event: index, attr, joins });
                    joins = true;
                }
                refused.push(attr.err());
            }
        }
        let start_on_exec = matches!(options.target, CounterTarget::Command(_));
        let mut counters = Self { refused, user_only, open: Vec::new(), denied: 0, start_on_exec };
        counters.attach(options, &prepared, &rights)?;
        Ok(counters)
    }

    fn attach(
        &mut self,
        options: &CounterOptions,
        prepared: &[Prepared],
        rights: &Rights,
    ) -> Result<(), Error> {
        let cores = CoreType::of_this_machine();
        let online = limits::online_cpus()?;
        let cpus: Vec<Option<u32>> = match &options.target {
            CounterTarget::Cpus(Some(cpus)) => cpus.iter().copied().map(Some).collect(),
            CounterTarget::Cpus(None) => online.iter().copied().map(Some).collect(),
            _ if options.by_cpu => online.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        let of_each = prepared.len() * cpus.len();
        // The counters of a thread or of all CPUs, and some for pipes and those of the caller.
        sys::allow_files((of_each + 100) as u64);
        let by_cpu = options.by_cpu;
        let open = &mut self.open;
        let mut thread = |tid: i32, name: Option<i32>| -> io::Result<()> {
            for &cpu in &cpus {
                open_all(prepared, &cores, tid, cpu, |event, fd| {
                    open.push(Open { event, thread: name, cpu: cpu.filter(|_| by_cpu), fd });
                })?;
            }
            Ok(())
        };
        let refused = |error: io::Error, what: Wanted| match error.raw_os_error() {
            Some(errno @ (libc::EACCES | libc::EPERM)) => rights.explain(what, errno).into(),
            _ => Error::System { doing: "opening counters".to_owned(), source: error },
        };
        match &options.target {
            CounterTarget::Command(pid) => {
                thread(*pid, None).map_err(|error| refused(error, Wanted::User))?;
            }
            CounterTarget::Processes(pids) => {
                let open = &mut |tid| thread(tid, Some(tid));
                self.denied = attach_to_processes(options, pids, of_each, open)?;
            }
            CounterTarget::Cpus(_) => {
                thread(-1, None).map_err(|error| refused(error, Wanted::System))?;
            }
        }
        Ok(())
    }

    /// Starts counting. Those of a command start when it executes its program.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to start a counter.
    pub fn start(&self) -> Result<(), Error> {
        let mut open = self.open.iter().filter(|_| !self.start_on_exec);
        open.try_for_each(|open| sys::enable(&open.fd).map_err(Error::system("starting a counter")))
    }

    /// Reads the current counts.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read a counter.
    pub fn read(&self) -> Result<Vec<Count>, Error> {
        let read = |open: &Open| {
            let [value, enabled, running] =
                sys::read_words(&open.fd).map_err(Error::system("reading a counter"))?;
            let Open { event, thread, cpu, .. } = *open;
            Ok(Count { event, thread, cpu, value, enabled, running })
        };
        self.open.iter().map(read).collect()
    }

    /// Number of processes that the target has started and that this user may not count.
    pub fn denied(&self) -> usize {
        self.denied
    }

    /// Returns true if the event with this index is not counted.
    pub fn is_refused(&self, event: usize) -> bool {
        self.refused.get(event).is_some_and(Option::is_some)
    }

    /// Returns each counter with the index of its event and its CPU, if CPUs are kept apart.
    pub fn on_cpus(&self) -> impl Iterator<Item = (usize, u32, BorrowedFd<'_>)> {
        self.open.iter().filter_map(|open| Some((open.event, open.cpu?, open.fd.as_fd())))
    }

    /// Returns, for each event, the reason why it is not counted, and true if it is counted in user mode only.
    pub fn into_parts(self) -> (Vec<Option<Refusal>>, Vec<bool>) {
        (self.refused, self.user_only)
    }
}

/// Opens the counters of one thread (-1 for all) on one CPU (`None` for any). A thread that has ended gets none.
fn open_all(
    prepared: &[Prepared],
    cores: &[CoreType],
    tid: i32,
    cpu: Option<u32>,
    mut add: impl FnMut(usize, OwnedFd),
) -> io::Result<()> {
    // The group leader for each kind of core: the first counter of the group.
    let mut leaders: Vec<Option<OwnedFd>> = Vec::new();
    for Prepared { event, attr, joins } in prepared {
        let attrs = CoreType::attrs_for(cores, attr, cpu);
        if !joins {
            leaders.clear();
        }
        leaders.resize_with(attrs.len().max(leaders.len()), || None);
        for (attr, leader) in attrs.iter().zip(&mut leaders) {
            let fd = match sys::perf_event_open_in(attr, tid, cpu, leader.as_ref()) {
                Ok(fd) => fd,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                // The CPU went offline, or this kind of core cannot count the event.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if leader.is_none() {
                *leader = Some(fd.try_clone()?);
            }
            add(*event, fd);
        }
    }
    Ok(())
}

/// Attaches to all threads of processes and, with `inherit`, of their descendants, each once. A dummy event without
/// samples is attached first: its FORK records show which threads have inherited the counters. Returns the number of
/// descendants that this user may not count.
fn attach_to_processes(
    options: &CounterOptions,
    pids: &[i32],
    of_each: usize,
    open: &mut dyn FnMut(i32) -> io::Result<()>,
) -> Result<usize, Error> {
    let options = Options {
        event: Some(Event::parse("dummy")?),
        rate: Some(Rate::Every(1)),
        stack: StackMode::None,
        inherit: options.inherit,
        buffer: Some(1 << 15),
        ..Options::new(Target::Processes(pids.to_vec()))
    };
    let plan = Plan::find(&options)?;
    let mut rings = limits::open_rings(&options, &plan, &mut Vec::new())?;
    let copier = Copier::new(&plan.layout, plan.attr.sample_regs_user);
    let mut attached = Attached::new(&plan, &mut rings, copier, None);
    attached.also = Some(ThreadCounters { of_each, open });
    attached.processes(pids, options.inherit)
}

/// Returns the attributes with which this user can count an event here, or the reason why it cannot be counted.
///
/// Tracepoint events that are opened to find this out are kept open in `probes`: each time the only event of a
/// tracepoint is closed, and each time the first one is opened again, the kernel waits for all CPUs.
fn prepare(
    event: &Event,
    options: &CounterOptions,
    rights: &Rights,
    probes: &mut Vec<OwnedFd>,
) -> Result<Attr, Refusal> {
    let mut attr = Attr {
        read_format: read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING,
        ..Attr::new()
    };
    event.fill(&mut attr);
    attr.flags |= flag::DISABLED;
    match options.target {
        CounterTarget::Cpus(_) => {}
        CounterTarget::Command(_) => attr.flags |= flag::INHERIT | flag::ENABLE_ON_EXEC,
        CounterTarget::Processes(_) => attr.flags |= flag::INHERIT,
    }
    let is_on_cpus = matches!(options.target, CounterTarget::Cpus(_));
    if attr.has(flag::INHERIT) && !options.inherit {
        attr.flags |= flag::INHERIT_THREAD;
    }
    let modifiers = event.modifiers;
    attr.flags |= if modifiers.counts_user() { 0 } else { flag::EXCLUDE_USER };
    attr.flags |= if modifiers.counts_kernel() { 0 } else { flag::EXCLUDE_KERNEL };
    attr.flags |=
        if modifiers == Default::default() || modifiers.hypervisor { 0 } else { flag::EXCLUDE_HV };
    loop {
        // For the whole machine, try a CPU: some events can be counted on CPUs only.
        let (tid, cpu) = match &options.target {
            CounterTarget::Cpus(Some(cpus)) => (-1, cpus.first().copied()),
            CounterTarget::Cpus(None) => (-1, Some(0)),
            CounterTarget::Command(_) | CounterTarget::Processes(_) => (0, None),
        };
        let probe = attr.without(flag::ENABLE_ON_EXEC);
        let error = match sys::perf_event_open(&probe, tid, cpu) {
            Ok(open) => {
                if event.is_tracepoint() {
                    probes.push(open);
                }
                return Ok(attr);
            }
            Err(error) => error,
        };
        match error.raw_os_error().unwrap_or(0) {
            // `inherit_thread` needs Linux 5.13.
            libc::EINVAL if attr.has(flag::INHERIT_THREAD) => {
                attr.flags &= !(flag::INHERIT_THREAD | flag::INHERIT);
            }
            libc::EACCES | libc::EPERM
                if !attr.has(flag::EXCLUDE_KERNEL)
                    && !event.happens_in_kernel()
                    && !is_on_cpus
                    && !attr.has(flag::EXCLUDE_USER) =>
            {
                attr.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
            }
            errno => {
                return Err(Refusal::new(errno, rights, || match is_on_cpus {
                    true => Wanted::System,
                    _ if event.happens_in_kernel() => {
                        Wanted::KernelEvent { event: event.name().to_owned() }
                    }
                    _ if attr.has(flag::EXCLUDE_USER) => Wanted::Kernel,
                    _ => Wanted::User,
                }));
            }
        }
    }
}
