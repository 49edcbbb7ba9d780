//! Messages on standard error.

use std::sync::atomic::{AtomicBool, Ordering};

/// True if only errors are printed (`--quiet`). Global, because standard error belongs to the process, too.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses all messages except errors from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if only errors are printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a line on standard error, unless only errors are requested. Write errors (a full disk, a closed pipe) are
/// ignored: a recording is worth more than its messages. Control characters are removed, because names may come from any
/// source.
macro_rules! say {
    ($($text:tt)*) => {
        if !$crate::say::is_quiet() {
            $crate::say::say_error!($($text)*);
        }
    };
}

/// Prints an error on standard error, even with `--quiet`.
macro_rules! say_error {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = pyrograph_terminal::plain(&format!($($text)*));
        writeln!(std::io::stderr(), "pyrograph: {text}").ok();
    }};
}

pub(crate) use say;
pub(crate) use say_error;

/// Error for a command line that makes no sense, independent of the machine and the files: exit code 2.
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
