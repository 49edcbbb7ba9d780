//! Reader of the output of Android's `simpleperf report-sample --show-callchain`, as text and, with `--protobuf`, [in
//! binary](report).
//!
//! ```text
//! sample:
//!   event_type: cpu-cycles
//!   time: 23637646930905
//!   event_count: 1516131
//!   thread_id: 9606
//!   thread_name: main thread
//!   vaddr_in_file: 40c0d3
//!   file: /system/lib64/libart.so
//!   symbol: art::Thread::Run()
//!   callchain:
//!     vaddr_in_file: 8ea50
//!     file: [kernel.kallsyms]
//!     symbol: vfs_read
//!     execution_type: jit_jvm_method
//! ```
//!
//! `report_sample.py` prints the same data as [text with other columns](script).
//!
//! - The sample's own frame is the leaf; the callchain continues from there towards the root.
//! - The value is `event_count`, in nanoseconds for clock events.
//! - `execution_type` is printed for Java code: interpreted, or compiled at run time or before.
//! - Frames without a symbol show `unknown` or `name[+offset]`.
//! - A stack that simpleperf reports as not fully unwound begins with `[truncated]`.
//!
//! Source: `cmd_report_sample.cpp` of simpleperf.

mod report;
mod script;

use std::borrow::Cow;
use std::collections::BTreeMap;

use pyrograph_profile::{FrameKind, Marker, Sample, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address};
use crate::input::Head;
use crate::names::module_kind;
use crate::reader::{Count, Detail, Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of simpleperf reports.
pub struct Simpleperf;

impl Reader for Simpleperf {
    fn name(&self) -> &'static str {
        "simpleperf"
    }

    fn written_by(&self) -> &'static str {
        "simpleperf report-sample --show-callchain [--protobuf], report_sample.py"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if report::begins(head) || script::begins(head) {
            return true;
        }
        let mut lines = first_lines(head).skip_while(|line| *line != "sample:");
        lines
            .nth(1)
            .is_some_and(|line| line.starts_with("  event_type:") || line.starts_with("  time:"))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let (event, other_events) = (options.event.clone(), BTreeMap::new());
        let mut state = State { options, event, out: None, other_events };
        if report::begins(input.bytes()) {
            let (bytes, mut warnings) = input.into_bytes();
            report::read(&bytes, &mut warnings, |sample| state.add(sample));
            return Ok(state.finish(warnings));
        }
        let is_script = script::begins(input.bytes());
        let mut lines = Lines::new(input);
        let mut sample: Option<SampleText<'_>> = None;
        let mut line = String::new();
        while is_script && lines.next(&mut line) {
            if let Some(next) = script::header(&line) {
                state.end(&mut sample);
                sample = Some(next);
            } else if let (Some(sample), Some(frame)) = (&mut sample, script::frame(&line)) {
                sample.frames.push(frame);
            } else if !line.trim().is_empty() {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        while lines.next(&mut line) {
            if let (true, Some(sample)) = (line.starts_with(' '), &mut sample) {
                if !sample.line(line.trim()) {
                    lines.warn(WarningKind::UnreadableLine);
                }
                continue;
            }
            state.end(&mut sample);
            sample = (line.trim_end() == "sample:").then(SampleText::default);
        }
        state.end(&mut sample);
        Ok(state.finish(lines.warnings))
    }
}

/// A sample of the report.
#[derive(Default)]
struct SampleText<'a> {
    event: Cow<'a, str>,
    time: Option<u64>,
    count: Option<u64>,
    pid: Option<i32>,
    tid: Option<i32>,
    comm: Cow<'a, str>,
    /// Frames, leaf first.
    frames: Vec<FrameText<'a>>,
    /// True if the outer part of the stack is missing.
    is_cut: bool,
}

#[derive(Default)]
struct FrameText<'a> {
    address: u64,
    file: Cow<'a, str>,
    symbol: Cow<'a, str>,
    kind: Option<FrameKind>,
}

impl SampleText<'_> {
    /// Parses `name: value`; returns `false` for other lines.
    fn line(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.split_once(':') else { return false };
        let value = value.trim();
        match name {
            "event_type" => self.event = Cow::Owned(value.to_owned()),
            "time" => self.time = value.parse().ok(),
            "event_count" => self.count = value.parse().ok(),
            "thread_id" => self.tid = value.parse().ok(),
            "thread_name" => self.comm = Cow::Owned(value.to_owned()),
            "vaddr_in_file" => {
                let address = hex_address(&format!("0x{value}")).unwrap_or(0);
                self.frames.push(FrameText { address, ..FrameText::default() });
            }
            "file" | "symbol" | "execution_type" => {
                let Some(frame) = self.frames.last_mut() else { return false };
                match name {
                    "file" => frame.file = Cow::Owned(value.to_owned()),
                    "symbol" => frame.symbol = Cow::Owned(value.to_owned()),
                    _ => frame.kind = execution(value),
                }
            }
            // Fields of newer versions, such as the reason why unwinding ended.
            _ => {}
        }
        true
    }
}

/// Maps an execution type to a kind of Java frame; `None` for other types, whose kind follows from the file.
fn execution(word: &str) -> Option<FrameKind> {
    match word {
        "jit_jvm_method" => Some(FrameKind::Jit),
        "interpreted_jvm_method" => Some(FrameKind::Interpreted),
        _ => None,
    }
}

struct State<'a> {
    options: &'a Options,
    /// The event that is counted, once known.
    event: Option<String>,
    out: Option<Collector>,
    other_events: BTreeMap<String, u64>,
}

impl State<'_> {
    /// Adds the sample that has ended, if there is one.
    fn end(&mut self, sample: &mut Option<SampleText<'_>>) {
        if let Some(sample) = sample.take() {
            self.add(sample);
        }
    }

    fn finish(self, warnings: Warnings) -> Reading {
        let out = self.out.unwrap_or_else(|| Collector::new(ValueType::samples()));
        let mut reading = out.reading(warnings);
        reading.event = self.event.filter(|event| !event.is_empty());
        reading.other_events = self.other_events;
        reading
    }

    fn add(&mut self, sample: SampleText<'_>) {
        let event = self.event.get_or_insert_with(|| sample.event.clone().into_owned());
        let is_wanted = sample.event == *event
            || sample.event.strip_prefix(event.as_str()).is_some_and(|rest| rest.starts_with(':'));
        if !is_wanted {
            *self.other_events.entry(sample.event.into_owned()).or_default() += 1;
            return;
        }
        let counted = self.options.count == Count::Period;
        let out = self.out.get_or_insert_with(|| {
            let unit = match event.split(':').next() {
                _ if !counted => ValueType::samples(),
                Some("cpu-clock" | "task-clock") => ValueType::new("cpu", "ns"),
                Some("sched") => ValueType::samples(),
                _ => ValueType::new(event, "count"),
            };
            Collector::new(unit).addresses(self.options)
        });
        for frame in &sample.frames {
            frame.push(out);
        }
        if sample.is_cut {
            out.marker(Marker::Truncated);
        }
        let (pid, tid) = self.options.threads.numbers(sample.pid, sample.tid);
        let thread = out.thread(&sample.comm, pid, tid);
        let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
        let time = sample.time.filter(|_| self.options.detail == Detail::Samples);
        let value = if counted { sample.count.unwrap_or(1) } else { 1 };
        out.profile.push(Sample { thread, time, ..Sample::new(stack) }, &[value]);
    }
}

impl FrameText<'_> {
    fn push(&self, out: &mut Collector) {
        let kind = self.kind.unwrap_or_else(|| module_kind(&self.file));
        // `libart.so[+8ea50]`
        let is_offset = self.symbol.ends_with(']') && self.symbol.contains("[+");
        if is_offset || matches!(&*self.symbol, "" | "unknown") {
            return out.unknown(self.address, &self.file, kind);
        }
        out.symbol(&self.symbol, &self.file, kind);
    }
}
