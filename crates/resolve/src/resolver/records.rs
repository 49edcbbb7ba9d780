//! Records of processes other than samples: start, end, names, and mappings of files.

use pyrograph_event::{Comm, FileId, Ksymbol, Mmap, Mmap2, Task};

use super::Resolver;
use crate::files::{Files, Identity, MappedFile};
use crate::module_ids::{mapping_tag, module_of_tag};
use crate::moved::{self, Moved};
use crate::processes::Start;

/// The executable bit of a mapping's protection (`PROT_EXEC`).
const PROT_EXEC: u32 = 4;

/// The symbol of a BPF program (`PERF_RECORD_KSYMBOL_TYPE_BPF`).
const KSYMBOL_BPF: u16 = 1;

/// Number of kernel symbols that are kept: more than any machine has at once. A damaged file must not use memory
/// without bound.
const MOST_KERNEL_SYMBOLS: usize = 1 << 13;

impl<F: Files> Resolver<F> {
    /// Handles a BPF program or a trampoline that was loaded or unloaded. Another one may be at the same address later;
    /// the kernel's symbol table, which is read at the end, does not have both.
    pub(super) fn kernel_symbol(&mut self, symbol: &Ksymbol<'_>) {
        let Some(end) = symbol.start.checked_add(symbol.len.into()) else { return };
        self.kernel.unmap(symbol.start..end);
        if !symbol.unregister && self.kernel.len() < MOST_KERNEL_SYMBOLS {
            let name = String::from_utf8_lossy(symbol.name);
            let module =
                self.modules.kernel_code(&name, symbol.start, symbol.symbol_type == KSYMBOL_BPF);
            self.kernel.map(symbol.start..end, 0, None, module.0);
        }
    }

    pub(super) fn comm(&mut self, comm: &Comm<'_>) {
        if comm.exec {
            let line = self.announced.take(comm.pid, comm.id.time.unwrap_or(0));
            self.processes.executed(comm.pid, line);
            self.modules.jit.forget_process(&mut self.files, comm.pid);
        }
        self.processes.named(comm.pid, comm.tid, &String::from_utf8_lossy(comm.name));
        if comm.pid == comm.tid {
            // Read now, because the process may be gone by the time the command line is needed.
            self.command_line(comm.pid);
        }
    }

    pub(super) fn fork(&mut self, task: &Task) {
        // The mappings of a process that was found in `/proc` have records of their own; nothing else has time 0.
        let start = Start {
            parent: (task.parent_pid, task.parent_tid),
            child: (task.pid, task.tid),
            time: if task.synthesized { 0 } else { task.time.max(1) },
        };
        if task.pid != task.parent_pid {
            // Read now, because the child may be gone by the time they are needed. Its parent, which has the same ones,
            // waits for it.
            self.cgroup(task.parent_pid);
            self.command_line(task.parent_pid);
        }
        if self.processes.started(&start) {
            self.modules.jit.forget_process(&mut self.files, task.pid);
        }
    }

    pub(super) fn exit(&mut self, task: &Task) {
        if self.processes.exited(task.pid, task.tid) {
            self.modules.jit.forget_process(&mut self.files, task.pid);
        }
    }

    pub(super) fn mmap(&mut self, mapping: &Mmap<'_>) {
        if mapping.executable {
            let range = (mapping.start, mapping.len);
            self.map(mapping.pid, range, mapping.offset, &Identity::Unknown, mapping.path);
        }
    }

    pub(super) fn mmap2(&mut self, mapping: &Mmap2<'_>) {
        if mapping.protection & PROT_EXEC == 0 {
            return;
        }
        let identity = match mapping.file {
            FileId::BuildId(id) => Identity::BuildId(id.as_bytes().to_vec()),
            FileId::Inode { inode: 0, .. } => Identity::Unknown,
            FileId::Inode { major, minor, inode, generation } => {
                Identity::Inode { major, minor, inode, generation }
            }
        };
        let range = (mapping.start, mapping.len);
        self.map(mapping.pid, range, mapping.offset, &identity, mapping.path);
    }

    fn map(
        &mut self,
        pid: i32,
        (start, len): (u64, u64),
        offset: u64,
        identity: &Identity,
        path: &[u8],
    ) {
        // A PID of −1 means the kernel. Addresses of its modules are resolved by its symbol table.
        let (Some(end), 0..) = (start.checked_add(len), pid) else { return };
        let path = String::from_utf8_lossy(path);
        self.watch.mapped(pid, &path);
        let mapped = MappedFile { pid, range: start..end, path: &path, identity };
        let module = self.modules.mapped(&mut self.files, &mapped);
        let is_file = self.modules.is_file(module);
        if !is_file && let Some(of_file) = moved::in_place_of(self.processes.space(pid), start..end)
        {
            return self.map_module(pid, of_file);
        }
        let tag = mapping_tag(module, is_file);
        self.map_module(pid, Moved { range: start..end, offset, tag });
        if is_file {
            for of_file in moved::before(self.processes.space(pid), &(start..end)) {
                self.map_module(pid, of_file);
            }
        }
    }

    fn map_module(&mut self, pid: i32, Moved { range, offset, tag }: Moved) {
        let unwind = self.modules.unwind(module_of_tag(tag).0).cloned();
        self.processes.space_mut(pid).map(range, offset, unwind, tag);
    }
}
