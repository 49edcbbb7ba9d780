//! Progress spinner on a terminal; writes nothing to a pipe.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error_width;

/// Interval between frames.
const TICK: Duration = Duration::from_millis(120);

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Width in columns if the terminal's width is unknown.
const USUAL_WIDTH: usize = 80;

/// Shows elapsed time and a message while work goes on.
#[derive(Debug)]
pub struct Spinner(Option<Drawing>);

/// The drawing thread, which ends when the sender is dropped.
#[derive(Debug)]
struct Drawing {
    messages: Sender<String>,
    thread: JoinHandle<()>,
}

impl Spinner {
    /// Starts a spinner on standard error, if that is a terminal and `is_wanted` is true.
    pub fn start(is_wanted: bool) -> Self {
        if !std::io::stderr().is_terminal() || !is_wanted {
            return Self(None);
        }
        let (messages, received) = mpsc::channel();
        let draw = move || {
            let (start, mut message) = (Instant::now(), String::new());
            for frame in FRAMES.into_iter().cycle() {
                write(&line(frame, start.elapsed(), &message, error_width()));
                // Messages in between wait for the next frame.
                let next = Instant::now() + TICK;
                loop {
                    match received.recv_timeout(next.saturating_duration_since(Instant::now())) {
                        Ok(new) => message = new,
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return write("\r\x1b[K"),
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("spinner".to_owned()).spawn(draw);
        Self(thread.ok().map(|thread| Drawing { messages, thread }))
    }

    /// Shows a message beside the time. It is not formatted if there is no spinner.
    pub fn say(&self, message: impl FnOnce() -> String) {
        if let Some(drawing) = &self.0 {
            // Cannot fail: the thread ends only after this sender is dropped.
            let _ = drawing.messages.send(message());
        }
    }

    /// Removes the spinner.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Spinner {
    /// Clears the spinner's line before anything else is written to the terminal.
    fn drop(&mut self) {
        if let Some(Drawing { messages, thread }) = self.0.take() {
            drop(messages);
            let _ = thread.join();
        }
    }
}

/// Writes to the terminal. A closed terminal is not an error.
fn write(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

/// Returns the text that replaces the current row of the terminal.
fn line(frame: char, elapsed: Duration, message: &str, width: Option<usize>) -> String {
    let seconds = elapsed.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let text = format!("{frame} {hours:02}:{minutes:02}:{:02} {message}", seconds % 60);
    let room = width.unwrap_or(USUAL_WIDTH).saturating_sub(1);
    let shown: String = text.chars().filter(|char| !char.is_control()).take(room).collect();
    format!("\r{shown}\x1b[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_and_fits_into_its_row() {
        let line = |width| line('*', Duration::from_secs(3723), "12 samples\nof make", width);
        assert_eq!(line(None), "\r* 01:02:03 12 samplesof make\x1b[K");
        assert_eq!(line(Some(15)), "\r* 01:02:03 12 \x1b[K");
        assert_eq!(line(Some(0)), "\r\x1b[K");
    }
}
