//! From questions to what the in-kernel engine is told, and from what it counts to frames.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pyrograph_event::counted::{Kind, Socket};
use pyrograph_event::request::{Measure, Place, Trigger, Waits};
use pyrograph_resolve::Label;

use crate::question::{self, Probe, Question, call_name};
use crate::say::say;

/// Says what a call for memory costs while such calls are probed: this process's own are, if it has the same C
/// library.
pub fn say_cost_of_allocations() {
    const CALLS: u32 = 200;
    /// Without a trap a call takes some ten nanoseconds.
    const LEAST: Duration = Duration::from_nanos(300);
    let started = Instant::now();
    for _ in 0..CALLS {
        drop(black_box(Vec::<u8>::with_capacity(black_box(64))));
    }
    let each = started.elapsed() / CALLS;
    let cost = match each > LEAST {
        true => format!("{:.1} µs, as measured here", each.as_secs_f64() * 1e6),
        false => "one to some microseconds".to_owned(),
    };
    say!(
        "each call for memory traps into the kernel, which takes {cost}, whatever is recorded; --page-faults shows who \
         touches new memory, and is cheap"
    );
}

/// What makes a stack be counted.
pub fn trigger(question: &Question) -> Trigger {
    match question.probe.clone() {
        Probe::Event => Trigger::PerfEvents,
        Probe::Tracepoint { category, name } => Trigger::Tracepoint { category, name },
        Probe::Function { path, name, offset, returns } => {
            Trigger::Function { path, name, offset, returns }
        }
        Probe::Places { path, places } => {
            let place = |probe: &pyrograph_symbol::StaticProbe| Place {
                offset: probe.offset,
                semaphore: probe.semaphore,
            };
            Trigger::Places { path, places: places.iter().map(place).collect() }
        }
        Probe::Allocations { path, live } => Trigger::Allocations { path, live },
        Probe::Calls { numbers, measure: by, files } => {
            Trigger::Calls { numbers, measure: measure(by), files }
        }
        Probe::BlockRequests { measure: by } => Trigger::BlockRequests { measure: measure(by) },
        Probe::Locks => Trigger::Locks,
        Probe::Sockets => Trigger::Sockets,
        Probe::Nothing => Trigger::None,
    }
}

fn measure(by: question::Measure) -> Measure {
    match by {
        question::Measure::Count => Measure::Count,
        question::Measure::Time => Measure::Time,
        question::Measure::Bytes => Measure::Bytes,
    }
}

/// Which waits are counted.
pub fn waits(question: &Question) -> Waits {
    match question.waits {
        None => Waits::None,
        Some((question::Waits::Alone, _)) => Waits::Alone,
        Some((question::Waits::WithWakers, _)) => Waits::WithWakers,
        Some((question::Waits::Wakers, _)) => Waits::Wakers,
    }
}

/// The frames that stand at the leaf of a stack and for no code, leaf first. `returned`: the function that
/// has just returned, if that is what was asked for.
pub fn labels(kind: Kind, returned: Option<&str>) -> Vec<Label> {
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
        Kind::Event | Kind::Wait(_) | Kind::Woken => Vec::new(),
    }
}

/// Sorts of locks by the flags of `contention_begin` (include/trace/events/lock.h).
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

/// A socket's sort, by the protocol where it is one of the internet.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_sockets_have_names() {
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
