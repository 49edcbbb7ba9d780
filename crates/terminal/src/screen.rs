//! Full-screen mode of the terminal for a program with views. The terminal is restored afterwards, also if the program
//! is suspended, panics or crashes.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

/// Alternate screen (xterm's 1049), mouse with motion (1003) in decimal encoding (1006), hidden cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?1003h\x1b[?1006h\x1b[?25l\x1b[2J";
/// The opposite, with colours reset.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1006l\x1b[?1003l\x1b[?1049l";

/// Maximum number of bytes of output that are kept for later.
const MOST_PRINTED: usize = 64 << 10;

/// Signals of a crash.
const CRASHES: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];

/// The terminal and its original state; set once, and read by signal handlers.
static TERMINAL: OnceLock<Terminal> = OnceLock::new();
/// True while full-screen mode is on.
static ENTERED: AtomicBool = AtomicBool::new(false);

struct Terminal {
    fd: RawFd,
    before: libc::termios,
    /// Duplicates of the original standard input, output and error.
    streams: [RawFd; 3],
    /// Original actions for the signals in [`CRASHES`].
    crashes: [libc::sigaction; 5],
}

/// Full-screen mode, until this is dropped.
///
/// In this mode, output of this process and its children to standard output and standard error is captured, and the
/// last part of it is printed afterwards. Child processes have an empty standard input.
#[derive(Debug)]
pub struct Screen {
    out: File,
    printed: Arc<Mutex<Vec<u8>>>,
    /// Pipe for captured output.
    pipe: OwnedFd,
}

impl Screen {
    /// Returns true if there is a terminal to draw on, and to read keys from.
    pub fn is_there() -> bool {
        let has_keys = io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
        io::stdout().is_terminal() && has_keys
    }

    /// Enters full-screen mode, which is possible only once per process.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output is not a terminal, or if a system call fails.
    pub fn enter() -> io::Result<Self> {
        let streams = [0, 1, 2].map(duplicate);
        let [input, output, error] = streams;
        let streams = [input?, output?, error?];
        let (reading, writing) = pipe()?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        let out = unsafe { File::from_raw_fd(duplicate(1)?) };
        let terminal = Terminal {
            fd: out.as_raw_fd(),
            before: attributes(out.as_raw_fd())?,
            streams,
            crashes: catch_crashes()?,
        };
        if TERMINAL.set(terminal).is_err() {
            return Err(io::Error::other("the screen was taken before"));
        }
        restore_at_panics();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&printed);
        let keep = move || keep_last(reading, &kept);
        // The thread ends when the last writer of the pipe is closed.
        thread::Builder::new().name("printed".to_owned()).spawn(keep)?;
        let mut screen = Self { out, printed, pipe: writing };
        screen.enter_again()?;
        Ok(screen)
    }

    /// Returns a writer to the terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many open files.
    pub fn writer(&self) -> io::Result<File> {
        self.out.try_clone()
    }

    /// Restores the terminal for a while.
    pub fn leave(&mut self) {
        restore();
    }

    /// Enters full-screen mode again.
    ///
    /// # Errors
    ///
    /// Returns the error of the terminal.
    pub fn enter_again(&mut self) -> io::Result<()> {
        let Some(terminal) = TERMINAL.get() else { return Ok(()) };
        let null = File::open("/dev/null")?;
        for (from, to) in
            [(null.as_raw_fd(), 0), (self.pipe.as_raw_fd(), 1), (self.pipe.as_raw_fd(), 2)]
        {
            // SAFETY: both descriptors are open.
            check(unsafe { libc::dup2(from, to) })?;
        }
        ENTERED.store(true, Ordering::SeqCst);
        let mut raw = terminal.before;
        // SAFETY: changes only the given structure.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        // SAFETY: the structure lives as long as the call.
        check(unsafe { libc::tcsetattr(terminal.fd, libc::TCSADRAIN, &raw const raw) })?;
        self.out.write_all(ENTER)
    }

    /// Suspends this process like Ctrl-Z, until the shell resumes it.
    ///
    /// # Errors
    ///
    /// Returns the error of the terminal.
    pub fn stop_for_a_while(&mut self) -> io::Result<()> {
        self.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.enter_again()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
        // Wait for the thread to read what was written before, which takes little time.
        for _ in 0..100 {
            if bytes_in(&self.pipe) == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        io::stderr().write_all(&lock(&self.printed)).ok();
    }
}

/// Returns the number of unread bytes in a pipe.
fn bytes_in(pipe: &OwnedFd) -> libc::c_int {
    let mut count = 0;
    // SAFETY: the call writes a number.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    count
}

/// A signal to a program in full-screen mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenSignal {
    /// End, because of this signal.
    End(i32),
    /// Suspend.
    Stop,
}

/// Passes signals to `pass` on a separate thread. A second signal to end restores the terminal and ends the process at
/// once.
///
/// # Errors
///
/// Returns the error of `sigaction`, or of starting a thread.
pub fn on_screen_signals(pass: impl Fn(ScreenSignal) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])?;
    let wait = move || {
        let ends = AtomicUsize::new(0);
        for signal in &mut signals {
            match signal {
                SIGTSTP => pass(ScreenSignal::Stop),
                signal if ends.fetch_add(1, Ordering::Relaxed) == 0 => {
                    pass(ScreenSignal::End(signal));
                }
                signal => {
                    restore();
                    std::process::exit(128 + signal);
                }
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// Sends SIGTSTP to the process group, as a terminal does for Ctrl-Z.
pub fn send_stop() {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(0, SIGTSTP) };
}

/// Restores the terminal if it is in full-screen mode. Only async-signal-safe calls are made, since crash handlers call
/// this.
pub fn restore() {
    let Some(terminal) = TERMINAL.get() else { return };
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // SAFETY: the bytes and the structure are static; the descriptors are never closed.
    unsafe {
        libc::write(terminal.fd, LEAVE.as_ptr().cast(), LEAVE.len());
        // Discard unread mouse events, which are not for the shell.
        libc::tcsetattr(terminal.fd, libc::TCSAFLUSH, &raw const terminal.before);
        for (stream, fd) in terminal.streams.iter().zip(0..) {
            libc::dup2(*stream, fd);
        }
    }
}

fn restore_at_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        before(info);
    }));
}

/// Installs handlers that restore the terminal before the original action for a crash.
fn catch_crashes() -> io::Result<[libc::sigaction; 5]> {
    // SAFETY: an all-zero `sigaction` is valid, and the calls write complete ones.
    let mut before = unsafe { MaybeUninit::<[libc::sigaction; 5]>::zeroed().assume_init() };
    for (signal, before) in CRASHES.iter().zip(&mut before) {
        // SAFETY: as above.
        let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
        let handler: extern "C" fn(_, _, _) = crashed;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
        // SAFETY: both structures live as long as the call.
        check(unsafe { libc::sigaction(*signal, &raw const action, before) })?;
    }
    Ok(before)
}

/// Handles a crash; truncation of a mapped file is not one. A fault happens again when this returns, with the original
/// action. A signal that was sent, by `abort` or another process, is sent again, and ends the process.
extern "C" fn crashed(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete structure.
    if unsafe { info.as_ref() }.is_some_and(pyrograph_memory::replace_cut_page) {
        return;
    }
    restore();
    // SAFETY: as above; the calls are async-signal-safe, and their structures are static or local.
    unsafe {
        let is_fault = info.as_ref().is_some_and(|info| info.si_code > 0);
        let before = TERMINAL.get().zip(CRASHES.iter().position(|of| *of == signal));
        match before {
            Some((terminal, at)) if is_fault => {
                libc::sigaction(signal, &raw const terminal.crashes[at], std::ptr::null_mut());
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

/// Keeps the last bytes read from a pipe, until all its writers are closed.
fn keep_last(from: OwnedFd, kept: &Mutex<Vec<u8>>) {
    let mut from = File::from(from);
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(MOST_PRINTED);
        kept.drain(..surplus);
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attributes(fd: RawFd) -> io::Result<libc::termios> {
    let mut attributes = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the call writes to the structure; an all-zero one is valid.
    unsafe {
        check(libc::tcgetattr(fd, attributes.as_mut_ptr()))?;
        Ok(attributes.assume_init())
    }
}

/// Duplicates a descriptor, with close-on-exec set.
fn duplicate(fd: RawFd) -> io::Result<RawFd> {
    // SAFETY: takes numbers only.
    let new = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    check(new)?;
    Ok(new)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the call writes two new descriptors, which nothing else owns.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
