//! Frames of counted stacks that are not code: at the leaf names of system calls, kinds of locks and sockets, at the root a
//! value of the event.

use pyrograph_event::counted::{ByValue, COMPAT_CALL, Kind, Socket};
use pyrograph_event::request::Trigger;
use pyrograph_resolve::Label;

use crate::question::Question;
use crate::values::{NamedValue, value_text};

/// Labels of the stacks of a question.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// The function whose returns are counted, if returns are.
    returned: Option<String>,
    /// The value by which stacks are kept apart.
    by: Option<NamedValue>,
}

impl Labels {
    /// Labels for a question.
    pub fn new(question: &Question) -> Self {
        let returned = match question.trigger().without_values() {
            Trigger::Function { name, returns: true, .. } => Some(name.clone()),
            Trigger::KernelFunctions { names, returns: true } => match &names[..] {
                [name] => Some(name.clone()),
                _ => None,
            },
            _ => None,
        };
        Self { returned, by: question.by().cloned() }
    }

    /// Frames at the leaf of a stack, leaf first.
    pub fn leaf(&self, kind: Kind) -> Vec<Label> {
        labels(kind, self.returned.as_deref())
    }

    /// Text of the frame at the root of a stack: `req->kind=GET`.
    pub fn root(&self, value: Option<ByValue<'_>>) -> Option<String> {
        let NamedValue { name, shape } = self.by.as_ref()?;
        let value = match value? {
            ByValue::Number(number) => value_text(shape, number, &[], 0),
            ByValue::Text(bytes, all) => value_text(shape, 0, bytes, all),
            ByValue::Unread => "?".to_owned(),
        };
        Some(format!("{}={value}", name.trim_start_matches('$')))
    }
}

/// Returns the frames at the leaf of a stack that are not code, leaf first. `returned`: the function that has just
/// returned, if returns are counted.
fn labels(kind: Kind, returned: Option<&str>) -> Vec<Label> {
    let kernel = |text: &str| Label { text: text.to_owned(), in_kernel: true };
    match kind {
        Kind::Call(number) => vec![kernel(&call_name(number))],
        Kind::Futex { lock: true } => vec![kernel("[lock]")],
        Kind::Futex { lock: false } => vec![kernel("[condition]")],
        Kind::KernelLock(flags) => vec![kernel(lock_name(flags))],
        Kind::Sent(socket) => vec![kernel("[sent]"), kernel(&socket_name(socket))],
        Kind::Received(socket) => vec![kernel("[received]"), kernel(&socket_name(socket))],
        Kind::Probe => {
            let label = |name: &str| Label { text: name.to_owned(), in_kernel: false };
            returned.into_iter().map(label).collect()
        }
        Kind::Event | Kind::Wait(_) | Kind::Goroutine | Kind::Woken => Vec::new(),
    }
}

/// Returns the kind of a lock by the flags of `contention_begin` (include/trace/events/lock.h).
fn lock_name(flags: u32) -> &'static str {
    const SPIN: u32 = 1;
    const READ: u32 = 2;
    const WRITE: u32 = 4;
    const RT: u32 = 8;
    const PERCPU: u32 = 16;
    const MUTEX: u32 = 32;
    let has = |flag| flags & flag != 0;
    match () {
        () if has(MUTEX) => "[mutex]",
        () if has(PERCPU) && has(READ) => "[percpu rwsem: read]",
        () if has(PERCPU) => "[percpu rwsem: write]",
        () if has(SPIN) && has(READ) => "[rwlock: read]",
        () if has(SPIN) && has(WRITE) => "[rwlock: write]",
        () if has(SPIN) => "[spinlock]",
        () if has(READ) => "[rwsem: read]",
        () if has(WRITE) => "[rwsem: write]",
        () if has(RT) => "[rt mutex]",
        () => "[semaphore]",
    }
}

/// Returns the kind of a socket: its protocol if it is an internet socket, else its address family.
fn socket_name(socket: Socket) -> String {
    match (i32::from(socket.family), i32::from(socket.protocol)) {
        (libc::AF_UNIX, _) => "[Unix]".to_owned(),
        (libc::AF_NETLINK, _) => "[Netlink]".to_owned(),
        (libc::AF_PACKET, _) => "[packet]".to_owned(),
        (libc::AF_VSOCK, _) => "[vsock]".to_owned(),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_TCP) => "[TCP]".to_owned(),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_UDP) => "[UDP]".to_owned(),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6) => {
            "[ICMP]".to_owned()
        }
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_MPTCP) => "[MPTCP]".to_owned(),
        (libc::AF_INET | libc::AF_INET6, libc::IPPROTO_SCTP) => "[SCTP]".to_owned(),
        (family, protocol) => format!("[family {family}, protocol {protocol}]"),
    }
}

/// Returns the name of the kernel's function for a system call.
fn call_name(number: u32) -> String {
    const LARGER: u32 = COMPAT_CALL - 1;
    let (prefix, name) = match number & COMPAT_CALL {
        0 => ("sys", pyrograph_syscall::by_number(number).map(|call| call.name)),
        _ => ("ia32_sys", pyrograph_syscall::compat_name(number & !COMPAT_CALL)),
    };
    match (name, number & !COMPAT_CALL) {
        (Some(name), _) => format!("{prefix}_{name}"),
        // For example `syscall(-1)`.
        (None, LARGER) => format!("{prefix}_[unknown]"),
        (None, number) => format!("{prefix}_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_locks_and_sockets_have_names() {
        assert_eq!(call_name(0), "sys_read");
        assert_eq!(call_name(511), "sys_511");
        assert_eq!(call_name(COMPAT_CALL - 1), "sys_[unknown]");
        assert_eq!(call_name(COMPAT_CALL | 3), "ia32_sys_read");
        assert_eq!(call_name(COMPAT_CALL | 999), "ia32_sys_999");
        let check = |flags, expect| assert_eq!(lock_name(flags), expect);
        check(0, "[semaphore]");
        check(1, "[spinlock]");
        check(3, "[rwlock: read]");
        check(2, "[rwsem: read]");
        check(4, "[rwsem: write]");
        check(0x12, "[percpu rwsem: read]");
        check(0x21, "[mutex]");
        let name = |family, protocol| socket_name(Socket { family, protocol });
        assert_eq!(name(10, 6), "[TCP]");
        assert_eq!(name(1, 0), "[Unix]");
        assert_eq!(name(99, 1), "[family 99, protocol 1]");
    }
}
