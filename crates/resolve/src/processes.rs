//! Processes with their mappings and threads with their names, as events report them.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use pyrograph_unwind::AddressSpace;

/// State of a thread.
#[derive(Clone, Debug)]
struct ThreadState {
    pid: i32,
    /// Incarnation of the process that the thread is counted in ([`ProcessState::incarnation`]).
    incarnation: u32,
    name: Name,
}

/// A thread's name. It is dropped with the thread's state: most short-lived threads are never sampled.
type Name = Option<Arc<str>>;

/// State of a process.
#[derive(Clone, Debug, Default)]
struct ProcessState {
    space: AddressSpace,
    /// Serial number that tells processes with the same process ID apart.
    incarnation: u32,
    /// Number of threads in [`Processes::threads`] with this process ID and incarnation.
    threads: u32,
    /// Time of the start, if an event reported it; 0 if the process was found in `/proc`.
    started: Option<u64>,
    /// Oldest known ancestor, as far as events reported starts; 0 if no start was reported, so that the process is
    /// itself the oldest.
    ancestor: i32,
    cgroup: Inherited,
    command_line: Inherited,
}

/// Text that a process inherits from its parent until it changes: its control group or its command line.
#[derive(Clone, Debug, Default)]
struct Inherited {
    /// The parent's text, until the process's own is known.
    text: Option<Arc<str>>,
    is_known: bool,
}

impl Inherited {
    /// Returns the text: from `read`, if it was not read since it may have changed; the parent's, if the process is
    /// gone by now.
    fn get(&mut self, read: impl FnOnce() -> Option<String>) -> Option<Arc<str>> {
        if !self.is_known {
            self.text = read().map(Arc::from).or_else(|| self.text.take());
            self.is_known = true;
        }
        self.text.clone()
    }
}

/// Texts of processes that have ended, as far as there is room. Counts made in the kernel are processed only at the
/// end, when these processes are gone.
#[derive(Debug, Default)]
struct OfEnded {
    texts: HashMap<i32, Arc<str>>,
    bytes: usize,
}

impl OfEnded {
    /// Limit to the size of all texts, in bytes. Once it is reached, all earlier ones are dropped.
    const MOST_BYTES: usize = 4 << 20;

    fn keep(&mut self, pid: i32, text: Option<Arc<str>>) {
        let Some(text) = text else { return };
        if self.bytes >= Self::MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += text.len() + size_of::<(i32, Arc<str>)>();
        self.texts.insert(pid, text);
    }
}

/// The start of a process or thread.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Process ID and thread ID of the parent.
    pub parent: (i32, i32),
    /// Process ID and thread ID of the new process or thread.
    pub child: (i32, i32),
    /// Time of the start; 0 if it was found in `/proc`, some time after it had started.
    pub time: u64,
}

/// All processes and threads that are running.
#[derive(Debug, Default)]
pub struct Processes {
    processes: HashMap<i32, ProcessState>,
    threads: HashMap<i32, ThreadState>,
    retired: RetiredThreads,
    ended_groups: OfEnded,
    ended_command_lines: OfEnded,
    nowhere: AddressSpace,
    incarnations: u32,
}

/// Names of threads that have ended: samples of the kernel's work for them still come after their EXIT record.
#[derive(Debug, Default)]
struct RetiredThreads {
    names: HashMap<i32, Name>,
    order: VecDeque<i32>,
}

impl RetiredThreads {
    /// Number of names that are kept. On a machine that forks thousands of processes a second this covers a second or
    /// two; milliseconds are needed.
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
    /// Mappings of a process; none if it is unknown.
    pub fn space(&self, pid: i32) -> &AddressSpace {
        self.processes.get(&pid).map_or(&self.nowhere, |process| &process.space)
    }

    /// Tags of all mappings of all processes.
    pub fn tags(&self) -> HashSet<u32> {
        let spaces = self.processes.values().map(|process| &process.space);
        spaces.flat_map(|space| space.mappings()).map(|mapping| mapping.tag).collect()
    }

    /// Running descendants of a process, without itself, each with its name.
    pub fn descendants(&self, of: i32) -> Vec<(i32, Option<Arc<str>>)> {
        let descend =
            self.processes.iter().filter(|(pid, process)| process.ancestor == of && **pid != of);
        let mut found: Vec<_> = descend.map(|(&pid, _)| (pid, self.name(pid))).collect();
        found.sort_unstable_by_key(|(pid, _)| *pid);
        found
    }

    /// Returns true if the process has threads.
    pub fn runs(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Mappings of a process, mutable.
    pub fn space_mut(&mut self, pid: i32) -> &mut AddressSpace {
        &mut self.processes.entry(pid).or_default().space
    }

    /// Name of a thread, if an event reported it.
    pub fn name(&self, tid: i32) -> Option<Arc<str>> {
        let alive = self.threads.get(&tid).map(|thread| &thread.name);
        let name = alive.or_else(|| self.retired.names.get(&tid))?.as_ref();
        name.filter(|name| !name.is_empty()).cloned()
    }

    /// Sets a thread's name.
    pub fn named(&mut self, pid: i32, tid: i32, name: &str) {
        self.thread(pid, tid).name = Some(Arc::from(name));
    }

    /// The process has called `exec`: the mappings of the old program are gone. `command_line` is the new one, if it is
    /// known. Service managers move a process to its control group before `exec`, so the control group is read again.
    pub fn executed(&mut self, pid: i32, command_line: Option<String>) {
        let process = self.processes.entry(pid).or_default();
        process.space = AddressSpace::new();
        process.cgroup.is_known = false;
        process.command_line =
            Inherited { is_known: command_line.is_some(), text: command_line.map(Arc::from) };
    }

    /// Control group of a process: from `read`, if it was not read since the process began or called `exec`; its
    /// parent's, if the process is gone by now.
    pub fn cgroup(&mut self, pid: i32, read: impl FnOnce() -> Option<String>) -> Option<Arc<str>> {
        let Some(process) = self.processes.get_mut(&pid) else {
            return read().map(Arc::from).or_else(|| self.ended_groups.texts.get(&pid).cloned());
        };
        process.cgroup.get(read)
    }

    /// Command line of a process, found as in [`Processes::cgroup`]. The ID of a process that has ended may belong to
    /// another one by now, so a known command line takes precedence over `read`.
    pub fn command_line(
        &mut self,
        pid: i32,
        read: impl FnOnce() -> Option<String>,
    ) -> Option<Arc<str>> {
        match self.processes.get_mut(&pid) {
            Some(process) => process.command_line.get(read),
            None => {
                self.ended_command_lines.texts.get(&pid).cloned().or_else(|| read().map(Arc::from))
            }
        }
    }

    /// Sets a process's control group. Returns true if it differs from the previous one.
    pub fn moved(&mut self, pid: i32, path: &Arc<str>) -> bool {
        let group = &mut self.processes.entry(pid).or_default().cgroup;
        let is_new = group.text.as_ref() != Some(path);
        *group = Inherited { text: Some(Arc::clone(path)), is_known: true };
        is_new
    }

    /// Handles the start of a thread or process. A new process begins with its parent's mappings, a new thread with its
    /// parent's name. Returns true if it is a new process, which may have the ID of an earlier one.
    ///
    /// While a recording starts, the kernel may also announce processes that are found in `/proc`. They start twice,
    /// first with time 0. Both starts are the same process with the same threads, but its mappings are taken from the
    /// kernel's records.
    pub fn started(&mut self, start: &Start) -> bool {
        let Start { parent: (parent_pid, parent_tid), child: (pid, tid), time } = *start;
        let name = self.threads.get(&parent_tid).and_then(|thread| thread.name.clone());
        let mut is_new = false;
        if pid != parent_pid {
            let known = self.processes.get(&pid).and_then(|process| process.started);
            if known == Some(time) && time != 0 {
                return false;
            }
            is_new = known != Some(0) || time == 0;
            let space =
                if time == 0 { AddressSpace::new() } else { self.space(parent_pid).clone() };
            let parent = self.processes.get(&parent_pid);
            let cgroup = parent.and_then(|of| of.cgroup.text.clone());
            let command_line = parent.and_then(|of| of.command_line.text.clone());
            let ancestor = parent.map_or(0, |of| of.ancestor);
            let process = self.processes.entry(pid).or_default();
            process.started = Some(time);
            process.ancestor = if ancestor == 0 { parent_pid } else { ancestor };
            if is_new {
                process.cgroup = Inherited { text: cgroup, is_known: false };
                process.command_line = Inherited { text: command_line, is_known: false };
                self.incarnations = self.incarnations.wrapping_add(1);
                process.incarnation = self.incarnations;
                process.threads = 0;
            }
            // If the parent is not recorded, the mappings found in `/proc` are all that is known.
            if is_new || !space.is_empty() {
                process.space = space;
            }
        }
        self.thread(pid, tid).name = name;
        is_new
    }

    /// Handles the exit of a thread, which ends the process if it was the last one. Returns true if the process has
    /// ended.
    pub fn exited(&mut self, pid: i32, tid: i32) -> bool {
        if self.threads.get(&tid).is_none_or(|thread| thread.pid != pid) {
            return false;
        }
        let Some(thread) = self.threads.remove(&tid) else { return false };
        let incarnation = thread.incarnation;
        self.retired.add(tid, thread.name);
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        if process.incarnation != incarnation {
            return false;
        }
        process.threads = process.threads.saturating_sub(1);
        let gone = process.threads == 0;
        if gone && let Some(process) = self.processes.remove(&pid) {
            self.ended_groups.keep(pid, process.cgroup.text);
            self.ended_command_lines.keep(pid, process.command_line.text);
        }
        gone
    }

    /// State of a thread. A new thread is counted in its process.
    fn thread(&mut self, pid: i32, tid: i32) -> &mut ThreadState {
        let process = self.processes.entry(pid).or_default();
        let incarnation = process.incarnation;
        let fresh = ThreadState { pid, incarnation, name: None };
        match self.threads.entry(tid) {
            Entry::Vacant(entry) => {
                process.threads += 1;
                entry.insert(fresh)
            }
            Entry::Occupied(entry) => {
                let state = entry.into_mut();
                if (state.pid, state.incarnation) != (pid, incarnation) {
                    // The exit of an earlier thread with this ID was lost.
                    process.threads += 1;
                    *state = fresh;
                }
                state
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(processes: &Processes, pid: i32) -> usize {
        processes.space(pid).len()
    }

    fn fork(processes: &mut Processes, parent: (i32, i32), child: (i32, i32), time: u64) -> bool {
        processes.started(&Start { parent, child, time })
    }

    #[test]
    fn a_process_has_its_parents_control_group_until_its_own_is_read() {
        let mut processes = Processes::default();
        processes.named(1, 1, "shell");
        assert_eq!(processes.cgroup(1, || Some("/a".to_owned())).as_deref(), Some("/a"));
        assert_eq!(processes.cgroup(1, || panic!("it is known")).as_deref(), Some("/a"));
        fork(&mut processes, (1, 1), (2, 2), 5);
        fork(&mut processes, (1, 1), (3, 3), 5);
        assert_eq!(processes.cgroup(2, || None).as_deref(), Some("/a"), "it is gone");
        assert_eq!(processes.cgroup(3, || Some("/b".to_owned())).as_deref(), Some("/b"));
        processes.executed(3, None);
        assert_eq!(processes.cgroup(3, || Some("/c".to_owned())).as_deref(), Some("/c"));
        assert!(processes.moved(3, &Arc::from("/d")));
        assert!(!processes.moved(3, &Arc::from("/d")));
        assert_eq!(processes.cgroup(3, || panic!("it is known")).as_deref(), Some("/d"));
        assert_eq!(processes.cgroup(9, || None), None);
    }

    #[test]
    fn a_child_starts_as_its_parent_and_then_goes_its_own_way() {
        let mut processes = Processes::default();
        processes.named(1, 1, "7");
        processes.space_mut(1).map(0..10, 0, None, 0);
        fork(&mut processes, (1, 1), (2, 2), 9);
        assert_eq!(mapped(&processes, 2), 1);
        assert_eq!(processes.name(2).as_deref(), Some("7"));

        processes.executed(2, None);
        processes.named(2, 2, "8");
        assert_eq!(mapped(&processes, 2), 0);
        assert_eq!(mapped(&processes, 1), 1);
        assert_eq!(processes.name(1).as_deref(), Some("7"));
    }

    #[test]
    fn a_command_line_is_the_parents_until_another_program_runs() {
        let mut processes = Processes::default();
        let read = |text: &str| Some(text.to_owned());
        assert_eq!(processes.command_line(1, || read("late")).as_deref(), Some("late"), "unknown");
        processes.named(1, 1, "sh");
        assert_eq!(processes.command_line(1, || read("sh -c")).as_deref(), Some("sh -c"));
        assert!(fork(&mut processes, (1, 1), (2, 2), 5));
        assert_eq!(processes.command_line(2, || None).as_deref(), Some("sh -c"), "it is gone");
        processes.executed(2, None);
        assert_eq!(processes.command_line(2, || None), None, "its parent ran another program");
        processes.executed(2, None);
        assert_eq!(processes.command_line(2, || read("python3 a")).as_deref(), Some("python3 a"));
        assert!(processes.exited(2, 2));
        let of_another = || read("another with its number");
        assert_eq!(processes.command_line(2, of_another).as_deref(), Some("python3 a"));
    }

    #[test]
    fn a_process_goes_with_its_last_thread() {
        let mut processes = Processes::default();
        processes.named(1, 1, "7");
        processes.space_mut(1).map(0..10, 0, None, 0);
        fork(&mut processes, (1, 1), (1, 5), 9);
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
        fork(&mut processes, (1, 1), (9, 9), 9);
        assert_eq!(mapped(&processes, 9), 0);
        assert_eq!(processes.name(9).as_deref(), Some("7"));
    }

    /// `perf record -a`, and our own recordings of the whole machine, find processes in `/proc` while the
    /// kernel announces them already.
    #[test]
    fn a_process_that_is_found_and_then_announced_keeps_its_mappings() {
        let mut processes = Processes::default();
        fork(&mut processes, (0, 0), (1, 1), 0);
        processes.named(1, 1, "shell");
        processes.space_mut(1).map(0..10, 0, None, 0);
        processes.space_mut(1).map(20..30, 0, None, 0);
        // Found, with its threads and what it maps by then.
        fork(&mut processes, (1, 1), (2, 2), 0);
        fork(&mut processes, (2, 2), (2, 3), 0);
        processes.space_mut(2).map(50..60, 0, None, 0);
        assert_eq!(mapped(&processes, 2), 1);
        // Announced: it begins with what its parent maps.
        assert!(!fork(&mut processes, (1, 1), (2, 2), 100));
        assert_eq!(mapped(&processes, 2), 2);
        fork(&mut processes, (2, 2), (2, 3), 110);
        assert_eq!(mapped(&processes, 2), 2);
        assert!(!processes.exited(2, 2), "its other thread runs");
        assert_eq!(mapped(&processes, 2), 2);
        assert!(processes.exited(2, 3));
        assert!(!processes.runs(2) && processes.runs(1));
    }

    #[test]
    fn a_process_whose_announced_parent_is_not_recorded_keeps_what_was_found() {
        let mut processes = Processes::default();
        fork(&mut processes, (8, 8), (9, 9), 0);
        processes.space_mut(9).map(0..10, 0, None, 0);
        fork(&mut processes, (8, 8), (9, 9), 100);
        assert_eq!(mapped(&processes, 9), 1);
        assert!(processes.exited(9, 9));
    }

    #[test]
    fn a_start_that_is_announced_twice_changes_nothing() {
        let mut processes = Processes::default();
        processes.named(1, 1, "shell");
        assert!(fork(&mut processes, (1, 1), (2, 2), 100));
        processes.space_mut(2).map(0..10, 0, None, 0);
        processes.named(2, 2, "child");
        assert!(!fork(&mut processes, (1, 1), (2, 2), 100));
        assert_eq!(mapped(&processes, 2), 1);
        assert_eq!(processes.name(2).as_deref(), Some("child"));
        assert!(processes.exited(2, 2));
    }

    /// Threads of a process whose exits were lost are not counted in the next one with its number.
    #[test]
    fn threads_of_an_earlier_process_do_not_end_a_later_one() {
        let mut processes = Processes::default();
        processes.named(1, 1, "shell");
        fork(&mut processes, (1, 1), (2, 2), 100);
        fork(&mut processes, (2, 2), (2, 3), 110);
        assert!(fork(&mut processes, (1, 1), (2, 2), 200), "another process");
        processes.space_mut(2).map(0..10, 0, None, 0);
        assert!(!processes.exited(2, 3), "late, of the process before");
        assert_eq!(mapped(&processes, 2), 1);
        assert!(processes.exited(2, 2));
    }
}
