//! Commands of `ioctl` and their arguments.

use crate::call::{Extent, When};
use crate::context::{Context, address, flags, hex, number, put};
use crate::kind::Item;
use crate::layouts::{ONE_INT, ONE_UINT, WINDOW_SIZE};
use crate::words::ioctl::IOCTL;
use crate::words::name_of;

/// The kernel's `struct termios` has 36 bytes. The size of everything else is in its command, or is smaller.
pub(crate) const COPIES: &[(When, Extent)] =
    &[(When::Entry, Extent::UpTo(64)), (When::Exit, Extent::UpTo(64))];

pub(crate) fn command(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    if let Some(name) = name_of(IOCTL, raw) {
        return out.push_str(name);
    }
    // asm-generic/ioctl.h: two bits of direction, 14 of the size, 8 of the driver, 8 of the number.
    let direction = match raw >> 30 {
        0 => "_IOC_NONE",
        1 => "_IOC_WRITE",
        2 => "_IOC_READ",
        _ => "_IOC_READ|_IOC_WRITE",
    };
    put(out, format_args!("_IOC({direction}"));
    for part in [(raw >> 8) & 0xff, raw & 0xff, (raw >> 16) & 0x3fff] {
        out.push_str(", ");
        hex(part, out);
    }
    out.push(')');
}

/// Kind of argument of a command.
enum Takes {
    Nothing,
    Number,
    Input(&'static Item),
    Output(&'static Item),
}

const ULONG: Item = Item::Numbers(1, 8, crate::kind::Kind::Ulong);
const FLAGS: Item = Item::Numbers(1, 4, crate::kind::Kind::Hex);
const TERMIOS: Item = Item::With(36, termios);

fn takes(command: u64) -> Option<Takes> {
    use Takes::{Input, Nothing, Number, Output};
    Some(match name_of(IOCTL, command)? {
        "TCGETS" | "TIOCGLCKTRMIOS" => Output(&TERMIOS),
        "TCSETS" | "TCSETSW" | "TCSETSF" | "TIOCSLCKTRMIOS" => Input(&TERMIOS),
        "TIOCGWINSZ" => Output(&WINDOW_SIZE),
        "TIOCSWINSZ" => Input(&WINDOW_SIZE),
        "FIONREAD" | "TIOCOUTQ" | "TIOCGPGRP" | "TIOCGSID" | "TIOCGETD" | "TIOCGEXCL"
        | "TIOCGPKT" | "TIOCGPTLCK" | "FIOGETOWN" | "SIOCGPGRP" | "SIOCATMARK" | "FIGETBSZ"
        | "BLKROGET" | "BLKSSZGET" | "RNDGETENTCNT" | "NS_GET_OWNER_UID" => Output(&ONE_INT),
        "TIOCGPTN" | "BLKPBSZGET" | "BLKIOMIN" | "BLKIOOPT" | "TIOCGDEV" => Output(&ONE_UINT),
        "FIONBIO" | "FIOASYNC" | "FIOSETOWN" | "SIOCSPGRP" | "TIOCSPGRP" | "TIOCSETD"
        | "TIOCSPTLCK" | "TIOCPKT" | "BLKROSET" => Input(&ONE_INT),
        "TIOCMGET" | "FS_IOC_GETFLAGS" => Output(&FLAGS),
        "TIOCMSET" | "TIOCMBIS" | "TIOCMBIC" | "FS_IOC_SETFLAGS" => Input(&FLAGS),
        "BLKGETSIZE" | "BLKGETSIZE64" | "BLKRAGET" | "PERF_EVENT_IOC_ID" => Output(&ULONG),
        "FIOCLEX" | "FIONCLEX" | "TIOCEXCL" | "TIOCNXCL" | "TIOCNOTTY" | "BLKFLSBUF"
        | "BLKRRPART" => Nothing,
        "TCFLSH"
        | "TCXONC"
        | "TCSBRK"
        | "TCSBRKP"
        | "TIOCSCTTY"
        | "PERF_EVENT_IOC_ENABLE"
        | "PERF_EVENT_IOC_DISABLE"
        | "PERF_EVENT_IOC_RESET"
        | "PERF_EVENT_IOC_SET_BPF"
        | "PERF_EVENT_IOC_SET_OUTPUT"
        | "PERF_EVENT_IOC_REFRESH"
        | "FICLONE" => Number,
        _ => return None,
    })
}

pub(crate) fn argument(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index);
    let (item, when) = match takes(context.raw(index - 1) & 0xffff_ffff) {
        Some(Takes::Nothing) => return,
        Some(Takes::Number) => return put(out, format_args!("{}", raw as i64)),
        Some(Takes::Input(item)) => (item, When::Entry),
        Some(Takes::Output(item)) => (item, When::Exit),
        None => return hex(raw, out),
    };
    match context.memory(index, when) {
        Some(memory) => context.item(item, memory.bytes, out),
        None => address(raw, out),
    }
}

/// Writes the terminal modes in `struct termios` of `asm-generic/termbits.h`, as far as they matter: the speed, and the
/// flags for output processing, signals, canonical mode and echo.
fn termios(_: &Context<'_>, bytes: &[u8], out: &mut String) {
    let (Some(output), Some(control), Some(local)) =
        (number(bytes, 4, 4), number(bytes, 8, 4), number(bytes, 12, 4))
    else {
        return out.push_str("...");
    };
    let speeds = [
        "B0", "B50", "B75", "B110", "B134", "B150", "B200", "B300", "B600", "B1200", "B1800",
        "B2400", "B4800", "B9600", "B19200", "B38400",
    ];
    let more =
        ["B57600", "B115200", "B230400", "B460800", "B500000", "B576000", "B921600", "B1000000"];
    out.push('{');
    match control & 0o010_017 {
        low @ 0..=15 => out.push_str(speeds.get(low as usize).unwrap_or(&"")),
        high @ 0o010_001..=0o010_010 => {
            out.push_str(more.get(high as usize - 0o010_001).unwrap_or(&""))
        }
        other => flags(crate::words::NONE, other, out),
    }
    for (on, name) in
        [(output & 1, "opost"), (local & 1, "isig"), (local & 2, "icanon"), (local & 8, "echo")]
    {
        put(out, format_args!(" {}{name}", if on == 0 { "-" } else { "" }));
    }
    out.push_str(" ...}");
}
