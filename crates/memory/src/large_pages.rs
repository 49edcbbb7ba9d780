//! Memory for what is read, in large pages.

/// As much as most inputs need. It is taken page by page, when it is used.
const SIZE: u64 = 64 << 20;
/// A large page: x86-64's, and aarch64's with pages of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;
/// From this size on, GNU's C library takes an allocation from the kernel by itself, and gives it back when it is freed.
pub(crate) const MAPPED: usize = 4 << 20;

/// Asks for large pages for an allocation that is large: to take it in pages of 4 KiB, and to find these in tables of the
/// CPU, is a tenth of the time that a recording of a million samples takes.
#[cold]
pub(crate) fn advise(pointer: *mut u8, size: usize) {
    let start = pointer.addr().next_multiple_of(LARGE_PAGE);
    let len = size.saturating_sub(start - pointer.addr()) / LARGE_PAGE * LARGE_PAGE;
    // SAFETY: advice on pages that are this process's changes nothing that is in them.
    unsafe { libc::madvise(pointer.with_addr(start).cast(), len, libc::MADV_HUGEPAGE) };
}

/// Asks for large pages for the first memory that is allocated, at most a quarter of `limit`: to take it in pages of
/// 4 KiB is a sixth of the time that a flame graph of 72,000 stacks takes. Where the kernel, or another C library than
/// GNU's, does not do this, nothing changes.
pub(crate) fn use_large_pages(limit: u64) {
    #[cfg(target_env = "gnu")]
    {
        let size = SIZE.min(limit / 4) as usize;
        // SAFETY: these take numbers, and may be called at any time; the piece of memory is freed as it came; and
        // advice on pages that are this process's changes nothing that is in them.
        unsafe {
            // Whatever is smaller comes from the heap, and stays there when it is freed.
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED as libc::c_int);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 20);
            // Larger than what is free by now: the heap grows by so much more.
            libc::mallopt(libc::M_TOP_PAD, size as libc::c_int);
            let piece = libc::malloc(2 << 20);
            libc::mallopt(libc::M_TOP_PAD, 1 << 20);
            let start = piece.addr().next_multiple_of(LARGE_PAGE);
            let end = libc::sbrk(0).addr();
            // Where the heap cannot grow, the piece is somewhere else.
            if (start..start.saturating_add(2 * size)).contains(&end) {
                libc::madvise(piece.with_addr(start), end - start, libc::MADV_HUGEPAGE);
            }
            libc::free(piece);
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (SIZE, limit);
}
