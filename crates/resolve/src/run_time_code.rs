//! Code that processes compile as they run, for those who ask them for its names.

use std::fs::File;

use crate::files::Files;
use crate::modules::ModuleId;
use crate::resolver::Resolver;

/// The code that one process compiles as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeCode(ModuleId);

/// Processes that have mapped a file of one name.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The end of the path; none if nobody asked.
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
    /// From now on remembers the processes that map code of a file whose path ends so.
    pub fn watch_for(&mut self, suffix: &str) {
        self.watch.suffix = Some(suffix.to_owned());
    }

    /// The processes that have mapped such a file since the last call, some maybe several times.
    pub fn take_watched(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.watch.pids)
    }

    /// The code that the program compiles that a process now runs.
    pub fn run_time_code(&mut self, pid: i32) -> RunTimeCode {
        RunTimeCode(self.modules.jit.of_process(&mut self.files, pid))
    }

    /// Names a program's code by this perf map from now on, and not by one that the program writes. What has names
    /// already keeps them.
    pub fn set_perf_map(&mut self, code: RunTimeCode, map: File) {
        self.modules.jit.set_map(code.0, map);
    }

    /// Addresses in a program's code which samples that have no names yet lead through, in any order.
    pub fn run_time_addresses(&self, code: RunTimeCode) -> impl Iterator<Item = u64> {
        // With times, all stacks are in one table.
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
