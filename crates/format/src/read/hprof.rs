//! Reader of the text of `hprof`, the profiler that came with Java up to version 8 (`java -agentlib:hprof=cpu=samples`).
//!
//! ```text
//! JAVA PROFILE 1.0.1, created Mon Aug  4 22:22:24 2008
//! THREAD START (obj=50000164, id = 200001, name="main", group="main")
//! TRACE 300027: (thread=200001)
//!     Shop.price(Shop.java:12)                               behind a tab
//!     Shop.main(Shop.java:Unknown line)
//! CPU SAMPLES BEGIN (total = 478) Mon Aug  4 22:25:01 2008
//! rank   self  accum   count trace method
//!    1 44.14% 44.14%     211 300027 Shop.price
//! CPU SAMPLES END
//! SITES BEGIN (ordered by live bytes) Mon Aug  4 22:25:01 2008
//!           percent          live          alloc'ed  stack class
//!  rank   self  accum     bytes objs     bytes  objs trace name
//!     1 44.73% 44.73%   1161280 14516  1161280 14516 302032 char[]
//! SITES END
//! ```
//!
//! Source: the explanation at the beginning of each such file.
//!
//! - `CPU SAMPLES` are samples, `CPU TIME (ms)` and `MONITOR TIME (ms)` shares of their total; `SITES` are live and
//!   allocated bytes and objects. Each is a value. Of several tables of one kind, which a program dumps on demand, the last
//!   counts: it includes the others.
//! - Frames are leaf first. `depth`, 4 unless it is set, limits their number.
//! - The dump of the heap's objects is left out.

use std::collections::BTreeMap;

use pyrograph_profile::{Profile, Sample, StackId, Thread, ValueType};

use super::java;
use super::rows::Rows;
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of hprof text.
pub struct Hprof;

impl Reader for Hprof {
    fn name(&self) -> &'static str {
        "hprof"
    }

    fn written_by(&self) -> &'static str {
        "java -agentlib:hprof=cpu=samples (Java 8 and older)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.starts_with(b"JAVA PROFILE 1.0") && memchr::memchr(0, head).is_none()
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut file = File::default();
        let mut line = String::new();
        while lines.next(&mut line) {
            if !file.line(&line) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if file.tables.is_empty() {
            let reason = "it has no table of hprof (cpu=samples, cpu=times, heap=sites)".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        let mut warnings = lines.warnings;
        if file.table.is_some() {
            let cause = "the last table has no end".to_owned();
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        let most = file.traces.values().map(|trace| trace.depth).max().unwrap_or(0);
        if file.traces.values().filter(|trace| trace.depth == most).count() > 1 {
            let said = format!(
                "stacks have {most} frames at most, what called these is not in them (hprof's depth={most})"
            );
            warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        for (kind, left) in &file.left_out {
            let said = format!("{left} of {kind} are in no row of the table (hprof's cutoff)");
            warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        Ok(Reading::new(file.build(options), warnings))
    }
}

/// The tables, by their titles, and the columns of each that are values.
const TABLES: &[(&str, Kind)] = &[
    ("CPU SAMPLES", Kind::Samples),
    ("CPU TIME (ms)", Kind::Time),
    ("MONITOR TIME (ms)", Kind::Monitors),
    ("SITES", Kind::Sites),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Samples,
    Time,
    Monitors,
    Sites,
}

impl Kind {
    fn value_types(self) -> Vec<ValueType> {
        match self {
            Self::Samples => vec![ValueType::samples()],
            Self::Time => vec![ValueType::new("cpu", "ns")],
            Self::Monitors => vec![ValueType::new("lock", "ns")],
            Self::Sites => vec![
                ValueType::new("live", "bytes"),
                ValueType::new("live objects", "count"),
                ValueType::new("alloc", "bytes"),
                ValueType::new("alloc objects", "count"),
            ],
        }
    }
}

/// A table that is read, and its total.
#[derive(Clone, Copy)]
struct Table {
    kind: Kind,
    total: u64,
}

#[derive(Default)]
struct File {
    threads: BTreeMap<u64, String>,
    traces: BTreeMap<u64, Trace>,
    /// Values by the number of the trace.
    tables: BTreeMap<Kind, Vec<(u64, Vec<u64>)>>,
    table: Option<Table>,
    /// Trace whose frames follow.
    trace: Option<u64>,
    collector: Option<Collector>,
    /// Part of a table's total that is in none of its rows, by the table's title.
    left_out: BTreeMap<&'static str, String>,
    is_heap_dump: bool,
}

#[derive(Default)]
struct Trace {
    stack: StackId,
    depth: usize,
    thread: Option<u64>,
}

impl File {
    /// Returns false if the line cannot be read.
    fn line(&mut self, line: &str) -> bool {
        if let Some(frame) = line.strip_prefix('\t').filter(|_| self.trace.is_some()) {
            return self.frame(frame);
        }
        self.end_of_trace();
        if line.starts_with("HEAP DUMP ") {
            self.is_heap_dump = line.contains(" BEGIN");
            return true;
        }
        if let Some(rest) = line.strip_prefix("TRACE ") {
            return self.begin_trace(rest);
        }
        if let Some(rest) = line.strip_prefix("THREAD START (") {
            let id = between(rest, "id = ", ",").and_then(|id| id.parse().ok());
            let name = between(rest, "name=\"", "\"").unwrap_or_default();
            return id.map(|id| self.threads.insert(id, name.to_owned())).is_some();
        }
        if let Some((title, rest)) = line.split_once(" BEGIN (") {
            return self.begin_table(title, rest);
        }
        match self.table {
            Some(table) if line.ends_with(" END") => self.end_of_table(table),
            Some(table) => return self.row(table, line),
            // What precedes the traces is an explanation.
            None => {}
        }
        true
    }

    fn begin_trace(&mut self, rest: &str) -> bool {
        let Some((number, rest)) = rest.split_once(':') else {
            // A line of the explanation.
            return true;
        };
        let Ok(number) = number.parse() else { return false };
        self.trace = Some(number);
        let thread = between(rest, "thread=", ")").and_then(|id| id.parse().ok());
        self.traces.insert(number, Trace { thread, ..Trace::default() });
        true
    }

    fn collector(&mut self) -> &mut Collector {
        self.collector.get_or_insert_with(|| Collector::new(ValueType::samples()))
    }

    fn frame(&mut self, text: &str) -> bool {
        // A thread that runs no Java code.
        text == "<empty>" || java::push_call(self.collector(), text.trim())
    }

    fn end_of_trace(&mut self) {
        let Some(number) = self.trace.take() else { return };
        let collector = self.collector();
        let frames = std::mem::take(&mut collector.frames);
        let stack = collector.profile.stacks.intern_path(frames.iter().rev().copied());
        if let Some(trace) = self.traces.get_mut(&number) {
            (trace.stack, trace.depth) = (stack, frames.len());
        }
    }

    fn begin_table(&mut self, title: &str, rest: &str) -> bool {
        let Some((_, kind)) = TABLES.iter().find(|(known, _)| *known == title) else {
            return self.is_heap_dump;
        };
        let total = between(rest, "total = ", ")").and_then(|total| total.parse().ok());
        self.table = Some(Table { kind: *kind, total: total.unwrap_or(0) });
        self.tables.insert(*kind, Vec::new());
        true
    }

    fn end_of_table(&mut self, Table { kind, total }: Table) {
        self.table = None;
        let rows = self.tables.get(&kind).into_iter().flatten();
        let sum: u64 = rows.filter_map(|(_, values)| values.first()).sum();
        let mut of = |title, left: Option<String>| match left {
            Some(left) => self.left_out.insert(title, left),
            None => self.left_out.remove(title),
        };
        match kind {
            Kind::Samples => {
                let left = total.saturating_sub(sum);
                of("CPU SAMPLES", (left > 0).then(|| format!("{left} of {total}")));
            }
            Kind::Time => {
                let left = total.saturating_sub(sum / 1_000_000);
                of("CPU TIME", (left * 100 > total).then(|| format!("{left} of {total} ms")));
            }
            Kind::Monitors | Kind::Sites => {}
        }
    }

    fn row(&mut self, Table { kind, total }: Table, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The headings.
        if matches!(words[..], ["rank" | "percent", ..] | []) {
            return true;
        }
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        // As the locale has it, with a point or a comma.
        let share = || words.get(1)?.strip_suffix('%')?.replace(',', ".").parse::<f64>().ok();
        let row = || match kind {
            Kind::Samples => Some((number(4)?, vec![number(3)?])),
            Kind::Time | Kind::Monitors => {
                // Milliseconds, by a share in hundredths of a per cent.
                let time = (share()? * total as f64 * 1e4).round();
                Some((number(4)?, vec![time as u64]))
            }
            Kind::Sites => {
                Some((number(7)?, [3, 4, 5, 6].into_iter().filter_map(number).collect()))
            }
        };
        let columns = kind.value_types().len();
        let Some(row) = row().filter(|(_, values)| values.len() == columns) else { return false };
        self.tables.entry(kind).or_default().push(row);
        true
    }

    fn build(mut self, options: &Options) -> Profile {
        self.end_of_trace();
        let types: Vec<ValueType> =
            self.tables.keys().flat_map(|kind| kind.value_types()).collect();
        let collected = self.collector.unwrap_or_else(|| Collector::new(ValueType::samples()));
        let Profile { strings, frames, stacks, .. } = collected.profile;
        let mut profile = Profile { strings, frames, stacks, ..Profile::new(types.clone()) };
        let mut rows = Rows::new(options, types.len());
        let mut values = vec![0; types.len()];
        let mut first = 0;
        for (kind, table) in self.tables {
            let columns = kind.value_types().len();
            for (number, row) in table {
                let unknown = Trace::default();
                let trace = self.traces.get(&number).unwrap_or(&unknown);
                let name = trace.thread.and_then(|id| self.threads.get(&id));
                let process = profile.strings.intern(name.map_or("", String::as_str));
                let thread = rows.thread(&mut profile, Thread { process, ..Thread::default() });
                values.fill(0);
                values[first..first + columns].copy_from_slice(&row);
                rows.push(Sample { thread, ..Sample::new(trace.stack) }, &values);
            }
            first += columns;
        }
        rows.finish(&mut profile);
        profile
    }
}

/// Text between two words.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}
