//! Reader of folded stacks: one stack per line, frames separated by semicolons, root first, and its count.
//!
//! ```text
//! java;start_thread;java_start;GCTaskThread::run 14
//! # two counts, of which a difference is drawn
//! java;start_thread;java_start 14 17
//! # decimals are exact
//! java;start_thread 0.25
//! ```
//!
//! An empty name is a frame, too, at any position: `;x 2`, `a; 4`, `a;;b 1`.
//!
//! Frames may contain blanks and numbers: the count follows the last blank, and there are two counts only if every
//! line at the beginning of the file has two. Many other texts have lines of words with a number at the end: text is
//! detected as folded if semicolons separate frames in some line, or if each line is a single word and a count.
//!
//! The reader is fast because lines are mostly sorted, so that each shares callers with the previous line; only the
//! frames after those are parsed.

mod count;

use std::borrow::Cow;

use pyrograph_profile::{Profile, ValueType};

use super::ahead::{Ahead, FrameOf, Keep, RowOf};
use crate::bytes;
use crate::chunks::{Chunks, count_lines, drop_carriage_returns};
use crate::input::Head;
use crate::reader::{Detail, Options, ReadError, Reader, Reading};
use crate::warnings::{LocalWarnings, WarningKind};
use count::{Decimal, Split, split_count};

/// Reader of folded stacks.
pub struct Folded;

/// Name of the format.
pub(crate) const FOLDED: &str = "folded";

/// Bytes per read: small enough to be still in the second-level cache when they are parsed.
pub(crate) const CHUNK: usize = 128 << 10;

impl Reader for Folded {
    fn name(&self) -> &'static str {
        FOLDED
    }

    fn written_by(&self) -> &'static str {
        "pyrograph fold, stackcollapse-*.pl, bcc -f, async-profiler -o collapsed"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if memchr::memchr(0, head).is_some() {
            return false;
        }
        let lines = || data_lines(head).take(100).map(split_count);
        // Other texts also have lines of words with a number at the end.
        let parts_frames =
            |split: Split<'_>| matches!(split, Split::Count(stack, _) if stack.contains(&b';'));
        let is_word = |split: Split<'_>| match split {
            Split::Count(stack, _) => is_one_word(stack),
            Split::None | Split::OutOfRange => true,
        };
        let has_name =
            |split: Split<'_>| matches!(split, Split::Count(stack, _) if !stack.is_empty());
        let are_words = || lines().any(has_name) && lines().all(is_word);
        mostly_counted(head) && (lines().any(parts_frames) || are_words())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let two = has_two_counts(input.bytes());
        let chunks = Chunks::with_size(input.into_stream(), last_line_end, CHUNK);
        Ok(read_chunks(chunks, two, options, &name))
    }
}

/// True if most lines end in a number, which is the case for folded text, but also for many other texts.
pub(crate) fn mostly_counted(head: &[u8]) -> bool {
    let lines = data_lines(head).take(100).map(split_count);
    let (counted, all) = lines.fold((0, 0), |(counted, all), split| {
        (counted + usize::from(matches!(split, Split::Count(..))), all + 1)
    });
    // Any text may have some lines that end in a number.
    counted > 0 && counted * 2 >= all
}

/// True if a line is a single word: a name without blanks, except for one before another count.
fn is_one_word(stack: &[u8]) -> bool {
    let name = match split_count(stack) {
        Split::Count(name, _) => name,
        Split::None | Split::OutOfRange => stack,
    };
    !name.iter().any(u8::is_ascii_whitespace)
}

fn read_chunks(chunks: Chunks, two: bool, options: &Options, name: &str) -> Reading {
    let value_types = if two {
        ValueType::unnamed().before_and_after().to_vec()
    } else {
        vec![ValueType::unnamed()]
    };
    let mut parser = Parser {
        profile: Profile::new(value_types),
        warnings: LocalWarnings::default(),
        frames: FrameOf::default(),
        rows: RowOf::new(match (options.detail, options.folded.any_order) {
            (Detail::Totals, _) => Keep::Totals,
            (Detail::Samples, false) => Keep::Order,
            (Detail::Samples, true) => Keep::Singles,
        }),
        fold_recursion: options.folded.fold_recursion,
    };
    let mut lines = Vec::new();
    let mut text = Vec::new();
    while let Some(chunk) = chunks.next(&mut text) {
        lines.push(count_lines(&text));
        drop_carriage_returns(&mut text);
        parser.parse(&text, chunk);
    }
    let mut warnings = LocalWarnings::gather(vec![parser.warnings], name, &lines);
    if let Some(cause) = chunks.into_error() {
        warnings.add(WarningKind::Truncated(cause), 1, []);
    }
    Reading::new(parser.profile, warnings)
}

/// Returns the end of the last terminated line.
pub(crate) fn last_line_end(text: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', text).map(|at| at + 1)
}

/// Iterates over the lines that should have a count.
fn data_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| is_data(line))
}

/// True if a line, whose end is trimmed, should have a count.
fn is_data(line: &[u8]) -> bool {
    !line.is_empty() && line[0] != b'#'
}

/// True if each line of `head` has two counts, except the last one, which may be cut off.
pub(crate) fn has_two_counts(head: &[u8]) -> bool {
    let complete = memchr::memrchr(b'\n', head).filter(|_| head.len() >= 64 << 10);
    let mut any = false;
    for line in data_lines(&head[..complete.unwrap_or(head.len())]) {
        match split_count(line) {
            Split::Count(stack, _) if matches!(split_count(stack), Split::Count(..)) => any = true,
            Split::Count(..) => return false,
            Split::None | Split::OutOfRange => {}
        }
    }
    any
}

struct Parser {
    profile: Profile,
    warnings: LocalWarnings,
    frames: FrameOf,
    rows: RowOf,
    /// See [`FoldedOptions::fold_recursion`](crate::FoldedOptions).
    fold_recursion: bool,
}

/// Consecutive lines, not all of which have been added to the profile.
#[derive(Default)]
struct Lines<'a> {
    /// The stack of the previous line.
    previous: &'a str,
    /// The frames of that stack which the current one shares.
    callers: Vec<Caller<'a>>,
    ahead: Ahead<'a>,
}

/// A part of a line between semicolons.
#[derive(Clone, Copy, Default)]
struct Caller<'a> {
    /// Offset of its end.
    end: usize,
    /// Number of frames up to there.
    depth: usize,
    /// The last of these frames.
    function: &'a str,
}

impl Parser {
    fn parse(&mut self, text: &[u8], chunk: u64) {
        let start = if chunk == 0 && text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        match std::str::from_utf8(&text[start..]) {
            Ok(valid) => self.lines(valid, &mut |parser, kind, at| {
                parser.warn(kind, text, chunk, start + at);
            }),
            Err(_) => self.lines_one_by_one(text, start, chunk),
        }
    }

    /// Adds the lines of a text that is not valid UTF-8.
    fn lines_one_by_one(&mut self, text: &[u8], start: usize, chunk: u64) {
        let mut at = start;
        for line in text[start..].split(|&byte| byte == b'\n') {
            let valid = String::from_utf8_lossy(line);
            let mut is_wrong = false;
            self.lines(&valid, &mut |parser, kind, _| {
                is_wrong = true;
                parser.warn(kind, text, chunk, at);
            });
            if !is_wrong && matches!(valid, Cow::Owned(_)) && is_data(valid.as_bytes()) {
                self.warn(WarningKind::InvalidUtf8, text, chunk, at);
            }
            at += line.len() + 1;
        }
    }

    /// Adds the lines of a text. `warn` is called with the offset of each faulty line.
    fn lines(&mut self, text: &str, warn: &mut dyn FnMut(&mut Self, WarningKind, usize)) {
        let mut lines = Lines::default();
        let mut at = 0;
        while at < text.len() {
            let rest = &text.as_bytes()[at..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = text[at..at + length].trim_ascii_end();
            if is_data(line.as_bytes())
                && let Err(kind) = self.line(line, &mut lines)
            {
                warn(self, kind, at);
            }
            at += length + 1;
        }
        lines.ahead.flush(&mut self.profile, &mut self.frames, &mut self.rows);
    }

    fn warn(&mut self, kind: WarningKind, text: &[u8], chunk: u64, at: usize) {
        let line = || memchr::memchr_iter(b'\n', &text[..at]).count() as u64;
        self.warnings.add(kind, chunk, line);
    }

    /// Adds a line. Fails if the line has no valid count.
    fn line<'a>(&mut self, line: &'a str, lines: &mut Lines<'a>) -> Result<(), WarningKind> {
        let count = |line| match split_count(line) {
            Split::Count(stack, count) => Ok((stack, count)),
            Split::None => Err(WarningKind::NoCount),
            Split::OutOfRange => Err(WarningKind::CountOutOfRange),
        };
        let (mut stack, last) = count(line.as_bytes())?;
        let mut values = [0, 0];
        let columns = self.profile.value_types.len();
        if columns == 2 {
            let first;
            (stack, first) = count(stack).map_err(|kind| match kind {
                WarningKind::NoCount => WarningKind::OneCount,
                kind => kind,
            })?;
            values = [self.scaled(0, first, lines)?, self.scaled(1, last, lines)?];
        } else {
            values[0] = self.scaled(0, last, lines)?;
        }
        lines.walk_to(&line[..stack.len()], self.fold_recursion);
        lines.ahead.sample(&values[..columns]);
        if lines.ahead.is_long() {
            lines.ahead.flush(&mut self.profile, &mut self.frames, &mut self.rows);
        }
        Ok(())
    }

    /// Scales a count to the column's decimals, first adding decimals to the column if necessary.
    fn scaled(
        &mut self,
        column: usize,
        count: Decimal,
        lines: &mut Lines<'_>,
    ) -> Result<u64, WarningKind> {
        let of = self.profile.value_types[column].decimals;
        if count.decimals > of {
            lines.ahead.flush(&mut self.profile, &mut self.frames, &mut self.rows);
            self.profile.samples.scale(column, 10u64.pow(u32::from(count.decimals - of)));
            self.profile.value_types[column].decimals = count.decimals;
        }
        count
            .value
            .checked_mul(10u64.pow(u32::from(of.saturating_sub(count.decimals))))
            .ok_or(WarningKind::CountOutOfRange)
    }
}

impl<'a> Lines<'a> {
    /// Walks to the leaf of the frames that `text` lists.
    fn walk_to(&mut self, text: &'a str, fold_recursion: bool) {
        // Keep the whole frames that this line shares with the previous one.
        let shared = shared_prefix(text.as_bytes(), self.previous.as_bytes());
        let ends_here = |end: usize| end == text.len() || text.as_bytes()[end] == b';';
        while self.callers.last().is_some_and(|of| of.end > shared || !ends_here(of.end)) {
            self.callers.pop();
        }
        let shared_with = self.callers.last().copied().unwrap_or_default();
        let Caller { mut depth, mut function, .. } = shared_with;
        let mut at = if self.callers.is_empty() { 0 } else { shared_with.end + 1 };
        let mut is_there = false;
        let begin = self.callers.iter().rev().nth(1).map_or(0, |of| of.end + 1);
        let mut name_before = text.get(begin..shared_with.end).unwrap_or_default().trim_ascii_end();
        while at <= text.len() {
            let end = bytes::find(text.as_bytes(), at, b';');
            // Trimmed like the end of the stack, where blanks separate it from the count.
            let name = text[at..end].trim_ascii_end();
            // Two adjacent frames without a name may be different functions.
            let is_recursion = fold_recursion && !name.is_empty() && name == name_before;
            if !is_recursion {
                function = name;
                self.ahead.step(depth, name);
                depth += 1;
                is_there = true;
            }
            name_before = name;
            self.callers.push(Caller { end, depth, function });
            at = end + 1;
        }
        if !is_there {
            // The stack is a prefix of the previous line's.
            self.ahead.step(depth.saturating_sub(1), function);
        }
        self.previous = text;
    }
}

/// Returns the length of the common prefix of `a` and `b`, in bytes.
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.as_chunks::<32>().0.iter().zip(b.as_chunks::<32>().0);
    let mut shared = 32 * blocks.take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[shared..], &b[shared..]);
    let (words, others) = (a.as_chunks().0, b.as_chunks().0);
    for (&word, &other) in words.iter().zip(others) {
        let differing = u64::from_le_bytes(word) ^ u64::from_le_bytes(other);
        if differing != 0 {
            return shared + differing.trailing_zeros() as usize / 8;
        }
        shared += size_of::<u64>();
    }
    let rest = 8 * words.len().min(others.len());
    shared + a[rest..].iter().zip(&b[rest..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::{FoldedOptions, Input, Warnings, read, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn fold(text: &[u8]) -> (String, Vec<String>) {
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let reading = Folded.read(input, &Options::default()).expect("folded text");
        (folded(&reading.profile), shown(&reading.warnings))
    }

    fn folded(profile: &Profile) -> String {
        let mut out = Vec::new();
        write_folded(&Tree::new(profile, &LabelOptions::default()), &mut out).expect("to memory");
        String::from_utf8(out).expect("folded text is UTF-8")
    }

    fn shown(warnings: &Warnings) -> Vec<String> {
        warnings.iter().map(ToString::to_string).collect()
    }

    fn check(text: &str, expect: &str) {
        assert_eq!(fold(text.as_bytes()), (expect.to_owned(), vec![]), "{text}");
    }

    fn check_warns(text: &[u8], expect: &str, warnings: &[&str]) {
        let (folded, warned) = fold(text);
        assert_eq!(folded, expect);
        assert_eq!(warned, warnings);
    }

    #[test]
    fn equal_stacks_are_summed_and_sorted() {
        check("b;c 1\na;b 2\na;b;c 3\na;b 4\n", "a;b 6\na;b;c 3\nb;c 1\n");
        check("a 1", "a 1\n");
        check("a;b 1\r\na;b 2\r\n", "a;b 3\n");
        check("\n\na 1  \n\n", "a 1\n");
        // Found by fuzzing: written as two equal lines.
        check("a\rb;c 1\na b;c 2\n", "a b;c 3\n");
        check("\u{feff}a 1\n# remark 3\n", "a 1\n");
    }

    #[test]
    fn repeated_lines_took_memory_each() {
        let rows = |text: &str, detail| {
            let input = Input::bytes("x", text).begin().expect("bytes in memory");
            let options = Options { detail, ..Options::default() };
            let profile = Folded.read(input, &options).expect("folded text").profile;
            (profile.samples.len(), profile.samples.total(0))
        };
        let (once, twice) = ("a;b 1\n".repeat(50_000), "a;b 1\na;c 2\n".repeat(50_000));
        assert_eq!(rows(&once, Detail::Totals), (1, 50_000));
        assert_eq!(rows(&twice, Detail::Totals), (2, 150_000));
        // A chart of samples in their order needs each, but not neighbours.
        assert_eq!(rows(&once, Detail::Samples), (1, 50_000));
        assert_eq!(rows(&twice, Detail::Samples), (100_000, 150_000));
    }

    #[test]
    fn samples_in_any_order_took_memory_each() {
        let rows = |pairs: usize| {
            let text = "a;b 1\na;c 2\n".repeat(pairs);
            let input = Input::bytes("x", text).begin().expect("bytes in memory");
            let of_folded = FoldedOptions { any_order: true, ..FoldedOptions::default() };
            let options =
                Options { detail: Detail::Samples, folded: of_folded, ..Options::default() };
            let profile = Folded.read(input, &options).expect("folded text").profile;
            assert_eq!(folded(&profile), format!("a;b {pairs}\na;c {}\n", 2 * pairs));
            profile.samples.len()
        };
        assert_eq!(rows(50_000), 100_000);
        assert_eq!(rows(200_000), 1 << 18);
    }

    #[test]
    fn names_may_hold_blanks_and_numbers() {
        check("a b;c 1 d 2\n", "a b;c 1 d 2\n");
        check("f 1 7\nmain 5\n", "f 1 7\nmain 5\n");
        check("operator()(int, char) 3\n", "operator()(int, char) 3\n");
        check("a;1.5 2\n", "a;1.5 2\n");
        check("a\t5\n", "a 5\n");
    }

    #[test]
    fn frames_that_begin_alike_are_not_the_same() {
        check("a;bc 1\na;b 2\na;bcd 4\na 8\nab 16\n", "a 8\na;b 2\na;bc 1\na;bcd 4\nab 16\n");
        check("a;b;c 1\na;b 1\na;b;c 1\na;b;cd 1\n", "a;b 1\na;b;c 2\na;b;cd 1\n");
    }

    #[test]
    fn semicolons_without_a_frame() {
        check(";a;b 1\n", "[unknown];a;b 1\n");
        check("a;b; 1\n", "a;b;[unknown] 1\n");
        check("a;;b 1\na;;c 1\na;b 1\n", "a;[unknown];b 1\na;[unknown];c 1\na;b 1\n");
        check("; 1\n;; 1\n", "[unknown];[unknown] 1\n[unknown];[unknown];[unknown] 1\n");
        check("a;b 1\n 3\na;b 2\n", "[unknown] 3\na;b 3\n");
        check(
            "a; 1\na;b 1\na;;b 1\n;a;b 1\na 1\n",
            "[unknown];a;b 1\na 1\na;[unknown] 1\na;[unknown];b 1\na;b 1\n",
        );
    }

    #[test]
    fn recursion_is_left_out_if_it_is_to_be() {
        let folds = |text: &str| {
            let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
            let of_folded = FoldedOptions { fold_recursion: true, ..FoldedOptions::default() };
            let options = Options { folded: of_folded, ..Options::default() };
            folded(&Folded.read(input, &options).expect("folded text").profile)
        };
        assert_eq!(
            folds("a;b;b;b;c 1\na;b;b 2\na;b;bb 4\na;b;b;bb 8\n"),
            "a;b 2\na;b;bb 12\na;b;c 1\n"
        );
        assert_eq!(folds("a;a 1\na;a;b 2\na;b;a 4\na;b ;b 8\n"), "a 1\na;b 10\na;b;a 4\n");
        // An empty name calls nothing.
        assert_eq!(folds(";;a 1\n;a;a 2\n"), "[unknown];[unknown];a 1\n[unknown];a 2\n");
    }

    #[test]
    fn two_counts() {
        check("a;b 1 2\na;c 0 5\n", "a;b 1 2\na;c 0 5\n");
        check("a;b 1.5 2\n", "a;b 1.5 2\n");
        check_warns(
            b"a;b 1 2\na;c 5\na;d x\n",
            // Not all lines have two: so there is one.
            "a;b 1 2\na;c 5\n",
            &["1 line without a count was skipped (x:3)"],
        );
        let mut text = b"a;b 1 2\n".repeat(10_000);
        text.extend_from_slice(b"a;c 5\n");
        check_warns(
            &text,
            "a;b 10000 20000\n",
            &["1 line with one count was skipped: the file has two (x:10001)"],
        );
    }

    #[test]
    fn decimals_are_exact() {
        check("a 0.1\na 0.2\nb 3\n", "a 0.3\nb 3\n");
        check("b 3\na 0.000000001\n", "a 0.000000001\nb 3\n");
        check("a 1.50\na 1.\nb .5\n", "a 2.5\nb 0.5\n");
        check("a 18446744073709551615\n", "a 18446744073709551615\n");
    }

    #[test]
    fn counts_with_an_exponent_were_no_counts() {
        check("a;b 1.5e3\na;c 10\n", "a;b 1500\na;c 10\n");
        check("a 2E+06\nb 25e-1\n", "a 2000000\nb 2.5\n");
        check("a 1.23456789012e2\nb 5e-10\nc 1e-400\nd 0e9\n", "a 123.456789012\nb 0.000000001\n");
        check_warns(
            b"a 1\na 1e20\na 1e999\n",
            "a 1\n",
            &["2 lines were skipped: the count is out of range (x:2, x:3)"],
        );
        for text in ["a 1\na e5\n", "a 1\na 1e\n", "a 1\na 1e+\n", "a 1\na 1.e5x\n", "a 1\na .e5\n"]
        {
            check_warns(text.as_bytes(), "a 1\n", &["1 line without a count was skipped (x:2)"]);
        }
    }

    #[test]
    fn counts_with_ten_decimals_and_more_are_rounded_not_dropped() {
        check("a 1.2345678901\n", "a 1.23456789\n");
        check("a 0.12345678950000000\nb 0.99999999999\n", "a 0.12345679\nb 1\n");
        check("a 3.3333333333333335\n", "a 3.333333333\n");
        check_warns(
            b"a 1\na 1.0123456789.5\n",
            "a 1\n",
            &["1 line without a count was skipped (x:2)"],
        );
    }

    #[test]
    fn lines_that_are_not_understood_are_counted_and_named() {
        check_warns(
            b"a;b 1\na;b\na;b 1x\na;b -3\n5\na 1.2.3\n",
            "a;b 1\n",
            &["5 lines without a count were skipped (x:2, x:3, x:4, \u{2026})"],
        );
        check_warns(
            b"a 1\na 18446744073709551616\nb 0.5\n",
            "a 1\nb 0.5\n",
            &["1 line was skipped: the count is out of range (x:2)"],
        );
        check_warns(
            b"a;b\xff 1\na;b\xfe 2\n",
            "a;b\u{fffd} 3\n",
            &["2 lines had bytes that are not UTF-8, now replaced (x:1, x:2)"],
        );
    }

    #[test]
    fn several_files_are_added_up() {
        let inputs = vec![Input::bytes("a", "m;a 1\n"), Input::bytes("b", "m;a 2.5\nm;b 1\n")];
        let (profile, _) = read(inputs, &Options::default()).expect("both are folded text");
        assert_eq!(folded(&profile), "m;a 3.5\nm;b 1\n");
        let inputs = vec![Input::bytes("a", "m;a 1\n"), Input::bytes("b", "m;a 2 3\n")];
        let error = read(inputs, &Options::default()).expect_err("one count and two");
        assert_eq!(
            error.to_string(),
            "add b, which counts before (no unit), after (no unit), to what counts value (no unit)"
        );
    }

    fn fold_in_pieces(text: &[u8], size: usize) -> (String, Vec<String>) {
        let source = Box::new(Cursor::new(text.to_vec()));
        let chunks = Chunks::with_size(source, last_line_end, size);
        let reading = read_chunks(chunks, has_two_counts(text), &Options::default(), "x");
        (folded(&reading.profile), shown(&reading.warnings))
    }

    #[test]
    fn a_carriage_return_within_a_line_is_the_same_in_pieces() {
        let text = b"; 1\r\n11.\r#;a\n1;;.a \ra\r\n#;1\r#\n11..a#.11#1\n#1.\r\n;;1\r11\n";
        assert_eq!(fold_in_pieces(text, 1), fold(text));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "([ab;. 1-9#\r]{0,12}\n){0,30}", size in 1usize..64) {
            let whole = fold(text.as_bytes());
            prop_assert_eq!(fold_in_pieces(text.as_bytes(), size), whole);
        }

        #[test]
        fn what_was_written_is_read_again(text in "([ab;. 1-9]{0,12} [1-9]\n){0,30}") {
            let (once, _) = fold(text.as_bytes());
            // A name may end in a blank and a number. If every name does, the lines look like two
            // counts, and nothing in the format distinguishes them.
            let two = |text: &str| has_two_counts(text.as_bytes());
            prop_assume!(two(&text) || !two(&once));
            let (twice, warnings) = fold(once.as_bytes());
            prop_assert_eq!(once, twice);
            prop_assert_eq!(warnings, Vec::<String>::new());
        }
    }
}
