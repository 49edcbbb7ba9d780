//! Names of threads, from records.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_event::Record;

/// Current names of threads.
#[derive(Default)]
pub struct Names {
    /// Index into `names`, by thread ID. A thread keeps its index.
    known: HashMap<i32, u32, FixedState>,
    names: Vec<String>,
    /// Most recently requested threads.
    recent: [Option<(i32, u32)>; RECENT],
}

const RECENT: usize = 32;

impl Names {
    /// Updates the names from a record other than a sample.
    pub fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) => {
                self.set(comm.tid, String::from_utf8_lossy(comm.name).into_owned());
            }
            Record::Fork(task) => {
                if let Some(&parent) = self.known.get(&task.parent_tid) {
                    self.set(task.tid, self.names[parent as usize].clone());
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, tid: i32, name: String) {
        match self.known.get(&tid) {
            Some(&at) => self.names[at as usize] = name,
            None => {
                // Each name takes more than a byte: there is no memory for 2^32 of them.
                self.known.insert(tid, self.names.len() as u32);
                self.names.push(name);
            }
        }
    }

    /// Returns the name of a sample's thread; empty if it is not known.
    #[inline]
    pub fn of(&mut self, pid: Option<i32>, tid: Option<i32>) -> &str {
        let Some(tid) = tid else { return "" };
        if tid == 0 {
            return "swapper";
        }
        let slot = tid as usize % RECENT;
        match self.recent[slot] {
            Some((known, at)) if known == tid => &self.names[at as usize],
            _ => self.find(pid, tid, slot),
        }
    }

    fn find(&mut self, pid: Option<i32>, tid: i32, slot: usize) -> &str {
        if let Some(&at) = self.known.get(&tid) {
            self.recent[slot] = Some((tid, at));
            return &self.names[at as usize];
        }
        // For an exiting thread, the kernel may give only the process.
        let at = pid.and_then(|pid| self.known.get(&pid));
        at.map_or("", |&at| &self.names[at as usize])
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::{Comm, SampleId, Task};

    use super::*;

    fn comm(names: &mut Names, tid: i32, name: &str) {
        let id = SampleId::default();
        names.follow(&Record::Comm(Comm { pid: tid, tid, name: name.as_bytes(), exec: false, id }));
    }

    fn fork(names: &mut Names, parent_tid: i32, tid: i32) {
        let id = SampleId::default();
        let (pid, parent_pid) = (tid, parent_tid);
        let synthesized = false;
        let task = Task { pid, parent_pid, tid, parent_tid, time: 1, synthesized, id };
        names.follow(&Record::Fork(task));
    }

    #[test]
    fn names_change_and_are_inherited() {
        let mut names = Names::default();
        assert_eq!(names.of(Some(7), Some(7)), "");
        comm(&mut names, 7, "sh");
        assert_eq!(names.of(Some(7), Some(7)), "sh");
        fork(&mut names, 7, 7 + RECENT as i32);
        comm(&mut names, 7, "ls");
        assert_eq!(names.of(Some(7), Some(7)), "ls");
        assert_eq!(names.of(None, Some(7 + RECENT as i32)), "sh");
        // A thread without a name has its process's.
        assert_eq!(names.of(Some(7), Some(9)), "ls");
        comm(&mut names, 9, "own");
        assert_eq!(names.of(Some(7), Some(9)), "own");
        assert_eq!(names.of(Some(0), Some(0)), "swapper");
        assert_eq!(names.of(Some(7), None), "");
    }
}
