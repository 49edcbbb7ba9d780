//! Ctrl-C and similar signals end work without losing its result.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A request of the user to stop. A second request ends the program at once, in case writing the result takes too long.
#[derive(Clone, Debug)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    /// True if this process was started with SIGINT ignored, as what it starts is then.
    was_ignored: bool,
}

impl Interrupt {
    /// Installs handlers for SIGINT, SIGTERM and SIGHUP. SIGHUP is left alone if it was ignored at start, which is how
    /// `nohup` keeps a program running. (Shell scripts ignore SIGINT for background jobs, but a SIGINT sent to one is
    /// intended.)
    ///
    /// # Errors
    ///
    /// Returns the error of `sigaction`.
    pub fn catch() -> io::Result<Self> {
        let was_ignored = is_ignored(SIGINT);
        let interrupt = Self { asked: Arc::default(), signal: Arc::default(), was_ignored };
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            // In this order, because the first signal must find `asked` false and only set it.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&interrupt.asked),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&interrupt.asked))?;
            signal_hook::flag::register_usize(
                signal,
                Arc::clone(&interrupt.signal),
                signal.unsigned_abs() as usize,
            )?;
        }
        Ok(interrupt)
    }

    /// Runs an action at each signal until the result is dropped, and at once if there was a signal before. The action
    /// runs in the signal handler, so it must be async-signal-safe.
    ///
    /// # Errors
    ///
    /// Returns the error of `sigaction`.
    pub fn on_signal(
        &self,
        action: impl Fn() + Clone + Send + Sync + 'static,
    ) -> io::Result<OnSignal> {
        let mut registered = OnSignal(Vec::new());
        for signal in [SIGINT, SIGTERM] {
            // SAFETY: by contract the action is async-signal-safe.
            let id = unsafe { signal_hook::low_level::register(signal, action.clone()) }?;
            registered.0.push(id);
        }
        if self.asked() {
            action();
        }
        Ok(registered)
    }

    /// Returns true if there was a signal.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns true if the last signal, unlike Ctrl-C at a terminal, was sent to this process only, or a command that this
    /// process started ignores it, as background jobs of shell scripts do: another one must be sent to the command then.
    pub fn only_us(&self) -> bool {
        match i32::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(SIGTERM) => true,
            Ok(SIGINT) => self.was_ignored,
            _ => false,
        }
    }
}

/// Registration of an action, which ends when this is dropped.
#[derive(Debug)]
pub struct OnSignal(Vec<signal_hook::SigId>);

impl Drop for OnSignal {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Returns true if this process was started with a signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one to the pointer; an all-zero action is valid.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
