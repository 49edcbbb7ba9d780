//! Files behind the descriptors of traced processes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use pyrograph_syscall::{Descriptors, Files, Seen};

use super::text::printable;

/// Open files of traced processes.
#[derive(Debug, Default)]
pub struct OpenFiles {
    processes: HashMap<i32, RefCell<Descriptors>>,
    /// True if some calls that change descriptors are not traced. Then each descriptor is looked up in `/proc` every
    /// time.
    in_part: bool,
}

impl OpenFiles {
    /// Makes an empty table. `in_part`: some calls that change descriptors are not traced.
    pub fn new(in_part: bool) -> Self {
        Self { in_part, ..Self::default() }
    }

    /// Reads the open files of a process before it is traced: later the process may have ended, or have closed them.
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

    /// Returns the files of a process.
    pub fn of(&mut self, process: i32) -> FilesOf<'_> {
        let (known, ask) = (self.processes.entry(process).or_default(), self.in_part);
        FilesOf { process, known, ask }
    }

    /// Updates the files after a call of a process has returned.
    pub fn follow(&mut self, process: i32, seen: &Seen<'_>) {
        self.processes.entry(process).or_default().get_mut().follow(seen);
    }

    /// Copies the files of a process to a child that it has started.
    pub fn fork(&mut self, process: i32, child: i32) {
        if let Some(inherited) = self.processes.get(&process).cloned() {
            self.processes.insert(child, inherited);
        }
    }

    /// Removes a process that has ended.
    pub fn forget(&mut self, process: i32) {
        self.processes.remove(&process);
    }
}

/// Returns true if the file has `O_CLOEXEC`. Parses the line `flags: 02100000`, in octal (proc_pid_fdinfo(5)).
fn closes_on_exec(path: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// Files behind the descriptors of a process. Descriptors that its calls have not shown are looked up in `/proc`, once.
pub struct FilesOf<'a> {
    process: i32,
    known: &'a RefCell<Descriptors>,
    /// Look up each descriptor in `/proc` every time.
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
