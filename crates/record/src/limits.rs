//! Sizes of the ring buffers, and the CPUs that they are for.

use std::fs;
use std::io;

use crate::error::{Error, Notice};
use crate::event::Event;
use crate::options::Options;
use crate::permission::sysctl;
use crate::plan::Plan;
use crate::ring::Ring;
use crate::stack_mode::StackMode;
use crate::sys;

/// Maximum total size of all ring buffers in bytes, unless each of them would be smaller than the minimum.
const MOST_TOTAL: usize = 256 << 20;

/// Returns the CPUs that are online.
///
/// # Errors
///
/// If the list of the kernel cannot be read.
pub fn online_cpus() -> Result<Vec<u32>, Error> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(Error::system(format!("reading {path}")))?;
    Ok(parse_cpu_list(&text))
}

/// Parses a list such as `0-3,8,10-11`.
pub(crate) fn parse_cpu_list(text: &str) -> Vec<u32> {
    /// Upper limit, beyond the number of CPUs that any kernel is built for.
    const MOST: u32 = 1 << 16;
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(MOST))
    });
    ranges.flatten().collect()
}

/// Opens a ring buffer for each CPU. The size is the requested one, or one that suits the stack mode; it is halved as
/// often as needed if the user may not lock so much memory.
pub(crate) fn open_rings(
    options: &Options,
    plan: &Plan,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Ring>, Error> {
    let cpus = online_cpus()?;
    sys::allow_locked_memory();
    let (wanted, least) = sizes(options, &plan.event, cpus.len());
    let mlock_kb = || sysctl("perf_event_mlock_kb").unwrap_or(0);
    let mut bytes = wanted;
    loop {
        match open_all(&cpus, bytes, plan.clock()) {
            Ok(rings) => {
                // A smaller default size, down to a quarter, is not worth a notice.
                if bytes < if options.buffer.is_some() { wanted } else { wanted / 4 } {
                    notices.push(Notice::BufferReduced { wanted, bytes, mlock_kb: mlock_kb() });
                }
                return Ok(rings);
            }
            // EPERM: more than this user may lock. ENOMEM: not enough memory.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) => {
                if bytes <= least {
                    let permit_kb = least as u64 / 1024 + 4;
                    return Err(Error::Buffer {
                        bytes,
                        cpus: cpus.len(),
                        mlock_kb: mlock_kb(),
                        permit_kb,
                    });
                }
                bytes /= 2;
            }
            Err(error) => return Err(Error::system("opening the buffers")(error)),
        }
    }
}

/// Returns the wanted and the smallest useful size of each ring buffer, both powers of two in bytes and at least a
/// page.
fn sizes(options: &Options, event: &Event, cpus: usize) -> (usize, usize) {
    let (suits, least) = match options.stack {
        // Samples have a few hundred bytes.
        StackMode::FramePointers | StackMode::None => (512 << 10, 32 << 10),
        // Room for a quarter of a second at 997 Hz; page faults come in bursts of hundreds. At least two samples must
        // fit.
        StackMode::Dwarf { bytes } => {
            let samples = if event.is_counted_by_kernel() { 512 } else { 256 };
            (samples * bytes as usize, (2 * bytes as usize).max(128 << 10))
        }
    };
    let wanted = options.buffer.unwrap_or_else(|| suits.min(MOST_TOTAL / cpus.max(1)).max(least));
    let round = |bytes: usize| bytes.clamp(sys::page_size(), 1 << 30).next_power_of_two();
    (round(wanted), round(least.min(wanted)))
}

/// Copies less of each stack if a ring buffer would hold few copies. Threads that share CPUs reach their first samples at
/// about the same time, so that the samples of hundreds of threads come in bursts, and the reader competes with all of
/// them. With 400 threads on 2 CPUs and 512 KiB for each, a third to a half of copies of 64 KiB was lost, and a tenth at
/// most of copies of 8 KiB.
pub(crate) fn shorten_stacks(plan: &mut Plan, rings: &[Ring]) {
    /// Number of copies that a ring buffer is to hold.
    const COPIES: usize = 64;
    /// What `perf record` copies by default.
    const LEAST: u32 = 8 << 10;
    let size = rings.iter().map(Ring::size).min().unwrap_or(0);
    let bytes = u32::try_from(size / COPIES).unwrap_or(u32::MAX).max(LEAST);
    if bytes < plan.attr.sample_stack_user {
        plan.attr.sample_stack_user = bytes;
        plan.notices.push(Notice::StacksShortened { bytes });
    }
}

/// Opens a ring buffer on each CPU. A CPU that has just gone offline is left out.
fn open_all(cpus: &[u32], bytes: usize, clock: Option<i32>) -> io::Result<Vec<Ring>> {
    let mut rings = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        match Ring::open(*cpu, bytes, clock) {
            Ok(ring) => rings.push(ring),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("0\n"), [0]);
        assert_eq!(parse_cpu_list("\n"), []);
        assert_eq!(parse_cpu_list("3-1,x,2"), [2]);
    }

    #[test]
    fn rings_suit_the_samples_and_the_machine() {
        let mut options = Options::new(Target::System);
        let sizes = |options: &Options, cpus| sizes(options, &Event::cpu_clock(), cpus);
        options.stack = StackMode::Dwarf { bytes: 32 << 10 };
        assert_eq!(sizes(&options, 2), (8 << 20, 128 << 10));
        assert_eq!(sizes(&options, 256), (1 << 20, 128 << 10));
        assert_eq!(sizes(&options, 8192), (128 << 10, 128 << 10));
        options.stack = StackMode::FramePointers;
        assert_eq!(sizes(&options, 2), (512 << 10, 32 << 10));
        options.buffer = Some(100_000);
        assert_eq!(sizes(&options, 2), (128 << 10, 32 << 10));
        options.buffer = Some(1);
        assert_eq!(sizes(&options, 2), (4096, 4096));
    }
}
