//! Huge pages for the memory that holds input.

/// Size of the initial heap in bytes, enough for most inputs. Its pages are allocated on first use.
const SIZE: u64 = 64 << 20;
/// Size of a huge page: on x86-64, and on aarch64 with pages of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;
/// From this size on, glibc's allocator maps an allocation separately, and unmaps it when it is freed.
pub(crate) const MAPPED: usize = 4 << 20;

/// Requests huge pages for a large allocation. Page faults and TLB misses with pages of 4 KiB are a tenth of the time
/// that processing a recording of a million samples takes.
#[cold]
pub(crate) fn advise(pointer: *mut u8, size: usize) {
    let start = pointer.addr().next_multiple_of(LARGE_PAGE);
    let len = size.saturating_sub(start - pointer.addr()) / LARGE_PAGE * LARGE_PAGE;
    // SAFETY: the advice is for this process's own pages and does not change their contents.
    unsafe { libc::madvise(pointer.with_addr(start).cast(), len, libc::MADV_HUGEPAGE) };
}

/// Requests huge pages for the initial heap, at most a quarter of `limit`: faulting it in with pages of 4 KiB is a
/// sixth of the time that a flame graph of 72,000 stacks takes. If the kernel, or a C library other than glibc, does
/// not support this, nothing changes.
pub(crate) fn use_large_pages(limit: u64) {
    #[cfg(target_env = "gnu")]
    {
        let size = SIZE.min(limit / 4) as usize;
        // SAFETY: these calls take numbers, and are valid at any time; the allocation is freed as it was returned; and
        // the advice is for this process's own pages and does not change their contents.
        unsafe {
            // Smaller allocations are from the heap, which does not shrink when they are freed.
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED as libc::c_int);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 20);
            // Larger than the free part of the heap, so that the heap grows by this much.
            libc::mallopt(libc::M_TOP_PAD, size as libc::c_int);
            let piece = libc::malloc(2 << 20);
            libc::mallopt(libc::M_TOP_PAD, 1 << 20);
            let start = piece.addr().next_multiple_of(LARGE_PAGE);
            let end = libc::sbrk(0).addr();
            // If the heap cannot grow, the allocation is outside of it.
            if (start..start.saturating_add(2 * size)).contains(&end) {
                libc::madvise(piece.with_addr(start), end - start, libc::MADV_HUGEPAGE);
            }
            libc::free(piece);
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (SIZE, limit);
}
