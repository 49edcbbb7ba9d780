//! Parser for the output of `strace`.
//!
//! Lines of `strace` if all of `-f`, `-tt` or `-ttt`, `-T` and `-Y` are given:
//!
//! ```text
//! 7<sh> 12:30:01.000100 openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 3</etc/hostname> <0.000012>
//! 7<sh> 12:30:01.000130 wait4(-1,  <unfinished ...>
//! 8<ls> 12:30:01.000140 +++ exited with 0 +++
//! 7<sh> 12:30:01.000150 <... wait4 resumed>NULL, 0, NULL) = 8 <0.000020>
//! 7<sh> 12:30:01.000160 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=8} ---
//! ```

use std::borrow::Cow;
use std::collections::HashMap;

use pyrograph_profile::{ThreadAction, ThreadEvent, TracedCall};

use crate::input::Head;
use crate::read::text::{Lines, first_lines};
use crate::warnings::{WarningKind, Warnings};

/// Calls `on_event` for each event of a thread, in the order of the file.
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

/// Returns true if a text looks like the output of `strace`.
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

/// Returns true if a line is a frame of a stack, printed by `strace -k` or by Pyrograph.
fn is_of_stack(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("> ")
}

/// Parses events and page faults, which only Pyrograph prints: `sched:sched_switch(...)`,
/// `page fault (minor) at main+0x1 of 0x2 in heap`.
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

/// Error: a line is not in the format of `strace`.
struct Unreadable;

/// Thread, thread name and time before a call, and the rest of the line.
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

    /// Splits off a number, including a name in angle brackets after it, which may contain blanks.
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

/// Parses a time to nanoseconds: `12:30:01.000100` counts from midnight, `1700000000.000100` from the epoch.
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

/// Splits a call into its name and the text after the opening bracket.
fn split_call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, rest))
}

/// Parser state: calls that have not returned, by thread, with their begin, the thread's name and their text so far.
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
                // The call began before the trace.
                _ => (time, format!("{call}({}", end.trim_start())),
            };
            let call = call_of(&whole).ok_or(Unreadable)?;
            return Ok(Some(event(time, ThreadAction::Call(call))));
        }
        let call = call_of(rest).ok_or(Unreadable)?;
        Ok(Some(event(time, ThreadAction::Call(call))))
    }

    /// Calls that had not returned when the file ended.
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

/// Parses `name(arguments) = result <duration>`.
fn call_of(text: &str) -> Option<TracedCall> {
    let (name, rest) = split_call(text)?;
    let (rest, duration) = match rest.trim_end().strip_suffix('>').and_then(|r| r.rsplit_once(" <"))
    {
        Some((before, seconds)) if parse_time(seconds).is_some() => (before, parse_time(seconds)),
        _ => (rest, None),
    };
    // The result contains no `) = `, but its error text may contain brackets.
    let (arguments, result) = last_result(rest)?;
    let result = result.trim();
    let first = result.split([' ', '<', '(']).next().unwrap_or_default();
    let value = match first.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => first.parse().ok(),
    };
    let error = (value == Some(-1)).then(|| result.split(' ').nth(1)).flatten();
    let error = error.filter(|name| name.starts_with('E')).map(|name| Cow::Owned(name.to_owned()));
    // An interrupted call that will be restarted has no number: `? ERESTARTSYS`.
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

/// Splits arguments and result at the first `) = ` outside of quoted strings.
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

/// Splits arguments at commas outside of quoted strings and brackets.
fn split_arguments(text: &str) -> Vec<(Cow<'static, str>, String)> {
    let mut arguments = Vec::new();
    let (mut depth, mut in_text, mut escaped, mut begin) = (0_u32, false, false, 0);
    // True within the file name of a descriptor: `3</a, b>`.
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

/// Returns true if `<` begins a file name after a number or `AT_FDCWD`. A shift (`1<<CAP_CHOWN`) has two of these
/// characters.
fn begins_name(text: &[u8], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| text.get(before));
    before.is_some_and(u8::is_ascii_alphanumeric) && text.get(index + 1) != Some(&b'<')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_all_numbers_are_none() {
        for word in
            ["1:18446744073709551615:0", "18446744073709551615:0:0", "0:0:18446744073709551615"]
        {
            assert_eq!(parse_time(word), None, "{word}");
        }
    }
}
