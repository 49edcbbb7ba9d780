//! The end of counting, which any thread may call for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link, Object};

use crate::error::{Error, Reason};
use crate::layout::State;
use crate::object::{monotonic_now, program};
use crate::shared::Shared;

/// Ends counting at once, however busy the thread is that takes the counts.
#[derive(Debug)]
pub struct End {
    state: Mutex<Shared<State>>,
    /// The program that lists threads that wait, by its name.
    list: Option<(&'static str, Link)>,
    /// Held while programs run that may sleep: tables stay where they are.
    readers: Arc<Mutex<()>>,
    at: Mutex<Option<At>>,
}

#[derive(Clone, Copy, Debug)]
struct At {
    /// On the clock that programs read.
    kernel: u64,
    here: Instant,
}

impl End {
    /// Of programs that are loaded, of which `list` lists threads that wait, if one does.
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

    /// Counts nothing from now on, but for threads that wait at this moment. All calls but the first do nothing, and
    /// return when the first is done.
    ///
    /// # Errors
    ///
    /// If the threads that wait cannot be listed.
    pub fn end(&self) -> Result<(), Error> {
        // A panic elsewhere leaves nothing unfinished here.
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_some() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write_field(std::mem::offset_of!(State, on), 0u32);
        let now = At { kernel: monotonic_now(), here: Instant::now() };
        *at = Some(now);
        // Counting that is under way at this moment is done in microseconds.
        std::thread::sleep(Duration::from_millis(2));
        if self.list.is_some() {
            state.write_field(std::mem::offset_of!(State, stopped), now.kernel);
            self.list_waiting()?;
        }
        Ok(())
    }

    /// Notes all threads that do not run, where waits count; at the end it counts them.
    pub(crate) fn list_waiting(&self) -> Result<(), Error> {
        let Some((name, link)) = &self.list else { return Ok(()) };
        let failed =
            |error: std::io::Error| Error::Attach { program: name, reason: Reason::of(&error) };
        let _reading = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut threads = Iter::new(link).map_err(Error::attach(name))?;
        // It writes nothing: reading it makes it run.
        std::io::copy(&mut threads, &mut std::io::sink()).map_err(failed)?;
        Ok(())
    }

    /// When counting ended, if it has.
    pub fn at(&self) -> Option<Instant> {
        Some(self.at.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.here)
    }

    /// The same on the clock that programs read.
    pub(crate) fn kernel_time(&self) -> Option<u64> {
        Some(self.at.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.kernel)
    }
}
