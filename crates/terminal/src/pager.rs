//! Text on a terminal that may be longer than the terminal is high.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Shows text through `$PAGER`, or `less`, which leaves at once if all fits; without a pager as it is.
///
/// # Errors
///
/// Those of the terminal.
pub fn page(text: &[u8]) -> io::Result<()> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = pager.split_whitespace();
    let program = words.next().filter(|program| *program != "cat");
    let child = program.and_then(|program| {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        // Colours as they are, leave if it fits, no second screen: as git has it.
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
        // Who leaves a pager early has seen enough.
        to.write_all(text).ok();
    }
    child.wait().map(drop)
}
