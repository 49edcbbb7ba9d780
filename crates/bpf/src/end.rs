//! The end of counting, which any thread may request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link, Object};
use pyrograph_event::clock::monotonic_now;

use crate::error::{Error, Reason};
use crate::layout::State;
use crate::object::program;
use crate::shared::Shared;

/// Ends counting at once, even if the thread that takes the counts is busy.
#[derive(Debug)]
pub struct End {
    state: Mutex<Shared<State>>,
    /// Name and link of the iterator program that lists waiting threads.
    list: Option<(&'static str, Link)>,
    /// Lock that is held while sleepable programs run: tables are not moved meanwhile.
    readers: Arc<Mutex<()>>,
    at: Mutex<Option<At>>,
}

#[derive(Clone, Copy, Debug)]
struct At {
    /// Time on the clock that programs read.
    kernel: u64,
    here: Instant,
}

impl End {
    /// Creates the handle for loaded programs. `list` is the program that lists waiting threads, if there is one.
    pub(crate) fn new(
        state: Shared<State>,
        object: &Object,
        list: Option<&'static str>,
        readers: Arc<Mutex<()>>,
    ) -> Result<Self, Error> {
        let attached = |name| {
            let link = program(object, name)?.attach().map_err(Error::attach(name))?;
            Ok((name, link))
        };
        let list = list.map(attached).transpose()?;
        Ok(Self { state: Mutex::new(state), list, readers, at: Mutex::new(None) })
    }

    /// Stops counting, except for threads that wait at this moment. Only the first call has an effect; others return
    /// when the first one is done.
    ///
    /// # Errors
    ///
    /// If the waiting threads cannot be listed.
    pub fn end(&self) -> Result<(), Error> {
        // The lock may be poisoned by a panic elsewhere, which leaves nothing unfinished here.
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_some() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write_field(std::mem::offset_of!(State, on), 0u32);
        let now = At { kernel: monotonic_now(), here: Instant::now() };
        *at = Some(now);
        // Programs that are running at this moment finish within microseconds.
        std::thread::sleep(Duration::from_millis(2));
        if self.list.is_some() {
            state.write_field(std::mem::offset_of!(State, stopped), now.kernel);
            self.list_waiting()?;
        }
        Ok(())
    }

    /// Records all threads that do not run, if waits are counted; after the end, it counts them instead.
    pub(crate) fn list_waiting(&self) -> Result<(), Error> {
        let Some((name, link)) = &self.list else { return Ok(()) };
        let failed =
            |error: std::io::Error| Error::Attach { program: name, reason: Reason::of(&error) };
        let _reading = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut threads = Iter::new(link).map_err(Error::attach(name))?;
        // The program writes nothing: reading from the iterator runs it.
        std::io::copy(&mut threads, &mut std::io::sink()).map_err(failed)?;
        Ok(())
    }

    /// Time when counting ended, if it has.
    pub fn at(&self) -> Option<Instant> {
        Some(self.at.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.here)
    }

    /// Time when counting ended, on the clock that programs read.
    pub(crate) fn kernel_time(&self) -> Option<u64> {
        Some(self.at.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.kernel)
    }
}
