//! Merges folded text of two sides into one text with two counts, line by line.
//!
//! ```text
//! before: java;read 14     after: java;read 17     both: java;read 14 17
//!         java;sort 9             java;poll 1            java;poll 0 1
//!                                                        java;sort 9 0
//! ```
//!
//! If only the counts change, frames need not be parsed: a stack is the text before its count. This takes less than half
//! of the time of two trees. It works for plain text whose lines are written unchanged. Lines that would be rewritten
//! (mangled names, decimals, frames without a name, bytes that are not UTF-8) or that cause a warning need the
//! [reader](crate::Reader): [`FoldedColumns::of_files`] then returns `None`.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::huge_text::HugeText;
use crate::input::Input;
use crate::read::folded::{CHUNK, FOLDED, has_two_counts, last_line_end};
use crate::read::reader_of;

/// Stacks of folded text, each with its count before and after.
#[derive(Debug)]
pub struct FoldedColumns {
    /// A line end, then the stacks, each followed by its blank and a line end, which sorts before all bytes of a stack.
    text: HugeText,
    rows: Vec<Row>,
    /// Hash and row of each stack.
    index: HashTable<(u32, u32)>,
    totals: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    length: u32,
    values: [u64; 2],
}

/// A line that is not counted yet.
struct Line<'a> {
    stack: &'a [u8],
    hash: u32,
    value: u64,
}

/// Number of lines that are looked up at once: enough to have many memory accesses in flight, and few enough that the
/// data is still in the cache when it is used.
const BATCH: usize = 128;

/// Size of the output buffer in bytes.
const BUFFER: usize = 256 << 10;

/// Maximum number of bytes that are reserved for text in advance.
const MOST_ROOM: usize = 64 << 20;

/// Number of bytes that are checked at once.
const BLOCK: usize = 32;

/// Number of line ends appended to a text, so that it ends with a whole block and each of its bytes has successors.
const AFTER: usize = BLOCK + 3;

/// Maximum number of stacks that are sorted by comparing their texts.
const FEW: usize = 16;

impl FoldedColumns {
    /// Reads the stacks of the files of both sides. `None` if a file is not plain folded text in a regular file, or
    /// cannot be read: the error is then reported when the file is read like any other input.
    pub fn of_files(before: &[PathBuf], after: &[PathBuf]) -> Option<Self> {
        // Most stacks are in both sides.
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |of| of.len() as usize);
        let mut stacks = Self::new(before.iter().map(length).sum())?;
        for (side, paths) in [before, after].into_iter().enumerate() {
            for path in paths {
                // An input that can be read only once is left to the reader.
                let is_file = path.as_os_str() != "-" && path.is_file();
                stacks.add(is_file.then(|| Input::open(path).ok()).flatten()?, side)?;
            }
        }
        Some(stacks)
    }

    /// An empty table. `room` is the expected number of bytes of text.
    fn new(room: usize) -> Option<Self> {
        let mut text = HugeText::with_room(room.min(MOST_ROOM)).ok()?;
        text.push(b"\n").ok()?;
        Some(Self { text, rows: Vec::new(), index: HashTable::new(), totals: [0; 2] })
    }

    /// Adds the counts of an input of side 0 (before) or 1 (after). `None` if it is not plain folded text in a regular
    /// file, or cannot be read; the table must then be discarded.
    fn add(&mut self, input: Input, side: usize) -> Option<()> {
        let head = input.begin().ok()?;
        let reader = reader_of(&head, None).ok()?;
        let is_plain = reader.name() == FOLDED && !has_two_counts(head.bytes());
        if head.file().is_none() || !is_plain {
            return None;
        }
        let before = self.totals[side];
        let chunks = Chunks::with_size(head.into_stream(), last_line_end, CHUNK);
        let (mut text, mut next) = (Vec::new(), 0);
        while chunks.next(&mut text).is_some() {
            let known = self.text.len();
            self.add_lines(&text, side, &mut next)?;
            self.is_plain_from(known)?.then_some(())?;
        }
        let is_whole = chunks.into_error().is_none();
        (is_whole && self.totals[side] > before).then_some(())
    }

    /// Adds the counts of lines of text. `next` is the row after the row of the previous line: two files are often in
    /// the same order.
    fn add_lines(&mut self, text: &[u8], side: usize, next: &mut usize) -> Option<()> {
        let hasher = FixedState::with_seed(0);
        let mut batch = Vec::with_capacity(BATCH);
        let mut at = 0;
        while at < text.len() {
            let length = memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
            let line = &text[at..at + length];
            at += length + 1;
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let (stack, value) = split(line)?;
            self.totals[side] = self.totals[side].checked_add(value)?;
            if let Some(row) = self.rows.get_mut(*next)
                && self.text[row.place()] == *stack
            {
                row.values[side] += value;
                *next += 1;
                continue;
            }
            batch.push(Line { stack, hash: hasher.hash_one(stack) as u32, value });
            if batch.len() == BATCH {
                self.look_up(&mut batch, side, next)?;
            }
        }
        self.look_up(&mut batch, side, next)
    }

    /// Counts a batch of lines. `None` if there are too many stacks.
    fn look_up(&mut self, batch: &mut Vec<Line<'_>>, side: usize, next: &mut usize) -> Option<()> {
        // Prefetches the memory that will be needed: these loads do not depend on each other, so that the CPU overlaps
        // them.
        let known = |line: &Line<'_>| {
            let found = self.index.find(spread(line.hash), |&(hash, _)| hash == line.hash);
            found.map_or(0, |&(_, row)| self.text[self.rows[row as usize].start])
        };
        std::hint::black_box(batch.iter().fold(0, |seen, line| seen ^ known(line)));
        for Line { stack, hash, value } in batch.drain(..) {
            let Self { text, rows, index, .. } = self;
            let is_it = |&(other, row): &(u32, u32)| {
                other == hash && text[rows[row as usize].place()] == *stack
            };
            let row = match index.find(spread(hash), is_it) {
                Some(&(_, row)) => row as usize,
                None => {
                    let row = rows.len();
                    let new = (hash, u32::try_from(row).ok()?);
                    index.insert_unique(spread(hash), new, |&(hash, _)| spread(hash));
                    let length = u32::try_from(stack.len()).ok()?;
                    rows.push(Row { start: text.len(), length, values: [0; 2] });
                    text.push(stack).ok()?;
                    text.push(b"\n").ok()?;
                    row
                }
            };
            self.rows[row].values[side] += value;
            *next = row + 1;
        }
        Some(())
    }

    /// Returns true if the stacks from offset `known` to the end of the text would be written unchanged by the trees,
    /// too.
    fn is_plain_from(&mut self, known: usize) -> Option<bool> {
        let length = self.text.len();
        self.text.push(&[b'\n'; AFTER]).ok()?;
        // Begins with the line end before the first stack.
        let is_plain = is_plain(&self.text[known - 1..]);
        self.text.truncate(length);
        Some(is_plain)
    }

    /// Sums of the counts before and after.
    pub fn totals(&self) -> [u64; 2] {
        self.totals
    }

    /// Replaces each count before by `new` of it.
    pub fn map_before(&mut self, new: impl Fn(u64) -> u64) {
        for row in &mut self.rows {
            row.values[0] = new(row.values[0]);
        }
    }

    /// Writes the stacks that have a count, sorted by the bytes of their lines.
    ///
    /// # Errors
    ///
    /// If writing to `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut order = self.sorted();
        let mut lines = Vec::with_capacity(BUFFER + (BUFFER >> 2));
        let (mut at, mut near) = (0, 0);
        while at < order.len() {
            if at >= near {
                near = order.len().min(at + BATCH);
                self.fetch(&order[at..near]);
            }
            // A stack may begin with the whole text of another one and its blank (`f ` and `f 1;g `): then the counts
            // decide.
            let first = self.stack(order[at].row);
            let is_alike = |sorted: &&Sorted| {
                let stack = self.stack(sorted.row);
                stack.get(first.len() - 1) == Some(&b' ') && stack.starts_with(first)
            };
            let group = 1 + order[at + 1..].iter().take_while(is_alike).count();
            let group = &mut order[at..at + group];
            at += group.len();
            if group.len() > 1 {
                group.sort_by_cached_key(|sorted| {
                    let mut line = Vec::new();
                    self.push_line(&mut line, sorted.row);
                    line
                });
            }
            for sorted in group {
                self.push_line(&mut lines, sorted.row);
            }
            if lines.len() >= BUFFER {
                out.write_all(&lines)?;
                lines.clear();
            }
        }
        out.write_all(&lines)
    }

    /// Prefetches the memory that is needed to write these lines, as [`look_up`](Self::look_up) does.
    fn fetch(&self, lines: &[Sorted]) {
        const CACHE_LINE: usize = 64;
        let look = |seen, sorted: &Sorted| {
            let Row { start, length, .. } = self.rows[sorted.row];
            let places = (start..start + length as usize).step_by(CACHE_LINE);
            places.take(8).fold(seen, |seen, at| seen ^ self.text[at])
        };
        std::hint::black_box(lines.iter().fold(0, look));
    }

    fn push_line(&self, lines: &mut Vec<u8>, row: usize) {
        let [before, after] = self.rows[row].values;
        if [before, after] == [0, 0] {
            return;
        }
        let mut buffer = itoa::Buffer::new();
        lines.extend_from_slice(self.stack(row));
        lines.extend_from_slice(buffer.format(before).as_bytes());
        lines.push(b' ');
        lines.extend_from_slice(buffer.format(after).as_bytes());
        lines.push(b'\n');
    }

    /// Text of a stack, including the blank after it.
    fn stack(&self, row: usize) -> &[u8] {
        &self.text[self.rows[row].place()]
    }

    /// All rows, sorted by their stacks.
    fn sorted(&self) -> Vec<Sorted> {
        let sorted = |(row, of): (usize, &Row)| Sorted { word: 0, start: of.start, row };
        let mut order: Vec<Sorted> = self.rows.iter().enumerate().map(sorted).collect();
        // Not recursive: the input decides how long the common prefixes of stacks are.
        let mut to_sort = vec![(0..order.len(), 0)];
        while let Some((range, from)) = to_sort.pop() {
            let stacks = &mut order[range.clone()];
            if stacks.len() <= FEW {
                stacks.sort_unstable_by(|a, b| self.cmp(a.start + from, b.start + from));
                continue;
            }
            let from = self.next_words(stacks, from);
            // This sort is fast if the stacks are already in order.
            stacks.sort_by_key(|sorted| sorted.word);
            let mut at = range.start;
            for equal in stacks.chunk_by(|a, b| a.word == b.word) {
                if equal.len() > 1 {
                    to_sort.push((at..at + equal.len(), from + size_of::<u128>()));
                }
                at += equal.len();
            }
        }
        order
    }

    /// Compares two stacks from given offsets in the text on.
    fn cmp(&self, mut a: usize, mut b: usize) -> Ordering {
        while a != b {
            let order = word(&self.text[a..]).cmp(&word(&self.text[b..]));
            if order != Ordering::Equal {
                return order;
            }
            a += size_of::<u128>();
            b += size_of::<u128>();
        }
        Ordering::Equal
    }

    /// Loads the next word in which these stacks, which have equal bytes before offset `from`, differ. Returns its
    /// offset in the stacks.
    fn next_words(&self, stacks: &mut [Sorted], mut from: usize) -> usize {
        loop {
            for sorted in &mut *stacks {
                sorted.word = word(&self.text[sorted.start + from..]);
            }
            let first = stacks[0].word;
            if stacks.iter().any(|sorted| sorted.word != first) {
                return from;
            }
            from += size_of::<u128>();
        }
    }
}

/// A row while it is sorted.
#[derive(Clone, Copy)]
struct Sorted {
    /// 16 bytes of the stack as a number with the same sort order.
    word: u128,
    start: usize,
    row: usize,
}

impl Row {
    fn place(&self) -> Range<usize> {
        self.start..self.start + self.length as usize
    }
}

/// Hash for the table, which uses the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The next bytes as a number with the same sort order. Bytes after the end of the stack make no difference: no other
/// stack ends at the same position.
fn word(text: &[u8]) -> u128 {
    let bytes = text.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text);
        bytes
    });
    u128::from_be_bytes(bytes)
}

/// Flag: a line would be rewritten.
const REWRITTEN: u8 = 1;
const NOT_ASCII: u8 = 2;
const MAY_END_IN_HASH: u8 = 4;

/// Returns true if all stacks are written unchanged: no name is rewritten. Returns false also for names that only look
/// mangled. The text must begin with a line end and end in [`AFTER`] line ends.
fn is_plain(text: &[u8]) -> bool {
    let seen = flags(text);
    let is_text = || {
        let byte_order_mark = "\u{feff}".as_bytes();
        std::str::from_utf8(text).is_ok()
            && memchr::memmem::find(text, byte_order_mark).is_none()
            && !has_control(text)
    };
    seen & REWRITTEN == 0
        && (seen & NOT_ASCII == 0 || is_text())
        && (seen & MAY_END_IN_HASH == 0 || !has_hash(text))
}

/// Flags of the kinds of bytes in a text. The last [`AFTER`] bytes are only examined as successors of other bytes.
fn flags(text: &[u8]) -> u8 {
    // Examines a byte and its successors without a branch, so that the compiler vectorizes a block.
    let blocks = |from: usize| text[from..].as_chunks::<BLOCK>().0;
    let next = blocks(1).iter().zip(blocks(2)).zip(blocks(3));
    let mut all = [0; BLOCK];
    for (a, ((b, c), d)) in blocks(0).iter().zip(next) {
        for (at, seen) in all.iter_mut().enumerate() {
            let [a, b, c, d] = [a[at], b[at], c[at], d[at]];
            let begins_name = (a == b';') | (a == b'\n');
            let is_trimmed = ((a == b' ') & (b == b';')) | ((a == b';') & (b == b' '));
            let is_nameless = begins_name & (b == b';');
            let is_tag = |byte: u8| (byte == b'Z') | (byte == b'R');
            // On macOS, names have an additional leading `_`.
            let is_mangled = begins_name & (b == b'_') & (is_tag(c) | ((c == b'_') & is_tag(d)));
            let is_control = ((a < b' ') & (a != b'\n')) | (a == 0x7f);
            let is_hex = |byte: u8| (byte.wrapping_sub(b'0') < 10) | (byte.wrapping_sub(b'a') < 6);
            let may_be_hash = (a == b':') & (b == b'h') & is_hex(c) & is_hex(d);
            let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
            *seen |= flag(is_trimmed | is_nameless | is_mangled | is_control, REWRITTEN)
                | flag(!a.is_ascii(), NOT_ASCII)
                | flag(may_be_hash, MAY_END_IN_HASH);
        }
    }
    all.iter().fold(0, |seen, one| seen | one)
}

/// Returns true if a text contains control characters beyond ASCII (C1), of two bytes each.
fn has_control(text: &[u8]) -> bool {
    let is_control = |at: usize| matches!(text.get(at + 1), Some(0x80..=0x9f));
    memchr::memchr_iter(0xc2, text).any(is_control)
}

/// Returns true if a name may end in a hash of the Rust compiler, `::h0123456789abcdef`.
fn has_hash(text: &[u8]) -> bool {
    let is_hash = |at: usize| {
        let hash = text.get(at + 3..at + 19);
        hash.is_some_and(|hash| hash.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    memchr::memmem::find_iter(text, b"::h").any(is_hash)
}

/// Splits a line into the stack, including the blank after it, and the count. `None` if the line has another form.
fn split(line: &[u8]) -> Option<(&[u8], u64)> {
    // More digits might not fit in 64 bits.
    const MOST_DIGITS: usize = 19;

    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (stack, count) = line.split_at(line.len() - digits);
    let is_parted = matches!(stack, [.., last, b' '] if *last != b' ');
    let value = || count.iter().fold(0, |value, &digit| value * 10 + u64::from(digit - b'0'));
    (is_parted && (1..=MOST_DIGITS).contains(&digits)).then(|| (stack, value()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The two columns, if both texts are plain.
    fn columns(before: &str, after: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&old, before).expect("a temporary file");
        std::fs::write(&new, after).expect("a temporary file");
        let stacks = FoldedColumns::of_files(&[old], &[new])?;
        let mut out = Vec::new();
        stacks.write(&mut out).expect("to memory");
        Some(String::from_utf8(out).expect("folded text is UTF-8"))
    }

    #[test]
    fn counts_of_both_sides_stand_side_by_side() {
        let both = columns("b;c 1\na;b 2\nb;c 4\n", "# remark\na;c 7\n\nb;c 0\nb;c 8");
        assert_eq!(both.as_deref(), Some("a;b 2 0\na;c 0 7\nb;c 5 8\n"));
        let none = columns("a;b 0\na;c 1\n", "a;b 0\na;c 1\n");
        assert_eq!(none.as_deref(), Some("a;c 1 1\n"));
    }

    #[test]
    fn a_blank_in_a_name_sorts_as_in_lines() {
        let both = columns("a;f 5\na;f 1 2\na;f 6 2\n", "a;f 1\na;f.g 7\na;f;g 1\n");
        assert_eq!(both.as_deref(), Some("a;f 1 2 0\na;f 5 1\na;f 6 2 0\na;f.g 0 7\na;f;g 0 1\n"));
    }

    #[test]
    fn lines_that_are_rewritten_or_warned_of_are_none_of_these() {
        let is_plain = |line: &str| columns(&format!("main;a 1\n{line}\n"), "main;a 1\n").is_some();
        for line in ["a::b;c d 5", "é;ü\u{a0} 3", " a;b 3", "a;std::hash 2", "x_Zy;a_R 3"] {
            assert!(is_plain(line), "{line:?}");
        }
        for line in [
            "a;b",
            "a;b 1.5",
            "a;b  1",
            "a;b\t1",
            "a;b 1\r",
            "a;b 1 ",
            "a;;b 1",
            ";a 1",
            "a; 1",
            "a ;b 1",
            " 1",
            "a;b -1",
            "a\0;b 1",
            "a\u{1b}[31m;b 1",
            "a\u{7f};b 1",
            "a\u{9b}31m;b 1",
            "a;b 18446744073709551615",
            "a;_ZN3foo3barEv 1",
            "a;__ZN3foo3barEv 1",
            "_RNvC6_123foo3bar;a 1",
            "a;core::fmt::Formatter::pad::h0123456789abcdef 1",
        ] {
            assert!(!is_plain(line), "{line:?}");
        }
        assert_eq!(columns("a;b 1 2\n", "a;b 1\n"), None);
        assert_eq!(columns("_ZN3foo3barEv;a 1\n", "a;b 1\n"), None);
        assert_eq!(columns("a;b 1\n", "# nothing\n"), None);
        assert_eq!(columns("a;b 9999999999999999999\na;c 9999999999999999999\n", "a;b 1\n"), None);
    }

    #[test]
    fn sorting_is_that_of_bytes() {
        let mut generator = StdRng::seed_from_u64(7);
        let mut random = |below: u64| generator.random_range(0..below);
        for round in 0..200 {
            let mut sides = ["main 1\n", "main 1\n"].map(str::to_owned);
            let mut expect = BTreeMap::from([("main".to_owned(), [1, 1])]);
            for _ in 0..random(300) {
                let names = ["a", "ab", "function_of_some_length", "a b", "a 1", "é", "a.b", "~"];
                let mut path = vec!["main"; random(30) as usize];
                path.extend((0..=random(4)).map(|_| names[random(8) as usize]));
                let (stack, side, count) = (path.join(";"), random(2) as usize, random(1000));
                sides[side] += &format!("{stack} {count}\n");
                expect.entry(stack).or_default()[side] += count;
            }
            let expect = expect.into_iter().filter(|(_, counts)| *counts != [0, 0]);
            let mut expect: Vec<String> =
                expect.map(|(stack, [old, new])| format!("{stack} {old} {new}\n")).collect();
            expect.sort();
            let both = columns(&sides[0], &sides[1]);
            assert_eq!(both, Some(expect.concat()), "round {round}");
        }
    }
}
