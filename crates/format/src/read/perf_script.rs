//! Reader of the text output of `perf script`, in all forms that perf versions have printed.
//!
//! A sample is a header line, its frames (leaf first), and a blank line:
//!
//! ```text
//! perf   977/977   [000] 7628263.042515: cycles:
//!         ffffffff8104f45a native_write_msr_safe ([kernel.kallsyms])
//!             7f183b22aec7 __GI___ioctl (/lib/x86_64-linux-gnu/libc-2.19.so)
//!                   415ad5 [unknown] (/usr/lib/linux-tools-3.13.0-44/perf)
//!
//! ```
//!
//! Without callchains, a sample is one line, with no blank line after it. See [`header`] and [`frame`] for the forms
//! of the lines.
//!
//! The reader is fast because profiles are repetitive. All frames of a sample are looked up as one block of bytes in
//! a cache of earlier blocks, and are parsed only if the block is new; then each function is looked up before its
//! name is parsed. The input is cut between samples, and the chunks are parsed by as many threads as there are CPUs.
//! The results are joined in the order of the input, so that the profile is the same for any number of threads.

pub(super) mod arguments;
mod events;
mod functions;
mod header;
mod join;
mod sched;
mod worker;

pub use sched::PerfSched;

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use header::Layout;
use worker::{Part, Worker};

use pyrograph_profile::TraceEvent;

use crate::chunks::Chunks;
use crate::input::Head;
use crate::perf_frame as frame;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::Warnings;

/// Reader of `perf script` text.
pub struct PerfScript;

impl Reader for PerfScript {
    fn name(&self) -> &'static str {
        "perf script"
    }

    fn written_by(&self) -> &'static str {
        "perf script"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if memchr::memchr(0, head).is_some() {
            return false;
        }
        let mut lines = head.split(|&byte| byte == b'\n').take(2000).peekable();
        let mut first = true;
        while let Some(line) = lines.next() {
            let line = line.trim_ascii_end();
            let next = lines.peek().copied().unwrap_or_default();
            if line.starts_with(b"\t") && frame::parse(line).is_some() {
                return true;
            }
            // Samples without a stack are consecutive single lines. After other leading text, such a line counts as a
            // sample only if frames follow.
            if header::is_certain(line) && (first || frame::parse(next).is_some()) {
                return true;
            }
            first &= line.is_empty() || line.starts_with(b"#");
            if !line.is_empty()
                && !line.starts_with(b"#")
                && next.starts_with(b"\t")
                && frame::parse(next).is_some()
            {
                return header::parse_weak(line, Layout::default()).is_some();
            }
        }
        false
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let workers = match options.workers {
            _ if input.is_whole() => 1,
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            workers => workers,
        };
        let layout = Layout::of(input.bytes());
        let chunks = Chunks::new(input.into_stream(), last_cut);
        Ok(read_chunks(chunks, layout, workers, &name, options))
    }

    fn reads_each_event(&self) -> bool {
        true
    }

    fn events(
        &self,
        input: Head,
        on_event: &mut dyn FnMut(&TraceEvent<'_>),
    ) -> Result<Warnings, ReadError> {
        Ok(events::events(input, on_event))
    }
}

/// Parses the chunks with `workers` threads.
fn read_chunks(
    chunks: Chunks,
    layout: Layout,
    workers: usize,
    name: &str,
    options: &Options,
) -> Reading {
    let work = || Worker::new(options, layout).run(&chunks);
    let parts: Vec<Part> = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut parts = vec![work()];
        parts.extend(
            others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))),
        );
        parts
    });
    join::join(parts, name, chunks.into_error(), options)
}

/// Returns the last position in `text` at which one sample ends and the next may begin.
fn last_cut(text: &[u8]) -> Option<usize> {
    // There is nearly always a boundary near the end.
    const NEAR: usize = 64 << 10;
    let near = text.len().saturating_sub(NEAR);
    last_cut_in(&text[near..]).map(|at| near + at).or_else(|| last_cut_in(text))
}

/// Returns the end of the last blank line. Without a blank line (samples that are single lines), returns the start of
/// the last complete header line.
fn last_cut_in(text: &[u8]) -> Option<usize> {
    let mut header_at = None;
    let mut end = memchr::memrchr(b'\n', text)?;
    loop {
        let start = memchr::memrchr(b'\n', &text[..end])? + 1;
        let line = text[start..end].strip_suffix(b"\r").unwrap_or(&text[start..end]);
        if line.is_empty() {
            return Some(end + 1);
        }
        // A line without indentation may be a whole sample.
        if header_at.is_none() && !line.starts_with(b"\t") && header::is_certain(line) {
            header_at = Some(start);
            // A second header line without a blank line in between shows that there are no blank lines.
        } else if let Some(at) = header_at
            && !line.starts_with(b"\t")
            && header::is_certain(line)
        {
            return Some(at);
        }
        end = start - 1;
    }
}

#[cfg(test)]
mod tests;
