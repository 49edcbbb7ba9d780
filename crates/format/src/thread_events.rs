//! Events of traced threads from files: system calls in the output of `strace` and in tracepoints.
//!
//! Tracepoints that are read: `raw_syscalls:sys_enter` and `sys_exit`, or those of single calls, such as
//! `syscalls:sys_enter_openat`.

use std::borrow::Cow;
use std::collections::HashMap;

use pyrograph_profile::{FieldValue, ThreadAction, ThreadEvent, TraceEvent, TracedCall};
use pyrograph_syscall::{Seen, Written, by_number, error_name};

use crate::events::events;
use crate::input::Input;
use crate::reader::ReadError;
use crate::strace_text::{is_strace, strace_events};
use crate::warnings::Warnings;

/// Calls `on_event` for each event of a thread, in the order of the file. The input is the output of `strace`, or
/// contains tracepoints of system calls.
///
/// # Errors
///
/// If the input cannot be read at all, is empty, or contains no system calls.
pub fn thread_events(
    input: Input,
    on_event: &mut dyn FnMut(ThreadEvent),
) -> Result<Warnings, ReadError> {
    let name = input.name().to_owned();
    let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
    if is_strace(head.bytes()) {
        return Ok(strace_events(head, on_event));
    }
    let mut pairs = Pairs::default();
    let warnings = events(head, &mut |event| {
        if let Some(event) = pairs.event(event) {
            on_event(event);
        }
    })?;
    if pairs.seen == 0 {
        let reason =
            "there are no system calls in it: perf record -e 'raw_syscalls:*' records them";
        return Err(ReadError::Nothing { name, reason: reason.to_owned() });
    }
    pairs.unfinished().for_each(on_event);
    Ok(warnings)
}

/// Calls that have begun and not yet ended.
#[derive(Default)]
struct Pairs {
    begun: HashMap<i32, ThreadEvent>,
    seen: u64,
}

/// Prefixes of the call's name in tracepoints of single calls.
const ENTER: &str = "sys_enter_";
const EXIT: &str = "sys_exit_";

impl Pairs {
    fn event(&mut self, event: &TraceEvent<'_>) -> Option<ThreadEvent> {
        let point = event.name.rsplit(':').next()?;
        let thread = event.tid.or(event.pid)?;
        if point == "sys_enter" || point.starts_with(ENTER) {
            self.seen += 1;
            let call = begin(event, point.strip_prefix(ENTER))?;
            let begun = ThreadEvent {
                time: event.time.unwrap_or(0),
                process: event.pid.unwrap_or(thread),
                thread,
                thread_name: event.comm.to_owned(),
                action: ThreadAction::Call(call),
                stack: Vec::new(),
            };
            let before = self.begun.insert(thread, begun)?;
            // The end of the previous call is missing: the call never returns, or the event was lost.
            return Some(without_end(before));
        }
        if point != "sys_exit" && !point.starts_with(EXIT) {
            return None;
        }
        self.seen += 1;
        let result = event.field("ret").and_then(FieldValue::as_i64)?;
        let mut event_of = match self.begun.remove(&thread) {
            Some(begun) => begun,
            None => ThreadEvent {
                time: event.time.unwrap_or(0),
                process: event.pid.unwrap_or(thread),
                thread,
                thread_name: event.comm.to_owned(),
                action: ThreadAction::Call(TracedCall {
                    // Arguments are in the tracepoint of the call's begin, which is missing.
                    arguments: vec![("".into(), "...".to_owned())],
                    ..begin(event, point.strip_prefix(EXIT))?
                }),
                stack: Vec::new(),
            },
        };
        let ThreadAction::Call(call) = &mut event_of.action else { return None };
        let number = (-4095..0).contains(&result).then(|| -result as i32);
        call.value = Some(result);
        call.error = number.and_then(error_name).map(Cow::Borrowed);
        call.result = match pyrograph_syscall::number_of(&call.name) {
            Some(number) => {
                let seen = Seen { number, arguments: [0; 6], result: Some(result), copied: &[] };
                pyrograph_syscall::result(&seen, &())
            }
            None => result.to_string(),
        };
        let end = event.time.filter(|_| event_of.time > 0);
        call.duration = end.map(|end| end.saturating_sub(event_of.time)).filter(|time| *time > 0);
        Some(event_of)
    }

    fn unfinished(self) -> impl Iterator<Item = ThreadEvent> {
        let mut begun: Vec<ThreadEvent> = self.begun.into_values().collect();
        begun.sort_by_key(|event| (event.time, event.thread));
        begun.into_iter().map(without_end)
    }
}

fn without_end(mut event: ThreadEvent) -> ThreadEvent {
    if let ThreadAction::Call(call) = &mut event.action {
        call.unfinished = true;
    }
    event
}

/// Decodes the call of an event, by its number or by the name of its tracepoint.
fn begin(event: &TraceEvent<'_>, name: Option<&str>) -> Option<TracedCall> {
    if let Some(name) = name {
        // The first two are the kernel's own.
        let arguments = event.fields.iter().filter(|field| !field.name.starts_with("__"));
        let arguments = arguments
            .filter(|field| field.name != "ret")
            .map(|field| (Cow::Owned(field.name.to_owned()), field.value.to_string()));
        let arguments = arguments.collect();
        return Some(TracedCall {
            name: name.to_owned().into(),
            arguments,
            ..TracedCall::default()
        });
    }
    let number = u32::try_from(event.field("id").and_then(FieldValue::as_i64)?).ok()?;
    let mut words = [0; 6];
    if let Some(FieldValue::List(values)) = event.field("args") {
        for (word, value) in words.iter_mut().zip(values) {
            *word = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)).unwrap_or(0);
        }
    }
    let seen = Seen { number, arguments: words, result: None, copied: &[] };
    let arguments = pyrograph_syscall::arguments(&seen, &(), &Written::default());
    Some(TracedCall {
        name: by_number(number).map_or_else(
            || Cow::Owned(format!("syscall_{number}")),
            |call| Cow::Borrowed(call.name),
        ),
        arguments: arguments.into_iter().map(|(name, text)| (Cow::Borrowed(name), text)).collect(),
        ..TracedCall::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<ThreadEvent> {
        let mut all = Vec::new();
        let input = Input::bytes("strace.txt", text.as_bytes());
        let warnings = thread_events(input, &mut |event| all.push(event)).expect("strace's text");
        assert!(warnings.is_empty(), "{text}");
        all
    }

    fn call(event: &ThreadEvent) -> &TracedCall {
        match &event.action {
            ThreadAction::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_head_that_strace_writes_is_read() {
        let heads = [
            ("", 0, "", 0),
            ("7 ", 7, "", 0),
            ("[pid  7] ", 7, "", 0),
            ("7<two words> ", 7, "two words", 0),
            ("[pid 7<a>] ", 7, "a", 0),
            ("7 12:30:01 ", 7, "", 45_001_000_000_000),
            ("7<sh> 12:30:01.000100 ", 7, "sh", 45_001_000_100_000),
            ("1700000000.000001 ", 0, "", 1_700_000_000_000_001_000),
        ];
        let calls = [
            ("getpid() = 7", "getpid", 0, Some(7), None, None),
            ("close(3</a, b>) = 0 <0.000012>", "close", 1, Some(0), None, Some(12_000)),
            (
                r#"openat(AT_FDCWD, "a) = 3, \"", O_RDONLY) = -1 ENOENT (No such file (really)) <0.000000345>"#,
                "openat",
                3,
                Some(-1),
                Some("ENOENT"),
                Some(345),
            ),
            ("mmap(NULL, 4096) = 0x7f0000000000", "mmap", 2, Some(0x7f00_0000_0000), None, None),
            ("exit_group(0)     = ?", "exit_group", 1, None, None, None),
            ("read(0, 0x7f, 1) = ? ERESTARTSYS (To be restarted)", "read", 3, Some(-1), None, None),
            (
                "poll([{fd=3, events=POLLIN}, {fd=4}], 2, 10) = 0 (Timeout)",
                "poll",
                3,
                Some(0),
                None,
                None,
            ),
        ];
        for (head, thread, name, time) in heads {
            for (text, called, arguments, value, error, duration) in &calls {
                let line = format!("{head}{text}\n");
                let events = read(&line);
                assert_eq!(events.len(), 1, "{line}");
                let event = &events[0];
                assert_eq!(
                    (event.thread, &event.thread_name[..], event.time),
                    (thread, name, time),
                    "{line}"
                );
                let call = call(event);
                assert_eq!((&call.name[..], call.arguments.len()), (*called, *arguments), "{line}");
                assert_eq!((call.value, call.error.as_deref()), (*value, *error), "{line}");
                assert_eq!(call.duration, *duration, "{line}");
            }
        }
    }

    /// Lines with a few bytes changed, by a generator that gives the same ones each time.
    #[test]
    fn damaged_lines_are_read_as_far_as_they_go() {
        let text = "7<sh> 12:30:01.000100 openat(AT_FDCWD</a>, \"x\\\"\", O_RDONLY) = -1 ENOENT (No (such) file) <0.000012>\n\
            [pid  8] 1700000000.5 read(3,  <unfinished ...>\n8 <... read resumed>\"\", 1) = ? ERESTARTSYS <0.1>\n\
            7 --- SIGHUP {si_signo=SIGHUP, si_code=SI_USER} ---\n7 +++ killed by SIGHUP (core dumped) +++\n";
        const CHANGES: &[u8] = b"(){}<>[],=:.+-\"\\ 0987\n\xffa";
        let (mut state, mut read) = (1_u64, 0);
        for _ in 0..20_000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = CHANGES[(state >> 20) as usize % CHANGES.len()];
            }
            let input = Input::bytes("strace.txt", bytes);
            let _ = thread_events(input, &mut |_| read += 1);
        }
        assert!(read > 20_000, "{read}");
    }

    #[test]
    fn calls_of_several_threads_are_put_together() {
        let events = read(
            "7 10.000001 wait4(-1,  <unfinished ...>\n\
             8 10.000002 read(0,  <unfinished ...>\n\
             9 10.000003 +++ exited with 3 +++\n\
             7 10.000004 <... wait4 resumed>[{WIFEXITED(s)}], 0, NULL) = 9 <0.000003>\n\
             7 10.000005 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=9} ---\n\
             7 10.000006 +++ killed by SIGSEGV (core dumped) +++\n",
        );
        assert_eq!(events.len(), 5);
        assert_eq!(events[0].action, ThreadAction::Exited { code: 3 });
        let wait = call(&events[1]);
        assert_eq!((&wait.name[..], wait.arguments.len(), wait.value), ("wait4", 4, Some(9)));
        assert_eq!((events[1].time, wait.duration), (10_000_001_000, Some(3000)));
        let details = "si_code=CLD_EXITED, si_pid=9".to_owned();
        assert_eq!(events[2].action, ThreadAction::Signal { name: "SIGCHLD".to_owned(), details });
        let killed = ThreadAction::Killed { signal: "SIGSEGV".to_owned(), dumped: true };
        assert_eq!(events[3].action, killed);
        let read = call(&events[4]);
        assert!(read.unfinished && read.value.is_none() && &read.name[..] == "read");
    }
}
