//! JIT-compiled code of processes, and what they write down about it: perf maps and jitdump files.

use std::fs::File;
use std::sync::Arc;

use hashbrown::HashMap;
use pyrograph_unwind::AddressSpace;

use crate::collect::module_of_tag;
use crate::files::Files;

use super::{DumpFile, Held, Module, ModuleId, ModuleKind};

/// An open file is as dear as so many modules without one: a process may have a thousand.
const OPEN_IS_AS_MANY: usize = 16;

/// Modules of JIT-compiled code, one for each process, until they are forgotten.
#[derive(Debug, Default)]
pub struct JitModules {
    modules: Held,
    /// The number of the next one.
    next: u32,
    /// By process, until it runs another program.
    by_process: HashMap<i32, ModuleId>,
    /// Of processes that are gone, or run another program.
    before: HashMap<i32, ModuleId>,
    /// All of these, lately and since longer: several processes may have had one number.
    gone: Vec<ModuleId>,
    gone_long: Vec<ModuleId>,
    /// How many of the former have files that are open.
    gone_open: usize,
    /// There is a jitdump file.
    has_dumps: bool,
}

impl JitModules {
    /// The module with this number, unless it is forgotten.
    pub fn get(&self, id: ModuleId) -> Option<&Arc<Module>> {
        self.modules.get(&id)
    }

    /// The module of a process's JIT-compiled code.
    pub fn of_process(&mut self, files: &mut dyn Files, pid: i32) -> ModuleId {
        let known = self.by_process.get(&pid).copied();
        let module = known.and_then(|id| Some((id, self.modules.get(&id)?)));
        let (id, dump) = match module.map(|(id, module)| (id, &module.kind)) {
            Some((id, ModuleKind::Jit { map: None, dump })) => (id, dump.clone()),
            Some((id, _)) => return id,
            None => {
                // After a billion of them, the first are long gone.
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

    /// The same for a process that may be gone: whether it `runs` is known.
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

    /// The module of a process that writes this jitdump file.
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

    /// Names a module by this perf map from now on, unless it is forgotten.
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

    /// The jitdump file of a process with these mappings, which may be that of its parent.
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

    /// Looks once more for the symbols of all processes with JIT-compiled code.
    pub fn refresh_all(&mut self, files: &mut dyn Files) {
        for pid in self.by_process.keys().copied().collect::<Vec<_>>() {
            self.of_process(files, pid);
        }
    }

    /// The process runs another program now, or is gone: its number may come to mean another.
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

    /// JIT-compiled code of processes that ended lately: as many, or more if it holds
    /// files open.
    pub fn gone(&self) -> usize {
        self.gone.len() + OPEN_IS_AS_MANY * self.gone_open
    }

    /// Forgets JIT-compiled code of processes that had ended already when this was last called, unless it
    /// `is_mapped` by their children. No frames are in it any more, and none will come that were counted
    /// elsewhere and are late.
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
