//! Reader of the text that `gprof` prints, GNU's and BSD's (AIX, older macOS): its call graph, or its flat profile if there is no
//! call graph; and of VTune's call graph in this form (`vtune -report gprof-cc`).
//!
//! ```text
//! index % time    self  children    called     name
//!                 0.10    0.27       1/1           main [1]
//! [2]    100.0    0.10    0.27       1         g [2]
//!                 0.27    0.00 20000000/20000001     f [3]
//! -----------------------------------------------
//! ```
//!
//! The line with an index in front is the function's own: its self time, and the time of its callees. Above it are
//! its callers, with their shares of both; below it are its callees. Source: gprof's manual, "The Call Graph".
//!
//! - There are no stacks: they are estimated as described in [`call_graph`](super::call_graph).
//! - Functions in a cycle are named `f <cycle 1>`; calls among them have no times. The line `<cycle 1 as a whole>` is
//!   their sum, which is ignored.
//! - A flat profile alone has functions without callers.
//! - BSD's headings differ, and names in its flat profile have their numbers. VTune has no calls, and blank lines between the
//!   blocks; its `<spontaneous>` is no function.

use std::collections::BTreeMap;

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, ValueType};

use super::call_graph::{self, Node};
use super::rows::Rows;
use super::text::{Lines, first_lines};
use crate::input::Head;
use crate::names::tidy_name;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of gprof text.
pub struct Gprof;

impl Reader for Gprof {
    fn name(&self) -> &'static str {
        "gprof"
    }

    fn written_by(&self) -> &'static str {
        "gprof PROGRAM gmon.out"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).take(2000).any(|line| is_flat_title(line) || is_graph_title(line))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut file = File::default();
        let mut part = Part::Other;
        while lines.advance() {
            let line = lines.line().trim_end();
            // A form feed separates the sections.
            if line.contains('\u{c}') {
                part = Part::Other;
            } else if is_flat_title(line) {
                part = Part::Flat;
            } else if is_graph_title(line) {
                part = Part::Graph;
                file.is_vtune = line.starts_with("Index ");
            } else if line.trim().is_empty() {
                file.end_of_block();
                // After a blank line there may be explanations, or more entries of the graph.
                part = if matches!(part, Part::Flat) { Part::Other } else { part };
            } else {
                let is_read = match part {
                    Part::Other => true,
                    Part::Flat => file.flat_line(line),
                    Part::Graph => match file.graph_line(line) {
                        Known::Yes => true,
                        Known::No => false,
                        Known::End => {
                            part = Part::Other;
                            true
                        }
                    },
                };
                if !is_read {
                    lines.warn(WarningKind::UnreadableLine);
                }
            }
        }
        let mut warnings = lines.warnings;
        file.graph.retain(|_, function| function.name != "<spontaneous>");
        let mut profile = Profile::new(vec![ValueType::new("time", "ns")]);
        let mut rows = Rows::new(options, 1);
        if file.graph.is_empty() {
            for (function, time) in &file.flat {
                let frame = frame(&mut profile, function);
                let stack = profile.stacks.intern(StackId::ROOT, frame);
                rows.push(Sample::new(stack), &[*time]);
            }
            let said = "gprof's flat profile has no callers; its call graph has (gprof without -p)";
            warnings.add(WarningKind::NotHeld(said.to_owned()), 1, []);
        } else {
            let (nodes, names) = file.nodes();
            let frames: Vec<FrameId> = names.iter().map(|name| frame(&mut profile, name)).collect();
            let cut = call_graph::put_together(&nodes, &frames, &mut profile, &mut rows);
            call_graph::say(&mut warnings, "gprof", cut);
        }
        rows.finish(&mut profile);
        if profile.samples.is_empty() {
            let reason = "no time is in this profile of gprof".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(Reading::new(profile, warnings))
    }
}

enum Part {
    Other,
    Flat,
    Graph,
}

enum Known {
    Yes,
    No,
    /// The line ends the graph.
    End,
}

fn is_flat_title(line: &str) -> bool {
    // The numbers' width depends on the version, and so do the blanks before them.
    line.split_whitespace().take(3).eq(["time", "seconds", "seconds"])
}

fn is_graph_title(line: &str) -> bool {
    // The width of the columns depends on the version.
    let is = |title: &str| line.split_whitespace().eq(title.split(' '));
    line.starts_with("index ")
        && (is("index % time self children called name")
            || is("index %time self descendents called+self name index"))
        || line.starts_with("Index ") && line.contains(":Self ") && line.contains(":Children ")
}

fn frame(profile: &mut Profile, name: &str) -> FrameId {
    let function = profile.strings.intern(&tidy_name(name));
    profile.frames.intern(Frame::named(function, FrameKind::User))
}

#[derive(Default)]
struct File {
    /// Functions and their self times in nanoseconds.
    flat: Vec<(String, u64)>,
    /// Functions by the index in brackets.
    graph: BTreeMap<u64, Function>,
    /// Callers above the next indexed line, with the time spent in calls from each.
    callers: Vec<(u64, u64)>,
    /// True after the indexed line of a block.
    is_below: bool,
    is_vtune: bool,
}

#[derive(Default)]
struct Function {
    name: String,
    own: u64,
    callers: Vec<(u64, u64)>,
}

impl File {
    /// Parses ` 73.10      0.27     0.27 20000001     0.00     0.00  f`. Functions that were not compiled for
    /// profiling have no call counts.
    fn flat_line(&mut self, line: &str) -> bool {
        let mut rest = line;
        let percent = word(&mut rest).filter(|percent| time(percent).is_some());
        let own = word(&mut rest).and_then(|_| word(&mut rest)).and_then(time);
        let (Some(_), Some(own)) = (percent, own) else { return false };
        let before = rest;
        let mut counts = [word(&mut rest), word(&mut rest), word(&mut rest)].into_iter();
        let has_counts = counts.next().flatten().is_some_and(|calls| calls.parse::<u64>().is_ok())
            && counts.all(|each| each.is_some_and(|each| time(each).is_some()));
        let name = if has_counts { rest } else { before }.trim();
        if own > 0 && !name.is_empty() {
            self.flat.push((without_number(name).to_owned(), own));
        }
        !name.is_empty()
    }

    /// Ends the callers and callees of a function.
    fn end_of_block(&mut self) {
        self.callers.clear();
        self.is_below = false;
    }

    /// Parses a line of the graph.
    fn graph_line(&mut self, line: &str) -> Known {
        if line.starts_with("---") {
            self.end_of_block();
            return Known::Yes;
        }
        // The second line of BSD's heading.
        if line.split_whitespace().eq(["called/total", "children"]) {
            return Known::Yes;
        }
        // What follows the graph: explanations, an index, BSD's flat profile.
        const ENDS: [&str; 5] =
            [" This table", "Index by function name", "Index ", "flat profile:", "#"];
        if ENDS.iter().any(|end| line.starts_with(end)) {
            return Known::End;
        }
        if line.trim() == "<spontaneous>" {
            return Known::Yes;
        }
        let Some((name, number)) = name_and_number(line) else { return Known::No };
        let mut rest = name;
        if line.starts_with('[') {
            word(&mut rest);
            let percent = word(&mut rest).and_then(time);
            let own = word(&mut rest).and_then(time);
            let (Some(_), Some(own), Some(_)) = (percent, own, word(&mut rest).and_then(time))
            else {
                return Known::No;
            };
            let before = rest;
            let has_calls = word(&mut rest).is_some_and(is_calls);
            let name = if has_calls { rest } else { before }.trim();
            self.is_below = true;
            let callers = std::mem::take(&mut self.callers);
            if !name.ends_with(" as a whole>") {
                let name = name.split(" <cycle ").next().unwrap_or(name).to_owned();
                self.graph.insert(number, Function { name, own, callers });
            }
            return Known::Yes;
        }
        if self.is_below {
            // The callees' own entries have the same numbers.
            return Known::Yes;
        }
        let cost = match (word(&mut rest), word(&mut rest)) {
            // A call within a cycle.
            (Some(calls), _) if is_calls(calls) => Some(0),
            (Some(own), Some(children)) => match (time(own), time(children)) {
                (Some(own), Some(children)) => Some(own.saturating_add(children)),
                // VTune's have no numbers, or what rounding left below 0.
                _ => self.is_vtune.then_some(0),
            },
            _ => self.is_vtune.then_some(0),
        };
        match cost {
            Some(cost) => {
                self.callers.push((number, cost));
                Known::Yes
            }
            None => Known::No,
        }
    }

    /// Returns the functions as nodes, and their names.
    fn nodes(&self) -> (Vec<Node>, Vec<&str>) {
        let rows: BTreeMap<u64, usize> =
            self.graph.keys().enumerate().map(|(row, &number)| (number, row)).collect();
        let node = |(number, function): (&u64, &Function)| {
            let callers = function.callers.iter().filter(|(caller, _)| caller != number);
            let callers = callers
                .filter_map(|(caller, cost)| Some((*rows.get(caller)?, vec![*cost])))
                .collect();
            Node { own: vec![function.own], callers }
        };
        let names = self.graph.values().map(|function| function.name.as_str()).collect();
        (self.graph.iter().map(node).collect(), names)
    }
}

/// Takes the next word off `text`.
fn word<'a>(text: &mut &'a str) -> Option<&'a str> {
    let trimmed = text.trim_start();
    let end = trimmed.find(' ').unwrap_or(trimmed.len());
    let (word, rest) = trimmed.split_at(end);
    *text = rest;
    (!word.is_empty()).then_some(word)
}

/// Parses seconds such as `0.27` into nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let whole = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole.checked_add(fraction.parse::<u64>().ok()? * scale)
}

/// True for numbers of calls: `20000000/20000001`, `1`, `5+3`.
fn is_calls(text: &str) -> bool {
    !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'/' | b'+'))
}

/// BSD's flat profile has the number of a function in the graph behind its name: `f [3]`, `g (41)`.
fn without_number(name: &str) -> &str {
    let split = name_and_number(name).or_else(|| split_number(name, '(', ')'));
    split.map(|(name, _)| name).filter(|name| !name.is_empty()).unwrap_or(name)
}

/// Splits a line into the text before and the number in the brackets at its end.
fn name_and_number(line: &str) -> Option<(&str, u64)> {
    split_number(line, '[', ']')
}

fn split_number(line: &str, open: char, close: char) -> Option<(&str, u64)> {
    let (name, number) = line.strip_suffix(close)?.rsplit_once(open)?;
    Some((name.trim_end(), number.parse().ok()?))
}
