//! A limit to the memory that reading may take (`--max-memory`).
//!
//! A small compressed file can hold any number of bytes, and a small file can describe a large profile. The kernel
//! refuses memory beyond the limit (`RLIMIT_DATA`), and the first allocation that fails ends the program with one
//! sentence, where it would abort otherwise. This covers every reader, and costs nothing while there is enough.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::OnceLock;

use pyrograph_format::remove_unfinished;

use crate::heap;

/// The least memory, for the program's own code and tables, however small the limit.
const LEAST: u64 = 16 << 20;

/// The message when memory runs out, ready to be written: nothing can be allocated by then.
static MESSAGE: OnceLock<String> = OnceLock::new();

/// The system's allocator; a failed allocation ends the program with [`MESSAGE`], once there is one.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

// SAFETY: every call is passed on to the system's allocator as it is, and its answer back.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        checked(unsafe { System.realloc(pointer, layout, size) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn checked(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        exhausted();
    }
    pointer
}

/// Ends the program if there is a limit; else the caller does.
#[cold]
fn exhausted() {
    let Some(message) = MESSAGE.get() else { return };
    remove_unfinished();
    // SAFETY: the bytes are those of the message; neither call allocates, and nothing runs after the second.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}

/// Limits the memory of this process from now on: to `bytes`, or else to three quarters of what the machine and the
/// control group have free, so that the program ends with a sentence before the kernel kills something.
pub fn limit(bytes: Option<usize>) {
    let limit = match bytes {
        Some(bytes) => bytes as u64,
        None => match available() {
            Some(available) => available / 4 * 3,
            None => return,
        },
    };
    let limit = limit.max(LEAST);
    let mib = limit >> 20;
    let message = match bytes {
        Some(_) => format!(
            "pyrograph: failed to read: this input needs more than {mib} MiB of memory; --max-memory permits more\n"
        ),
        None => format!(
            "pyrograph: failed to read: this input needs more than {mib} MiB of memory, three quarters of what is \
             free; --max-memory SIZE permits more\n"
        ),
    };
    if MESSAGE.set(message).is_err() {
        return;
    }
    heap::use_large_pages(limit);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both take a structure of this type, which lives as long as the calls.
    unsafe {
        let mut old = limit;
        libc::getrlimit(libc::RLIMIT_DATA, &raw mut old);
        let limit =
            libc::rlimit { rlim_cur: limit.rlim_cur.min(old.rlim_cur), rlim_max: old.rlim_max };
        libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
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
