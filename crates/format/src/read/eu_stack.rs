//! Reader of stacks that elfutils' `eu-stack` prints, with any of its options; a file may contain several dumps, as
//! taken by a poor man's profiler.
//!
//! ```text
//! PID 29528 - process
//! TID 29528:
//! #0  0x000055899ab8b1aa     app::spin(int, app::Config const&) - /opt/app/busy
//!     /opt/app/busy.cpp:9:81
//! #1  0x000055899ab8b1c0 - 1 inner - /opt/app/busy
//! #2  0x000055899ab8b1c0 - 1 operator() - /opt/app/busy
//! #3  0x000055b14286f1f8 - /opt/app/stripped
//! #4  0x000055b14286f1c0
//! ```
//!
//! - `- 1` marks a return address (`-a`); `#0`, which is not one, then has blanks in its place.
//! - The module follows the name (`-m`), or the address if there is no name. The source position (`-s`) is on a
//!   separate line.
//! - Inlined calls (`-i`) have the same address as the function below them. So do the calls of a recursive function,
//!   but these also have the same name.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `eu-stack` text.
pub struct EuStack;

impl Reader for EuStack {
    fn name(&self) -> &'static str {
        "eu-stack"
    }

    fn written_by(&self) -> &'static str {
        "eu-stack -p PID (elfutils)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines =
            first_lines(head).take(2000).skip_while(|line| number(line, "TID ").is_none());
        lines.nth(1).is_some_and(|line| line.starts_with("#0") && Frame::parse(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut stack: Vec<Frame> = Vec::new();
        let (mut pid, mut tid) = (None, None);
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(frame) = Frame::parse(&line) {
                stack.push(frame);
            } else if let Some(source) = line.strip_prefix("    ") {
                if let Some(frame) = stack.last_mut() {
                    frame.source(source);
                }
            } else if let Some(number) = number(&line, "PID ") {
                end(&mut out, &mut stack, pid, tid);
                (pid, tid) = (Some(number), None);
            } else if let Some(number) = number(&line, "TID ") {
                end(&mut out, &mut stack, pid, tid);
                tid = Some(number);
            } else if line.starts_with('#') {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        end(&mut out, &mut stack, pid, tid);
        Ok(out.reading(lines.warnings))
    }
}

/// Parses `PID 29528 - process` or `TID 29528:`.
fn number(line: &str, word: &str) -> Option<i32> {
    let rest = line.strip_prefix(word)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    matches!(&rest[digits..], ":" | " - process" | " - core")
        .then(|| rest[..digits].parse().ok())?
}

struct Frame {
    address: u64,
    function: String,
    module: String,
    file: String,
    line: u32,
}

impl Frame {
    fn parse(line: &str) -> Option<Self> {
        let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
        number.parse::<u32>().ok()?;
        let rest = rest.trim();
        let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let address = hex_address(address)?;
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("- 1").map_or(rest, str::trim_start);
        let is_module = |module: &str| module.starts_with(['/', '[']);
        let (function, module) = match rest.rsplit_once("- ") {
            Some((function, module)) if is_module(module) => (function.trim_end(), module),
            _ => (rest, ""),
        };
        let (function, module) = (function.to_owned(), module.to_owned());
        Some(Self { address, function, module, file: String::new(), line: 0 })
    }

    /// Parses `/opt/app/busy.cpp:9:81`; the column may be missing.
    fn source(&mut self, text: &str) {
        let mut parts = text.trim_end().rsplitn(3, ':');
        let (last, middle, first) = (parts.next(), parts.next(), parts.next());
        let line = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        match (first, line(middle), line(last)) {
            (Some(file), Some(line), Some(_)) => (self.file, self.line) = (file.to_owned(), line),
            (_, None, Some(line)) => {
                let file = text.rsplit_once(':').map_or("", |(file, _)| file);
                (self.file, self.line) = (file.to_owned(), line);
            }
            (None, Some(_), Some(_)) | (_, _, None) => {}
        }
    }
}

fn end(out: &mut Collector, stack: &mut Vec<Frame>, pid: Option<i32>, tid: Option<i32>) {
    if stack.is_empty() {
        return;
    }
    for (place, frame) in stack.iter().enumerate() {
        let inlined = stack.get(place + 1).is_some_and(|outer| {
            outer.address == frame.address && outer.function != frame.function
        });
        let kind = if inlined { FrameKind::Inlined } else { FrameKind::User };
        match frame.function.as_str() {
            "" => out.unknown(frame.address, &frame.module, kind),
            function => out.symbol_at(function, &frame.module, kind, (&frame.file, frame.line)),
        }
    }
    stack.clear();
    let thread = out.thread("", pid, tid);
    out.end_leaf_first(thread, 1);
}
