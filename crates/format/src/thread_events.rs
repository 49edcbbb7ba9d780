//! What traced threads did, from files: system calls of `strace`'s text and of tracepoints.
//!
//! `strace` writes, with `-f`, `-tt` or `-ttt`, `-T` and `-Y` if these were given:
//!
//! ```text
//! 7<sh> 12:30:01.000100 openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 3</etc/hostname> <0.000012>
//! 7<sh> 12:30:01.000130 wait4(-1,  <unfinished ...>
//! 8<ls> 12:30:01.000140 +++ exited with 0 +++
//! 7<sh> 12:30:01.000150 <... wait4 resumed>NULL, 0, NULL) = 8 <0.000020>
//! 7<sh> 12:30:01.000160 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=8} ---
//! ```
//!
//! Of tracepoints, `raw_syscalls:sys_enter` and `sys_exit` are read, or those of single calls, `syscalls:sys_enter_openat`.

use std::borrow::Cow;
use std::collections::HashMap;

use pyrograph_profile::{FieldValue, ThreadAction, ThreadEvent, TraceEvent, TracedCall};
use pyrograph_syscall::{Seen, Written, by_number, error_name};

use crate::events::events;
use crate::input::{Head, Input};
use crate::read::text::{Lines, first_lines};
use crate::reader::ReadError;
use crate::warnings::{WarningKind, Warnings};

/// Hands over what threads did, in the order of the file: `strace`'s text, or an input with tracepoints of system calls.
///
/// # Errors
///
/// If the input cannot be read at all, is empty, or holds no system calls.
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

/// The same of `strace`'s text.
pub(crate) fn strace_events(head: Head, on_event: &mut dyn FnMut(ThreadEvent)) -> Warnings {
    let mut lines = Lines::new(head);
    let mut reader = StraceReader::default();
    while let Some(line) = lines.next_line() {
        match reader.line(line) {
            Ok(Some(event)) => on_event(event),
            Ok(None) => {}
            Err(Unreadable) => lines.warn(WarningKind::UnreadableLine),
        }
    }
    reader.unfinished().for_each(on_event);
    lines.warnings
}

/// Returns true if text looks as `strace` writes it.
pub(crate) fn is_strace(head: &[u8]) -> bool {
    let lines: Vec<&str> = first_lines(head).filter(|line| !line.is_empty()).take(20).collect();
    let is_it = |line: &&&str| {
        let Some(line) = Prefix::read(line) else { return false };
        let is_call = split_call(line.rest).is_some_and(|(name, rest)| {
            !name.is_empty() && (rest.contains(" = ") || rest.ends_with("<unfinished ...>"))
        });
        is_call
            || own_event(line.rest).is_some()
            || line.rest.starts_with("+++ ")
            || line.rest.starts_with("--- SIG")
    };
    let known = lines.iter().filter(is_it).count();
    known > 0 && known * 2 > lines.len()
}

/// A frame of a stack, of `strace -k` or our own.
fn is_of_stack(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("> ")
}

/// What our own lines have beside those of `strace`: `sched:sched_switch(...)`, `page fault (minor) at main+0x1 of 0x2 in heap`.
fn own_event(text: &str) -> Option<ThreadAction> {
    if let Some(text) = text.strip_prefix("page fault (") {
        let (kind, text) = text.split_once(") at ")?;
        let (place, text) = text.split_once(" of 0x")?;
        let (address, target) = text.split_once(" in ").unwrap_or((text, ""));
        return Some(ThreadAction::Fault {
            major: kind == "major",
            place: place.to_owned(),
            address: u64::from_str_radix(address, 16).ok()?,
            target: target.to_owned(),
        });
    }
    let (name, text) = text.strip_suffix(')')?.split_once('(')?;
    let (system, rest) = name.split_once(':')?;
    let is_system = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_event = !rest.is_empty()
        && !rest.contains(' ')
        && !system.is_empty()
        && system.bytes().all(is_system);
    is_event.then(|| ThreadAction::Event { name: name.to_owned(), text: text.to_owned() })
}

/// A line that is none of `strace`'s.
struct Unreadable;

/// Thread, name and time before a call.
struct Prefix<'a> {
    thread: i32,
    name: &'a str,
    time: u64,
    rest: &'a str,
}

impl<'a> Prefix<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut rest = line.trim_start();
        let (mut thread, mut name) = (0, "");
        if let Some(inside) = rest.strip_prefix("[pid ") {
            let (who, behind) = inside.split_once(']')?;
            (thread, name) = Self::thread(who.trim())?;
            rest = behind.trim_start();
        } else if let Some((who, behind)) = Self::first_word(rest)
            && let Some(found) = Self::thread(who)
        {
            (thread, name) = found;
            rest = behind.trim_start();
        }
        let mut time = 0;
        if let Some((word, behind)) = rest.split_once(' ')
            && let Some(found) = parse_time(word)
        {
            time = found;
            rest = behind.trim_start();
        }
        Some(Self { thread, name, time, rest })
    }

    /// A number, with a name behind it that may have blanks.
    fn first_word(text: &str) -> Option<(&str, &str)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        match text.as_bytes().get(digits)? {
            _ if digits == 0 => None,
            b'<' => text.split_at_checked(text.find("> ")? + 1),
            b' ' => text.split_at_checked(digits),
            _ => None,
        }
    }

    fn thread(word: &str) -> Option<(i32, &str)> {
        let (number, name) = match word.split_once('<') {
            Some((number, name)) => (number, name.strip_suffix('>')?),
            None => (word, ""),
        };
        Some((number.parse().ok()?, name))
    }
}

/// Nanoseconds of `12:30:01.000100`, as if it were the first day, or of `1700000000.000100`.
fn parse_time(word: &str) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<u64> = whole.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let seconds = match parts[..] {
        [hours, minutes, seconds] => {
            let minutes = minutes.checked_mul(60)?.checked_add(seconds)?;
            hours.checked_mul(3600)?.checked_add(minutes)?
        }
        [seconds] if !fraction.is_empty() => seconds,
        _ => return None,
    };
    if !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Name and what is behind the bracket.
fn split_call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, rest))
}

/// Calls that have not returned, by thread: when they began, the thread's name and what was written of them.
#[derive(Default)]
struct StraceReader {
    begun: HashMap<i32, (u64, String, String)>,
}

impl StraceReader {
    fn line(&mut self, line: &str) -> Result<Option<ThreadEvent>, Unreadable> {
        if line.trim().is_empty() || is_of_stack(line) || line.starts_with("strace: ") {
            return Ok(None);
        }
        let Prefix { thread, name, time, rest } = Prefix::read(line).ok_or(Unreadable)?;
        let event = |time, action| ThreadEvent {
            time,
            process: thread,
            thread,
            thread_name: name.to_owned(),
            action,
            stack: Vec::new(),
        };
        if let Some(action) = own_event(rest) {
            return Ok(Some(event(time, action)));
        }
        if let Some(text) = rest.strip_prefix("+++ ").and_then(|rest| rest.strip_suffix(" +++")) {
            return Ok(ended(text).map(|action| event(time, action)));
        }
        if let Some(text) = rest.strip_prefix("--- ").and_then(|rest| rest.strip_suffix(" ---")) {
            return Ok(signal(text).map(|action| event(time, action)));
        }
        if let Some(text) = rest.trim_end().strip_suffix("<unfinished ...>") {
            split_call(text).ok_or(Unreadable)?;
            let begun = (time, name.to_owned(), text.trim_end().to_owned());
            self.begun.insert(thread, begun);
            return Ok(None);
        }
        if let Some(text) = rest.strip_prefix("<... ") {
            let (call, end) = text.split_once(" resumed>").ok_or(Unreadable)?;
            let (time, whole) = match self.begun.remove(&thread) {
                Some((time, _, begin)) if begin.starts_with(call) => {
                    (time, format!("{begin}{end}"))
                }
                // It began before the file did.
                _ => (time, format!("{call}({}", end.trim_start())),
            };
            let call = call_of(&whole).ok_or(Unreadable)?;
            return Ok(Some(event(time, ThreadAction::Call(call))));
        }
        let call = call_of(rest).ok_or(Unreadable)?;
        Ok(Some(event(time, ThreadAction::Call(call))))
    }

    /// What had not returned when the file ended.
    fn unfinished(self) -> impl Iterator<Item = ThreadEvent> {
        let mut begun: Vec<_> = self.begun.into_iter().collect();
        begun.sort_by_key(|(thread, (time, ..))| (*time, *thread));
        begun.into_iter().filter_map(|(thread, (time, name, text))| {
            let (call, arguments) = split_call(&text)?;
            let call = TracedCall {
                name: call.to_owned().into(),
                arguments: split_arguments(arguments.trim_end().trim_end_matches(',')),
                unfinished: true,
                ..TracedCall::default()
            };
            let action = ThreadAction::Call(call);
            let (process, stack) = (thread, Vec::new());
            Some(ThreadEvent { time, process, thread, thread_name: name, action, stack })
        })
    }
}

fn ended(text: &str) -> Option<ThreadAction> {
    if let Some(code) = text.strip_prefix("exited with ") {
        return Some(ThreadAction::Exited { code: code.parse().ok()? });
    }
    let text = text.strip_prefix("killed by ")?;
    let (signal, dumped) = match text.strip_suffix(" (core dumped)") {
        Some(signal) => (signal, true),
        None => (text, false),
    };
    Some(ThreadAction::Killed { signal: signal.to_owned(), dumped })
}

fn signal(text: &str) -> Option<ThreadAction> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let details = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let details = details.and_then(|details| details.split_once(", ")).map(|(_, rest)| rest);
    name.starts_with("SIG").then(|| ThreadAction::Signal {
        name: name.to_owned(),
        details: details.unwrap_or_default().to_owned(),
    })
}

/// `name(arguments) = result <duration>`.
fn call_of(text: &str) -> Option<TracedCall> {
    let (name, rest) = split_call(text)?;
    let (rest, duration) = match rest.trim_end().strip_suffix('>').and_then(|r| r.rsplit_once(" <"))
    {
        Some((before, seconds)) if parse_time(seconds).is_some() => (before, parse_time(seconds)),
        _ => (rest, None),
    };
    // The result has no bracket with this behind it, but its error text may have one.
    let (arguments, result) = last_result(rest)?;
    let result = result.trim();
    let first = result.split([' ', '<', '(']).next().unwrap_or_default();
    let value = match first.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => first.parse().ok(),
    };
    let error = (value == Some(-1)).then(|| result.split(' ').nth(1)).flatten();
    let error = error.filter(|name| name.starts_with('E')).map(|name| Cow::Owned(name.to_owned()));
    // What is interrupted and begins again has no number: `? ERESTARTSYS`.
    let value = value.or_else(|| result.starts_with("? E").then_some(-1));
    Some(TracedCall {
        name: name.to_owned().into(),
        arguments: split_arguments(arguments),
        result: result.to_owned(),
        value,
        error,
        duration,
        unfinished: false,
    })
}

/// Arguments and result: at the last `) = ` that is not in a text.
fn last_result(rest: &str) -> Option<(&str, &str)> {
    let mut in_text = false;
    let mut escaped = false;
    let mut at = None;
    for (index, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b')' if !in_text && rest[index + 1..].trim_start_matches(' ').starts_with("= ") => {
                at = Some(index);
                break;
            }
            _ => {}
        }
    }
    let at = at?;
    Some((&rest[..at], rest[at + 1..].trim_start().strip_prefix("= ")?))
}

/// Arguments at commas outside of texts and brackets.
fn split_arguments(text: &str) -> Vec<(Cow<'static, str>, String)> {
    let mut arguments = Vec::new();
    let (mut depth, mut in_text, mut escaped, mut begin) = (0_u32, false, false, 0);
    // Inside of the name of a descriptor's file: `3</a, b>`.
    let mut in_name = false;
    let mut push = |argument: &str| {
        let argument = argument.trim();
        if !argument.is_empty() {
            arguments.push((Cow::Borrowed(""), argument.to_owned()));
        }
    };
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'>' if in_name => in_name = false,
            _ if in_name => {}
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'<' if !in_text && begins_name(text.as_bytes(), index) => in_name = true,
            b'(' | b'[' | b'{' if !in_text => depth += 1,
            b')' | b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            b',' if !in_text && depth == 0 => {
                push(&text[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    push(&text[begin..]);
    arguments
}

/// Returns true if the name of a file begins behind a number or `AT_FDCWD`: a shift (`1<<CAP_CHOWN`) has two of these signs.
fn begins_name(text: &[u8], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| text.get(before));
    before.is_some_and(u8::is_ascii_alphanumeric) && text.get(index + 1) != Some(&b'<')
}

/// Begins of calls, which wait for their ends.
#[derive(Default)]
struct Pairs {
    begun: HashMap<i32, ThreadEvent>,
    seen: u64,
}

/// Names before the call's, where each call has tracepoints of its own.
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
            // Its end is missing: it never returns, or that was lost.
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
                    // They are in the other tracepoint.
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

/// The call of an event: by its number, or by the name of its tracepoint.
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

    #[test]
    fn times_beyond_all_numbers_are_none() {
        for word in
            ["1:18446744073709551615:0", "18446744073709551615:0:0", "0:0:18446744073709551615"]
        {
            assert_eq!(parse_time(word), None, "{word}");
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
