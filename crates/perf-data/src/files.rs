//! Finds the files that a recording's processes had mapped.
//!
//! A file is used if its build ID is the recorded one. If the recording has no build ID for it, a file is used if it
//! has the mapped path and inode and the recording was made on this machine, or if it is in the directory that the user
//! named as a copy of that machine's file system.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pyrograph_resolve::{Files, Identity, Locator, MapWriter, MappedFile, open_regular, own_vdso};
use pyrograph_symbol::{BuildId, Module, Source, running_kernel_build_id};

use crate::recording::Recording;

/// Name of the kernel in build-ID tables.
const KERNEL: &str = "[kernel.kallsyms]";

/// Finds the files of a recording.
pub struct RecordedFiles {
    locator: Locator,
    build_ids: BTreeMap<String, Vec<u8>>,
    same_machine: bool,
    same_kernel: bool,
    kernel_start: Option<u64>,
    written: Option<SystemTime>,
}

impl RecordedFiles {
    /// Finds the files of `recording`, in the places that `locator` gives.
    pub fn new(recording: &Recording, locator: Locator) -> Self {
        let features = &recording.features;
        let is = |recorded: &Option<String>, file: &str| {
            let ours = std::fs::read_to_string(file).unwrap_or_default();
            recorded.as_ref().is_none_or(|recorded| recorded == ours.trim_end())
        };
        // A copy of a file system counts as another machine.
        let same_machine =
            locator.symfs.is_none() && is(&features.hostname, "/proc/sys/kernel/hostname");
        Self {
            locator,
            build_ids: features.build_ids.clone(),
            same_machine,
            // If the file does not give the kernel version, it may have been any kernel.
            same_kernel: same_machine
                && features.os_release.is_some()
                && is(&features.os_release, "/proc/sys/kernel/osrelease"),
            kernel_start: recording.kernel_start,
            written: recording.written,
        }
    }

    fn build_id(&self, mapped: &MappedFile<'_>, path: &str) -> Option<BuildId> {
        match mapped.identity {
            Identity::BuildId(bytes) => BuildId::new(bytes),
            _ => self.build_ids.get(path).and_then(|bytes| BuildId::new(bytes)),
        }
    }

    /// Opens a file by its build ID. Only regular files are opened: a recording could name a pipe, and opening that
    /// would block until there is a writer.
    fn open_identified(&self, path: &Path, id: &BuildId) -> Option<File> {
        let below = |root: &PathBuf| root.join(path.strip_prefix("/").unwrap_or(path));
        let place = self.locator.symfs.as_ref().map_or_else(|| path.to_owned(), below);
        let is_other = std::fs::metadata(place).is_ok_and(|found| !found.is_file());
        (!is_other).then(|| self.locator.open_module(path, Some(id)).ok()).flatten()
    }

    /// Opens a file by its path alone.
    fn open_unidentified(&self, path: &Path, identity: &Identity) -> Option<File> {
        if let Some(root) = &self.locator.symfs {
            return open_regular(&root.join(path.strip_prefix("/").unwrap_or(path)));
        }
        let file = open_regular(path).filter(|_| self.same_machine)?;
        let changed = file.metadata().ok()?.modified().ok();
        let is_older = changed.zip(self.written).is_none_or(|(changed, at)| changed <= at);
        (is_older && identity.may_be(&file)).then_some(file)
    }

    /// Returns the path of a file in perf's build-ID cache, by build ID and file name.
    fn cached(&self, id: &[u8], name: &str) -> Option<PathBuf> {
        let id = BuildId::new(id)?.to_string();
        let cache = self.locator.build_id_cache.as_ref()?;
        let path = cache.join(".build-id").join(id.get(..2)?).join(id.get(2..)?).join(name);
        path.is_file().then_some(path)
    }
}

impl Files for RecordedFiles {
    fn open(&mut self, mapped: &MappedFile<'_>) -> Option<(File, bool)> {
        let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
        if !path.starts_with('/') {
            return None;
        }
        let file = match self.build_id(mapped, path) {
            Some(id) => self.open_identified(Path::new(path), &id),
            None => self.open_unidentified(Path::new(path), mapped.identity),
        };
        file.map(|file| (file, true))
    }

    /// Only on this machine: most mapped files have no samples, and a download of each would take minutes.
    fn debug_file(&mut self, mapped: &MappedFile<'_>) -> Option<File> {
        let path = mapped.path.strip_suffix(" (deleted)").unwrap_or(mapped.path);
        let here = Locator { debuginfod: None, ..self.locator.clone() };
        here.open_debug_file(&self.build_id(mapped, path)?)
    }

    fn perf_map(&mut self, pid: i32) -> Option<File> {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        match &self.locator.symfs {
            Some(root) => open_regular(&root.join(path.strip_prefix("/").ok()?)),
            None if !self.same_machine => None,
            // The process may still run, or it is gone and its PID may be in use by another.
            None => MapWriter::of(pid).open(&path).or_else(|| MapWriter::gone().open(&path)),
        }
    }

    /// The kallsyms of the running kernel if it is the recorded one and has not been rebooted since: its address
    /// differs after each boot. Otherwise perf's cached copy.
    fn kallsyms(&mut self) -> Option<PathBuf> {
        let starts_there = |path: &Path| {
            self.kernel_start.is_none_or(|start| first_symbols(path).contains(&start))
        };
        let recorded = self.build_ids.get(KERNEL);
        let is_ours = match (recorded, running_kernel_build_id()) {
            (Some(recorded), Some(ours)) => recorded.as_slice() == ours.as_bytes(),
            (Some(_), None) => false,
            (None, _) => self.same_kernel,
        };
        let own = PathBuf::from("/proc/kallsyms");
        if is_ours && starts_there(&own) {
            return Some(own);
        }
        self.cached(recorded?, "kallsyms").filter(|path| starts_there(path))
    }

    fn kernel_build_id(&mut self) -> Option<BuildId> {
        let recorded = self.build_ids.get(KERNEL).and_then(|id| BuildId::new(id));
        recorded.or_else(|| running_kernel_build_id().filter(|_| self.same_kernel))
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        let own = own_vdso().map(<[u8]>::to_vec);
        match self.build_ids.get("[vdso]") {
            Some(id) => {
                let is_it = |bytes: &Vec<u8>| {
                    let source = Source { path: "[vdso]", ..Source::default() };
                    let module = Module::from_bytes(bytes.clone(), source).ok();
                    let found = module.and_then(|module| module.build_id().cloned());
                    found.zip(BuildId::new(id)).is_some_and(|(a, b)| a.agrees_with(&b))
                };
                let cached = || std::fs::read(self.cached(id, "vdso")?).ok();
                own.filter(is_it).or_else(cached).filter(is_it)
            }
            None => own.filter(|_| self.same_kernel),
        }
    }
}

/// Returns the addresses of the symbols from which perf takes the address of a kernel.
fn first_symbols(path: &Path) -> Vec<u64> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut found = Vec::new();
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        if !(line.ends_with(b" _text") || line.ends_with(b" _stext")) {
            continue;
        }
        let digits = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let address = std::str::from_utf8(digits).ok();
        found.extend(address.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        // They are near the beginning, and each appears once.
        if found.len() == 2 {
            break;
        }
    }
    found
}
