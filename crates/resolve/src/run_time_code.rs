//! JIT-compiled code of processes, for callers that request its names from the processes.

use std::fs::File;

use crate::files::Files;
use crate::modules::ModuleId;
use crate::resolver::Resolver;

/// JIT-compiled code of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeCode(ModuleId);

/// Processes that have mapped a file with a certain name.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// End of the path; `None` if no file is watched for.
    suffix: Option<String>,
    pids: Vec<i32>,
}

impl Watch {
    pub fn mapped(&mut self, pid: i32, path: &str) {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if self.suffix.as_ref().is_some_and(|suffix| path.ends_with(suffix)) {
            self.pids.push(pid);
        }
    }
}

impl<F: Files> Resolver<F> {
    /// Starts to watch for processes that map code of a file whose path ends with `suffix`.
    pub fn watch_for(&mut self, suffix: &str) {
        self.watch.suffix = Some(suffix.to_owned());
    }

    /// Returns the processes that have mapped such a file since the last call. One may be listed several times.
    pub fn take_watched(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.watch.pids)
    }

    /// JIT-compiled code of the program that a process currently runs.
    pub fn run_time_code(&mut self, pid: i32) -> RunTimeCode {
        RunTimeCode(self.modules.jit.of_process(&mut self.files, pid))
    }

    /// Sets the perf map that symbolizes a program's code from now on, in place of one that the program writes. Frames
    /// that are symbolized already keep their names.
    pub fn set_perf_map(&mut self, code: RunTimeCode, map: File) {
        self.modules.jit.set_map(code.0, map);
    }

    /// Addresses in a program's JIT-compiled code in stacks that are not symbolized yet, in any order.
    pub fn run_time_addresses(&self, code: RunTimeCode) -> impl Iterator<Item = u64> {
        // If times are kept, all stacks are in one table.
        let files = self.options.keep_time.then(|| self.unnamed.files.frames());
        let frames = self.unnamed.jit.frames().iter().chain(files.into_iter().flatten());
        frames.filter(move |frame| frame.module == code.0).map(|frame| frame.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_watched_by_the_end_of_a_path() {
        let mut watch = Watch::default();
        watch.mapped(1, "/a/libjvm.so");
        assert!(watch.pids.is_empty(), "nobody asked");
        watch.suffix = Some("/libjvm.so".to_owned());
        for (pid, path) in [
            (2, "/a/libjvm.so"),
            (3, "/a/notlibjvm.so"),
            (4, "/a/libjvm.so (deleted)"),
            (5, "/a/libjvm.so.1"),
            (6, "//anon"),
        ] {
            watch.mapped(pid, path);
        }
        assert_eq!(watch.pids, [2, 4]);
    }
}
