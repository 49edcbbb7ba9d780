use std::path::Path;
use std::{fs, io};

/// Reads a file of `/proc`. Bytes that are not UTF-8 become U+FFFD: the kernel cuts the name of a task after 15 bytes, which may be
/// within a character, and paths are bytes.
///
/// # Errors
///
/// If the file cannot be read.
pub fn proc_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
