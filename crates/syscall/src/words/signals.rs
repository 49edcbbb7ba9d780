//! Signals: names of numbers and bits, as these headers have them, with what Linux 6.18 has added.

use super::words;

words! {
    /// `linux/signal.h`.
    ACTION {
        SA_NOCLDSTOP = 0x1, SA_NOCLDWAIT = 0x2, SA_SIGINFO = 0x4, SA_EXPOSE_TAGBITS = 0x800, SA_RESTORER = 0x4000000,
        SA_ONSTACK = 0x8000000, SA_RESTART = 0x10000000, SA_NODEFER = 0x40000000, SA_RESETHAND = 0x80000000,
    }
    /// `linux/signal.h`.
    MASK_WAYS {
        SIG_BLOCK = 0, SIG_UNBLOCK = 1, SIG_SETMASK = 2,
    }
    /// `linux/signal.h`.
    ALT_STACK {
        SS_ONSTACK = 0x1, SS_DISABLE = 0x2, SS_AUTODISARM = 0x80000000,
    }
    /// `sys/signalfd.h`.
    SIGNAL_FD {
        SFD_NONBLOCK = 0x800, SFD_CLOEXEC = 0x80000,
    }
    /// The manual page of the call.
    SIGNAL_CODES {
        SI_USER = 0, SI_KERNEL = 128, SI_TKILL = 0xfffffffa, SI_SIGIO = 0xfffffffb, SI_ASYNCIO = 0xfffffffc,
        SI_MESGQ = 0xfffffffd, SI_TIMER = 0xfffffffe, SI_QUEUE = 0xffffffff,
    }
}
