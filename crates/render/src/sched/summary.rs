//! Output of the summary of the switch history, in the columns of `perf sched timehist -s`.

use std::io::{self, Write};

use pyrograph_analyze::{SchedSummary, TaskSummary};
use pyrograph_profile::{SchedTasks, TaskId};

use super::{milliseconds, task_name};
use crate::grouped;

/// Writes the run times of tasks.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_sched_summary(
    summary: &SchedSummary,
    tasks: &SchedTasks,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\nRuntime summary")?;
    writeln!(
        out,
        "{:>30}  {:>6}   {:>8}     {:>8}    {:>7}     {:>7}     {:>7}  {:>6}  {:>10}",
        "comm",
        "parent",
        "sched-in",
        "run-time",
        "min-run",
        "avg-run",
        "max-run",
        "stddev",
        "migrations"
    )?;
    writeln!(
        out,
        "{:>30}  {:>6}    {:>7}       {:>6}     {:>6}      {:>6}      {:>6}       %",
        "", "", "(count)", "(msec)", "(msec)", "(msec)", "(msec)"
    )?;
    writeln!(out, "{}", "-".repeat(117))?;
    let row = |of: &TaskSummary, out: &mut dyn Write| {
        let run = &of.run;
        let known = |time: u64| if run.count > 0 { milliseconds(time) } else { "-".to_owned() };
        writeln!(
            out,
            "{:>9}  {:>11}  {:>9}   {:>9}   {:>9}  {:>6.2}  {:>6}",
            grouped(of.switches),
            known(run.total),
            known(run.least),
            known(run.mean() as u64),
            known(run.most),
            100.0 * run.relative_deviation(),
            of.migrations
        )
    };
    each(summary, tasks, out, &row)?;
    foot(summary, out)
}

/// Writes the wait times of tasks.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_sched_waits(
    summary: &SchedSummary,
    tasks: &SchedTasks,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\nWait-time summary")?;
    writeln!(
        out,
        "{:>30}  {:>6}   {:>8}     {:>8}      {:>5}      {:>6}     {:>7}       {:>5}",
        "comm", "parent", "sched-in", "run-time", "sleep", "iowait", "preempt", "delay"
    )?;
    writeln!(
        out,
        "{:>30}  {:>6}    {:>7}       {:>6}     {:>6}      {:>6}      {:>6}       {:>6}",
        "", "", "(count)", "(msec)", "(msec)", "(msec)", "(msec)", "(msec)"
    )?;
    writeln!(out, "{}", "-".repeat(117))?;
    let row = |of: &TaskSummary, out: &mut dyn Write| {
        let times = [of.run.total, of.sleep, of.uninterruptible, of.preempted, of.delay];
        let [run, sleep, uninterruptible, preempted, delay] = times.map(milliseconds);
        writeln!(
            out,
            "{:>9}  {run:>11}  {sleep:>9}   {uninterruptible:>9}   {preempted:>9}   {delay:>9}",
            grouped(of.switches)
        )
    };
    each(summary, tasks, out, &row)?;
    foot(summary, out)
}

type Row<'a> = dyn Fn(&TaskSummary, &mut dyn Write) -> io::Result<()> + 'a;

/// Writes the rows of tasks, with terminated tasks last.
fn each(
    summary: &SchedSummary,
    tasks: &SchedTasks,
    out: &mut dyn Write,
    row: &Row<'_>,
) -> io::Result<()> {
    for has_ended in [false, true] {
        let mut rows: Vec<(TaskId, &TaskSummary)> = summary
            .tasks
            .iter()
            .filter(|(_, of)| of.has_ended == has_ended && of.switches > 0)
            .map(|(task, of)| (*task, of))
            .collect();
        rows.sort_by_key(|(task, _)| (tasks.get(*task).tid, *task));
        if has_ended && !rows.is_empty() {
            writeln!(out, "\nTerminated tasks:")?;
        }
        for (task, of) in rows {
            let parent = tasks.get(task).parent.map(|parent| tasks.get(parent).tid.to_string());
            let parent = parent.unwrap_or_else(|| "-".to_owned());
            write!(out, "{:>30}  {parent:>6}  ", task_name(tasks.get(task)))?;
            row(of, out)?;
        }
    }
    Ok(())
}

fn foot(summary: &SchedSummary, out: &mut dyn Write) -> io::Result<()> {
    let span = summary.span.map_or(0, |(first, last)| last - first);
    writeln!(out, "\nIdle stats:")?;
    for (cpu, idle) in &summary.idle {
        match idle {
            Some(time) => {
                let share = if span > 0 { 100.0 * *time as f64 / span as f64 } else { 0.0 };
                let time = milliseconds(*time);
                writeln!(out, "    CPU {cpu:>2} idle for {time:>10}  msec  ({share:>6.2}%)")?;
            }
            None => writeln!(out, "    CPU {cpu:>2} was never idle")?,
        }
    }
    let run = summary.tasks.values().fold(0_u64, |sum, of| sum.saturating_add(of.run.total));
    let count = summary.tasks.values().filter(|of| of.switches > 0).count();
    writeln!(out, "\n    Total number of unique tasks: {count}")?;
    writeln!(out, "Total number of context switches: {}", summary.switches)?;
    writeln!(out, "           Total run time (msec): {}", milliseconds(run))?;
    let cpus = summary.idle.len();
    writeln!(out, "    Total scheduling time (msec): {}  (x {cpus})", milliseconds(span))
}
