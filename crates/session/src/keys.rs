//! Keys that keep counts apart: CPUs and their topology, threads, processes.
//!
//! Sources: `Documentation/admin-guide/cputopology.rst`, `Documentation/ABI/stable/sysfs-devices-node`, proc(5).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use pyrograph_event::proc_text;
use pyrograph_record::process_of;

use crate::counting::readings::{Of, Reading};
use crate::filters::path_of_group;

/// Keys by which counts are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// CPUs.
    Cpu,
    /// Cores. The counts of a core's hardware threads are added up.
    Core,
    /// Sockets.
    Socket,
    /// NUMA nodes.
    Node,
    /// Threads. For [`Target::Processes`](pyrograph_record::Target::Processes): the threads that existed at the start,
    /// each including what it has started since.
    Thread,
    /// Processes. For [`Target::Processes`](pyrograph_record::Target::Processes): the processes that existed at the
    /// start, each including what it has started since.
    Process,
    /// Control groups (version 2).
    Group,
}

/// Names of keys, each looked up once.
#[derive(Debug)]
pub(crate) struct Keys {
    kind: Option<KeyKind>,
    names: RefCell<HashMap<u64, String>>,
    /// Texts of values, in the order in which they came, and their numbers.
    values: RefCell<(Vec<String>, HashMap<String, u32>)>,
}

impl KeyKind {
    /// Returns true if the key is a CPU, or a group of CPUs.
    pub fn is_of_cpus(self) -> bool {
        !matches!(self, Self::Thread | Self::Process | Self::Group)
    }
}

impl Keys {
    /// Makes an empty table.
    pub fn new(kind: Option<KeyKind>) -> Self {
        Self { kind, names: RefCell::default(), values: RefCell::default() }
    }

    /// Returns the key to which a count is added. Empty if counts are not kept apart.
    pub fn of(&self, reading: &Reading) -> String {
        if let Of::Value(number) = reading.of {
            let values = self.values.borrow();
            return values.0.get(number as usize).cloned().unwrap_or_default();
        }
        let Some(kind) = self.kind else { return String::new() };
        let number = match (reading.of, reading.cpu) {
            (_, Some(cpu)) if kind.is_of_cpus() => u64::from(cpu),
            (Of::Thread(task) | Of::Process(task), _) if !kind.is_of_cpus() => {
                u64::from(task.cast_unsigned())
            }
            (Of::Group(id), _) => id,
            _ => return String::new(),
        };
        let mut names = self.names.borrow_mut();
        names.entry(number).or_insert_with(|| name(kind, number)).clone()
    }

    /// Number of a value's text.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel read values")
    )]
    pub fn number_of(&self, text: String) -> u32 {
        let (texts, numbers) = &mut *self.values.borrow_mut();
        *numbers.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Sets the name of a thread or process from the name that the kernel has. The idle threads of all CPUs have the ID
    /// 0; all threads without an ID in this PID namespace have the ID `u32::MAX`.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel know names")
    )]
    pub fn set_name(&self, task: u64, comm: &str) {
        let name = match task {
            0 => "idle".to_owned(),
            task if task == u64::from(u32::MAX) => "[other PID namespaces]".to_owned(),
            task => format!("{comm} {task}"),
        };
        self.names.borrow_mut().insert(task, name);
    }

    /// Looks up the path of a control group while it still exists.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "programs in the kernel know groups")
    )]
    pub fn find_group(&self, id: u64) {
        self.names.borrow_mut().entry(id).or_insert_with(|| group(id));
    }
}

/// Returns the path of a control group, or its ID if it has been removed.
fn group(id: u64) -> String {
    path_of_group(id).unwrap_or_else(|| format!("removed group {id}"))
}

fn name(kind: KeyKind, number: u64) -> String {
    let task = i32::try_from(number).unwrap_or(0);
    let cpu = u32::try_from(number).unwrap_or(u32::MAX);
    let topology = |file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{number}/topology/{file}");
        fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
    };
    let comm = |task: i32| {
        let name = proc_text(format!("/proc/{task}/comm")).unwrap_or_default();
        format!("{} {task}", name.trim())
    };
    match kind {
        KeyKind::Cpu => format!("CPU {number}"),
        KeyKind::Core => {
            format!("socket {} core {}", topology("physical_package_id"), topology("core_id"))
        }
        KeyKind::Socket => format!("socket {}", topology("physical_package_id")),
        KeyKind::Node => format!("node {}", node_of(cpu)),
        KeyKind::Thread => comm(task),
        KeyKind::Process => comm(process_of(task).unwrap_or(task)),
        KeyKind::Group => group(number),
    }
}

/// Returns the NUMA node of a CPU: the CPU's directory contains a link with the node's name. Without NUMA, all CPUs are
/// in node 0.
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
        let count = |thread, cpu| Reading::exact(0, thread, cpu, 1);
        let own = std::process::id().cast_signed();
        assert_eq!(Keys::new(None).of(&count(Of::Thread(own), Some(0))), "");
        assert_eq!(Keys::new(Some(KeyKind::Cpu)).of(&count(Of::All, Some(0))), "CPU 0");
        assert!(Keys::new(Some(KeyKind::Node)).of(&count(Of::All, Some(0))).starts_with("node "));
        let process = Keys::new(Some(KeyKind::Process)).of(&count(Of::Thread(own), None));
        assert!(process.ends_with(&format!(" {own}")), "{process}");
        let threads = Keys::new(Some(KeyKind::Thread));
        threads.set_name(12, "gone");
        threads.set_name(0, "swapper/0");
        assert_eq!(threads.of(&count(Of::Thread(12), None)), "gone 12");
        assert_eq!(threads.of(&count(Of::Thread(0), None)), "idle");
        let groups = Keys::new(Some(KeyKind::Group));
        assert_eq!(
            groups.of(&count(Of::Group(u64::MAX), None)),
            format!("removed group {}", u64::MAX)
        );
    }
}
