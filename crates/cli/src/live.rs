//! Live recordings: the signals that stop them, and the exit code of their command.

use std::process::ExitCode;

use pyrograph_session::{Child, Stopper};
use pyrograph_terminal::{Interrupt, OnSignal};

/// Catches signals from now on: each stops the recording. Until this is called, Ctrl-C ends this program and the command
/// immediately.
///
/// # Errors
///
/// If the signals cannot be caught.
pub fn stop_on_signal(stopper: Stopper) -> anyhow::Result<(Interrupt, OnSignal)> {
    let interrupt = Interrupt::catch()?;
    let stops = interrupt.on_signal(move || stopper.stop())?;
    Ok((interrupt, stops))
}

/// Sends the command the signal that has stopped the recording, if it was sent to this program only.
pub fn forward_signal(child: &Child, interrupt: &Interrupt) {
    if interrupt.only_us() {
        child.signal(libc::SIGTERM).ok();
    }
}

/// Waits for the command. Returns its exit code if it is the target, and 0 if it ran beside the target.
///
/// # Errors
///
/// If it cannot be waited for.
pub fn exit_code(
    child: Option<Child>,
    interrupt: &Interrupt,
    is_target: bool,
) -> anyhow::Result<ExitCode> {
    let Some(mut child) = child else { return Ok(ExitCode::SUCCESS) };
    forward_signal(&child, interrupt);
    let code = child.exit_code()?;
    Ok(if is_target { ExitCode::from(code) } else { ExitCode::SUCCESS })
}
