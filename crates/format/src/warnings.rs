//! Parts of inputs that readers could not use: how much, and where.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;

use crate::read::calls::MOST_DEPTH;

/// Number of places of each kind that are named; the others are only counted.
const PLACES: usize = 3;

/// Kind of a defect, or of something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// The input ended early; what came before is kept. Holds the cause.
    Truncated(String),
    /// The input is damaged. Holds what is wrong, and what was done about it.
    Damaged(String),
    /// The first line of a sample could not be read, so the sample was left out.
    UnreadableSample,
    /// A line within a sample is no frame, so the line was left out.
    UnreadableLine,
    /// A line of folded text without a count was left out.
    NoCount,
    /// A count that does not fit in 64 bits, or with more than nine decimals: the line was left out.
    CountOutOfRange,
    /// A line that has no time and no number in its first two columns was left out.
    NotTwoNumbers,
    /// A line with one count, where the file has two, was left out.
    OneCount,
    /// Bytes that are not UTF-8 were replaced by U+FFFD. Nothing was left out.
    InvalidUtf8,
    /// The end of a call that did not begin in this file was left out.
    UnmatchedEnd,
    /// A call inside of so many others that its time is given to a marker.
    TooDeep,
    /// A thread that waited was left out, as profiles of running code leave it out.
    IdleThread,
    /// There are several events, and this one is counted, as none was asked for.
    OnlyEvent(String),
    /// Samples of an event (this one) that was not chosen. They were read, but are not counted.
    OtherEvent(String),
    /// A part of the input (this one) that holds values but no stacks was left out.
    NoStacks(String),
    /// Samples were lost while they were recorded.
    LostSamples,
    /// A record that is damaged was left out.
    UnreadableRecord,
    /// A stack whose copy was too small to hold it whole. It ends in a frame that says so.
    CutStack,
    /// A stack that could not be unwound to its end. It ends in a frame that says so.
    BrokenStack,
    /// A file that code ran in is not there, or not as it was. Functions in it have no names.
    MissingFile(String),
    /// Something stood in the way of better symbols.
    Symbols(String),
    /// The kernel's symbols are hidden from this user.
    KernelHidden,
    /// A value below 0, as differences have, is no count: the sample was left out.
    NegativeValue,
    /// Something that a profile, or the format that it is written as, has no place for. Holds its name.
    NotHeld(String),
}

impl WarningKind {
    /// Its subject, where one kind may be about many things.
    fn subject(&self) -> &str {
        match self {
            Self::Truncated(subject)
            | Self::Damaged(subject)
            | Self::OnlyEvent(subject)
            | Self::OtherEvent(subject)
            | Self::NoStacks(subject)
            | Self::MissingFile(subject)
            | Self::Symbols(subject)
            | Self::NotHeld(subject) => subject,
            _ => "",
        }
    }

    /// True if it is about lines of text that were not read.
    pub(crate) fn is_of_lines(&self) -> bool {
        matches!(
            self,
            Self::UnreadableSample
                | Self::UnreadableLine
                | Self::NoCount
                | Self::CountOutOfRange
                | Self::NotTwoNumbers
                | Self::OneCount
        )
    }

    /// True if something of the input is missing from the result though it was asked for.
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Truncated(_)
                | Self::Damaged(_)
                | Self::UnreadableSample
                | Self::UnreadableLine
                | Self::NoCount
                | Self::CountOutOfRange
                | Self::NotTwoNumbers
                | Self::OneCount
                | Self::UnreadableRecord
                | Self::NegativeValue
        )
    }
}

/// A place in an input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The input's name: a path, or `standard input`.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One kind of warning: how often, and the first few places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What.
    pub kind: WarningKind,
    /// Number of times.
    pub count: u64,
    /// Where, the first few.
    pub places: Vec<Place>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.count;
        let s = if n == 1 { "" } else { "s" };
        let was = if n == 1 { "was" } else { "were" };
        match &self.kind {
            WarningKind::Truncated(cause) => {
                write!(f, "the input ends early ({cause}); what came before is kept")
            }
            WarningKind::Damaged(how) => write!(f, "the input is damaged ({how})"),
            WarningKind::UnreadableSample => {
                write!(f, "{n} sample{s} {was} skipped: no readable first line")
            }
            WarningKind::UnreadableLine => {
                write!(f, "{n} line{s} within samples {was} skipped: not a frame")
            }
            WarningKind::NoCount => write!(f, "{n} line{s} without a count {was} skipped"),
            WarningKind::CountOutOfRange => {
                write!(f, "{n} line{s} {was} skipped: the count is out of range")
            }
            WarningKind::NotTwoNumbers => {
                write!(f, "{n} line{s} {was} skipped: not a time and a number")
            }
            WarningKind::OneCount => {
                write!(f, "{n} line{s} with one count {was} skipped: the file has two")
            }
            WarningKind::InvalidUtf8 => {
                write!(f, "{n} line{s} had bytes that are not UTF-8, now replaced")
            }
            WarningKind::UnmatchedEnd => {
                write!(f, "{n} end{s} of calls that begin nowhere {was} skipped")
            }
            WarningKind::TooDeep => write!(
                f,
                "{n} call{s} {was} inside of {MOST_DEPTH} others: their time is that of [deeper calls]"
            ),
            WarningKind::IdleThread => write!(f, "{n} idle thread{s} {was} left out"),
            WarningKind::OnlyEvent(event) => write!(f, "event {event} is counted"),
            WarningKind::OtherEvent(event) => {
                write!(f, "{n} sample{s} of event {event} {was} not counted")
            }
            WarningKind::NoStacks(part) => {
                write!(f, "{part} was left out: no stacks with one value each are in it")
            }
            WarningKind::LostSamples => write!(f, "{n} sample{s} {was} lost while recording"),
            WarningKind::UnreadableRecord => write!(f, "{n} damaged record{s} {was} skipped"),
            WarningKind::CutStack => {
                write!(f, "{n} stack{s} {was} cut off by the size of the recorded copy")
            }
            WarningKind::BrokenStack => write!(f, "{n} stack{s} {was} not unwound to the end"),
            WarningKind::MissingFile(path) => {
                write!(f, "{path} is not here as it was recorded: functions in it have no names")
            }
            WarningKind::NegativeValue => {
                write!(f, "{n} sample{s} with values below 0 {was} skipped")
            }
            WarningKind::Symbols(reason) | WarningKind::NotHeld(reason) => f.write_str(reason),
            WarningKind::KernelHidden => f.write_str(
                "the kernel hides its symbols from this user; to permit them: \
                 sudo sysctl kernel.kptr_restrict=0",
            ),
        }?;
        let places: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        f.write_str(&in_brackets(&places, n, ", "))
    }
}

/// The first few of `count`, in brackets; empty if none is named.
fn in_brackets(named: &[String], count: u64, separator: &str) -> String {
    let shown = named.len().min(PLACES);
    let more = match (shown as u64) < count {
        true => format!("{separator}…"),
        false => String::new(),
    };
    match shown {
        0 => String::new(),
        _ => format!(" ({}{more})", named[..shown].join(separator)),
    }
}

/// Several warnings of one kind, about different things, in one sentence.
fn together(warnings: &[Warning]) -> String {
    let count = warnings.len() as u64;
    let samples: u64 = warnings.iter().fold(0, |sum, of| sum.saturating_add(of.count));
    let named: Vec<String> = warnings.iter().map(|of| of.kind.subject().to_owned()).collect();
    match warnings[0].kind {
        WarningKind::OtherEvent(_) => {
            let were = if samples == 1 { "was" } else { "were" };
            let names = in_brackets(&named, count, ", ");
            format!("{samples} samples of {count} other events{names} {were} not counted")
        }
        WarningKind::MissingFile(_) => {
            let names = in_brackets(&named, count, ", ");
            format!(
                "{count} files{names} are not here as they were recorded: functions in them have no names"
            )
        }
        WarningKind::NoStacks(_) => {
            let names = in_brackets(&named, count, ", ");
            format!("{count} parts{names} were left out: no stacks with one value each are in them")
        }
        WarningKind::Truncated(_) => {
            let causes = in_brackets(&named, count, "; ");
            format!("{count} inputs end early{causes}; what came before is kept")
        }
        WarningKind::OnlyEvent(_) => format!("events {} are counted", named.join(", ")),
        WarningKind::Symbols(_) => {
            let reasons = in_brackets(&named, count, "; ");
            format!("{count} problems with symbols, so that functions may lack names{reasons}")
        }
        // Of the other kinds there is one warning each, or each says something else.
        _ => warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// All warnings of one reading, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    list: Vec<Warning>,
    /// Lines of samples that were skipped, whose first lines are in `list`.
    skipped: u64,
}

impl Warnings {
    /// Counts the samples of events that are not counted.
    pub(crate) fn add_other_events(&mut self, events: &BTreeMap<String, u64>) {
        for (event, &samples) in events {
            self.add(WarningKind::OtherEvent(event.clone()), samples, []);
        }
    }

    /// Counts `count` more of `kind`, at `places`, which are in the order of the input.
    pub fn add(&mut self, kind: WarningKind, count: u64, places: impl IntoIterator<Item = Place>) {
        let at = match self.list.binary_search_by(|warning| warning.kind.cmp(&kind)) {
            Ok(at) => at,
            Err(at) => {
                self.list.insert(at, Warning { kind, count: 0, places: Vec::new() });
                at
            }
        };
        let warning = &mut self.list[at];
        warning.count = warning.count.saturating_add(count);
        let room = PLACES.saturating_sub(warning.places.len());
        warning.places.extend(places.into_iter().take(room));
    }

    /// Adds those of another input.
    pub fn extend(&mut self, other: Self) {
        for warning in other.list {
            self.add(warning.kind, warning.count, warning.places);
        }
        self.skipped = self.skipped.saturating_add(other.skipped);
    }

    /// Number of lines that were not read. Formats that do not consist of lines name none.
    pub(crate) fn unread_lines(&self) -> u64 {
        let of_lines = |of: &&Warning| of.kind.is_of_lines() && !of.places.is_empty();
        let counts = self.list.iter().filter(of_lines).map(|of| of.count);
        counts.fold(self.skipped, u64::saturating_add)
    }

    /// True if something of the input is missing from the result though it was asked for.
    pub fn any_loss(&self) -> bool {
        self.list.iter().any(|warning| warning.kind.is_loss())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// One line for each kind, with the kind. Warnings of one kind about many things (files, events)
    /// are one sentence, which names the first few.
    pub fn lines(&self) -> impl Iterator<Item = (&WarningKind, String)> {
        let same = |a: &Warning, b: &Warning| discriminant(&a.kind) == discriminant(&b.kind);
        self.list.chunk_by(same).map(|of_kind| match of_kind {
            [one] => (&one.kind, one.to_string()),
            several => (&several[0].kind, together(several)),
        })
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Warning> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Warnings {
    type Item = &'a Warning;
    type IntoIter = std::slice::Iter<'a, Warning>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Warnings of one thread that reads pieces of an input and does not know yet which line each piece
/// begins at.
#[derive(Debug, Default)]
pub(crate) struct LocalWarnings {
    kinds: BTreeMap<WarningKind, (u64, Vec<(u64, u64)>)>,
    /// Lines of samples that were skipped, beside their first ones.
    pub skipped: u64,
}

impl LocalWarnings {
    /// Counts one at a line (from 0) of piece `chunk`. A thread takes its pieces in order. `line` is
    /// called only if the place will be named.
    pub fn add(&mut self, kind: WarningKind, chunk: u64, line: impl FnOnce() -> u64) {
        self.add_many(kind, 1, chunk, line);
    }

    /// Counts several at one line.
    pub fn add_many(
        &mut self,
        kind: WarningKind,
        many: u64,
        chunk: u64,
        line: impl FnOnce() -> u64,
    ) {
        let (count, places) = self.kinds.entry(kind).or_default();
        *count = count.saturating_add(many);
        if places.len() < PLACES {
            places.push((chunk, line()));
        }
    }

    /// Puts the warnings of all threads together. `lines` are the lines of each piece.
    pub fn gather(parts: Vec<Self>, name: &str, lines: &[u64]) -> Warnings {
        let mut before = Vec::with_capacity(lines.len() + 1);
        let mut sum = 0u64;
        for count in lines {
            before.push(sum);
            sum += count;
        }
        before.push(sum);
        let mut all: BTreeMap<WarningKind, (u64, Vec<u64>)> = BTreeMap::new();
        let mut skipped = 0u64;
        for part in parts {
            skipped = skipped.saturating_add(part.skipped);
            for (kind, (count, places)) in part.kinds {
                let entry = all.entry(kind).or_default();
                entry.0 = entry.0.saturating_add(count);
                let line = |(chunk, line): (u64, u64)| {
                    before.get(chunk as usize).copied().unwrap_or(sum) + line + 1
                };
                entry.1.extend(places.into_iter().map(line));
            }
        }
        let mut warnings = Warnings { skipped, ..Warnings::default() };
        for (kind, (count, mut places)) in all {
            places.sort_unstable();
            let places = places.into_iter().map(|line| Place { file: name.to_owned(), line });
            warnings.add(kind, count, places);
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_many_and_names_the_first_places_whatever_thread_met_them() {
        let mut first = LocalWarnings::default();
        let mut second = LocalWarnings::default();
        second.add(WarningKind::NoCount, 1, || 0);
        for line in [1, 2, 4] {
            first.add(WarningKind::NoCount, 0, || line);
        }
        first.add(WarningKind::InvalidUtf8, 2, || 3);
        let warnings = LocalWarnings::gather(vec![second, first], "x.txt", &[10, 20, 5]);
        let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "4 lines without a count were skipped (x.txt:2, x.txt:3, x.txt:5, …)",
                "1 line had bytes that are not UTF-8, now replaced (x.txt:34)",
            ]
        );
        assert!(warnings.any_loss());
    }

    #[test]
    fn warnings_of_one_kind_are_one_line_with_the_first_three() {
        let mut warnings = Warnings::default();
        for number in 1..=805 {
            let event = format!("{number:03}.5");
            warnings.add(WarningKind::OtherEvent(event), 2, []);
        }
        warnings.add(WarningKind::MissingFile("/lib/a.so".to_owned()), 1, []);
        warnings.add(WarningKind::MissingFile("/lib/b.so".to_owned()), 1, []);
        warnings.add(WarningKind::NoCount, 1, []);
        let lines: Vec<String> = warnings.lines().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "1 line without a count was skipped",
                "1610 samples of 805 other events (001.5, 002.5, 003.5, …) were not counted",
                "2 files (/lib/a.so, /lib/b.so) are not here as they were recorded: functions in them \
                 have no names",
            ]
        );
    }
}
