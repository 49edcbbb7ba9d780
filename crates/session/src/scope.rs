//! The scope of a recording: its target and duration, which all kinds of recordings have.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pyrograph_record::{Launch, Target, threads};

use crate::filters::Filters;

/// Target and duration of a recording, and how its command is started.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Target of the recording.
    pub target: Target,
    /// Observe the processes that the target starts, too.
    pub inherit: bool,
    /// Filters on the target. Only eBPF programs can apply them.
    pub filters: Filters,
    /// A command that runs beside the target. The recording ends when it does.
    pub beside: Option<Vec<OsString>>,
    /// Maximum duration of the recording.
    pub duration: Option<Duration>,
    /// How the command is started.
    pub launch: Launch,
    /// Directory below which unwind tables, debug information and the kernel's type information are cached for the next
    /// recording. `None` to cache nothing.
    pub cache: Option<PathBuf>,
}

impl Scope {
    /// Returns the scope of a target and all that it starts, until the target ends or the recording is stopped. Nothing
    /// is cached.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            inherit: true,
            filters: Filters::default(),
            beside: None,
            duration: None,
            launch: Launch::default(),
            cache: None,
        }
    }

    /// Returns true if the target is a command.
    pub fn is_command(&self) -> bool {
        matches!(self.target, Target::Command(_))
    }

    /// Returns true if the target is the whole machine.
    pub fn is_machine(&self) -> bool {
        self.target == Target::System
    }

    /// Passes the threads of the target's processes and of their descendants to `add`, each once, until there are no new
    /// ones. What these start meanwhile is added by programs in the kernel, if they know the thread that starts it.
    pub(crate) fn add_threads<E>(
        &self,
        mut add: impl FnMut(&[i32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut known = BTreeSet::new();
        loop {
            let all = self.target.family(self.inherit).into_iter().flatten().flat_map(threads);
            let new: Vec<i32> = all.filter(|thread| known.insert(*thread)).collect();
            if new.is_empty() {
                return Ok(());
            }
            add(&new)?;
        }
    }

    /// The same scope, as programs in the kernel apply it.
    #[cfg(feature = "bpf")]
    pub(crate) fn in_kernel(&self) -> pyrograph_bpf::Scope {
        pyrograph_bpf::Scope {
            only_targets: !self.is_machine(),
            inherit: self.inherit,
            names: self.filters.names.clone(),
            group: self.filters.group,
            cache: self.cache.clone(),
        }
    }
}

impl From<Target> for Scope {
    fn from(target: Target) -> Self {
        Self::new(target)
    }
}
