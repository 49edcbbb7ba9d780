//! Reader of the output of macOS's `sample`: a tree of callees for each thread.
//!
//! ```text
//! Analysis of sampling app (pid 123) every 1 millisecond
//! Call graph:
//!     2728 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
//!     + 2728 start  (in libdyld.dylib) + 1  [0x7fff6a1b2cc9]
//!     +   2728 main  (in app) + 52  [0x10000]  main.c:12
//!     +     ! 2000 work(int)  (in app) + 12,40,...  [0x1000a,0x10010,...]
//!     +       728 ???  (in app)  load address 0x100000000 + 0x1234  [0x100001234]
//!
//! Total number in stack (recursive counted multiple, when >=5):
//! ```
//!
//! - The indentation of an entry is its depth; the characters in front of it (`+!:|`) are only visual guides.
//! - Values are samples. The top-level entries are threads.
//! - `???` is a function without a symbol: its module is shown.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::call_tree::{CallTree, Direction};
use super::text::{Collector, Lines};
use crate::bytes;
use crate::callees::{Callees, Function};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of macOS `sample` text.
pub struct MacosSample;

impl Reader for MacosSample {
    fn name(&self) -> &'static str {
        "macOS sample"
    }

    fn written_by(&self) -> &'static str {
        "sample (macOS), Activity Monitor's Sample Process"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|&byte| byte == b'\n').take(200);
        let first = lines.next().unwrap_or_default();
        (first.starts_with(b"Analysis of sampling ") || first.starts_with(b"Sampling process "))
            && lines.any(|line| line.starts_with(b"Call graph:"))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut tree = CallTree::new(Direction::Callees);
        let mut thread = ThreadId::UNKNOWN;
        let mut within = false;
        let mut callees = Callees::new(16 << 20);
        // Indentation and function of the entries above the current one.
        let mut path: Vec<(usize, Function)> = Vec::new();
        while lines.advance() {
            let line = lines.bytes();
            if !within && line.starts_with(b"Call graph:") {
                within = true;
                continue;
            }
            if !within || line.trim_ascii_start().is_empty() {
                // An empty line ends the graph.
                within = false;
                continue;
            }
            let Some((indent, count, call)) = entry(line) else {
                lines.warn(WarningKind::UnreadableLine);
                continue;
            };
            if tree.is_root(indent) {
                tree.finish(&mut collector, thread);
                let call = String::from_utf8_lossy(call);
                let name = call.split("   ").next().unwrap_or(&call);
                thread = collector.thread_named(name.trim());
                tree.enter(&mut collector, thread, indent, None, count);
                continue;
            }
            let call = without_address(call);
            while path.last().is_some_and(|&(above, _)| above >= indent) {
                path.pop();
            }
            let caller = path.last().map_or(Function::NONE, |&(_, function)| function);
            let (function, frame) = callees.find_or_add(caller, call, b"", || {
                let frame = frame(&mut collector, &String::from_utf8_lossy(call));
                collector.profile.frames.intern(frame)
            });
            path.push((indent, function));
            tree.enter(&mut collector, thread, indent, Some(frame), count);
        }
        tree.finish(&mut collector, thread);
        Ok(collector.reading(lines.warnings))
    }
}

/// Splits a line into indentation, count and rest.
fn entry(line: &[u8]) -> Option<(usize, u64, &[u8])> {
    let indent = indent(line);
    let (count, rest) = line[indent..].split_at(bytes::find(&line[indent..], 0, b' '));
    Some((indent, bytes::decimal(count)?, rest.split_first()?.1))
}

/// Number of guide characters at the start of a line, which are mostly more than half of it.
fn indent(line: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let block = bytes::block(line, at);
        let signs = b" +!:|".iter().fold(0, |signs, &sign| signs | bytes::equal(block, sign));
        if signs != 0xffff {
            return at + signs.trailing_ones() as usize;
        }
        at += 16;
    }
}

/// Removes the address at the end, and the offset before it: other addresses in a function are the same frame. They
/// are kept if followed by a source position.
fn without_address(call: &[u8]) -> &[u8] {
    match call.last() {
        Some(b']') => memchr::memrchr(b'+', call).map_or(call, |end| &call[..end]),
        _ => call,
    }
}

fn frame(collector: &mut Collector, call: &str) -> Frame {
    let (function, rest) = call.split_once("  (in ").unwrap_or((call, ""));
    let (module, rest) = rest.split_once(')').unwrap_or((rest, ""));
    let function = function.trim();
    let function = if function == "???" { "" } else { function };
    // The source position, if there was debug information, is the last word.
    let place = rest.rsplit("  ").next().and_then(|place| place.rsplit_once(':'));
    let place = place.and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
    let (file, line) = place.unwrap_or(("", 0));
    Frame {
        module: collector.intern(module),
        file: collector.intern(file),
        line,
        ..Frame::named(collector.intern(function), FrameKind::User)
    }
}
