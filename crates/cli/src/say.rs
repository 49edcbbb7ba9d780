//! What the program says on standard error.

/// Writes a line on standard error. If nobody can read it (a full disk, a closed pipe), nothing is
/// lost for it: a recording is worth more than what is said about it.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        writeln!(std::io::stderr(), "pyrograph: {}", format_args!($($text)*)).ok();
    }};
}

pub(crate) use say;
