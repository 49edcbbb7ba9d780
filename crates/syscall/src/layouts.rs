//! Structures of system calls, with the fields that are shown. Offsets are for 64-bit Linux.

use crate::context::{Context, Separated, device, mode, number, put};
use crate::kind::{Field, Item, Kind, Layout};
use crate::signal;
use crate::words::{events, files, ipc, memory, process, signals, time, tracing};

const fn plain(size: u16, fields: &'static [Field]) -> Layout {
    Layout { size, fields, more: false }
}

const fn partial(size: u16, fields: &'static [Field]) -> Layout {
    Layout { size, fields, more: true }
}

const fn field(name: &'static str, at: u16, item: Item) -> Field {
    Field { name, at, item }
}

const I32: Item = Item::Number(4, Kind::Int);
const U16: Item = Item::Number(2, Kind::Uint);
const U32: Item = Item::Number(4, Kind::Uint);
const I64: Item = Item::Number(8, Kind::Long);
const U64: Item = Item::Number(8, Kind::Ulong);
const X32: Item = Item::Number(4, Kind::Hex);
const X64: Item = Item::Number(8, Kind::Hex);
const POINTER_ITEM: Item = Item::Number(8, Kind::Address);

pub(crate) const UINT: Item = U32;
pub(crate) const HEX: Item = Item::Numbers(1, 8, Kind::Hex);
pub(crate) const LONG: Item = Item::Numbers(1, 8, Kind::Long);
pub(crate) const OFFSET: Item = LONG;
pub(crate) const POINTER: Item = Item::Numbers(1, 8, Kind::Address);
pub(crate) const ONE_UINT: Item = Item::Numbers(1, 4, Kind::Uint);
pub(crate) const ONE_INT: Item = Item::Numbers(1, 4, Kind::Int);
/// Two descriptors, as `pipe` and `socketpair` return them.
pub(crate) const PIPE: Item = Item::Numbers(2, 4, Kind::Fd);
pub(crate) const POLICY_OF_MEMORY: Item = Item::Numbers(1, 4, Kind::Name(memory::MEMORY_POLICIES));

/// `struct stat`, of which the type, the mode, and the size or device are shown.
#[cfg(target_arch = "x86_64")]
const STAT_OFFSETS: (usize, usize, usize) = (24, 40, 48);
#[cfg(not(target_arch = "x86_64"))]
const STAT_OFFSETS: (usize, usize, usize) = (16, 32, 48);
#[cfg(target_arch = "x86_64")]
pub(crate) const STAT: Item = Item::With(144, stat);
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const STAT: Item = Item::With(128, stat);

fn stat(_: &Context<'_>, bytes: &[u8], out: &mut String) {
    let (mode_at, device_at, size_at) = STAT_OFFSETS;
    let read = |at, size| number(bytes, at, size).unwrap_or(0);
    let kind = read(mode_at, 4);
    out.push_str("{st_mode=");
    mode(kind, out);
    if matches!(kind & 0o170_000, 0o020_000 | 0o060_000) {
        out.push_str(", st_rdev=");
        device(read(device_at, 8), out);
    } else {
        put(out, format_args!(", st_size={}", read(size_at, 8)));
    }
    out.push_str(", ...}");
}

pub(crate) const STATX: Item = Item::Struct(&partial(
    256,
    &[
        field("stx_mask", 0, Item::Number(4, Kind::Flags(files::STATX_MASK))),
        field("stx_attributes", 8, Item::Number(8, Kind::Flags64(files::STATX_ATTRIBUTES))),
        field("stx_mode", 28, Item::Number(2, Kind::Mode)),
        field("stx_size", 40, U64),
    ],
));

pub(crate) const STATFS: Item = Item::Struct(&plain(
    120,
    &[
        field("f_type", 0, Item::Number(8, Kind::Name(files::FS_MAGIC))),
        field("f_bsize", 8, U64),
        field("f_blocks", 16, U64),
        field("f_bfree", 24, U64),
        field("f_bavail", 32, U64),
        field("f_files", 40, U64),
        field("f_ffree", 48, U64),
        field(
            "f_fsid",
            56,
            Item::Struct(&plain(8, &[field("val", 0, Item::Numbers(2, 4, Kind::Hex))])),
        ),
        field("f_namelen", 64, U64),
        field("f_frsize", 72, U64),
        field("f_flags", 80, Item::Number(8, Kind::Flags64(files::STATFS_FLAGS))),
    ],
));

pub(crate) const TIMESPEC: Item =
    Item::Struct(&plain(16, &[field("tv_sec", 0, I64), field("tv_nsec", 8, I64)]));
pub(crate) const TIMEVAL: Item =
    Item::Struct(&plain(16, &[field("tv_sec", 0, I64), field("tv_usec", 8, I64)]));
pub(crate) const TIMEZONE: Item =
    Item::Struct(&plain(8, &[field("tz_minuteswest", 0, I32), field("tz_dsttime", 4, I32)]));
pub(crate) const ITIMERSPEC: Item =
    Item::Struct(&plain(32, &[field("it_interval", 0, TIMESPEC), field("it_value", 16, TIMESPEC)]));
pub(crate) const ITIMERVAL: Item =
    Item::Struct(&plain(32, &[field("it_interval", 0, TIMEVAL), field("it_value", 16, TIMEVAL)]));
pub(crate) const UTIMBUF: Item =
    Item::Struct(&plain(16, &[field("actime", 0, I64), field("modtime", 8, I64)]));
pub(crate) const TWO_TIMEVALS: Item =
    Item::With(32, |context, bytes, out| two(context, &TIMEVAL, bytes, out));
pub(crate) const TWO_TIMESPECS: Item = Item::With(32, two_timespecs);

fn two(context: &Context<'_>, item: &Item, bytes: &[u8], out: &mut String) {
    let mut separated = Separated::new('[', out);
    for one in bytes.chunks(16) {
        context.item(item, one, separated.next());
    }
    separated.close(']');
}

/// Times, which may be `UTIME_NOW` or `UTIME_OMIT`.
fn two_timespecs(context: &Context<'_>, bytes: &[u8], out: &mut String) {
    let mut separated = Separated::new('[', out);
    for one in bytes.chunks(16) {
        let out = separated.next();
        match number(one, 8, 8) {
            Some(0x3fff_ffff) => out.push_str("UTIME_NOW"),
            Some(0x3fff_fffe) => out.push_str("UTIME_OMIT"),
            _ => context.item(&TIMESPEC, one, out),
        }
    }
    separated.close(']');
}

pub(crate) const TIMEX: Item = Item::Struct(&partial(
    208,
    &[
        field("modes", 0, Item::Number(4, Kind::Flags(time::ADJUST))),
        field("offset", 8, I64),
        field("freq", 16, I64),
        field("maxerror", 24, I64),
        field("esterror", 32, I64),
        field("status", 40, X32),
        field("constant", 48, I64),
        field("precision", 56, I64),
        field("tolerance", 64, I64),
        field("time", 72, TIMEVAL),
        field("tick", 88, I64),
    ],
));

pub(crate) const SIGNAL_SET: Item = Item::With(8, signal::set);
pub(crate) const SIGACTION: Item = Item::With(32, signal::action);
pub(crate) const STACK: Item = Item::Struct(&plain(
    24,
    &[
        field("ss_sp", 0, POINTER_ITEM),
        field("ss_flags", 8, Item::Number(4, Kind::Flags(signals::ALT_STACK))),
        field("ss_size", 16, U64),
    ],
));
pub(crate) const SIGNAL_INFO: Item = Item::With(128, signal_info);
pub(crate) const SIGNAL_EVENT: Item = Item::Struct(&partial(
    64,
    &[
        field(
            "sigev_value",
            0,
            Item::Struct(&plain(
                8,
                &[field("sival_int", 0, I32), field("sival_ptr", 0, POINTER_ITEM)],
            )),
        ),
        field("sigev_signo", 8, Item::Number(4, Kind::Signal)),
        field("sigev_notify", 12, Item::Number(4, Kind::Name(time::TIMER_NOTIFY))),
    ],
));

const CHILD: Item = Item::Struct(&plain(
    128,
    &[
        field("si_signo", 0, Item::Number(4, Kind::Signal)),
        field("si_code", 8, Item::Number(4, Kind::Name(process::CHILD_CODES))),
        field("si_pid", 16, I32),
        field("si_uid", 20, U32),
        field("si_status", 24, I32),
        field("si_utime", 32, I64),
        field("si_stime", 40, I64),
    ],
));
const SENT: Item = Item::Struct(&plain(
    128,
    &[
        field("si_signo", 0, Item::Number(4, Kind::Signal)),
        field("si_code", 8, Item::Number(4, Kind::Name(signals::SIGNAL_CODES))),
        field("si_pid", 16, I32),
        field("si_uid", 20, U32),
    ],
));
const FAULT: Item = Item::Struct(&plain(
    128,
    &[
        field("si_signo", 0, Item::Number(4, Kind::Signal)),
        field("si_code", 8, I32),
        field("si_addr", 16, POINTER_ITEM),
    ],
));

/// Writes `siginfo_t`: the fields that apply to the signal and its origin.
pub(crate) fn signal_info(context: &Context<'_>, bytes: &[u8], out: &mut String) {
    let (Some(signal), Some(code)) = (number(bytes, 0, 4), number(bytes, 8, 4)) else {
        return out.push_str("...");
    };
    let item = match (signal, code as i32) {
        (0, 0) => return out.push_str("{}"),
        (_, ..=0) => &SENT,
        (17, _) => &CHILD,
        (4 | 5 | 7 | 8 | 11, _) => &FAULT,
        _ => &SENT,
    };
    context.item(item, bytes, out);
}

pub(crate) const LIMIT: Item = Item::Struct(&plain(
    16,
    &[field("rlim_cur", 0, Item::With(8, limit)), field("rlim_max", 8, Item::With(8, limit))],
));

fn limit(_: &Context<'_>, bytes: &[u8], out: &mut String) {
    match number(bytes, 0, 8).unwrap_or(0) {
        u64::MAX => out.push_str("RLIM64_INFINITY"),
        // Multiples of a KiB: 8192*1024.
        value if value > 1024 && value.is_multiple_of(1024) => {
            put(out, format_args!("{}*1024", value / 1024))
        }
        value => put(out, format_args!("{value}")),
    }
}

pub(crate) const USAGE_TIMES: Item =
    Item::Struct(&partial(144, &[field("ru_utime", 0, TIMEVAL), field("ru_stime", 16, TIMEVAL)]));
pub(crate) const TIMES: Item = Item::Struct(&plain(
    32,
    &[
        field("tms_utime", 0, I64),
        field("tms_stime", 8, I64),
        field("tms_cutime", 16, I64),
        field("tms_cstime", 24, I64),
    ],
));
pub(crate) const SYSTEM: Item = Item::Struct(&plain(
    112,
    &[
        field("uptime", 0, I64),
        field("loads", 8, Item::Numbers(3, 8, Kind::Ulong)),
        field("totalram", 32, U64),
        field("freeram", 40, U64),
        field("sharedram", 48, U64),
        field("bufferram", 56, U64),
        field("totalswap", 64, U64),
        field("freeswap", 72, U64),
        field("procs", 80, U16),
        field("totalhigh", 88, U64),
        field("freehigh", 96, U64),
        field("mem_unit", 104, U32),
    ],
));
pub(crate) const NAMES: Item = Item::Struct(&partial(
    390,
    &[field("sysname", 0, Item::Chars(65)), field("nodename", 65, Item::Chars(65))],
));

pub(crate) const CAPABILITY_HEADER: Item = Item::Struct(&plain(
    8,
    &[
        field("version", 0, Item::Number(4, Kind::Name(process::CAPABILITY_VERSIONS))),
        field("pid", 4, I32),
    ],
));
/// Two structures of version 3, each with one half of the bits.
pub(crate) const CAPABILITY_DATA: Item = Item::With(24, |_, bytes, out| {
    let mut fields = Separated::new('{', out);
    for (at, name) in [(0, "effective="), (4, "permitted="), (8, "inheritable=")] {
        let half = |at| number(bytes, at, 4).unwrap_or(0);
        let all = half(at) | half(at + 12) << 32;
        let out = fields.next();
        out.push_str(name);
        capabilities(all, out);
    }
    fields.close('}');
});

fn capabilities(all: u64, out: &mut String) {
    let start = out.len();
    let mut rest = all;
    for &(bit, name) in process::CAPABILITIES {
        if all >> bit & 1 == 1 {
            if out.len() > start {
                out.push('|');
            }
            put(out, format_args!("1<<{name}"));
            rest &= !(1 << bit);
        }
    }
    if rest != 0 || all == 0 {
        if out.len() > start {
            out.push('|');
        }
        crate::context::hex(rest, out);
    }
}

pub(crate) const SCHEDULING_ATTRIBUTES: Item = Item::Struct(&plain(
    48,
    &[
        field("size", 0, U32),
        field("sched_policy", 4, Item::Number(4, Kind::Name(process::POLICIES))),
        field("sched_flags", 8, Item::Number(8, Kind::Flags64(process::SCHEDULING))),
        field("sched_nice", 16, I32),
        field("sched_priority", 20, U32),
        field("sched_runtime", 24, U64),
        field("sched_deadline", 32, U64),
        field("sched_period", 40, U64),
    ],
));

pub(crate) const SEMAPHORE_OPERATION: Item = Item::Struct(&plain(
    6,
    &[
        field("sem_num", 0, U16),
        field(
            "sem_op",
            2,
            Item::With(2, |_, bytes, out| {
                put(out, format_args!("{}", number(bytes, 0, 2).unwrap_or(0) as i16));
            }),
        ),
        field("sem_flg", 4, Item::Number(2, Kind::Flags(ipc::SEMAPHORE_FLAGS))),
    ],
));
pub(crate) const QUEUE: Item = Item::Struct(&plain(
    64,
    &[
        field("mq_flags", 0, Item::Number(8, Kind::Flags64(files::OPEN))),
        field("mq_maxmsg", 8, I64),
        field("mq_msgsize", 16, I64),
        field("mq_curmsgs", 24, I64),
    ],
));

pub(crate) const IO_EVENT: Item = Item::Struct(&plain(
    32,
    &[
        field("data", 0, X64),
        field("obj", 8, POINTER_ITEM),
        field("res", 16, I64),
        field("res2", 24, I64),
    ],
));

/// Size of `struct epoll_event` in bytes; it is packed on x86_64.
#[cfg(target_arch = "x86_64")]
pub(crate) const EPOLL_EVENT_SIZE: u32 = 12;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const EPOLL_EVENT_SIZE: u32 = 16;
const EPOLL_DATA: u16 = EPOLL_EVENT_SIZE as u16 - 8;
pub(crate) const EPOLL_EVENT: Item = Item::Struct(&plain(
    EPOLL_EVENT_SIZE as u16,
    &[
        field("events", 0, Item::Number(4, Kind::Flags(events::EPOLL))),
        field(
            "data",
            EPOLL_DATA,
            Item::Struct(&plain(8, &[field("u32", 0, U32), field("u64", 0, U64)])),
        ),
    ],
));
pub(crate) const POLL_WANTED: Item = Item::Struct(&plain(
    8,
    &[
        field("fd", 0, Item::Number(4, Kind::Fd)),
        field("events", 4, Item::Number(2, Kind::Flags(events::POLL))),
    ],
));
pub(crate) const POLL_READY: Item = Item::Struct(&plain(
    8,
    &[
        field("fd", 0, Item::Number(4, Kind::Fd)),
        field("revents", 6, Item::Number(2, Kind::Flags(events::POLL))),
    ],
));

pub(crate) const OPEN_HOW: Item = Item::Struct(&plain(
    24,
    &[
        field("flags", 0, Item::Number(8, Kind::Mixed(3, files::OPEN_WAYS, files::OPEN))),
        field("mode", 8, Item::Number(8, Kind::Mode)),
        field("resolve", 16, Item::Number(8, Kind::Flags64(files::RESOLVE))),
    ],
));
pub(crate) const LOCK: Item = Item::Struct(&plain(
    32,
    &[
        field("l_type", 0, Item::Number(2, Kind::Name(files::LOCK_TYPES))),
        field("l_whence", 2, Item::Number(2, Kind::Name(files::WHENCE))),
        field("l_start", 8, I64),
        field("l_len", 16, I64),
    ],
));
pub(crate) const FILE_HANDLE: Item =
    Item::Struct(&partial(8, &[field("handle_bytes", 0, U32), field("handle_type", 4, I32)]));
pub(crate) const XATTR_ARGUMENTS: Item = Item::Struct(&plain(
    16,
    &[
        field("value", 0, POINTER_ITEM),
        field("size", 8, U32),
        field("flags", 12, Item::Number(4, Kind::Flags(files::XATTR))),
    ],
));
pub(crate) const MOUNT_ATTRIBUTE: Item = Item::Struct(&plain(
    32,
    &[
        field("attr_set", 0, Item::Number(8, Kind::Flags64(files::MOUNT_ATTRIBUTES))),
        field("attr_clr", 8, Item::Number(8, Kind::Flags64(files::MOUNT_ATTRIBUTES))),
        field("propagation", 16, Item::Number(8, Kind::Flags64(files::MOUNT))),
        field("userns_fd", 24, Item::Number(8, Kind::Fd)),
    ],
));
pub(crate) const CACHE_RANGE: Item =
    Item::Struct(&plain(16, &[field("off", 0, U64), field("len", 8, U64)]));
pub(crate) const CACHE_STATISTICS: Item = Item::Struct(&plain(
    40,
    &[
        field("nr_cache", 0, U64),
        field("nr_dirty", 8, U64),
        field("nr_writeback", 16, U64),
        field("nr_evicted", 24, U64),
        field("nr_recently_evicted", 32, U64),
    ],
));
pub(crate) const FUTEX_WAITER: Item = Item::Struct(&plain(
    24,
    &[
        field("val", 0, X64),
        field("uaddr", 8, POINTER_ITEM),
        field("flags", 16, Item::Number(4, Kind::Flags(process::FUTEX2))),
    ],
));
pub(crate) const IO_URING_PARAMETERS: Item = Item::Struct(&partial(
    120,
    &[
        field("sq_entries", 0, U32),
        field("cq_entries", 4, U32),
        field("flags", 8, Item::Number(4, Kind::Flags(events::IO_URING_SETUP))),
        field("sq_thread_cpu", 12, U32),
        field("sq_thread_idle", 16, U32),
        field("features", 20, Item::Number(4, Kind::Flags(events::IO_URING_FEATURES))),
    ],
));

pub(crate) const WINDOW_SIZE: Item = Item::Struct(&plain(
    8,
    &[
        field("ws_row", 0, U16),
        field("ws_col", 2, U16),
        field("ws_xpixel", 4, U16),
        field("ws_ypixel", 6, U16),
    ],
));
pub(crate) const LINGER: Item =
    Item::Struct(&plain(8, &[field("l_onoff", 0, I32), field("l_linger", 4, I32)]));
pub(crate) const CREDENTIALS: Item =
    Item::Struct(&plain(12, &[field("pid", 0, I32), field("uid", 4, U32), field("gid", 8, U32)]));

/// `struct perf_event_attr`; its first version has 64 bytes.
pub(crate) const PERF_ATTRIBUTES: Item = Item::With(64, |context, bytes, out| {
    let names = match number(bytes, 0, 4) {
        Some(0) => tracing::PERF_HARDWARE,
        Some(1) => tracing::PERF_SOFTWARE,
        _ => crate::words::NONE,
    };
    let (first, rest) = (&PERF_FIRST, &PERF_REST);
    context.item(first, bytes, out);
    out.pop();
    out.push_str(", config=");
    match names {
        [] => crate::context::hex(number(bytes, 8, 8).unwrap_or(0), out),
        names => crate::context::one_of(names, number(bytes, 8, 8).unwrap_or(0), out),
    }
    out.push_str(", ");
    let at = out.len();
    context.item(rest, bytes, out);
    out.remove(at);
});
const PERF_FIRST: Item = Item::Struct(&plain(
    8,
    &[field("type", 0, Item::Number(4, Kind::Name(tracing::PERF_TYPES))), field("size", 4, X32)],
));
const PERF_REST: Item = Item::Struct(&partial(
    64,
    &[
        field("sample_period", 16, U64),
        field("sample_type", 24, Item::Number(8, Kind::Flags64(tracing::PERF_SAMPLE))),
        field("read_format", 32, Item::Number(8, Kind::Flags64(tracing::PERF_READ))),
    ],
));
