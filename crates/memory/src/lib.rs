#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod cut;
mod large_pages;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::OnceLock;

pub use cut::{pages_cut_off, replace_cut_page, survive_cut_files};

/// Makes a write beyond the limit for files (`ulimit -f`) an error, in place of a signal that ends this process. Processes that
/// it starts ignore the signal, too, unless they are told otherwise.
pub fn survive_file_limit() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Minimum limit, for the program's own code and tables.
const LEAST: u64 = 16 << 20;

/// Message, and function to call before it, for the end of the program when memory runs out. They are prepared in
/// advance, because nothing can be allocated then.
static END: OnceLock<(String, fn())> = OnceLock::new();

/// Limit that this process had before [`limit`].
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// The system's allocator. With a [`limit`], a failed allocation ends the program with a message.
pub struct Limited;

// SAFETY: every call is passed to the system's allocator unchanged, and its result is returned unchanged.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn checked(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        exhausted();
    }
    if size >= large_pages::MAPPED && END.get().is_some() {
        large_pages::advise(pointer, size);
    }
    pointer
}

/// Ends the program if there is a limit; otherwise the caller handles the failure.
#[cold]
fn exhausted() {
    let Some((message, at_end)) = END.get() else { return };
    at_end();
    // SAFETY: the message is valid; neither call allocates, and nothing runs after the second.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}

/// Returns three quarters of the memory available to the machine and the control group, so that a program ends with a
/// message before the kernel's OOM killer runs. `None` if that is not known.
pub fn usual_limit() -> Option<u64> {
    available().map(|available| available / 4 * 3)
}

/// Limits the memory of this process from now on; only the first call has an effect. Also requests huge pages for the
/// initial heap. When memory runs out, `at_end` is called, which must not allocate, and the message is written that
/// `message` returned, given the limit in MiB.
pub fn limit(bytes: u64, message: impl FnOnce(u64) -> String, at_end: fn()) {
    let limit = bytes.max(LEAST);
    if END.set((message(limit >> 20), at_end)).is_err() {
        return;
    }
    large_pages::use_large_pages(limit);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both take a pointer to a structure that lives as long as the calls.
    unsafe {
        let mut old = limit;
        libc::getrlimit(libc::RLIMIT_DATA, &raw mut old);
        BEFORE.get_or_init(|| old);
        let limit =
            libc::rlimit { rlim_cur: limit.rlim_cur.min(old.rlim_cur), rlim_max: old.rlim_max };
        libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
    }
}

/// Restores the limit that this process had before, for a program that is started and is independent of this one: a
/// browser with such a limit would fail immediately.
pub fn lift() {
    if let Some(before) = BEFORE.get() {
        // SAFETY: takes a pointer to a structure that lives as long as the call.
        unsafe { libc::setrlimit(libc::RLIMIT_DATA, before) };
    }
}

/// Returns the bytes available to the machine and the control group.
fn available() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    Some(of_group().map_or(machine, |group| machine.min(group)))
}

/// Returns the bytes that the control group (version 2) permits beyond current usage.
fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{path}/{name}")).ok()?.trim().parse().ok()
    };
    number("memory.max")?.checked_sub(number("memory.current")?)
}
