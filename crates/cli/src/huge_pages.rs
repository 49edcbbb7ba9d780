//! Where memory comes from: large tables from pages of 2 MiB.
//!
//! What is read becomes a few tables of megabytes, which are filled once and looked into at random. In
//! pages of 4 KiB each page costs a fault, and a look into it often a walk through the page tables.
//! Measured in a virtual machine, `fold` took a tenth less CPU time, with 2,300 faults instead of 13,200,
//! and a quarter more memory. Where the kernel has no such pages, nothing is lost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator for small blocks, and mappings of their own for large ones.
pub struct HugePages;

/// What a huge page holds on most machines. The kernel aligns mappings of multiples of it so.
const HUGE: usize = 2 << 20;

/// Blocks of so many bytes have mappings of their own: most tables grow by doubling, and so have a huge
/// page when they reach half of it.
const LARGE: usize = HUGE / 2;

/// No mapping is aligned to more than this.
const PAGE: usize = 4 << 10;

static ARE_USED: AtomicBool = AtomicBool::new(false);

/// From now on large blocks are of huge pages, if the kernel has them. Not for a recorder: it is to be
/// small.
pub fn use_them() {
    ARE_USED.store(true, Ordering::Relaxed);
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// The length of the mapping of a large block. No overflow: no layout is larger than half the address
/// space.
fn mapped(size: usize) -> usize {
    size.next_multiple_of(HUGE)
}

fn map(size: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: The mapping is new, and at an address of the kernel's choice.
    let block = unsafe { libc::mmap(ptr::null_mut(), mapped(size), protection, flags, -1, 0) };
    if block == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    if ARE_USED.load(Ordering::Relaxed) {
        // SAFETY: It is the mapping from above; the advice does not change what is in it. It is for the
        // kernel to take: an error means small pages.
        unsafe { libc::madvise(block, mapped(size), libc::MADV_HUGEPAGE) };
    }
    block.cast()
}

// SAFETY: Blocks are the system allocator's, or mappings that are no smaller and no less aligned than
// their layout; which of them, the layout alone decides, so that it is the same when they are returned.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_large(layout) {
            true => map(layout.size()),
            // SAFETY: The caller's duty.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_large(layout) {
            // A new mapping is zero.
            true => map(layout.size()),
            // SAFETY: The caller's duty.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: It is a mapping of this length, as its layout says, and no longer used.
            unsafe { libc::munmap(block.cast(), mapped(layout.size())) };
        } else {
            // SAFETY: The caller's duty.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: The caller has it that `size` is not 0 and makes a layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: The caller's duty.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) => {
                let (old, new) = (mapped(layout.size()), mapped(size));
                // SAFETY: It is a mapping of the old length; pages are moved, and nothing is copied.
                let moved = unsafe { libc::mremap(block.cast(), old, new, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED { ptr::null_mut() } else { moved.cast() }
            }
            // From one kind to the other.
            _ => {
                // SAFETY: The layout is one, as above.
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    // SAFETY: Both are as large as what is copied, and the new one is nobody else's. The
                    // old one is the caller's, who gives it up.
                    unsafe {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                }
                moved
            }
        }
    }
}
