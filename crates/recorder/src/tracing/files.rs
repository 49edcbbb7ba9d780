//! Files behind the descriptors of traced processes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use pyrograph_syscall::{Descriptors, Files, Seen};

use super::decode::printable;

/// The files that traced processes have open.
#[derive(Debug, Default)]
pub struct OpenFiles {
    processes: HashMap<i32, RefCell<Descriptors>>,
    /// Not all calls by which descriptors change are seen: `/proc` is asked for each again.
    in_part: bool,
}

impl OpenFiles {
    /// Creates the files of processes; `in_part` if not all calls by which descriptors change are followed.
    pub fn new(in_part: bool) -> Self {
        Self { in_part, ..Self::default() }
    }

    /// Notes what a process has open before it is traced: later it may be gone, or have closed them.
    pub fn note(&mut self, process: i32) {
        let mut known = Descriptors::new();
        let folder = format!("/proc/{process}");
        if let Ok(directory) = fs::read_link(format!("{folder}/cwd")) {
            known.set_directory(directory.to_string_lossy());
        }
        for entry in fs::read_dir(format!("{folder}/fd")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let descriptor = name.to_str().and_then(|name| name.parse().ok());
            if let (Some(descriptor), Ok(link)) = (descriptor, fs::read_link(entry.path())) {
                let closes_on_exec = closes_on_exec(&format!("{folder}/fdinfo/{descriptor}"));
                known.add(descriptor, link.to_string_lossy(), closes_on_exec);
            }
        }
        self.processes.insert(process, RefCell::new(known));
    }

    /// The files of a process.
    pub fn of(&mut self, process: i32) -> FilesOf<'_> {
        let (known, ask) = (self.processes.entry(process).or_default(), self.in_part);
        FilesOf { process, known, ask }
    }

    /// Follows a call of a process that has returned.
    pub fn follow(&mut self, process: i32, seen: &Seen<'_>) {
        self.processes.entry(process).or_default().get_mut().follow(seen);
    }

    /// A process has started another, which has the same files.
    pub fn fork(&mut self, process: i32, child: i32) {
        if let Some(inherited) = self.processes.get(&process).cloned() {
            self.processes.insert(child, inherited);
        }
    }

    /// A process has ended.
    pub fn forget(&mut self, process: i32) {
        self.processes.remove(&process);
    }
}

/// `flags: 02100000`, in octal (proc_pid_fdinfo(5)).
fn closes_on_exec(path: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// The files behind a process's descriptors. What its calls have not shown, `/proc` is asked for, once.
pub struct FilesOf<'a> {
    process: i32,
    known: &'a RefCell<Descriptors>,
    /// `/proc` is asked for each descriptor again.
    ask: bool,
}

impl Files for FilesOf<'_> {
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>> {
        let mut known = self.known.borrow_mut();
        if self.ask || known.is_unknown(descriptor) {
            let link = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.process));
            known.set(descriptor, link.map_or(String::new(), |link| link.to_string_lossy().into()));
        }
        let name = printable(known.name(descriptor)?.as_bytes());
        (!name.is_empty()).then_some(Cow::Owned(name))
    }
}
