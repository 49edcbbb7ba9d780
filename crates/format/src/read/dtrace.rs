//! Reader of DTrace's output of aggregations by stack, such as `@[execname, stack(), ustack()] = count()`.
//!
//! ```text
//! CPU     ID                    FUNCTION:NAME
//!   0  64091                        :tick-60s
//!
//!   bash
//!               genunix`copen+0x20c
//!               unix`sys_syscall+0x17a
//!
//!               libc.so.1`__open+0xa
//!               bash`main+0x1f
//!                12
//! ```
//!
//! - Frames are leaf first. A blank line separates kernel stack and user stack; the kernel stack is the one with a
//!   frame in `unix`, `genunix`, `kernel` or a similar module.
//! - The module remains part of a function's name, as DTrace's users know it: ``genunix`copen``.
//! - Other keys are on a line before the stacks, or after them on the line with the count, both indented by one or
//!   two blanks: they are taken as the process. Java methods from `jstack()` have no module.
//! - Inlined Java methods are on one line, separated by `->`, caller first.
//! - Distributions (`quantize()`) are left out, with a warning, and so are output of the script itself, counts of
//!   keys alone, and stacks without a count, as the action `stack()` prints them. Headings and messages are skipped;
//!   samples that messages report as dropped are counted as lost.
//! - A count without a stack is shown as `[unknown]`: it is the count of an empty stack. `@ = count()` prints the
//!   same, so there is a warning.
//!
//! The reader is fast because profiles are repetitive. All frames above a count are looked up as one block of bytes
//! in a cache of earlier blocks. New blocks mostly differ in offsets only: a line is first compared with the line
//! that followed the same previous line before, and the functions of the block are looked up as one sequence.

mod lines;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{FrameId, FrameKind, Sample, StackId, ThreadId, ValueType};

use self::lines::{
    Ending, KEY_INDENT, drops, end_of_block, is_bar, is_class_path, is_heading, is_indented,
    is_kernel_module, is_message, last_cut, module, probe_row, words,
};
use super::text::{Collector, first_lines, without_offset};
use crate::Head;
use crate::byte_cache::ByteCache;
use crate::bytes;
use crate::chunks::{Chunks, count_lines, drop_carriage_returns};
use crate::names::{is_java, tidy_name};
use crate::perf_frame::without_offset as hex_offset_dropped;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{LocalWarnings, WarningKind};

/// Reader of DTrace output.
pub struct Dtrace;

/// Capacity of the cache of stacks, in bytes.
const BLOCKS: usize = 16 << 20;
/// Capacity of the cache of function sequences, in bytes: four for each function.
const SEQUENCES: usize = 16 << 20;
/// Capacity of the cache of frames, in bytes.
const NAMES: usize = 16 << 20;

/// Heading of a distribution.
const DISTRIBUTION: &[u8] = b"- Distribution -";

impl Reader for Dtrace {
    fn name(&self) -> &'static str {
        "dtrace"
    }

    fn written_by(&self) -> &'static str {
        "dtrace -n 'profile-97 { @[stack(), ustack()] = count(); }'"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut frames = 0;
        for line in first_lines(head).take(2000) {
            let line = line.as_bytes();
            if frames > 0 && matches!(end_of_block(line), Some(Ending { .. })) {
                return true;
            }
            let text = line.trim_ascii_start();
            let is_frame = text.len() < line.len() && module(text).is_some();
            // Frames without a module may occur between frames with one.
            frames = if is_frame || (frames > 0 && !text.is_empty()) { frames + 1 } else { 0 };
        }
        false
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let chunks = Chunks::new(input.into_stream(), last_cut);
        let mut parser = Parser::new(options);
        let mut lines = Vec::new();
        let mut text = Vec::new();
        while let Some(chunk) = chunks.next(&mut text) {
            lines.push(count_lines(&text));
            drop_carriage_returns(&mut text);
            parser.chunk(&text, chunk);
        }
        let mut warnings = LocalWarnings::gather(vec![parser.warnings], &name, &lines);
        if let Some(cause) = chunks.into_error() {
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        let mut out = parser.out;
        for (&(stack, thread), &value) in parser.rows.iter().zip(&parser.values) {
            out.profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
        }
        Ok(out.reading(warnings))
    }
}

struct Parser {
    out: Collector,
    warnings: LocalWarnings,
    /// The row of each cached stack, by its text.
    blocks: ByteCache<u32>,
    /// Decides whether blocks are looked up and cached.
    benefit: Benefit,
    /// The row of each function sequence (indices in `known`), tagged with its thread.
    sequences: ByteCache<u32>,
    /// The function sequence of the current block.
    sequence: Vec<u8>,
    /// Index in `known` of each frame with a module, by its text without the offset.
    names: ByteCache<u32>,
    known: Vec<Known>,
    /// The texts of the functions in `known`.
    texts: Vec<u8>,
    rows: Vec<(StackId, ThreadId)>,
    values: Vec<u64>,
    row_of: HashMap<(StackId, ThreadId), u32, FixedState>,
    /// The lines of the current stack, leaf first.
    entries: Vec<Entry>,
    block: Block,
}

/// A function in a module.
#[derive(Clone, Copy)]
struct Known {
    /// The frames as user code and as kernel code, once interned.
    frames: [Option<FrameId>; 2],
    /// True if the module is the kernel itself.
    is_kernel: bool,
    /// Range of its text, without an offset, in `texts`.
    text: Span,
    /// Indices of the functions on the following line, from the last two occurrences.
    nexts: [u32; 2],
}

/// The state of the current stack, besides its entries.
struct Block {
    /// Name of the process, if a line before the stack has it.
    name: Option<String>,
    has_distribution: bool,
    /// True if the block caused a warning, so that it must be parsed each time and not cached.
    is_warned_of: bool,
    /// True if frames begin in the first column.
    is_flush: bool,
    /// Indentation of frames, in bytes.
    indent: usize,
    /// Index in `known` of the previous line, if it is a function.
    before: u32,
}

impl Block {
    fn new(indent: usize) -> Self {
        Self {
            name: None,
            has_distribution: false,
            is_warned_of: false,
            is_flush: false,
            indent,
            before: NO_PLACE,
        }
    }
}

/// A chunk's number, and a function that returns the number of lines in the chunk before a position.
type Place<'a> = (u64, &'a dyn Fn() -> u64);

/// Hit statistics of the cache of blocks. If blocks never repeat, looking them up and caching them costs more than
/// everything else.
#[derive(Default)]
struct Benefit {
    found: u32,
    missed: u32,
    /// Number of blocks since one was looked up.
    skipped: u32,
}

impl Benefit {
    fn count(&mut self, found: bool) {
        *(if found { &mut self.found } else { &mut self.missed }) += 1;
        if self.found + self.missed >= 1 << 16 {
            self.found /= 2;
            self.missed /= 2;
        }
    }

    /// True if the next block should be looked up and cached: always, or, if there are hardly any hits, for one block
    /// in 16, to notice when that changes.
    fn is_expected(&mut self) -> bool {
        const MANY: u32 = 1 << 14;
        self.skipped = (self.skipped + 1) % 16;
        self.missed < MANY || self.found >= self.missed / 64 || self.skipped == 0
    }
}

/// A line of a stack.
#[derive(Clone, Copy)]
enum Entry {
    /// Index in `known`, and range of the text in the chunk.
    Known(u32, Span),
    /// Any other frame: range of the text in the chunk.
    Text(Span),
    /// A blank line, after which another stack begins.
    Blank,
}

/// Start and end of a range in a text.
type Span = (usize, usize);

/// The value for "no index in `known`".
const NO_PLACE: u32 = u32::MAX;

impl Parser {
    fn new(options: &Options) -> Self {
        Self {
            out: Collector::new(ValueType::samples()).addresses(options),
            warnings: LocalWarnings::default(),
            blocks: ByteCache::new(BLOCKS),
            benefit: Benefit::default(),
            sequences: ByteCache::new(SEQUENCES),
            sequence: Vec::new(),
            names: ByteCache::new(NAMES),
            known: Vec::new(),
            texts: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            row_of: HashMap::default(),
            entries: Vec::new(),
            block: Block::new(0),
        }
    }

    fn chunk(&mut self, text: &[u8], chunk: u64) {
        let mut begin = 0;
        let mut at = 0;
        self.begin_block();
        let mut remembers = self.benefit.is_expected();
        while at < text.len() {
            if !remembers && let Some(next) = self.expected_line(text, at) {
                at = next;
                continue;
            }
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            if let Some(ending) = end_of_block(&text[at..end]) {
                let lines_before = || memchr::memchr_iter(b'\n', &text[..at]).count() as u64;
                let place = (chunk, &lines_before as &dyn Fn() -> u64);
                match bytes::decimal(ending.count) {
                    Some(count) => {
                        let row = match remembers {
                            true => self.remembered_row(text, (begin, at), ending.key, place),
                            false => self.row(text, ending.key, place),
                        };
                        let sum = row.and_then(|row| self.values.get_mut(row as usize));
                        if let Some(sum) = sum {
                            *sum = sum.saturating_add(count);
                        }
                    }
                    None => self.warnings.add(WarningKind::CountOutOfRange, chunk, lines_before),
                }
                begin = end + 1;
                self.begin_block();
                remembers = self.benefit.is_expected();
            } else if !remembers {
                self.line(text, chunk, at, end);
            }
            at = end + 1;
        }
        if remembers {
            self.lines(text, chunk, (begin, text.len()));
        }
        let rest = text.get(begin..).unwrap_or_default();
        let lines_before = || memchr::memchr_iter(b'\n', &text[..begin]).count() as u64;
        self.warn_of_distribution((chunk, &lines_before));
        if self.entries.iter().any(|entry| matches!(entry, Entry::Known(..)))
            && rest.split(|&byte| byte == b'\n').any(|line| module(line.trim_ascii()).is_some())
        {
            self.warnings.add(WarningKind::NoCount, chunk, lines_before);
        }
    }

    /// Returns the row of a stack, given the text before its count; `None` if the text has no stack.
    fn remembered_row(
        &mut self,
        text: &[u8],
        (begin, end): Span,
        key: &[u8],
        place: Place<'_>,
    ) -> Option<u32> {
        let block = &text[begin..end];
        let hash = self.blocks.hash(block);
        // A key after the stack is rare; such blocks are parsed each time, and so are blocks that cause warnings.
        if key.is_empty() {
            let row = self.blocks.get(hash, block);
            self.benefit.count(row.is_some());
            if row.is_some() {
                return row;
            }
        }
        self.lines(text, place.0, (begin, end));
        let row = self.row(text, key, place)?;
        if key.is_empty() && !self.block.has_distribution && !self.block.is_warned_of {
            self.blocks.insert(hash, block, row);
        }
        Some(row)
    }

    /// Adds the lines of a block.
    fn lines(&mut self, text: &[u8], chunk: u64, (begin, end): Span) {
        let mut at = begin;
        while at < end {
            at = self.expected_line(text, at).unwrap_or_else(|| {
                let end = memchr::memchr(b'\n', &text[at..end]).map_or(end, |length| at + length);
                self.line(text, chunk, at, end);
                end + 1
            });
        }
    }

    fn warn_of_distribution(&mut self, place: Place<'_>) {
        if self.block.has_distribution {
            let kind = WarningKind::NoStacks("a distribution".to_owned());
            self.warnings.add(kind, place.0, place.1);
        }
    }

    /// Returns the row of the current stack.
    fn row(&mut self, text: &[u8], key: &[u8], place: Place<'_>) -> Option<u32> {
        self.warn_of_distribution(place);
        if self.entries.iter().all(|entry| matches!(entry, Entry::Blank)) {
            self.block.is_warned_of = true;
            if self.block.has_distribution {
                return None;
            }
            if !key.is_empty() {
                let kind = WarningKind::NoStacks("a count of a key alone".to_owned());
                self.warnings.add(kind, place.0, place.1);
                return None;
            }
            let said = "counts without a stack are shown as [unknown]".to_owned();
            self.warnings.add(WarningKind::NotHeld(said), place.0, place.1);
        }
        let thread = match self.block.name.take() {
            None if key.is_empty() => ThreadId::UNKNOWN,
            name => self.out.thread_named(&name.unwrap_or_else(|| words(key))),
        };
        Some(self.row_of_entries(text, thread, place))
    }

    /// Returns the row of the stack in `entries`.
    fn row_of_entries(&mut self, text: &[u8], thread: ThreadId, place: Place<'_>) -> u32 {
        let is_sequence = self.encode_sequence();
        let hash = self.sequences.hash_tagged(thread.0, &self.sequence);
        if is_sequence && let Some(row) = self.sequences.get_tagged(hash, thread.0, &self.sequence)
        {
            return row;
        }
        self.push_entries(text, place);
        let stack = self.out.profile.stacks.intern_path(self.out.frames.drain(..));
        let (rows, values) = (&mut self.rows, &mut self.values);
        let row = *self.row_of.entry((stack, thread)).or_insert_with(|| {
            rows.push((stack, thread));
            values.push(0);
            (rows.len() - 1) as u32
        });
        if is_sequence {
            self.sequences.insert_tagged(hash, thread.0, &self.sequence, row);
        }
        row
    }

    /// Encodes the entries as indices in `known` into `sequence`; returns `false` if an entry has no index.
    fn encode_sequence(&mut self) -> bool {
        self.sequence.clear();
        for entry in &self.entries {
            let place = match entry {
                Entry::Known(known, _) => *known,
                Entry::Blank => NO_PLACE,
                Entry::Text(_) => return false,
            };
            self.sequence.extend_from_slice(&place.to_le_bytes());
        }
        true
    }

    fn begin_block(&mut self) {
        self.entries.clear();
        self.block = Block::new(self.block.indent);
    }

    /// Adds the line at `at` if it is a frame of a function that recently followed the previous line's function, and
    /// returns the start of the next line.
    #[inline]
    fn expected_line(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let begin = at + self.block.indent;
        if !is_indented(&text[at..], self.block.indent) {
            return None;
        }
        let [first, second] = self.known.get(self.block.before as usize)?.nexts;
        let is_next = |next: u32| {
            let name = self.known.get(next as usize)?.text;
            let name = &self.texts[name.0..name.1];
            let (frame, rest) = text[begin..].split_at_checked(name.len())?;
            // A cheap check first: most other names are longer or shorter.
            (rest.first() == Some(&b'+') && bytes::is_same(frame, name)).then_some((next, rest))
        };
        let (next, rest) = is_next(first).or_else(|| is_next(second))?;
        let digits = rest.strip_prefix(b"+0x")?;
        let count = bytes::hex_digits(bytes::block(digits, 0));
        if count == 0 || digits.get(count) != Some(&b'\n') {
            return None;
        }
        let end = text.len() - digits.len() + count;
        self.entries.push(Entry::Known(next, (begin, end)));
        self.block.before = next;
        Some(end + 1)
    }

    /// Parses and adds the line from `at` to `end`.
    fn line(&mut self, all: &[u8], chunk: u64, at: usize, end: usize) {
        let line = &all[at..end];
        let before = std::mem::replace(&mut self.block.before, NO_PLACE);
        if line.trim_ascii_start().is_empty() {
            self.entries.push(Entry::Blank);
            return;
        }
        // Frames have the same indentation.
        if !is_indented(line, self.block.indent) {
            self.block.indent = line.len() - line.trim_ascii_start().len();
        }
        let indent = self.block.indent;
        let text = line[indent..].trim_ascii_end();
        let span = (at + indent, at + indent + text.len());
        if let Some(known) = self.known(text) {
            self.entries.push(Entry::Known(known, span));
            if let Some(before) = self.known.get_mut(before as usize) {
                before.nexts = [known, before.nexts[0]];
            }
            self.block.before = known;
            self.block.is_flush |= indent == 0;
        } else if let Some((kind, count)) = self.other_line(text, indent, span) {
            let lines_before = || memchr::memchr_iter(b'\n', &all[..at]).count() as u64;
            self.block.is_warned_of = true;
            self.warnings.add_many(kind, count, chunk, lines_before);
        }
    }

    /// Adds a line that is not a frame with a module; returns a warning, if any, and its count.
    fn other_line(&mut self, text: &[u8], indent: usize, span: Span) -> Option<(WarningKind, u64)> {
        let not_of_a_stack =
            || (WarningKind::NotHeld("lines that are of no stack were left out".to_owned()), 1);
        if memchr::memmem::find(text, DISTRIBUTION).is_some() {
            // All lines above are the key of the distribution.
            self.entries.clear();
            self.block.has_distribution = true;
            self.block.name = None;
        } else if let Some(has_output) = probe_row(text).or(is_heading(text).then_some(false)) {
            // The lines above do not belong to the lines below.
            let is_frame = |entry: &Entry| !matches!(entry, Entry::Blank);
            let has_stack = self.entries.iter().any(is_frame);
            self.entries.clear();
            self.block.name = None;
            return match has_stack {
                true => Some((WarningKind::NoCount, 1)),
                false => has_output.then(not_of_a_stack),
            };
        } else if is_message(text) {
            return drops(text).map(|count| (WarningKind::LostSamples, count));
        } else if is_bar(text) {
        } else if indent <= KEY_INDENT && indent > 0 {
            let earlier = self.block.name.replace(words(text));
            return earlier.map(|_| not_of_a_stack());
        } else if indent == 0 && !self.block.is_flush && !text.starts_with(b"0x") {
            // Output of the script itself.
            return Some(not_of_a_stack());
        } else {
            self.entries.push(Entry::Text(span));
        }
        None
    }

    /// Returns the index in `known` of a frame with a module.
    fn known(&mut self, text: &[u8]) -> Option<u32> {
        let name = hex_offset_dropped(text);
        let hash = self.names.hash(name);
        if let Some(known) = self.names.get(hash, name) {
            return Some(known);
        }
        let module = module(name)?;
        let place = self.known.len() as u32;
        let start = self.texts.len();
        self.texts.extend_from_slice(name);
        self.known.push(Known {
            frames: [None; 2],
            is_kernel: is_kernel_module(module),
            text: (start, self.texts.len()),
            nexts: [NO_PLACE; 2],
        });
        self.names.insert(hash, name, place);
        Some(place)
    }

    /// Adds the frames of the entries, root first.
    fn push_entries(&mut self, text: &[u8], place: Place<'_>) {
        let entries = std::mem::take(&mut self.entries);
        // The user stack comes after the kernel stack.
        for part in entries.rsplit(|entry| matches!(entry, Entry::Blank)) {
            let is_kernel = part.iter().any(|entry| match entry {
                Entry::Known(known, _) => self.known[*known as usize].is_kernel,
                Entry::Text(_) | Entry::Blank => false,
            });
            for entry in part.iter().rev() {
                let (known, (start, end)) = match *entry {
                    Entry::Known(known, span) => (Some(known as usize), span),
                    Entry::Text(span) => (None, span),
                    Entry::Blank => continue,
                };
                let side = usize::from(is_kernel);
                if let Some(frame) = known.and_then(|known| self.known[known].frames[side]) {
                    self.out.frames.push(frame);
                    continue;
                }
                self.push_text(&text[start..end], is_kernel, place);
                if let Some(known) = known {
                    self.known[known].frames[side] = self.out.frames.last().copied();
                }
            }
        }
        self.entries = entries;
    }

    fn push_text(&mut self, line: &[u8], kernel: bool, place: Place<'_>) {
        let text = String::from_utf8_lossy(line);
        if matches!(text, Cow::Owned(_)) {
            self.warnings.add(WarningKind::InvalidUtf8, place.0, place.1);
        }
        self.push(&text, kernel);
    }

    fn push(&mut self, text: &str, kernel: bool) {
        let symbol = without_offset(text);
        let (module, function) = match module(symbol.as_bytes()) {
            Some(module) => (&symbol[..module.len()], &symbol[module.len() + 1..]),
            None => ("", symbol),
        };
        let is_java_method = module.is_empty() && (is_java(function) || is_class_path(function));
        if is_java_method {
            for (place, method) in function.split("->").enumerate() {
                let kind = if place == 0 { FrameKind::Jit } else { FrameKind::Inlined };
                self.out.frame(&tidy_name(method), "", kind);
            }
            return;
        }
        let kind = if kernel { FrameKind::Kernel } else { FrameKind::User };
        match module {
            "" => self.out.symbol(function, "", kind),
            module => self.out.frame(&tidy_name(symbol), module, kind),
        }
    }
}
