#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod cut;
mod large_pages;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::OnceLock;

pub use cut::{pages_cut_off, replace_cut_page, survive_cut_files};

/// The least memory, for the program's own code and tables, however small the limit.
const LEAST: u64 = 16 << 20;

/// The end of the program when memory runs out: the message, ready to be written, and the call before it. Nothing can
/// be allocated by then.
static END: OnceLock<(String, fn())> = OnceLock::new();

/// The limit that this process had before.
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// The system's allocator; a failed allocation ends the program with a message, once there is a [`limit`].
pub struct Limited;

// SAFETY: every call is passed on to the system's allocator as it is, and its answer back.
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

/// Ends the program if there is a limit; else the caller does.
#[cold]
fn exhausted() {
    let Some((message, at_end)) = END.get() else { return };
    at_end();
    // SAFETY: the bytes are those of the message; neither call allocates, and nothing runs after the second.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}

/// Three quarters of what the machine and the control group have free, so that a program ends with a sentence before the
/// kernel kills something. `None` if that is not known.
pub fn usual_limit() -> Option<u64> {
    available().map(|available| available / 4 * 3)
}

/// Limits the memory of this process from now on, once; large pages are asked for what it takes first. When memory runs
/// out, `at_end` is called, which must allocate nothing, and `message` is written, which gets the limit in MiB.
pub fn limit(bytes: u64, message: impl FnOnce(u64) -> String, at_end: fn()) {
    let limit = bytes.max(LEAST);
    if END.set((message(limit >> 20), at_end)).is_err() {
        return;
    }
    large_pages::use_large_pages(limit);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both take a structure of this type, which lives as long as the calls.
    unsafe {
        let mut old = limit;
        libc::getrlimit(libc::RLIMIT_DATA, &raw mut old);
        BEFORE.get_or_init(|| old);
        let limit =
            libc::rlimit { rlim_cur: limit.rlim_cur.min(old.rlim_cur), rlim_max: old.rlim_max };
        libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
    }
}

/// Gives back the limit that this process had before, for a program that is started now and is not part of this one: a browser
/// that may take no more ends at once.
pub fn lift() {
    if let Some(before) = BEFORE.get() {
        // SAFETY: it takes a structure of this type, which lives as long as the call.
        unsafe { libc::setrlimit(libc::RLIMIT_DATA, before) };
    }
}

/// Bytes that the machine and the control group have free.
fn available() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    Some(of_group().map_or(machine, |group| machine.min(group)))
}

/// Bytes that the control group (version 2) permits beyond what it uses.
fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{path}/{name}")).ok()?.trim().parse().ok()
    };
    number("memory.max")?.checked_sub(number("memory.current")?)
}
