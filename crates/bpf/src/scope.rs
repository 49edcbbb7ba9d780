//! The tasks that programs observe.

use std::path::PathBuf;

/// The tasks that programs observe. The default is all tasks of the machine.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Observe only tasks that are named to the programs, and those that they start.
    pub only_targets: bool,
    /// With [`Self::only_targets`]: observe processes that these start, and not only threads.
    pub inherit: bool,
    /// Observe only threads with these names, or of processes with these names. Empty for all.
    pub names: Vec<String>,
    /// Observe only threads in the control group with this ID, or in one below it. The ID is the inode of its directory
    /// in the file system of type `cgroup2`.
    pub group: Option<u64>,
    /// Directory (such as `~/.cache`) below which unwind tables, the kernel's types and the addresses of parts of the
    /// kernel are cached for the next time. `None` to cache nothing.
    pub cache: Option<PathBuf>,
}

impl Scope {
    /// Returns true if only some tasks are observed.
    pub(crate) fn is_limited(&self) -> bool {
        self.only_targets || !self.names.is_empty() || self.group.is_some()
    }

    /// Returns true if programs must follow forks.
    pub(crate) fn follows_forks(&self) -> bool {
        self.only_targets && self.inherit
    }
}
