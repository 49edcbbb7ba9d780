//! The spinner on a terminal; nothing in a pipe.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error_width;

/// How often the line is drawn anew.
const TICK: Duration = Duration::from_millis(120);

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The width of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// Shows that work goes on, for how long, and what came of it so far.
#[derive(Debug)]
pub struct Spinner(Option<Drawing>);

/// The thread that draws: it ends once there can be no more messages.
#[derive(Debug)]
struct Drawing {
    messages: Sender<String>,
    thread: JoinHandle<()>,
}

impl Spinner {
    /// A spinner on standard error, if that is a terminal and `is_wanted`.
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

    /// Shows a message beside the time; where nobody sees it, it is not made.
    pub fn say(&self, message: impl FnOnce() -> String) {
        if let Some(drawing) = &self.0 {
            // The thread ends only after this sender.
            let _ = drawing.messages.send(message());
        }
    }

    /// Takes the spinner away.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Spinner {
    /// Whatever is written to the terminal next does not share the spinner's line.
    fn drop(&mut self) {
        if let Some(Drawing { messages, thread }) = self.0.take() {
            drop(messages);
            let _ = thread.join();
        }
    }
}

/// A terminal that is gone is no reason to fail.
fn write(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

/// The text of one row of the terminal, over what was there.
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
