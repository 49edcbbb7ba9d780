//! Where the kernel's scheduler is, so that the stack of a wait begins with what waits.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

/// The addresses of functions that the kernel keeps together because they belong to the scheduler or
/// wait for it (`__sched`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerText(Range<u64>);

impl SchedulerText {
    /// As the running kernel's symbols have it; nothing, where they are hidden.
    pub fn of_this_kernel() -> Self {
        File::open("/proc/kallsyms").map(Self::parse).unwrap_or_default()
    }

    /// A line of the symbols: `ffffffff821f84a0 T __sched_text_start`.
    fn parse(symbols: impl Read) -> Self {
        let mut range = 0..0;
        let mut symbols = BufReader::with_capacity(1 << 16, symbols);
        let mut line = Vec::new();
        while range.end == 0 {
            line.clear();
            if symbols.read_until(b'\n', &mut line).is_ok_and(|read| read == 0) {
                break;
            }
            let address = || {
                let digits = line.split(|byte| *byte == b' ').next()?;
                u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
            };
            if line.ends_with(b" __sched_text_start\n") {
                range.start = address().unwrap_or(0);
            } else if line.ends_with(b" __sched_text_end\n") {
                range.end = address().unwrap_or(0);
            }
        }
        Self(range)
    }

    /// The stack, leaf first, without the frames of the program that took it and of the scheduler. (The
    /// kernel itself leaves the latter out where it tells the stack of a thread that waits.)
    pub fn strip<'a>(&self, stack: &'a [u64]) -> &'a [u64] {
        /// The program and what calls it.
        const OWN: usize = 4;
        let Some(first) = stack.iter().take(OWN).position(|frame| self.0.contains(frame)) else {
            return stack;
        };
        let len = stack[first..].iter().take_while(|frame| self.0.contains(frame)).count();
        &stack[first + len..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_begin_with_what_waits() {
        let symbols = "10 T _text\n100 T __sched_text_start\n180 T schedule\n200 T __sched_text_end\n300 T x\n";
        let text = SchedulerText::parse(symbols.as_bytes());
        assert_eq!(text, SchedulerText(0x100..0x200));
        // A program, its caller, the scheduler, what waits: also where this calls the like again.
        assert_eq!(text.strip(&[0x900, 0x20, 0x180, 0x110, 0x30, 0x120]), [0x30, 0x120]);
        assert_eq!(text.strip(&[0x30, 0x40]), [0x30, 0x40]);
        assert_eq!(text.strip(&[0x180]), [0u64; 0]);
        assert_eq!(SchedulerText::parse(&b"0 T __sched_text_start\n"[..]).strip(&[0, 1]), [0, 1]);
    }

    #[test]
    fn the_running_kernel_tells_where_it_is() {
        // SAFETY: it takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root may see the kernel's addresses");
            return;
        }
        let SchedulerText(range) = SchedulerText::of_this_kernel();
        assert!(range.start > 1 << 63 && range.end > range.start);
    }
}
