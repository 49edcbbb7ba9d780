//! What macOS's `sample` prints: a tree of callees for each thread.
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
//! - How far an entry is indented tells its depth; of the signs in front of it (`+!:|`) each only
//!   leads the eye.
//! - Values are samples. The threads' own lines are the threads.
//! - `???` is a function without a symbol: its module is shown.

use pyrograph_profile::{Frame, FrameId, FrameKind, ThreadId, ValueType};

use super::call_tree::{CallTree, Direction};
use super::text::{Collector, Lines};
use super::{Options, ReadError, Reader, Reading};
use crate::Head;
use crate::byte_cache::ByteCache;
use crate::bytes;
use crate::warnings::WarningKind;

/// See the module.
pub struct MacosSample;

/// Bytes of calls that are remembered.
const KNOWN: usize = 16 << 20;

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
        let mut known: ByteCache<FrameId> = ByteCache::new(KNOWN);
        while let Some(line) = lines.next_line() {
            if !within && line.starts_with("Call graph:") {
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
                let name = call.split("   ").next().unwrap_or(call).trim();
                thread = collector.thread_named(name);
                tree.enter(&mut collector, thread, indent, None, count);
                continue;
            }
            let call = without_address(call);
            let hash = known.hash(call.as_bytes());
            let frame = known.get(hash, call.as_bytes()).unwrap_or_else(|| {
                let frame = frame(&mut collector, call);
                let frame = collector.profile.frames.intern(frame);
                known.insert(hash, call.as_bytes(), frame);
                frame
            });
            tree.enter(&mut collector, thread, indent, Some(frame), count);
        }
        tree.finish(&mut collector, thread);
        Ok(collector.reading(lines.warnings))
    }
}

/// Indent, count and the rest.
fn entry(line: &str) -> Option<(usize, u64, &str)> {
    let indent = indent(line.as_bytes());
    let digits = bytes::find(&line.as_bytes()[indent..], 0, b' ');
    let (count, rest) = line.split_at(indent).1.split_at_checked(digits)?;
    Some((indent, bytes::decimal(count.as_bytes())?, rest.strip_prefix(' ')?))
}

/// How many signs that only lead the eye a line begins with: mostly more than half of it.
fn indent(line: &[u8]) -> usize {
    let is_sign = |byte: &u8| matches!(byte, b' ' | b'+' | b'!' | b':' | b'|');
    // All of a block are compared with all signs, so that it is a few steps of the machine.
    let is_all_signs = |block: &&[u8; 16]| {
        block.iter().fold(true, |all, &byte| {
            let is_mark = (byte == b'+') | (byte == b'!') | (byte == b':') | (byte == b'|');
            all & ((byte == b' ') | is_mark)
        })
    };
    let blocks = line.as_chunks::<16>().0.iter().take_while(is_all_signs);
    let whole = 16 * blocks.count();
    whole + line[whole..].iter().take_while(|byte| is_sign(byte)).count()
}

/// Without the address at the end, and the offset before it: other places in a function are the same
/// frame. With a place in the source behind them, they stay.
fn without_address(call: &str) -> &str {
    let end = if call.ends_with(']') {
        call.as_bytes().iter().rposition(|&byte| byte == b'+')
    } else {
        None
    };
    end.map_or(call, |end| &call[..end])
}

fn frame(collector: &mut Collector, call: &str) -> Frame {
    let (function, rest) = call.split_once("  (in ").unwrap_or((call, ""));
    let (module, rest) = rest.split_once(')').unwrap_or((rest, ""));
    let function = function.trim();
    let function = if function == "???" { "" } else { function };
    // The place in the source, where debug information was found, is the last word.
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
