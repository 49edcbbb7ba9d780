//! Packs a chart as numbers, which `1-data.js` reads.
//!
//! The data consists of lists, each preceded by its length unless that follows from previous lists:
//!
//! 1. names;
//! 2. length of the chart in nanoseconds; CPU numbers;
//! 3. processes, in the order of their rows: PID + 1, name, number of threads;
//! 4. rows, one per thread, in the same order: TID, name, start of the first span relative to the chart's start,
//!    number of spans;
//! 5. the code of each span, in one byte: see [`code`]; then the duration of each span;
//! 6. for each running span, the index of its CPU in the list of CPUs; for each woken span, the row of its waker + 2,
//!    or 1 if the waker has no row, or 0 if the CPU was idle, and the CPU number;
//! 7. rows in the order in which their running spans begin, on any CPU;
//! 8. for each CPU, times of unknown activity (distance from the previous start, length), idle states (the same, and
//!    the state), frequencies (distance, kHz);
//! 9. stacks: frames as in the page of subsecond offsets; for each stack, its frame; for each off-CPU span, its stack
//!    or 0. Without stacks, there is only the number of frames, 0.

use std::io;

use flate2::Compression;
use pyrograph_analyze::{Activity, ReadyCause, TimedGraph};
use pyrograph_profile::{Strings, TaskId, TaskState};

use super::Shown;
use super::graph::pack_frames;
use crate::packed::Packed;
use crate::role::without_mark;
use crate::text::one_line;

/// Lowest code of blocked spans.
const BLOCKED: u8 = 5;
/// Number of states, including the unknown state.
const STATES: u8 = 9;
/// Codes of running spans, and of spans that began with a wakeup.
const RUNNING: u8 = 1;
const WOKEN: u8 = 4;
/// Code of spans that began with a preemption.
const PREEMPTED: u8 = 3;

/// Code of an activity: 0 for unknown, 1 for running, 2 for ready since before the first event, 3 for ready after
/// preemption, 4 for ready after a wakeup; from [`BLOCKED`] on, blocked by reason and state.
fn code(activity: Activity) -> u8 {
    match activity {
        Activity::Unknown => 0,
        Activity::Running { .. } => RUNNING,
        Activity::Ready(ReadyCause::Unknown) => 2,
        Activity::Ready(ReadyCause::Preempted) => PREEMPTED,
        Activity::Ready(ReadyCause::Woken { .. }) => WOKEN,
        Activity::Blocked { state, reason } => {
            BLOCKED + reason as u8 * STATES + state.map_or(0, |state| state as u8 + 1)
        }
    }
}

/// Meaning of each code, for the page: its kind, and the letter of its state.
pub(super) fn codes() -> impl Iterator<Item = (super::Kind, char)> {
    use pyrograph_profile::WaitReason as Reason;
    const REASONS: [Reason; 7] = [
        Reason::Unknown,
        Reason::Sleep,
        Reason::Disk,
        Reason::Lock,
        Reason::Network,
        Reason::Pipe,
        Reason::Child,
    ];
    const OF: [TaskState; 8] = [
        TaskState::Runnable,
        TaskState::Sleeping,
        TaskState::Uninterruptible,
        TaskState::IdleKernel,
        TaskState::Stopped,
        TaskState::Traced,
        TaskState::Dead,
        TaskState::Parked,
    ];
    let ready = Activity::Ready(ReadyCause::Unknown);
    let first = [Activity::Unknown, Activity::Running { cpu: 0 }, ready, ready, ready];
    let states = || std::iter::once(None).chain(OF.map(Some));
    let blocked = REASONS
        .into_iter()
        .flat_map(move |reason| states().map(move |state| Activity::Blocked { state, reason }));
    first.into_iter().chain(blocked).map(|activity| {
        let letter = match activity {
            Activity::Blocked { state: Some(state), .. } => state.letter(),
            _ => '-',
        };
        (super::Kind::of(activity), letter)
    })
}

/// Compression level. With this, a million switches are packed in about half a second, and take 15 % more space than
/// at the highest level.
const LEVEL: u32 = 6;

/// Packs a chart into a gzip file. `graph` contains the frames of the stacks, and the colour of each frame.
pub(super) fn pack(shown: &Shown<'_>, graph: Option<(&TimedGraph, &[u64])>) -> io::Result<Vec<u8>> {
    let mut list = Packed::new(Compression::new(LEVEL));
    let rows: Vec<TaskId> =
        shown.processes.iter().flat_map(|process| &process.tasks).copied().collect();
    let names = names(shown, &rows, graph.map(|(graph, _)| graph));
    let number = |name: &str| names.find(name).map_or(0, |id| id.0.into());
    list.number(names.len() as u64)?;
    names.iter().try_for_each(|name| list.text(name))?;
    processes_and_rows(shown, &rows, number, &mut list)?;
    spans(shown, &rows, &mut list)?;
    order_of_runs(shown, &rows, &mut list)?;
    cpus(shown, &mut list)?;
    let Some((graph, paint_of)) = graph else {
        list.number(0)?;
        return list.finish();
    };
    let name_of = |name| number(without_mark(graph.graph.names.get(name)));
    pack_frames(&mut list, &graph.graph, paint_of, name_of)?;
    // Stacks in the order of their numbers: there is one sample per stack.
    list.number(graph.samples.len() as u64)?;
    for sample in &graph.samples {
        list.number(sample.frame.into())?;
    }
    for row in &rows {
        let timeline = &shown.chart.tasks[row.index()];
        for (activity, stack) in timeline.activities.iter().zip(&timeline.stacks) {
            let code = code(*activity);
            if code == PREEMPTED || code >= BLOCKED {
                list.number((*stack).into())?;
            }
        }
    }
    list.finish()
}

fn names(shown: &Shown<'_>, rows: &[TaskId], graph: Option<&TimedGraph>) -> Strings {
    let mut names = Strings::default();
    for process in &shown.processes {
        names.intern(&one_line(&process.name));
    }
    for row in rows {
        names.intern(&one_line(&shown.tasks.get(*row).name));
    }
    for name in graph.into_iter().flat_map(|graph| graph.graph.names.iter()) {
        names.intern(without_mark(name));
    }
    names
}

fn processes_and_rows(
    shown: &Shown<'_>,
    rows: &[TaskId],
    name: impl Fn(&str) -> u64,
    list: &mut Packed,
) -> io::Result<()> {
    let chart = shown.chart;
    list.number(chart.end - chart.start)?;
    list.number(shown.cpus().count() as u64)?;
    for cpu in shown.cpus() {
        list.number(cpu as u64)?;
    }
    list.number(shown.processes.len() as u64)?;
    for process in &shown.processes {
        list.number((i64::from(process.pid) + 1).max(0) as u64)?;
        list.number(name(&one_line(&process.name)))?;
        list.number(process.tasks.len() as u64)?;
    }
    for row in rows {
        let (task, timeline) = (shown.tasks.get(*row), &chart.tasks[row.index()]);
        list.number(i64::from(task.tid).max(0) as u64)?;
        list.number(name(&one_line(&task.name)))?;
        list.number(timeline.starts[0] - chart.start)?;
        list.number(timeline.starts.len() as u64)?;
    }
    Ok(())
}

fn spans(shown: &Shown<'_>, rows: &[TaskId], list: &mut Packed) -> io::Result<()> {
    let chart = shown.chart;
    let timelines = || rows.iter().map(|row| &chart.tasks[row.index()]);
    for timeline in timelines() {
        let codes: Vec<u8> = timeline.activities.iter().map(|activity| code(*activity)).collect();
        list.bytes(&codes)?;
    }
    for timeline in timelines() {
        for (range, _) in timeline.spans() {
            list.number(range.end - range.start)?;
        }
    }
    let mut place_of = vec![0u64; chart.cpus.len()];
    for (place, cpu) in (0..).zip(shown.cpus()) {
        place_of[cpu] = place;
    }
    for timeline in timelines() {
        for activity in &timeline.activities {
            if let Activity::Running { cpu } = activity {
                list.number(place_of[*cpu as usize])?;
            }
        }
    }
    let row_of = row_of(shown, rows);
    for timeline in timelines() {
        for activity in &timeline.activities {
            if let Activity::Ready(ReadyCause::Woken { waker, cpu }) = activity {
                let row = row_of.get(waker.index()).copied().flatten();
                let idle = *waker == TaskId::IDLE;
                list.number(row.map_or(u64::from(!idle), |row| u64::from(row) + 2))?;
                list.number((*cpu).into())?;
            }
        }
    }
    Ok(())
}

/// Row of each task.
fn row_of(shown: &Shown<'_>, rows: &[TaskId]) -> Vec<Option<u32>> {
    let mut row_of = vec![None; shown.chart.tasks.len()];
    for (number, row) in (0..).zip(rows) {
        row_of[row.index()] = Some(number);
    }
    row_of
}

fn order_of_runs(shown: &Shown<'_>, rows: &[TaskId], list: &mut Packed) -> io::Result<()> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for (number, row) in (0..).zip(rows) {
        let timeline = &shown.chart.tasks[row.index()];
        let starts = timeline.starts.iter().zip(&timeline.activities);
        let running = starts.filter(|(_, activity)| matches!(activity, Activity::Running { .. }));
        runs.extend(running.map(|(start, _)| (*start, number)));
    }
    runs.sort_unstable();
    list.number(runs.len() as u64)?;
    runs.iter().try_for_each(|(_, row)| list.number((*row).into()))
}

fn cpus(shown: &Shown<'_>, list: &mut Packed) -> io::Result<()> {
    let chart = shown.chart;
    for cpu in shown.cpus() {
        let timeline = &chart.cpus[cpu];
        let unknown = timeline.runs(chart.end).filter(|(_, task)| task.is_none());
        let unknown: Vec<_> = unknown.map(|(range, _)| range).collect();
        list.number(unknown.len() as u64)?;
        let mut before = chart.start;
        for range in unknown {
            list.number(range.start - before)?;
            list.number(range.end - range.start)?;
            before = range.start;
        }
        list.number(timeline.idle.len() as u64)?;
        let mut before = chart.start;
        for span in &timeline.idle {
            list.number(span.start - before)?;
            list.number(span.end - span.start)?;
            list.number(span.state.into())?;
            before = span.start;
        }
        list.number(timeline.frequencies.len() as u64)?;
        let mut before = chart.start;
        for (time, frequency) in &timeline.frequencies {
            list.number(time - before)?;
            list.number((*frequency).into())?;
            before = *time;
        }
    }
    Ok(())
}
