//! System V IPC.

use crate::context::{Context, flags, hex, put};
use crate::words::ipc::{IPC_GET, SHM_GET};

pub(crate) fn key(context: &Context<'_>, index: usize, out: &mut String) {
    match context.raw(index) & 0xffff_ffff {
        0 => out.push_str("IPC_PRIVATE"),
        some => hex(some, out),
    }
}

/// Flags with permissions in their low bits.
pub(crate) fn get_flags(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    if raw & !0o777 != 0 {
        let table = if context.call.name == "shmget" { SHM_GET } else { IPC_GET };
        flags(table, raw & !0o777, out);
        out.push('|');
    }
    put(out, format_args!("0{:02o}", raw & 0o777));
}

/// The last argument of `semctl`, which only some commands use.
pub(crate) fn semaphore_argument(context: &Context<'_>, index: usize, out: &mut String) {
    // IPC_RMID, GETPID, GETVAL, GETNCNT, GETZCNT take none.
    if !matches!(context.raw(index - 1) & 0xffff_ffff, 0 | 11 | 12 | 14 | 15) {
        hex(context.raw(index), out);
    }
}
