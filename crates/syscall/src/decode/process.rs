//! Processes: start, end, permissions.

use crate::call::{Extent, When};
use crate::context::{Context, Separated, address, flags, hex, number, one_of, put, until_nul};
use crate::kind::{Kind, Memory};
use crate::pieces;
use crate::signal;
use crate::text::quoted;
use crate::words::name_of;
use crate::words::process::{
    AMBIENT, CAPABILITIES, CLONE, CLONE3, IO_CLASSES, KEYRINGS, LANDLOCK_FILES, LANDLOCK_NETWORK,
    LANDLOCK_SCOPES, PERSONALITY, PRCTL, PRCTL_MM, SECCOMP_MODES, SECURE_BITS,
};

const PARENT_SETTID: u64 = 0x10_0000;
const CHILD_CLEARTID: u64 = 0x20_0000;
const CHILD_SETTID: u64 = 0x100_0000;
const SETTLS: u64 = 0x8_0000;
const PIDFD: u64 = 0x1000;

/// Flags; the low byte is the signal for the parent.
pub(crate) fn clone_flags(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    let (bits, signal) = (raw & !0xff, raw & 0xff);
    if bits != 0 || signal == 0 {
        flags(CLONE, bits, out);
    }
    if signal != 0 {
        if bits != 0 {
            out.push('|');
        }
        context.value(&Kind::Signal, signal, out);
    }
}

fn with_flag(context: &Context<'_>, index: usize, bits: u64, out: &mut String) {
    if context.raw(0) & bits != 0 {
        address(context.raw(index), out);
    }
}

/// Address for the child's ID, which is used only with its flag.
pub(crate) fn clone_parent(context: &Context<'_>, index: usize, out: &mut String) {
    match context
        .memory(index, When::Exit)
        .filter(|_| context.raw(0) & (PARENT_SETTID | PIDFD) != 0)
    {
        Some(memory) => context.item(&crate::layouts::ONE_INT, memory.bytes, out),
        None => with_flag(context, index, PARENT_SETTID | PIDFD, out),
    }
}

pub(crate) const PARENT_COPIES: &[(When, Extent)] = &[(When::Exit, Extent::UpTo(4))];

pub(crate) fn clone_child(context: &Context<'_>, index: usize, out: &mut String) {
    with_flag(context, index, CHILD_CLEARTID | CHILD_SETTID, out);
}

pub(crate) fn clone_tls(context: &Context<'_>, index: usize, out: &mut String) {
    with_flag(context, index, SETTLS, out);
}

/// `struct clone_args` has 88 bytes; `set_tid` and `cgroup` are used only if the program knows them.
pub(crate) const CLONE3_COPIES: &[(When, Extent)] = &[(When::Entry, Extent::UpTo(88))];

pub(crate) fn clone3(context: &Context<'_>, index: usize, out: &mut String) {
    let Some(memory) = context.memory(index, When::Entry) else {
        return address(context.raw(index), out);
    };
    let size = usize::try_from(context.raw(1)).unwrap_or(usize::MAX);
    let bytes = memory.bytes.get(..size).unwrap_or(memory.bytes);
    let long = |at| number(bytes, at, 8).unwrap_or(0);
    let bits = long(0);
    let mut fields = Separated::new('{', out);
    let field = fields.next();
    field.push_str("flags=");
    flags(CLONE3, bits, field);
    for (name, at, when) in [
        ("pidfd=", 8, PIDFD),
        ("child_tid=", 16, CHILD_CLEARTID | CHILD_SETTID),
        ("parent_tid=", 24, PARENT_SETTID),
    ] {
        if bits & when != 0 {
            let field = fields.next();
            field.push_str(name);
            address(long(at), field);
        }
    }
    let field = fields.next();
    field.push_str("exit_signal=");
    match long(32) {
        0 => field.push('0'),
        signal => context.value(&Kind::Signal, signal, field),
    }
    let field = fields.next();
    field.push_str("stack=");
    address(long(40), field);
    let field = fields.next();
    field.push_str("stack_size=");
    hex(long(48), field);
    if bits & SETTLS != 0 {
        let field = fields.next();
        field.push_str("tls=");
        address(long(56), field);
    }
    fields.close('}');
}

/// Writes an array of strings: `["ls", "-l"]`.
pub(crate) fn strings(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let mut separated = Separated::new('[', out);
    let (mut shown, mut more) = (0, memory.length > memory.bytes.len() as u64);
    for piece in pieces(memory.bytes) {
        if shown == context.written.items {
            more = true;
            break;
        }
        shown += 1;
        let text = until_nul(piece.bytes);
        let cut = piece.length > piece.bytes.len() as u64 && text.len() == piece.bytes.len();
        quoted(text, context.written.text, cut, separated.next());
    }
    if more {
        separated.next().push_str("...");
    }
    separated.close(']');
}

/// Writes the environment as the number of its variables.
pub(crate) fn variables(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let pointers = memory.bytes.chunks_exact(8);
    let count = pointers.clone().take_while(|word| word.iter().any(|&byte| byte != 0)).count();
    address(memory.address, out);
    let whole = count < pointers.len() || memory.length <= memory.bytes.len() as u64;
    let more = if whole { "" } else { "at least " };
    put(out, format_args!(" /* {more}{count} var{} */", if count == 1 { "" } else { "s" }));
}

/// Writes how a child has ended or stopped; only the address if no child has.
pub(crate) fn wait_status(context: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let Some(status) = number(memory.bytes, 0, 4).filter(|_| context.success() != Some(0)) else {
        return address(memory.address, out);
    };
    out.push_str("[{");
    let signal = |number: u64, out: &mut String| match signal::name(number as i32) {
        Some(name) => out.push_str(&name),
        None => put(out, format_args!("{number}")),
    };
    match (status & 0x7f, status) {
        (_, 0xffff) => out.push_str("WIFCONTINUED(s)"),
        (0, _) => {
            put(out, format_args!("WIFEXITED(s) && WEXITSTATUS(s) == {}", status >> 8 & 0xff))
        }
        (0x7f, _) => {
            out.push_str("WIFSTOPPED(s) && WSTOPSIG(s) == ");
            signal(status >> 8 & 0x7f, out);
            if status >> 15 & 1 == 1 {
                out.push_str(" | 0x80");
            }
        }
        (ended, _) => {
            out.push_str("WIFSIGNALED(s) && WTERMSIG(s) == ");
            signal(ended, out);
            if status & 0x80 != 0 {
                out.push_str(" && WCOREDUMP(s)");
            }
        }
    }
    out.push_str("}]");
}

/// Writes a set of CPUs: `[0 1 2]`.
pub(crate) fn cpus(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    out.push('[');
    let mut first = true;
    let set =
        |bit: &usize| memory.bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
    for bit in (0..memory.bytes.len() * 8).filter(set) {
        if !std::mem::take(&mut first) {
            out.push(' ');
        }
        put(out, format_args!("{bit}"));
    }
    out.push(']');
}

pub(crate) fn personality(context: &Context<'_>, index: usize, out: &mut String) {
    match context.raw(index) & 0xffff_ffff {
        0xffff_ffff => out.push_str("0xffffffff"),
        raw => {
            match raw & 0xff {
                0 => out.push_str("PER_LINUX"),
                8 => out.push_str("PER_LINUX32"),
                other => hex(other, out),
            }
            if raw & !0xff != 0 {
                out.push('|');
                flags(PERSONALITY, raw & !0xff, out);
            }
        }
    }
}

pub(crate) fn arch_prctl(context: &Context<'_>, index: usize, out: &mut String) {
    // ARCH_GET_FS, ARCH_GET_GS write to an address; the others take an address or a number.
    match context.raw(0) & 0xffff_ffff {
        0x1001..=0x1004 => address(context.raw(index), out),
        _ => hex(context.raw(index), out),
    }
}

pub(crate) fn io_priority(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    out.push_str("IOPRIO_PRIO_VALUE(");
    one_of(IO_CLASSES, raw >> 13, out);
    put(out, format_args!(", {})", raw & 0x1fff));
}

/// Writes `struct landlock_ruleset_attr`, as far as the program knows it.
pub(crate) fn landlock(_: &Context<'_>, memory: &Memory<'_>, out: &mut String) {
    let mut fields = Separated::new('{', out);
    for (name, at, table) in [
        ("handled_access_fs=", 0, LANDLOCK_FILES),
        ("handled_access_net=", 8, LANDLOCK_NETWORK),
        ("scoped=", 16, LANDLOCK_SCOPES),
    ] {
        if let Some(value) = number(memory.bytes, at, 8) {
            let field = fields.next();
            field.push_str(name);
            flags(table, value, field);
        }
    }
    fields.close('}');
}

/// A thread name has 16 bytes; other commands write a number.
pub(crate) const PRCTL_COPIES: &[(When, Extent)] =
    &[(When::Entry, Extent::UpTo(16)), (When::Exit, Extent::UpTo(16))];

/// The second argument of `prctl`; its meaning depends on the first: `linux/prctl.h`.
pub(crate) fn prctl(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index);
    match context.raw(0) & 0xffff_ffff {
        // PR_SET_PDEATHSIG
        1 => match raw {
            0 => out.push('0'),
            _ => context.value(&Kind::Signal, raw, out),
        },
        // PR_GET_PDEATHSIG, PR_GET_CHILD_SUBREAPER and other commands that write a number
        2 | 5 | 9 | 11 | 19 | 25 | 37 => match context.memory(index, When::Exit) {
            Some(memory) => context.item(&crate::layouts::ONE_INT, memory.bytes, out),
            None => address(raw, out),
        },
        command @ (15 | 16) => {
            let when = if command == 15 { When::Entry } else { When::Exit };
            match context.memory(index, when) {
                Some(memory) => {
                    let name = until_nul(memory.bytes);
                    quoted(name.get(..15).unwrap_or(name), usize::MAX, false, out);
                }
                None => address(raw, out),
            }
        }
        // PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_TIMING, PR_GET_SECCOMP, PR_GET_SECUREBITS, PR_GET_TIMERSLACK,
        // PR_TASK_PERF_EVENTS_*, PR_MCE_KILL_GET, PR_GET_NO_NEW_PRIVS, PR_GET_THP_DISABLE, PR_GET_IO_FLUSHER take none.
        3 | 7 | 13 | 21 | 27 | 30 | 31 | 32 | 34 | 58 => {
            if context.raw(0) == 34 {
                hex(raw, out);
            }
        }
        4 | 8 | 14 | 29 | 36 | 38 | 57 => put(out, format_args!("{}", raw as i64)),
        22 => one_of(SECCOMP_MODES, raw, out),
        23 | 24 => one_of(CAPABILITIES, raw, out),
        28 => flags(SECURE_BITS, raw, out),
        35 => one_of(PRCTL_MM, raw, out),
        39 | 42 => hex(raw, out),
        47 => one_of(AMBIENT, raw, out),
        0x5356_4d41 => one_of(&[(0, "PR_SET_VMA_ANON_NAME")], raw, out),
        _ => hex(raw, out),
    }
}

/// The other arguments of `prctl`, for commands that use them.
pub(crate) fn prctl_rest(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index);
    match (context.raw(0) & 0xffff_ffff, index) {
        (47, 2) if name_of(AMBIENT, context.raw(1)).is_some() => one_of(CAPABILITIES, raw, out),
        // PR_GET_NO_NEW_PRIVS, PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_CAP_AMBIENT, PR_SET_MDWE require zeros.
        (34..=47 | 52..=59 | 62 | 65 | 66 | 67 | 68, _) => put(out, format_args!("{raw}")),
        (22 | 0x5356_4d41, _) if index < 4 => address(raw, out),
        (0x5356_4d41, _) => address(raw, out),
        (unknown, _) if name_of(PRCTL, unknown).is_none() => hex(raw, out),
        _ => {}
    }
}

/// ID of a key, or a special ID of a keyring.
pub(crate) fn keyring(context: &Context<'_>, index: usize, out: &mut String) {
    let raw = context.raw(index) & 0xffff_ffff;
    match name_of(KEYRINGS, raw) {
        Some(name) => out.push_str(name),
        None => put(out, format_args!("{}", raw as i32)),
    }
}

/// Descriptors that `kcmp` compares, for the types that use them: `KCMP_FILE`, `KCMP_EPOLL_TFD`.
pub(crate) fn compared(context: &Context<'_>, index: usize, out: &mut String) {
    match context.raw(2) & 0xffff_ffff {
        0 | 7 => hex(context.raw(index), out),
        _ => {}
    }
}

/// Arguments of `keyctl` after its command, `linux/keyctl.h`: the first is usually a key or a keyring.
pub(crate) fn keyctl(context: &Context<'_>, index: usize, out: &mut String) {
    // Number of arguments after each command, in order of the commands' numbers.
    const COUNTS: [u8; 33] = [
        2, 1, 3, 1, 3, 2, 3, 1, 2, 2, 4, 3, 4, 3, 1, 2, 1, 3, 0, 4, 4, 1, 2, 4, 4, 4, 4, 4, 4, 3,
        4, 2, 3,
    ];
    let command = context.raw(0) & 0xffff_ffff;
    let count = usize::try_from(command)
        .ok()
        .and_then(|command| COUNTS.get(command))
        .map_or(4, |&count| usize::from(count));
    // KEYCTL_JOIN_SESSION_KEYRING, KEYCTL_SET_REQKEY_KEYRING, KEYCTL_DH_COMPUTE, KEYCTL_PKEY_QUERY..VERIFY, KEYCTL_CAPABILITIES
    let takes_key = !matches!(command, 1 | 14 | 23 | 24..=28 | 31);
    match index {
        _ if index > count => {}
        1 if takes_key => keyring(context, index, out),
        _ => hex(context.raw(index), out),
    }
}
