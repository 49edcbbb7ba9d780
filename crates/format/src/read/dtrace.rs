//! What DTrace prints of aggregations by stack, as of `@[execname, stack(), ustack()] = count()`.
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
//! - Frames are leaf first. Those of the kernel and those of the program are parted by a blank line;
//!   the kernel's are those around a frame of `unix`, `genunix`, `kernel` and their like.
//! - The module stays part of a function's name, as DTrace's users know it: ``genunix`copen``.
//! - Other keys stand on a line of their own before the stacks, or after them with the count, both
//!   indented by a blank or two: they are the process. What `jstack()` finds of Java has no module.
//! - Java's inlined methods stand in one line, parted by `->`, the caller first.
//! - Distributions (`quantize()`) are left out, with a warning, and so are headers and messages.
//!
//! What makes it fast: a profile repeats itself. The frames down to a count are looked up as one block
//! of bytes among those seen before, and only if they are new, line by line.

use std::borrow::Cow;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{FrameId, FrameKind, Sample, StackId, ThreadId, ValueType};

use super::text::{Collector, first_lines, without_offset};
use super::{Options, ReadError, Reader, Reading, hex_offset_dropped, is_java, tidy_name};
use crate::Head;
use crate::byte_cache::ByteCache;
use crate::chunks::{Chunks, count_lines, drop_carriage_returns};
use crate::warnings::{LocalWarnings, WarningKind};

/// See the module.
pub struct Dtrace;

/// Bytes of stacks that are remembered.
const BLOCKS: usize = 16 << 20;
/// Bytes of frames that are remembered.
const NAMES: usize = 16 << 20;

/// What stands above the bars of a distribution.
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
            // Frames without a module may stand between those that have one.
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

/// The module in ``genunix`copen``.
fn module(frame: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'`', frame)?;
    let module = &frame[..at];
    let is_name = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'(');
    (at > 0 && at + 1 < frame.len() && module.iter().all(is_name)).then_some(module)
}

/// Whether a line, which is longer, begins with so many blanks and no more.
fn is_indented(line: &[u8], indent: usize) -> bool {
    const BLANKS: &[u8] = &[b' '; 32];
    BLANKS.get(..indent).is_some_and(|blanks| line.starts_with(blanks))
        && !line[indent].is_ascii_whitespace()
}

/// What ends a stack.
struct Ending<'a> {
    /// What stands before the count.
    key: &'a [u8],
    count: &'a [u8],
}

/// Reads a line that is a count, or, less indented than any frame, a key and a count.
#[inline]
fn end_of_block(line: &[u8]) -> Option<Ending<'_>> {
    let text = match line.last()? {
        b'0'..=b'9' => line,
        last if last.is_ascii_whitespace() => line.trim_ascii_end(),
        _ => return None,
    };
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    // Most lines that end with digits are frames: `+0x1a5`.
    if digits == 0
        || text
            .len()
            .checked_sub(digits + 1)
            .is_some_and(|at| !matches!(text[at], b' ' | b'\t' | b'-'))
    {
        return None;
    }
    let text = text.trim_ascii_start();
    let (key, count) = text.split_at(text.len() - digits);
    let (key, sign) = key.strip_suffix(b"-").map_or((key, 0), |key| (key, 1));
    let indented = line.iter().take(KEY_INDENT + 1).take_while(|&&byte| byte == b' ').count();
    let is_end = key.is_empty() || (indented > 0 && indented <= KEY_INDENT && key.ends_with(b" "));
    let count = &text[text.len() - count.len() - sign..];
    is_end.then_some(Ending { key: key.trim_ascii(), count })
}

/// Frames are indented more than this, and keys less.
const KEY_INDENT: usize = 3;

/// The end of the last line in `text` that ends a stack.
fn last_cut(text: &[u8]) -> Option<usize> {
    let mut end = memchr::memrchr(b'\n', text)?;
    loop {
        let start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
        if end_of_block(&text[start..end]).is_some() {
            return Some(end + 1);
        }
        end = start.checked_sub(1)?;
    }
}

struct Parser {
    out: Collector,
    warnings: LocalWarnings,
    /// The row of each stack that was seen.
    blocks: ByteCache<u32>,
    /// The place in `known` of each frame of a module that was seen, by its text without the offset.
    names: ByteCache<u32>,
    known: Vec<Known>,
    rows: Vec<(StackId, ThreadId)>,
    values: Vec<u64>,
    row_of: HashMap<(StackId, ThreadId), u32, FixedState>,
    /// The lines of the stack that is being read, leaf first.
    entries: Vec<Entry>,
}

/// A function in a module.
#[derive(Clone, Copy)]
struct Known {
    /// The frame as one of the program, and as one of the kernel, once either is there.
    frames: [Option<FrameId>; 2],
    /// Whether the module is the kernel itself.
    is_kernel: bool,
}

/// A line of a stack.
#[derive(Clone, Copy)]
enum Entry {
    /// A place in `known`, and that of the text in the block.
    Known(u32, Span),
    /// Any other frame.
    Text(Span),
    /// A blank line: another stack begins.
    Blank,
}

/// From where to where in a block.
type Span = (usize, usize);

impl Parser {
    fn new(options: &Options) -> Self {
        Self {
            out: Collector::new(ValueType::samples()).addresses(options),
            warnings: LocalWarnings::default(),
            blocks: ByteCache::new(BLOCKS),
            names: ByteCache::new(NAMES),
            known: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            row_of: HashMap::default(),
            entries: Vec::new(),
        }
    }

    fn chunk(&mut self, text: &[u8], chunk: u64) {
        let mut begin = 0;
        let mut at = 0;
        while at < text.len() {
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            if let Some(ending) = end_of_block(&text[at..end]) {
                let lines_before = || memchr::memchr_iter(b'\n', &text[..at]).count() as u64;
                let block = &text[begin..at];
                match parse_count(ending.count) {
                    Some(count) => {
                        let row = self.row(block, ending.key, chunk, &lines_before);
                        let sum = row.and_then(|row| self.values.get_mut(row as usize));
                        if let Some(sum) = sum {
                            *sum = sum.saturating_add(count);
                        }
                    }
                    None => self.warnings.add(WarningKind::CountOutOfRange, chunk, lines_before),
                }
                begin = end + 1;
            }
            at = end + 1;
        }
        let rest = text.get(begin..).unwrap_or_default();
        if rest.split(|&byte| byte == b'\n').any(|line| module(line.trim_ascii()).is_some()) {
            let lines_before = || memchr::memchr_iter(b'\n', &text[..begin]).count() as u64;
            self.warnings.add(WarningKind::NoCount, chunk, lines_before);
        }
    }

    /// The row of a stack, as printed before its count; none if there is nothing of the kind.
    fn row(&mut self, block: &[u8], key: &[u8], chunk: u64, line: &dyn Fn() -> u64) -> Option<u32> {
        // A key after the stack is rare; such blocks are parsed each time, and so are those with
        // something to warn of.
        let hash = self.blocks.hash(block);
        if key.is_empty()
            && let Some(row) = self.blocks.get(hash, block)
        {
            return Some(row);
        }
        let has_distribution = memchr::memmem::find(block, DISTRIBUTION).is_some();
        if has_distribution {
            let kind = WarningKind::NoStacks("a distribution".to_owned());
            self.warnings.add(kind, chunk, line);
        }
        let name = self.find_entries(block, key);
        if self.entries.is_empty() {
            return None;
        }
        self.push_entries(block, chunk, line);
        let thread = self.out.thread_named(&name);
        let stack = self.out.profile.stacks.intern_path(self.out.frames.drain(..));
        let (rows, values) = (&mut self.rows, &mut self.values);
        let row = *self.row_of.entry((stack, thread)).or_insert_with(|| {
            rows.push((stack, thread));
            values.push(0);
            (rows.len() - 1) as u32
        });
        if key.is_empty() && !has_distribution {
            self.blocks.insert(hash, block, row);
        }
        Some(row)
    }

    /// Finds the entries of a block. Returns the process.
    fn find_entries(&mut self, block: &[u8], key: &[u8]) -> String {
        let mut name = words(key);
        self.entries.clear();
        let mut at = 0;
        let mut indent = 0;
        while at < block.len() {
            let end = memchr::memchr(b'\n', &block[at..]).map_or(block.len(), |length| at + length);
            let line = &block[at..end];
            // Frames are indented alike.
            if line.len() <= indent || !is_indented(line, indent) {
                indent = line.len() - line.trim_ascii_start().len();
            }
            let text = line[indent..].trim_ascii_end();
            let span = (at + indent, at + indent + text.len());
            at = end + 1;
            if text.is_empty() {
                self.entries.push(Entry::Blank);
            } else if let Some(known) = self.known(text) {
                self.entries.push(Entry::Known(known, span));
            } else if memchr::memmem::find(text, DISTRIBUTION).is_some() {
                // All above was its key.
                self.entries.clear();
                name = words(key);
            } else if is_header(text) || is_bar(text) {
            } else if indent <= KEY_INDENT && indent > 0 {
                name = words(text);
            } else {
                self.entries.push(Entry::Text(span));
            }
        }
        if self.entries.iter().all(|entry| matches!(entry, Entry::Blank)) {
            self.entries.clear();
        }
        name
    }

    /// The function of a frame with a module, as a place in `known`.
    fn known(&mut self, text: &[u8]) -> Option<u32> {
        let name = hex_offset_dropped(text);
        let hash = self.names.hash(name);
        if let Some(known) = self.names.get(hash, name) {
            return Some(known);
        }
        let module = module(name)?;
        let place = self.known.len() as u32;
        self.known.push(Known { frames: [None; 2], is_kernel: is_kernel_module(module) });
        self.names.insert(hash, name, place);
        Some(place)
    }

    /// Adds the frames of the entries, root first.
    fn push_entries(&mut self, block: &[u8], chunk: u64, line: &dyn Fn() -> u64) {
        let entries = std::mem::take(&mut self.entries);
        // The stacks of the program come after those of the kernel.
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
                self.push_text(&block[start..end], is_kernel, chunk, line);
                if let Some(known) = known {
                    self.known[known].frames[side] = self.out.frames.last().copied();
                }
            }
        }
        self.entries = entries;
    }

    fn push_text(&mut self, line: &[u8], kernel: bool, chunk: u64, number: &dyn Fn() -> u64) {
        let text = String::from_utf8_lossy(line);
        if matches!(text, Cow::Owned(_)) {
            self.warnings.add(WarningKind::InvalidUtf8, chunk, number);
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

/// Reads a count; there are none below zero.
fn parse_count(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, &digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(value)
    })
}

/// The words of a key, with one blank between them.
fn words(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// `CPU     ID                    FUNCTION:NAME`, what comes below it, and messages.
fn is_header(text: &[u8]) -> bool {
    let mut words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let is_number =
        |word: Option<&[u8]>| word.is_some_and(|word| word.iter().all(u8::is_ascii_digit));
    text.starts_with(b"dtrace: ")
        || text.ends_with(b"FUNCTION:NAME")
        || is_number(words.next())
            && is_number(words.next())
            && words.next().is_some_and(|probe| memchr::memchr(b':', probe).is_some())
            && words.next().is_none()
}

/// A line of a distribution: `               1 |@@@@@@@@@@          4`.
fn is_bar(text: &[u8]) -> bool {
    let value = text
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'<' | b'>' | b'=' | b' '));
    let value = value.count();
    value > 0 && text.get(value) == Some(&b'|')
}

/// The kernel itself, on Solaris and its kin, the BSDs, macOS, and Linux.
fn is_kernel_module(module: &[u8]) -> bool {
    matches!(
        module,
        b"unix" | b"genunix" | b"kernel" | b"mach_kernel" | b"vmlinux" | b"ntoskrnl" | b"nt"
    ) || module.ends_with(b".ko")
}

/// `java/lang/Thread.run`, as `jstack()` names Java's methods.
fn is_class_path(function: &str) -> bool {
    let name = function.split('(').next().unwrap_or(function);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/._$<>-".contains(&byte);
    name.bytes().all(is_part)
        && name.find('/').is_some_and(|slash| slash > 0 && name[slash..].contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, write_folded};
    use pyrograph_profile::{LabelOptions, Tree};

    fn check(text: &str, expect: &str, warnings: &[&str]) {
        assert!(Dtrace.detect(text.as_bytes()), "{text}");
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let reading = Dtrace.read(input, &Options::default()).expect("text");
        let labels = LabelOptions { mark_kernel: true, mark_inlined: true, ..Default::default() };
        let mut out = Vec::new();
        write_folded(&Tree::new(&reading.profile, &labels), &mut out).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&out), expect, "{text}");
        let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, warnings);
    }

    #[test]
    fn keys_before_and_after_the_stacks_are_the_process() {
        check(
            "\n  my app          12\n\n  sh                \n              libc.so.1`read+0xa\n              sh`main+0x1\n                3\n\n  sh                \n              libc.so.1`read+0xa\n              sh`main+0x2\n                4\n",
            "sh;sh`main;libc.so.1`read 7\n",
            &[],
        );
        check(
            "\n              sh`main+0x1\n  my  app                                                  5\n",
            "my app;sh`main 5\n",
            &[],
        );
    }

    #[test]
    fn distributions_and_negative_sums_are_left_out() {
        check(
            "\n              a`g+0x1\n                2\n\n              a`f+0x1\n           value  ------------- Distribution ------------- count    \n               1 |                                         0        \n               2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 3        \n\n              a`f+0x1\n                1\n\n              a`f\n               -5\n",
            "a`f 1\na`g 2\n",
            &[
                "1 line was skipped: the count is out of range (x:14)",
                "a distribution was left out: no stacks with one value each are in it (x:11)",
            ],
        );
    }

    #[test]
    fn java_and_what_it_inlined() {
        check(
            "              Lorg/x/A;.f->Lorg/x/B;.g+0x12\n              java/lang/Thread.run+0x11\n              libjvm.so`JavaThread::run()+0x2\n              0x7fffbf\n                9\n",
            "[unknown];libjvm.so`JavaThread::run;java/lang/Thread.run;org/x/A:.f;org/x/B:.g_[i] 9\n",
            &[],
        );
    }

    #[test]
    fn pieces_are_cut_after_counts_only() {
        let text = b"  a`f\n   12\n\n   b`g\n  13\n   c`h\n";
        assert_eq!(last_cut(text).map(|at| &text[at..]), Some(&b"   c`h\n"[..]));
        assert_eq!(last_cut(b"  a`f\n"), None);
    }
}
