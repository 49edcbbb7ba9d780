//! System V IPC: names of numbers and bits, as these headers have them, with what Linux 6.18 has added.

use super::words;

words! {
    /// `linux/sem.h, linux/ipc.h`.
    SEM_CONTROL {
        IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3, GETPID = 11, GETVAL = 12, GETALL = 13, GETNCNT = 14, GETZCNT = 15,
        SETVAL = 16, SETALL = 17, SEM_STAT = 18, SEM_INFO = 19, SEM_STAT_ANY = 20,
    }
    /// `linux/shm.h, linux/ipc.h`.
    SHM_CONTROL {
        IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3, SHM_LOCK = 11, SHM_UNLOCK = 12, SHM_STAT = 13, SHM_INFO = 14,
        SHM_STAT_ANY = 15,
    }
    /// `linux/msg.h, linux/ipc.h`.
    MSG_CONTROL {
        IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3, MSG_STAT = 11, MSG_INFO = 12, MSG_STAT_ANY = 13,
    }
    /// `linux/shm.h`.
    SHM_AT {
        SHM_RDONLY = 0x1000, SHM_RND = 0x2000, SHM_REMAP = 0x4000, SHM_EXEC = 0x8000,
    }
    /// `linux/shm.h, linux/ipc.h`.
    SHM_GET {
        IPC_CREAT = 0x200, IPC_EXCL = 0x400, SHM_HUGETLB = 0x800, SHM_NORESERVE = 0x1000,
    }
    /// The manual page of the call.
    SEMAPHORE_FLAGS {
        IPC_NOWAIT = 0x800, SEM_UNDO = 0x1000,
    }
    /// `linux/msg.h, linux/ipc.h`.
    MSG_FLAGS {
        IPC_NOWAIT = 0x800, MSG_NOERROR = 0x1000, MSG_EXCEPT = 0x2000, MSG_COPY = 0x4000,
    }
    /// The manual page of the call.
    IPC_GET {
        IPC_CREAT = 0x200, IPC_EXCL = 0x400, IPC_NOWAIT = 0x800,
    }
}
