//! Reader of stacks with counts, printed by SystemTap scripts with `print_stack`, `print_ustack`, `print_backtrace`,
//! `print_ubacktrace` and similar functions.
//!
//! ```text
//! my app
//!  0xffffffff8103ce3b : native_safe_halt+0xb/0x10 [kernel]
//!  0xffffffffa0239c10 : xfs_buf_iowait+0x40/0xa0 [xfs] (inexact)
//!  0x7fd360fc0a90 : __libc_malloc+0x0/0x300 [/usr/lib64/libc-2.28.so]
//!  0x7fd360fbf010 : 0x7fd360fbf010 [/opt/app/my%app+0x1010/0x5000]
//!  0x400d2f
//!         2404
//! ```
//!
//! - Frames are leaf first. A number alone on a line is the count, and ends the stack.
//! - If a function is unknown, its address is printed instead, and the module with an offset.
//! - Kernel frames are those in `[kernel]`, and those with addresses in the upper half: kernel modules.
//! - `(inexact)` marks frames that the unwinder guessed. They are kept, because there is no alternative.
//! - A line before the first frame that is not a frame, as printed by `printf("%s\n", execname())`, is the process.

use pyrograph_profile::{FrameKind, ValueType};

use super::text::{Collector, Lines, first_lines, hex_address, is_kernel_address, without_offset};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of SystemTap stacks.
pub struct SystemTap;

impl Reader for SystemTap {
    fn name(&self) -> &'static str {
        "systemtap"
    }

    fn written_by(&self) -> &'static str {
        "stap, with print_stack, print_ustack or print_backtrace and a count"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut named = false;
        for line in first_lines(head).take(4000) {
            match frame(line) {
                Some(frame) => named |= !frame.symbol.is_empty(),
                None if named && count(line).is_some() => return true,
                None => {}
            }
        }
        false
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut process = String::new();
        let mut begin = 0;
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some(frame) = frame(&line) {
                if out.depth() == 0 {
                    begin = lines.number();
                }
                frame.push(&mut out);
            } else if let Some(count) = count(&line) {
                if out.depth() == 0 {
                    continue;
                }
                match count {
                    Ok(count) => {
                        let thread = out.thread_named(&process);
                        out.end_leaf_first(thread, count);
                    }
                    Err(()) => {
                        lines.warn(WarningKind::CountOutOfRange);
                        out.discard();
                    }
                }
                process.clear();
            } else if out.depth() == 0 && !line.trim().is_empty() {
                line.trim().clone_into(&mut process);
            }
        }
        if out.depth() > 0 {
            lines.warn_at(WarningKind::NoCount, begin);
        }
        out.discard();
        Ok(out.reading(lines.warnings))
    }
}

struct Frame<'a> {
    address: u64,
    /// Empty if unknown.
    symbol: &'a str,
    module: &'a str,
}

/// Parses a frame.
fn frame(line: &str) -> Option<Frame<'_>> {
    let text = line.trim();
    let (address, text) = text.split_once(' ').unwrap_or((text, ""));
    let address = hex_address(address)?;
    if text.is_empty() {
        return Some(Frame { address, symbol: "", module: "" });
    }
    let text = text.trim_start().strip_prefix(": ")?;
    let text = text.strip_suffix(" (inexact)").unwrap_or(text);
    let (symbol, module) = match text.strip_suffix(']').and_then(|text| text.split_once(" [")) {
        Some((symbol, module)) => (symbol, without_offset(module)),
        None => (text, ""),
    };
    let symbol = if hex_address(without_offset(symbol)).is_some() { "" } else { symbol };
    Some(Frame { address, symbol, module })
}

impl Frame<'_> {
    fn push(&self, out: &mut Collector) {
        let is_kernel = self.module == "kernel" || is_kernel_address(self.address);
        let kind = if is_kernel { FrameKind::Kernel } else { FrameKind::User };
        match self.symbol {
            "" => out.unknown(self.address, self.module, kind),
            symbol => out.symbol(symbol, self.module, kind),
        }
    }
}

/// Parses a line that is only a number; the error is a number out of range.
fn count(line: &str) -> Option<Result<u64, ()>> {
    let digits = line.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().map_err(drop))
}
