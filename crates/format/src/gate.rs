//! Rejects inputs whose first lines looked like a format that they are not in.
//!
//! Source code has lines that look like frames of `perf script`, and tables have lines that end in numbers, like folded
//! text. A reader skips and counts the lines that it cannot read; if most of a text was skipped, the rest is not a
//! profile either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::input::Head;
use crate::reader::{ReadError, Reading};
use crate::warnings::Warnings;

/// Number of lines of a rejected text that are shown.
const SHOWN: usize = 3;

/// The beginning of a text, kept for error messages: it is not available after the text was read.
pub(crate) struct Gate {
    name: String,
    format: &'static str,
    head: Vec<u8>,
    lines: Arc<AtomicU64>,
}

impl Gate {
    /// Creates the gate before `input` is read as `format`.
    pub fn new(input: &Head, format: &'static str) -> Self {
        const KEPT: usize = 64 << 10;
        let bytes = input.bytes();
        let head = bytes[..bytes.len().min(KEPT)].to_vec();
        Self { name: input.name().to_owned(), format, head, lines: input.lines() }
    }

    /// Checks the result after the input was read.
    ///
    /// # Errors
    ///
    /// If more than half of its lines were skipped, or if it contains no samples.
    pub fn check(&self, reading: &Reading) -> Result<(), ReadError> {
        if !reading.profile.samples.is_empty() || !reading.other_events.is_empty() {
            return self.check_lines(&reading.warnings);
        }
        let said: String = reading.warnings.iter().map(|warning| format!("; {warning}")).collect();
        let first = self.first(&reading.warnings);
        let reason = format!("nothing in it is of the format {}{said}{first}", self.format);
        Err(ReadError::Nothing { name: self.name.clone(), reason })
    }

    /// Rejects a text if most of its lines were skipped.
    fn check_lines(&self, warnings: &Warnings) -> Result<(), ReadError> {
        let unread = warnings.unread_lines();
        if unread == 0 {
            return Ok(());
        }
        let lines = self.lines_with_text();
        if unread <= lines / 2 {
            return Ok(());
        }
        Err(ReadError::MostlyUnread {
            name: self.name.clone(),
            format: self.format,
            unread: unread.min(lines),
            lines,
            first: self.first(warnings),
        })
    }

    /// Number of lines that are neither blank nor comments. Extrapolated from the beginning of a long text.
    fn lines_with_text(&self) -> u64 {
        // Lines that begin with `#` and a tab are part of Go's profiles.
        let is_remark = |line: &[u8]| line.starts_with(b"#") && line.get(1) != Some(&b'\t');
        let is_blank = |line: &[u8]| line.trim_ascii().is_empty() || is_remark(line);
        let (mut blank, mut all) = (0u64, 0u64);
        for line in self.head.split(|&byte| byte == b'\n') {
            blank += u64::from(is_blank(line));
            all += 1;
        }
        // The text after the last line end is a line only if it is not empty.
        let lines = self.lines.load(Ordering::Relaxed) + 1;
        let share = u128::from(lines) * u128::from(all - blank) / u128::from(all);
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    /// The first lines that were skipped, as text.
    fn first(&self, warnings: &Warnings) -> String {
        let places = warnings.iter().filter(|warning| warning.kind.is_of_lines());
        let mut numbers: Vec<u64> =
            places.flat_map(|warning| warning.places.iter().map(|place| place.line)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let lines: Vec<&[u8]> = self.head.split(|&byte| byte == b'\n').collect();
        let text = |number: &u64| {
            let line = lines.get(usize::try_from(number.checked_sub(1)?).ok()?)?;
            Some(format!("\n  line {number}: {}", shown_line(line)))
        };
        numbers.iter().take(SHOWN).filter_map(text).collect()
    }
}

/// The beginning of a line of an unknown text, safe to print.
pub(crate) fn shown_line(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)])
        .trim()
        .chars()
        .take(60)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{Input, Options, read};

    fn error(text: &str) -> Option<String> {
        read(vec![Input::bytes("x", text)], &Options::default())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn source_code_was_a_profile() {
        // Lines that look like frames, for `add` and `dec` are hexadecimal numbers.
        let code = "fn main() {\n\tadd (1);\n\tfor x in y {\n\t\tz();\n\t}\n}\n".repeat(20);
        let said = error(&code).expect("it is no profile");
        let expect = "read x: it looks like perf script, but 99 of its 120 lines cannot be read as that:\n  line 3: ";
        assert!(said.starts_with(expect), "{said}");
        // Not even one sample.
        let said = error(&"void f(void)\n{\n\tadd (a);\n}\n".repeat(9)).expect("it is no profile");
        assert!(said.starts_with("read x: nothing in it is of the format perf script; "), "{said}");
        assert!(said.ends_with("\n  line 1: void f(void)"), "{said}");
    }

    #[test]
    fn half_of_the_lines_may_be_something_else() {
        let counted = "a;b 1\n".repeat(50);
        assert_eq!(error(&(counted.clone() + &"note\n\n".repeat(50))), None);
        let said = error(&(counted.clone() + &"note\n\n".repeat(51))).expect("most is no stack");
        assert!(said.contains("but 51 of its 101 lines"), "{said}");
        assert!(said.ends_with("\n  line 51: note\n  line 53: note\n  line 55: note"), "{said}");
        // The end is far away from what is kept of the beginning.
        let long = counted.repeat(1000);
        assert_eq!(error(&(long.clone() + &"note\n".repeat(49_000))), None);
        assert!(error(&(long + &"note\n".repeat(52_000))).is_some());
    }

    #[test]
    fn nothing_was_taken_for_an_empty_profile() {
        // Cut off in its first sample.
        let said = error(
            "Stacks\nProcess: app [1]\nAnalysis of sampling app (pid 1) every 1 millisecond\n",
        );
        assert!(said.is_some());
        let said = error("a;b x 1\n# no more\n");
        assert_eq!(said, None);
    }

    #[test]
    fn lines_of_a_skipped_sample_count() {
        let text = "app 1 1.5: 1 cycles: \n\t4a1 main (/bin/app)\n\n".to_owned()
            + &("not a sample at all;\nmore of it\nand more\n\n".repeat(10));
        let said = error(&text).expect("most is no sample");
        assert!(said.contains("but 30 of its 32 lines"), "{said}");
        // Records that are no samples are as good as any.
        let record = "app 1 1.5: PERF_RECORD_MMAP2 1/1: [0x1] r-xp /bin/app\n more\n\n";
        let text =
            "app 1 1.5: 1 cycles: \n\t4a1 main (/bin/app)\n\n".to_owned() + &record.repeat(10);
        assert_eq!(error(&text), None);
    }
}
