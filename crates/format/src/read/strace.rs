//! Reader of strace output: system calls with stacks, as `strace -k` writes them, or without.
//!
//! ```text
//! [pid  7] openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 3
//!  > /usr/lib/libc.so.6(__open64+0x51) [0xf8011]
//!  > /opt/app(main+0x55) [0x1239]
//!  > /opt/app() [0x10b1]
//! ```
//!
//! - Each call counts 1, with its name as the leaf. Frames are leaf first.
//! - The stack follows the end of a call: `<... read resumed>` if calls of other threads came in between.
//!
//! Without stacks, a call is a frame of its thread. Failed calls have a child frame with the error:
//!
//! ```text
//! 7<sh> openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000012>
//! ```
//!
//! - Values are the duration of calls, if `-T` was given, and their number.
//! - A call that had not returned at the end lasts until the last line, if times are known.

use pyrograph_profile::{
    FieldValue, FrameKind, Profile, Sample, ThreadAction, ThreadEvent, ThreadId, TraceEvent,
    TraceField, ValueType,
};

use super::perf_script::arguments::arguments;
use super::text::{Collector, Lines, first_lines, without_offset};
use crate::input::Head;
use crate::reader::{Detail, Options, ReadError, Reader, Reading};
use crate::strace_text::{is_strace, strace_events};
use crate::warnings::Warnings;

/// Reader of strace output.
pub struct Strace;

impl Reader for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn written_by(&self) -> &'static str {
        "strace, strace -f -T, strace -k"
    }

    fn detect(&self, head: &[u8]) -> bool {
        has_stacks(head) || is_strace(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        if !has_stacks(input.bytes()) {
            return Ok(without_stacks(input, options));
        }
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::new("calls", "count")).addresses(options);
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some((module, symbol, address)) = frame(&line) {
                if out.depth() > 0 {
                    match symbol {
                        "" => out.unknown(address, module, FrameKind::User),
                        symbol => out.symbol(symbol, module, FrameKind::User),
                    }
                }
                continue;
            }
            finish(&mut out);
            if let Some(name) = call(&line) {
                out.frame(name, "", FrameKind::Kernel);
            }
        }
        finish(&mut out);
        Ok(out.reading(lines.warnings))
    }

    fn events(
        &self,
        input: Head,
        on_event: &mut dyn FnMut(&TraceEvent<'_>),
    ) -> Result<Warnings, ReadError> {
        Ok(strace_events(input, &mut |event| single_event(&event, on_event)))
    }
}

/// Passes on a call, an event or a page fault with its fields: arguments of calls by their names, `ret` and `duration`.
fn single_event(event: &ThreadEvent, on_event: &mut dyn FnMut(&TraceEvent<'_>)) {
    let mut of = |name: &str, fields: &[TraceField<'_>]| {
        on_event(&TraceEvent {
            name,
            time: (event.time > 0).then_some(event.time),
            cpu: None,
            pid: (event.process > 0).then_some(event.process),
            tid: (event.thread > 0).then_some(event.thread),
            comm: &event.thread_name,
            fields,
        });
    };
    match &event.action {
        ThreadAction::Event { name, text } => of(name, &arguments(name, text)),
        ThreadAction::Call(call) => {
            let named = call.arguments.iter().filter(|(name, _)| !name.is_empty());
            let mut fields: Vec<TraceField<'_>> = named
                .map(|(name, text)| TraceField { name, value: FieldValue::Text(text.into()) })
                .collect();
            let ret = call.value.map(|value| ("ret", FieldValue::Signed(value)));
            let duration = call.duration.map(|time| ("duration", FieldValue::Unsigned(time)));
            let rest = [ret, duration].into_iter().flatten();
            fields.extend(rest.map(|(name, value)| TraceField { name, value }));
            of(&call.name, &fields);
        }
        ThreadAction::Fault { address, .. } => {
            let value = FieldValue::Address(*address);
            of("page-fault", &[TraceField { name: "address", value }]);
        }
        _ => {}
    }
}

fn has_stacks(head: &[u8]) -> bool {
    let mut lines = first_lines(head).skip_while(|line| call(line).is_none());
    lines.next().is_some() && lines.take(200).any(|line| frame(line).is_some())
}

/// Reads calls without stacks, by thread and error.
fn without_stacks(input: Head, options: &Options) -> Reading {
    let mut calls = ThreadCalls {
        out: Collector::new(ValueType::samples()),
        with_times: options.detail == Detail::Samples,
        last: 0,
        took: 0,
    };
    let values = vec![ValueType::new("time", "ns"), ValueType::new("calls", "count")];
    calls.out.profile = Profile::new(values);
    let warnings = strace_events(input, &mut |event| calls.event(event));
    let mut profile = calls.out.profile;
    if calls.took == 0 {
        profile.shown = 1;
        profile.keep_shown();
    }
    Reading::new(profile, warnings)
}

struct ThreadCalls {
    out: Collector,
    /// True if samples keep their times.
    with_times: bool,
    /// The last time in the text.
    last: u64,
    /// Total duration of all calls.
    took: u64,
}

impl ThreadCalls {
    fn event(&mut self, event: ThreadEvent) {
        let ThreadAction::Call(call) = event.action else {
            self.last = self.last.max(event.time);
            return;
        };
        let known = call.duration.unwrap_or(0);
        self.last = self.last.max(event.time.saturating_add(known));
        let took = match event.time {
            // The duration of an unfinished call is only known relative to the times of other calls.
            begun @ 1.. if call.unfinished && self.took > 0 => self.last.saturating_sub(begun),
            _ => known,
        };
        self.took = self.took.saturating_add(took);
        self.out.frame(&call.name, "", FrameKind::Kernel);
        if let Some(error) = &call.error {
            self.out.remark(&format!("[{error}]"));
        }
        if call.unfinished {
            self.out.remark("[unfinished]");
        }
        let stack = self.out.profile.stacks.intern_path(self.out.frames.drain(..));
        let thread = self.thread(event.thread, &event.thread_name);
        let time = (self.with_times && event.time > 0).then_some(event.time);
        self.out.profile.push(Sample { thread, time, ..Sample::new(stack) }, &[took, 1]);
    }

    fn thread(&mut self, number: i32, name: &str) -> ThreadId {
        match (number, name) {
            (0, "") => ThreadId::UNKNOWN,
            (0, name) => self.out.thread(name, None, None),
            // Without `-Y` there are only IDs.
            (number, "") => self.out.thread(&number.to_string(), Some(number), Some(number)),
            (number, name) => self.out.thread(name, Some(number), Some(number)),
        }
    }
}

/// Ends a stack. Calls without a stack, such as unfinished ones, are left out.
fn finish(out: &mut Collector) {
    if out.depth() > 1 {
        out.end_leaf_first(ThreadId::UNKNOWN, 1);
    }
    out.discard();
}

/// Returns the name of a call, which follows the process ID and the time.
fn call(line: &str) -> Option<&str> {
    if let Some((_, rest)) = line.split_once("<... ") {
        return rest.split_once(" resumed>").map(|(name, _)| name);
    }
    let name = line.split_once('(')?.0.rsplit(' ').next()?;
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    (is_name(name) && (line.contains(" = ") || line.contains("<unfinished"))).then_some(name)
}

/// Parses module, symbol and address in ` > /opt/app(main+0x55) [0x1239]`.
fn frame(line: &str) -> Option<(&str, &str, u64)> {
    let (place, address) = line.strip_prefix(" > ")?.strip_suffix(']')?.rsplit_once(" [0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (module, symbol) = match place.strip_suffix(')') {
        // A C++ symbol may contain brackets.
        Some(place) => place.split_once('(')?,
        None => (place, ""),
    };
    Some((module, without_offset(symbol), address))
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, write_folded};

    /// The names of the values, and folded text with all of them.
    fn check(text: &str, names: &[&str], expect: &str) {
        let head = Input::bytes("strace.txt", text.as_bytes()).begin().expect("bytes");
        assert!(Strace.detect(head.bytes()), "{text}");
        let profile = Strace.read(head, &Options::default()).expect("strace's text").profile;
        assert_eq!(profile.check(), Ok(()));
        let found: Vec<&str> = profile.value_types.iter().map(|of| &of.name[..]).collect();
        assert_eq!(found, names);
        let mut folded = Vec::new();
        write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut folded)
            .expect("to memory");
        assert_eq!(String::from_utf8_lossy(&folded), expect);
    }

    #[test]
    fn calls_without_stacks_are_their_threads() {
        check(
            "7<sh> 10.000001 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3</a> <0.000100>\n\
             7<sh> 10.000200 openat(AT_FDCWD, \"/b\", O_RDONLY) = -1 ENOENT (No such file) <0.000020>\n\
             8<ls> 10.000300 read(0,  <unfinished ...>\n\
             7<sh> 10.000310 openat(AT_FDCWD, \"/c\", O_RDONLY) = 4 <0.000003>\n\
             8<ls> 10.000350 <... read resumed>\"x\", 1) = 1 <0.000051>\n\
             8<ls> 10.000400 wait4(-1,  <unfinished ...>\n\
             7<sh> 10.000500 +++ exited with 0 +++\n",
            &["time", "calls"],
            "ls;read 51000 1\nls;wait4;[unfinished] 100000 1\nsh;openat 103000 2\n\
             sh;openat;[ENOENT] 20000 1\n",
        );
    }

    #[test]
    fn calls_and_events_have_their_fields() {
        let text = "7<sh> 10.000001 uprobe:./app:handle:17(p=0x4040 name=\"a b\" len=5)\n\
                    7<sh> 10.000200 read(0, \"x\", 1) = 1 <0.000051>\n\
                    7<sh> 10.000300 page fault (minor) at main+0x1 of 0x2000 in heap\n";
        let head = Input::bytes("trace.txt", text.as_bytes()).begin().expect("bytes");
        assert!(Strace.detect(head.bytes()));
        let mut seen = Vec::new();
        let warnings = Strace.events(head, &mut |event| {
            let fields = event.fields.iter().map(|of| format!("{}={}", of.name, of.value));
            let fields = fields.collect::<Vec<_>>().join(" ");
            seen.push(format!("{} {:?} {:?} {fields}", event.name, event.time, event.tid));
        });
        assert!(warnings.expect("single events").is_empty());
        assert_eq!(
            seen,
            [
                "uprobe:./app:handle:17 Some(10000001000) Some(7) p=0x4040 name=a b len=5",
                "read Some(10000200000) Some(7) ret=1 duration=51000",
                "page-fault Some(10000300000) Some(7) address=0x2000",
            ]
        );
    }

    #[test]
    fn without_times_calls_are_counted() {
        check(
            "getpid() = 7\ngetpid() = 7\nclose(9) = -1 EBADF (Bad file descriptor)\n+++ exited with 0 +++\n",
            &["calls"],
            "close;[EBADF] 1\ngetpid 2\n",
        );
        check("4711 getpid() = 7\n", &["calls"], "4711;getpid 1\n");
    }
}
