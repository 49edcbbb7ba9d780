//! Mapped files: each is opened when it is first seen, stays open, and is stored once.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pyrograph_symbol::{BuildId, Locator, Source};
use pyrograph_unwind::UnwindInfo;

use crate::files::{Files, Identity, MappedFile};
use crate::jit_tables::DumpFile;
use crate::module_ids::{FileKey, ModuleId, is_anonymous, is_memory_file};
use crate::stacks::RawFrame;

/// Name of the kernel in perf's records.
const KERNEL: &str = "[kernel.kallsyms]";

mod jit;

pub use self::jit::JitModules;

/// Modules that some frames refer to, by number.
pub type Held = HashMap<ModuleId, Arc<Module>>;

/// A file or memory range that holds code.
#[derive(Debug)]
pub struct Module {
    /// Path of the file, as the process sees it, or a name in brackets.
    pub path: String,
    /// Kind of the module.
    pub kind: ModuleKind,
}

impl Module {
    /// Placeholder for a module that is no longer known.
    pub fn forgotten(id: ModuleId) -> Self {
        let kind = match id.is_jit() {
            true => ModuleKind::Jit { map: None, dump: None },
            false => ModuleKind::Unknown,
        };
        Self { path: String::new(), kind }
    }
}

/// Kinds of modules.
#[derive(Debug)]
pub enum ModuleKind {
    /// The kernel.
    Kernel,
    /// A function that the kernel has compiled: a BPF program or a trampoline.
    KernelCode {
        /// Name of the function.
        name: String,
        /// Address of the function.
        start: u64,
    },
    /// Nothing is known about the code.
    Unknown,
    /// Another kernel, without known symbols.
    OtherKernel,
    /// An ELF file or the vDSO. Addresses are file offsets.
    Elf {
        /// Symbols; `None` if the file could not be opened or is not an ELF file.
        symbols: Option<Box<pyrograph_symbol::Module>>,
        /// Unwind information.
        unwind: Option<Arc<UnwindInfo>>,
    },
    /// JIT-compiled code of one process. Addresses are absolute.
    Jit {
        /// Perf map with the process's symbols, if it wrote one.
        map: Option<Arc<File>>,
        /// Jitdump file with symbols, times and lines, if the process wrote one.
        dump: Option<Arc<DumpFile>>,
    },
}

/// Result of opening a mapped file; the vDSO has no key.
enum Opened {
    /// A file that is a module already, perhaps under another name.
    Known(FileKey, ModuleId),
    /// A new file.
    New(Option<FileKey>, ModuleKind),
}

/// A file that was mapped before, under a certain name.
#[derive(Clone, Copy, Debug)]
struct Named {
    id: ModuleId,
    /// ID of a process that has or had mapped it.
    pid: i32,
    /// State of the file when it was opened, and the time of the last check.
    file: Option<(FileKey, Instant)>,
}

impl Named {
    /// Time for which a file is assumed to be unchanged since its last check.
    const TRUSTED: Duration = Duration::from_millis(50);

    /// Returns true if the file was written to since it was opened.
    fn was_rewritten(&mut self, files: &dyn Files, mapped: &MappedFile<'_>) -> bool {
        let Some((file, checked)) = &mut self.file else { return false };
        if checked.elapsed() < Self::TRUSTED {
            return false;
        }
        *checked = Instant::now();
        files.was_rewritten(mapped, file)
    }
}

/// All modules.
#[derive(Debug)]
pub struct Modules {
    /// Finds separate debug files: some have the only unwind tables.
    locator: Locator,
    /// Modules by number, without JIT-compiled code.
    rows: Vec<Arc<Module>>,
    /// Modules of JIT-compiled code.
    pub jit: JitModules,
    /// Files by path and identity, which several mappings have in common.
    by_name: HashMap<(String, Identity), Named>,
    /// Files by device, inode and state.
    by_file: HashMap<FileKey, ModuleId>,
    /// Memory files (`memfd_create`), by process: true if they are ELF files.
    in_memory: HashMap<(i32, Identity), bool>,
    opened_lately: usize,
    /// Files that were opened since the last [`Modules::take_fresh`]; the vDSO has no key.
    fresh: Vec<(Option<FileKey>, ModuleId)>,
    /// Functions that the kernel has compiled, by name, address, and true if they are BPF programs.
    kernel_code: HashMap<(String, u64, bool), ModuleId>,
    /// Files that could not be opened, or differ from the mapped ones.
    missing: BTreeSet<ModuleId>,
}

impl Modules {
    /// Creates the table with those modules that need no mapping.
    pub fn new(locator: Locator) -> Self {
        // In the order of the constants of `ModuleId`.
        let rows = [
            (KERNEL, ModuleKind::Kernel),
            ("", ModuleKind::Unknown),
            ("[guest.kernel]", ModuleKind::OtherKernel),
            ("[guest]", ModuleKind::Unknown),
            ("[hypervisor]", ModuleKind::OtherKernel),
        ];
        let row =
            |(path, kind): (&str, ModuleKind)| Arc::new(Module { path: path.to_owned(), kind });
        let rows = rows.into_iter().map(row).collect();
        Self {
            locator,
            rows,
            jit: JitModules::default(),
            by_name: HashMap::new(),
            by_file: HashMap::new(),
            in_memory: HashMap::new(),
            opened_lately: 0,
            fresh: Vec::new(),
            kernel_code: HashMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// The module with this number; `None` if it was forgotten.
    pub fn get(&self, id: ModuleId) -> Option<&Arc<Module>> {
        if id.is_jit() { self.jit.get(id) } else { self.rows.get(id.index()) }
    }

    /// Returns true if a number belongs to a file or to one of the modules that need no mapping.
    pub fn is_known_file(&self, id: ModuleId) -> bool {
        id.index() < self.rows.len()
    }

    /// Modules that the frames refer to.
    pub fn of<'a>(&self, frames: impl IntoIterator<Item = &'a RawFrame>) -> Held {
        let mut held = Held::new();
        for frame in frames {
            if let Entry::Vacant(entry) = held.entry(frame.module)
                && let Some(module) = self.get(frame.module)
            {
                entry.insert(Arc::clone(module));
            }
        }
        held
    }

    /// Paths of files that could not be opened, or differ from the mapped ones.
    pub fn missing(&self) -> Vec<String> {
        self.missing.iter().map(|id| self.rows[id.index()].path.clone()).collect()
    }

    /// Paths of files that were overwritten in place since they were opened: their contents may differ from the code
    /// that ran.
    pub fn rewritten(&self, files: &dyn Files) -> BTreeSet<String> {
        let is_rewritten = |((path, identity), named): &(&(String, Identity), &Named)| {
            let mapped = MappedFile { pid: named.pid, range: 0..0, path, identity };
            named.file.is_some_and(|(file, _)| files.was_rewritten(&mapped, &file))
        };
        self.by_name.iter().filter(is_rewritten).map(|((path, _), _)| path.clone()).collect()
    }

    /// Unwind information of a module.
    pub fn unwind(&self, id: ModuleId) -> Option<&Arc<UnwindInfo>> {
        match &self.get(id)?.kind {
            ModuleKind::Elf { unwind, .. } => unwind.as_ref(),
            _ => None,
        }
    }

    /// Returns the module of a new mapping. Its file is opened now, because it may be gone later.
    pub fn mapped(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> ModuleId {
        if is_anonymous(mapped.path) && !self.is_program_in_memory(files, mapped) {
            return self.jit.of_process(files, mapped.pid);
        }
        let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
        if is_jitdump(path)
            && let Some((file, _)) = files.open(mapped)
        {
            return self.jit.add_dump(files, mapped.pid, path, file);
        }
        let key = (path.to_owned(), mapped.identity.clone());
        let mut known = None;
        if let Some(named) = self.by_name.get_mut(&key) {
            let id = named.id;
            let is_open =
                matches!(self.rows[id.index()].kind, ModuleKind::Elf { symbols: Some(_), .. });
            match is_open {
                true if !named.was_rewritten(files, mapped) => return id,
                // Samples so far keep the module of the file's earlier contents.
                true => {}
                // It could not be opened for an earlier process, which was gone. This one may live.
                false => known = Some(id),
            }
        }
        let (id, file) = match self.open(files, mapped) {
            Some(Opened::Known(file, id)) => (id, Some(file)),
            Some(Opened::New(file, kind)) => {
                let id = match known {
                    Some(id) => {
                        self.missing.remove(&id);
                        let path = self.rows[id.index()].path.clone();
                        self.rows[id.index()] = Arc::new(Module { path, kind });
                        id
                    }
                    None => self.add(path, kind),
                };
                self.opened(file, id);
                (id, file)
            }
            None => {
                let symbols = files.debug_file(mapped).and_then(|file| {
                    let source = Source { path: mapped.path, ..Source::default() };
                    pyrograph_symbol::Module::open(&file, source).ok().map(Box::new)
                });
                // `[vsyscall]`, `[uprobes]`: the kernel's own mappings, in no file.
                let is_missing = symbols.is_none() && !path.starts_with('[');
                let kind = ModuleKind::Elf { symbols, unwind: None };
                let id = known.unwrap_or_else(|| self.add(path, kind));
                if is_missing {
                    self.missing.insert(id);
                }
                (id, None)
            }
        };
        let file = file.map(|file| (file, Instant::now()));
        self.by_name.insert(key, Named { id, pid: mapped.pid, file });
        id
    }

    /// Returns the module of a file, given the process and the range where it is mapped; `None` if it can no longer be
    /// opened.
    pub fn file_at(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> Option<ModuleId> {
        match self.open(files, mapped)? {
            Opened::Known(_, id) => Some(id),
            Opened::New(file, kind) => {
                let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
                let id = self.add(path, kind);
                self.opened(file, id);
                Some(id)
            }
        }
    }

    /// Returns true if a memory file is an ELF file: programs and libraries can be loaded from memory files, too. JIT
    /// compilers use them for code only.
    fn is_program_in_memory(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> bool {
        const MOST: usize = 1 << 12;
        if !is_memory_file(mapped.path) {
            return false;
        }
        let key = (mapped.pid, mapped.identity.clone());
        if let Some(known) = self.in_memory.get(&key) {
            return *known;
        }
        let magic = files.open(mapped).and_then(|(file, _)| {
            let mut magic = [0; 4];
            file.read_exact_at(&mut magic, 0).is_ok().then_some(magic)
        });
        let is_program = magic == Some(*b"\x7fELF");
        // Without an inode, the next mapping may be of another file.
        if matches!(mapped.identity, Identity::Inode { .. }) {
            if self.in_memory.len() >= MOST {
                self.in_memory.clear();
            }
            self.in_memory.insert(key, is_program);
        }
        is_program
    }

    fn opened(&mut self, file: Option<FileKey>, id: ModuleId) {
        if let Some(file) = file {
            self.by_file.insert(file, id);
            self.opened_lately += 1;
        }
        self.fresh.push((file, id));
    }

    /// Returns the files that were opened since the last call; the vDSO has no key.
    pub fn take_fresh(&mut self) -> Vec<(Option<FileKey>, ModuleId)> {
        std::mem::take(&mut self.fresh)
    }

    fn add(&mut self, path: &str, kind: ModuleKind) -> ModuleId {
        // Each row takes far more than a byte: there is no memory for 2^32 rows.
        let id = ModuleId(self.rows.len() as u32);
        self.rows.push(Arc::new(Module { path: path.to_owned(), kind }));
        id
    }

    fn open(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> Option<Opened> {
        if mapped.path == "[vdso]" {
            let bytes = files.vdso()?;
            let source = Source { path: mapped.path, ..Source::default() };
            let symbols = pyrograph_symbol::Module::from_bytes(bytes, source).ok()?;
            let unwind = UnwindInfo::from_elf(Arc::clone(symbols.image()), None).ok().map(Arc::new);
            let kind = ModuleKind::Elf { symbols: Some(Box::new(symbols)), unwind };
            return Some(Opened::New(None, kind));
        }
        let (file, certain) = files.open(mapped)?;
        let key = FileKey::new(&file.metadata().ok()?);
        if let Some(&id) = self.by_file.get(&key) {
            return Some(Opened::Known(key, id));
        }
        let expected = match mapped.identity {
            Identity::BuildId(bytes) if !certain => BuildId::new(bytes),
            _ => None,
        };
        let source = Source { path: mapped.path, build_id: expected.as_ref(), root: None };
        let symbols = pyrograph_symbol::Module::open(&file, source).ok()?;
        let (image, debug) = (symbols.image(), symbols.debug_image(&self.locator));
        let unwind = UnwindInfo::from_elf(Arc::clone(image), debug.cloned()).ok().map(Arc::new);
        let kind = ModuleKind::Elf { symbols: Some(Box::new(symbols)), unwind };
        Some(Opened::New(Some(key), kind))
    }

    /// Releases the pages of mapped files: most parts of an executable are read only once, for its unwind table. Pages
    /// are read again on access, most often from the kernel's page cache.
    pub fn give_pages_back(&self) {
        self.symbols().for_each(pyrograph_symbol::Module::give_pages_back);
    }

    /// Drops the names that files keep for the next snapshot, if they take much memory.
    pub fn limit_names(&self) {
        const MOST: usize = 64 << 20;
        if self.symbols().map(pyrograph_symbol::Module::kept_bytes).sum::<usize>() > MOST {
            self.symbols().for_each(pyrograph_symbol::Module::forget_names);
        }
    }

    fn symbols(&self) -> impl Iterator<Item = &pyrograph_symbol::Module> {
        self.rows.iter().filter_map(|row| match &row.kind {
            ModuleKind::Elf { symbols, .. } => symbols.as_deref(),
            _ => None,
        })
    }

    /// Returns the module of a function that the kernel has compiled: a BPF program or a trampoline. The same program
    /// may be loaded several times, at different addresses.
    pub fn kernel_code(&mut self, name: &str, start: u64, is_bpf: bool) -> ModuleId {
        let key = (name.to_owned(), start, is_bpf);
        if let Some(&id) = self.kernel_code.get(&key) {
            return id;
        }
        // As `/proc/kallsyms` names it.
        let path = if is_bpf { "[bpf]" } else { KERNEL };
        let id = self.add(path, ModuleKind::KernelCode { name: name.to_owned(), start });
        self.kernel_code.insert(key, id);
        id
    }

    /// Number of files that were opened since the last [`Modules::forget_files`].
    pub fn opened_lately(&self) -> usize {
        self.opened_lately
    }

    /// Closes files that no process maps: a machine that builds programs all the time has more than can be open. They
    /// keep their numbers, and are opened again when they are mapped again. No frame that is not symbolized yet may
    /// refer to them.
    pub fn forget_files(&mut self, is_mapped: impl Fn(ModuleId) -> bool) {
        let rows = &mut self.rows;
        self.by_file.retain(|_, id| {
            let stays = is_mapped(*id);
            if !stays {
                let row = &mut rows[id.index()];
                let kind = ModuleKind::Elf { symbols: None, unwind: None };
                *row = Arc::new(Module { path: row.path.clone(), kind });
            }
            stays
        });
        self.opened_lately = 0;
    }

    /// Returns true if addresses in the module are file offsets.
    pub fn is_file(&self, id: ModuleId) -> bool {
        self.get(id).is_some_and(|module| matches!(module.kind, ModuleKind::Elf { .. }))
    }
}

/// Returns true if a mapped file has the name of a jitdump file: `jit-1234.dump`. The number is the process's ID in its
/// own PID namespace, so it is not compared; the mapping shows that the file belongs to the process.
fn is_jitdump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let pid = name.strip_prefix("jit-").and_then(|name| name.strip_suffix(".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod table_tests;
#[cfg(test)]
mod tests;
