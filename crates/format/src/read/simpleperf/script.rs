//! Parser of the text of simpleperf's `report_sample.py`, which is similar to that of `perf script`, but with tabs
//! between columns:
//!
//! ```text
//! Gecko\t25122 [007] 115539.936601:\t\t1000000 task-clock:u:
//!         b3cea6c4\tLock::unlock() (/system/lib/libc.so)
//! ```

use std::borrow::Cow;

use super::{FrameText, SampleText};
use crate::perf_frame::split_module;
use crate::read::text::{first_lines, hex_address};

/// True if the text begins like the output of `report_sample.py`.
pub(super) fn begins(head: &[u8]) -> bool {
    let mut lines = first_lines(head).skip_while(|line| line.is_empty() || line.starts_with('#'));
    lines.next().is_some_and(|line| header(line).is_some())
}

/// Parses the header line of a sample. The name is followed by a thread ID, or `process/thread`.
pub(super) fn header(line: &str) -> Option<SampleText<'static>> {
    let (comm, rest) = line.split_once('\t')?;
    let (thread, rest) = rest.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.split_once(":\t\t")?;
    let (count, event) = rest.trim_end().strip_suffix(':')?.split_once(' ')?;
    let tid: i32 = thread.rsplit('/').next()?.parse().ok()?;
    let _: u32 = cpu.parse().ok()?;
    let (seconds, fraction) = time.split_once('.')?;
    let (seconds, nanoseconds): (u64, u64) =
        (seconds.parse().ok()?, format!("{fraction:0<9}").parse().ok()?);
    Some(SampleText {
        event: Cow::Owned(event.to_owned()),
        time: Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)),
        count: Some(count.parse().ok()?),
        tid: Some(tid),
        comm: Cow::Owned(comm.to_owned()),
        ..SampleText::default()
    })
}

/// Parses a frame.
pub(super) fn frame(line: &str) -> Option<FrameText<'static>> {
    let (digits, rest) = line.trim().split_once('\t')?;
    let address = hex_address(&format!("0x{digits}")).filter(|_| line.starts_with(' '))?;
    let (symbol, module) = split_module(rest.as_bytes());
    let text = |bytes: &[u8]| Cow::Owned(String::from_utf8_lossy(bytes.trim_ascii()).into_owned());
    let (symbol, file) = (text(symbol), text(module));
    Some(FrameText { address, file, symbol, kind: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_parted_by_tabs() {
        let line = "Thread 1\t25100/25122 [007] 115539.936601:\t\t1000000 task-clock:u:";
        let sample = header(line).expect("a header");
        assert_eq!((&*sample.comm, sample.tid), ("Thread 1", Some(25122)));
        assert_eq!((sample.time, sample.count), (Some(115_539_936_601_000), Some(1_000_000)));
        assert_eq!(sample.event, "task-clock:u");
        let frame =
            frame("        b3cea6c4\tLock::unlock() (/system/lib/libc.so)").expect("a frame");
        assert_eq!((&*frame.symbol, &*frame.file), ("Lock::unlock()", "/system/lib/libc.so"));
        assert_eq!(frame.address, 0xb3ce_a6c4);
        assert!(!begins(b"perf 977/977 [000] 7628263.042515: cycles:\n"));
    }
}
