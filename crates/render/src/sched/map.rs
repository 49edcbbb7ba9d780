//! Output of the map of CPUs over time, as by `perf sched map`.

use std::io::{self, Write};

use pyrograph_analyze::{MapLine, TaskLetters};
use pyrograph_profile::{SchedTasks, TaskId};

use super::seconds;
use crate::text::one_line;

/// Appearance of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapLook {
    /// Colours letters; a task always has the same colour.
    pub colors: bool,
    /// Only shows columns for CPUs with known tasks.
    pub compact: bool,
    /// Minimum number of CPU columns.
    pub cpus: usize,
    /// CPUs to highlight.
    pub color_cpus: Vec<u32>,
    /// Threads to highlight.
    pub color_tids: Vec<i32>,
}

/// Writes a line of the map.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_map_line(
    look: &MapLook,
    line: &MapLine<'_>,
    tasks: &SchedTasks,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "  ")?;
    let columns = if look.compact { line.cells.len() } else { look.cpus.max(line.cells.len()) };
    for cpu in 0..columns {
        let task = line.cells.get(cpu).copied().flatten();
        if task.is_none() && look.compact {
            continue;
        }
        let mark = if cpu as u32 == line.cpu { '*' } else { ' ' };
        let letters = task.map_or(String::new(), |task| letters(line, task));
        let (on, off) = match task.filter(|_| look.colors) {
            Some(task) => color(look, cpu as u32, task, tasks),
            None => ("", ""),
        };
        write!(out, "{mark}{on}{letters:<2}{off} ")?;
    }
    write!(out, "  {:>12} secs", seconds(line.time))?;
    for (at, task) in line.new.iter().enumerate() {
        let row = tasks.get(*task);
        let comma = if at == 0 { " " } else { ", " };
        write!(out, "{comma}{:<2} => {}:{}", letters(line, *task), one_line(&row.name), row.tid)?;
    }
    if look.compact && !line.new.is_empty() {
        write!(out, " (CPU {})", line.cpu)?;
    }
    writeln!(out)
}

/// Letters of a task; a dot for an idle CPU.
fn letters(line: &MapLine<'_>, task: TaskId) -> String {
    match task {
        TaskId::IDLE => ".".to_owned(),
        task => line.letters.get(&task).copied().map_or("?".to_owned(), TaskLetters::text),
    }
}

fn color(
    look: &MapLook,
    cpu: u32,
    task: TaskId,
    tasks: &SchedTasks,
) -> (&'static str, &'static str) {
    const END: &str = "\x1b[0m";
    if look.color_tids.contains(&tasks.get(task).tid) {
        return ("\x1b[1;7m", END);
    }
    if look.color_cpus.contains(&cpu) {
        return ("\x1b[1;4m", END);
    }
    // Colours that are readable on light and dark backgrounds.
    const COLORS: [&str; 6] =
        ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m"];
    match task {
        TaskId::IDLE => ("", ""),
        task => (COLORS[task.index() % COLORS.len()], END),
    }
}
