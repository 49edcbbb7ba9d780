//! Makes untrusted text safe for a terminal.

use std::io::{self, IsTerminal, Write};

/// Returns the text with control characters and bidirectional overrides replaced.
pub fn plain(text: &str) -> String {
    let clean = |c: char| match c {
        '\t' | '\n' => c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(clean).collect()
}

/// Returns standard output. Text for a terminal is made safe.
pub fn standard_output() -> Box<dyn Write> {
    let out = io::stdout().lock();
    match out.is_terminal() {
        true => Box::new(Plain { out, line: Vec::new() }),
        false => Box::new(out),
    }
}

/// Returns standard error in the same way. It is not locked, because messages are written to it, too.
pub fn standard_error() -> Box<dyn Write> {
    let out = io::stderr();
    match out.is_terminal() {
        true => Box::new(Plain { out, line: Vec::new() }),
        false => Box::new(out),
    }
}

/// Returns the number of columns of standard output, if it is a terminal.
pub fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Returns the number of columns of standard error, if it is a terminal.
pub fn error_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0))
}

/// Writes line by line, so that no character is split.
struct Plain<W> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(line);
            if line.ends_with(b"\n") {
                self.write_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_line()?;
        self.out.flush()
    }
}

impl<W: Write> Plain<W> {
    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(plain(&String::from_utf8_lossy(&line)).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        let mut out = Plain { out: Vec::new(), line: Vec::new() };
        // A title, a character in two pieces, the beginning of a command in one byte, a bare return.
        for piece in
            [&b"main;\x1b]0;t\x07\xc3"[..], b"\xa9 1\nx\x9b31m\r \xc2\x9b", b"\t2\n", b"end"]
        {
            out.write_all(piece).expect("to memory");
        }
        out.flush().expect("to memory");
        let text = String::from_utf8(out.out).expect("UTF-8");
        assert_eq!(text, "main;\u{fffd}]0;t\u{fffd}é 1\nx\u{fffd}31m\u{fffd} \u{fffd}\t2\nend");
    }
}
