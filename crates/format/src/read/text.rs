//! Shared code of readers of line-based text: lines with their numbers, and stacks by name.
//!
//! It is meant for small files, as most formats have. Formats with files of gigabytes (`perf script`, folded) are
//! read in larger chunks.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use pyrograph_profile::{
    Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, StringId, Thread, ThreadId,
    ValueType,
};

use crate::bytes;
use crate::input::Head;
use crate::names::{is_java, module_kind, tidy_name};
use crate::perf_frame::FrameLine;
use crate::reader::{Options, Reading};
use crate::warnings::{Place, WarningKind, Warnings};

/// Maximum length of a line, in bytes; the rest is left out. No format has such long lines.
const LONGEST_LINE: usize = 16 << 20;

/// Bytes per read: small enough to stay in the CPU's caches until they are parsed.
const PIECE: usize = 64 << 10;

/// The lines of an input, without their ends (`\n` or `\r\n`); invalid UTF-8 is replaced.
pub(crate) struct Lines {
    input: Box<dyn Read + Send>,
    name: String,
    /// Complete lines.
    text: String,
    /// Range in `text` of the current line.
    line: Range<usize>,
    /// Offset in `text` of the next line.
    at: usize,
    /// Bytes that were read but are not part of `text` yet.
    carry: Vec<u8>,
    number: u64,
    ended: bool,
    /// Warnings so far.
    pub warnings: Warnings,
}

impl Lines {
    pub fn new(input: Head) -> Self {
        Self {
            name: input.name().to_owned(),
            input: input.into_stream(),
            text: String::new(),
            line: 0..0,
            at: 0,
            carry: Vec::new(),
            number: 0,
            ended: false,
            warnings: Warnings::default(),
        }
    }

    /// Replaces `line` with the next line; returns `false` at the end.
    pub fn next(&mut self, line: &mut String) -> bool {
        line.clear();
        let more = self.advance();
        line.push_str(self.line());
        more
    }

    /// Returns the next line, without copying it; `None` at the end.
    pub fn next_line(&mut self) -> Option<&str> {
        self.advance().then(|| self.line())
    }

    /// Returns the current line; empty at the end.
    pub fn line(&self) -> &str {
        &self.text[self.line.clone()]
    }

    /// Returns the bytes of the current line.
    pub fn bytes(&self) -> &[u8] {
        &self.text.as_bytes()[self.line.clone()]
    }

    /// Advances to the next line; returns `false` at the end.
    pub fn advance(&mut self) -> bool {
        if self.at == self.text.len() && !self.read_piece() {
            self.line = 0..0;
            return false;
        }
        let rest = &self.text.as_bytes()[self.at..];
        let length = bytes::find(rest, 0, b'\n');
        let is_marked = length > 0 && rest[length - 1] == b'\r';
        self.line = self.at..self.at + length - usize::from(is_marked);
        self.at = self.text.len().min(self.at + length + 1);
        self.number += 1;
        true
    }

    /// Reads more lines into `text`; returns `false` at the end.
    fn read_piece(&mut self) -> bool {
        self.at = 0;
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        bytes.append(&mut self.carry);
        let mut searched = 0;
        while !self.ended {
            self.read_some(&mut bytes);
            if let Some(end) = memchr::memrchr(b'\n', &bytes[searched..]) {
                self.carry.extend_from_slice(&bytes[searched + end + 1..]);
                bytes.truncate(searched + end + 1);
                break;
            }
            searched = bytes.len();
            if bytes.len() >= LONGEST_LINE {
                bytes.truncate(LONGEST_LINE);
                self.warn_at(WarningKind::UnreadableLine, self.number + 1);
                self.skip_line();
                break;
            }
        }
        self.text =
            String::from_utf8(bytes).unwrap_or_else(|error| self.replaced(error.as_bytes()));
        !self.text.is_empty()
    }

    fn read_some(&mut self, bytes: &mut Vec<u8>) {
        bytes.reserve(PIECE);
        match (&mut self.input).take(PIECE as u64).read_to_end(bytes) {
            Ok(read) => self.ended = read < PIECE,
            Err(error) => {
                // The bytes before the error are kept.
                self.ended = true;
                self.warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
            }
        }
    }

    /// Skips the input up to the end of the line.
    fn skip_line(&mut self) {
        let mut bytes = Vec::new();
        while !self.ended {
            bytes.clear();
            self.read_some(&mut bytes);
            if let Some(end) = memchr::memchr(b'\n', &bytes) {
                self.carry.extend_from_slice(&bytes[end + 1..]);
                return;
            }
        }
    }

    /// Converts lines to text; invalid UTF-8 is replaced, with a warning.
    fn replaced(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        for (number, line) in (self.number + 1..).zip(bytes.split_inclusive(|&byte| byte == b'\n'))
        {
            let line = String::from_utf8_lossy(line);
            if matches!(line, Cow::Owned(_)) {
                self.warn_at(WarningKind::InvalidUtf8, number);
            }
            text.push_str(&line);
        }
        text
    }

    /// True if the current line is the input's last one, and is not terminated.
    pub fn is_unfinished(&self) -> bool {
        self.at == self.text.len() && !self.text.ends_with('\n')
    }

    /// Returns the number of the current line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds a warning at the current line.
    pub fn warn(&mut self, kind: WarningKind) {
        self.warn_at(kind, self.number);
    }

    /// Adds a warning at line `line`.
    pub fn warn_at(&mut self, kind: WarningKind, line: u64) {
        self.warnings.add(kind, 1, [Place { file: self.name.clone(), line }]);
    }
}

/// Iterates over the complete lines at the beginning of an input, without trailing blanks; empty if it is not text.
/// For the detection of formats.
pub(crate) fn first_lines(head: &[u8]) -> impl Iterator<Item = &str> {
    let text = if memchr::memchr(0, head).is_some() { &[] } else { head };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|&byte| byte == b'\n').map_while(|line| str::from_utf8(line).ok()).map(str::trim_end)
}

/// Removes an offset in the function from the end of a symbol: `+0x1a/0x2b`, `+0x1a`, `+26`.
pub(crate) fn without_offset(symbol: &str) -> &str {
    let is_hex = |text: &str| {
        text.strip_prefix("0x").is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let is_number = |text: &str| {
        is_hex(text) || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let Some((name, offset)) = symbol.rsplit_once('+') else { return symbol };
    let (offset, size) = offset.split_once('/').unwrap_or((offset, "0x0"));
    if !name.is_empty() && is_number(offset) && is_hex(size) { name } else { symbol }
}

/// Parses `0x1f3a0`.
pub(crate) fn hex_address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` accepts a sign.
    let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
    u64::from_str_radix(digits, 16).ok()
}

/// True if an address belongs to the kernel: the kernel has the upper half of the address space, both on x86-64 and
/// 64-bit ARM.
pub(crate) fn is_kernel_address(address: u64) -> bool {
    address >> 63 == 1
}

/// True if a function can be the root of a kernel stack: entry points of system calls, interrupts and faults, start
/// functions of kernel threads, and the idle loop.
///
/// Source: the entry code of Linux for x86-64 (`arch/x86/entry`) and 64-bit ARM
/// (`arch/arm64/kernel/entry*`), and names of older versions.
pub(crate) fn is_kernel_entry(function: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "entry_SYSCALL_",
        "entry_SYSENTER_",
        "entry_INT80_",
        "system_call_",
        "asm_exc_",
        "asm_sysvec_",
        "asm_common_interrupt",
        "ret_from_fork",
        "ret_from_intr",
        "ret_fast_syscall",
        "ret_to_user",
        "secondary_startup_64",
        "common_startup_64",
        "x86_64_start_",
        "el0_",
        "el0t_64_",
        "el1_",
        "el1h_64_",
    ];
    const NAMES: &[&str] = &[
        "do_syscall_64",
        "start_secondary",
        "start_kernel",
        "cpu_startup_entry",
        "kthread",
        "kernel_thread_helper",
        "child_rip",
        "page_fault",
        "sysenter_do_call",
        "__secondary_switched",
        "__primary_switched",
    ];
    let name = without_offset(function);
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Builds a profile with one value type, stack by stack.
pub(crate) struct Collector {
    pub profile: Profile,
    /// The frames of the current stack, in the order in which the format lists them.
    pub frames: Vec<FrameId>,
    /// See [`Options::unknown_addresses`].
    unknown_addresses: bool,
}

impl Collector {
    pub fn new(value_type: ValueType) -> Self {
        let profile = Profile::new(vec![value_type]);
        Self { profile, frames: Vec::new(), unknown_addresses: false }
    }

    /// Sets whether functions without a name show their address, from the options.
    pub fn addresses(self, options: &Options) -> Self {
        Self { unknown_addresses: options.unknown_addresses, ..self }
    }

    /// Adds a frame of compiled code, given as a tool prints it: drops offset and parameters; the frame has no name
    /// if the symbol is only an address or `[unknown]`.
    pub fn symbol(&mut self, symbol: &str, module: &str, kind: FrameKind) {
        let symbol = without_offset(symbol.trim());
        let address = hex_address(symbol);
        if address.is_some() || matches!(symbol, "" | "[unknown]" | "??") {
            return self.unknown(address.unwrap_or(0), module, kind);
        }
        self.frame(&tidy_name(symbol), module, kind);
    }

    /// Adds a frame without a name, which has only an address, or 0.
    pub fn unknown(&mut self, address: u64, module: &str, kind: FrameKind) {
        let address = if self.unknown_addresses { address } else { 0 };
        let module = self.profile.strings.intern(module);
        self.push_frame(Frame { module, address, kind, ..Frame::default() });
    }

    /// Adds a frame as `perf script` prints it. Inlined Java methods, which are printed on one line, become several
    /// frames, innermost first: frames come leaf first.
    pub fn perf_frame(&mut self, line: &FrameLine<'_>) {
        let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
        let (symbol, module) = (text(line.symbol), text(line.module));
        let kind = if line.inlined { FrameKind::Inlined } else { module_kind(module) };
        if symbol.is_empty() {
            return self.unknown(line.address(), module, kind);
        }
        if !is_java(symbol) {
            return self.frame(&tidy_name(symbol), module, kind);
        }
        let mut methods = symbol.rsplit("->").peekable();
        while let Some(method) = methods.next() {
            let is_inlined = methods.peek().is_some();
            let kind = if is_inlined { FrameKind::Inlined } else { kind };
            self.frame(&tidy_name(method), module, kind);
        }
    }

    /// Adds a frame like [`symbol`](Self::symbol), with its source file and line (`""` and 0 if unknown).
    pub fn symbol_at(&mut self, symbol: &str, module: &str, kind: FrameKind, at: (&str, u32)) {
        self.symbol(symbol, module, kind);
        let Some(last) = self.frames.last_mut() else { return };
        let file = self.profile.strings.intern(at.0);
        let frame = Frame { file, line: at.1, ..self.profile.frames.get(*last) };
        *last = self.profile.frames.intern(frame);
    }

    /// Interns a thread with these numbers and this name, as far as they are known.
    pub fn thread(&mut self, name: &str, pid: Option<i32>, tid: Option<i32>) -> ThreadId {
        let process = self.profile.strings.intern(name);
        self.profile.threads.intern(Thread { pid, tid, process, ..Thread::default() })
    }

    /// Adds a frame with a name and possibly a module (`""` if unknown) to the stack.
    pub fn frame(&mut self, function: &str, module: &str, kind: FrameKind) {
        let function = self.profile.strings.intern(function);
        let module = self.profile.strings.intern(module);
        self.push_frame(Frame { module, ..Frame::named(function, kind) });
    }

    /// Adds a marker to the stack.
    pub fn marker(&mut self, marker: Marker) {
        self.frame(marker.label(), "", FrameKind::Marker(marker));
    }

    /// Adds a remark with the given text to the stack.
    pub fn remark(&mut self, text: &str) {
        self.frame(text, "", FrameKind::Marker(Marker::Remark));
    }

    /// Adds a frame, whose strings are interned in the profile, to the stack.
    pub fn push_frame(&mut self, frame: Frame) {
        let frame = self.profile.frames.intern(frame);
        self.frames.push(frame);
    }

    /// Number of frames of the current stack so far.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Discards the current stack.
    pub fn discard(&mut self) {
        self.frames.clear();
    }

    /// Returns the name of a frame of the current stack; empty if there is no such frame.
    pub fn function(&self, place: usize) -> &str {
        let frame = self.frames.get(place).map(|&frame| self.profile.frames.get(frame));
        frame.map_or("", |frame| self.profile.strings.get(frame.function))
    }

    /// Interns a thread with this name and no other information; `""` is the unknown thread.
    pub fn thread_named(&mut self, name: &str) -> ThreadId {
        self.thread(name, None, None)
    }

    /// Ends the current stack, whose frames came root first, as a sample of `value`.
    pub fn end_root_first(&mut self, thread: ThreadId, value: u64) {
        let stack = self.profile.stacks.intern_path(self.frames.drain(..));
        self.sample(stack, thread, value);
    }

    /// Ends the current stack, whose frames came leaf first, as a sample of `value`.
    pub fn end_leaf_first(&mut self, thread: ThreadId, value: u64) {
        let stack = self.profile.stacks.intern_path(self.frames.drain(..).rev());
        self.sample(stack, thread, value);
    }

    /// Adds a sample of `value`.
    pub fn sample(&mut self, stack: StackId, thread: ThreadId, value: u64) {
        self.profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
    }

    /// Returns the profile with `warnings`.
    pub fn reading(self, warnings: Warnings) -> Reading {
        Reading::new(self.profile, warnings)
    }

    /// Interns a string.
    pub fn intern(&mut self, text: &str) -> StringId {
        self.profile.strings.intern(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn lines_have_no_ends_and_numbers_from_one() {
        let head = Input::bytes("x", &b"one\r\n\ntw\xffo\nlast"[..]).begin().expect("bytes");
        let mut lines = Lines::new(head);
        let mut line = String::new();
        let mut all = Vec::new();
        while lines.next(&mut line) {
            all.push((lines.number(), line.clone()));
        }
        let text = |number, text: &str| (number, text.to_owned());
        assert_eq!(all, [text(1, "one"), text(2, ""), text(3, "tw\u{fffd}o"), text(4, "last")]);
        let said: Vec<String> = lines.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["1 line had bytes that are not UTF-8, now replaced (x:3)"]);
    }

    #[test]
    fn long_lines_are_whole_up_to_a_limit() {
        let (long, longer) = ("é".repeat(PIECE), "y".repeat(LONGEST_LINE + 3 * PIECE));
        let text = format!("a\n{long}\r\n{longer}\nlast");
        let mut lines = Lines::new(Input::bytes("x", text).begin().expect("bytes"));
        assert_eq!(lines.next_line(), Some("a"));
        assert!(lines.next_line() == Some(&long));
        assert!(lines.next_line() == Some(&longer[..LONGEST_LINE]));
        assert_eq!(lines.next_line(), Some("last"));
        assert_eq!(lines.number(), 4);
        assert_eq!(lines.next_line(), None);
        assert_eq!(lines.next_line(), None);
        let said: Vec<String> = lines.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["1 line within samples was skipped: not a frame (x:3)"]);
    }
}
