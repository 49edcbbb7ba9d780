//! Command lines that are reported before the record of the `exec` that they belong to is processed.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// Number of command lines that are kept. More are pending only if records of processes were lost.
const MOST: usize = 4096;

/// Command lines by process ID, with their times, oldest first.
#[derive(Debug, Default)]
pub struct Announced {
    lines: HashMap<i32, VecDeque<(u64, String)>>,
    count: usize,
}

impl Announced {
    /// Adds the command line of a program that a process has begun to run.
    pub fn add(&mut self, pid: i32, time: u64, line: String) {
        if self.count == MOST {
            *self = Self::default();
        }
        self.lines.entry(pid).or_default().push_back((time, line));
        self.count += 1;
    }

    /// Takes the command line of the program that a process began to run at `time`: the first one at or after that
    /// time, because the kernel renames the process before it reports that the program runs.
    pub fn take(&mut self, pid: i32, time: u64) -> Option<String> {
        let lines = self.lines.get_mut(&pid)?;
        let before = lines.len();
        lines.retain(|(at, _)| *at >= time);
        let line = lines.pop_front();
        self.count -= before - lines.len();
        if lines.is_empty() {
            self.lines.remove(&pid);
        }
        line.map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_first_command_line_after_it_began() {
        let mut all = Announced::default();
        for (pid, time, line) in [(1, 10, "sh"), (1, 20, "cat"), (2, 15, "ls"), (1, 30, "true")] {
            all.add(pid, time, line.to_owned());
        }
        assert_eq!(all.take(3, 0), None);
        assert_eq!(all.take(1, 9).as_deref(), Some("sh"));
        // The record of `cat` was lost.
        assert_eq!(all.take(1, 29).as_deref(), Some("true"));
        assert_eq!(all.take(1, 40), None);
        assert_eq!((all.take(2, 15).as_deref(), all.count), (Some("ls"), 0));
        for pid in 0..3 * MOST as i32 {
            all.add(pid, 0, String::new());
        }
        assert!(all.count <= MOST && all.count == all.lines.len());
    }
}
