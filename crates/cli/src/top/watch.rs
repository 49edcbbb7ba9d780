//! A recording on a thread of its own, and the snapshots that come of it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use pyrograph_analyze::PartCounts;
use pyrograph_profile::Profile;
use pyrograph_recorder::{Child, Engine, Message, Plan, Progress, Recorder, memory};

use crate::record::messages;
use crate::record::question::refused;

/// News of a recording.
pub enum News {
    /// It begins.
    Opened(Opened),
    /// What was recorded since the last one.
    Snapshot(Box<Profile>, PartCounts),
    /// It is over; with the command that was started, if it was.
    Ended(Option<Child>),
    /// It failed.
    Failed(anyhow::Error),
}

/// A recording that begins.
pub struct Opened {
    /// Name of what is counted.
    pub event: String,
    /// What takes the stacks.
    pub engine: Engine,
}

/// Orders to a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Pause(bool),
    Stop,
}

/// A recording on its thread.
pub struct Watch {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Begins to record; `tell` gets the news, on that thread.
    pub fn start(
        plan: Plan,
        interval: Duration,
        verbose: bool,
        tell: impl Fn(News) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (orders, receiver) = channel();
        let work = move || {
            let result = record(&plan, interval, verbose, &receiver, &tell);
            tell(match result {
                Ok(child) => News::Ended(child),
                Err(error) => News::Failed(refused(error, &plan.question)),
            });
        };
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(work);
        Ok(Self { orders, thread: thread.context("failed to start a thread")? })
    }

    /// Gives an order. If the recording is over already, that shows in the news.
    pub fn order(&self, order: Order) {
        self.orders.send(order).ok();
    }

    /// Waits for the end of the thread; false if it has panicked.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}

fn record(
    plan: &Plan,
    interval: Duration,
    verbose: bool,
    orders: &Receiver<Order>,
    tell: &impl Fn(News),
) -> Result<Option<Child>, pyrograph_recorder::Error> {
    memory::keep_none();
    let started = Rc::new(Cell::new(None));
    let set_started = Rc::clone(&started);
    let mut recorder = Recorder::open(plan, move |message: Message| {
        if matches!(message, Message::Started { .. }) {
            set_started.set(Some(Instant::now()));
        }
        messages::print(&message, verbose);
    })?;
    let event = plan.question.name(recorder.event()).to_owned();
    tell(News::Opened(Opened { event, engine: recorder.engine() }));
    let mut meter = Meter::new();
    let mut next = Instant::now() + interval;
    while recorder.step()? {
        // Tables are made before it counts in the kernel.
        if let Some(at) = started.take() {
            meter = Meter { since: Some(at), ..Meter::new() };
            next = at + interval;
        }
        match orders.try_recv() {
            Ok(Order::Pause(true)) => {
                recorder.pause()?;
                meter.pause();
            }
            Ok(Order::Pause(false)) => {
                recorder.resume()?;
                meter.resume();
            }
            Ok(Order::Stop) | Err(TryRecvError::Disconnected) => recorder.stop(),
            Err(TryRecvError::Empty) => {}
        }
        if Instant::now() >= next {
            next = (next + interval).max(Instant::now());
            let profile = recorder.take_snapshot()?;
            tell(News::Snapshot(Box::new(profile), meter.read(recorder.progress())));
        }
    }
    let last = recorder.progress();
    let finished = recorder.finish()?;
    let stats = &finished.resolved.stats;
    let progress = Progress {
        samples: stats.samples.max(last.samples),
        lost: finished.summary.lost.max(last.lost),
    };
    tell(News::Snapshot(Box::new(finished.resolved.profile), meter.read(progress)));
    Ok(finished.child)
}

/// Counts since the last snapshot.
struct Meter {
    /// When counting went on; `None` in a pause.
    since: Option<Instant>,
    /// Before the last pause.
    span: Duration,
    read: Progress,
}

impl Meter {
    fn new() -> Self {
        let read = Progress { samples: 0, lost: 0 };
        Self { since: Some(Instant::now()), span: Duration::ZERO, read }
    }

    fn pause(&mut self) {
        self.span += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn read(&mut self, progress: Progress) -> PartCounts {
        let goes_on = self.since.is_some();
        self.pause();
        if goes_on {
            self.resume();
        }
        let before = std::mem::replace(&mut self.read, progress);
        PartCounts {
            span: std::mem::take(&mut self.span),
            samples: progress.samples.saturating_sub(before.samples),
            lost: progress.lost.saturating_sub(before.lost),
        }
    }
}
