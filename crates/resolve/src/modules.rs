//! The mapped files, each known once, held open from the moment it is first seen.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use hashbrown::HashMap;
use memmap2::Mmap;
use pyrograph_symbol::{BuildId, Locator, Source};
use pyrograph_unwind::UnwindInfo;

use crate::files::{Files, Identity, MappedFile};

/// The kernel, as perf names it.
const KERNEL: &str = "[kernel.kallsyms]";

/// What holds code: a row of [`Modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub u32);

impl ModuleId {
    /// The kernel and its modules; addresses are absolute.
    pub const KERNEL: Self = Self(0);
    /// Addresses at which nothing is known to be mapped; they are absolute.
    pub const UNKNOWN: Self = Self(1);
    /// The kernel of a virtual machine that runs here; addresses are its own.
    pub const GUEST_KERNEL: Self = Self(2);
    /// The programs of a virtual machine.
    pub const GUEST: Self = Self(3);
    /// What this machine's kernel runs under.
    pub const HYPERVISOR: Self = Self(4);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something that holds code.
#[derive(Debug)]
pub struct Module {
    /// Its path, as the process sees it, or its name in brackets.
    pub path: String,
    /// What it is.
    pub kind: ModuleKind,
}

/// The sorts of modules.
#[derive(Debug)]
pub enum ModuleKind {
    /// The kernel.
    Kernel,
    /// A function that the kernel made as it ran: a BPF program, a trampoline.
    KernelCode {
        /// Its name.
        name: String,
    },
    /// Nothing known.
    Unknown,
    /// Another kernel, of which no symbols are known.
    OtherKernel,
    /// An ELF file or the vDSO. Addresses are file offsets.
    Elf {
        /// Its symbols; `None` if the file could not be had, or is no ELF file.
        symbols: Option<Box<pyrograph_symbol::Module>>,
        /// How to unwind its functions.
        unwind: Option<Arc<UnwindInfo>>,
    },
    /// Code that one process made at run time. Addresses are absolute.
    Jit {
        /// The symbols that it wrote, if it did.
        map: Option<File>,
        /// The file with symbols, times and lines that it wrote, if it did.
        dump: Option<DumpFile>,
    },
}

/// A jitdump file. Its writer maps a page of it, executable, so that recordings learn of it; there
/// is no other sign.
#[derive(Debug)]
pub struct DumpFile {
    /// Its path, as the process sees it.
    pub path: String,
    /// The file.
    pub file: File,
}

/// What stays the same as long as a file's contents do: what `fstat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change of the inode.
    pub changed: (i64, i64),
}

impl FileKey {
    fn of(file: &File) -> Option<Self> {
        let data = file.metadata().ok()?;
        let changed = (data.ctime(), data.ctime_nsec());
        Some(Self { device: data.dev(), inode: data.ino(), size: data.size(), changed })
    }
}

/// What opening a mapped file gave.
enum Opened {
    /// A file that is a module already, under another name.
    Known(ModuleId),
    /// A new one.
    New(Option<FileKey>, ModuleKind),
}

/// All modules.
#[derive(Debug)]
pub struct Modules {
    /// Where separate debug files are: some have the only unwind tables.
    locator: Locator,
    rows: Vec<Module>,
    /// By path and identity: what one mapping after the other names the same way.
    by_name: HashMap<(String, Identity), ModuleId>,
    /// By the file itself.
    by_file: HashMap<FileKey, ModuleId>,
    /// By process, until it runs another program.
    jit: HashMap<i32, ModuleId>,
    /// Of processes that are gone, or run another program.
    jit_before: HashMap<i32, ModuleId>,
    /// Files since these were last asked for; without a key, the vDSO.
    fresh: Vec<(Option<FileKey>, ModuleId)>,
    /// Whether there is any jitdump file.
    has_dumps: bool,
    /// Functions that the kernel made, by name and module.
    kernel_code: HashMap<(String, bool), ModuleId>,
    /// Files that could not be opened, or were not the mapped ones.
    missing: BTreeSet<ModuleId>,
}

impl Modules {
    /// None but those that need no mapping.
    pub fn new(locator: Locator) -> Self {
        // In the order of the constants of `ModuleId`.
        let rows = [
            (KERNEL, ModuleKind::Kernel),
            ("", ModuleKind::Unknown),
            ("[guest.kernel]", ModuleKind::OtherKernel),
            ("[guest]", ModuleKind::Unknown),
            ("[hypervisor]", ModuleKind::OtherKernel),
        ];
        let row = |(path, kind): (&str, ModuleKind)| Module { path: path.to_owned(), kind };
        let rows = rows.into_iter().map(row).collect();
        Self {
            locator,
            rows,
            by_name: HashMap::new(),
            by_file: HashMap::new(),
            jit: HashMap::new(),
            jit_before: HashMap::new(),
            fresh: Vec::new(),
            has_dumps: false,
            kernel_code: HashMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// All modules, by number.
    pub fn rows(&self) -> &[Module] {
        &self.rows
    }

    /// The paths of files that could not be opened, or were not the mapped ones.
    pub fn missing(&self) -> Vec<String> {
        self.missing.iter().map(|id| self.rows[id.index()].path.clone()).collect()
    }

    /// The module's unwind information.
    pub fn unwind(&self, id: ModuleId) -> Option<&Arc<UnwindInfo>> {
        match &self.rows[id.index()].kind {
            ModuleKind::Elf { unwind, .. } => unwind.as_ref(),
            _ => None,
        }
    }

    /// The module of a new mapping. Its file is opened now: later it may be gone.
    pub fn mapped(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> ModuleId {
        if is_anonymous(mapped.path) {
            return self.jit(files, mapped.pid);
        }
        let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
        if is_jitdump(path)
            && let Some((file, _)) = files.open(mapped)
        {
            let id = self.jit(files, mapped.pid);
            if let ModuleKind::Jit { dump, .. } = &mut self.rows[id.index()].kind {
                *dump = Some(DumpFile { path: path.to_owned(), file });
                self.has_dumps = true;
            }
            return id;
        }
        let key = (path.to_owned(), mapped.identity.clone());
        let known = self.by_name.get(&key).copied();
        if let Some(id) = known
            && matches!(self.rows[id.index()].kind, ModuleKind::Elf { symbols: Some(_), .. })
        {
            return id;
        }
        // New, or its process was gone when it was first seen, and this one may live.
        let id = match self.open(files, mapped) {
            Some(Opened::Known(id)) => id,
            Some(Opened::New(file, kind)) => {
                let id = match known {
                    Some(id) => {
                        self.missing.remove(&id);
                        self.rows[id.index()].kind = kind;
                        id
                    }
                    None => self.add(path, kind),
                };
                self.opened(file, id);
                id
            }
            None => {
                let nothing = ModuleKind::Elf { symbols: None, unwind: None };
                let id = known.unwrap_or_else(|| self.add(path, nothing));
                // `[vsyscall]`, `[uprobes]`: the kernel's own, in no file.
                if !path.starts_with('[') {
                    self.missing.insert(id);
                }
                id
            }
        };
        self.by_name.insert(key, id);
        id
    }

    /// The module of a file that is known by the process and the range where it is mapped; `None` if it
    /// cannot be opened any more.
    pub fn file_at(&mut self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> Option<ModuleId> {
        match self.open(files, mapped)? {
            Opened::Known(id) => Some(id),
            Opened::New(file, kind) => {
                let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
                let id = self.add(path, kind);
                self.opened(file, id);
                Some(id)
            }
        }
    }

    fn opened(&mut self, file: Option<FileKey>, id: ModuleId) {
        if let Some(file) = file {
            self.by_file.insert(file, id);
        }
        self.fresh.push((file, id));
    }

    /// Files that were opened since the last call; without a key, the vDSO.
    pub fn take_fresh(&mut self) -> Vec<(Option<FileKey>, ModuleId)> {
        std::mem::take(&mut self.fresh)
    }

    fn add(&mut self, path: &str, kind: ModuleKind) -> ModuleId {
        let id = ModuleId(u32::try_from(self.rows.len()).expect("fewer than 2^32 modules"));
        self.rows.push(Module { path: path.to_owned(), kind });
        id
    }

    fn open(&self, files: &mut dyn Files, mapped: &MappedFile<'_>) -> Option<Opened> {
        if mapped.path == "[vdso]" {
            let bytes = files.vdso()?;
            let source = Source { path: mapped.path, ..Source::default() };
            let symbols = pyrograph_symbol::Module::from_bytes(bytes.clone(), source).ok()?;
            let unwind = UnwindInfo::from_elf(bytes, None::<&[u8]>).ok().map(Arc::new);
            let kind = ModuleKind::Elf { symbols: Some(Box::new(symbols)), unwind };
            return Some(Opened::New(None, kind));
        }
        let (file, certain) = files.open(mapped)?;
        let key = FileKey::of(&file)?;
        if let Some(&id) = self.by_file.get(&key) {
            return Some(Opened::Known(id));
        }
        let expected = match mapped.identity {
            Identity::BuildId(bytes) if !certain => BuildId::new(bytes),
            _ => None,
        };
        let source = Source { path: mapped.path, build_id: expected.as_ref(), root: None };
        let symbols = pyrograph_symbol::Module::open(&file, source).ok()?;
        // SAFETY: The file is only read. Somebody may cut it off while it is mapped, and reading
        // beyond its end then ends this program: the price that every reader of mapped executables
        // pays. Compilers and package managers replace files and do not cut them.
        let bytes = unsafe { Mmap::map(&file) }.ok()?;
        let debug_file = symbols.debug_file(&self.locator);
        let unwind = UnwindInfo::from_elf(bytes, debug_file).ok().map(Arc::new);
        let kind = ModuleKind::Elf { symbols: Some(Box::new(symbols)), unwind };
        Some(Opened::New(Some(key), kind))
    }

    /// The module of the code that a process makes at run time.
    pub fn jit(&mut self, files: &mut dyn Files, pid: i32) -> ModuleId {
        if let Some(&id) = self.jit.get(&pid) {
            if let ModuleKind::Jit { map: map @ None, .. } = &mut self.rows[id.index()].kind {
                *map = files.perf_map(pid);
            }
            return id;
        }
        let map = files.perf_map(pid);
        let id = self.add("", ModuleKind::Jit { map, dump: None });
        self.jit.insert(pid, id);
        id
    }

    /// The same for a process that may be gone.
    pub fn jit_at_last(&mut self, files: &mut dyn Files, pid: i32) -> ModuleId {
        match (self.jit.get(&pid), self.jit_before.get(&pid)) {
            (Some(&id), _) | (None, Some(&id)) => id,
            (None, None) => self.jit(files, pid),
        }
    }

    /// Whether any process writes a jitdump file.
    pub fn has_dumps(&self) -> bool {
        self.has_dumps
    }

    /// Whether the process writes a jitdump file.
    pub fn has_dump(&self, pid: i32) -> bool {
        let kind = || self.jit.get(&pid).map(|id| &self.rows[id.index()].kind);
        self.has_dumps && matches!(kind(), Some(ModuleKind::Jit { dump: Some(_), .. }))
    }

    /// The module of a function that the kernel made as it ran, a BPF program or another.
    pub fn kernel_code(&mut self, name: &str, is_bpf: bool) -> ModuleId {
        let key = (name.to_owned(), is_bpf);
        if let Some(&id) = self.kernel_code.get(&key) {
            return id;
        }
        // As /proc/kallsyms has it.
        let path = if is_bpf { "[bpf]" } else { KERNEL };
        let id = self.add(path, ModuleKind::KernelCode { name: name.to_owned() });
        self.kernel_code.insert(key, id);
        id
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
            self.jit_before.extend(self.jit.remove_entry(&pid));
        }
    }

    /// Whether addresses in it are file offsets.
    pub fn is_file(&self, id: ModuleId) -> bool {
        matches!(self.rows[id.index()].kind, ModuleKind::Elf { .. })
    }
}

/// Whether a mapping's name stands for memory without a file that holds code.
pub fn is_anonymous(path: &str) -> bool {
    const PREFIXES: [&str; 8] =
        ["//anon", "[anon", "[heap]", "[stack", "/memfd:", "/dev/zero", "/SYSV", "anon_inode:"];
    path.is_empty() || PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

/// Whether a mapped file is by its name what a process writes about its run-time code:
/// `jit-1234.dump`. The number is the process's in its own PID namespace, so it is not compared;
/// that the process mapped the file tells that it is its own.
fn is_jitdump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let pid = name.strip_prefix("jit-").and_then(|name| name.strip_suffix(".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod table_tests;
#[cfg(test)]
mod tests;
