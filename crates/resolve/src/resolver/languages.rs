//! Interpreters in the files of the recorded processes, and their calls in stacks.

use hashbrown::HashSet;
use pyrograph_event::interpreter::{Calls, Function};

use super::Resolver;
use crate::files::Files;
use crate::languages::{FoundInterpreter, InterpreterVersion};
use crate::module_ids::ModuleId;
use crate::stacks::RawFrame;

impl<F: Files> Resolver<F> {
    /// Returns the interpreters that were found in files since the last call.
    pub fn found_interpreters(&mut self) -> Vec<FoundInterpreter> {
        self.languages.take_found()
    }

    /// Searches an opened file for an interpreter, once.
    pub(crate) fn find_interpreter(&mut self, id: ModuleId) {
        let module = self.modules.get(id).map(|module| &**module);
        self.languages.look_at(id, module, &self.options.languages);
    }

    /// Interpreters of wanted languages in which samples were taken, one of each version.
    pub fn sampled_interpreters(&mut self) -> Vec<InterpreterVersion> {
        if self.options.languages.is_empty() {
            return Vec::new();
        }
        let modules: HashSet<ModuleId> =
            self.unnamed.frames().map(|frame| frame.module).filter(|id| !id.is_jit()).collect();
        modules.into_iter().for_each(|id| self.find_interpreter(id));
        let found = self.languages.take_found().into_iter();
        let mut known: Vec<_> = found.filter_map(|found| found.interpreter.ok()).collect();
        known.sort_unstable_by(|a, b| (a.language, &a.version).cmp(&(b.language, &b.version)));
        known.dedup();
        known
    }

    /// Names a function that the BPF programs have found. The rest of the process's memory is read if the process still
    /// runs.
    pub fn add_function(&mut self, function: &Function) {
        self.languages.add_function(function, &self.files, |pid| self.processes.runs(pid));
    }

    /// Adds the native frames of a stack, leaf first, with the calls of interpreters among them. Returns true if the
    /// stack is whole then.
    pub(crate) fn push_spliced(
        &mut self,
        native: Vec<RawFrame>,
        calls: &Calls<'_>,
        whole: bool,
    ) -> bool {
        let (labels, stats) = (&mut self.unnamed.labels, &mut self.stats.languages);
        self.languages.splice(native, calls, whole, labels, stats, &mut self.frames)
    }
}
