//! The whole screen of the terminal, for a program with views, and the terminal as it was after that: whether the program
//! leaves, stops for a while, panics or crashes.

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

/// The second screen (xterm's 1049), the mouse with its moves (1003) in decimal numbers (1006), no cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?1003h\x1b[?1006h\x1b[?25l\x1b[2J";
/// The opposite, and no colours.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1006l\x1b[?1003l\x1b[?1049l";

/// The most that is kept of what is printed meanwhile.
const MOST_PRINTED: usize = 64 << 10;

/// Signals of a crash.
const CRASHES: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];

/// The terminal and how it was; set once, and read by signal handlers.
static TERMINAL: OnceLock<Terminal> = OnceLock::new();
/// The screen is ours.
static ENTERED: AtomicBool = AtomicBool::new(false);

struct Terminal {
    fd: RawFd,
    before: libc::termios,
    /// Standard input, output and error as they were.
    streams: [RawFd; 3],
    /// What crashes did before.
    crashes: [libc::sigaction; 5],
}

/// The screen, until this is dropped.
///
/// Meanwhile what is printed on standard output and standard error, by this process and those that it starts, is kept from
/// the screen, and the last of it printed after that. Standard input is empty for processes that it starts.
#[derive(Debug)]
pub struct Screen {
    out: File,
    printed: Arc<Mutex<Vec<u8>>>,
    /// The pipe of what is printed.
    pipe: OwnedFd,
}

impl Screen {
    /// True if there is a terminal to draw on, and to read keys from.
    pub fn is_there() -> bool {
        let has_keys = io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
        io::stdout().is_terminal() && has_keys
    }

    /// Takes the screen. A process can do so once.
    ///
    /// # Errors
    ///
    /// If standard output is no terminal, or it fails.
    pub fn enter() -> io::Result<Self> {
        let streams = [0, 1, 2].map(duplicate);
        let [input, output, error] = streams;
        let streams = [input?, output?, error?];
        let (reading, writing) = pipe()?;
        // SAFETY: the descriptor was just made for this.
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
        // It ends when nobody can write to the pipe any more.
        thread::Builder::new().name("printed".to_owned()).spawn(keep)?;
        let mut screen = Self { out, printed, pipe: writing };
        screen.enter_again()?;
        Ok(screen)
    }

    /// A writer to the terminal.
    ///
    /// # Errors
    ///
    /// If there are too many open files.
    pub fn writer(&self) -> io::Result<File> {
        self.out.try_clone()
    }

    /// Gives the terminal back, for a while.
    pub fn leave(&mut self) {
        restore();
    }

    /// Takes the screen again.
    ///
    /// # Errors
    ///
    /// Those of the terminal.
    pub fn enter_again(&mut self) -> io::Result<()> {
        let Some(terminal) = TERMINAL.get() else { return Ok(()) };
        let null = File::open("/dev/null")?;
        for (from, to) in
            [(null.as_raw_fd(), 0), (self.pipe.as_raw_fd(), 1), (self.pipe.as_raw_fd(), 2)]
        {
            // SAFETY: both are open.
            check(unsafe { libc::dup2(from, to) })?;
        }
        ENTERED.store(true, Ordering::SeqCst);
        let mut raw = terminal.before;
        // SAFETY: it changes the structure that it is given.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        // SAFETY: the structure lives as long as the call.
        check(unsafe { libc::tcsetattr(terminal.fd, libc::TCSADRAIN, &raw const raw) })?;
        self.out.write_all(ENTER)
    }

    /// Stops this process as Ctrl-Z does, until the shell lets it go on.
    ///
    /// # Errors
    ///
    /// Those of the terminal.
    pub fn stop_for_a_while(&mut self) -> io::Result<()> {
        self.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.enter_again()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
        // What was written until now is read in no time.
        for _ in 0..100 {
            if bytes_in(&self.pipe) == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        io::stderr().write_all(&lock(&self.printed)).ok();
    }
}

/// Number of bytes in a pipe that were not read.
fn bytes_in(pipe: &OwnedFd) -> libc::c_int {
    let mut count = 0;
    // SAFETY: the call writes a number.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    count
}

/// A signal for a program that has the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenSignal {
    /// It is to end, for this signal.
    End(i32),
    /// It is to stop for a while.
    Stop,
}

/// Passes signals on, on a thread of its own. A second signal to end gives the terminal back and ends the process at once.
///
/// # Errors
///
/// Those of `sigaction`, and of starting a thread.
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

/// Sends the signal of Ctrl-Z to this process and those that were started with it, as a terminal does.
pub fn send_stop() {
    // SAFETY: it takes numbers.
    unsafe { libc::kill(0, SIGTSTP) };
}

/// Gives the terminal back, if it was taken. Only async-signal-safe calls are made: handlers of crashes run it.
pub fn restore() {
    let Some(terminal) = TERMINAL.get() else { return };
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // SAFETY: the bytes and the structure are static; the descriptors are never closed.
    unsafe {
        libc::write(terminal.fd, LEAVE.as_ptr().cast(), LEAVE.len());
        // Moves of the mouse that nobody has read are not for the shell.
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

/// Lets crashes give the terminal back before they do what they did.
fn catch_crashes() -> io::Result<[libc::sigaction; 5]> {
    // SAFETY: zeros are a `sigaction`, and the calls write whole ones.
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

/// Handles a crash, which a mapped file that somebody cuts off is not. A fault happens again when this returns, and meets the handler that was there before; what was sent, by
/// `abort` or another process, is sent again, and ends the process.
extern "C" fn crashed(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a whole structure over.
    if unsafe { info.as_ref() }.is_some_and(pyrograph_memory::replace_cut_page) {
        return;
    }
    restore();
    // SAFETY: as above; the calls are async-signal-safe, and their structures static or here.
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

/// Keeps the last of what comes from a pipe, until all its writers are gone.
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
    // SAFETY: the call writes to the structure; zeros are one, too.
    unsafe {
        check(libc::tcgetattr(fd, attributes.as_mut_ptr()))?;
        Ok(attributes.assume_init())
    }
}

/// The same open file under another number, which programs that are started do not get.
fn duplicate(fd: RawFd) -> io::Result<RawFd> {
    // SAFETY: it takes numbers.
    let new = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    check(new)?;
    Ok(new)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the call writes two numbers, which are descriptors that nobody else has.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
