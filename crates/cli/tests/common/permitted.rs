//! Recording tests where nothing may be recorded: for users of Debian (`kernel.perf_event_paranoid` is 3 there), and in many
//! containers.

use std::io::Write;
use std::sync::OnceLock;

/// The errors by which the kernel, or a filter of system calls, forbids it.
const REFUSALS: [i32; 3] = [libc::EACCES, libc::EPERM, libc::ENOSYS];

/// Ends the process, as if its tests had passed, and says that they are skipped, if no program can be sampled.
pub fn or_skip() {
    static REFUSED: OnceLock<Option<std::io::Error>> = OnceLock::new();
    let Some(error) = REFUSED.get_or_init(refusal) else { return };
    // What tests print is shown for those that fail alone.
    let _ = writeln!(std::io::stderr(), "skipped: tests that record: perf_event_open: {error}");
    std::process::exit(0);
}

/// The refusal of a clock event on this process, if there is one.
fn refusal() -> Option<std::io::Error> {
    /// `struct perf_event_attr` up to its flags, and zeros: include/uapi/linux/perf_event.h.
    const SIZE: u32 = 64;
    const SOFTWARE: u32 = 1;
    /// `disabled`, `exclude_kernel` and `exclude_hv`.
    const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
    let mut attributes = [0u64; SIZE as usize / 8];
    attributes[0] = u64::from(SOFTWARE) | u64::from(SIZE) << 32;
    attributes[5] = FLAGS;
    // SAFETY: the kernel reads as many bytes of the attributes as they say that they have.
    let event =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
    let error = std::io::Error::last_os_error();
    if event >= 0 {
        // SAFETY: it is open, and nobody else's.
        unsafe { libc::close(event as i32) };
        return None;
    }
    error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code)).then_some(error)
}
