//! System calls with their stacks: `strace -k`.
//!
//! ```text
//! [pid  7] openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 3
//!  > /usr/lib/libc.so.6(__open64+0x51) [0xf8011]
//!  > /opt/app(main+0x55) [0x1239]
//!  > /opt/app() [0x10b1]
//! ```
//!
//! - Each call is one, its name the leaf. Frames are leaf first.
//! - The stack follows the end of a call: `<... read resumed>` where other threads' calls came between.

use pyrograph_profile::{FrameKind, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines, without_offset};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// See the module.
pub struct Strace;

impl Reader for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn written_by(&self) -> &'static str {
        "strace -k, strace -k -f"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).skip_while(|line| call(line).is_none());
        lines.next().is_some() && lines.take(200).any(|line| frame(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::new("calls", "count")).addresses(options);
        let mut line = String::new();
        while lines.next(&mut line) {
            if let Some((module, symbol, address)) = frame(&line) {
                if out.depth() > 0 {
                    match symbol {
                        "" => out.unknown(address, module, FrameKind::User),
                        symbol => out.symbol(symbol, module, FrameKind::User),
                    }
                }
                continue;
            }
            finish(&mut out);
            if let Some(name) = call(&line) {
                out.frame(name, "", FrameKind::Kernel);
            }
        }
        finish(&mut out);
        Ok(out.reading(lines.warnings))
    }
}

/// Calls without a stack, as those that are not finished yet, are left out.
fn finish(out: &mut Collector) {
    if out.depth() > 1 {
        out.end_leaf_first(ThreadId::UNKNOWN, 1);
    }
    out.discard();
}

/// The name of a call, behind the process's number and the time.
fn call(line: &str) -> Option<&str> {
    if let Some((_, rest)) = line.split_once("<... ") {
        return rest.split_once(" resumed>").map(|(name, _)| name);
    }
    let name = line.split_once('(')?.0.rsplit(' ').next()?;
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    (is_name(name) && (line.contains(" = ") || line.contains("<unfinished"))).then_some(name)
}

/// Module, symbol and address of ` > /opt/app(main+0x55) [0x1239]`.
fn frame(line: &str) -> Option<(&str, &str, u64)> {
    let (place, address) = line.strip_prefix(" > ")?.strip_suffix(']')?.rsplit_once(" [0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (module, symbol) = match place.strip_suffix(')') {
        // A C++ symbol has brackets of its own.
        Some(place) => place.split_once('(')?,
        None => (place, ""),
    };
    Some((module, without_offset(symbol), address))
}
