//! What the program says on standard error.

/// Writes a line on standard error. If nobody can read it (a full disk, a closed pipe), nothing is
/// lost for it: a recording is worth more than what is said about it. Names in it may be from anywhere.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = $crate::terminal::plain(&format!($($text)*));
        writeln!(std::io::stderr(), "pyrograph: {text}").ok();
    }};
}

pub(crate) use say;
