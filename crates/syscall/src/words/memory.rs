//! Memory: names of numbers and bits, as these headers have them, with what Linux 6.18 has added.

use super::words;

words! {
    /// `linux/mman.h`.
    PROTECTION {
        PROT_READ = 0x1, PROT_WRITE = 0x2, PROT_EXEC = 0x4, PROT_SEM = 0x8, PROT_GROWSDOWN = 0x1000000,
        PROT_GROWSUP = 0x2000000,
    }
    /// `linux/mman.h`.
    MAP_WAYS {
        MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_SHARED_VALIDATE = 3,
    }
    /// `linux/mman.h`.
    MAP {
        MAP_DROPPABLE = 0x8, MAP_FIXED = 0x10, MAP_ANONYMOUS = 0x20, MAP_32BIT = 0x40, MAP_GROWSDOWN = 0x100,
        MAP_DENYWRITE = 0x800, MAP_EXECUTABLE = 0x1000, MAP_LOCKED = 0x2000, MAP_NORESERVE = 0x4000,
        MAP_POPULATE = 0x8000, MAP_NONBLOCK = 0x10000, MAP_STACK = 0x20000, MAP_HUGETLB = 0x40000, MAP_SYNC = 0x80000,
        MAP_FIXED_NOREPLACE = 0x100000, MAP_UNINITIALIZED = 0x4000000,
    }
    /// `linux/mman.h`.
    REMAP {
        MREMAP_MAYMOVE = 0x1, MREMAP_FIXED = 0x2, MREMAP_DONTUNMAP = 0x4,
    }
    /// `linux/mman.h`.
    MSYNC {
        MS_ASYNC = 0x1, MS_INVALIDATE = 0x2, MS_SYNC = 0x4,
    }
    /// `linux/mman.h`.
    MADVISE {
        MADV_NORMAL = 0, MADV_RANDOM = 1, MADV_SEQUENTIAL = 2, MADV_WILLNEED = 3, MADV_DONTNEED = 4, MADV_FREE = 8,
        MADV_REMOVE = 9, MADV_DONTFORK = 10, MADV_DOFORK = 11, MADV_MERGEABLE = 12, MADV_UNMERGEABLE = 13,
        MADV_HUGEPAGE = 14, MADV_NOHUGEPAGE = 15, MADV_DONTDUMP = 16, MADV_DODUMP = 17, MADV_WIPEONFORK = 18,
        MADV_KEEPONFORK = 19, MADV_COLD = 20, MADV_PAGEOUT = 21, MADV_POPULATE_READ = 22, MADV_POPULATE_WRITE = 23,
        MADV_DONTNEED_LOCKED = 24, MADV_COLLAPSE = 25, MADV_HWPOISON = 100, MADV_SOFT_OFFLINE = 101,
        MADV_GUARD_INSTALL = 102, MADV_GUARD_REMOVE = 103,
    }
    /// `linux/mman.h`.
    LOCK_ALL {
        MCL_CURRENT = 0x1, MCL_FUTURE = 0x2, MCL_ONFAULT = 0x4,
    }
    /// `linux/mman.h`.
    LOCK_SOME {
        MLOCK_ONFAULT = 0x1,
    }
    /// `linux/memfd.h`.
    MEMFD {
        MFD_CLOEXEC = 0x1, MFD_ALLOW_SEALING = 0x2, MFD_HUGETLB = 0x4, MFD_NOEXEC_SEAL = 0x8, MFD_EXEC = 0x10,
    }
    /// `linux/mempolicy.h`.
    MEMORY_POLICIES {
        MPOL_DEFAULT = 0, MPOL_PREFERRED = 1, MPOL_BIND = 2, MPOL_INTERLEAVE = 3, MPOL_LOCAL = 4, MPOL_PREFERRED_MANY = 5,
        MPOL_WEIGHTED_INTERLEAVE = 6,
    }
    /// `linux/mempolicy.h`.
    MEMORY_MOVE {
        MPOL_MF_STRICT = 0x1, MPOL_MF_MOVE = 0x2, MPOL_MF_MOVE_ALL = 0x4,
    }
    /// The manual page of the call.
    KEY_ACCESS {
        PKEY_DISABLE_ACCESS = 0x1, PKEY_DISABLE_WRITE = 0x2,
    }
    /// The manual page of the call.
    MEMORY_QUERY {
        MPOL_F_NODE = 0x1, MPOL_F_ADDR = 0x2, MPOL_F_MEMS_ALLOWED = 0x4,
    }
    /// The manual page of the call.
    USER_FAULT {
        UFFD_USER_MODE_ONLY = 0x1, O_NONBLOCK = 0x800, O_CLOEXEC = 0x80000,
    }
}
