//! Scheduler events from files: `perf.data` of `perf sched record`, the output of `perf script` for it, and the text of
//! ftrace.

use std::ops::ControlFlow;

#[cfg(feature = "perf-data")]
use pyrograph_perf_data::{Recording, ResolveOptions};
use pyrograph_profile::{
    FieldValue, NamedThread, SchedEvent, SchedFact, SchedTasks, SchedThreads, TaskState,
    TraceEvent, WaitReason,
};

use crate::events::events;
use crate::input::{Head, Input};
#[cfg(feature = "perf-data")]
use crate::read::perf_data;
use crate::reader::{Options, ReadError};
use crate::warnings::{WarningKind, Warnings};

/// Callback for each event; `SchedTasks` contains the tasks seen so far.
pub type OnSchedEvent<'a> = dyn FnMut(&SchedTasks, SchedEvent) -> ControlFlow<()> + 'a;

/// An input with scheduler events.
pub struct SchedInput {
    name: String,
    source: Source,
    warnings: Warnings,
}

enum Source {
    #[cfg(feature = "perf-data")]
    Recording(Box<Recording>),
    Text(Head),
}

impl SchedInput {
    /// Opens an input.
    ///
    /// # Errors
    ///
    /// If it cannot be read at all.
    pub fn open(input: Input) -> Result<Self, ReadError> {
        let name = input.name().to_owned();
        let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        #[cfg(feature = "perf-data")]
        if pyrograph_perf_data::detect(head.bytes()) {
            let (recording, warnings) = perf_data::open_recording(head)?;
            let source = Source::Recording(Box::new(recording));
            return Ok(Self { name, source, warnings });
        }
        Ok(Self { name, source: Source::Text(head), warnings: Warnings::default() })
    }

    /// First and last timestamp in nanoseconds, if known before the whole input is read.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        match &self.source {
            #[cfg(feature = "perf-data")]
            Source::Recording(recording) => recording.time_span(),
            Source::Text(_) => None,
        }
    }

    /// Number of CPUs of the machine, if known.
    pub fn cpus(&self) -> Option<u32> {
        match &self.source {
            #[cfg(feature = "perf-data")]
            // The file is damaged if the number is greater than any kernel supports.
            Source::Recording(recording) => recording.info().cpus.filter(|cpus| *cpus <= 1 << 13),
            Source::Text(_) => None,
        }
    }

    /// Calls `on_event` for each event, in the order of the input, until it breaks. Stacks are included if `with_stacks`
    /// is set and the input is a `perf.data` file that contains them. Of `options`, only the symbol search paths and the
    /// number of workers are used. Returns all tasks.
    ///
    /// Only the tasks are kept in memory, and for `perf.data` an index and the distinct stacks.
    ///
    /// # Errors
    ///
    /// If the input is empty, of an unknown format, or contains no context switches.
    pub fn each(
        self,
        with_stacks: bool,
        options: &Options,
        on_event: &mut OnSchedEvent<'_>,
    ) -> Result<(SchedTasks, Warnings), ReadError> {
        let Self { name, source, mut warnings } = self;
        let (tasks, found) = match source {
            #[cfg(feature = "perf-data")]
            Source::Recording(recording) => {
                of_recording(&recording, name, with_stacks, options, on_event)?
            }
            Source::Text(head) => of_text(head, name, on_event)?,
        };
        warnings.extend(found);
        Ok((tasks, warnings))
    }
}

fn without_switches(name: String) -> ReadError {
    let reason = "there are no events sched:sched_switch in it: perf sched record records them";
    ReadError::Nothing { name, reason: reason.to_owned() }
}

#[cfg(feature = "perf-data")]
fn of_recording(
    recording: &Recording,
    name: String,
    with_stacks: bool,
    options: &Options,
    on_event: &mut OnSchedEvent<'_>,
) -> Result<(SchedTasks, Warnings), ReadError> {
    let options = ResolveOptions {
        workers: options.workers,
        symbols: options.symbols.clone(),
        ..ResolveOptions::default()
    };
    let events =
        recording.sched_events(with_stacks, &options).ok_or_else(|| without_switches(name))?;
    let end = events.each(on_event);
    Ok((end.tasks, perf_data::warnings_of(events.stats(), end.unread)))
}

fn of_text(
    head: Head,
    name: String,
    on_event: &mut OnSchedEvent<'_>,
) -> Result<(SchedTasks, Warnings), ReadError> {
    let mut reader = TextReader::default();
    let mut has_enough = false;
    let mut warnings = events(head, &mut |event| {
        has_enough = has_enough || reader.event(event, on_event).is_break();
    })?;
    if reader.switches == 0 {
        return Err(without_switches(name));
    }
    if reader.unreadable > 0 {
        warnings.add(WarningKind::UnreadableRecord, reader.unreadable, []);
    }
    Ok((reader.threads.into_tasks(), warnings))
}

/// Reads events in text form: names and values of fields, in the form of the kernel's `print fmt`.
#[derive(Default)]
struct TextReader {
    threads: SchedThreads,
    switches: u64,
    unreadable: u64,
}

impl TextReader {
    fn event(
        &mut self,
        event: &TraceEvent<'_>,
        on_event: &mut OnSchedEvent<'_>,
    ) -> ControlFlow<()> {
        let point = event.name.rsplit(':').next().unwrap_or_default();
        let Some(read) = reader_of(point) else { return ControlFlow::Continue(()) };
        let fields = TextFields::new(event);
        let Some(fact) = read(&fields) else {
            self.unreadable += 1;
            return ControlFlow::Continue(());
        };
        self.switches += u64::from(matches!(fact, SchedFact::Switch { .. }));
        let tid = event.tid.or(event.pid).unwrap_or(-1);
        let current = NamedThread { tid, name: event.comm };
        let action = self.threads.action(current, &fact);
        if let (Some(pid), Some(tid @ 1..)) = (event.pid, event.tid) {
            let task = self.threads.task(tid, "");
            self.threads.set_process(task, pid);
        }
        let (Some(action), Some(time)) = (action, event.time) else {
            return ControlFlow::Continue(());
        };
        let cpu = event.cpu.unwrap_or(0);
        on_event(self.threads.tasks(), SchedEvent { time, cpu, action, stack: [].into() })
    }
}

type Read = for<'a> fn(&'a TextFields<'_>) -> Option<SchedFact<'a>>;

/// Parser for the event with this name; `None` if it is not a scheduler event.
fn reader_of(point: &str) -> Option<Read> {
    Some(match point {
        "sched_switch" => |fields| {
            Some(SchedFact::Switch {
                previous: fields.thread("prev_pid", "prev_comm")?,
                state: TaskState::from_text(fields.text("prev_state")?),
                reason: WaitReason::Unknown,
                next: fields.thread("next_pid", "next_comm")?,
            })
        },
        "sched_wakeup" => |fields| wakeup(fields, false, false),
        "sched_waking" => |fields| wakeup(fields, false, true),
        "sched_wakeup_new" => |fields| wakeup(fields, true, false),
        "sched_migrate_task" => |fields| {
            let thread = fields.thread("pid", "comm")?;
            let (from, to) = (fields.number("orig_cpu")?, fields.number("dest_cpu")?);
            Some(SchedFact::Migrate { thread, from, to })
        },
        "sched_process_fork" => |fields| {
            let parent = fields.thread("pid", "comm")?;
            let child = fields.thread("child_pid", "child_comm")?;
            Some(SchedFact::Fork { parent, child, child_process: None })
        },
        "task_rename" => |fields| {
            let thread = fields.thread("pid", "newcomm")?;
            Some(SchedFact::Rename { thread, process: None })
        },
        "sched_process_exit" => {
            |fields| Some(SchedFact::Exit { thread: fields.thread("pid", "comm")? })
        }
        "sched_stat_runtime" => |fields| {
            let time = fields.text("runtime")?.split(' ').next()?.parse().ok()?;
            Some(SchedFact::Runtime { thread: fields.thread("pid", "comm")?, time })
        },
        "cpu_idle" => |fields| {
            // The value for leaving an idle state is −1, printed without a sign.
            Some(SchedFact::Idle {
                state: fields.number("state").filter(|state| *state != u32::MAX),
            })
        },
        "cpu_frequency" => {
            |fields| Some(SchedFact::Frequency { frequency: fields.number("state")? })
        }
        _ => return None,
    })
}

fn wakeup<'a>(fields: &'a TextFields<'_>, is_new: bool, is_waking: bool) -> Option<SchedFact<'a>> {
    let (thread, target) = (fields.thread("pid", "comm")?, fields.number("target_cpu")?);
    Some(SchedFact::Wakeup { thread, target, is_new, is_waking })
}

/// Fields of an event as text.
struct TextFields<'a> {
    fields: Vec<(&'a str, String)>,
}

impl<'a> TextFields<'a> {
    fn new(event: &TraceEvent<'a>) -> Self {
        let text = |value: &FieldValue<'_>| value.to_string();
        let fields = event.fields.iter().map(|field| (field.name, text(&field.value)));
        Self { fields: fields.collect() }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u32> {
        let digits = self.text(name)?;
        // CPUs are printed with three digits: 003.
        digits.parse().ok()
    }

    fn thread(&self, tid: &str, name: &str) -> Option<NamedThread<'_>> {
        let tid = self.text(tid)?.parse().ok()?;
        Some(NamedThread { tid, name: self.text(name).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::SchedAction;

    use super::*;

    const TEXT: &str = "\
 lto c0.1 22 7/8 [001]   488.582089288: sched:sched_stat_runtime: comm=lto c0.1 22 pid=8 runtime=30365 [ns]\n";

    /// Reads text; the events' texts.
    fn read(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let input = SchedInput::open(Input::bytes("a", text)).expect("it can be opened");
        let take = &mut |tasks: &SchedTasks, event: SchedEvent| {
            let name = |task| {
                let task = tasks.get(task);
                format!("{}/{}", task.name, task.tid)
            };
            let what = match &event.action {
                SchedAction::Switch { previous, state, next, .. } => {
                    format!("{} {} > {}", name(*previous), state.letter(), name(*next))
                }
                SchedAction::Wakeup { task, waker, target, is_waking, .. } => {
                    format!("{} wakes {} on {target} {is_waking}", name(*waker), name(*task))
                }
                SchedAction::Migrate { task, from, to } => format!("{} {from} > {to}", name(*task)),
                SchedAction::Fork { parent, child } => {
                    format!("{} forks {}", name(*parent), name(*child))
                }
                SchedAction::Runtime { task, time } => format!("{} ran {time}", name(*task)),
                SchedAction::Idle { state } => format!("{state:?}"),
                other => format!("{other:?}"),
            };
            found.push(format!("{} {} {what}", event.time, event.cpu));
            ControlFlow::Continue(())
        };
        input.each(false, &Options::default(), take).expect("it is read");
        found
    }

    #[test]
    fn what_perf_script_prints_of_perf_sched_record() {
        let text = "\
    perf-exec 21160 [001]   488.582370376: sched:sched_stat_runtime: comm=perf-exec pid=21160 runtime=83203 [ns]
    perf-exec 21160 [001]   488.582376364:       sched:sched_switch: prev_comm=perf-exec prev_pid=21160 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120
        store 21155 [000]   488.585810050:       sched:sched_waking: comm=memfd:sealed-91 pid=17128 prio=120 target_cpu=000
        store 21155 [000]   488.585826053:       sched:sched_switch: prev_comm=store prev_pid=21155 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=17128 next_prio=120
          a b 17128 [000]   488.585847034: sched:sched_migrate_task: comm=lto cgu.1 pid=21158 prio=120 orig_cpu=0 dest_cpu=1
          a b 17128 [000]   488.585847035: sched:sched_process_fork: comm=a b pid=17128 child_comm=a b child_pid=9
      swapper     0 [000]   488.585847036: power:cpu_idle: state=4294967295 cpu_id=0
";
        assert_eq!(
            read(text),
            [
                "488582370376 1 perf-exec/21160 ran 83203",
                "488582376364 1 perf-exec/21160 D > swapper/0",
                "488585810050 0 store/21155 wakes memfd:sealed-91/17128 on 0 true",
                "488585826053 0 store/21155 R > a b/17128",
                "488585847034 0 lto cgu.1/21158 0 > 1",
                "488585847035 0 a b/17128 forks a b/9",
                "488585847036 0 None",
            ]
        );
    }

    #[test]
    fn without_switches_there_is_nothing_to_show() {
        let input = SchedInput::open(Input::bytes("a", TEXT)).expect("it can be opened");
        let take = &mut |_: &SchedTasks, _| ControlFlow::Continue(());
        let read = input.each(false, &Options::default(), take);
        let message = read.expect_err("no switches").to_string();
        assert!(message.contains("sched_switch"), "{message}");
    }
}
