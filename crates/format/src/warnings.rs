//! Warnings of readers: parts of inputs that could not be used, how many, and where.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;

use crate::read::calls::MOST_DEPTH;

/// Number of places that are named for each kind of warning; further ones are only counted.
const PLACES: usize = 3;

/// Kind of a defect of an input, or of a fact that the user should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// The input ended early; everything before that is kept. Holds the cause.
    Truncated(String),
    /// The input is damaged. Holds what is wrong and how it was handled.
    Damaged(String),
    /// A sample was skipped because its first line could not be read.
    UnreadableSample,
    /// A line within a sample was skipped because it is not a frame.
    UnreadableLine,
    /// A line of folded text was skipped because it has no count.
    NoCount,
    /// A line was skipped because its count does not fit in 64 bits or has more than nine decimals.
    CountOutOfRange,
    /// A line was skipped because its first two columns are not a time and a number.
    NotTwoNumbers,
    /// A line was skipped because it has one count, while the file has two.
    OneCount,
    /// Bytes that are not UTF-8 were replaced by U+FFFD. Nothing was skipped.
    InvalidUtf8,
    /// The end of a call was skipped because the call did not begin in this file.
    UnmatchedEnd,
    /// A call is nested too deeply: its time is counted for a marker frame.
    TooDeep,
    /// An idle thread was left out, as usual in profiles of running code.
    IdleThread,
    /// Name of the event that is counted: the input has several, and none was requested.
    OnlyEvent(String),
    /// Samples of another event than the chosen one were read but not counted. Holds the event's name.
    OtherEvent(String),
    /// A part of the input was left out because it has values but no stacks. Holds its name.
    NoStacks(String),
    /// Samples were lost during the recording.
    LostSamples,
    /// A damaged record was skipped.
    UnreadableRecord,
    /// The copy of a stack was too small to hold all of it. The stack ends in a frame that says so.
    CutStack,
    /// A stack could not be unwound completely. It ends in a frame that says so.
    BrokenStack,
    /// A file with executed code does not exist or has changed. Its functions have no names. Holds the path.
    MissingFile(String),
    /// A problem with symbols, as a whole sentence.
    Symbols(String),
    /// The kernel hides its symbols from this user.
    KernelHidden,
    /// A sample was skipped because it has a value below 0, as differences have, which is not a count.
    NegativeValue,
    /// A part of the profile has no place in the format that it is written to. Holds a whole sentence.
    NotHeld(String),
}

impl WarningKind {
    /// Text that distinguishes warnings of the same kind, such as a path or an event; empty if the kind has none.
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

    /// Returns true if the warning counts lines of text that were not read.
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

    /// Returns true if a part of the input is missing from the result although it was requested.
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

/// All warnings of one kind and subject: their number and the first few places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Kind of the warning.
    pub kind: WarningKind,
    /// Number of occurrences.
    pub count: u64,
    /// Places of the first few occurrences.
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

/// The first few names in brackets, with an ellipsis if `count` is larger; empty if there are none.
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

/// Merges several warnings of one kind with different subjects into one sentence.
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
        // Other kinds have only one warning, or texts that cannot be merged.
        _ => warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// All warnings from reading inputs, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    list: Vec<Warning>,
    /// Lines of skipped samples beyond their first lines, which are counted in `list`.
    skipped: u64,
}

impl Warnings {
    /// Adds a warning for each event whose samples were not counted; `events` are numbers of samples by name.
    pub(crate) fn add_other_events(&mut self, events: &BTreeMap<String, u64>) {
        for (event, &samples) in events {
            self.add(WarningKind::OtherEvent(event.clone()), samples, []);
        }
    }

    /// Adds `count` occurrences of `kind` at `places`, which must be in the order of the input.
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

    /// Adds the warnings of another input.
    pub fn extend(&mut self, other: Self) {
        for warning in other.list {
            self.add(warning.kind, warning.count, warning.places);
        }
        self.skipped = self.skipped.saturating_add(other.skipped);
    }

    /// Number of lines that were not read. Formats that do not consist of lines report no places, and count as 0.
    pub(crate) fn unread_lines(&self) -> u64 {
        let of_lines = |of: &&Warning| of.kind.is_of_lines() && !of.places.is_empty();
        let counts = self.list.iter().filter(of_lines).map(|of| of.count);
        counts.fold(self.skipped, u64::saturating_add)
    }

    /// Returns true if a part of the input is missing from the result although it was requested.
    pub fn any_loss(&self) -> bool {
        self.list.iter().any(|warning| warning.kind.is_loss())
    }

    /// Returns true if there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// One line for each kind, with the kind. Warnings of one kind with several subjects (files, events) are merged into
    /// one sentence, which names the first few.
    pub fn lines(&self) -> impl Iterator<Item = (&WarningKind, String)> {
        let same = |a: &Warning, b: &Warning| discriminant(&a.kind) == discriminant(&b.kind);
        self.list.chunk_by(same).map(|of_kind| match of_kind {
            [one] => (&one.kind, one.to_string()),
            several => (&several[0].kind, together(several)),
        })
    }

    /// Iterates over all warnings.
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

/// Warnings of a thread that reads chunks of an input and does not know yet at which line each chunk begins.
#[derive(Debug, Default)]
pub(crate) struct LocalWarnings {
    kinds: BTreeMap<WarningKind, (u64, Vec<(u64, u64)>)>,
    /// Lines of skipped samples beyond their first lines.
    pub skipped: u64,
}

impl LocalWarnings {
    /// Adds one occurrence at a line (from 0) of chunk number `chunk`. A thread must take its chunks in order. `line` is
    /// called only if the place will be named.
    pub fn add(&mut self, kind: WarningKind, chunk: u64, line: impl FnOnce() -> u64) {
        self.add_many(kind, 1, chunk, line);
    }

    /// Adds several occurrences at one line.
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

    /// Merges the warnings of all threads. `lines` has the number of lines of each chunk.
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
