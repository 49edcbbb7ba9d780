//! Requests of `ptrace`, and waiting for traced threads.

use std::io;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64` of `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// State changes of a traced thread that `waitpid` reports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waited {
    /// System call stop, before or after a call.
    Call,
    /// Signal-delivery stop.
    Signal(i32),
    /// Stop of a new thread, or after `PTRACE_INTERRUPT`.
    Stop,
    /// Group-stop: a stopping signal has stopped the process.
    GroupStop,
    /// The process has called `exec`.
    Exec,
    /// The thread has started a thread or a process.
    NewThread,
    Ended(i32),
}

/// Kinds of a system call stop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Info {
    Entry { number: u32, arguments: [u64; 6] },
    Exit { result: i64 },
    Other,
}

fn request(request: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests passed here take numbers, or addresses of memory that the callers own.
    if unsafe { libc::ptrace(request, thread, address, data) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Begins to trace a thread, without stopping it. It continues if this process ends.
pub(super) fn seize(thread: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE, thread, 0, options as usize)
}

/// Requests a thread to stop.
pub(super) fn interrupt(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, 0, 0)
}

/// Resumes a thread until its next system call stop, and delivers `signal` unless it is 0.
pub(super) fn run_to_call(thread: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, thread, 0, signal as usize)
}

/// Leaves a thread in group-stop, until its state changes.
pub(super) fn listen(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, thread, 0, 0)
}

pub(super) fn detach(thread: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, thread, 0, signal as usize)
}

pub(super) fn kill(thread: i32) {
    // SAFETY: takes two numbers. A traced thread that has not been waited for keeps its number.
    unsafe { libc::kill(thread, libc::SIGKILL) };
}

/// Returns the event message: the ID of the new thread, or after an `exec` the thread's former ID.
pub(super) fn event_message(thread: i32) -> Option<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, thread, 0, (&raw mut message).addr()).ok()?;
    i32::try_from(message).ok()
}

/// Returns the `siginfo_t` of the signal for which a thread has stopped. Empty on failure.
pub(super) fn signal_info(thread: i32) -> Vec<u8> {
    let mut info = [0_u64; 16];
    match request(libc::PTRACE_GETSIGINFO, thread, 0, info.as_mut_ptr().addr()) {
        Ok(()) => info.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        Err(_) => Vec::new(),
    }
}

/// Returns the call before or after which a thread has stopped.
pub(super) fn call_info(thread: i32) -> Option<Info> {
    // SAFETY: the structure consists of numbers, for which zero is valid.
    let mut info: libc::ptrace_syscall_info = unsafe { zeroed() };
    request(libc::PTRACE_GET_SYSCALL_INFO, thread, size_of_val(&info), (&raw mut info).addr())
        .ok()?;
    Some(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` says that the kernel has written this variant.
            let entry = unsafe { info.u.entry };
            let native = info.arch == ARCHITECTURE;
            let number =
                if native { u32::try_from(entry.nr).unwrap_or(u32::MAX) } else { u32::MAX };
            Info::Entry { number, arguments: entry.args }
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: `op` says that the kernel has written this variant.
            Info::Exit { result: unsafe { info.u.exit }.sval }
        }
        _ => Info::Other,
    })
}

/// Waits for a thread that the calling thread traces. Returns `None` if a signal, such as the timer's, comes first.
pub(super) fn wait() -> io::Result<Option<(i32, Waited)>> {
    let mut status = 0;
    // Leave out children of the other threads of this process.
    let flags = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: the kernel writes a number into `status`.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    if thread < 0 {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        };
    }
    if !libc::WIFSTOPPED(status) {
        return Ok(Some((thread, Waited::Ended(status))));
    }
    let signal = libc::WSTOPSIG(status);
    let waited = match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Waited::Call,
        0 => Waited::Signal(signal),
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Waited::GroupStop,
            _ => Waited::Stop,
        },
        libc::PTRACE_EVENT_EXEC => Waited::Exec,
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
            Waited::NewThread
        }
        _ => Waited::Stop,
    };
    Ok(Some((thread, waited)))
}

/// Timer that interrupts a wait of the calling thread every 100 ms, by a signal whose handler does nothing.
#[derive(Debug)]
pub(super) struct Timer(libc::timer_t);

extern "C" fn nothing(_: i32) {}

impl Timer {
    pub(super) fn start() -> io::Result<Self> {
        let signal = libc::SIGRTMIN() + 5;
        // SAFETY: all structures consist of numbers and addresses, for which zero is valid; the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
            if libc::sigaction(signal, &raw const action, null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) < 0 {
                return Err(io::Error::last_os_error());
            }
            let every = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let times = libc::itimerspec { it_interval: every, it_value: every };
            if libc::timer_settime(timer, 0, &raw const times, null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(timer))
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is owned by this value, and not used after this.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Copies memory of another process. Returns the number of bytes that could be read.
pub(super) fn read_memory(process: i32, address: u64, into: &mut [u8]) -> usize {
    let Ok(address) = usize::try_from(address) else { return 0 };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`; the other address belongs to another process.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

const _: () = assert!(size_of::<libc::siginfo_t>() == 128);
