//! Goroutines: where a Go program gives up and gets back a thread, and which goroutines are of its runtime.

use std::path::Path;

use pyrograph_event::request::{GoFunctions, Trigger};
use pyrograph_profile::{Profile, Samples};
use pyrograph_record::Target;
use pyrograph_symbol::{go_function, open_image};

use crate::error::{Error, GoError, PlaceError};
use crate::needed;

/// Returns the trigger for the goroutines of a target.
///
/// # Errors
///
/// If the target is not one Go program, or its file cannot be read.
pub(crate) fn trigger(target: &Target) -> Result<Trigger, Error> {
    let path = match target {
        Target::Command(argv) => {
            let files = argv.first().map(|program| needed::files(program)).unwrap_or_default();
            files.into_iter().next().ok_or_else(|| needed::missing(argv))?
        }
        Target::Processes(pids) => match pids[..] {
            [pid] => format!("/proc/{pid}/exe").into(),
            _ => return Err(GoError::SeveralPrograms.into()),
        },
        Target::System => return Err(GoError::SeveralPrograms.into()),
    };
    let functions = functions(&path)?;
    Ok(Trigger::Goroutines { path, functions })
}

fn functions(path: &Path) -> Result<GoFunctions, Error> {
    let image = open_image(path).map_err(PlaceError::File)?;
    let find = |name| go_function(&image, name);
    let named = |path: &Path| path.read_link().unwrap_or_else(|_| path.to_owned());
    let (Some(park), Some(execute)) = (find("runtime.gopark"), find("runtime.execute")) else {
        return Err(GoError::NotGo { path: named(path) }.into());
    };
    match keeps_goroutine_in_r14(park.code) {
        true => Ok(GoFunctions { park: park.offset, execute: execute.offset }),
        false => Err(GoError::TooOld { path: named(path) }.into()),
    }
}

/// Returns true if a function looks for the end of the stack at `0x10(%r14)`: `cmp`, with either register.
fn keeps_goroutine_in_r14(code: &[u8]) -> bool {
    /// Functions begin with it.
    const WITHIN: usize = 32;
    code[..code.len().min(WITHIN)]
        .windows(4)
        .any(|bytes| matches!(bytes, [0x49 | 0x4d, 0x3b, 0x66, 0x10]))
}

/// Removes the waits of the runtime's own goroutines, which wait for work of the garbage collector and the like most of
/// the time. Returns their number.
///
/// Go's own profiles leave these out, too: goroutines that begin in a function of `runtime` other than `main`
/// (`isSystemGoroutine` in `runtime/traceback.go`).
pub(crate) fn remove_those_of_runtime(profile: &mut Profile) -> u64 {
    let is_of_runtime = |stack| {
        let names = profile.stacks.leaf_first(stack).map(|frame| {
            let name = profile.strings.get(profile.frames.get(frame).function);
            name.strip_suffix(".abi0").unwrap_or(name)
        });
        let start = names.filter(|name| !matches!(*name, "" | "runtime.goexit")).last();
        start.is_some_and(|name| name.starts_with("runtime.") && name != "runtime.main")
    };
    let samples = &profile.samples;
    let numbers = profile.numbers_beside(profile.shown);
    let mut kept = Samples::new(samples.columns());
    let mut removed = 0;
    for (row, sample) in samples.iter().enumerate() {
        if is_of_runtime(sample.stack) {
            removed += numbers.map_or(1, |column| samples.values(column)[row]);
            continue;
        }
        let values: Vec<u64> =
            (0..samples.columns()).map(|column| samples.values(column)[row]).collect();
        kept.push(sample, &values);
    }
    profile.samples = kept;
    removed
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;

    #[test]
    fn goroutines_of_the_runtime_are_left_out() {
        let types = [("goroutines", "ns"), ("samples", "count")];
        let mut profile =
            Profile::new(types.map(|(name, unit)| ValueType::new(name, unit)).to_vec());
        for (names, value) in [
            (&["runtime.goexit.abi0", "main.worker", "runtime.gopark"][..], 5),
            (&["runtime.goexit.abi0", "runtime.main", "main.main", "runtime.gopark"], 7),
            (&["runtime.goexit.abi0", "runtime.bgsweep", "runtime.gopark"], 100),
            (&["runtime.gcBgMarkWorker", "runtime.gopark"], 200),
            (&["runtime.goexit.abi0"], 1),
        ] {
            let stack = profile.stack_of_names(names.iter().copied());
            profile.push(Sample::new(stack), &[value, 1]);
        }
        assert_eq!(remove_those_of_runtime(&mut profile), 2);
        assert_eq!(profile.samples.values(0), [5, 7, 1]);
    }

    #[test]
    fn a_program_of_another_language_is_not_followed() {
        let target = Target::Command(vec!["true".into()]);
        let error = trigger(&target).expect_err("it is not Go's").to_string();
        assert!(error.contains("true is not a program of Go"), "{error}");
        assert!(matches!(trigger(&Target::System), Err(Error::Go(GoError::SeveralPrograms))));
    }
}
