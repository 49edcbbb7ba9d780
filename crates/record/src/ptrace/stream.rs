//! Tracing on a thread of its own: `ptrace` belongs to the thread that begins it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Traced, Tracer};
use crate::command::Waiting;
use crate::error::Error;
use crate::sys;

/// What is traced.
#[derive(Debug, Clone, Copy)]
pub enum TraceTarget<'a> {
    /// A child that waits to become a program. [`Waiting::run`] is to be called next, by the thread that forked.
    Child(&'a Waiting),
    /// Processes that run.
    Processes(&'a [i32]),
}

/// What traced threads do, from a [`Tracer`] on a thread of its own. Nothing is lost: they wait if it is not taken.
#[derive(Debug)]
pub struct TracedStream {
    batches: Receiver<Vec<Traced>>,
    ready: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Events that come together, and how long they wait for each other.
const BATCH: usize = 128;
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Batches that wait to be taken.
const BATCHES: usize = 64;

impl TracedStream {
    /// Begins to trace.
    ///
    /// # Errors
    ///
    /// Those of [`Tracer::child`] and [`Tracer::attach`].
    pub fn start(target: TraceTarget<'_>, text: u32) -> Result<Self, Error> {
        let (sender, batches) = sync_channel(BATCHES);
        let (begun_sender, begun) = sync_channel(1);
        let ready = Arc::new(sys::eventfd().map_err(Error::system("making an eventfd"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (child, processes) = match target {
            TraceTarget::Child(waiting) => (Some(waiting.pid()), Vec::new()),
            TraceTarget::Processes(processes) => (None, processes.to_vec()),
        };
        let (thread_ready, thread_stop) = (ready.clone(), stop.clone());
        let run = move || {
            let tracer = match child {
                Some(pid) => Tracer::child_of_number(pid, text),
                None => Tracer::attach(&processes, text),
            };
            match tracer {
                Ok(tracer) => {
                    let _ = begun_sender.send(Ok(()));
                    trace(tracer, &Sender { sender, ready: thread_ready }, &thread_stop)
                }
                Err(error) => {
                    let _ = begun_sender.send(Err(error));
                    Ok(())
                }
            }
        };
        let named = thread::Builder::new().name("ptrace".to_owned());
        let thread = named.spawn(run).map_err(Error::system("starting a thread"))?;
        begun.recv().unwrap_or(Ok(()))?;
        Ok(Self { batches, ready, stop, thread: Some(thread) })
    }

    /// A descriptor that is readable once there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Hands out what has happened since the last call. Returns false if there was nothing.
    ///
    /// # Errors
    ///
    /// If tracing has failed meanwhile.
    pub fn take(&mut self, out: &mut dyn FnMut(&Traced)) -> Result<bool, Error> {
        sys::quiet(&self.ready);
        let mut any = false;
        loop {
            match self.batches.try_recv() {
                Ok(batch) => {
                    any = true;
                    batch.iter().for_each(&mut *out);
                }
                Err(TryRecvError::Empty) => return Ok(any),
                Err(TryRecvError::Disconnected) => {
                    self.join()?;
                    return Ok(any);
                }
            }
        }
    }

    /// Lets all threads go, which run on, and hands out what is left, with the calls that threads are in.
    ///
    /// # Errors
    ///
    /// If tracing has failed.
    pub fn stop(&mut self, out: &mut dyn FnMut(&Traced)) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        // It ends once all is taken.
        for batch in &self.batches {
            batch.iter().for_each(&mut *out);
        }
        self.join()
    }

    fn join(&mut self) -> Result<(), Error> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for TracedStream {
    fn drop(&mut self) {
        // An error has nowhere to go.
        let _ = self.stop(&mut |_| {});
    }
}

struct Sender {
    sender: SyncSender<Vec<Traced>>,
    ready: Arc<OwnedFd>,
}

impl Sender {
    /// Sends a batch, once there is room for it.
    fn send(&self, batch: &mut Vec<Traced>) {
        if !batch.is_empty() && self.sender.send(std::mem::take(batch)).is_ok() {
            sys::wake(&self.ready);
        }
    }
}

fn trace(mut tracer: Tracer, sender: &Sender, stop: &AtomicBool) -> Result<(), Error> {
    let mut batch = Vec::new();
    let mut begun = Instant::now();
    while !tracer.is_done() && !stop.load(Ordering::Relaxed) {
        match tracer.step()? {
            Some(traced) => {
                if batch.is_empty() {
                    begun = Instant::now();
                }
                batch.push(traced);
                if batch.len() >= BATCH || begun.elapsed() > LONGEST_WAIT {
                    sender.send(&mut batch);
                }
            }
            None => sender.send(&mut batch),
        }
    }
    batch.extend(tracer.unfinished());
    sender.send(&mut batch);
    tracer.detach()
}
