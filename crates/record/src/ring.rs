//! The memory that the kernel writes records into: one ring for each CPU.
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

/// One CPU's ring.
///
/// It belongs to an event of this process that counts nothing, and the events that do count write
/// into it. So it lives, and can be waited for, whichever of the sampled threads end.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The CPU's number.
    pub cpu: u32,
    fd: OwnedFd,
    /// The first page, which holds head and tail; the data follows.
    map: NonNull<u8>,
    page: usize,
    /// Bytes of data: a power of two.
    size: usize,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of `size` bytes, a power of two of pages. `clock` is what the events that will write
    /// into it have as theirs: the kernel insists on one clock for each ring.
    pub(crate) fn open(cpu: u32, size: usize, clock: Option<i32>) -> io::Result<Self> {
        let attr = Attr {
            type_: type_id::SOFTWARE,
            config: software::DUMMY,
            sample_period: 1,
            // A quarter: the reader has time to come before the rest is full.
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

    /// The ring of an event that nobody else writes into.
    pub(crate) fn of_event(fd: OwnedFd, cpu: u32, size: usize) -> io::Result<Self> {
        let page = sys::page_size();
        Ok(Self { cpu, map: map(&fd, page + size)?, fd, page, size })
    }

    /// The event whose ring others write to.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Moves all records that are there to `out`, each whole.
    pub(crate) fn drain(&mut self, copier: Copier, out: &mut Vec<u8>) {
        let (unread, head) = self.unread();
        if unread.len() > 0 {
            copier.copy(unread, out);
            // Release: what was read above is read before the kernel may write over it.
            self.word(DATA_TAIL).store(head, Ordering::Release);
        }
    }

    /// The bytes that are there, and the head that they reach to.
    fn unread(&self) -> (Unread<'_>, u64) {
        // Acquire: the kernel has written all up to the head before it moved the head.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let len = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(self.size);
        let start = tail as usize & (self.size - 1);
        let first = len.min(self.size - start);
        // SAFETY: the data is `size` bytes from `page` on, and both parts lie within; between tail
        // and head the kernel does not write until the tail is moved, which needs `&mut self`.
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
        // SAFETY: the first page is mapped as long as `self` lives, the offset is aligned and
        // within it, and both sides access the word atomically.
        unsafe { self.map.add(offset).cast().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this was mapped with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.page + self.size) };
    }
}

fn map(fd: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
    use std::os::fd::AsRawFd;
    // SAFETY: a new mapping, where the kernel likes.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // All pages now: a fault on each while a burst comes in would lose some of it.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        libc::mmap(std::ptr::null_mut(), len, protection, flags, fd.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
