//! Names of signals and signal sets.

use std::borrow::Cow;

use crate::context::{Context, Separated, number};
use crate::words::errors::SIGNALS;
use crate::words::name_of;

/// The kernel's real-time signals.
const REAL_TIME: std::ops::RangeInclusive<i32> = 32..=64;

/// Returns the name of a signal, such as `SIGINT` or `SIGRT_2`.
pub(crate) fn name(signal: i32) -> Option<Cow<'static, str>> {
    match signal {
        32 => Some("SIGRTMIN".into()),
        33..=64 => Some(format!("SIGRT_{}", signal - REAL_TIME.start()).into()),
        _ => name_of(SIGNALS, u64::try_from(signal).ok()?).map(Cow::Borrowed),
    }
}

/// Writes a signal set: `[INT CHLD]`, or its complement, `~[KILL STOP]`.
pub(crate) fn set(_: &Context<'_>, bytes: &[u8], out: &mut String) {
    let Some(set) = number(bytes, 0, 8) else { return out.push_str("...") };
    let inverted = set.count_ones() > 32;
    if inverted {
        out.push('~');
    }
    let shown = if inverted { !set } else { set };
    out.push('[');
    let mut first = true;
    for signal in (1..=64).filter(|signal| shown >> (signal - 1) & 1 == 1) {
        if !std::mem::take(&mut first) {
            out.push(' ');
        }
        if let Some(name) = name(signal) {
            out.push_str(name.trim_start_matches("SIG"));
        }
    }
    out.push(']');
}

/// Writes a handler: its address, `SIG_DFL` or `SIG_IGN`.
pub(crate) fn handler(_: &Context<'_>, bytes: &[u8], out: &mut String) {
    match number(bytes, 0, 8) {
        Some(0) => out.push_str("SIG_DFL"),
        Some(1) => out.push_str("SIG_IGN"),
        Some(u64::MAX) => out.push_str("SIG_ERR"),
        Some(address) => crate::context::address(address, out),
        None => out.push_str("..."),
    }
}

/// Writes `struct sigaction`; the restorer is shown only with its flag.
pub(crate) fn action(context: &Context<'_>, bytes: &[u8], out: &mut String) {
    const RESTORER: u64 = 0x0400_0000;
    let (Some(flags), Some(restorer)) = (number(bytes, 8, 8), number(bytes, 16, 8)) else {
        return out.push_str("...");
    };
    let mut fields = Separated::new('{', out);
    let field = fields.next();
    field.push_str("sa_handler=");
    handler(context, bytes, field);
    let field = fields.next();
    field.push_str("sa_mask=");
    set(context, bytes.get(24..).unwrap_or_default(), field);
    let field = fields.next();
    field.push_str("sa_flags=");
    crate::context::flags(crate::words::signals::ACTION, flags, field);
    if flags & RESTORER != 0 {
        let field = fields.next();
        field.push_str("sa_restorer=");
        crate::context::address(restorer, field);
    }
    fields.close('}');
}
