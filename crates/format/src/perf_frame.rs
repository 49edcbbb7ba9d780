//! Frames as `perf script` prints them: the lines of a sample after its first line.
//!
//! ```text
//!     ffffffff815eba2a __handle_mm_fault+0x7a ([kernel.kallsyms])
//!               101a07 __GI_munmap+0x7 (inlined)
//!                 10b2 main+0x22 (/tmp/my dir/w (x))
//!   w.c:9
//!               101a07 __GI_munmap+0x7
//!   syscall-template.S:117 (inlined)
//!                 2aff [unknown] ([unknown])
//!             10b2 main
//!             10b2
//! ```
//!
//! The two lines that begin with two blanks are printed by `-F +srcline` for the frame before them.

use memchr::memmem;

/// A printed frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameLine<'a> {
    /// The digits of [`address`](Self::address).
    digits: &'a [u8],
    /// Function without the offset in it; empty if unknown.
    pub symbol: &'a [u8],
    /// Module that contains the code; empty if unknown.
    pub module: &'a [u8],
    /// Source file; empty if unknown.
    pub file: &'a [u8],
    /// Source line; 0 if unknown.
    pub line: u32,
    /// True if the call was inlined into the next frame by the compiler.
    pub inlined: bool,
}

impl FrameLine<'_> {
    /// Address of the instruction: relative to the file for an ELF file, otherwise absolute.
    pub fn address(&self) -> u64 {
        self.digits.iter().fold(0, |number, &digit| number << 4 | hex_value(digit))
    }
}

/// Parses a frame; `text` may have a second line with the source location.
pub fn parse(text: &[u8]) -> Option<FrameLine<'_>> {
    let (line, source) = match memchr::memchr(b'\n', text) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[][..]),
    };
    let (digits, after) = split_address(line)?;
    let (symbol, module) = split_module(after);
    let mut frame = FrameLine { digits, ..FrameLine::default() };
    frame.symbol = match without_offset(symbol.trim_ascii_end()) {
        b"[unknown]" => b"",
        symbol => symbol,
    };
    match module.strip_suffix(b" (deleted)").unwrap_or(module) {
        b"inlined" => frame.inlined = true,
        b"[unknown]" | b"unknown" => {}
        module => frame.module = without_offset(module),
    }
    if !source.is_empty() {
        add_source(&mut frame, source);
    }
    Some(frame)
}

/// Returns true if a line that does not begin with a tab could be a frame: `ffffffff8103d0ca f (...)`. Old versions of
/// perf print frames without a tab, and `-F` without `dso` omits the brackets.
pub fn is_likely(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let digits = hex_digits(line);
    match line.get(digits) {
        None => digits >= 4,
        Some(b' ') => (4..=16).contains(&digits) || (digits > 0 && line.ends_with(b")")),
        Some(_) => false,
    }
}

/// Returns true if a line has the form that `-F +srcline` prints below a frame.
pub fn is_source(line: &[u8]) -> bool {
    line.starts_with(b"  ") && !is_likely(line)
}

/// Text after the address of a frame; `None` if the line does not begin with an address.
#[inline]
pub fn after_address(line: &[u8]) -> Option<&[u8]> {
    after_columns(line).or_else(|| split_address(line).map(|(_, after)| after))
}

/// Same as [`after_address`] for the form that all current versions of perf print: a tab, and the address right-aligned
/// in 16 columns.
fn after_columns(line: &[u8]) -> Option<&[u8]> {
    let (field, after) = line.strip_prefix(b"\t")?.split_first_chunk::<16>()?;
    let after = after.strip_prefix(b" ")?;
    let columns = u128::from_le_bytes(*field);
    let blanks = (columns ^ u128::from_le_bytes([b' '; 16])).trailing_zeros() & !7;
    let digits = columns.checked_shr(blanks)?;
    // The shift filled the blanks with zero bytes: any digit passes the check there.
    let digits = digits | u128::from_le_bytes([b'0'; 16]).checked_shl(128 - blanks).unwrap_or(0);
    are_hex_digits(digits).then_some(after)
}

/// Returns true if all 16 bytes are hexadecimal digits. In each byte, `high - low` borrows from the highest bit, which
/// is set in `high` beforehand, only if `low` is greater.
fn are_hex_digits(bytes: u128) -> bool {
    const HIGH: u128 = u128::from_le_bytes([0x80; 16]);
    const fn all(byte: u8) -> u128 {
        u128::from_le_bytes([byte; 16])
    }
    if bytes & HIGH != 0 {
        return false;
    }
    let at_least = |bytes: u128, low: u8| (bytes | HIGH) - all(low);
    let at_most = |bytes: u128, high: u8| (all(high) | HIGH) - bytes;
    let letters = bytes | all(0x20);
    let is_digit = at_least(bytes, b'0') & at_most(bytes, b'9');
    let is_letter = at_least(letters, b'a') & at_most(letters, b'f');
    (is_digit | is_letter) & HIGH == HIGH
}

/// Splits a line into the address and the text after it, without the blanks around both.
fn split_address(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let digits = hex_digits(line);
    let ends_there = match line.get(digits) {
        None | Some(b' ') => true,
        Some(b'\t') => !begins_instruction(line),
        Some(_) => false,
    };
    let address = (&line[..digits], line[digits..].trim_ascii_start());
    ((1..=16).contains(&digits) && ends_there).then_some(address)
}

/// Returns true if a line, without leading blanks, is an instruction as `-F +brstackinsn` prints it: an address of 16
/// digits, a tab, and `insn: 48 83 ec 08` or `push %rbp`.
fn begins_instruction(line: &[u8]) -> bool {
    hex_digits(line) == 16 && line.get(16) == Some(&b'\t')
}

/// Returns true if a line belongs to what can follow the frames of a sample: registers (`-F +iregs`), the instruction or its
/// length (`+insn`, `+insnlen`), or the disassembly of a branch stack, each line of which is an instruction, or the name of the
/// function that contains the next ones.
pub fn is_after_frames(line: &[u8]) -> bool {
    const FIELDS: [&[u8]; 3] = [b" ABI:", b" insn: ", b" ilen: "];
    // Nearly all lines are frames, behind a tab.
    let Some(text) = line.strip_prefix(b"\t") else {
        return FIELDS.iter().any(|field| line.starts_with(field));
    };
    begins_instruction(text)
        || (!text.starts_with(b" ") && text.trim_ascii_end().ends_with(b":") && text.len() > 1)
}

fn hex_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count()
}

/// Value of a hexadecimal digit: letters follow 9 in their low four bits, after a gap.
fn hex_value(digit: u8) -> u64 {
    u64::from((digit & 0xf) + (digit >> 6) * 9)
}

/// Splits `symbol (module)`. The module's path may contain blanks and brackets, and so may the symbol: the module begins
/// at the bracket that matches the last one. If the brackets do not match, it begins at the first ` (/` or ` ([`.
pub fn split_module(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(inner) = text.strip_suffix(b")") else { return (text, b"") };
    // Nearly always, there are no other brackets.
    if let Some(open) = memchr::memrchr2(b'(', b')', inner)
        && open > 0
        && &inner[open - 1..=open] == b" ("
        && memchr::memchr2(b'(', b')', &inner[..open]).is_none()
    {
        return (&text[..open], &inner[open + 1..]);
    }
    match last_open_bracket(inner) {
        Some(at) => match inner[..at].last() {
            None | Some(b' ') => (&text[..at], &inner[at + 1..]),
            // The bracket begins a parameter list: there is no module.
            Some(_) => (text, b""),
        },
        None => {
            let first = [b" (/", b" (["].iter().find_map(|open| memmem::find(inner, *open));
            match first.or_else(|| memmem::rfind(inner, b" (")) {
                Some(at) => (&text[..at], &inner[at + 2..]),
                None => (text, b""),
            }
        }
    }
}

/// Index of the opening bracket that matches a closing one after the end of `text`; `None` if other brackets do not
/// match.
fn last_open_bracket(text: &[u8]) -> Option<usize> {
    let mut depth = 1;
    let mut open = None;
    for at in memchr::memrchr2_iter(b'(', b')', text) {
        if text[at] == b')' {
            depth += 1;
            continue;
        }
        depth -= 1;
        if depth == 0 && open.is_none() {
            open = Some(at);
        }
    }
    open.filter(|_| depth == 0)
}

/// Removes an offset such as `+0x7a` from the end.
pub fn without_offset(text: &[u8]) -> &[u8] {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (before, digits) = text.split_at(text.len() - digits);
    match before.strip_suffix(b"+0x") {
        Some(before) if !digits.is_empty() => before,
        _ => text,
    }
}

/// Parses `w.c:9`, `w.c:9 (discriminator 3)`, `w.c:9 (inlined)`. If the source is unknown, perf prints the module and
/// the address again: `[kernel.kallsyms][ffffffff815eba2a]`.
fn add_source<'a>(frame: &mut FrameLine<'a>, source: &'a [u8]) {
    let mut source = source.trim_ascii();
    if let Some(before) = source.strip_suffix(b" (inlined)") {
        frame.inlined = true;
        source = before;
    }
    if let Some(at) = memmem::find(source, b" (discriminator") {
        source = &source[..at];
    }
    let Some(colon) = memchr::memrchr(b':', source) else { return };
    let (file, line) = (&source[..colon], &source[colon + 1..]);
    let line = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    if let Some(line) = line
        && !file.is_empty()
        && !file.starts_with(b"??")
    {
        (frame.file, frame.line) = (file, line);
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::FrameKind;

    use super::*;
    use crate::names::module_kind;

    fn check(text: &str, expect: &str) {
        let shown = parse(text.as_bytes()).map_or("none".to_owned(), |frame| {
            let part = |part| String::from_utf8_lossy(part).into_owned();
            let (symbol, module, file) = (part(frame.symbol), part(frame.module), part(frame.file));
            let kind = match frame.inlined {
                true => FrameKind::Inlined,
                false => module_kind(&module),
            };
            format!("{:x}|{symbol}|{module}|{file}:{}|{kind:?}", frame.address(), frame.line)
        });
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn plain_frames() {
        check(
            "\tffffffff815eba2a f+0x7a ([kernel.kallsyms])",
            "ffffffff815eba2a|f|[kernel.kallsyms]|:0|Kernel",
        );
        check("\t            10b2 main+0x7a (/bin/w)", "10b2|main|/bin/w|:0|User");
        check("\t            10b2  (/bin/w)", "10b2||/bin/w|:0|User");
        check("\t            1 b2 main (/bin/w)", "1|b2 main|/bin/w|:0|User");
        check("\t                 main (/bin/w)", "none");
        check("\t   10b2 main (/bin/w)", "10b2|main|/bin/w|:0|User");
        check("\t   10b2 main+0x1 (/bin/w+0x10b2)", "10b2|main|/bin/w|:0|User");
        check("\t   10b2 main", "10b2|main||:0|User");
        check("\t   10b2", "10b2|||:0|User");
        check("\t   10b2 (/bin/w)", "10b2||/bin/w|:0|User");
        check("\t   0 [unknown] ([unknown])", "0|||:0|User");
        check("\t   1f [unknown] (/bin/w)", "1f||/bin/w|:0|User");
        check(
            "ffffffff8103d0ca f ([kernel.kallsyms])",
            "ffffffff8103d0ca|f|[kernel.kallsyms]|:0|Kernel",
        );
        check(
            "\t d70 _start+0xffff018fd5dce000 (/usr/lib/ld-2.24.so)",
            "d70|_start|/usr/lib/ld-2.24.so|:0|User",
        );
    }

    #[test]
    fn brackets_and_blanks_in_names_and_paths() {
        check("\t 1 main (/tmp/my dir/w (x))", "1|main|/tmp/my dir/w (x)|:0|User");
        check("\t 1 main (/tmp/w (deleted))", "1|main|/tmp/w|:0|User");
        check("\t 1 main (/tmp/my (dir/w)", "1|main|/tmp/my (dir/w|:0|User");
        check("\t 1 f(int, std::vec (/bin/w)", "1|f(int, std::vec|/bin/w|:0|User");
        check("\t 1 f(int, std::vec (inlined)", "1|f(int, std::vec||:0|Inlined");
        check("\t 1 main (/tmp/a)b)", "1|main|/tmp/a)b|:0|User");
        check("\t 1 f(int, g()) const (/bin/w)", "1|f(int, g()) const|/bin/w|:0|User");
        check(
            "\t 1 (anonymous namespace)::f(int) (/bin/w)",
            "1|(anonymous namespace)::f(int)|/bin/w|:0|User",
        );
        check("\t 1 f(void (*)(int))", "1|f(void (*)(int))||:0|User");
        check("\t 1 operator() (/bin/w)", "1|operator()|/bin/w|:0|User");
        check(
            "\t 1 LazyCompile:~f x.<anonymous>:1 (/tmp/perf-12.map)",
            "1|LazyCompile:~f x.<anonymous>:1|/tmp/perf-12.map|:0|Jit",
        );
    }

    #[test]
    fn sources_and_inlined_calls() {
        check("\t 10b2 main+0x22 (/bin/w)\n  w.c:9", "10b2|main|/bin/w|w.c:9|User");
        check(
            "\t 10b2 main+0x22 (/bin/w)\n  w.c:9 (discriminator 3)",
            "10b2|main|/bin/w|w.c:9|User",
        );
        check("\t 7 f+0x7\n  s.S:117 (inlined)", "7|f||s.S:117|Inlined");
        check("\t 7 f+0x7 (inlined)", "7|f||:0|Inlined");
        check("\t 7 f+0x7 ([ext4])\n  [ext4][7]", "7|f|[ext4]|:0|Kernel");
        check("\t 7 f+0x7 (/bin/w)\n  ??:0", "7|f|/bin/w|:0|User");
    }

    #[test]
    fn addresses_in_columns() {
        for byte in 0..=255u8 {
            for at in 0..16 {
                let mut columns = [b'7'; 16];
                columns[at] = byte;
                let line = [b"\t", &columns[..], b" f (/bin/w)"].concat();
                let is_digit = byte.is_ascii_hexdigit() || (byte == b' ' && at == 0);
                assert_eq!(after_columns(&line).is_some(), is_digit, "{byte} at {at}");
            }
        }
        assert_eq!(after_columns(b"\t            10b2 f"), Some(&b"f"[..]));
        assert_eq!(after_columns(b"\t                 f"), None);
        assert_eq!(after_columns(b"\t10b2 f (/bin/w)"), None);
        assert_eq!(after_address(b"\t10b2 f (/bin/w)"), Some(&b"f (/bin/w)"[..]));
    }

    #[test]
    fn no_frames() {
        for text in ["", "\t", "\thello world", "\t12345678901234567 f (x)", "\t12:3 f", "w.c:9"] {
            check(text, "none");
        }
    }
}
