//! Files: modes that may be absent, commands of `fcntl`, directories.

use crate::call::{Extent, When};
use crate::context::{Context, address, flags, hex, mode, number, one_of, put, until_nul};
use crate::kind::{Kind, Memory};
use crate::layouts::{LOCK, QUEUE};
use crate::text::quoted;
use crate::words::files::{
    ACCESS, DESCRIPTOR, LEASES, NOTIFY, OPEN, OPEN_WAYS, QUOTA, QUOTA_KINDS, SEALS,
};

/// Mode of a new file, which is used only if the flags before it may create one.
pub(crate) fn open_mode(context: &Context<'_>, index: usize, out: &mut String) {
    if context.raw(index - 1) & CREATES != 0 {
        mode(context.raw(index) & 0o177_777, out);
    }
}

/// `O_CREAT`, and the bit of `O_TMPFILE` that is not shared with other flags.
const CREATES: u64 = 0o100 | 0o20_000_000;

pub(crate) const QUEUE_COPIES: &[(When, Extent)] = &[(When::Entry, Extent::UpTo(64))];

/// Attributes of a new message queue.
pub(crate) fn queue_attributes(context: &Context<'_>, index: usize, out: &mut String) {
    if context.raw(index - 2) & CREATES != 0 {
        match context.memory(index, When::Entry) {
            Some(memory) => context.item(&QUEUE, memory.bytes, out),
            None => address(context.raw(index), out),
        }
    }
}

/// High half of an offset, which 64-bit kernels ignore.
pub(crate) fn high_half(_: &Context<'_>, _: usize, _: &mut String) {}

/// `QCMD` of `linux/quota.h`: the command and the type of quota.
pub(crate) fn quota(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    out.push_str("QCMD(");
    one_of(QUOTA, raw >> 8, out);
    out.push_str(", ");
    one_of(QUOTA_KINDS, raw & 0xff, out);
    out.push(')');
}

pub(crate) fn access(context: &Context<'_>, index: usize, out: &mut String) {
    match context.raw(index) & 0xffff_ffff {
        0 => out.push_str("F_OK"),
        some => flags(ACCESS, some, out),
    }
}

/// Device number of a new node, which is used only for devices.
pub(crate) fn device(context: &Context<'_>, index: usize, out: &mut String) {
    if matches!(context.raw(index - 1) & 0o170_000, 0o020_000 | 0o060_000) {
        crate::context::device(context.raw(index) & 0xffff_ffff, out);
    }
}

pub(crate) const FCNTL_COPIES: &[(When, Extent)] =
    &[(When::Entry, Extent::UpTo(32)), (When::Exit, Extent::UpTo(32))];

/// Commands of `fcntl`.
pub(crate) mod command {
    pub(crate) const DUPFD: u64 = 0;
    pub(crate) const GETFD: u64 = 1;
    pub(crate) const SETFD: u64 = 2;
    pub(crate) const GETFL: u64 = 3;
    pub(crate) const SETFL: u64 = 4;
    pub(crate) const DUPFD_CLOEXEC: u64 = 1030;
    pub(crate) const GET_SEALS: u64 = 1034;
}

pub(crate) fn fcntl_argument(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index);
    let low = raw & 0xffff_ffff;
    match context.raw(index - 1) & 0xffff_ffff {
        // F_GETFD, F_GETFL, F_GETOWN, F_GETSIG, F_GETLEASE, F_GETPIPE_SZ, F_GET_SEALS, F_CREATED_QUERY
        command::GETFD | command::GETFL | 9 | 11 | 1025 | 1032 | command::GET_SEALS | 1028 => {}
        command::SETFD => flags(DESCRIPTOR, low, out),
        command::SETFL => context.value(&Kind::Mixed(3, OPEN_WAYS, OPEN), raw, out),
        1024 => context.value(&Kind::Name(LEASES), raw, out),
        1026 => flags(NOTIFY, low, out),
        1033 => flags(SEALS, low, out),
        10 => context.value(&Kind::Signal, raw, out),
        // F_DUPFD_QUERY
        1027 => context.descriptor(raw as i32, out),
        command::DUPFD | command::DUPFD_CLOEXEC | 8 | 1031 => {
            put(out, format_args!("{}", raw as i32))
        }
        // F_SETLK, F_SETLKW and the same for open file descriptions; F_GETLK returns a lock.
        6 | 7 | 37 | 38 => lock(context, index, When::Entry, out),
        5 | 36 => lock(context, index, When::Exit, out),
        _ => hex(raw, out),
    }
}

fn lock(context: &Context<'_>, index: usize, when: When, out: &mut String) {
    match context.memory(index, when) {
        Some(memory) => context.item(&LOCK, memory.bytes, out),
        None => address(context.raw(index), out),
    }
}

/// Writes the number of entries of a directory. The entry length is at the same offset in `struct linux_dirent64` and
/// in the older `struct linux_dirent`.
pub(crate) fn entries(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    const LENGTH: usize = 16;
    let (mut at, mut count) = (0_usize, 0_usize);
    while let Some(length) = number(memory.bytes, at + LENGTH, 2).filter(|&length| length > 0) {
        count += 1;
        at += length as usize;
    }
    address(memory.address, out);
    let more = if (at as u64) < memory.length { "at least " } else { "" };
    put(out, format_args!(" /* {more}{count} entries */"));
}

/// Writes a NUL-terminated string whose length, including the NUL, the call has returned.
pub(crate) fn text(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let text = until_nul(memory.bytes);
    quoted(text, usize::MAX, text.len() as u64 == memory.length, out);
}

/// Writes binary data in hexadecimal.
pub(crate) fn random(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let shown = memory.bytes.get(..context.written.text).unwrap_or(memory.bytes);
    out.push('"');
    for byte in shown {
        put(out, format_args!("\\x{byte:02x}"));
    }
    out.push('"');
    if memory.length > shown.len() as u64 {
        out.push_str("...");
    }
}
