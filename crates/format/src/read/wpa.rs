//! Reader of stacks that Windows' `wpaexporter` writes as CSV.
//!
//! ```text
//! New Process Name,Stack,Count,Weight (in view) (ms)
//! app.exe,[Root]/ntdll.dll!RtlUserThreadStart/app.exe!main/app.exe!work,12,11.937500
//! ```
//!
//! - The profile passed to `wpaexporter` determines the columns: `Stack`, or a column whose name ends with it, is
//!   required, and a count or a weight; the process is used if there is one.
//! - Frames are separated by slashes, root first. A C++ name may contain a slash (`operator/`): a part without `!`,
//!   after a part that ends in `operator`, is joined to it.
//! - Each value becomes a column; the weight, if there is one, is shown.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, Thread, ThreadId, ValueType};

use super::csv_table::{Table, number, rounded};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `wpaexporter` CSV.
pub struct Wpa;

/// True if a line is the heading.
fn is_heading(line: &str) -> bool {
    let cells: Vec<&str> =
        line.split(',').map(|cell| cell.trim_matches(['\u{feff}', '"', ' ', '\r'])).collect();
    cells.iter().any(|cell| *cell == "Stack" || cell.ends_with(" Stack"))
        && cells.iter().any(|cell| *cell == "Count" || cell.starts_with("Weight"))
}

impl Reader for Wpa {
    fn name(&self) -> &'static str {
        "wpaexporter"
    }

    fn written_by(&self) -> &'static str {
        "wpaexporter (Windows Performance Analyzer)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        str::from_utf8(first).is_ok_and(is_heading)
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut table = Table::open(input, b',', is_heading).ok_or_else(|| {
            let reason = "no heading with `Stack` and `Count` or `Weight`".to_owned();
            ReadError::Malformed { name, reason }
        })?;
        let find =
            |test: &dyn Fn(&str) -> bool| table.headings().iter().position(|name| test(name));
        let stack = find(&|name| name == "Stack" || name.ends_with(" Stack"));
        let process = find(&|name| name.contains("Process"));
        let values: Vec<(usize, ValueType, f64)> = [
            find(&|name| name == "Count").map(|at| (at, ValueType::samples(), 1.0)),
            find(&|name| name.starts_with("Weight"))
                .map(|at| (at, ValueType::new("cpu", "ns"), 1e6)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut profile = Profile::new(values.iter().map(|(_, of, _)| of.clone()).collect());
        profile.shown = values.len().saturating_sub(1);
        while table.next() {
            let numbers: Option<Vec<u64>> = values
                .iter()
                .map(|&(at, _, factor)| {
                    number(table.cell(at)).map(|number| rounded(number * factor))
                })
                .collect();
            let (Some(numbers), Some(stack)) = (numbers, stack) else {
                table.warn(WarningKind::UnreadableLine);
                continue;
            };
            let frames: Vec<_> = frames(&table.text(stack)).collect();
            let frames = frames.iter().map(|text| {
                let (module, function) = text.split_once('!').unwrap_or(("", text));
                let known = |text| if text == "?" { "" } else { text };
                let (module, function) = (known(module), known(function));
                let module = profile.strings.intern(module);
                let function = profile.strings.intern(function);
                profile.frames.intern(Frame { module, ..Frame::named(function, FrameKind::User) })
            });
            let frames: Vec<_> = frames.collect();
            let stack = profile.stacks.intern_path(frames);
            let thread = match process.map(|at| table.text(at)).unwrap_or_default().trim() {
                "" => ThreadId::UNKNOWN,
                name => {
                    let process = profile.strings.intern(name);
                    profile.threads.intern(Thread { process, ..Thread::default() })
                }
            };
            profile.push(Sample { thread, ..Sample::new(stack) }, &numbers);
        }
        Ok(Reading::new(profile, table.into_warnings()))
    }
}

/// Splits `[Root]/a.dll!f/a.dll!operator/` into frames.
fn frames(stack: &str) -> impl Iterator<Item = String> {
    let mut frames: Vec<String> = Vec::new();
    // The sample has no stack.
    let stack = if stack.trim() == "n/a" { "" } else { stack.trim() };
    for part in stack.split('/') {
        match frames.last_mut() {
            Some(last) if last.ends_with("operator") && !part.contains('!') => {
                last.push('/');
                last.push_str(part);
            }
            _ => frames.push(part.to_owned()),
        }
    }
    frames.into_iter().filter(|frame| !frame.is_empty() && frame != "[Root]")
}
