//! Counting of events without samples: the counters can be read at any time.
//!
//! Sources: perf_event_open(2), `Documentation/admin-guide/perf-security.rst`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use pyrograph_event::{Attr, flag, read_format};

use crate::attach::{Attached, CoreType, ThreadCounters};
use crate::command::{Child, Waiting};
use crate::copy::Copier;
use crate::error::Error;
use crate::event::{Event, Refusal};
use crate::launch::Launch;
use crate::limits;
use crate::options::{Options, Rate};
use crate::permission::{Rights, Wanted};
use crate::plan::Plan;
use crate::procfs;
use crate::reader::{Ended, Stopper};
use crate::stack_mode::StackMode;
use crate::sys;
use crate::target::Target;
use crate::watch::Watch;

/// Options of counters.
#[derive(Clone, Debug)]
pub struct CounterOptions {
    /// Target of the counters.
    pub target: Target,
    /// Events in groups. The events of a group are on the hardware together, or none of them is.
    pub groups: Vec<Vec<Event>>,
    /// Count in child processes that the target starts, too.
    pub inherit: bool,
    /// Count only on these CPUs. `None` for all. Only with [`Target::System`].
    pub cpus: Option<Vec<u32>>,
    /// Keep the counts of each CPU apart.
    pub by_cpu: bool,
    /// How the command is started.
    pub launch: Launch,
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
    waiting: Option<Waiting>,
    child: Option<Child>,
    watch: Watch,
    /// Number of processes that the target has started and that this user may not count.
    denied: usize,
    /// True if the counters are those of CPUs, whatever the target is.
    is_on_cpus: bool,
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
    /// Opens all counters that this machine has and this user may use. A command is forked, but waits before its first
    /// instruction.
    ///
    /// # Errors
    ///
    /// If a process does not exist, the target belongs to another user, or the kernel lacks resources. An event that
    /// cannot be counted here is not an error: [`Self::into_parts`] returns the reason.
    pub fn open(options: &CounterOptions) -> Result<Self, Error> {
        Self::open_for(options, options)
    }

    /// Opens the counters as [`Self::open`] does, but of each CPU, for everything that runs there. The target is only
    /// started and waited for.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_on_cpus(options: &CounterOptions) -> Result<Self, Error> {
        if let Target::Processes(pids) = &options.target {
            let missing = pids.iter().find(|pid| procfs::count_threads(**pid) == 0);
            missing.map_or(Ok(()), |pid| Err(Error::NoSuchProcess { pid: *pid }))?;
        }
        let on_cpus =
            CounterOptions { target: Target::System, by_cpu: true, cpus: None, ..options.clone() };
        let mut counters = Self::open_for(options, &on_cpus)?;
        if let Target::Processes(pids) = &options.target {
            counters.watch.processes(pids);
        }
        Ok(counters)
    }

    /// Opens the counters of `options`. The command to start is taken from `target`.
    fn open_for(target: &CounterOptions, options: &CounterOptions) -> Result<Self, Error> {
        let rights = Rights::read();
        let is_on_cpus = options.target == Target::System;
        let waiting = match &target.target {
            Target::Command(argv) => Some(Waiting::fork(argv, &target.launch)?),
            Target::Processes(_) | Target::System => None,
        };
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
        let (open, watch) = (Vec::new(), Watch::new()?);
        let mut counters =
            Self { refused, user_only, open, waiting, child: None, watch, denied: 0, is_on_cpus };
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
        let cpus: Vec<Option<u32>> = match (&options.target, &options.cpus) {
            (Target::System, Some(cpus)) => cpus.iter().copied().map(Some).collect(),
            (Target::System, None) => online.iter().copied().map(Some).collect(),
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
        match (&options.target, &self.waiting) {
            (Target::Command(_), Some(child)) => {
                thread(child.pid(), None).map_err(|error| refused(error, Wanted::User))?;
            }
            (Target::Processes(pids), _) => {
                let open = &mut |tid| thread(tid, Some(tid));
                self.denied = attach_to_processes(options, pids, of_each, open)?;
                self.watch.processes(pids);
            }
            _ => thread(-1, None).map_err(|error| refused(error, Wanted::System))?,
        }
        Ok(())
    }

    /// Handle that ends [`Self::wait`] from any thread or signal handler.
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Starts counting, and runs the command.
    ///
    /// # Errors
    ///
    /// If there is no such program, or the kernel refuses to start a counter.
    pub fn start(&mut self) -> Result<Instant, Error> {
        if let Some(waiting) = self.waiting.take() {
            // The command's counters start with its first instruction. Those of CPUs must be enabled here.
            self.enable_on_cpus()?;
            let start = Instant::now();
            let child = waiting.run()?;
            self.watch.child(child.pid());
            self.child = Some(child);
            return Ok(start);
        }
        for open in &self.open {
            sys::enable(&open.fd).map_err(Error::system("starting a counter"))?;
        }
        Ok(Instant::now())
    }

    fn enable_on_cpus(&self) -> Result<(), Error> {
        let mut on_cpus = self.open.iter().filter(|_| self.is_on_cpus);
        on_cpus
            .try_for_each(|open| sys::enable(&open.fd).map_err(Error::system("starting a counter")))
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

    /// Waits until the target ends or [`Stopper::stop`] is called. Returns `None` if the time is over before that.
    pub fn wait(&mut self, until: Option<Instant>) -> Option<Ended> {
        self.watch.wait(until, None)
    }

    /// Makes a child of this process the target to wait for: its end, or a stop, ends [`Self::wait`].
    pub fn also_until(&mut self, child: Child) {
        self.watch.child(child.pid());
        self.child = Some(child);
    }

    /// Process ID of the command, until it runs.
    pub fn command(&self) -> Option<i32> {
        self.waiting.as_ref().map(Waiting::pid)
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

    /// Returns, for each event, the reason why it is not counted, and true if it is counted in user mode only; then the
    /// command, once it runs.
    pub fn into_parts(self) -> (Vec<Option<Refusal>>, Vec<bool>, Option<Child>) {
        (self.refused, self.user_only, self.child)
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
        Target::System => {}
        Target::Command(_) => attr.flags |= flag::INHERIT | flag::ENABLE_ON_EXEC,
        Target::Processes(_) => attr.flags |= flag::INHERIT,
    }
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
        let (tid, cpu) = match options.target {
            Target::System => {
                (-1, options.cpus.as_ref().map_or(Some(0), |cpus| cpus.first().copied()))
            }
            _ => (0, None),
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
                    && options.target != Target::System
                    && !attr.has(flag::EXCLUDE_USER) =>
            {
                attr.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
            }
            errno => {
                return Err(Refusal::new(errno, rights, || match options.target {
                    Target::System => Wanted::System,
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
