//! Programs that show what is written: the pager, the browser.

use std::io;
use std::path::Path;

use pyrograph_terminal::browser;

use crate::say::say;

/// Shows text through the pager.
///
/// # Errors
///
/// Those of the terminal.
pub fn page(text: &[u8]) -> io::Result<()> {
    pyrograph_memory::lift();
    pyrograph_terminal::page(text)
}

/// Opens a file in the browser, or says how to.
pub fn open(path: &Path) {
    pyrograph_memory::lift();
    if let Err(tried) = browser::open(path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        say!("no browser could be started ({tried}): open {} in one", path.display());
    }
}
