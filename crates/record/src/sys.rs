//! System calls that the standard library does not provide.
//!
//! Sources: perf_event_open(2), pidfd_open(2), eventfd(2), poll(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use pyrograph_event::Attr;

/// `PERF_FLAG_FD_CLOEXEC`.
const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_EVENT_IOC_ENABLE`, `_IO('$', 0)`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
/// `PERF_EVENT_IOC_DISABLE`, `_IO('$', 1)`.
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `PERF_EVENT_IOC_PERIOD`, `_IOW('$', 4, __u64)`.
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
/// `PERF_EVENT_IOC_SET_OUTPUT`, `_IO('$', 5)`.
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// Opens an event for the thread `tid` (0 for the calling thread, −1 for all) on a CPU (`None` for any).
pub(crate) fn perf_event_open(attr: &Attr, tid: i32, cpu: Option<u32>) -> io::Result<OwnedFd> {
    perf_event_open_in(attr, tid, cpu, None)
}

/// Opens an event in the group of `leader`: both are on the hardware together, or neither is.
pub(crate) fn perf_event_open_in(
    attr: &Attr,
    tid: i32,
    cpu: Option<u32>,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let cpu = cpu.map_or(-1, u32::cast_signed);
    let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` has the layout of the kernel's structure and contains its own size; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            tid,
            cpu,
            leader,
            FLAG_CLOEXEC,
        )
    };
    owned(fd)
}

/// Redirects the records of `event` into the ring buffer of the event `ring`.
pub(crate) fn set_output(event: &OwnedFd, ring: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_SET_OUTPUT, ring.as_raw_fd())
}

/// Enables an event.
pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_ENABLE, 0)
}

/// Disables an event.
pub(crate) fn disable(event: &OwnedFd) -> io::Result<()> {
    ioctl(event, IOC_DISABLE, 0)
}

/// Changes the sample period of an event.
pub(crate) fn set_period(event: &OwnedFd, period: u64) -> io::Result<()> {
    // SAFETY: the kernel reads the 8 bytes of `period`.
    done(unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD as _, &raw const period) })
}

fn ioctl(fd: &OwnedFd, request: libc::c_ulong, argument: i32) -> io::Result<()> {
    // SAFETY: these requests take a number and access no memory.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) })
}

/// Reads the event's count and, if `PERF_FORMAT_LOST` is its only read format, the number of lost records.
pub(crate) fn read_count(event: &OwnedFd) -> Option<(u64, Option<u64>)> {
    let mut words = [0_u64; 2];
    // SAFETY: the kernel writes at most as many bytes as `words` has.
    let read =
        unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    match usize::try_from(read) {
        Ok(8) => Some((words[0], None)),
        Ok(16) => Some((words[0], Some(words[1]))),
        _ => None,
    }
}

/// Reads exactly `WORDS` words from an event.
pub(crate) fn read_words<const WORDS: usize>(event: &OwnedFd) -> io::Result<[u64; WORDS]> {
    let mut words = [0_u64; WORDS];
    // SAFETY: the kernel writes at most as many bytes as `words` has.
    let read =
        unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    match usize::try_from(read) {
        Ok(read) if read == size_of_val(&words) => Ok(words),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Returns a file descriptor that is readable once the process has ended. Linux 5.3.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Creates an eventfd, a counter that can be polled.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }.into())
}

/// Adds one to an eventfd. Async-signal-safe.
pub(crate) fn wake(eventfd: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: the kernel reads the 8 bytes of `one`.
    unsafe { libc::write(eventfd.as_raw_fd(), std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
}

/// Creates a pipe. Returns its read end and its write end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors into `fds`.
    done(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((owned(fds[0].into())?, owned(fds[1].into())?))
}

/// Waits until one of `fds` is ready, which is then set in its `revents`, or the time is over.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Duration) {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `fds` is valid for its length. An error (EINTR) leaves nothing ready.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    if ready < 0 {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
}

/// Returns a `pollfd` that waits until there is something to read. With `None` it is never ready.
pub(crate) fn readable(fd: Option<BorrowedFd<'_>>) -> libc::pollfd {
    libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 }
}

/// Returns true if the process still runs. `child`: it is a child of this process. A child that has ended is a zombie,
/// for which `kill` succeeds; so `waitid` is used for it.
pub(crate) fn is_running(pid: i32, child: bool) -> bool {
    if !child {
        // SAFETY: signal 0 is not delivered.
        let sent = unsafe { libc::kill(pid, 0) };
        return sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
    }
    // SAFETY: `siginfo_t` is valid when zero; the kernel fills it in, and does not reap the child.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let asked = libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, flags);
        // For a child that this process traces, `waitid` also reports stops.
        let has_ended =
            matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
        asked == 0 && (info.si_pid() == 0 || !has_ended)
    }
}

/// Size of a page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call takes a number only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Raises the soft limit of locked memory to the hard limit.
pub(crate) fn allow_locked_memory() {
    raise_limit(Resource::LockedMemory, 0);
}

/// Raises the soft limit of file descriptors to the hard limit and, if more are needed, both to that number, which needs a
/// privilege. Returns the limit in effect.
pub(crate) fn allow_files(needed: u64) -> u64 {
    let limit = raise_limit(Resource::Files, 0);
    if limit < needed { raise_limit(Resource::Files, needed) } else { limit }
}

/// Raises the soft and the hard limit of a resource to the greater of the hard limit and `least`. Returns the soft limit in
/// effect.
fn raise_limit(resource: Resource, least: u64) -> u64 {
    let resource = match resource {
        Resource::Files => libc::RLIMIT_NOFILE,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid; the kernel fills it in and reads it.
    unsafe {
        if libc::getrlimit(resource, &raw mut limit) != 0 {
            return 0;
        }
        let soft = limit.rlim_cur;
        limit.rlim_max = limit.rlim_max.max(least);
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(resource, &raw const limit) == 0 { limit.rlim_cur } else { soft }
    }
}

/// Resources for [`raise_limit`].
#[derive(Clone, Copy, Debug)]
enum Resource {
    /// File descriptors.
    Files,
    /// Locked memory.
    LockedMemory,
}

/// Prepares the calling thread for draining ring buffers. Signals go to other threads. The scheduler prefers the thread
/// if that is permitted: it hardly runs, but must run in time. The lowest real-time priority is above all programs that
/// have none. A nice value takes effect only within a group of processes if processes are grouped (autogroup, control
/// groups): with eight busy programs the ring buffers then overflowed.
pub(crate) fn become_reader() {
    // SAFETY: the set is filled in before it is used, and `lowest` is valid; all calls affect this thread only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        let lowest = libc::sched_param { sched_priority: 1 };
        let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        if libc::sched_setscheduler(0, policy, &raw const lowest) < 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -10);
        }
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let Ok(fd) = i32::try_from(fd) else { return Err(io::ErrorKind::InvalidData.into()) };
    done(fd)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
