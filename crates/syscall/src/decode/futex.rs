//! `futex`, whose operations use some of its six arguments.

use crate::call::{Extent, When};
use crate::context::{Context, address, flags, hex, one_of, put};
use crate::layouts::TIMESPEC;
use crate::words::process::{FUTEX, FUTEX_FLAGS};

const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const CMP_REQUEUE_PI: u64 = 12;

/// Bits of the operation that are flags.
const FLAGS: u64 = 128 | 256;

pub(crate) const TIMEOUT: &[(When, Extent)] = &[(When::Entry, Extent::UpTo(16))];

fn command(context: &Context<'_>) -> u64 {
    context.raw(1) & 0xffff_ffff & !FLAGS
}

pub(crate) fn operation(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    // The usual ones have a name of their own: FUTEX_WAIT_PRIVATE.
    one_of(FUTEX, raw & !FLAGS, out);
    if raw & 128 != 0 {
        out.push_str("_PRIVATE");
    }
    if raw & 256 != 0 {
        out.push('|');
        flags(FUTEX_FLAGS, 256, out);
    }
}

pub(crate) fn value(context: &Context<'_>, index: usize, out: &mut String) {
    // FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_LOCK_PI2
    match command(context) {
        7 => {}
        _ => put(out, format_args!("{}", context.raw(index) & 0xffff_ffff)),
    }
}

/// A timeout, or a second number for operations on two futexes.
pub(crate) fn timeout(context: &Context<'_>, index: usize, out: &mut String) {
    match command(context) {
        // FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2
        0 | 6 | 9 | 11 | 13 => match context.memory(index, When::Entry) {
            Some(memory) => context.item(&TIMESPEC, memory.bytes, out),
            None => address(context.raw(index), out),
        },
        REQUEUE | CMP_REQUEUE | WAKE_OP | CMP_REQUEUE_PI => {
            put(out, format_args!("{}", context.raw(index) & 0xffff_ffff));
        }
        // FUTEX_WAKE, FUTEX_FD, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI
        1 | 2 | 7 | 8 => {}
        _ => address(context.raw(index), out),
    }
}

/// Address of the second futex.
pub(crate) fn second(context: &Context<'_>, index: usize, out: &mut String) {
    match command(context) {
        REQUEUE | CMP_REQUEUE | WAKE_OP | 11 | CMP_REQUEUE_PI => address(context.raw(index), out),
        _ => {}
    }
}

/// Value to compare with, or the bit mask of a wait.
pub(crate) fn third(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    match command(context) {
        CMP_REQUEUE | CMP_REQUEUE_PI => put(out, format_args!("{raw}")),
        WAKE_OP => hex(raw, out),
        9 | 10 if raw == 0xffff_ffff => out.push_str("FUTEX_BITSET_MATCH_ANY"),
        9 | 10 => hex(raw, out),
        _ => {}
    }
}
