//! The terminal for interactive views: input of keys and signals, and drawing.

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::Context;
use pyrograph_export::{Output, Picture};
use pyrograph_profile::{LabelOptions, Profile};
use pyrograph_terminal::{Screen, ScreenSignal, on_screen_signals};
use pyrograph_tui::{App, Look};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};

/// An event that a view handles.
pub enum Happened<News> {
    Input(Event),
    /// The end of the input.
    NoInput,
    News(News),
    Signal(ScreenSignal),
}

/// Reason for leaving a view.
pub enum End {
    /// The user quit.
    Quit,
    /// A signal ended it.
    Signal(i32),
}

impl End {
    /// Exit code for this reason.
    pub fn code(&self) -> i32 {
        match self {
            Self::Quit => 0,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The terminal's alternate screen, until this is dropped.
pub struct Desk {
    // Fields drop in this order.
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    screen: Screen,
}

impl Desk {
    /// Takes over the screen. Signals are caught first, so that none can leave the terminal in this state.
    pub fn take<News: Send + 'static>(sender: &Sender<Happened<News>>) -> anyhow::Result<Self> {
        let signals = sender.clone();
        on_screen_signals(move |signal| drop(signals.send(Happened::Signal(signal))))
            .context("failed to catch signals")?;
        let screen = Screen::enter().context("failed to take over the terminal")?;
        Ok(Self { terminal: blank(&screen)?, screen })
    }

    /// Starts a thread that only reads keys and mouse events.
    pub fn listen<News: Send + 'static>(sender: Sender<Happened<News>>) -> anyhow::Result<()> {
        let read = move || {
            while let Ok(event) = event::read() {
                if sender.send(Happened::Input(event)).is_err() {
                    return;
                }
            }
            sender.send(Happened::NoInput).ok();
        };
        let thread = thread::Builder::new().name("input".to_owned()).spawn(read);
        thread.map(drop).context("failed to start a thread")
    }

    /// Draws a view.
    pub fn draw(&mut self, app: &mut App) -> anyhow::Result<()> {
        let drawn = self.terminal.draw(|frame| app.render(frame.buffer_mut()));
        drawn.map(drop).context("failed to draw on the terminal")
    }

    /// Stops this process, as Ctrl-Z does, until the shell continues it.
    pub fn stop_for_a_while(&mut self) -> anyhow::Result<()> {
        self.screen.stop_for_a_while()?;
        self.terminal = blank(&self.screen)?;
        Ok(())
    }

    /// Restores the terminal, for work that is done after the view.
    pub fn leave(&mut self) {
        self.screen.leave();
    }
}

/// A terminal whose buffer is empty, like the screen after taking it over. (Clearing it instead would query the cursor's
/// position, and the answer would go to the thread that reads keys.)
fn blank(screen: &Screen) -> anyhow::Result<Terminal<CrosstermBackend<BufWriter<File>>>> {
    let writer = BufWriter::with_capacity(1 << 16, screen.writer()?);
    Ok(Terminal::new(CrosstermBackend::new(writer))?)
}

/// Look that the environment requests.
pub fn look() -> Look {
    let variable = |name| std::env::var(name).ok();
    let [no_color, color, term] = ["NO_COLOR", "COLORTERM", "TERM"].map(variable);
    Look::of(no_color.as_deref(), color.as_deref(), term.as_deref())
}

/// Writes a flame graph to a file, adding a number to the name if the file exists; returns the message about it.
pub fn write_svg(path: &Path, profile: &Profile, labels: &LabelOptions, title: &str) -> String {
    let path = free_name(path);
    let written = Output::new(&path)
        .map_err(anyhow::Error::from)
        .and_then(|output| Ok(output.write(profile, labels, title, &Picture::default())?));
    message(&path, written.map(drop))
}

/// Message about a file that was written, or the error.
pub fn message(path: &Path, written: anyhow::Result<()>) -> String {
    match written {
        Ok(()) => format!("wrote {}", path.display()),
        Err(error) => format!("{error:#}"),
    }
}

/// Returns the path, or the first unused path with a number before its ending.
pub fn free_name(path: &Path) -> PathBuf {
    let is_free = |path: &Path| {
        path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: u32| path.with_file_name(format!("{stem}-{number}.svg"));
    std::iter::once(path.to_owned())
        .chain((2..10_000).map(numbered))
        .find(|path| is_free(path))
        .unwrap_or_else(|| path.to_owned())
}
