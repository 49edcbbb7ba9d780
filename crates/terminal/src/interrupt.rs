//! Ctrl-C and its kin end work; they do not lose it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A request of the user to stop. A second request ends the program at once, should writing
/// the result take longer than they want to wait.
#[derive(Clone, Debug)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP; the last not if it was ignored from the start, which is
    /// how `nohup` keeps a program running. (Scripts ignore SIGINT for what they start in the
    /// background, but if they send it all the same, they mean it.)
    ///
    /// # Errors
    ///
    /// Those of `sigaction`.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Self { asked: Arc::default(), signal: Arc::default() };
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            // In this order: the first signal finds `asked` still false and only sets it.
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

    /// Runs an action at each signal, until what is returned is dropped; at once if one came before. The action runs in
    /// the signal's handler: it may only do what is async-signal-safe.
    ///
    /// # Errors
    ///
    /// Those of `sigaction`.
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

    /// Returns true if a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns true if the last signal was one that, unlike Ctrl-C at a terminal, reached this process
    /// alone, so that a command it started needs the signal, too.
    pub fn only_us(&self) -> bool {
        self.signal.load(Ordering::Relaxed) == SIGTERM.unsigned_abs() as usize
    }
}

/// An action at signals, until this is dropped.
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
    // SAFETY: Without a new action the call only writes the present one to the pointer; all zeros
    // are an action, too.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
