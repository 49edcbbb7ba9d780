//! Classification of lines in DTrace's output.

use crate::bytes;

/// Returns the module of ``genunix`copen``.
pub(super) fn module(frame: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'`', frame)?;
    let module = &frame[..at];
    let is_name = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'(');
    (at > 0 && at + 1 < frame.len() && module.iter().all(is_name)).then_some(module)
}

/// True if a line begins with exactly `indent` blanks.
#[inline]
pub(super) fn is_indented(line: &[u8], indent: usize) -> bool {
    let Some(after) = line.get(indent) else { return false };
    // DTrace indents by 14, so the usual case is compared in one 128-bit word.
    let is_blank = match line.first_chunk::<16>() {
        Some(first) if (1..=16).contains(&indent) => {
            let differences = u128::from_le_bytes(*first) ^ u128::from_le_bytes([b' '; 16]);
            differences << (128 - 8 * indent) == 0
        }
        _ => line[..indent].iter().all(|&byte| byte == b' '),
    };
    is_blank && !after.is_ascii_whitespace()
}

/// The line at the end of a stack.
pub(super) struct Ending<'a> {
    /// The text before the count.
    pub key: &'a [u8],
    pub count: &'a [u8],
}

/// Parses a line with a count, or, if it is indented less than any frame, a key and a count.
#[inline]
pub(super) fn end_of_block(line: &[u8]) -> Option<Ending<'_>> {
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
    let is_key = || indented > 0 && indented <= KEY_INDENT && key.ends_with(b" ");
    let is_end = key.is_empty() || (is_key() && !is_probe_row(key));
    let count = &text[text.len() - count.len() - sign..];
    is_end.then_some(Ending { key: key.trim_ascii(), count })
}

/// Maximum indentation of keys; frames are indented more.
pub(super) const KEY_INDENT: usize = 3;

/// Returns the end of the last line in `text` that ends a stack.
pub(super) fn last_cut(text: &[u8]) -> Option<usize> {
    let mut end = memchr::memrchr(b'\n', text)?;
    loop {
        let start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
        if end_of_block(&text[start..end]).is_some() {
            return Some(end + 1);
        }
        end = start.checked_sub(1)?;
    }
}

/// Joins the words of a key with single blanks.
pub(super) fn words(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// True for messages of `dtrace` itself, and for the echo of the key that ends it.
pub(super) fn is_message(text: &[u8]) -> bool {
    text.starts_with(b"dtrace: ") || text == b"^C"
}

/// Number of lost samples in a message: `dtrace: 12 aggregation drops on CPU 0`.
pub(super) fn drops(text: &[u8]) -> Option<u64> {
    let mut words = text.strip_prefix(b"dtrace: ")?.split(|&byte| byte == b' ');
    let count = bytes::decimal(words.next()?)?;
    let what = words.find(|word| *word != b"aggregation")?;
    (what == b"drops" && words.next() == Some(b"on")).then_some(count)
}

/// True for the heading `CPU     ID                    FUNCTION:NAME`.
pub(super) fn is_heading(text: &[u8]) -> bool {
    text.ends_with(b"FUNCTION:NAME")
}

/// True for a line below the heading: CPU, probe ID, probe name, and then the output of `trace()` or `printf()`, if
/// any.
pub(super) fn is_probe_row(text: &[u8]) -> bool {
    probe_row(text).is_some()
}

/// Returns whether such a line has output after the probe; `None` for other lines.
pub(super) fn probe_row(text: &[u8]) -> Option<bool> {
    let mut words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let is_number =
        |word: Option<&[u8]>| word.is_some_and(|word| word.iter().all(u8::is_ascii_digit));
    let is_row = is_number(words.next())
        && is_number(words.next())
        && words.next().is_some_and(|probe| memchr::memchr(b':', probe).is_some());
    is_row.then(|| words.next().is_some())
}

/// True for a line of a distribution: `               1 |@@@@@@@@@@          4`.
pub(super) fn is_bar(text: &[u8]) -> bool {
    let value = text
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'<' | b'>' | b'=' | b' '));
    let value = value.count();
    value > 0 && text.get(value) == Some(&b'|')
}

/// True for the kernel itself, on Solaris and its derivatives, the BSDs, macOS, and Linux.
pub(super) fn is_kernel_module(module: &[u8]) -> bool {
    matches!(
        module,
        b"unix" | b"genunix" | b"kernel" | b"mach_kernel" | b"vmlinux" | b"ntoskrnl" | b"nt"
    ) || module.ends_with(b".ko")
}

/// True for `java/lang/Thread.run`, the form in which `jstack()` prints Java methods.
pub(super) fn is_class_path(function: &str) -> bool {
    let name = function.split('(').next().unwrap_or(function);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/._$<>-".contains(&byte);
    name.bytes().all(is_part)
        && name.find('/').is_some_and(|slash| slash > 0 && name[slash..].contains('.'))
}
