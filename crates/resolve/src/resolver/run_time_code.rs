//! Code of JIT compilers, for callers that name it.

use std::fs::File;

use super::Resolver;
use crate::files::Files;
use crate::run_time_code::RunTimeCode;

impl<F: Files> Resolver<F> {
    /// Starts to watch for processes that map code of a file whose path ends with `suffix`.
    pub fn watch_for(&mut self, suffix: &str) {
        self.watch.start(suffix);
    }

    /// Returns the processes that have mapped such a file since the last call. One may be listed several times.
    pub fn take_watched(&mut self) -> Vec<i32> {
        self.watch.take()
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
        let files = self.options.keep_times.then(|| self.unnamed.files.frames());
        let frames = self.unnamed.jit.frames().iter().chain(files.into_iter().flatten());
        frames.filter(move |frame| frame.module == code.0).map(|frame| frame.address)
    }
}
