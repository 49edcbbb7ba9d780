//! JIT-compiled code of processes, and the files that they write about it: perf maps and jitdump files.

use std::fs::File;
use std::sync::Arc;

use hashbrown::HashMap;
use pyrograph_unwind::AddressSpace;

use crate::files::Files;
use crate::module_ids::{ModuleId, module_of_tag};

use super::{Held, Module, ModuleKind};
use crate::jit_tables::DumpFile;

/// Weight of a module with an open file, compared with one without: a process may have only a thousand open files.
const OPEN_IS_AS_MANY: usize = 16;

/// Modules of JIT-compiled code, one for each process, until they are forgotten.
#[derive(Debug, Default)]
pub struct JitModules {
    modules: Held,
    /// Number of the next module, counted from [`ModuleId::JIT`].
    next: u32,
    /// Modules by process ID, until the process ends or calls `exec`.
    by_process: HashMap<i32, ModuleId>,
    /// Modules of processes that have ended or called `exec`.
    before: HashMap<i32, ModuleId>,
    /// All modules of such processes, those that ended lately and those that ended earlier. Several processes may have
    /// had one ID.
    gone: Vec<ModuleId>,
    gone_long: Vec<ModuleId>,
    /// Number of modules in `gone` that have open files.
    gone_open: usize,
    /// True if there is a jitdump file.
    has_dumps: bool,
}

impl JitModules {
    /// The module with this number; `None` if it was forgotten.
    pub fn get(&self, id: ModuleId) -> Option<&Arc<Module>> {
        self.modules.get(&id)
    }

    /// Returns the module of a process's JIT-compiled code.
    pub fn of_process(&mut self, files: &mut dyn Files, pid: i32) -> ModuleId {
        let known = self.by_process.get(&pid).copied();
        let module = known.and_then(|id| Some((id, self.modules.get(&id)?)));
        let (id, dump) = match module.map(|(id, module)| (id, &module.kind)) {
            Some((id, ModuleKind::Jit { map: None, dump })) => (id, dump.clone()),
            Some((id, _)) => return id,
            None => {
                // After a billion modules, the first ones were forgotten long ago.
                let id = ModuleId(ModuleId::JIT + self.next);
                self.next = (self.next + 1) % ModuleId::JIT;
                self.by_process.insert(pid, id);
                (id, None)
            }
        };
        let map = files.perf_map(pid).map(Arc::new);
        if map.is_some() || !self.modules.contains_key(&id) {
            let kind = ModuleKind::Jit { map, dump };
            self.modules.insert(id, Arc::new(Module { path: String::new(), kind }));
        }
        id
    }

    /// Like [`JitModules::of_process`], for a process that may have ended. `runs`: it is known to run.
    pub fn at_last(&mut self, files: &mut dyn Files, pid: i32, runs: bool) -> ModuleId {
        match (self.by_process.get(&pid), self.before.get(&pid)) {
            (Some(&id), _) | (None, Some(&id)) => id,
            (None, None) => {
                let id = self.of_process(files, pid);
                if !runs {
                    self.forget_process(files, pid);
                }
                id
            }
        }
    }

    /// Adds a jitdump file of a process, and returns the process's module.
    pub fn add_dump(
        &mut self,
        files: &mut dyn Files,
        pid: i32,
        path: &str,
        file: File,
    ) -> ModuleId {
        let id = self.of_process(files, pid);
        if let Some(ModuleKind::Jit { map, .. }) = self.modules.get(&id).map(|module| &module.kind)
        {
            let dump = Some(Arc::new(DumpFile::new(path, file)));
            let kind = ModuleKind::Jit { map: map.clone(), dump };
            self.modules.insert(id, Arc::new(Module { path: String::new(), kind }));
            self.has_dumps = true;
        }
        id
    }

    /// Sets the perf map of a module, unless it was forgotten.
    pub fn set_map(&mut self, id: ModuleId, map: File) {
        let known = self.modules.get(&id).map(|module| &module.kind);
        if let Some(ModuleKind::Jit { dump, .. }) = known {
            let kind = ModuleKind::Jit { map: Some(Arc::new(map)), dump: dump.clone() };
            self.modules.insert(id, Arc::new(Module { path: String::new(), kind }));
        }
    }

    /// Returns true if any process writes a jitdump file.
    pub fn has_dumps(&self) -> bool {
        self.has_dumps
    }

    /// Returns true if the process writes a jitdump file, or did so before it ended.
    pub fn has_dump(&self, pid: i32) -> bool {
        let id = || self.by_process.get(&pid).or_else(|| self.before.get(&pid));
        let kind = || Some(&self.modules.get(id()?)?.kind);
        self.has_dumps && matches!(kind(), Some(ModuleKind::Jit { dump: Some(_), .. }))
    }

    /// Jitdump file of a process with these mappings, which may be its parent's file.
    pub fn dump(&self, space: &AddressSpace) -> Option<Arc<DumpFile>> {
        if !self.has_dumps {
            return None;
        }
        space.mappings().find_map(|mapping| {
            let (id, _) = module_of_tag(mapping.tag);
            match &self.modules.get(&id)?.kind {
                ModuleKind::Jit { dump, .. } => dump.clone(),
                _ => None,
            }
        })
    }

    /// Tries again to open the perf maps of all processes with JIT-compiled code.
    pub fn refresh_all(&mut self, files: &mut dyn Files) {
        for pid in self.by_process.keys().copied().collect::<Vec<_>>() {
            self.of_process(files, pid);
        }
    }

    /// Handles a process that has ended or called `exec`: its ID may belong to another process later.
    pub fn forget_process(&mut self, files: &mut dyn Files, pid: i32) {
        if self.by_process.contains_key(&pid) {
            self.of_process(files, pid);
            let entry = self.by_process.remove_entry(&pid);
            let kind = entry.and_then(|(_, id)| Some(&self.modules.get(&id)?.kind));
            let is_open =
                |kind: &ModuleKind| !matches!(kind, ModuleKind::Jit { map: None, dump: None });
            self.gone_open += usize::from(kind.is_some_and(is_open));
            self.gone.extend(entry.map(|(_, id)| id));
            self.before.extend(entry);
        }
    }

    /// Number of modules of JIT-compiled code.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.modules.len()
    }

    /// Number of modules of processes that ended lately; those with open files count several times.
    pub fn gone(&self) -> usize {
        self.gone.len() + OPEN_IS_AS_MANY * self.gone_open
    }

    /// Forgets the modules of processes that had ended before the last call, unless their children have them mapped
    /// (`is_mapped`). No frame may refer to them any more. Thanks to the delay, late stacks that were counted elsewhere
    /// do not refer to them either.
    pub fn forget(&mut self, is_mapped: impl Fn(ModuleId) -> bool) {
        let mut stay = Vec::new();
        for id in self.gone_long.drain(..) {
            if is_mapped(id) {
                stay.push(id);
            } else {
                self.modules.remove(&id);
            }
        }
        let modules = &self.modules;
        self.before.retain(|_, id| modules.contains_key(id));
        self.gone_long.append(&mut self.gone);
        self.gone_open = 0;
        self.gone.append(&mut stay);
    }
}
