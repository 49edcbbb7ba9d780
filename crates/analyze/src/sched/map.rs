//! The CPUs over time: which task each has, as letters.

use std::collections::HashMap;

use pyrograph_profile::{SchedAction, SchedEvent, SchedTasks, TaskId};

use super::filter::SchedFilter;
use super::track::SchedTrack;

/// Makes a line of each switch, an event at a time.
#[derive(Clone, Debug, Default)]
pub struct SchedMap {
    track: SchedTrack,
    letters: HashMap<TaskId, TaskLetters>,
    /// By CPU, the task that it has, once that was seen.
    cells: Vec<Option<TaskId>>,
    new: Vec<TaskId>,
}

/// The letters of a task: `A0` to `Z9`, and when these are used up, `AA0` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLetters(pub u32);

impl TaskLetters {
    /// As text.
    pub fn text(self) -> String {
        let letter = |number: u32| char::from(b'A' + (number % 26) as u8);
        // The digit counts slower than the letter, for letters are easier to tell apart.
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

/// A line: a CPU has another task.
#[derive(Clone, Copy, Debug)]
pub struct MapLine<'a> {
    /// Nanoseconds on the recording's clock.
    pub time: u64,
    /// The CPU that has another task.
    pub cpu: u32,
    /// The task that it has now.
    pub task: TaskId,
    /// Tasks that are in no line before: their letters need a legend.
    pub new: &'a [TaskId],
    /// By CPU, the task that it has; `None` where that was not seen.
    pub cells: &'a [Option<TaskId>],
    /// The letters of tasks.
    pub letters: &'a HashMap<TaskId, TaskLetters>,
}

impl SchedMap {
    /// Follows an event. Returns its line, if it is a switch that `filter` keeps.
    pub fn push(
        &mut self,
        tasks: &SchedTasks,
        filter: &SchedFilter,
        event: &SchedEvent,
    ) -> Option<MapLine<'_>> {
        self.track.event(event);
        let SchedAction::Switch { previous, next, .. } = event.action else { return None };
        // More CPUs than fit on any screen: those of a damaged file.
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
            // A dot stands for the idle task.
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

    /// How many switches are missing in the trace.
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
