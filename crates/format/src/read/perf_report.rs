//! The output of `perf report --stdio`, with callchains in any of its forms.
//!
//! ```text
//! # Samples: 118  of event 'cpu-clock'
//! # Event count (approx.): 236472944
//! #
//! # Overhead       Samples  Command     Shared Object      Symbol
//! # ........  ............  ..........  .................  ....................
//! #
//!     18.64%            22  worker one  demo               [.] app::spin
//!             |
//!             ---start_thread
//!                loop
//!                app::spin
//! ```
//!
//! The dots say how wide each column is. The forms of callchains are those of [`chains`].
//!
//! **Values.** With a column of samples (`-n`) an entry counts its samples, otherwise its percentage,
//! kept to the two decimals that perf prints. Within an entry:
//!
//! - `-g …,count` prints samples: exact.
//! - `-g …,percent` and `-g …,period` print shares. With `-n` they are turned into samples so that the
//!   entry's sum is exact; one of its stacks may be off by one where perf's two decimals do not decide.
//! - `-g fractal` prints each share as one of all *callers* or *callees* of the function above. What ended
//!   in that function itself is not printed, and is counted in those below it.
//! - What perf left out because it was small (`-g …,0.5,…`) is counted in a frame `[not shown]`.
//!
//! **Order.** Nothing says whether chains begin with the caller or the callee. They end in the entry's
//! own symbol, or begin with it; where there is none, they begin or end where programs and the kernel
//! do (`main`, `start_thread`, `entry_SYSCALL_64_after_hwframe`), or, at last, at the side on which
//! they have more in common.
//!
//! **Children.** Without `--no-children`, perf prints each stack again for each of its functions. Then
//! only the entries that no other one calls are read, which is possible with callers first, as perf
//! prints by default.
//!
//! The frames have neither modules nor kinds: those from the kernel's entry on are the kernel's.
//! Several events are read one at a time, as of other formats.

mod chains;
mod entry;

use std::collections::BTreeMap;

use hashbrown::HashSet;
use pyrograph_profile::{FrameKind, ValueType};

use self::chains::Chains;
use self::entry::{Columns, Entry};
use super::text::{Collector, Lines, first_lines, is_kernel_entry};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// See the module.
pub struct PerfReport;

impl Reader for PerfReport {
    fn name(&self) -> &'static str {
        "perf report"
    }

    fn written_by(&self) -> &'static str {
        "perf report --stdio --no-children -n -g graph|fractal|flat|folded,0,caller,count"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut before = "";
        first_lines(head).take(2000).any(|line| {
            let found = Columns::parse(before, line).is_some();
            before = line;
            found
        })
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut reports = parse(&mut lines);
        reports.retain(|report| !report.entries.is_empty());
        let nothing =
            |reason: &str| ReadError::Nothing { name: name.clone(), reason: reason.into() };
        if reports.is_empty() {
            return Err(nothing("there are no entries in this report"));
        }
        let event = match options.event.as_deref() {
            Some(wanted) => wanted.to_owned(),
            None => reports[0].event.clone(),
        };
        let (chosen, others): (Vec<Report>, Vec<Report>) =
            reports.into_iter().partition(|report| is_event(&report.event, &event));
        let mut other_events = BTreeMap::<String, u64>::new();
        for other in others {
            let samples: u64 = other.entries.iter().map(|entry| entry.samples.unwrap_or(1)).sum();
            *other_events.entry(other.event).or_default() += samples;
        }
        let unit = chosen.first().map_or_else(ValueType::samples, Report::value_type);
        let mut out = Collector::new(unit).addresses(options);
        for report in chosen {
            if !report.add(&mut out) {
                return Err(nothing(
                    "each sample is in it once for each of its functions, callees first; \
                     --no-children or -g caller separates them",
                ));
            }
        }
        let mut reading = out.reading(lines.warnings);
        reading.event = Some(event).filter(|event| !event.is_empty());
        reading.other_events = other_events;
        Ok(reading)
    }
}

/// True if the event that a report names is the one that was asked for, with or without modifiers.
fn is_event(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(':'))
}

/// The entries of one event.
#[derive(Default)]
struct Report {
    event: String,
    columns: Columns,
    entries: Vec<Entry>,
}

fn parse(lines: &mut Lines) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    let mut event = String::new();
    let (mut line, mut before) = (String::new(), String::new());
    let mut chains = Chains::default();
    while lines.next(&mut line) {
        if line.starts_with('#') {
            if let Some(named) = event_name(&line) {
                event = named.to_owned();
            }
            if let Some(columns) = Columns::parse(&before, &line) {
                finish(&mut reports, &mut chains);
                let event = std::mem::take(&mut event);
                reports.push(Report { event, columns, entries: Vec::new() });
            }
            std::mem::swap(&mut line, &mut before);
            continue;
        }
        let Some(report) = reports.last_mut() else { continue };
        if line.trim().is_empty() {
            continue;
        }
        if let Some(entry) = report.columns.entry(&line) {
            finish(&mut reports, &mut chains);
            if let Some(report) = reports.last_mut() {
                report.entries.push(entry);
            }
        } else if report.entries.is_empty() || !chains.line(&line) {
            lines.warn(WarningKind::UnreadableLine);
        }
    }
    finish(&mut reports, &mut chains);
    reports
}

/// Gives the last entry the chains that were read after it.
fn finish(reports: &mut [Report], chains: &mut Chains) {
    if let Some(entry) = reports.last_mut().and_then(|report| report.entries.last_mut()) {
        entry.chains = std::mem::take(chains);
    }
}

/// Reads `# Samples: 118  of event 'cpu-clock'`, `# Samples: 1K of events 'cycles, instructions'`.
fn event_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Samples:")?;
    let (_, name) = rest.split_once(" of event")?;
    name.split('\'').nth(1)
}

impl Report {
    fn value_type(&self) -> ValueType {
        if self.columns.samples.is_some() || self.has_plain_numbers() {
            return ValueType::samples();
        }
        ValueType { decimals: 2, ..ValueType::new("samples", "percent") }
    }

    /// True if each stack has a number that is no percentage, so that no others are needed.
    fn has_plain_numbers(&self) -> bool {
        self.entries.iter().all(|entry| entry.chains.all_have_plain_numbers())
    }

    /// Adds all stacks; `false` if they cannot be separated.
    fn add(&self, out: &mut Collector) -> bool {
        let callers_first = self.callers_first();
        if self.columns.has_children && !callers_first {
            return false;
        }
        let called = if self.columns.has_children { self.called() } else { HashSet::new() };
        let fractal = self.entries.iter().any(|entry| entry.chains.is_fractal(entry.percent));
        let without_leaf = !callers_first
            && self.entries.iter().any(|entry| {
                !entry.symbol.is_empty()
                    && entry.chains.firsts().any(|first| !is_symbol(first, &entry.symbol))
            });
        let as_printed = self.columns.samples.is_none() && self.has_plain_numbers();
        for entry in &self.entries {
            if called.contains(&(entry.comm.as_str(), entry.symbol.as_str())) {
                continue;
            }
            let thread = out.thread(&entry.comm, entry.pid, None);
            for (path, value) in entry.stacks(fractal, as_printed) {
                let mut path: Vec<&str> = path.to_vec();
                if path.is_empty() {
                    path.push(&entry.symbol);
                } else if without_leaf && !entry.symbol.is_empty() && path != [entry::NOT_SHOWN] {
                    path.insert(0, &entry.symbol);
                }
                if !callers_first {
                    path.reverse();
                }
                push_path(out, &path, entry);
                out.end_root_first(thread, value);
            }
        }
        true
    }

    /// The callees of other entries, by thread: those are read with their callers.
    fn called(&self) -> HashSet<(&str, &str)> {
        let calls = |entry: &'_ Entry| -> Vec<(String, String)> {
            let frames = entry.chains.all_but_first();
            frames.map(|frame| (entry.comm.clone(), frame.to_owned())).collect()
        };
        let called: HashSet<(String, String)> = self.entries.iter().flat_map(calls).collect();
        let entries = self.entries.iter().map(|e| (e.comm.as_str(), e.symbol.as_str()));
        let is_called = |(comm, symbol): &(&str, &str)| {
            called.contains(&((*comm).to_owned(), (*symbol).to_owned()))
        };
        entries.filter(is_called).collect()
    }

    /// True if chains begin with the outermost caller; see the module.
    fn callers_first(&self) -> bool {
        let (mut first, mut last) = (0usize, 0usize);
        let (mut firsts, mut lasts) = (HashSet::new(), HashSet::new());
        for entry in &self.entries {
            for path in entry.chains.paths() {
                let (Some(&begin), Some(&end)) = (path.first(), path.last()) else { continue };
                if path.len() < 2 {
                    continue;
                }
                let symbol = (!self.columns.has_children && !entry.symbol.is_empty())
                    .then_some(entry.symbol.as_str());
                first += usize::from(symbol.is_some_and(|symbol| is_symbol(end, symbol)));
                last += usize::from(symbol.is_some_and(|symbol| is_symbol(begin, symbol)));
                first += usize::from(is_root(begin));
                last += usize::from(is_root(end));
                firsts.insert(begin);
                lasts.insert(end);
            }
        }
        if first == last { firsts.len() <= lasts.len() } else { first > last }
    }
}

/// Functions that stacks of programs begin with.
fn is_root(frame: &str) -> bool {
    const ROOTS: &[&str] = &[
        "_start",
        "main",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "thread_start",
        "_dl_start_user",
        "__restore_rt",
        "runtime.goexit",
    ];
    let name = without_version(frame.strip_suffix(" (inlined)").unwrap_or(frame));
    ROOTS.contains(&name) || name.starts_with("__libc_start_main") || is_kernel_entry(name)
}

fn without_version(symbol: &str) -> &str {
    symbol.split('@').next().unwrap_or(symbol)
}

fn is_symbol(frame: &str, symbol: &str) -> bool {
    frame.strip_suffix(" (inlined)").unwrap_or(frame) == symbol
}

fn push_path(out: &mut Collector, path: &[&str], entry: &Entry) {
    let mut kernel = false;
    let leaf = path.len() - 1;
    for (place, &frame) in path.iter().enumerate() {
        if frame == entry::NOT_SHOWN || frame == "[...]" {
            out.remark(entry::NOT_SHOWN);
            continue;
        }
        kernel |= is_kernel_entry(frame);
        let (name, inlined) = match frame.strip_suffix(" (inlined)") {
            Some(name) => (name, true),
            None => (frame, false),
        };
        let is_entry = place == leaf && name == entry.symbol;
        let (module, kind) = match (is_entry, &entry.kind) {
            (true, Some(kind)) => (entry.module.as_str(), *kind),
            (true, None) => (entry.module.as_str(), FrameKind::User),
            (false, _) => ("", FrameKind::User),
        };
        let kind = match kind {
            _ if inlined => FrameKind::Inlined,
            _ if kernel => FrameKind::Kernel,
            kind => kind,
        };
        out.symbol(name, module, kind);
    }
}
