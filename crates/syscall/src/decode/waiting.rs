//! Waiting for descriptors: `poll`, `select`, `epoll`.

use crate::call::{Extent, When};
use crate::context::{Context, Separated, address, number};
use crate::kind::Memory;
use crate::layouts::{EPOLL_EVENT, POLL_READY, POLL_WANTED};

pub(crate) const POLL_COPIES: &[(When, Extent)] = &[
    (When::Entry, Extent::Argument { argument: 1, times: 8 }),
    (When::Exit, Extent::Argument { argument: 1, times: 8 }),
];

/// Events that `poll` waits for.
pub(crate) fn poll(context: &Context<'_>, index: usize, out: &mut String) {
    match context.memory(index, When::Entry) {
        Some(memory) => context.array(&POLL_WANTED, &memory, out),
        None if context.raw(1) == 0 && context.raw(index) != 0 => out.push_str("[]"),
        None => address(context.raw(index), out),
    }
}

/// Writes the ready descriptors, after their number: ` ([{fd=5, revents=POLLIN}])`.
pub(crate) fn ready(context: &Context<'_>, out: &mut String) {
    if context.seen.result == Some(0) {
        return out.push_str(" (Timeout)");
    }
    let Some(memory) =
        context.memory(0, When::Exit).filter(|_| context.call.name.ends_with("poll"))
    else {
        return;
    };
    out.push_str(" (");
    let mut separated = Separated::new('[', out);
    let ready = |one: &&[u8]| number(one, 6, 2).is_some_and(|events| events != 0);
    for one in memory.bytes.chunks_exact(8).filter(ready).take(context.written.items) {
        context.item(&POLL_READY, one, separated.next());
    }
    separated.close(']');
    out.push(')');
}

pub(crate) const EPOLL_COPIES: &[(When, Extent)] =
    &[(When::Entry, Extent::Fixed(crate::layouts::EPOLL_EVENT_SIZE))];

/// Event of `epoll_ctl`, which `EPOLL_CTL_DEL` does not read.
pub(crate) fn epoll_control(context: &Context<'_>, index: usize, out: &mut String) {
    match context.memory(index, When::Entry).filter(|_| context.raw(1) & 0xffff_ffff != 2) {
        Some(memory) => context.item(&EPOLL_EVENT, memory.bytes, out),
        None => address(context.raw(index), out),
    }
}

/// Maximum size of a set for `select`, in bytes; it reads as many bits as its first argument says, in whole words.
pub(crate) const SET_BYTES: u32 = 128;

/// Writes a set of descriptors of `select`.
pub(crate) fn descriptors(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let count = (context.raw(0) as u32 as usize).min(memory.bytes.len() * 8);
    let mut first = true;
    out.push('[');
    let set =
        |bit: &usize| memory.bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
    for bit in (0..count).filter(set) {
        if !std::mem::take(&mut first) {
            out.push(' ');
        }
        context.descriptor(bit as i32, out);
    }
    out.push(']');
}
