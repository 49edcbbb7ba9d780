//! The recorded processes, as the kernel's records report them.

use std::collections::HashSet;

use pyrograph_event::Record;

/// Recorded processes.
pub(crate) struct Targets {
    /// Their IDs. `None` for all processes.
    pub pids: Option<HashSet<i32>>,
    /// True if processes that they start are recorded, too.
    pub inherit: bool,
}

impl Targets {
    /// Handles a record; records must be in order of time. Returns true if the record is for the resolver: it belongs
    /// to a target, or to no process. Returns false for samples, since the in-kernel engine returns its own.
    pub fn follow(&mut self, record: &Record<'_>) -> bool {
        let pid = match record {
            Record::Mmap(mapping) => mapping.pid,
            Record::Mmap2(mapping) => mapping.pid,
            Record::Comm(comm) => comm.pid,
            Record::Exit(task) => task.pid,
            Record::Fork(task) => {
                if self.inherit
                    && let Some(pids) = &mut self.pids
                    && pids.contains(&task.parent_pid)
                {
                    pids.insert(task.pid);
                }
                task.pid
            }
            Record::Sample(_) => return false,
            _ => return true,
        };
        self.pids.as_ref().is_none_or(|pids| pids.contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::{Comm, SampleId, Task};

    use super::*;

    fn fork(parent_pid: i32, pid: i32) -> Record<'static> {
        let (tid, parent_tid, id) = (pid, parent_pid, SampleId::default());
        Record::Fork(Task { pid, parent_pid, tid, parent_tid, time: 0, synthesized: false, id })
    }

    fn comm(pid: i32) -> Record<'static> {
        Record::Comm(Comm { pid, tid: pid, name: b"a", exec: false, id: SampleId::default() })
    }

    #[test]
    fn children_of_targets_are_targets() {
        let check = |pids: Option<&[i32]>, inherit, expect: [bool; 4]| {
            let pids = pids.map(|pids| pids.iter().copied().collect());
            let mut targets = Targets { pids, inherit };
            let records = [fork(1, 2), comm(2), fork(8, 9), comm(1)];
            assert_eq!(records.map(|record| targets.follow(&record)), expect);
        };
        check(Some(&[1]), true, [true, true, false, true]);
        check(Some(&[1]), false, [false, false, false, true]);
        check(Some(&[]), true, [false; 4]);
        check(None, false, [true; 4]);
    }
}
