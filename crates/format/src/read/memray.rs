//! Reader of the output of `memray transform csv`; memray is a memory profiler of Python.
//!
//! ```text
//! allocator,num_allocations,size,tid,thread_name,stack_trace
//! MALLOC,1,710,1,0x1,_parse_args;/usr/lib/python3.11/pathlib.py;503|__new__;/usr/lib/python3.11/pathlib.py;872
//! ```
//!
//! Source: `memray/reporters/transform.py`. Frames are leaf first, each with function, file and line. Allocations are
//! those that were alive at the peak, or with `--leaks` and `--temporary-allocations` leaks and temporary ones.
//!
//! memray's own files (`.bin`) are not supported: their format is undocumented, changes with memray's versions, and
//! each version of memray rejects files of others.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, Thread, ValueType};

use super::csv_table::Table;
use super::rows::Rows;
use super::text::{Collector, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of memray CSV.
pub struct Memray;

const HEADING: &str = "allocator,num_allocations,size,tid,thread_name,stack_trace";

impl Reader for Memray {
    fn name(&self) -> &'static str {
        "memray"
    }

    fn written_by(&self) -> &'static str {
        "memray transform csv"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).next().is_some_and(is_heading)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let Some(mut table) = Table::open(input, b',', is_heading) else {
            let reason = "it has no heading of memray's".to_owned();
            return Err(ReadError::Malformed { name, reason });
        };
        let types = vec![ValueType::new("allocations", "count"), ValueType::new("memory", "bytes")];
        let mut out = Collector::new(ValueType::samples());
        out.profile = Profile { shown: 1, ..Profile::new(types) };
        let mut rows = Rows::new(options, 2);
        while table.next() {
            let number = |column| table.text(column).parse::<u64>().ok();
            let (Some(count), Some(size)) = (number(1), number(2)) else {
                table.warn(WarningKind::UnreadableLine);
                continue;
            };
            let tid = table.text(3).parse().ok();
            let thread = rows.thread(&mut out.profile, Thread { tid, ..Thread::default() });
            for call in table.text(5).split('|').filter(|call| !call.is_empty()) {
                frame(&mut out, call);
            }
            if out.depth() == 0 {
                // No Python code was running.
                out.push_frame(Frame::default());
            }
            let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
            rows.push(Sample { thread, ..Sample::new(stack) }, &[count, size]);
        }
        rows.finish(&mut out.profile);
        Ok(out.reading(table.into_warnings()))
    }
}

fn is_heading(line: &str) -> bool {
    line == HEADING
}

/// Adds the frame `_parse_args;/usr/lib/python3.11/pathlib.py;503`.
fn frame(out: &mut Collector, call: &str) {
    let mut parts = call.rsplitn(3, ';');
    let (line, file, name) = (parts.next(), parts.next(), parts.next());
    let (name, file, line) = match name {
        Some(name) => (name, file.unwrap_or_default(), line.unwrap_or_default()),
        None => (call, "", ""),
    };
    let (function, file) = (out.intern(name), out.intern(file));
    let line = line.parse().unwrap_or(0);
    let named = Frame::named(function, FrameKind::Interpreted);
    out.push_frame(Frame { file, module: file, line, ..named });
}
