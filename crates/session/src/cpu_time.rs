//! CPU time of this process.

use std::time::Duration;

/// Returns the CPU time of all threads of this process until now.
pub fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes a `rusage` to the pointer; all zeros are a valid `rusage`, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
        Duration::from_micros(micros.try_into().unwrap_or(0))
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
