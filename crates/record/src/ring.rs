//! Ring buffers that the kernel writes records into, one for each CPU.
//!
//! Source: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use pyrograph_event::{Attr, flag, software, type_id};

use crate::copy::{Copier, Unread};
use crate::sys;

/// Offset of `data_head` in the first page.
const DATA_HEAD: usize = 1024;
/// Offset of `data_tail` in the first page.
const DATA_TAIL: usize = 1032;

/// Ring buffer of one CPU.
///
/// It belongs to a dummy event of this process that counts nothing; the events that are sampled redirect their output
/// to it. So it exists, and can be polled, independently of which sampled threads end.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Number of the CPU.
    pub cpu: u32,
    fd: OwnedFd,
    /// First page of the mapping, which holds head and tail. The data follows.
    map: NonNull<u8>,
    page: usize,
    /// Size of the data in bytes, a power of two.
    size: usize,
}

// SAFETY: the mapping is owned by this value alone and may be used from any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring buffer of `size` bytes, a power of two number of pages. `clock` is the `clockid` of the events that
    /// will write into it: the kernel requires all events of a ring buffer to have the same clock.
    pub(crate) fn open(cpu: u32, size: usize, clock: Option<i32>) -> io::Result<Self> {
        let attr = Attr {
            type_: type_id::SOFTWARE,
            config: software::DUMMY,
            sample_period: 1,
            // Wake up the reader when a quarter is full, so that it can drain the buffer before the rest is full.
            wakeup: u32::try_from(size / 4).unwrap_or(u32::MAX),
            clockid: clock.unwrap_or(0),
            ..Attr::new()
        };
        let mut flags = flag::DISABLED | flag::WATERMARK | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
        if clock.is_some() {
            flags |= flag::USE_CLOCKID;
        }
        Self::of_event(sys::perf_event_open(&attr.with(flags), 0, Some(cpu))?, cpu, size)
    }

    /// Maps the ring buffer of an event that no other event writes into.
    pub(crate) fn of_event(fd: OwnedFd, cpu: u32, size: usize) -> io::Result<Self> {
        let page = sys::page_size();
        Ok(Self { cpu, map: map(&fd, page + size)?, fd, page, size })
    }

    /// Size of the data in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Descriptor of the event that owns the ring buffer, for `PERF_EVENT_IOC_SET_OUTPUT` and `poll`.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Appends all unread whole records to `out`, and frees their space in the buffer.
    pub(crate) fn drain(&mut self, copier: Copier, out: &mut Vec<u8>) {
        let (unread, head) = self.unread();
        if unread.len() > 0 {
            copier.copy(unread, out);
            // Release: the reads above are complete before the kernel may overwrite the data.
            self.word(DATA_TAIL).store(head, Ordering::Release);
        }
    }

    /// Returns the unread bytes, and the value of `data_head` at their end.
    fn unread(&self) -> (Unread<'_>, u64) {
        // Acquire: everything that the kernel wrote before it moved the head is visible.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let len = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(self.size);
        let start = tail as usize & (self.size - 1);
        let first = len.min(self.size - start);
        // SAFETY: the data is `size` bytes from `page` on, and both parts lie within it. The kernel does not write
        // between tail and head until the tail is moved, which needs `&mut self`.
        let unread = unsafe {
            let data = self.map.add(self.page);
            Unread {
                first: std::slice::from_raw_parts(data.add(start).as_ptr(), first),
                second: std::slice::from_raw_parts(data.as_ptr(), len - first),
            }
        };
        (unread, head)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as `self` lives, the offset is aligned and within the page, and both
        // sides access the word atomically.
        unsafe { self.map.add(offset).cast().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.page + self.size) };
    }
}

fn map(fd: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
    use std::os::fd::AsRawFd;
    // SAFETY: this creates a new mapping, at an address that the kernel chooses.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // Populate all pages now: with a page fault for each during a burst, some of the burst would be lost.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        libc::mmap(std::ptr::null_mut(), len, protection, flags, fd.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
