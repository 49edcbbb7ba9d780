//! Reader of the output of `perf report --stdio`, with callchains in any of its forms.
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
//! The dots show the width of each column. See [`chains`] for the forms of callchains.
//!
//! **Values.** The value of an entry is its number of samples if there is such a column (`-n`), otherwise its
//! percentage, with the two decimals that perf prints. If all percentages match integer numbers of samples whose sum
//! is the event's number of samples, these numbers are used instead. Within an entry:
//!
//! - `-g …,count` prints samples: exact.
//! - `-g …,percent` and `-g …,period` print shares. With `-n` they are converted to samples such that the entry's sum
//!   is exact; a stack may be off by one if perf's two decimals are ambiguous.
//! - `-g fractal` prints each share relative to all *callers* or *callees* of the function above. Samples that ended
//!   in that function itself are not printed; they are distributed to the frames below, with a warning.
//! - Chains that perf left out because they were small (`-g …,0.5,…`, the default) are counted in the entry's
//!   function, below a frame `[not shown]`.
//!
//! **Order.** The report does not say whether chains begin with the caller or the callee. They end or begin with the
//! entry's own symbol; without a symbol, they begin or end with entry points of programs and the kernel (`main`,
//! `start_thread`, `entry_SYSCALL_64_after_hwframe`), or else the end with fewer distinct frames is taken as the
//! root.
//!
//! **Children.** Without `--no-children`, perf prints each stack again for each of its functions. Then only the self
//! value of an entry (`Self`, and `Samples`, which has the same meaning) is counted, with the stacks that end in it.
//! This works with callers first, perf's default; a report with callees first is rejected, and so is a report whose
//! shares add up to more than 100 %.
//!
//! Chains have neither modules nor kinds; only an entry's own frame has them, from the entry's line. All frames from
//! the kernel's entry point on are kernel frames. Of several events, one is read at a time, as in other formats.
//!
//! **`-s sym`.** If entries are sorted by function only, perf omits the first frame of a graph that has a single
//! first frame. With callees first this is the entry's own symbol; with callers first it is a caller that is printed
//! nowhere else, and the report is rejected.

mod chains;
mod entry;
mod order;

use std::collections::BTreeMap;

use hashbrown::HashSet;
use pyrograph_profile::{FrameKind, ValueType};

use self::chains::Chains;
use self::entry::{Columns, Entry, NOT_SHOWN};
use super::text::{Collector, Lines, first_lines, is_kernel_entry};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `perf report` text.
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
            return Err(nothing(
                "there are no entries in this report, or they have a percentage for each event of a group, \
                 which perf report --no-group prints apart",
            ));
        }
        let event = match options.event.as_deref() {
            Some(wanted) => wanted.to_owned(),
            None => reports[0].event.clone(),
        };
        let (mut chosen, others): (Vec<Report>, Vec<Report>) =
            reports.into_iter().partition(|report| is_event(&report.event, &event));
        let mut other_events = BTreeMap::<String, u64>::new();
        for other in others {
            let samples: u64 = other.entries.iter().map(|entry| entry.samples.unwrap_or(1)).sum();
            *other_events.entry(other.event).or_default() += samples;
        }
        chosen.iter_mut().for_each(Report::count_samples);
        if !chosen.iter().all(|report| report.is_counted) {
            // All reports must have the same unit.
            chosen.iter_mut().for_each(Report::forget_samples);
        }
        let unit = chosen.first().map_or_else(ValueType::samples, Report::value_type);
        let mut out = Collector::new(unit).addresses(options);
        let (mut not_shown, mut all) = (0u64, 0u64);
        if chosen.iter().any(Report::is_fractal) {
            let said = "perf report -g fractal prints no share of what ended in a function that calls others: it is \
                        counted in what that calls; -g graph has it";
            lines.warnings.add(WarningKind::NotHeld(said.to_owned()), 1, []);
        }
        for mut report in chosen {
            report.drop_places();
            let callers_first = report.callers_first();
            report.check(callers_first).map_err(|reason| nothing(&reason))?;
            report.mark_left_out();
            if let Some(lacking) = report.lacking() {
                out.remark(NOT_SHOWN);
                let thread = out.thread_named("");
                out.end_root_first(thread, lacking);
                let said = format!(
                    "the entries add up to {} %: the rest, which perf left out or rounded away, is {NOT_SHOWN}",
                    hundredths(10_000 - lacking)
                );
                lines.warnings.add(WarningKind::NotHeld(said), 1, []);
            }
            let added = report.add(&mut out, callers_first);
            not_shown = not_shown.saturating_add(added.0);
            all = all.saturating_add(added.1);
        }
        if not_shown > 0 {
            let percent = not_shown as f64 * 100.0 / all as f64;
            lines.warnings.add(
                WarningKind::NotHeld(format!(
                    "perf left out callers of {percent:.2} % of the samples: perf report -g caller,0 prints those \
                     below its limit"
                )),
                1,
                [],
            );
        }
        let mut reading = out.reading(lines.warnings);
        reading.event = Some(event).filter(|event| !event.is_empty());
        reading.other_events = other_events;
        Ok(reading)
    }
}

/// Formats hundredths: `133.34` for 13334.
fn hundredths(number: u64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

/// True if the event named in a report is the requested one, with or without modifiers.
fn is_event(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(':'))
}

/// The entries of one event.
#[derive(Default)]
struct Report {
    event: String,
    /// Number of its samples, if perf prints it in full.
    samples: Option<u64>,
    /// True if the entries have numbers of samples, from a column or derived from their percentages.
    is_counted: bool,
    columns: Columns,
    entries: Vec<Entry>,
}

fn parse(lines: &mut Lines) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    let mut event = String::new();
    let mut samples = None;
    let (mut line, mut before) = (String::new(), String::new());
    let mut chains = Chains::default();
    while lines.next(&mut line) {
        if line.starts_with('#') {
            if let Some(named) = event_name(&line) {
                event = named.to_owned();
                samples = number_of_samples(&line);
            }
            if let Some(columns) = Columns::parse(&before, &line) {
                finish(&mut reports, &mut chains);
                let event = std::mem::take(&mut event);
                let is_counted = columns.samples.is_some();
                let samples = samples.take();
                reports.push(Report { event, samples, is_counted, columns, entries: Vec::new() });
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

/// Moves the chains that were read into the last entry.
fn finish(reports: &mut [Report], chains: &mut Chains) {
    if let Some(entry) = reports.last_mut().and_then(|report| report.entries.last_mut()) {
        entry.chains = std::mem::take(chains);
    }
}

/// Parses `# Samples: 118  of event 'cpu-clock'` or `# Samples: 1K of events 'cycles, instructions'`.
fn event_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Samples:")?;
    let (_, name) = rest.split_once(" of event")?;
    name.split('\'').nth(1)
}

/// Parses the number in `# Samples: 118  of event 'cpu-clock'`; `None` for rounded numbers such as `1K`.
fn number_of_samples(line: &str) -> Option<u64> {
    line.strip_prefix("# Samples:")?.split(" of event").next()?.trim().parse().ok()
}

impl Report {
    /// Derives the number of samples of each entry from its percentage, if all percentages match integer numbers
    /// whose sum is the number of samples: then all samples had the same weight. This removes perf's rounding of many
    /// small entries.
    fn count_samples(&mut self) {
        // Up to this number, one sample is more than one unit of perf's last decimal.
        const MOST: u64 = 5000;
        let Some(all) = self.samples.filter(|&all| (1..=MOST).contains(&all)) else { return };
        if self.is_counted || self.has_plain_numbers() {
            return;
        }
        let of = |entry: &Entry| {
            let samples = (entry.own.saturating_mul(all) + 5000) / 10_000;
            let percent = (samples * 20_000 + all) / (2 * all);
            (percent.abs_diff(entry.own) <= 1).then_some(samples)
        };
        let counts: Option<Vec<u64>> = self.entries.iter().map(of).collect();
        let Some(counts) = counts.filter(|counts| counts.iter().sum::<u64>() == all) else {
            return;
        };
        for (entry, samples) in self.entries.iter_mut().zip(counts) {
            entry.samples = Some(samples);
        }
        self.is_counted = true;
    }

    /// Undoes [`count_samples`](Self::count_samples).
    fn forget_samples(&mut self) {
        if self.columns.samples.is_none() {
            self.entries.iter_mut().for_each(|entry| entry.samples = None);
            self.is_counted = false;
        }
    }

    fn value_type(&self) -> ValueType {
        if self.is_counted || self.has_plain_numbers() {
            return ValueType::samples();
        }
        ValueType { decimals: 2, ..ValueType::new("samples", "percent") }
    }

    /// True if each stack has a number that is not a percentage, so that no conversion is needed.
    fn has_plain_numbers(&self) -> bool {
        self.entries.iter().all(|entry| entry.chains.all_have_plain_numbers())
    }

    /// Removes source positions from names in chains, if the names of entries have none.
    fn drop_places(&mut self) {
        let symbols: HashSet<String> = self.entries.iter().map(|e| e.symbol.clone()).collect();
        let (mut as_entry, mut with_place) = (0usize, 0usize);
        for name in self.entries.iter().flat_map(|entry| entry.chains.names()) {
            as_entry += usize::from(symbols.contains(name));
            let function = chains::without_place(name);
            with_place += usize::from(function.is_some_and(|name| symbols.contains(name)));
        }
        if with_place > as_entry {
            self.entries.iter_mut().for_each(|entry| entry.chains.drop_places());
        }
    }

    /// Rejects reports whose stacks cannot be separated, and shares that add up to more than the total.
    fn check(&self, callers_first: bool) -> Result<(), String> {
        if self.columns.has_children && !callers_first {
            return Err("each sample is in it once for each of its functions, callees first; \
                        --no-children or -g caller separates them"
                .to_owned());
        }
        if self.columns.symbol_first
            && callers_first
            && self.entries.iter().any(|entry| entry.chains.is_graph)
        {
            return Err(
                "with -s sym, perf leaves out the outermost caller where an entry has only one; \
                        -s comm,sym prints it"
                    .to_owned(),
            );
        }
        let calls = |entry: &Entry| entry.own != entry.percent;
        if self.columns.symbol.is_none() && self.entries.iter().any(calls) {
            return Err(
                "each sample is in it several times, and functions have no column of their own; \
                        --no-children separates them"
                    .to_owned(),
            );
        }
        let sum = self.entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.own));
        // Each value may have been rounded up.
        if sum <= 10_000 + self.entries.len() as u64 {
            return Ok(());
        }
        let column = if self.columns.has_children { "Self" } else { "Overhead" };
        Err(format!(
            "the column {column} adds up to {} %: each sample is in it several times",
            hundredths(sum)
        ))
    }

    /// Returns the difference between the sum of percentages and 100 %, in hundredths, if it is significant: entries
    /// below `--percent-limit`, filtered entries, and rounding of many small ones.
    fn lacking(&self) -> Option<u64> {
        const LITTLE: u64 = 5;
        if self.value_type().unit != "percent" {
            return None;
        }
        let sum = self.entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.own));
        10_000u64.checked_sub(sum).filter(|&lacking| lacking >= LITTLE && sum > 0)
    }

    /// Marks entries whose chains are not printed because of perf's limit, 0.5 % by default: in that case no smaller
    /// percentage is printed.
    fn mark_left_out(&mut self) {
        const LIMIT: u64 = 50;
        let least = self.entries.iter().filter_map(|entry| entry.chains.least_percentage()).min();
        let is_limited = least.is_some_and(|least| least >= LIMIT);
        for entry in self.entries.iter_mut().filter(|entry| entry.chains.is_empty()) {
            entry.lacks_chains = is_limited && entry.own < 2 * LIMIT;
        }
    }

    /// True if the shares in chains are relative to the branch above.
    fn is_fractal(&self) -> bool {
        self.entries.iter().any(|entry| entry.chains.is_fractal(entry.percent))
    }

    /// Adds all stacks. Returns the value of the stacks that are not shown in full, and the total value.
    fn add(&self, out: &mut Collector, callers_first: bool) -> (u64, u64) {
        let fractal = self.is_fractal();
        let without_leaf = !callers_first && self.lack_leaves();
        let as_printed = !self.is_counted && self.has_plain_numbers();
        let (mut not_shown, mut all) = (0u64, 0u64);
        for entry in &self.entries {
            let thread = out.thread(&entry.comm, entry.pid, None);
            let stacks = match self.columns.has_children {
                true => entry.own_stacks(fractal),
                false => entry.stacks(fractal, as_printed),
            };
            let has_leaf = !entry.symbol.is_empty();
            for (mut path, value) in stacks {
                if path.is_empty() {
                    path.push(&entry.symbol);
                } else if path == [NOT_SHOWN] {
                    // The entry's own function is known.
                    let place = if callers_first { 1 } else { 0 };
                    path.splice(place..place, has_leaf.then_some(entry.symbol.as_str()));
                } else if without_leaf && has_leaf {
                    path.insert(0, &entry.symbol);
                } else if callers_first
                    && has_leaf
                    && !path.last().is_some_and(|last| entry.is_symbol(last))
                {
                    // A branch whose sub-branches are below perf's limit.
                    path.extend([NOT_SHOWN, &entry.symbol]);
                }
                if !callers_first {
                    path.reverse();
                }
                all = all.saturating_add(value);
                if path.contains(&NOT_SHOWN) {
                    not_shown = not_shown.saturating_add(value);
                }
                push_path(out, &path, entry);
                out.end_root_first(thread, value);
            }
        }
        (not_shown, all)
    }

    /// True if most graphs begin with a caller although callees come first: see the module docs on `-s sym`.
    fn lack_leaves(&self) -> bool {
        let (mut with, mut without) = (0usize, 0usize);
        for entry in self.entries.iter().filter(|entry| !entry.symbol.is_empty()) {
            for first in entry.chains.firsts() {
                let is_own = entry.is_symbol(first);
                with += usize::from(is_own);
                without += usize::from(!is_own);
            }
        }
        without > with
    }
}

fn push_path(out: &mut Collector, path: &[&str], entry: &Entry) {
    let mut kernel = false;
    let leaf = path.len() - 1;
    for (place, &frame) in path.iter().enumerate() {
        if frame == NOT_SHOWN || frame == "[...]" {
            out.remark(NOT_SHOWN);
            continue;
        }
        kernel |= is_kernel_entry(frame);
        let (name, inlined) = match frame.strip_suffix(" (inlined)") {
            Some(name) => (name, true),
            None => (frame, false),
        };
        let is_entry = place == leaf && entry.is_symbol(name);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    fn error(columns: &str, dots: &str, entries: &str) -> Option<String> {
        let text = format!("# Samples: 2  of event 'cycles'\n{columns}\n{dots}\n#\n{entries}");
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        PerfReport.read(input, &Options::default()).err().map(|error| error.to_string())
    }

    #[test]
    fn what_percentages_lack_was_shared_out_among_the_others() {
        let text =
            "# Overhead  Symbol  \n# ........  ........\n#\n    40.00%  [.] a\n    10.00%  [.] b\n";
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = PerfReport.read(input, &Options::default()).expect("a report");
        assert_eq!(reading.profile.samples.total(0), 10_000);
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "the entries add up to 50.00 %: the rest, which perf left out or rounded away, is [not shown]"
            ]
        );
    }

    #[test]
    fn shares_above_100_percent_are_no_profile() {
        let (columns, dots) = ("# Overhead  Symbol  ", "# ........  ........");
        assert_eq!(error(columns, dots, "    66.67%  [.] a\n    33.34%  [.] b\n"), None);
        assert_eq!(
            error(columns, dots, "    66.67%  [.] a\n    66.67%  [.] b\n").as_deref(),
            Some(
                "read x: the column Overhead adds up to 133.34 %: each sample is in it several times"
            )
        );
    }

    #[test]
    fn functions_that_stand_in_no_column_cannot_be_separated() {
        let columns = "# Children      Self  Shared Object";
        let dots = "# ........  ........  .............";
        let said =
            error(columns, dots, "    90.00%    40.00%  app\n    60.00%    60.00%  libc.so\n");
        assert!(said.is_some_and(|said| said.contains("--no-children separates them")));
    }

    const CHILDREN: (&str, &str) = (
        "# Children      Self  Symbol              ",
        "# ........  ........  ....................",
    );

    #[test]
    fn functions_that_call_nothing_and_have_no_callers_do_not_say_what_comes_first() {
        let callees = "    99.00%    99.00%  [.] bits\n            |\n            ---bits\n\n     \
                       1.00%     0.00%  [k] asm_exc_page_fault\n            |\n            \
                       ---asm_exc_page_fault\n               __strrchr_evex\n               _dl_main\n\n     \
                       1.00%     0.00%  [.] _dl_main\n            |\n            ---_dl_main\n\n";
        let said = error(CHILDREN.0, CHILDREN.1, callees);
        assert!(said.is_some_and(|said| said.contains("callees first")));
    }

    #[test]
    fn branches_below_the_limit_were_taken_for_callees_first() {
        let columns = "# Children      Self  Command  Symbol              ";
        let dots = "# ........  ........  .......  ....................";
        let callers = "    47.53%    46.89%  app      [.] bits\n            |\n            ---bits\n               |          \n                \
                       --0.64%--asm_sysvec_apic_timer_interrupt\n\n     \
                       1.15%     0.00%  app      [k] asm_sysvec_apic_timer_interrupt\n            |\n            \
                       ---asm_sysvec_apic_timer_interrupt\n\n";
        assert_eq!(error(columns, dots, callers), None);
        // Behind it is more than it calls.
        let callees = callers.replace("0.64%", "47.50%");
        assert!(error(columns, dots, &callees).is_some_and(|said| said.contains("callees first")));
    }

    #[test]
    fn leaves_of_stripped_programs_were_there_twice() {
        let text = "# Overhead  Command  Shared Object  Symbol                \n\
                    # ........  .......  .............  ......................\n#\n    \
                    60.00%  tar      tar            [.] 0x000000000000ad60\n            |\n            \
                    ---0x56426c962d60\n               main\n\n    \
                    40.00%  tar      tar            [.] read\n            |\n            \
                    ---read\n               main\n\n";
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = PerfReport.read(input, &Options::default()).expect("a report");
        let depths: Vec<usize> = reading
            .profile
            .samples
            .iter()
            .map(|sample| reading.profile.stacks.leaf_first(sample.stack).count())
            .collect();
        assert_eq!(depths, [2, 2]);
    }
}
