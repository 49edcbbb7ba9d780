//! Reader of stacks of Perl subroutines printed by `pl-sample-bt`, a script of `perl-systemtap-toolkit`.
//!
//! ```text
//! WARNING: Sampling 737 (/usr/bin/perl) for Perl-land backtraces...
//! Foo::Bar::work
//! (eval)
//! main::run
//! \t1530
//! ```
//!
//! - Frames are leaf first, one per line, without indentation or address.
//! - A tab and a number, the sample count, end a stack. A stack without frames was sampled outside of Perl code.

use pyrograph_profile::{Frame, FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `pl-sample-bt` text.
pub struct PlSampleBt;

impl Reader for PlSampleBt {
    fn name(&self) -> &'static str {
        "pl-sample-bt"
    }

    fn written_by(&self) -> &'static str {
        "pl-sample-bt of perl-systemtap-toolkit"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let complete = memchr::memrchr(b'\n', head).map_or(0, |end| end + 1);
        let mut lines =
            first_lines(&head[..complete]).skip_while(|line| is_message(line)).take(4000);
        let (mut depth, mut stacks) = (0, 0);
        let fits = lines.by_ref().filter(|line| !line.is_empty()).all(|line| {
            if count(line).is_some() {
                stacks += usize::from(depth > 0);
                depth = 0;
                return true;
            }
            depth += 1;
            is_frame(line)
        });
        fits && stacks > 0
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples());
        let mut line = String::new();
        while lines.next(&mut line) {
            match count(&line) {
                Some(Ok(count)) => {
                    if out.depth() == 0 {
                        // Folded text has no lines without a name.
                        out.push_frame(Frame::default());
                    }
                    out.end_leaf_first(ThreadId::UNKNOWN, count);
                }
                Some(Err(())) => {
                    lines.warn(WarningKind::CountOutOfRange);
                    out.discard();
                }
                None if line.is_empty() || is_message(&line) => {}
                None if is_frame(&line) => out.frame(line.trim_end(), "", FrameKind::Interpreted),
                None => lines.warn(WarningKind::UnreadableLine),
            }
        }
        if out.depth() > 0 {
            lines.warn(WarningKind::NoCount);
            out.discard();
        }
        Ok(out.reading(lines.warnings))
    }
}

/// True for the script's messages on standard error, which may be in the same file.
fn is_message(line: &str) -> bool {
    line.starts_with("WARNING: ")
        || line.starts_with("Please wait for ")
        || line.starts_with("Hit Ctrl-C")
}

/// True for a subroutine's name with its package, `(eval)` or `(unknown)`.
fn is_frame(line: &str) -> bool {
    !line.is_empty() && !line.contains([' ', '\t', ';'])
}

/// Parses a line that consists of a tab and a number; the error is a number out of range.
fn count(line: &str) -> Option<Result<u64, ()>> {
    let digits = line.strip_prefix('\t')?.trim_end();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().map_err(drop))
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, detect, read, write_folded};

    fn check(text: &str, expect: &str, warnings: &[&str]) {
        let (profile, said) =
            read(vec![Input::bytes("x", text)], &Options::default()).expect("it is read");
        let mut out = Vec::new();
        write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut out).expect("to memory");
        assert_eq!(String::from_utf8_lossy(&out), expect, "{text}");
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        assert_eq!(said, warnings, "{text}");
    }

    #[test]
    fn stacks_without_addresses_with_the_count_on_its_own_line() {
        check(
            "Foo::Bar::work\n(eval)\nrun\n\t1530\nFoo::idle\nrun\n\t7\n\t3\n",
            "[unknown] 3\nrun;(eval);Foo::Bar::work 1530\nrun;Foo::idle 7\n",
            &[],
        );
        check(
            "WARNING: Sampling 737 (/usr/bin/perl) for Perl-land backtraces...\n\
             Please wait for 5 seconds.\n\nFoo::work\n\t2\nFoo::lost\n",
            "Foo::work 2\n",
            &["1 line without a count was skipped (x:6)"],
        );
    }

    #[test]
    fn other_text_is_none() {
        for text in ["word\nother\n", "two words\n\t5\n", "\t5\n", "a;b 5\n"] {
            let found = detect(text.as_bytes()).map(Reader::name);
            assert_ne!(found, Some("pl-sample-bt"), "{text}");
        }
    }
}
