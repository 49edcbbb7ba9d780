//! Plans of what to trace.

use std::time::Duration;

use pyrograph_probe::Condition;
use pyrograph_syscall::Descriptors;

use super::events::TracedEvent;
use crate::scope::Scope;

/// A plan of the system calls and events to trace, and for how long.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// Target and duration.
    pub scope: Scope,
    /// Numbers of the calls to trace ([`traced_names`](crate::traced_names)). `None` for all. If the list is empty, signals and ends of
    /// threads are not returned either.
    pub calls: Option<Vec<u32>>,
    /// Events to trace.
    pub events: Vec<TracedEvent>,
    /// Page faults to trace.
    pub faults: PageFaults,
    /// Take the stack of everything that is traced.
    pub stacks: bool,
    /// Trace only calls that fail.
    pub failed: bool,
    /// Trace only calls that take at least this long.
    pub slower: Duration,
    /// Trace only calls for which this is true; their values are the arguments by name, `ret` and `duration` (in
    /// nanoseconds). Calls without one of them are left out.
    pub filter: Option<Condition>,
    /// Count calls in the kernel, instead of returning each call and event.
    pub counts: bool,
    /// Find the names of control groups for counts. To find one, all control groups are searched.
    pub name_groups: bool,
    /// Maximum length of a text in a line, in bytes. Paths are not shortened.
    pub text: usize,
    /// Memory in bytes for calls that wait to be read.
    pub memory: u32,
    /// Length of the intervals for which counts are returned.
    pub interval: Option<Duration>,
}

/// Kinds of page faults to trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFaults {
    /// Major faults, for which a page had to be read.
    pub major: bool,
    /// Minor faults.
    pub minor: bool,
}

impl PageFaults {
    /// Returns true if any kind is traced.
    pub fn any(self) -> bool {
        self.major || self.minor
    }
}

impl TracePlan {
    /// Returns a plan to trace all calls of a scope or target.
    pub fn new(scope: impl Into<Scope>) -> Self {
        Self {
            scope: scope.into(),
            calls: None,
            events: Vec::new(),
            faults: PageFaults::default(),
            stacks: false,
            failed: false,
            slower: Duration::ZERO,
            filter: None,
            counts: false,
            name_groups: false,
            text: 32,
            memory: 64 << 20,
            interval: None,
        }
    }

    /// Returns true if only some calls are returned, and these may contain file descriptors that need names.
    fn is_chosen(&self) -> bool {
        let with_files = pyrograph_syscall::group("desc").unwrap_or_default();
        let names_files = |calls: &[u32]| calls.iter().any(|call| with_files.contains(call));
        let is_chosen =
            self.calls.is_some() || self.failed || !self.slower.is_zero() || self.filter.is_some();
        !self.counts && is_chosen && self.calls.as_deref().is_none_or(names_files)
    }

    /// Returns the numbers of the calls by which open files are followed, even if these calls are not returned. Empty
    /// for the whole machine, which has too many of them.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "ptrace hands out all calls"))]
    pub(super) fn followed(&self) -> Vec<u32> {
        let of_target = !self.scope.is_machine();
        if self.is_chosen() && of_target { Descriptors::followed() } else { Vec::new() }
    }

    pub(super) fn is_followed_in_part(&self) -> bool {
        self.is_chosen() && self.scope.is_machine()
    }
}
