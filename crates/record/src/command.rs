//! Starting the program to be sampled, with the events attached before its first instruction.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::error::Error;
use crate::launch::{Launch, User};
use crate::sys;

/// The program to be sampled: a child of this process, with the same standard streams.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    status: Option<ExitStatus>,
    usage: Option<Usage>,
}

/// Resources used by a command, including its children that it waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode.
    pub system: Duration,
    /// Peak memory (`ru_maxrss`) of the largest process, in bytes.
    pub peak_memory: u64,
}

impl Child {
    /// Process ID.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the exit status, or `None` if the command has not ended yet.
    ///
    /// # Errors
    ///
    /// If `wait4` fails: another part of this process has already waited for the child.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.wait_with(libc::WNOHANG)
    }

    /// Waits for the command to end, and returns its exit status.
    ///
    /// # Errors
    ///
    /// If `wait4` fails: another part of this process has already waited for the child.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.wait_with(0)? {
                return Ok(status);
            }
        }
    }

    /// Waits for the command to end, and returns its exit code; see [`exit_code_of`].
    ///
    /// # Errors
    ///
    /// As [`Child::wait`].
    pub fn exit_code(&mut self) -> io::Result<u8> {
        self.wait().map(exit_code_of)
    }

    /// Resources that the command used. `None` until its exit status is known.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Sends a signal to the command. Does nothing once the exit status is known.
    ///
    /// # Errors
    ///
    /// If the kernel does not permit it: the program runs as another user.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        // SAFETY: the child has not been waited for, so its PID cannot have been reused.
        if unsafe { libc::kill(self.pid, signal) } < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn wait_with(&mut self, flags: i32) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let mut status = 0;
        // SAFETY: `rusage` is valid when zero; the kernel writes into it and `status`.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(self.pid, &raw mut status, flags, &raw mut usage), usage)
        };
        match waited {
            0 => Ok(None),
            pid if pid > 0 => {
                self.status = Some(ExitStatus::from_raw(status));
                self.usage = Some(Usage {
                    user: duration(usage.ru_utime),
                    system: duration(usage.ru_stime),
                    // In KiB (getrusage(2)).
                    peak_memory: u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10,
                });
                Ok(self.status)
            }
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }
}

/// Returns the exit code of a program, or 128 plus the signal number if a signal ended it, as shells do.
pub fn exit_code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// A forked child that waits to execute the program.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    program: String,
    /// Write end of a pipe: a byte lets the child execute the program; closing it ends the child.
    go: Option<File>,
    /// Read end of a pipe: the child writes the errno here if `execvp` fails.
    failure: File,
}

impl Waiting {
    /// Forks the child, which waits until [`Waiting::run`] is called.
    ///
    /// # Errors
    ///
    /// If the command is empty, an argument contains a NUL byte, or the kernel cannot create a process.
    pub fn fork(argv: &[std::ffi::OsString], launch: &Launch) -> Result<Self, Error> {
        let program = argv.first().ok_or(Error::NoCommand)?.to_string_lossy().into_owned();
        let arguments: Result<Vec<CString>, _> =
            argv.iter().map(|word| CString::new(word.as_bytes())).collect();
        let Ok(arguments) = arguments else {
            return Err(Error::Command { program, source: io::ErrorKind::InvalidInput.into() });
        };
        let arguments = with_end(&arguments);
        let environment = launch.user.as_ref().map(User::environment);
        let environment = environment.as_deref().map(with_end);

        let doing = "starting the command";
        let (go_read, go_write) = sys::pipe().map_err(Error::system(doing))?;
        let (failure_read, failure_write) = sys::pipe().map_err(Error::system(doing))?;
        // A signal that came to the child before it has taken away this program's handlers would be swallowed by one of them: it
        // waits until then. SAFETY: the masks are written before they are read. The child calls only functions that are permitted
        // between fork and exec in a multi-threaded process, on memory that was allocated before.
        let (pid, mask) = unsafe {
            let (mut all, mut mask): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
            (libc::fork(), mask)
        };
        if pid != 0 {
            // SAFETY: it is the mask that the thread had before.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut())
            };
        }
        match pid {
            -1 => Err(Error::last_os(doing)),
            0 => become_program(
                &arguments,
                environment.as_deref(),
                &go_read,
                &go_write,
                &failure_write,
                launch,
            ),
            pid => {
                let child = Child { pid, status: None, usage: None };
                Ok(Self { child, program, go: Some(go_write.into()), failure: failure_read.into() })
            }
        }
    }

    /// Process ID.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Lets the child execute the program without waiting for it: a traced child stops before that.
    pub(crate) fn let_go(&mut self) {
        if let Some(mut go) = self.go.take() {
            // If the child is gone (it was killed), no errno can be read, and its exit status tells why.
            let _ = go.write_all(&[1]);
        }
    }

    /// Converts it into the running program, after the child has executed it.
    pub(crate) fn running(mut self) -> Child {
        Child { pid: std::mem::take(&mut self.child.pid), status: None, usage: None }
    }

    /// Returns the error after the child has ended, and been waited for, before it executed the program. `Ok` if the
    /// child has reported none.
    pub(crate) fn failed(mut self) -> Result<(), Error> {
        self.child.pid = 0;
        let mut errno = [0; 4];
        match self.failure.read_exact(&mut errno) {
            Ok(()) => {
                let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                Err(Error::Command { program: std::mem::take(&mut self.program), source })
            }
            Err(_) => Ok(()),
        }
    }

    /// Lets the child execute the program. On failure the child has ended.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it may not be executed.
    pub fn run(mut self) -> Result<Child, Error> {
        self.let_go();
        let mut errno = [0; 4];
        match self.failure.read_exact(&mut errno) {
            Ok(()) => {
                let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                Err(Error::Command { program: std::mem::take(&mut self.program), source })
            }
            // `exec` has closed the pipe: the program runs, and must not be waited for on drop.
            Err(_) => Ok(self.running()),
        }
    }
}

impl Drop for Waiting {
    /// Reaps the child: one that was never let go ends when the pipe is closed, and one that failed has ended.
    fn drop(&mut self) {
        self.go = None;
        if self.child.pid != 0 {
            let _ = self.child.wait();
        }
    }
}

/// Pointers to texts, with a null pointer at the end.
fn with_end(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Runs in the child: waits for the byte, and executes the program. `environment` is that of this process if it is `None`.
fn become_program(
    argv: &[*const libc::c_char],
    environment: Option<&[*const libc::c_char]>,
    go: &OwnedFd,
    go_write: &OwnedFd,
    failure: &OwnedFd,
    launch: &Launch,
) -> ! {
    // SAFETY: each of these functions is async-signal-safe, except `execvp` and `execvpe`, which are safe in the C libraries
    // of Linux: they search PATH with memory on the stack. The pointers of `argv` and `environment` end with a null pointer.
    unsafe {
        // Ctrl-C ends the command also before it is executed: handlers of this program would swallow it. Ignored signals stay
        // ignored, as under `nohup`.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        // The forking thread blocked all of them, which the program does not expect either.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::close(go_write.as_raw_fd());
        let mut byte = 0_u8;
        let read = loop {
            let read = libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1);
            if read >= 0 || *libc::__errno_location() != libc::EINTR {
                break read;
            }
        };
        if read != 1 {
            libc::_exit(127);
        }
        // Rust's runtime ignores SIGPIPE, and the caller may ignore SIGXFSZ: the program expects neither.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if launch.output_to_stderr {
            libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
        }
        let became = launch.user.as_ref().map_or(Ok(()), User::become_it);
        if became.is_ok() {
            match environment {
                Some(environment) => libc::execvpe(argv[0], argv.as_ptr(), environment.as_ptr()),
                None => libc::execvp(argv[0], argv.as_ptr()),
            };
        }
        let errno = *libc::__errno_location();
        libc::write(failure.as_raw_fd(), (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127);
    }
}
