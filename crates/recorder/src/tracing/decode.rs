//! What the kernel hands out, as text.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use pyrograph_event::traced::{self, Action, CallEnd, Traced};
use pyrograph_profile::{CallCount, CallTimes, ThreadAction, ThreadEvent, TracedCall};
use pyrograph_syscall::{Descriptors, Files, Seen, Written, by_number, error_name, signal_name};
use rustix::time::{ClockId, clock_gettime};

/// Makes text of calls.
pub struct Decoder {
    written: Written,
    /// What to add to times of `CLOCK_MONOTONIC` for nanoseconds since 1970.
    epoch: u64,
    /// Names of processes.
    processes: HashMap<i32, String>,
    /// Files that processes have opened.
    open: HashMap<i32, RefCell<Descriptors>>,
    groups: HashMap<u64, String>,
}

impl Decoder {
    pub fn new(text: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(now.as_nanos()).unwrap_or(0);
        let monotonic = clock_gettime(ClockId::Monotonic);
        let monotonic = monotonic.tv_sec as u64 * 1_000_000_000 + monotonic.tv_nsec as u64;
        Self {
            written: Written { text, ..Written::default() },
            epoch: epoch.saturating_sub(monotonic),
            processes: HashMap::new(),
            open: HashMap::new(),
            groups: HashMap::new(),
        }
    }

    pub fn event(&mut self, traced: &Traced<'_>) -> ThreadEvent {
        if let Action::Exit { .. } = traced.action
            && traced.process == traced.thread
        {
            self.open.remove(&traced.process);
        }
        let action = match &traced.action {
            Action::Call(call) => ThreadAction::Call(self.call(traced.process, call)),
            Action::Signal { number, code, fields } => ThreadAction::Signal {
                name: signal(*number),
                details: signal_details(*number, *code, *fields),
            },
            // wait(2): the signal in the lower 7 bits, above them if memory was written to a file, and the exit code.
            Action::Exit { status } => match status & 0x7f {
                0 => ThreadAction::Exited { code: status >> 8 & 0xff },
                number => {
                    ThreadAction::Killed { signal: signal(number), dumped: status & 0x80 != 0 }
                }
            },
        };
        ThreadEvent {
            time: traced.time.saturating_add(self.epoch),
            process: traced.process,
            thread: traced.thread,
            thread_name: printable(traced.name),
            action,
        }
    }

    fn call(&mut self, process: i32, call: &traced::Call<'_>) -> TracedCall {
        let (value, duration) = match call.end {
            CallEnd::Returned { result, duration } => (Some(result), Some(duration)),
            CallEnd::Late { result } => (Some(result), None),
            CallEnd::Unfinished { after } => (None, Some(after)),
            CallEnd::InProgress | CallEnd::Never => (None, None),
        };
        let unfinished = matches!(call.end, CallEnd::Unfinished { .. } | CallEnd::InProgress);
        let error = value.and_then(error_number).and_then(error_name).map(Cow::Borrowed);
        if call.compat {
            let arguments =
                call.arguments.iter().map(|value| (Cow::Borrowed(""), format!("{value:#x}")));
            let result = value.map_or("?".to_owned(), |value| value.to_string());
            let name = name_of(call.number, true);
            let arguments = arguments.collect();
            return TracedCall { name, arguments, result, value, error, duration, unfinished };
        }
        let seen = Seen {
            number: call.number,
            arguments: call.arguments,
            result: value,
            copied: call.copied,
        };
        let known = self.open.entry(process).or_default();
        let files = Opened { process, known };
        let arguments = pyrograph_syscall::arguments(&seen, &files, &self.written);
        let arguments =
            arguments.into_iter().map(|(name, text)| (Cow::Borrowed(name), text)).collect();
        known.borrow_mut().follow(&seen);
        TracedCall {
            name: name_of(call.number, false),
            arguments,
            result: pyrograph_syscall::result(&seen, &files),
            value,
            error,
            duration,
            unfinished,
        }
    }

    /// Counts with names in place of numbers.
    pub fn count(&mut self, count: &traced::CallCount) -> CallCount {
        let thread_name = printable(&count.name);
        let process_name = self.process_name(count.process, count.thread, &thread_name);
        let errors = count.errors.iter().map(|(number, failed)| {
            (error_name(*number).map_or_else(|| number.to_string(), str::to_owned), *failed)
        });
        CallCount {
            process: count.process,
            process_name,
            thread: count.thread,
            thread_name,
            group: self.group(count.group),
            name: name_of(count.number, count.compat).into_owned(),
            calls: count.calls,
            errors: errors.collect(),
            times: CallTimes::from_ranges(
                count.total,
                count.least,
                count.longest,
                &count.latencies,
            ),
        }
    }

    /// The name of a process: that of its first thread, which may be gone.
    fn process_name(&mut self, process: i32, thread: i32, thread_name: &str) -> String {
        if process == thread {
            self.processes.insert(process, thread_name.to_owned());
            return thread_name.to_owned();
        }
        let name = self.processes.entry(process).or_insert_with(|| {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
            name.map_or_else(
                |_| thread_name.to_owned(),
                |name| printable(name.trim_end().as_bytes()),
            )
        });
        name.clone()
    }

    /// The path of a control group.
    fn group(&mut self, id: u64) -> String {
        let name = self.groups.entry(id).or_insert_with(|| {
            crate::filters::path_of_group(id).unwrap_or_else(|| format!("control group {id}"))
        });
        name.clone()
    }
}

/// The name of a call; `compat`: of a 32-bit program, whose numbers are others, or not known (`u32::MAX`).
pub fn name_of(number: u32, compat: bool) -> Cow<'static, str> {
    match by_number(number) {
        _ if compat && number == u32::MAX => Cow::Borrowed("i386_call"),
        _ if compat => Cow::Owned(format!("i386_{number}")),
        Some(call) => Cow::Borrowed(call.name),
        None => Cow::Owned(format!("syscall_{number}")),
    }
}

/// A name as text in which control characters are octal (`\33`), as in strings: it may have line ends.
fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for c in String::from_utf8_lossy(name).chars() {
        match c.is_control() {
            true => text.push_str(&format!("\\{:o}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}

/// The error number that a call returned, if it failed.
fn error_number(result: i64) -> Option<i32> {
    (-4095..0).contains(&result).then_some(-result as i32)
}

fn signal(number: i32) -> String {
    signal_name(number).map_or_else(|| format!("signal {number}"), Cow::into_owned)
}

/// The reason of a signal: `si_code` of sigaction(2), from include/uapi/asm-generic/siginfo.h.
fn signal_code(signal: i32, code: i32) -> String {
    let of_signal: &[&str] = match signal {
        libc::SIGCHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        libc::SIGSEGV => &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"],
        libc::SIGBUS => &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"],
        libc::SIGFPE => &["FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF"],
        libc::SIGILL => &["ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP"],
        libc::SIGTRAP => &["TRAP_BRKPT", "TRAP_TRACE"],
        _ => &[],
    };
    let own = usize::try_from(code).ok().and_then(|code| of_signal.get(code.checked_sub(1)?));
    match (own, code) {
        (Some(name), _) => (*name).to_owned(),
        (None, 0) => "SI_USER".to_owned(),
        (None, 0x80) => "SI_KERNEL".to_owned(),
        (None, -1) => "SI_QUEUE".to_owned(),
        (None, -2) => "SI_TIMER".to_owned(),
        (None, -6) => "SI_TKILL".to_owned(),
        (None, code) => code.to_string(),
    }
}

/// Why a signal was sent, and by whom: the members of `siginfo_t` that sigaction(2) names for it.
fn signal_details(signal: i32, code: i32, [first, second]: [u64; 2]) -> String {
    let mut text = format!("si_code={}", signal_code(signal, code));
    let is_fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP
    );
    match code {
        1.. if is_fault => text.push_str(&format!(", si_addr={first:#x}")),
        1.. if signal == libc::SIGCHLD => {
            let (pid, uid, status) = (first as u32, first >> 32, second as u32);
            text.push_str(&format!(", si_pid={pid}, si_uid={uid}, si_status={status}"));
        }
        // SI_USER, SI_QUEUE, SI_TKILL
        0 | -1 | -6 => text.push_str(&format!(", si_pid={}, si_uid={}", first as u32, first >> 32)),
        _ => {}
    }
    text
}

/// The files behind a process's descriptors. What its calls have not shown, `/proc` is asked for, once.
struct Opened<'a> {
    process: i32,
    known: &'a RefCell<Descriptors>,
}

impl Files for Opened<'_> {
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>> {
        let mut known = self.known.borrow_mut();
        if known.is_unknown(descriptor) {
            let link = std::fs::read_link(format!("/proc/{}/fd/{descriptor}", self.process));
            known.set(descriptor, link.map_or(String::new(), |link| link.to_string_lossy().into()));
        }
        let name = printable(known.name(descriptor)?.as_bytes());
        (!name.is_empty()).then_some(Cow::Owned(name))
    }
}
