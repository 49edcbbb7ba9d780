//! Messages on standard error.

use std::sync::atomic::{AtomicBool, Ordering};

/// True if only errors are printed (`--quiet`): what a process prints is its own matter, as its standard error is.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on prints errors only.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if only errors are printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a line on standard error, unless only errors are wanted. If nobody can read it (a full disk, a
/// closed pipe), nothing is lost for it: a recording is worth more than its messages. Names in it
/// may be from anywhere.
macro_rules! say {
    ($($text:tt)*) => {
        if !$crate::say::is_quiet() {
            $crate::say::say_error!($($text)*);
        }
    };
}

/// The same for errors.
macro_rules! say_error {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = pyrograph_terminal::plain(&format!($($text)*));
        writeln!(std::io::stderr(), "pyrograph: {text}").ok();
    }};
}

pub(crate) use say;
pub(crate) use say_error;

/// The command line asks for what makes no sense, whatever the machine and the files are like: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns with a [`Usage`] error.
macro_rules! misuse {
    ($($text:tt)*) => {
        anyhow::bail!($crate::say::Usage(format!($($text)*)))
    };
}

pub(crate) use misuse;
