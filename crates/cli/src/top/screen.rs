//! The view on a terminal.

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use pyrograph_analyze::{History, PartCounts, Recent};
use pyrograph_output::{Output, Picture};
use pyrograph_profile::{LabelOptions, Profile};
use pyrograph_recorder::{Child, Engine};
use pyrograph_terminal::{Screen, ScreenSignal, on_screen_signals, send_stop};
use pyrograph_tui::{Action, App, Look, Settings, Status};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};

use super::groups::Groups;
use super::plan::Plan;
use super::tables::end_command;
use super::watch::{News, Opened, Order, Watch};
use crate::say::say;

/// How often to show what is new.
const INTERVAL: Duration = Duration::from_millis(500);

/// The ranges of time that a key goes through; what was recorded last comes after them.
const RANGES: [Recent; 4] = [
    Recent::Last(Duration::from_secs(10)),
    Recent::Last(Duration::from_secs(60)),
    Recent::All,
    Recent::Last(Duration::from_nanos(1)),
];

/// Something that has happened.
enum Happened {
    Input(Event),
    /// No more input can be read.
    NoInput,
    News(News),
    Signal(ScreenSignal),
}

/// Why the view is left.
enum End {
    /// The user has seen enough.
    Quit,
    /// A signal.
    Signal(i32),
}

/// Shows a recording until the user has seen enough.
pub fn run(plan: Plan) -> anyhow::Result<ExitCode> {
    let (sender, happened) = channel();
    forward_signals(sender.clone())?;
    let mut screen = Screen::enter().context("failed to take over the terminal")?;
    let news = sender.clone();
    let tell = move |of| drop(news.send(Happened::News(of)));
    let interval = plan.interval(INTERVAL);
    let watch = Watch::start(plan.recording.clone(), interval, plan.verbose, tell)?;
    let mut view = View::new(plan, &screen)?;
    forward_input(sender)?;
    let end = view.show(&watch, &happened, &mut screen);
    // The end may take a moment.
    screen.leave();
    watch.order(Order::Stop);
    let ended = wait_for_end(&happened, view.child.take());
    let is_sound = watch.join();
    drop(screen);
    if !is_sound {
        bail!("the recording ended with a panic, which is an error of this program");
    }
    let end = end?;
    let code = end_command(ended?)?;
    view.say_how_it_ended();
    Ok(match end {
        End::Quit => code,
        End::Signal(signal) => ExitCode::from(128u8.saturating_add(signal as u8)),
    })
}

/// Takes news until the recording is over; returns its command.
fn wait_for_end(
    happened: &Receiver<Happened>,
    child: Option<Child>,
) -> anyhow::Result<Option<Child>> {
    if child.is_some() {
        return Ok(child);
    }
    for what in happened {
        match what {
            Happened::News(News::Ended(child)) => return Ok(child),
            Happened::News(News::Failed(error)) => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

fn forward_signals(sender: Sender<Happened>) -> anyhow::Result<()> {
    on_screen_signals(move |signal| drop(sender.send(Happened::Signal(signal))))
        .context("failed to catch signals")
}

/// Reads keys and the mouse on a thread that waits for nothing else.
fn forward_input(sender: Sender<Happened>) -> anyhow::Result<()> {
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

/// The view, and what it shows.
struct View {
    app: App,
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    history: History,
    range: usize,
    opened: Option<Opened>,
    /// All that was recorded.
    recorded: PartCounts,
    paused: bool,
    ended: bool,
    child: Option<Child>,
    plan: Plan,
    groups: Groups,
}

impl View {
    fn new(plan: Plan, screen: &Screen) -> anyhow::Result<Self> {
        let writer = BufWriter::with_capacity(1 << 16, screen.writer()?);
        let variable = |name| std::env::var(name).ok();
        let [no_color, color, term] = ["NO_COLOR", "COLORTERM", "TERM"].map(variable);
        let settings = Settings {
            live: true,
            look: Look::of(no_color.as_deref(), color.as_deref(), term.as_deref()),
            by_total: plan.by_total,
            code: plan.code,
            grouping: plan.grouping,
        };
        Ok(Self {
            app: App::new(settings),
            terminal: Terminal::new(CrosstermBackend::new(writer))?,
            history: History::new(Duration::from_secs(60)),
            range: 0,
            opened: None,
            recorded: PartCounts::default(),
            paused: false,
            ended: false,
            child: None,
            plan,
            groups: Groups::default(),
        })
    }

    /// Shows what happens, until the end.
    fn show(
        &mut self,
        watch: &Watch,
        happened: &Receiver<Happened>,
        screen: &mut Screen,
    ) -> anyhow::Result<End> {
        self.update();
        self.draw()?;
        while let Ok(first) = happened.recv() {
            let mut is_changed = false;
            // All that has come up is shown at once.
            for what in std::iter::once(first).chain(happened.try_iter()) {
                let action = match what {
                    Happened::Input(event) => self.app.handle(&event),
                    Happened::NoInput => Action::Quit,
                    Happened::News(news) => self.news(news)?,
                    Happened::Signal(ScreenSignal::End(signal)) => return Ok(End::Signal(signal)),
                    Happened::Signal(ScreenSignal::Stop) => {
                        screen.stop_for_a_while()?;
                        self.terminal.clear()?;
                        Action::Draw
                    }
                };
                is_changed |= !matches!(action, Action::None);
                if matches!(action, Action::Quit) {
                    return Ok(End::Quit);
                }
                self.act(action, watch);
            }
            if is_changed {
                self.draw()?;
            }
        }
        Ok(End::Quit)
    }

    fn act(&mut self, action: Action, watch: &Watch) {
        match action {
            Action::None | Action::Draw | Action::Quit => return,
            // It comes back as a signal, as one from elsewhere does.
            Action::Suspend => return send_stop(),
            Action::Pause if self.ended => return,
            Action::Pause => {
                self.paused = !self.paused;
                watch.order(Order::Pause(self.paused));
            }
            Action::FindGroups => {}
            Action::NextSpan => self.range = (self.range + 1) % RANGES.len(),
            Action::Write(profile, labels) => {
                let message = self.write(&profile, &labels);
                self.app.say(message);
                return;
            }
        }
        self.update();
    }

    fn news(&mut self, news: News) -> anyhow::Result<Action> {
        match news {
            News::Opened(opened) => self.opened = Some(opened),
            News::Snapshot(profile, counts) => {
                self.recorded.span += counts.span;
                self.recorded.samples += counts.samples;
                self.recorded.lost += counts.lost;
                if !counts.span.is_zero() || counts.samples > 0 {
                    self.history.push(&profile, counts);
                }
            }
            News::Ended(child) => {
                self.ended = true;
                self.child = child;
            }
            News::Failed(error) => return Err(error),
        }
        self.update();
        Ok(Action::Draw)
    }

    /// Hands what there is to the view.
    fn update(&mut self) {
        let (profile, counts) = self.history.show(RANGES[self.range]);
        self.app.set_control_groups(self.groups.of(&profile, self.app.grouping()));
        let event = self.opened.as_ref().map_or("", |opened| &opened.event);
        let subject = match &self.opened {
            None => format!("starting: {}", self.plan.title),
            Some(_) => format!("{event}: {}", self.plan.title),
        };
        let status = Status {
            subject,
            span: self.opened.as_ref().map(|_| self.span(counts)),
            samples: self.opened.as_ref().map(|_| counts.samples),
            noun: self.plan.recording.question.noun().to_owned(),
            lost: self.recorded.lost,
            paused: self.paused,
            ended: self.ended.then(|| "q quits".to_owned()),
            engine: self.opened.as_ref().map(|opened| engine(opened.engine).to_owned()),
        };
        self.app.update(profile, status);
    }

    /// `last 10 s`, `all 2:03`.
    fn span(&self, counts: PartCounts) -> String {
        let is_all = counts.span >= self.recorded.span;
        let (word, span) = (if is_all { "all" } else { "last" }, counts.span.as_secs_f64());
        match span {
            0.0..60.5 => format!("{word} {span:.0} s"),
            _ => format!(
                "{word} {:.0}:{:02.0}",
                (span / 60.0).floor(),
                span.rem_euclid(60.0).floor()
            ),
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let app = &mut self.app;
        let drawn = self.terminal.draw(|frame| app.render(frame.buffer_mut()));
        drawn.map(drop).context("failed to draw on the terminal")
    }

    /// Writes a picture; returns what to say about it.
    fn write(&self, profile: &Profile, labels: &LabelOptions) -> String {
        let path = free_name(&self.plan.output);
        let event = self.opened.as_ref().map_or("", |opened| &opened.event);
        let title = format!("{event}: {}", self.plan.title);
        let written = Output::new(&path)
            .map_err(anyhow::Error::from)
            .and_then(|output| Ok(output.write(profile, labels, &title, &Picture::default())?));
        match written {
            Ok(_) => format!("wrote {}", path.display()),
            Err(error) => format!("{error:#}"),
        }
    }

    fn say_how_it_ended(&self) {
        if self.recorded.lost > 0 {
            say!("{} samples were lost", self.recorded.lost);
        }
    }
}

fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::InKernel => "in-kernel",
        Engine::Perf => "perf_event",
    }
}

/// The path, or with a number before its ending the first that is not there.
fn free_name(path: &Path) -> PathBuf {
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
