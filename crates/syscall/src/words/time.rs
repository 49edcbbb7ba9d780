//! Clocks and timers: names of numbers and bits, as these headers have them, with what Linux 6.18 has added.

use super::words;

words! {
    /// `linux/time.h`.
    CLOCKS {
        CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 1, CLOCK_PROCESS_CPUTIME_ID = 2, CLOCK_THREAD_CPUTIME_ID = 3,
        CLOCK_MONOTONIC_RAW = 4, CLOCK_REALTIME_COARSE = 5, CLOCK_MONOTONIC_COARSE = 6, CLOCK_BOOTTIME = 7,
        CLOCK_REALTIME_ALARM = 8, CLOCK_BOOTTIME_ALARM = 9, CLOCK_SGI_CYCLE = 10, CLOCK_TAI = 11,
    }
    /// `linux/time.h`.
    TIMER_FLAGS {
        TIMER_ABSTIME = 0x1,
    }
    /// `linux/timerfd.h`.
    TIMER_FD {
        TFD_NONBLOCK = 0x800, TFD_CLOEXEC = 0x80000,
    }
    /// `linux/timerfd.h`.
    TIMER_FD_SET {
        TFD_TIMER_ABSTIME = 0x1, TFD_TIMER_CANCEL_ON_SET = 0x2,
    }
    /// `linux/time.h`.
    INTERVALS {
        ITIMER_REAL = 0, ITIMER_VIRTUAL = 1, ITIMER_PROF = 2,
    }
    /// `linux/timex.h`.
    ADJUST {
        ADJ_OFFSET = 0x1, ADJ_FREQUENCY = 0x2, ADJ_MAXERROR = 0x4, ADJ_ESTERROR = 0x8, ADJ_STATUS = 0x10,
        ADJ_TIMECONST = 0x20, ADJ_TAI = 0x80, ADJ_SETOFFSET = 0x100, ADJ_MICRO = 0x1000, ADJ_NANO = 0x2000,
        ADJ_TICK = 0x4000,
    }
    /// `signal.h`.
    TIMER_NOTIFY {
        SIGEV_SIGNAL = 0, SIGEV_NONE = 1, SIGEV_THREAD = 2, SIGEV_THREAD_ID = 4,
    }
}
