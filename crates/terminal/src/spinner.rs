//! The spinner on a terminal; nothing in a pipe.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows that work goes on, for how long, and what came of it so far.
#[derive(Debug)]
pub struct Spinner(ProgressBar);

impl Spinner {
    /// A spinner on standard error, if that is a terminal and `is_wanted`.
    pub fn start(is_wanted: bool) -> Self {
        if !std::io::stderr().is_terminal() || !is_wanted {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// Shows a message beside the time; where nobody sees it, it is not made.
    pub fn say(&self, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(message());
        }
    }

    /// Takes the spinner away.
    pub fn end(self) {
        self.0.finish_and_clear();
    }
}
