//! Output of the switch history, in the columns of `perf sched timehist`.

use std::io::{self, Write};
use std::sync::Arc;

use pyrograph_analyze::{Stint, TimehistEvent, TimehistRow};
use pyrograph_profile::{SchedTasks, StackLine, TaskId};
use serde_json::{Value, json};

use super::{frame_name, milliseconds, seconds, short_name, task_name};
use crate::csv::field;
use crate::text::one_line;

/// Output format of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimehistStyle {
    /// The columns of perf.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
    /// Comma-separated values.
    Csv,
}

/// Appearance of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimehistLook {
    /// Output format.
    pub style: TimehistStyle,
    /// Number of CPUs that have a column of one character, which marks the CPU of the event; 0 for none.
    pub cpus: u32,
    /// Includes rows for wakeups.
    pub wakeups: bool,
    /// Includes rows for migrations.
    pub migrations: bool,
    /// Includes the task that runs next.
    pub next: bool,
    /// Includes the state in which the task left its CPU.
    pub state: bool,
    /// Maximum number of frames of a stack to show; 0 for no stacks.
    pub frames: usize,
    /// Only includes rows of the idle task, with the stack of the task that left the CPU before it.
    pub idle: bool,
}

/// Writes the rows of the history.
pub struct TimehistWriter<'a> {
    look: TimehistLook,
    out: &'a mut dyn Write,
}

/// Width of task names.
const NAME: usize = 30;

impl<'a> TimehistWriter<'a> {
    /// Writes the column headings.
    ///
    /// # Errors
    ///
    /// Fails if writing to `out` fails.
    pub fn new(look: TimehistLook, out: &'a mut dyn Write) -> io::Result<Self> {
        match look.style {
            TimehistStyle::Text => heads(look, out)?,
            TimehistStyle::Json => {}
            TimehistStyle::Csv => write!(
                out,
                "time_ns,cpu,event,name,tid,pid,wait_ns,delay_ns,run_ns,state,other,other_tid,from_cpu,to_cpu,stack\r\n"
            )?,
        }
        Ok(Self { look, out })
    }

    /// Flushes the output.
    ///
    /// # Errors
    ///
    /// Fails if writing to the output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a row, if rows of its kind are included.
    ///
    /// # Errors
    ///
    /// Fails if writing to the output fails.
    pub fn row(&mut self, tasks: &SchedTasks, row: &TimehistRow) -> io::Result<()> {
        let is_shown = match row.what {
            TimehistEvent::Switch { .. } => true,
            TimehistEvent::Wakeup(_) => self.look.wakeups,
            TimehistEvent::Migration { .. } => self.look.migrations,
        };
        let is_idle = row.task == TaskId::IDLE && matches!(row.what, TimehistEvent::Switch { .. });
        if !is_shown || (self.look.idle && !is_idle) {
            return Ok(());
        }
        match self.look.style {
            TimehistStyle::Text => self.text(tasks, row),
            TimehistStyle::Json => writeln!(self.out, "{}", self.json(tasks, row)),
            TimehistStyle::Csv => self.csv(tasks, row),
        }
    }

    fn text(&mut self, tasks: &SchedTasks, row: &TimehistRow) -> io::Result<()> {
        let (look, out) = (self.look, &mut *self.out);
        write!(out, "{:>15} [{:04}] ", seconds(row.time), row.cpu)?;
        if look.cpus > 0 {
            let mark = match row.what {
                TimehistEvent::Switch { .. } if row.task == TaskId::IDLE => 'i',
                TimehistEvent::Switch { .. } => 's',
                TimehistEvent::Migration { .. } => 'm',
                TimehistEvent::Wakeup(_) => ' ',
            };
            let columns = 0..look.cpus;
            let columns: String =
                columns.map(|cpu| if cpu == row.cpu { mark } else { ' ' }).collect();
            write!(out, " {columns} ")?;
        }
        write!(out, " {:<NAME$} ", task_name(tasks.get(row.task)))?;
        match &row.what {
            TimehistEvent::Switch { stint, next, stack, idle_since } => {
                let (wait, delay, run) = times(stint);
                write!(out, " {:>9}  {:>9}  {:>9}", cell(wait), cell(delay), cell(run))?;
                if look.state {
                    write!(out, "  {:>5}", stint.state.letter())?;
                }
                let stack = shown_stack(look, stack, idle_since.as_ref());
                let has_stack = look.frames > 0 && !stack.is_empty();
                if look.next {
                    let (name, width) =
                        (short_name(tasks.get(*next), row.cpu), if has_stack { 27 } else { 0 });
                    write!(out, "  next: {name:<width$}")?;
                }
                if has_stack {
                    write!(out, "  {}", short_stack(stack, look.frames))?;
                }
            }
            TimehistEvent::Wakeup(task) => {
                write!(out, "{:34}awakened: {}", "", task_name(tasks.get(*task)))?;
            }
            TimehistEvent::Migration { task, from, to } => {
                let name = task_name(tasks.get(*task));
                write!(out, "{:34}migrated: {name} cpu {from} => {to}", "")?;
            }
        }
        writeln!(out)
    }

    fn json(&self, tasks: &SchedTasks, row: &TimehistRow) -> Value {
        let of = |task: TaskId| {
            let row = tasks.get(task);
            json!({"name": row.name, "tid": row.tid, "pid": (row.pid >= 0).then_some(row.pid)})
        };
        let mut object = json!({"time_ns": row.time, "cpu": row.cpu, "task": of(row.task)});
        let more = match &row.what {
            TimehistEvent::Switch { stint, next, stack, idle_since } => {
                let (wait, delay, run) = times(stint);
                let stack = shown_stack(self.look, stack, idle_since.as_ref());
                let stack: Vec<String> = stack.iter().map(|line| frame_name(line)).collect();
                json!({
                    "event": "switch",
                    "wait_ns": wait,
                    "delay_ns": delay,
                    "run_ns": run,
                    "preempted": stint.arrival.and_then(|it| it.ready).map(|it| it.preempted),
                    "state": stint.state.letter().to_string(),
                    "next": of(*next),
                    "stack": stack,
                })
            }
            TimehistEvent::Wakeup(task) => json!({"event": "wakeup", "woken": of(*task)}),
            TimehistEvent::Migration { task, from, to } => {
                json!({"event": "migration", "moved": of(*task), "from_cpu": from, "to_cpu": to})
            }
        };
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    }

    fn csv(&mut self, tasks: &SchedTasks, row: &TimehistRow) -> io::Result<()> {
        let task = tasks.get(row.task);
        let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
        let pid = number(u64::try_from(task.pid).ok());
        let (event, times, state, other, cpus, stack) = match &row.what {
            TimehistEvent::Switch { stint, next, stack, idle_since } => {
                let stack = shown_stack(self.look, stack, idle_since.as_ref());
                let stack: Vec<String> = stack.iter().map(|line| frame_name(line)).collect();
                let state = stint.state.letter().to_string();
                ("switch", times(stint), state, *next, (None, None), stack.join(";"))
            }
            TimehistEvent::Wakeup(task) => {
                let none = (None, None, None);
                ("wakeup", none, String::new(), *task, (None, None), String::new())
            }
            TimehistEvent::Migration { task, from, to } => {
                let (none, cpus) = ((None, None, None), (Some(*from), Some(*to)));
                ("migration", none, String::new(), *task, cpus, String::new())
            }
        };
        let (wait, delay, run) = times;
        let other = tasks.get(other);
        write!(
            self.out,
            "{},{},{event},{},{},{pid},{},{},{},{state},{},{},{},{},{}\r\n",
            row.time,
            row.cpu,
            field(&one_line(&task.name)),
            task.tid,
            number(wait),
            number(delay),
            number(run),
            field(&one_line(&other.name)),
            other.tid,
            number(cpus.0.map(u64::from)),
            number(cpus.1.map(u64::from)),
            field(&stack)
        )
    }
}

type StackText = Arc<[Arc<StackLine>]>;

fn shown_stack<'a>(
    look: TimehistLook,
    own: &'a StackText,
    idle_since: Option<&'a StackText>,
) -> &'a [Arc<StackLine>] {
    match idle_since {
        Some(before) if look.idle => before,
        _ => own,
    }
}

/// Time without a CPU, run queue latency after the wakeup, and run time; each `None` if unknown. As in perf, a
/// preempted task has no latency: all of its time without a CPU is wait time.
fn times(stint: &Stint) -> (Option<u64>, Option<u64>, Option<u64>) {
    let arrival = stint.arrival.as_ref();
    let ready = arrival.and_then(|arrival| arrival.ready);
    let delay = match ready {
        Some(ready) if ready.preempted => Some(0),
        _ if stint.task == TaskId::IDLE => Some(0),
        _ => arrival.and_then(pyrograph_analyze::Arrival::delay),
    };
    let run = stint.on_cpu().or(stint.counted);
    (arrival.and_then(pyrograph_analyze::Arrival::absent), delay, run)
}

/// Formats a time; an unknown time is shown as a dash, because 0 would be a valid time.
fn cell(time: Option<u64>) -> String {
    time.map_or("-".to_owned(), milliseconds)
}

/// Formats the innermost frames, without those of the scheduler itself: `main <- start`.
fn short_stack(stack: &[Arc<StackLine>], most: usize) -> String {
    const OWN: [&str; 7] = [
        "__traceiter_sched_switch",
        "__schedule",
        "schedule",
        "preempt_schedule",
        "preempt_schedule_common",
        "preempt_schedule_irq",
        "schedule_idle",
    ];
    let rest = stack.iter().skip_while(|line| OWN.contains(&line.function.as_str()));
    let names: Vec<String> = rest.take(most).map(|line| frame_name(line)).collect();
    names.join(" <- ")
}

fn heads(look: TimehistLook, out: &mut dyn Write) -> io::Result<()> {
    let digit = |cpu: u32| char::from_digit(cpu % 10, 10).unwrap_or(' ');
    let digits: String = (0..look.cpus).map(digit).collect();
    let cpus = |text: &str| if look.cpus > 0 { format!(" {text} ") } else { String::new() };
    let blank = cpus(&" ".repeat(digits.len()));
    let state = |text: &str| if look.state { format!("  {text:>5}") } else { String::new() };
    writeln!(
        out,
        "{:>15} {:>6} {} {:<NAME$}  {:>9}  {:>9}  {:>9}{}",
        "time",
        "cpu",
        cpus(&digits),
        "task name",
        "wait time",
        "sch delay",
        "run time",
        state("state")
    )?;
    let line = format!(
        "{:>15} {:>6} {blank} {:<NAME$}  {:>9}  {:>9}  {:>9}",
        "", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
    );
    writeln!(out, "{line}")?;
    let dash = |count: usize| "-".repeat(count);
    writeln!(
        out,
        "{} {} {} {}  {}  {}  {}{}",
        dash(15),
        dash(6),
        cpus(&dash(digits.len())),
        dash(NAME),
        dash(9),
        dash(9),
        dash(9),
        state(&dash(5))
    )
}
