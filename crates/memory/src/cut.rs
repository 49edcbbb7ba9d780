//! Mapped files that are truncated: reading beyond their end gives zeros instead of ending this process.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The action for SIGBUS before [`survive_cut_files`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Number of pages that were replaced by zeros.
static PAGES: AtomicU64 = AtomicU64::new(0);

/// Lets this process continue if another one truncates a file that is mapped here: `strip` and `cp` write over files
/// that run. Pages beyond the file's new end are zeros from then on. Readers of files must accept any bytes anyway. A
/// write beyond the end still ends the process.
pub fn survive_cut_files() {
    // SAFETY: an all-zero `sigaction` is valid; the structures live as long as the calls, and the handler as long as
    // the process.
    unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0
            || BEFORE.set(before).is_err()
        {
            return;
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let handler: extern "C" fn(_, _, _) = handle;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Returns the number of pages beyond the ends of files that were read so far.
pub fn pages_cut_off() -> u64 {
    PAGES.load(Ordering::Relaxed)
}

/// Replaces a missing page of a file by zeros, if that is the reason for the signal. For other handlers of SIGBUS,
/// which should return if the result is true. Async-signal-safe.
pub fn replace_cut_page(info: &libc::siginfo_t) -> bool {
    // BUS_ADRERR: "nonexistent physical address", the code for a missing page of a file (sigaction(2), mmap(2)).
    const BUS_ADRERR: libc::c_int = 2;
    if info.si_signo != libc::SIGBUS || info.si_code != BUS_ADRERR {
        return false;
    }
    // SAFETY: the signal has an address. The replaced page cannot be read or written, so it has no contents that could
    // be lost. The new one is read-only.
    let replaced = unsafe {
        let size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let page = info.si_addr().map_addr(|at| at & !(size - 1));
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(page, size, libc::PROT_READ, flags, -1, 0) == page
    };
    if replaced {
        PAGES.fetch_add(1, Ordering::Relaxed);
    }
    replaced
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete structure, and the calls are async-signal-safe. An earlier handler is called
    // as the kernel would call it.
    unsafe {
        if info.as_ref().is_some_and(replace_cut_page) {
            return;
        }
        match BEFORE.get() {
            Some(before) if before.sa_sigaction > libc::SIG_IGN => {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    type Handler =
                        extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                    std::mem::transmute::<libc::sighandler_t, Handler>(before.sa_sigaction)(
                        signal, info, context,
                    );
                } else {
                    type Handler = extern "C" fn(libc::c_int);
                    std::mem::transmute::<libc::sighandler_t, Handler>(before.sa_sigaction)(signal);
                }
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_is_cut_off_is_zeros_and_the_rest_as_it_was() {
        const PAGE: usize = 4096;
        survive_cut_files();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 16 * PAGE]).expect("space");
        // SAFETY: a mapping of a whole file, which nobody unmaps.
        let bytes = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                16 * PAGE,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            std::slice::from_raw_parts(start.cast::<u8>(), 16 * PAGE)
        };
        file.set_len(2 * PAGE as u64).expect("it can be cut off");
        let before = pages_cut_off();
        let sum = |page: usize| -> u32 {
            bytes[page * PAGE..(page + 1) * PAGE].iter().map(|byte| u32::from(*byte)).sum()
        };
        assert_eq!((sum(1), sum(2), sum(15)), (7 * PAGE as u32, 0, 0));
        assert_eq!(pages_cut_off() - before, 2);
    }
}
