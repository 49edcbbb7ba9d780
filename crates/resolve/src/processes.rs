//! Who runs: processes with their mappings, threads with their names, as the events tell them.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pyrograph_unwind::AddressSpace;

/// A thread that was seen.
#[derive(Clone, Debug)]
struct ThreadState {
    pid: i32,
    name: Name,
}

/// A thread's name, which goes with it: of most that run for a moment no sample is taken.
type Name = Option<Arc<str>>;

/// A process that was seen.
#[derive(Clone, Debug, Default)]
struct ProcessState {
    space: AddressSpace,
    threads: u32,
}

/// All processes and threads that live now.
#[derive(Debug, Default)]
pub struct Processes {
    processes: HashMap<i32, ProcessState>,
    threads: HashMap<i32, ThreadState>,
    graves: Graves,
    nowhere: AddressSpace,
}

/// Names of threads that are gone: the kernel still works for them after it has told their exit.
#[derive(Debug, Default)]
struct Graves {
    names: HashMap<i32, Name>,
    order: VecDeque<i32>,
}

impl Graves {
    /// As many are remembered. On a machine that forks thousands of processes a second that is
    /// still a second or two, when it is milliseconds that matter.
    const MOST: usize = 1 << 12;

    fn add(&mut self, tid: i32, name: Name) {
        if self.names.insert(tid, name).is_none() {
            self.order.push_back(tid);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

impl Processes {
    /// The process's mappings; none if it was never seen.
    pub fn space(&self, pid: i32) -> &AddressSpace {
        self.processes.get(&pid).map_or(&self.nowhere, |process| &process.space)
    }

    /// The tags of all that is mapped anywhere.
    pub fn tags(&self) -> HashSet<u32> {
        let spaces = self.processes.values().map(|process| &process.space);
        spaces.flat_map(|space| space.mappings()).map(|mapping| mapping.tag).collect()
    }

    /// Whether the process has threads.
    pub fn runs(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The process's mappings, to be changed.
    pub fn space_mut(&mut self, pid: i32) -> &mut AddressSpace {
        &mut self.processes.entry(pid).or_default().space
    }

    /// The thread's name, if an event told it.
    pub fn name(&self, tid: i32) -> Option<Arc<str>> {
        let alive = self.threads.get(&tid).map(|thread| &thread.name);
        let name = alive.or_else(|| self.graves.names.get(&tid))?.as_ref();
        name.filter(|name| !name.is_empty()).cloned()
    }

    /// The thread has this name from now on.
    pub fn named(&mut self, pid: i32, tid: i32, name: &str) {
        self.thread(pid, tid).name = Some(Arc::from(name));
    }

    /// The process runs another program: nothing of the old one is mapped any more.
    pub fn executed(&mut self, pid: i32) {
        self.processes.entry(pid).or_default().space = AddressSpace::new();
    }

    /// Thread `tid` of process `pid` was started by thread `parent_tid` of `parent_pid`. A new
    /// process begins with its parent's mappings, a new thread with its parent's name.
    pub fn forked(&mut self, (parent_pid, parent_tid): (i32, i32), (pid, tid): (i32, i32)) {
        let name = self.threads.get(&parent_tid).and_then(|thread| thread.name.clone());
        if pid != parent_pid {
            let space = self.space(parent_pid).clone();
            self.processes.insert(pid, ProcessState { space, threads: 0 });
        }
        // A number that is used again means another thread now.
        self.exited(pid, tid);
        self.thread(pid, tid).name = name;
    }

    /// The thread is gone; with its last thread, so is the process. Returns whether it is.
    pub fn exited(&mut self, pid: i32, tid: i32) -> bool {
        if self.threads.get(&tid).is_none_or(|thread| thread.pid != pid) {
            return false;
        }
        if let Some(thread) = self.threads.remove(&tid) {
            self.graves.add(tid, thread.name);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        process.threads = process.threads.saturating_sub(1);
        let gone = process.threads == 0;
        if gone {
            self.processes.remove(&pid);
        }
        gone
    }

    fn thread(&mut self, pid: i32, tid: i32) -> &mut ThreadState {
        let processes = &mut self.processes;
        let state = self.threads.entry(tid).or_insert_with(|| {
            processes.entry(pid).or_default().threads += 1;
            ThreadState { pid, name: None }
        });
        if state.pid != pid {
            // The exit of a thread that had this number before was lost.
            processes.entry(pid).or_default().threads += 1;
            *state = ThreadState { pid, name: None };
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(processes: &Processes, pid: i32) -> usize {
        processes.space(pid).len()
    }

    #[test]
    fn a_child_starts_as_its_parent_and_then_goes_its_own_way() {
        let mut processes = Processes::default();
        processes.named(1, 1, "7");
        processes.space_mut(1).map(0..10, 0, None, 0);
        processes.forked((1, 1), (2, 2));
        assert_eq!(mapped(&processes, 2), 1);
        assert_eq!(processes.name(2).as_deref(), Some("7"));

        processes.executed(2);
        processes.named(2, 2, "8");
        assert_eq!(mapped(&processes, 2), 0);
        assert_eq!(mapped(&processes, 1), 1);
        assert_eq!(processes.name(1).as_deref(), Some("7"));
    }

    #[test]
    fn a_process_goes_with_its_last_thread() {
        let mut processes = Processes::default();
        processes.named(1, 1, "7");
        processes.space_mut(1).map(0..10, 0, None, 0);
        processes.forked((1, 1), (1, 5));
        assert!(!processes.exited(1, 1), "the first thread may leave before the others");
        assert_eq!(mapped(&processes, 1), 1);
        assert!(processes.exited(1, 5));
        assert_eq!(mapped(&processes, 1), 0);
    }

    #[test]
    fn the_dead_keep_their_names_for_a_while() {
        let mut processes = Processes::default();
        processes.named(1, 1, "7");
        processes.exited(1, 1);
        assert_eq!(processes.name(1).as_deref(), Some("7"));
        for tid in 2..40_000 {
            processes.named(tid, tid, "8");
            processes.exited(tid, tid);
        }
        assert_eq!(processes.name(1), None);
        assert_eq!(processes.name(39_999).as_deref(), Some("8"));
    }

    #[test]
    fn a_number_that_is_used_again_means_another_process() {
        let mut processes = Processes::default();
        processes.named(9, 9, "3");
        processes.space_mut(9).map(0..10, 0, None, 0);
        processes.named(1, 1, "7");
        // The exit of 9 was lost.
        processes.forked((1, 1), (9, 9));
        assert_eq!(mapped(&processes, 9), 0);
        assert_eq!(processes.name(9).as_deref(), Some("7"));
    }
}
