//! Shows text that may be longer than the terminal.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Shows text through `$PAGER`, or `less`, which exits at once if the text fits; writes it directly if there is no
/// pager.
///
/// # Errors
///
/// Returns the error of the terminal.
pub fn page(text: &[u8]) -> io::Result<()> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = pager.split_whitespace();
    let program = words.next().filter(|program| *program != "cat");
    let child = program.and_then(|program| {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        // Raw colours, exit if the text fits, no alternate screen: same options as git.
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        command.spawn().ok()
    });
    let Some(mut child) = child else {
        let mut out = io::stdout().lock();
        return out.write_all(text).and_then(|()| out.flush());
    };
    if let Some(mut to) = child.stdin.take() {
        // The user may leave the pager early.
        to.write_all(text).ok();
    }
    child.wait().map(drop)
}
