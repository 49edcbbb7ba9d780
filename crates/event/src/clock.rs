//! The clock of records. The kernel writes times of the machine's `CLOCK_MONOTONIC` into them; `CLOCK_MONOTONIC` of a
//! process may differ from it (time namespaces).

use std::fs;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds by which `CLOCK_MONOTONIC` of this process is ahead of the machine's, which records use. 0 except in a
/// time namespace (time_namespaces(7)).
fn ahead() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        // The file describes the namespace of children. That is this process's own namespace, too, unless it has just
        // requested another one.
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        let is_own = namespace("time") == namespace("time_for_children");
        let offsets = fs::read_to_string("/proc/self/timens_offsets").ok().filter(|_| is_own);
        offsets.and_then(|offsets| monotonic(&offsets)).unwrap_or(0)
    })
}

/// Returns the current time of the machine's `CLOCK_MONOTONIC`, the clock of records, in nanoseconds.
pub fn monotonic_now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    let now = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
    now.saturating_sub_signed(ahead())
}

/// Parses the line `monotonic SECONDS NANOSECONDS`; returns nanoseconds.
fn monotonic(offsets: &str) -> Option<i64> {
    let mut words =
        offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let mut number = || words.next()?.parse::<i64>().ok();
    number()?.checked_mul(1_000_000_000)?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_the_monotonic_clock() {
        let text = "monotonic      100000         5\nboottime            0         0\n";
        assert_eq!(monotonic(text), Some(100_000_000_000_005));
        assert_eq!(monotonic("monotonic -1 0\n"), Some(-1_000_000_000));
        assert_eq!(monotonic("monotonic 9223372036854775807 0\n"), None);
        assert_eq!(monotonic("boottime 1 0\n"), None);
    }
}
