//! Attributes of events. They are found by trying, since only the kernel knows what it supports and permits.

use std::io;
use std::time::Duration;

use pyrograph_event::{Attr, Layout, flag, read_format, regs, sample_type};

use crate::error::{Error, Notice};
use crate::event::{Event, Modifiers};
use crate::limits;
use crate::options::{Options, Rate};
use crate::pace;
use crate::permission::{Rights, Wanted, sysctl};
use crate::stack_mode::StackMode;
use crate::sys;
use crate::target::Target;
use crate::weights::Weights;

/// Attributes of the event that is opened for each thread and CPU.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub event: Event,
    pub attr: Attr,
    pub layout: Layout,
    pub rights: Rights,
    pub notices: Vec<Notice>,
    /// Time that the kernel needs for a sample, if it was measured.
    pub interrupt: Option<Duration>,
}

/// Features that the kernel may be too old for, newest first: on EINVAL they are left out one after another. Without
/// any of them the records are still correct, but contain less.
const OPTIONAL: [Optional; 5] = [
    // Linux 6.13, for inherited events. Without it, samples that the kernel skips cannot be counted.
    Optional { sample_type: sample_type::READ, ..NONE },
    // Linux 6.0. Without it, losses are known from LOST records only.
    Optional { read_format: read_format::LOST, ..NONE },
    // Linux 5.13. Without it, neither new threads nor new processes are followed.
    Optional { flags: flag::INHERIT_THREAD, ..NONE },
    // Linux 5.1. Without it, BPF programs that are loaded later have no names.
    Optional { flags: flag::KSYMBOL, ..NONE },
    // Linux 4.1. Without it, times are those of the scheduler's clock.
    Optional { flags: flag::USE_CLOCKID, ..NONE },
];

const NONE: Optional = Optional { flags: 0, sample_type: 0, read_format: 0 };

struct Optional {
    flags: u64,
    sample_type: u64,
    read_format: u64,
}

impl Optional {
    fn is_in(&self, attr: &Attr) -> bool {
        attr.flags & self.flags != 0
            || attr.sample_type & self.sample_type != 0
            || attr.read_format & self.read_format != 0
    }

    fn drop_from(&self, attr: &mut Attr, notices: &mut Vec<Notice>) {
        attr.flags &= !self.flags;
        attr.sample_type &= !self.sample_type;
        attr.read_format &= !self.read_format;
        if self.flags == flag::INHERIT_THREAD {
            attr.flags &= !flag::INHERIT;
            notices.push(Notice::ThreadsNotFollowed);
        }
        if self.flags == flag::USE_CLOCKID {
            attr.clockid = 0;
        }
    }
}

impl Plan {
    pub(crate) fn find(options: &Options) -> Result<Self, Error> {
        let rights = Rights::read();
        let mut notices = Vec::new();
        let event = match &options.event {
            Some(event) => event.clone(),
            None if counts_cycles() => Event::cycles(),
            None => {
                notices.push(Notice::ClockForCycles);
                Event::cpu_clock()
            }
        };
        let attr = attributes(options, &event, &mut notices)?;
        let mut attr = try_out(attr, options, &event, rights, &mut notices)?;
        let mut interrupt = None;
        if event.is_clock()
            && let Some(Rate::Hertz(asked)) = options.rate
        {
            interrupt = pace::lower(&mut attr, asked, limits::online_cpus()?.len(), &mut notices);
        }
        Ok(Self { interrupt, layout: Layout::new(&attr), event, attr, rights, notices })
    }

    /// Layout for weighting samples, if the event is a clock and its samples have callchains.
    pub(crate) fn weights(&self) -> Option<Weights> {
        let is_taken = self.attr.sample_type & sample_type::CALLCHAIN != 0;
        (self.event.is_clock() && is_taken).then(|| Weights::new(&self.attr)).flatten()
    }

    /// Returns true if the rate is one that was measured, which may have lowered it to `UNMEASURED`.
    pub(crate) fn was_measured(&self) -> bool {
        self.attr.has(flag::FREQ) && self.attr.sample_period >= pace::UNMEASURED
    }

    /// Sample period, if the event is a clock that is counted in both modes.
    pub(crate) fn tick(&self) -> Option<Duration> {
        let is_steady = self.event.is_clock() && self.counts_all();
        let period = match self.attr.has(flag::FREQ) {
            true => 1_000_000_000 / self.attr.sample_period.max(1),
            false => self.attr.sample_period,
        };
        is_steady.then(|| Duration::from_nanos(period))
    }

    /// Returns true if the event is counted in user and in kernel mode.
    pub(crate) fn counts_all(&self) -> bool {
        !self.attr.has(flag::EXCLUDE_USER) && !self.attr.has(flag::EXCLUDE_KERNEL)
    }

    /// The clock of the timestamps, if one was set (`use_clockid`).
    pub(crate) fn clock(&self) -> Option<i32> {
        self.attr.has(flag::USE_CLOCKID).then_some(self.attr.clockid)
    }
}

/// Returns true if the machine has a counter for cycles that this user may use.
fn counts_cycles() -> bool {
    let mut attr = Attr { sample_period: 1_000_000, ..Attr::new() };
    Event::cycles().fill(&mut attr);
    let attr = attr.with(flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
    sys::perf_event_open(&attr, 0, None).is_ok()
}

/// Returns the attributes with all wanted features.
fn attributes(options: &Options, event: &Event, notices: &mut Vec<Notice>) -> Result<Attr, Error> {
    let mut attr = Attr {
        sample_type: sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU
            | sample_type::PERIOD
            | sample_type::CALLCHAIN,
        read_format: read_format::LOST,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::new()
    };
    if options.stack == StackMode::None {
        attr.sample_type &= !sample_type::CALLCHAIN;
    }
    event.fill(&mut attr);
    // BUILD_ID is not set: one event with it makes the kernel (5.12 to 6.18 at least) mark records of other programs'
    // events as if they contained build IDs, and `perf record` aborts on them.
    attr.flags |= flag::MMAP
        | flag::MMAP2
        | flag::COMM
        | flag::COMM_EXEC
        | flag::TASK
        | flag::SAMPLE_ID_ALL
        | flag::USE_CLOCKID
        | flag::WATERMARK;
    if options.data_mappings {
        attr.flags |= flag::MMAP_DATA;
    }
    attr.flags |= match options.target {
        Target::Command(_) => flag::DISABLED | flag::ENABLE_ON_EXEC,
        // Enabled from the start: see `attach`.
        Target::Processes(_) => 0,
        Target::System => flag::DISABLED | flag::KSYMBOL,
    };
    if options.target == Target::System {
        if event.is_clock() && !options.idle {
            attr.flags |= flag::EXCLUDE_IDLE;
        }
    } else if options.threads.is_none() {
        attr.flags |= flag::INHERIT | if options.inherit { 0 } else { flag::INHERIT_THREAD };
    }
    set_rate(&mut attr, options, event, notices)?;
    set_modes(&mut attr, options, event)?;
    set_stack(&mut attr, options)?;
    let is_taken = options.stack != StackMode::None;
    let is_all = !attr.has(flag::EXCLUDE_USER) && !attr.has(flag::EXCLUDE_KERNEL);
    // Only at high rates. At others hardly any samples are skipped, and switches between threads that inherit such an
    // event cost more. And not of CPUs: their count includes idle time, in which there are no samples on some kernels even
    // if they are asked for, or the event is throttled until the CPU ticks again; that time would count for the next sample.
    let is_of_threads = options.target != Target::System;
    if event.is_clock() && pace::is_measured(&attr) && is_taken && is_all && is_of_threads {
        attr.sample_type |= sample_type::READ;
    }
    // The eBPF program that takes the stacks computes the time that each tick represents, and needs the ticks of both
    // modes. Idle CPUs are excluded: the kernel counts events from one of its timer ticks to the next, and an idle CPU
    // has no timer ticks. So after as many events as are permitted between two ticks of a busy CPU
    // (`perf_event_max_sample_rate` / HZ), the kernel would throttle the event until the next timer tick.
    if event.is_clock() && !is_taken && event.modifiers == Modifiers::default() {
        attr.flags &= !(flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
        attr.flags |= flag::EXCLUDE_IDLE;
    }
    Ok(attr)
}

/// Minimum period of a clock in nanoseconds.
const LEAST_CLOCK_PERIOD: u64 = 10_000;

fn set_rate(
    attr: &mut Attr,
    options: &Options,
    event: &Event,
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let out_of_range =
        |option, range: &str| Error::OutOfRange { option, value: 0, range: range.to_owned() };
    match options.rate.unwrap_or_else(|| Rate::default_for(&options.target, event)) {
        Rate::Hertz(0) => return Err(out_of_range("frequency", "at least 1 a second")),
        Rate::Every(0) => return Err(out_of_range("period", "at least 1")),
        Rate::Hertz(asked) => {
            let allowed = sysctl("perf_event_max_sample_rate").unwrap_or(u64::MAX);
            if asked > allowed {
                notices.push(Notice::RateLowered { asked, allowed });
            }
            attr.sample_period = asked.min(allowed);
            attr.flags |= flag::FREQ;
        }
        Rate::Every(period) => {
            // The kernel raises shorter periods to this (`perf_swevent_start_hrtimer`).
            if event.is_clock() && period < LEAST_CLOCK_PERIOD {
                let (option, value) = ("period of a clock", period);
                let range = format!("in nanoseconds, {LEAST_CLOCK_PERIOD} at least");
                return Err(Error::OutOfRange { option, value, range });
            }
            attr.sample_period = period;
            // If samples contain a period, the kernel takes one for each event of this kind, whatever the period is
            // (`perf_swevent_event`).
            if period > 1 && event.is_counted_by_kernel() {
                attr.sample_type &= !sample_type::PERIOD;
            }
        }
    }
    Ok(())
}

/// Sets the modes to count, and the parts of a stack to sample.
fn set_modes(attr: &mut Attr, options: &Options, event: &Event) -> Result<(), Error> {
    let user = options.user && event.modifiers.counts_user();
    let kernel = options.kernel && event.modifiers.counts_kernel();
    if !(user || kernel) {
        return Err(Error::NothingToSample);
    }
    if event.happens_in_kernel() {
        // The event itself happens in the kernel and must be counted there: only the kernel part of the stack is left
        // out.
        attr.flags |= if kernel { 0 } else { flag::EXCLUDE_CALLCHAIN_KERNEL };
        attr.flags |= if user { 0 } else { flag::EXCLUDE_CALLCHAIN_USER };
    } else {
        attr.flags |= if kernel { 0 } else { flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV };
        attr.flags |= if user { 0 } else { flag::EXCLUDE_USER };
        attr.flags |= if options.kernel { 0 } else { flag::EXCLUDE_CALLCHAIN_KERNEL };
        attr.flags |= if options.user { 0 } else { flag::EXCLUDE_CALLCHAIN_USER };
    }
    Ok(())
}

fn set_stack(attr: &mut Attr, options: &Options) -> Result<(), Error> {
    let StackMode::Dwarf { bytes } = options.stack else { return Ok(()) };
    if bytes == 0 || bytes > StackMode::MOST_BYTES || bytes % 8 != 0 {
        let range = format!("a multiple of 8, up to {}", StackMode::MOST_BYTES);
        return Err(Error::OutOfRange { option: "stack size", value: bytes.into(), range });
    }
    if attr.has(flag::EXCLUDE_CALLCHAIN_USER) {
        return Ok(());
    }
    attr.flags |= flag::EXCLUDE_CALLCHAIN_USER;
    attr.sample_type |= sample_type::REGS_USER | sample_type::STACK_USER;
    attr.sample_regs_user = regs::UNWIND;
    attr.sample_stack_user = bytes;
    Ok(())
}

/// Opens the event for this thread, and removes what the kernel does not support or permit.
fn try_out(
    attr: Attr,
    options: &Options,
    event: &Event,
    rights: Rights,
    notices: &mut Vec<Notice>,
) -> Result<Attr, Error> {
    let mut attempt = attr;
    loop {
        let probe = attempt.with(flag::DISABLED);
        let Err(error) = sys::perf_event_open(&probe, 0, None) else { return Ok(attempt) };
        let errno = error.raw_os_error().unwrap_or(0);
        match errno {
            libc::EINVAL => match OPTIONAL.iter().find(|optional| optional.is_in(&attempt)) {
                Some(optional) => optional.drop_from(&mut attempt, notices),
                None => return Err(unsupported(event, error)),
            },
            libc::EACCES | libc::EPERM if !attempt.has(flag::EXCLUDE_KERNEL) => {
                if event.happens_in_kernel() {
                    let what = Wanted::KernelEvent { event: event.name().to_owned() };
                    return Err(rights.explain(what, errno).into());
                }
                // If the answer is the same without kernel mode, then kernel mode is not the reason.
                let mut without = attempt.with(flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
                // The count includes kernel mode in any case, so skipped samples cannot be found by it.
                without.sample_type &= !sample_type::READ;
                if attempt.has(flag::EXCLUDE_USER) {
                    return Err(rights.explain(Wanted::Kernel, errno).into());
                }
                if options.target == Target::System {
                    return Err(rights.explain(Wanted::System, errno).into());
                }
                attempt = try_out(without, options, event, rights, notices)?;
                notices.push(Notice::KernelExcluded(rights.explain(Wanted::Kernel, errno)));
                return Ok(attempt);
            }
            libc::EACCES | libc::EPERM | libc::ENOSYS => {
                return Err(rights.explain(Wanted::User, errno).into());
            }
            _ => return Err(unsupported(event, error)),
        }
    }
}

fn unsupported(event: &Event, source: io::Error) -> Error {
    Error::Unsupported { event: event.name().to_owned(), answer: source }
}
