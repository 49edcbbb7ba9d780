//! Programs that show output: the pager and the browser.

use std::io;
use std::path::Path;

use pyrograph_terminal::browser;

use crate::say::say;

/// Shows text through the pager.
///
/// # Errors
///
/// If the terminal or the pager fails.
pub fn page(text: &[u8]) -> io::Result<()> {
    pyrograph_memory::lift();
    pyrograph_terminal::page(text)
}

/// Opens a file in the browser; if that fails, prints how to open it.
pub fn open(path: &Path) {
    pyrograph_memory::lift();
    if let Err(tried) = browser::open(path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        say!("no browser could be started ({tried}): open {} in one", path.display());
    }
}
