//! Keys that keep counts apart: CPUs and their topology, threads, processes.
//!
//! Sources: `Documentation/admin-guide/cputopology.rst`, `Documentation/ABI/stable/sysfs-devices-node`, proc(5).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use pyrograph_record::{Count, process_of};

/// Keys that keep counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// CPUs.
    Cpu,
    /// Cores, whose hardware threads are added up.
    Core,
    /// Sockets.
    Socket,
    /// NUMA nodes.
    Node,
    /// Threads that counters were opened for, with what these have started since.
    Thread,
    /// Processes that counters were opened for, with what these have started since.
    Process,
}

/// Names of what counts are kept apart by, each found once.
#[derive(Debug)]
pub(crate) struct Keys {
    kind: Option<KeyKind>,
    names: RefCell<HashMap<u32, String>>,
}

impl KeyKind {
    /// True if it is a CPU, or a group of CPUs.
    pub fn is_of_cpus(self) -> bool {
        !matches!(self, Self::Thread | Self::Process)
    }
}

impl Keys {
    /// No names yet.
    pub fn new(kind: Option<KeyKind>) -> Self {
        Self { kind, names: RefCell::default() }
    }

    /// The key by which a count is added up; empty where nothing keeps counts apart.
    pub fn of(&self, count: &Count) -> String {
        let Some(kind) = self.kind else { return String::new() };
        let number = match kind.is_of_cpus() {
            true => count.cpu,
            false => count.thread.map(i32::cast_unsigned),
        };
        let Some(number) = number else { return String::new() };
        let mut names = self.names.borrow_mut();
        names.entry(number).or_insert_with(|| name(kind, number)).clone()
    }
}

fn name(kind: KeyKind, number: u32) -> String {
    let topology = |file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{number}/topology/{file}");
        fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
    };
    let comm = |task: i32| {
        let name = fs::read_to_string(format!("/proc/{task}/comm")).unwrap_or_default();
        format!("{} {task}", name.trim())
    };
    match kind {
        KeyKind::Cpu => format!("CPU {number}"),
        KeyKind::Core => {
            format!("socket {} core {}", topology("physical_package_id"), topology("core_id"))
        }
        KeyKind::Socket => format!("socket {}", topology("physical_package_id")),
        KeyKind::Node => format!("node {}", node_of(number)),
        KeyKind::Thread => comm(number.cast_signed()),
        KeyKind::Process => {
            let thread = number.cast_signed();
            comm(process_of(thread).unwrap_or(thread))
        }
    }
}

/// The NUMA node of a CPU: its folder has a link with the node's name. Without NUMA, all are of node 0.
fn node_of(cpu: u32) -> String {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let digits = |name: String| {
        let number = name.strip_prefix("node")?;
        number.parse::<u32>().ok().map(|number| number.to_string())
    };
    names.into_iter().find_map(digits).unwrap_or_else(|| "0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_names_of_what_they_are_of() {
        let count = |thread, cpu| Count { event: 0, thread, cpu, value: 1, enabled: 1, running: 1 };
        let own = std::process::id().cast_signed();
        assert_eq!(Keys::new(None).of(&count(Some(own), Some(0))), "");
        assert_eq!(Keys::new(Some(KeyKind::Cpu)).of(&count(None, Some(0))), "CPU 0");
        assert!(Keys::new(Some(KeyKind::Node)).of(&count(None, Some(0))).starts_with("node "));
        let process = Keys::new(Some(KeyKind::Process)).of(&count(Some(own), None));
        assert!(process.ends_with(&format!(" {own}")), "{process}");
    }
}
