//! Code that processes make at run time, and what they write down about it: perf maps and jitdump files.

use std::sync::Arc;

use pyrograph_unwind::AddressSpace;

use crate::collect::module_of_tag;
use crate::files::Files;

use super::{DumpFile, Module, ModuleId, ModuleKind, Modules};

/// An open file is as dear as so many modules without one: a process may have a thousand.
const OPEN_IS_AS_MANY: usize = 16;

impl Modules {
    /// The module of the code that a process makes at run time.
    pub fn jit(&mut self, files: &mut dyn Files, pid: i32) -> ModuleId {
        let known = self.jit.get(&pid).copied();
        let module = known.and_then(|id| Some((id, self.jit_modules.get(&id)?)));
        let (id, dump) = match module.map(|(id, module)| (id, &module.kind)) {
            Some((id, ModuleKind::Jit { map: None, dump })) => (id, dump.clone()),
            Some((id, _)) => return id,
            None => {
                // After a billion of them, the first are long gone.
                let id = ModuleId(ModuleId::JIT + self.next_jit);
                self.next_jit = (self.next_jit + 1) % ModuleId::JIT;
                self.jit.insert(pid, id);
                (id, None)
            }
        };
        let map = files.perf_map(pid).map(Arc::new);
        if map.is_some() || !self.jit_modules.contains_key(&id) {
            let kind = ModuleKind::Jit { map, dump };
            self.jit_modules.insert(id, Arc::new(Module { path: String::new(), kind }));
        }
        id
    }

    /// The same for a process that may be gone: whether it `runs` is known.
    pub fn jit_at_last(&mut self, files: &mut dyn Files, pid: i32, runs: bool) -> ModuleId {
        match (self.jit.get(&pid), self.jit_before.get(&pid)) {
            (Some(&id), _) | (None, Some(&id)) => id,
            (None, None) => {
                let id = self.jit(files, pid);
                if !runs {
                    self.forget_process(files, pid);
                }
                id
            }
        }
    }

    /// Returns true if any process writes a jitdump file.
    pub fn has_dumps(&self) -> bool {
        self.has_dumps
    }

    /// Returns true if the process writes a jitdump file, or did so before it ended.
    pub fn has_dump(&self, pid: i32) -> bool {
        let id = || self.jit.get(&pid).or_else(|| self.jit_before.get(&pid));
        let kind = || Some(&self.jit_modules.get(id()?)?.kind);
        self.has_dumps && matches!(kind(), Some(ModuleKind::Jit { dump: Some(_), .. }))
    }

    /// The jitdump file of a process with these mappings, which may be that of its parent.
    pub fn dump(&self, space: &AddressSpace) -> Option<Arc<DumpFile>> {
        if !self.has_dumps {
            return None;
        }
        space.mappings().find_map(|mapping| {
            let (id, _) = module_of_tag(mapping.tag);
            match &self.jit_modules.get(&id)?.kind {
                ModuleKind::Jit { dump, .. } => dump.clone(),
                _ => None,
            }
        })
    }

    /// Looks once more for the symbols of all processes that make code.
    pub fn refresh_all_jit(&mut self, files: &mut dyn Files) {
        for pid in self.jit.keys().copied().collect::<Vec<_>>() {
            self.jit(files, pid);
        }
    }

    /// The process runs another program now, or is gone: its number may come to mean another.
    pub fn forget_process(&mut self, files: &mut dyn Files, pid: i32) {
        if self.jit.contains_key(&pid) {
            self.jit(files, pid);
            let entry = self.jit.remove_entry(&pid);
            let kind = entry.and_then(|(_, id)| Some(&self.jit_modules.get(&id)?.kind));
            let is_open =
                |kind: &ModuleKind| !matches!(kind, ModuleKind::Jit { map: None, dump: None });
            self.gone_open += usize::from(kind.is_some_and(is_open));
            self.gone.extend(entry.map(|(_, id)| id));
            self.jit_before.extend(entry);
        }
    }

    /// Number of modules of JIT-compiled code.
    #[cfg(test)]
    pub fn jit_count(&self) -> usize {
        self.jit_modules.len()
    }

    /// JIT-compiled code of processes that ended lately: as many, or more if it holds
    /// files open.
    pub fn gone(&self) -> usize {
        self.gone.len() + OPEN_IS_AS_MANY * self.gone_open
    }

    /// Forgets JIT-compiled code of processes that had ended already when this was last called, unless it
    /// `is_mapped` by their children. No frames are in it any more, and none will come that were counted
    /// elsewhere and are late.
    pub fn forget_jit(&mut self, is_mapped: impl Fn(ModuleId) -> bool) {
        let mut stay = Vec::new();
        for id in self.gone_long.drain(..) {
            if is_mapped(id) {
                stay.push(id);
            } else {
                self.jit_modules.remove(&id);
            }
        }
        let modules = &self.jit_modules;
        self.jit_before.retain(|_, id| modules.contains_key(id));
        self.gone_long.append(&mut self.gone);
        self.gone_open = 0;
        self.gone.append(&mut stay);
    }
}
