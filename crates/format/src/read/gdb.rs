//! Reader of backtraces printed by GDB (`thread apply all bt`), and by `pstack` and `gstack`, which run it. A file
//! may contain several dumps, as taken by a poor man's profiler.
//!
//! ```text
//! Thread 2 (Thread 0x7fde0c61d6c0 (LWP 30705) "worker one"):
//! #0  0x000055899ab8b1aa in app::spin (n=n@entry=100000000, c=...) at busy.cpp:9
//! #1  0x000055899ab8b1c0 in app::inner (c=...) at busy.cpp:10
//! #2  operator() (c=..., __closure=<optimized out>) at busy.cpp:13
//! #3  0x00007fde0c6ed545 in poll () from /lib64/libc.so.6
//! #4  <signal handler called>
//! #5  0x000055b14286f1c0 in ?? ()
//! ```
//!
//! - Each backtrace is a sample of 1. It ends at a blank line, and before a frame that does not have the next number.
//!   With `bt full`, there are variables between the frames.
//! - A frame without an address, other than `#0`, has the same address as the frame above, which was inlined into it.
//! - The thread's name is in quotation marks; versions before 8.1 print none.
//! - Arguments are dropped. They have the form `name=value`; other brackets belong to the function's name:
//!   `std::function<void (int)>::operator()(int) const (this=0x1, x=2)`.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of GDB backtraces.
pub struct Gdb;

impl Reader for Gdb {
    fn name(&self) -> &'static str {
        "gdb"
    }

    fn written_by(&self) -> &'static str {
        "gdb -p PID -batch -ex 'thread apply all bt', pstack"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut after_thread = false;
        for line in first_lines(head).take(2000) {
            if let Some(frame) = Frame::parse(line) {
                return after_thread || (frame.address.is_some() && line.contains(" in "));
            }
            after_thread = thread(line).is_some();
        }
        false
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut stack: Vec<Frame> = Vec::new();
        let mut who = (String::new(), None);
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(frame) = Frame::parse(&line) {
                let next = stack.last().map_or(frame.number, |last| last.number.saturating_add(1));
                if frame.number != next {
                    end(&mut out, &mut stack, &who);
                }
                stack.push(frame);
                continue;
            }
            if let Some((name, lwp)) = thread(&line) {
                end(&mut out, &mut stack, &who);
                who = (name.to_owned(), lwp);
            } else if line.starts_with('#') {
                end(&mut out, &mut stack, &who);
                lines.warn(WarningKind::UnreadableLine);
            } else if line.is_empty() {
                end(&mut out, &mut stack, &who);
            }
        }
        end(&mut out, &mut stack, &who);
        Ok(out.reading(lines.warnings))
    }
}

struct Frame {
    number: u32,
    address: Option<u64>,
    function: String,
    module: String,
    file: String,
    line: u32,
}

impl Frame {
    fn parse(line: &str) -> Option<Self> {
        let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
        let number = number.parse().ok()?;
        let rest = rest.trim();
        let (address, rest) = match rest.split_once(" in ") {
            Some((address, rest)) if hex_address(address).is_some() => (hex_address(address), rest),
            _ => (None, rest),
        };
        let mut frame = Self {
            number,
            address,
            function: String::new(),
            module: String::new(),
            file: String::new(),
            line: 0,
        };
        if rest == "<signal handler called>" {
            frame.function = rest.to_owned();
            return Some(frame);
        }
        let close = rest.rfind(')')?;
        let (call, place) = rest.split_at(close + 1);
        frame.function = function(call)?.to_owned();
        if let Some(module) = place.strip_prefix(" from ") {
            frame.module = module.to_owned();
        } else if let Some((file, line)) =
            place.strip_prefix(" at ").and_then(|at| at.rsplit_once(':'))
        {
            (frame.file, frame.line) = (file.to_owned(), line.parse().unwrap_or(0));
        }
        Some(frame)
    }
}

/// Returns the name in `name (argument=value, …)`.
fn function(call: &str) -> Option<&str> {
    if let Some(name) = call.strip_suffix(" ()") {
        return Some(name);
    }
    let is_argument = |text: &str| {
        let name = text.split(['=', '@']).next().unwrap_or_default();
        let after = text.as_bytes().get(name.len());
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '.' | ':');
        text.starts_with("...)")
            || (after.is_some() && !name.is_empty() && name.chars().all(is_name))
    };
    let opens = call.match_indices(" (").map(|(at, _)| at);
    let arguments = opens.filter(|&at| is_argument(&call[at + 2..])).take(1).last();
    arguments.map(|at| &call[..at])
}

/// Parses `Thread 2 (Thread 0x7fde0c61d6c0 (LWP 30705) "worker one"):`, `Thread 1 (process 12):` or `Thread 1 (LWP
/// 12):` into name and ID.
fn thread(line: &str) -> Option<(&str, Option<i32>)> {
    let (number, rest) = line.strip_prefix("Thread ")?.split_once(" (")?;
    number.parse::<u32>().ok()?;
    let rest = rest.trim_end().strip_suffix(':')?.strip_suffix(')')?;
    let name = match rest.split_once(" \"") {
        Some((_, name)) => name.strip_suffix('"').unwrap_or(name),
        None => "",
    };
    let digits = |after: &str| {
        let (_, rest) = rest.split_once(after)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    Some((name, digits("LWP ").or_else(|| digits("process "))))
}

fn end(out: &mut Collector, stack: &mut Vec<Frame>, who: &(String, Option<i32>)) {
    if stack.is_empty() {
        return;
    }
    for (place, frame) in stack.iter().enumerate() {
        let inlined = stack.get(place + 1).is_some_and(|outer| {
            outer.address.is_none() && outer.function != "<signal handler called>"
        });
        let kind = if inlined { FrameKind::Inlined } else { FrameKind::User };
        match (frame.function.as_str(), frame.address) {
            ("??", Some(address)) => out.unknown(address, &frame.module, kind),
            (function, _) => {
                out.symbol_at(function, &frame.module, kind, (&frame.file, frame.line));
            }
        }
    }
    stack.clear();
    let thread = out.thread(&who.0, None, who.1);
    out.end_leaf_first(thread, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: &str, expect: &str) {
        assert_eq!(function(call), Some(expect));
    }

    #[test]
    fn arguments_are_told_from_names() {
        check("main ()", "main");
        check("f (n=n@entry=1, s=0x1 \"(a, b\")", "f");
        check("g (__args#0=..., this=0x7)", "g");
        check("h (...)", "h");
        check("operator() (c=..., __closure=<optimized out>)", "operator()");
        check(
            "std::function<void (C const&)>::operator()(C const&) const (this=0x1)",
            "std::function<void (C const&)>::operator()(C const&) const",
        );
        check(
            "std::function<void ()>::operator()() const ()",
            "std::function<void ()>::operator()() const",
        );
        check("(anonymous namespace)::f (x=1)", "(anonymous namespace)::f");
        assert_eq!(function("no arguments)"), None);
    }

    #[test]
    fn threads_of_all_versions() {
        assert_eq!(
            thread("Thread 2 (Thread 0x7f (LWP 30705) \"worker one\"):"),
            Some(("worker one", Some(30705)))
        );
        assert_eq!(thread("Thread 2 (Thread 0x7f (LWP 30705)):"), Some(("", Some(30705))));
        assert_eq!(thread("Thread 1 (process 12):"), Some(("", Some(12))));
        assert_eq!(thread("Thread 1 \"x\" received signal SIGINT, Interrupt."), None);
    }
}
