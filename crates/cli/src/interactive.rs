//! The terminal as views have it: keys and signals come in, and screens go out.

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::Context;
use pyrograph_output::{Output, Picture};
use pyrograph_profile::{LabelOptions, Profile};
use pyrograph_terminal::{Screen, ScreenSignal, on_screen_signals};
use pyrograph_tui::{App, Look};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};

/// Something that has happened.
pub enum Happened<News> {
    Input(Event),
    /// No more input can be read.
    NoInput,
    News(News),
    Signal(ScreenSignal),
}

/// Why a view is left.
pub enum End {
    /// The user has seen enough.
    Quit,
    /// A signal.
    Signal(i32),
}

impl End {
    /// The exit code that says so.
    pub fn code(&self) -> i32 {
        match self {
            Self::Quit => 0,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The screen, until this is dropped.
pub struct Desk {
    // Fields drop in this order.
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    screen: Screen,
}

impl Desk {
    /// Takes the screen. Signals are caught before, so that none leaves the terminal as it is then.
    pub fn take<News: Send + 'static>(sender: &Sender<Happened<News>>) -> anyhow::Result<Self> {
        let signals = sender.clone();
        on_screen_signals(move |signal| drop(signals.send(Happened::Signal(signal))))
            .context("failed to catch signals")?;
        let screen = Screen::enter().context("failed to take over the terminal")?;
        Ok(Self { terminal: blank(&screen)?, screen })
    }

    /// Reads keys and the mouse on a thread that waits for nothing else.
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

    /// Stops this process as Ctrl-Z does, until the shell lets it go on.
    pub fn stop_for_a_while(&mut self) -> anyhow::Result<()> {
        self.screen.stop_for_a_while()?;
        self.terminal = blank(&self.screen)?;
        Ok(())
    }

    /// Gives the terminal back, for what is still to be done after the view.
    pub fn leave(&mut self) {
        self.screen.leave();
    }
}

/// The terminal with nothing on it, as the screen is when it was just taken. (To clear it, its cursor would be asked for, and
/// the answer lost to the thread that reads keys.)
fn blank(screen: &Screen) -> anyhow::Result<Terminal<CrosstermBackend<BufWriter<File>>>> {
    let writer = BufWriter::with_capacity(1 << 16, screen.writer()?);
    Ok(Terminal::new(CrosstermBackend::new(writer))?)
}

/// The look that the environment asks for.
pub fn look() -> Look {
    let variable = |name| std::env::var(name).ok();
    let [no_color, color, term] = ["NO_COLOR", "COLORTERM", "TERM"].map(variable);
    Look::of(no_color.as_deref(), color.as_deref(), term.as_deref())
}

/// Writes a flame graph into a file of this name, or into one with a number before its ending if that is there; returns what
/// to say about it.
pub fn write_svg(path: &Path, profile: &Profile, labels: &LabelOptions, title: &str) -> String {
    let path = free_name(path);
    let written = Output::new(&path)
        .map_err(anyhow::Error::from)
        .and_then(|output| Ok(output.write(profile, labels, title, &Picture::default())?));
    message(&path, written.map(drop))
}

/// What to say about a file that was to be written.
pub fn message(path: &Path, written: anyhow::Result<()>) -> String {
    match written {
        Ok(()) => format!("wrote {}", path.display()),
        Err(error) => format!("{error:#}"),
    }
}

/// The path, or with a number before its ending the first that is not there.
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
