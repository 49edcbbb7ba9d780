//! A recording on a thread of its own, and its snapshots.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use pyrograph_analyze::PartCounts;
use pyrograph_profile::Profile;
use pyrograph_session::{Child, Engine, Message, Plan, Progress, Recorder, memory};

use super::plan as top;
use crate::record::messages;
use crate::record::question::refused;

/// News of a recording.
pub enum News {
    /// The recording begins.
    Opened(Opened),
    /// What was recorded since the last snapshot. For held memory: all of it, with the time since the beginning.
    Snapshot(Box<Profile>, PartCounts),
    /// The recording is over. Contains the command if one was started.
    Ended(Option<Child>),
    /// The recording failed.
    Failed(anyhow::Error),
}

/// Properties of a recording that begins.
pub struct Opened {
    /// Name of the event that is counted.
    pub event: String,
    /// Engine that takes the stacks.
    pub engine: Engine,
}

/// Orders to a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Pause(bool),
    Stop,
}

/// Handle of a recording that runs on its own thread.
pub struct Watch {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Begins to record; `tell` is called with the news, on the new thread.
    pub fn start(
        plan: &top::Plan,
        interval: Duration,
        tell: impl Fn(News) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (orders, receiver) = channel();
        let (is_held, verbose) = (plan.is_held(), plan.verbose);
        let plan = plan.recording.clone();
        let work = move || {
            let meter = Meter::new(is_held);
            let result = record(&plan, interval, verbose, meter, &receiver, &tell);
            tell(match result {
                Ok(child) => News::Ended(child),
                Err(error) => News::Failed(refused(error, &plan.question)),
            });
        };
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(work);
        Ok(Self { orders, thread: thread.context("failed to start a thread")? })
    }

    /// Sends an order. No error if the recording is over already: the news report that.
    pub fn order(&self, order: Order) {
        self.orders.send(order).ok();
    }

    /// Waits for the thread to end; returns false if it panicked.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}

fn record(
    plan: &Plan,
    interval: Duration,
    verbose: bool,
    mut meter: Meter,
    orders: &Receiver<Order>,
    tell: &impl Fn(News),
) -> Result<Option<Child>, pyrograph_session::Error> {
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
    meter.begin(Instant::now());
    let mut next = Instant::now() + interval;
    while recorder.step()? {
        // Unwind tables are built before counting in the kernel begins: the time starts now.
        if let Some(at) = started.take() {
            meter.begin(at);
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
            // Held memory changes even in a pause; the view must not.
            if meter.is_held && meter.is_paused() {
                continue;
            }
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

/// Measures time, samples and losses between snapshots.
struct Meter {
    /// True if snapshots contain held memory: each then has the time since the beginning.
    is_held: bool,
    /// Time since which counting is active; `None` in a pause.
    since: Option<Instant>,
    /// Active time before `since`.
    span: Duration,
    read: Progress,
}

impl Meter {
    fn new(is_held: bool) -> Self {
        let read = Progress { samples: 0, lost: 0 };
        Self { is_held, since: None, span: Duration::ZERO, read }
    }

    fn begin(&mut self, at: Instant) {
        (self.since, self.span) = (Some(at), Duration::ZERO);
    }

    fn is_paused(&self) -> bool {
        self.since.is_none()
    }

    fn pause(&mut self) {
        self.span += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn read(&mut self, progress: Progress) -> PartCounts {
        let goes_on = !self.is_paused();
        self.pause();
        if goes_on {
            self.resume();
        }
        let before = std::mem::replace(&mut self.read, progress);
        PartCounts {
            span: if self.is_held { self.span } else { std::mem::take(&mut self.span) },
            samples: progress.samples.saturating_sub(before.samples),
            lost: progress.lost.saturating_sub(before.lost),
        }
    }
}
