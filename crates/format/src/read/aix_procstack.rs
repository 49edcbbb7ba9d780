//! Reader of the output of AIX's `procstack`, of one run or several.
//!
//! ```text
//! 9306312: /usr/bin/app -x
//! ---------- tid# 12345678 (pthread ID:          1) ----------
//! 0x0900000000a1b2c3  __fd_select(??, ??, ??, ??, ??) + 0x90
//! 0x0000000100000abc  main(0x1, 0x2ff22000) + 0x23
//! 0x0000000100000290  __start() + 0x70
//! ```
//!
//! Each thread in each run is a sample of 1. In a process with one thread, there is no line for the thread.
//! Parameters are values, and are dropped.

use std::path::Path;

use pyrograph_profile::{FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of AIX `procstack` text.
pub struct AixProcstack;

impl Reader for AixProcstack {
    fn name(&self) -> &'static str {
        "AIX procstack"
    }

    fn written_by(&self) -> &'static str {
        "procstack (AIX)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head
            .split(|&byte| byte == b'\n')
            .filter_map(|line| str::from_utf8(line).ok())
            .filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default();
        process(first).is_some()
            && lines.next().is_some_and(|line| tid(line).is_some() || frame(line).is_some())
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut collector = Collector::new(ValueType::samples());
        let mut running: (Option<i32>, String) = (None, String::new());
        let mut thread = ThreadId::UNKNOWN;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(function) = frame(&line) {
                collector.frame(function, "", FrameKind::User);
                continue;
            }
            if collector.depth() > 0 {
                collector.end_leaf_first(thread, 1);
            }
            if let Some((pid, name)) = process(&line) {
                running = (Some(pid), name.to_owned());
                thread = collector.thread(&running.1, Some(pid), None);
            } else if let Some(tid) = tid(&line) {
                thread = collector.thread(&running.1, running.0, Some(tid));
            } else if !line.trim().is_empty() {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if collector.depth() > 0 {
            collector.end_leaf_first(thread, 1);
        }
        Ok(collector.reading(lines.warnings))
    }
}

/// Parses process ID and name in `9306312: /usr/bin/app -x`.
fn process(line: &str) -> Option<(i32, &str)> {
    let (pid, command) = line.split_once(": ")?;
    let path = command.split_ascii_whitespace().next()?;
    let name = Path::new(path).file_name()?.to_str()?;
    Some((pid.parse().ok()?, name))
}

/// Parses the thread ID in `---------- tid# 12345678 (pthread ID: 1) ----------`.
fn tid(line: &str) -> Option<i32> {
    let (_, rest) = line.strip_prefix("-----")?.split_once("tid# ")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses the function in `0x0900000000a1b2c3  __fd_select(??, ??) + 0x90`.
fn frame(line: &str) -> Option<&str> {
    let (address, rest) = line.trim_start().strip_prefix("0x")?.split_once("  ")?;
    let is_hex = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (call, offset) = rest.trim().rsplit_once(" + 0x")?;
    offset.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    // The last bracket opens the list of parameter values.
    let (function, _) = call.rsplit_once('(')?;
    is_hex.then_some(function)
}
