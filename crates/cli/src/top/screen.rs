//! The view of `top` on a terminal.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::bail;
use pyrograph_analyze::{History, PartCounts, Recent};
use pyrograph_profile::{LabelOptions, Profile};
use pyrograph_session::{Child, Engine};
use pyrograph_terminal::{ScreenSignal, send_stop};
use pyrograph_tui::{Action, App, Settings, Status};

use super::plan::Plan;
use super::tables::end_command;
use super::watch::{News, Opened, Order, Watch};
use crate::interactive::{Desk, End, Happened, look, write_svg};
use crate::say::say;

/// Default interval between updates.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time that a recording which has shown nothing yet may take to end: it may still be reading files of the whole machine
/// and building tables.
const PATIENCE: Duration = Duration::from_millis(300);

/// Length of the longest limited time range, and of the history that is kept for it.
const LONGEST: Duration = Duration::from_secs(60);

/// Time ranges that a key cycles through; the last one is the most recent snapshot only.
const RANGES: [Recent; 4] = [
    Recent::Last(Duration::from_secs(10)),
    Recent::Last(LONGEST),
    Recent::All,
    Recent::Last(Duration::from_nanos(1)),
];

/// Shows a recording until the user quits.
pub fn run(plan: Plan) -> anyhow::Result<ExitCode> {
    let (sender, happened) = channel();
    let mut desk = Desk::take(&sender)?;
    let news = sender.clone();
    let tell = move |of| drop(news.send(Happened::News(of)));
    let interval = plan.interval(INTERVAL);
    let watch = Watch::start(&plan, interval, tell)?;
    let mut view = View::new(plan);
    Desk::listen(sender)?;
    let end = view.show(&watch, &happened, &mut desk);
    // Ending the recording may take a moment.
    desk.leave();
    watch.order(Order::Stop);
    let ended = match view.ended {
        true => Ok(view.child.take()),
        false => match wait_for_end(&happened, view.patience()) {
            Some(ended) => ended,
            None => {
                drop(desk);
                // Process exit frees everything that the kernel holds for this process.
                std::process::exit(end.map_or(1, |end| end.code()));
            }
        },
    };
    let is_sound = watch.join();
    drop(desk);
    if !is_sound {
        bail!("the recording ended with a panic, which is an error of this program");
    }
    let end = end?;
    let code = end_command(ended?)?;
    view.say_how_it_ended();
    Ok(match end {
        End::Quit => code,
        End::Signal(_) => ExitCode::from(end.code() as u8),
    })
}

/// Processes news until the recording is over; returns its command. `None` if that takes longer than `patience`.
fn wait_for_end(
    happened: &Receiver<Happened<News>>,
    patience: Option<Duration>,
) -> Option<anyhow::Result<Option<Child>>> {
    let until = patience.map(|patience| Instant::now() + patience);
    loop {
        let what = match until {
            Some(until) => happened.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => happened.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match what {
            Ok(Happened::News(News::Ended(child))) => return Some(Ok(child)),
            Ok(Happened::News(News::Failed(error))) => return Some(Err(error)),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => return Some(Ok(None)),
        }
    }
}

/// The view and its state.
struct View {
    app: App,
    history: History,
    range: usize,
    opened: Option<Opened>,
    /// Totals of the whole recording.
    recorded: PartCounts,
    /// True once there was a snapshot.
    has_begun: bool,
    paused: bool,
    ended: bool,
    child: Option<Child>,
    plan: Plan,
}

impl View {
    fn new(plan: Plan) -> Self {
        let settings = Settings {
            live: true,
            look: look(),
            by_total: plan.by_total,
            code: plan.code,
            grouping: plan.grouping,
            flame_first: false,
            keeps_names: false,
        };
        Self {
            app: App::new(settings),
            history: History::new(LONGEST),
            range: 0,
            opened: None,
            recorded: PartCounts::default(),
            has_begun: false,
            paused: false,
            ended: false,
            child: None,
            plan,
        }
    }

    /// Handles input, news and signals, and draws, until the user quits or a signal ends the program.
    fn show(
        &mut self,
        watch: &Watch,
        happened: &Receiver<Happened<News>>,
        desk: &mut Desk,
    ) -> anyhow::Result<End> {
        self.update();
        desk.draw(&mut self.app)?;
        while let Ok(first) = happened.recv() {
            let mut is_changed = false;
            // Everything that has arrived is handled before the next drawing.
            for what in std::iter::once(first).chain(happened.try_iter()) {
                let action = match what {
                    Happened::Input(event) => self.app.handle(&event),
                    Happened::NoInput => Action::Quit,
                    Happened::News(news) => self.news(news)?,
                    Happened::Signal(ScreenSignal::End(signal)) => return Ok(End::Signal(signal)),
                    Happened::Signal(ScreenSignal::Stop) => {
                        desk.stop_for_a_while()?;
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
                desk.draw(&mut self.app)?;
            }
        }
        Ok(End::Quit)
    }

    fn act(&mut self, action: Action, watch: &Watch) {
        match action {
            Action::None | Action::Draw | Action::Quit => return,
            // There are no comparisons in this view.
            Action::WriteComparison | Action::Compare(..) => return,
            // Comes back as a signal, like one from another process.
            Action::Suspend => return send_stop(),
            Action::Pause if self.ended => return,
            Action::Pause => {
                self.paused = !self.paused;
                watch.order(Order::Pause(self.paused));
            }
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
                self.has_begun = true;
                self.recorded.lost += counts.lost;
                match self.plan.is_held() {
                    true => {
                        self.recorded.span = counts.span;
                        self.history = History::new(LONGEST);
                    }
                    false => self.recorded.span += counts.span,
                }
                if !counts.span.is_zero() || counts.samples > 0 {
                    self.history.push(&profile, counts);
                }
            }
            News::Ended(child) => {
                self.ended = true;
                self.child = child;
            }
            News::Failed(error) => {
                self.ended = true;
                return Err(error);
            }
        }
        self.update();
        Ok(Action::Draw)
    }

    /// Passes the current data to the view.
    fn update(&mut self) {
        let (profile, counts) = self.history.show(RANGES[self.range]);
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

    /// How long to wait for the end; `None` if there is no limit: a command must be ended, and changes to other
    /// processes must be undone.
    fn patience(&self) -> Option<Duration> {
        let is_command = self.plan.recording.scope.is_command();
        (!self.has_begun && !is_command).then_some(PATIENCE)
    }

    /// Text of the shown time range: `last 10 s`, `all 2:03`, `held after 10 s`.
    fn span(&self, counts: PartCounts) -> String {
        let is_all = counts.span >= self.recorded.span;
        let word = match (self.plan.is_held(), is_all) {
            (true, _) => "held after",
            (false, true) => "all",
            (false, false) => "last",
        };
        let span = counts.span.as_secs_f64();
        match span {
            0.0..60.5 => format!("{word} {span:.0} s"),
            _ => format!(
                "{word} {:.0}:{:02.0}",
                (span / 60.0).floor(),
                span.rem_euclid(60.0).floor()
            ),
        }
    }

    /// Writes a picture; returns the message about it.
    fn write(&self, profile: &Profile, labels: &LabelOptions) -> String {
        let event = self.opened.as_ref().map_or("", |opened| &opened.event);
        let title = format!("{event}: {}", self.plan.title);
        write_svg(&self.plan.output, profile, labels, &title)
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
