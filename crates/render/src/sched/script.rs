//! Output of single scheduler events, in the layout of `perf script`.

use std::io::{self, Write};

use pyrograph_profile::{SchedAction, SchedEvent, SchedTask, SchedTasks, StackLine, TaskId};
use serde_json::{Value, json};

use super::frame_name;
use crate::text::one_line;

/// Output format of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedScriptStyle {
    /// A line per event, with the stack below it.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

/// Writes an event. `current` is the task that was running on its CPU.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn write_sched_event(
    style: SchedScriptStyle,
    tasks: &SchedTasks,
    current: TaskId,
    event: &SchedEvent,
    out: &mut dyn Write,
) -> io::Result<()> {
    match style {
        SchedScriptStyle::Text => text(tasks, current, event, out),
        SchedScriptStyle::Json => writeln!(out, "{}", event_json(tasks, current, event)),
    }
}

fn text(
    tasks: &SchedTasks,
    current: TaskId,
    event: &SchedEvent,
    out: &mut dyn Write,
) -> io::Result<()> {
    let SchedTask { pid, tid, .. } = tasks.get(current);
    let name = name(tasks, current, event.cpu);
    let process = if *pid >= 0 { format!("{pid}/{tid}") } else { tid.to_string() };
    let (seconds, nanos) = (event.time / 1_000_000_000, event.time % 1_000_000_000);
    write!(out, "{name:>16} {process:>11} [{:03}] {seconds:>5}.{nanos:09}: ", event.cpu)?;
    writeln!(out, "{}: {}", event_name(&event.action), fields(tasks, event))?;
    if event.stack.is_empty() {
        return Ok(());
    }
    event.stack.iter().try_for_each(|line| frame(line, out))?;
    writeln!(out)
}

fn frame(line: &StackLine, out: &mut dyn Write) -> io::Result<()> {
    let module = if line.module.is_empty() { "[unknown]" } else { &line.module };
    let offset = line.offset.filter(|_| !line.function.is_empty());
    let offset = offset.map_or(String::new(), |offset| format!("+{offset:#x}"));
    writeln!(out, "\t{}{offset} ({})", frame_name(line), one_line(module))
}

/// Name of a task; for the idle task, `swapper/CPU`.
fn name(tasks: &SchedTasks, task: TaskId, cpu: u32) -> String {
    match task {
        TaskId::IDLE => format!("swapper/{cpu}"),
        task => one_line(&tasks.get(task).name).into_owned(),
    }
}

fn event_name(action: &SchedAction) -> &'static str {
    match action {
        SchedAction::Switch { .. } => "sched:sched_switch",
        SchedAction::Wakeup { is_new: true, .. } => "sched:sched_wakeup_new",
        SchedAction::Wakeup { is_waking: true, .. } => "sched:sched_waking",
        SchedAction::Wakeup { .. } => "sched:sched_wakeup",
        SchedAction::Migrate { .. } => "sched:sched_migrate_task",
        SchedAction::Fork { .. } => "sched:sched_process_fork",
        SchedAction::Rename { .. } => "task:task_rename",
        SchedAction::Exit { .. } => "sched:sched_process_exit",
        SchedAction::Runtime { .. } => "sched:sched_stat_runtime",
        SchedAction::Idle { .. } => "power:cpu_idle",
        SchedAction::Frequency { .. } => "power:cpu_frequency",
    }
}

fn fields(tasks: &SchedTasks, event: &SchedEvent) -> String {
    let cpu = event.cpu;
    let of = |task: TaskId| (name(tasks, task, cpu), tasks.get(task).tid);
    match &event.action {
        SchedAction::Switch { previous, state, next, .. } => {
            let ((previous, tid), (next, next_tid)) = (of(*previous), of(*next));
            format!(
                "prev_comm={previous} prev_pid={tid} prev_state={} ==> next_comm={next} next_pid={next_tid}",
                state.letter()
            )
        }
        SchedAction::Wakeup { task, target, .. } => {
            let (name, tid) = of(*task);
            format!("comm={name} pid={tid} target_cpu={target:03}")
        }
        SchedAction::Migrate { task, from, to } => {
            let (name, tid) = of(*task);
            format!("comm={name} pid={tid} orig_cpu={from} dest_cpu={to}")
        }
        SchedAction::Fork { parent, child } => {
            let ((name, tid), (child, child_tid)) = (of(*parent), of(*child));
            format!("comm={name} pid={tid} child_comm={child} child_pid={child_tid}")
        }
        SchedAction::Rename { task, name } => {
            format!("pid={} newcomm={}", tasks.get(*task).tid, one_line(name))
        }
        SchedAction::Exit { task } => {
            let (name, tid) = of(*task);
            format!("comm={name} pid={tid}")
        }
        SchedAction::Runtime { task, time } => {
            let (name, tid) = of(*task);
            format!("comm={name} pid={tid} runtime={time} [ns]")
        }
        SchedAction::Idle { state } => {
            format!("state={} cpu_id={cpu}", state.unwrap_or(u32::MAX))
        }
        SchedAction::Frequency { frequency } => format!("state={frequency} cpu_id={cpu}"),
    }
}

fn event_json(tasks: &SchedTasks, current: TaskId, event: &SchedEvent) -> Value {
    let of = |task: TaskId| {
        let row = tasks.get(task);
        json!({"name": row.name, "tid": row.tid, "pid": (row.pid >= 0).then_some(row.pid)})
    };
    let fields = match &event.action {
        SchedAction::Switch { previous, state, next, .. } => json!({
            "previous": of(*previous), "state": state.letter().to_string(), "next": of(*next),
        }),
        SchedAction::Wakeup { task, target, .. } => {
            json!({"task": of(*task), "target_cpu": target})
        }
        SchedAction::Migrate { task, from, to } => {
            json!({"task": of(*task), "from_cpu": from, "to_cpu": to})
        }
        SchedAction::Fork { parent, child } => json!({"parent": of(*parent), "child": of(*child)}),
        SchedAction::Rename { task, name } => json!({"task": of(*task), "name": name}),
        SchedAction::Exit { task } => json!({"task": of(*task)}),
        SchedAction::Runtime { task, time } => json!({"task": of(*task), "runtime_ns": time}),
        SchedAction::Idle { state } => json!({"idle_state": state}),
        SchedAction::Frequency { frequency } => json!({"frequency_khz": frequency}),
    };
    let stack: Vec<String> = event.stack.iter().map(|line| frame_name(line)).collect();
    let mut object = json!({
        "time_ns": event.time,
        "cpu": event.cpu,
        "event": event_name(&event.action),
        "current": of(current),
    });
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
        if !stack.is_empty() {
            object.insert("stack".to_owned(), json!(stack));
        }
    }
    object
}
