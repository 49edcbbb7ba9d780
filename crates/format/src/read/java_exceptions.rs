//! Reader of stack traces of Java exceptions, anywhere in a log.
//!
//! ```text
//! 12:00:01 WARN  retry failed
//! java.io.IOException: no space left
//!     at com.example.Store.write(Store.java:12)
//!     at com.example.Main.main(Main.java:5)
//! Caused by: java.lang.IllegalStateException: full
//!     at com.example.Disk.put(Disk.java:7)
//!     at com.example.Store.write(Store.java:10)
//!     ... 1 more
//! ```
//!
//! - Each exception that was thrown, including causes, is a sample of 1.
//! - `... N more` replaces the outermost N frames of the previous trace, which are restored.
//! - A cause may have no frames of its own. Without any frames, the stack is its class.
//! - The exception's class is the leaf, if the line above the first frame contains one.
//! - Suppressed exceptions are indented by an additional tab, and are read in the same way.

use pyrograph_profile::{ThreadId, ValueType};

use super::java;
use super::jstack::Jstack;
use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of Java stack traces.
pub struct JavaExceptions;

impl Reader for JavaExceptions {
    fn name(&self) -> &'static str {
        "Java exceptions"
    }

    fn written_by(&self) -> &'static str {
        "logs of Java programs"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut scratch = Collector::new(ValueType::samples());
        if Jstack.detect(head) {
            return false;
        }
        let mut is_frame = |line: &[u8]| {
            line.first().is_some_and(u8::is_ascii_whitespace)
                && line.ends_with(b")")
                && str::from_utf8(line).is_ok_and(|line| java::push_frame(&mut scratch, line))
        };
        head.split(|&byte| byte == b'\n').any(|line| is_frame(line.trim_ascii_end()))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut line = String::new();
        // The line that may contain the exception, before possible frames.
        let mut header = String::new();
        // The previous trace, leaf first.
        let mut above = Vec::new();
        while lines.next(&mut line) {
            let text = line.trim();
            let is_first = collector.depth() == 0;
            if java::push_frame(&mut collector, text) {
                if is_first && let Some(class) = exception_class(&header) {
                    collector.remark(class);
                    collector.frames.rotate_right(1);
                }
                continue;
            }
            let more = frames_in_common(text);
            let is_cause = ["Caused by: ", "Suppressed: "].iter().any(|of| header.starts_with(of));
            if is_first
                && is_cause
                && let Some(class) = exception_class(&header)
            {
                // All of its frames are in the previous trace, or the JVM omitted them.
                collector.remark(class);
            }
            if collector.depth() > 0 {
                if let Some(more) = more {
                    let from = above.len().saturating_sub(more);
                    collector.frames.extend_from_slice(&above[from..]);
                }
                above.clone_from(&collector.frames);
                collector.end_leaf_first(ThreadId::UNKNOWN, 1);
            }
            text.clone_into(&mut header);
        }
        if collector.depth() == 0
            && header.starts_with("Caused by: ")
            && let Some(class) = exception_class(&header)
        {
            collector.remark(class);
        }
        if collector.depth() > 0 {
            collector.end_leaf_first(ThreadId::UNKNOWN, 1);
        }
        Ok(collector.reading(lines.warnings))
    }
}

/// Parses N in `... N more` or `... N common frames omitted`.
fn frames_in_common(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("... ")?;
    let (count, words) = rest.split_once(' ')?;
    matches!(words, "more" | "common frames omitted").then(|| count.parse().ok())?
}

/// Returns the class in a line: `Caused by: a.b.C: message`, `Exception in thread "main" a.b.C`.
fn exception_class(line: &str) -> Option<&str> {
    let line = line.strip_prefix("Caused by: ").unwrap_or(line);
    let line = line.strip_prefix("Suppressed: ").unwrap_or(line);
    line.split([' ', ':', ',']).find(|word| {
        let class = word.rsplit('.').next().unwrap_or(word);
        word.contains('.')
            && class.starts_with(char::is_uppercase)
            && word.chars().all(|c| c.is_alphanumeric() || ".$_".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_without_frames_are_kept() {
        use pyrograph_profile::{LabelOptions, Tree};
        let text = "a.b.Outer: x\n\tat p.Q.f(Q.java:1)\n\tat p.Q.main(Q.java:2)\n\
                    Caused by: a.b.Same: y\n\t... 2 more\n\
                    Caused by: a.b.None\n\
                    Caused by: a.b.Last: z\n\tat p.Q.g(Q.java:3)\n\t... 1 more\n";
        let head = crate::Input::bytes("x", text).begin().expect("bytes");
        let reading = JavaExceptions.read(head, &Options::default()).expect("text");
        let mut out = Vec::new();
        let tree = Tree::new(&reading.profile, &LabelOptions::default());
        crate::write_folded(&tree, &mut out).expect("to memory");
        let folded = String::from_utf8(out).expect("text");
        for class in ["a.b.Outer", "a.b.Same", "a.b.None", "a.b.Last"] {
            assert!(folded.contains(&format!("{class} 1\n")), "{class}: {folded}");
        }
        assert!(folded.contains(";p.Q.f;a.b.Same 1"), "its frames are those above: {folded}");
    }

    #[test]
    fn classes_of_exceptions() {
        assert_eq!(exception_class("java.io.IOException: no space"), Some("java.io.IOException"));
        assert_eq!(exception_class("Caused by: a.b.C$D"), Some("a.b.C$D"));
        let thread = "Exception in thread \"main\" java.lang.Error: x";
        assert_eq!(exception_class(thread), Some("java.lang.Error"));
        assert_eq!(exception_class("12:00 WARN retry failed at 1.5"), None);
        assert_eq!(exception_class(""), None);
    }
}
