//! Formatting of traced events as text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use pyrograph_event::proc_text;
use pyrograph_event::traced::{self, Action, CallEnd, Traced};
use pyrograph_perf_data::LiveText;
use pyrograph_profile::{CallCount, Durations, ThreadAction, ThreadEvent, TracedCall};
use pyrograph_record::monotonic_now;
use pyrograph_syscall::{
    Seen, Written, by_number, compat_alike, compat_name, compat_same, error_name, signal_name,
};

use super::events::TracedEvent;
use super::files::OpenFiles;
use super::plan::TracePlan;
use super::text::printable;

/// Formats traced events.
pub struct Decoder {
    written: Written,
    /// Nanoseconds to add to times of `CLOCK_MONOTONIC`, so that they are since 1970.
    epoch: u64,
    /// Names of processes.
    processes: HashMap<i32, String>,
    files: OpenFiles,
    wanted: Wanted,
    /// Paths of control groups. `None` if they are not needed.
    groups: Option<HashMap<u64, String>>,
    events: Vec<TracedEvent>,
    live: LiveText,
    /// True if ends of threads and signals are left out: they are nobody's, and only some calls are wanted.
    only_calls: bool,
}

impl Decoder {
    pub fn new(plan: &TracePlan) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(now.as_nanos()).unwrap_or(0);
        Self {
            written: Written { text: plan.text, ..Written::default() },
            epoch: epoch.saturating_sub(monotonic_now()),
            processes: HashMap::new(),
            files: OpenFiles::new(plan.is_followed_in_part()),
            wanted: Wanted::of(plan),
            groups: plan.name_groups.then(HashMap::new),
            events: plan.events.clone(),
            live: LiveText::default(),
            only_calls: plan.scope.is_machine()
                && (plan.failed || !plan.slower.is_zero() || plan.filter.is_some()),
        }
    }

    /// Reads the open files of a process before it is traced.
    pub fn note_process(&mut self, process: i32) {
        self.files.note(process);
    }

    /// Decodes an action of a thread. Returns `None` if it is not to be reported.
    pub fn event(&mut self, traced: &Traced<'_>) -> Option<ThreadEvent> {
        if let Action::Exit { .. } = traced.action
            && traced.process == traced.thread
        {
            self.files.forget(traced.process);
        }
        let action = match &traced.action {
            Action::Signal { .. } if self.only_calls => return None,
            Action::Exit { status } if self.only_calls && status & 0x7f == 0 => return None,
            Action::Call(call) if !self.wanted.has(call) => {
                let number =
                    if call.compat { compat_alike(call.number) } else { Some(call.number) };
                if let Some(number) = number {
                    self.files.follow(traced.process, &Seen { number, ..seen(call) });
                }
                return None;
            }
            Action::Call(call) => ThreadAction::Call(self.call(traced.process, call)),
            Action::Fork { child } => {
                self.files.fork(traced.process, *child);
                return None;
            }
            Action::Signal { number, code, fields } => ThreadAction::Signal {
                name: signal(*number),
                details: signal_details(*number, *code, *fields),
            },
            Action::Event { number, data } => match self.events.get(*number) {
                Some(event) => ThreadAction::Event {
                    name: event.name().to_owned(),
                    text: printable(event.text(data, &mut self.live).as_bytes()),
                },
                None => {
                    ThreadAction::Event { name: format!("event {number}"), text: String::new() }
                }
            },
            Action::Fault { major, ip, address, heap } => ThreadAction::Fault {
                major: *major,
                place: format!("{ip:#x}"),
                address: *address,
                target: if *heap { "heap".to_owned() } else { String::new() },
            },
            // wait(2): bits 0 to 6 have the signal, bit 7 is set if a core was dumped, and the bits above have the exit
            // code.
            Action::Exit { status } => match status & 0x7f {
                0 => ThreadAction::Exited { code: status >> 8 & 0xff },
                number => {
                    ThreadAction::Killed { signal: signal(number), dumped: status & 0x80 != 0 }
                }
            },
        };
        Some(ThreadEvent {
            time: traced.time.saturating_add(self.epoch),
            process: traced.process,
            thread: traced.thread,
            thread_name: printable(&name_after(traced)),
            action,
            stack: Vec::new(),
        })
    }

    fn call(&mut self, process: i32, call: &traced::Call<'_>) -> TracedCall {
        let value = call.end.result();
        let duration = match call.end {
            CallEnd::Returned { duration, .. } => Some(duration),
            CallEnd::Unfinished { after } => Some(after),
            CallEnd::Late { .. } | CallEnd::InProgress | CallEnd::Never => None,
        };
        let unfinished = matches!(call.end, CallEnd::Unfinished { .. } | CallEnd::InProgress);
        let error = value.and_then(error_number).and_then(error_name).map(Cow::Borrowed);
        let seen = match call.compat {
            false => seen(call),
            true => match compat_alike(call.number) {
                // Memory behind its arguments is not copied if its layout differs in 32-bit programs.
                Some(number) => Seen { number, ..seen(call) },
                None => {
                    let arguments = call.arguments.iter();
                    let arguments =
                        arguments.map(|value| (Cow::Borrowed(""), format!("{value:#x}")));
                    let result = value.map_or("?".to_owned(), |value| value.to_string());
                    let name = name_of(call.number, true);
                    let arguments = arguments.collect();
                    return TracedCall {
                        name,
                        arguments,
                        result,
                        value,
                        error,
                        duration,
                        unfinished,
                    };
                }
            },
        };
        let files = self.files.of(process);
        let arguments = pyrograph_syscall::arguments(&seen, &files, &self.written);
        let arguments =
            arguments.into_iter().map(|(name, text)| (Cow::Borrowed(name), text)).collect();
        self.files.follow(process, &seen);
        let files = self.files.of(process);
        TracedCall {
            name: name_of(call.number, call.compat),
            arguments,
            result: pyrograph_syscall::result(&seen, &files),
            value,
            error,
            duration,
            unfinished,
        }
    }

    /// Converts counts of a call, with names instead of numbers. Returns `None` if the call is not to be reported.
    pub fn count(&mut self, count: &traced::CallCount) -> Option<CallCount> {
        if !self.wanted.has_name(count.number, count.compat) {
            return None;
        }
        let thread_name = printable(&count.name);
        let process_name = self.process_name(count.process, count.thread, &thread_name);
        let errors = count.errors.iter().map(|(number, failed)| {
            (error_name(*number).map_or_else(|| number.to_string(), str::to_owned), *failed)
        });
        Some(CallCount {
            process: count.process,
            process_name,
            thread: count.thread,
            thread_name,
            group: self.group(count.group),
            name: name_of(count.number, count.compat).into_owned(),
            calls: count.calls,
            errors: errors.collect(),
            times: Durations::from_ranges(
                count.total,
                count.least,
                count.longest,
                &count.latencies,
            ),
        })
    }

    /// Returns the name of a process. It is the name of its first thread, which may have ended.
    fn process_name(&mut self, process: i32, thread: i32, thread_name: &str) -> String {
        if process == thread {
            self.processes.insert(process, thread_name.to_owned());
            return thread_name.to_owned();
        }
        let name = self.processes.entry(process).or_insert_with(|| {
            let name = proc_text(format!("/proc/{process}/comm"));
            name.map_or_else(
                |_| thread_name.to_owned(),
                |name| printable(name.trim_end().as_bytes()),
            )
        });
        name.clone()
    }

    /// Returns the path of a control group. Empty if paths are not needed.
    fn group(&mut self, id: u64) -> String {
        let Some(groups) = &mut self.groups else { return String::new() };
        let name = groups.entry(id).or_insert_with(|| {
            crate::filters::path_of_group(id).unwrap_or_else(|| format!("control group {id}"))
        });
        name.clone()
    }
}

/// Filter for calls.
struct Wanted {
    calls: Option<Vec<u32>>,
    failed: bool,
    slower: u64,
}

impl Wanted {
    fn of(plan: &TracePlan) -> Self {
        let slower = u64::try_from(plan.slower.as_nanos()).unwrap_or(u64::MAX);
        Self { calls: plan.calls.clone(), failed: plan.failed, slower }
    }

    /// Returns true if the call is selected by name. A call of a 32-bit program is selected together with the x86-64
    /// call of the same or the corresponding name.
    fn has_name(&self, number: u32, compat: bool) -> bool {
        let Some(calls) = &self.calls else { return true };
        match compat {
            false => calls.contains(&number),
            true => compat_same(number).is_some_and(|same| calls.contains(&same)),
        }
    }

    fn has(&self, call: &traced::Call<'_>) -> bool {
        let is_named = self.has_name(call.number, call.compat);
        let failed = call.end.result().and_then(error_number).is_some();
        let took = match call.end {
            CallEnd::Returned { duration, .. } => duration,
            CallEnd::Unfinished { after } => after,
            // The duration is not known.
            CallEnd::Late { .. } | CallEnd::InProgress | CallEnd::Never => 0,
        };
        call.is_wanted && is_named && (failed || !self.failed) && took >= self.slower
    }
}

/// Returns the name of the thread after a call. After an `execve` it is the name of the program, of which the kernel
/// keeps 15 bytes (`begin_new_exec` of fs/exec.c); the eBPF programs have read the name before that.
fn name_after<'a>(traced: &Traced<'a>) -> Cow<'a, [u8]> {
    let Action::Call(call) = &traced.action else { return Cow::Borrowed(traced.name) };
    let path = match by_number(call.number).map(|known| known.name) {
        _ if call.compat || call.end.result() != Some(0) => None,
        Some("execve") => Some(0),
        Some("execveat") => Some(1),
        _ => None,
    };
    let Some(path) = path else { return Cow::Borrowed(traced.name) };
    // A file that was executed by its descriptor has no path.
    file_name(call, path).map_or_else(
        || super::thread_name(traced.thread).map_or(Cow::Borrowed(traced.name), Cow::Owned),
        Cow::Borrowed,
    )
}

/// Returns the last component of a path that is an argument of a call, up to 15 bytes. `None` if the path was not
/// copied completely.
fn file_name<'a>(call: &traced::Call<'a>, argument: u8) -> Option<&'a [u8]> {
    const LONGEST: usize = 15;
    let copies = by_number(call.number)?.copies();
    let is_it = |copy: usize| copies.get(copy).is_some_and(|copy| copy.argument == argument);
    let copied = call.copied.iter().find(|copied| is_it(copied.copy))?;
    let length = copied.bytes.iter().position(|byte| *byte == 0);
    if length.is_none() && copied.length > copied.bytes.len() as u64 {
        return None;
    }
    let path = &copied.bytes[..length.unwrap_or(copied.bytes.len())];
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    (!name.is_empty()).then(|| &name[..name.len().min(LONGEST)])
}

/// Returns the call in the form that the decoder of arguments takes.
fn seen<'a>(call: &traced::Call<'a>) -> Seen<'a> {
    let (number, arguments) = (call.number, call.arguments);
    Seen { number, arguments, result: call.end.result(), copied: call.copied }
}

/// Returns the name of a call. `compat`: it is a call of a 32-bit program, which has other numbers, or an unknown
/// number (`u32::MAX`).
pub fn name_of(number: u32, compat: bool) -> Cow<'static, str> {
    match by_number(number) {
        _ if compat && number == u32::MAX => Cow::Borrowed("i386_call"),
        _ if compat => {
            compat_name(number).map_or_else(|| Cow::Owned(format!("i386_{number}")), Cow::Borrowed)
        }
        Some(call) => Cow::Borrowed(call.name),
        None => Cow::Owned(format!("syscall_{number}")),
    }
}

/// Returns the error number that a call returned, if it failed.
fn error_number(result: i64) -> Option<i32> {
    (-4095..0).contains(&result).then_some(-result as i32)
}

fn signal(number: i32) -> String {
    signal_name(number).map_or_else(|| format!("signal {number}"), Cow::into_owned)
}

/// Name of a signal's reason: `si_code` of sigaction(2), from include/uapi/asm-generic/siginfo.h.
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

/// Formats the reason and the sender of a signal: the members of `siginfo_t` that sigaction(2) lists for it.
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

#[cfg(test)]
mod tests {
    use pyrograph_event::traced::{Call, Stack};
    use pyrograph_record::Target;
    use pyrograph_syscall::{Copied, number_of};

    use super::*;

    fn decoder(name_groups: bool) -> Decoder {
        let plan = TracePlan::new(Target::System);
        Decoder::new(&TracePlan { counts: true, name_groups, ..plan })
    }

    /// The tree of control groups was walked for each, whatever the tables were for.
    #[test]
    fn control_groups_are_looked_for_only_if_they_are_shown() {
        let count = traced::CallCount {
            process: 1,
            thread: 1,
            name: b"a".to_vec(),
            group: u64::MAX,
            number: 0,
            compat: false,
            calls: 1,
            errors: Vec::new(),
            total: 1,
            least: 1,
            longest: 1,
            latencies: vec![1],
        };
        assert_eq!(decoder(false).count(&count).expect("wanted").group, "");
        assert_eq!(
            decoder(true).count(&count).expect("wanted").group,
            "control group 18446744073709551615"
        );
    }

    /// Its line had the name of before, which the kernel hands out on entry.
    #[test]
    fn a_thread_that_has_executed_a_program_has_its_name() {
        let check = |call: &str, argument: usize, bytes: &[u8], result, expect: &str| {
            let number = number_of(call).expect("a call");
            let copies = by_number(number).expect("a call").copies();
            let copy = copies.iter().position(|copy| usize::from(copy.argument) == argument);
            let copy = copy.expect("it is copied");
            let copied = [Copied { copy, bytes, length: 12 }];
            let end = CallEnd::Returned { result, duration: 0 };
            let (compat, copied) = (false, &copied[..]);
            let call = Call { number, compat, is_wanted: true, arguments: [1; 6], copied, end };
            let action = Action::Call(call);
            // No thread has this number.
            let traced = Traced {
                time: 0,
                process: -1,
                thread: -1,
                name: b"sh",
                action,
                stack: Stack::NotTaken,
            };
            assert_eq!(String::from_utf8_lossy(&name_after(&traced)), expect);
        };
        check("execve", 0, b"/usr/bin/cat\0", 0, "cat");
        check("execve", 0, b"cat", -2, "sh");
        check("execve", 0, b"a/sixteen_bytes_16", 0, "sixteen_bytes_1");
        check("execve", 0, b"/usr/bin/c", 0, "sh");
        check("execveat", 1, b"true\0", 0, "true");
        check("execveat", 1, b"\0", 0, "sh");
        check("chdir", 0, b"/usr\0", 0, "sh");
    }
}
