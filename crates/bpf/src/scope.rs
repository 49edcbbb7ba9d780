//! The tasks that programs observe, and the first steps of loading, which are the same for all programs.

use std::path::PathBuf;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};

use crate::error::Error;
use crate::loader_log;
use crate::object::{handle, program};
use crate::shared::Shared;

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

    /// Checks the machine, loads an object, runs its program `prepare`, and tells it the names to observe. Returns it
    /// with its shared state.
    ///
    /// # Errors
    ///
    /// If the user lacks permission, or the kernel lacks a feature.
    pub(crate) fn prepare<S: bytemuck::Pod>(
        &self,
        load: impl FnOnce() -> Result<Object, Error>,
    ) -> Result<(Object, Shared<S>), Error> {
        check_machine()?;
        let object = load()?;
        let run = program(&object, "prepare")?.test_run(ProgramInput::default());
        run.map_err(Error::attach("prepare"))?;
        let state = Shared::map(&handle(&object, ".bss")?, "state", 1)?;
        self.set_names(&handle(&object, "names")?)?;
        Ok((object, state))
    }

    /// Sets the names of the threads and processes to observe, in the map of `programs/targets.h`.
    pub(crate) fn set_names(&self, map: &MapHandle) -> Result<(), Error> {
        for name in &self.names {
            // The kernel keeps 15 bytes of a name.
            let mut key = [0; 16];
            let len = name.len().min(15);
            key[..len].copy_from_slice(&name.as_bytes()[..len]);
            map.update(&key, &1u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::map("names"))?;
        }
        Ok(())
    }
}

/// Checks that there are programs for this machine, and begins to keep the loader's messages.
pub(crate) fn check_machine() -> Result<(), Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::UnsupportedArch);
    }
    loader_log::start();
    Ok(())
}
