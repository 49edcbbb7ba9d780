//! The first steps with programs, which are the same for all of them.

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};

use crate::error::Error;
use crate::loader_log;
use crate::object::{handle, program};
use crate::scope::Scope;
use crate::shared::Shared;

/// Checks that there are programs for this machine, and begins to keep the loader's messages.
pub fn check_machine() -> Result<(), Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::UnsupportedArch);
    }
    loader_log::start();
    Ok(())
}

/// Checks the machine, loads an object, runs its program `prepare`, and tells it the names to observe. Returns it with its
/// shared state.
pub fn prepare<S: bytemuck::Pod>(
    scope: &Scope,
    load: impl FnOnce() -> Result<Object, Error>,
) -> Result<(Object, Shared<S>), Error> {
    check_machine()?;
    let object = load()?;
    let run = program(&object, "prepare")?.test_run(ProgramInput::default());
    run.map_err(Error::attach("prepare"))?;
    let state = Shared::map(&handle(&object, ".bss")?, "state", 1)?;
    set_names(&object, &scope.names)?;
    Ok((object, state))
}

/// Sets the names of the threads and processes to observe, in the map of `programs/targets.h`.
pub fn set_names(object: &Object, names: &[String]) -> Result<(), Error> {
    let map = handle(object, "names")?;
    for name in names {
        // The kernel keeps 15 bytes of a name.
        let mut key = [0; 16];
        let len = name.len().min(15);
        key[..len].copy_from_slice(&name.as_bytes()[..len]);
        map.update(&key, &1u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::map("names"))?;
    }
    Ok(())
}
