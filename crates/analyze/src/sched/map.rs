//! Map of CPUs over time: the task that each CPU runs, as letters.

use std::collections::HashMap;

use pyrograph_profile::{SchedAction, SchedEvent, SchedTasks, TaskId};

use super::filter::SchedFilter;
use super::track::SchedTrack;

/// Makes a line of each switch, one event at a time.
#[derive(Clone, Debug, Default)]
pub struct SchedMap {
    track: SchedTrack,
    letters: HashMap<TaskId, TaskLetters>,
    /// For each CPU, the task that it runs, if known.
    cells: Vec<Option<TaskId>>,
    new: Vec<TaskId>,
}

/// Letters that identify a task: `A0` to `Z9`, then `AA0` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLetters(pub u32);

impl TaskLetters {
    /// Formats the letters.
    pub fn text(self) -> String {
        let letter = |number: u32| char::from(b'A' + (number % 26) as u8);
        // The digit advances slower than the letter, because letters are easier to distinguish.
        let digit = char::from(b'0' + (self.0 / 26 % 10) as u8);
        let mut text = vec![digit, letter(self.0)];
        let mut above = self.0 / 260;
        while above > 0 {
            above -= 1;
            text.push(letter(above));
            above /= 26;
        }
        text.into_iter().rev().collect()
    }
}

/// A line of the map: a CPU switched to another task.
#[derive(Clone, Copy, Debug)]
pub struct MapLine<'a> {
    /// Time in nanoseconds on the recording's clock.
    pub time: u64,
    /// CPU that switched.
    pub cpu: u32,
    /// Task that it switched to.
    pub task: TaskId,
    /// Tasks that appear for the first time, whose letters need a legend.
    pub new: &'a [TaskId],
    /// For each CPU, the task that it runs; `None` if unknown.
    pub cells: &'a [Option<TaskId>],
    /// Letters of all tasks so far.
    pub letters: &'a HashMap<TaskId, TaskLetters>,
}

impl SchedMap {
    /// Adds an event. Returns a line if it is a switch that `filter` keeps.
    pub fn push(
        &mut self,
        tasks: &SchedTasks,
        filter: &SchedFilter,
        event: &SchedEvent,
    ) -> Option<MapLine<'_>> {
        self.track.event(event);
        let SchedAction::Switch { previous, next, .. } = event.action else { return None };
        // Higher CPU numbers are from damaged files, and would not fit on a screen.
        const MOST: u32 = 1 << 12;
        if event.cpu >= MOST || !filter.keeps_cpu(event.cpu) {
            return None;
        }
        let at = event.cpu as usize;
        if self.cells.len() <= at {
            self.cells.resize(at + 1, None);
        }
        self.cells[at] = Some(next);
        let keeps = |task| filter.keeps_task(tasks, task);
        if !filter.keeps_time(event.time) || !(keeps(previous) || keeps(next)) {
            return None;
        }
        self.new.clear();
        for &task in self.cells.iter().flatten() {
            // The idle task is shown as a dot.
            let count =
                self.letters.len() as u32 - u32::from(self.letters.contains_key(&TaskId::IDLE));
            self.letters.entry(task).or_insert_with(|| {
                self.new.push(task);
                TaskLetters(count)
            });
        }
        let (time, cpu) = (event.time, event.cpu);
        let (new, cells, letters) = (&self.new[..], &self.cells[..], &self.letters);
        Some(MapLine { time, cpu, task: next, new, cells, letters })
    }

    /// Number of switches that are missing in the trace.
    pub fn missing(&self) -> u64 {
        self.track.missing()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn letters_are_all_different() {
        let text = |number| TaskLetters(number).text();
        assert_eq!([0, 1, 25, 26, 259].map(text), ["A0", "B0", "Z0", "A1", "Z9"]);
        assert_eq!([260, 261, 519, 520].map(text), ["AA0", "AB0", "AZ9", "BA0"]);
        let all: HashSet<String> = (0..100_000).map(text).collect();
        assert_eq!(all.len(), 100_000);
    }
}
