//! Single events with all their fields, and the code locations in their stacks.

use std::ops::{Range, RangeInclusive};

use crate::calls::StackLine;
use crate::event_record::{EventRecord, RecordGroup};
use crate::frame::{FrameKind, Frames};
use crate::ids::FrameId;
use crate::strings::Strings;

/// A code location with one or more frames: calls that were inlined there have frames of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File offset, or the address itself if there is no file. For a caller it is the last byte of the call instruction.
    pub address: u64,
    /// Number of bytes from the start of the function's symbol to the address, if known.
    pub offset: Option<u64>,
    /// Range of the location's frames in [`Locations::rows`], outermost first.
    pub rows: Range<u32>,
}

/// Code locations of a set of events.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    /// Strings of the frames.
    pub strings: Strings,
    /// The distinct frames: functions with their modules and lines.
    pub frames: Frames,
    /// Frames of all locations.
    pub rows: Vec<FrameId>,
    /// The locations; an index in it is a location's number.
    pub list: Vec<Location>,
}

impl Locations {
    /// Returns the frames of a location, outermost first.
    pub fn frames_of(&self, location: &Location) -> &[FrameId] {
        self.rows.get(location.rows.start as usize..location.rows.end as usize).unwrap_or_default()
    }

    /// Returns the frames of a location as text, innermost first. There are several if calls were inlined.
    pub fn lines_of(&self, location: &Location) -> impl Iterator<Item = StackLine> {
        let text = |id| self.strings.get(id);
        let line = move |(depth, id): (usize, &FrameId)| {
            let frame = self.frames.get(*id);
            let is_code = !matches!(frame.kind, FrameKind::Marker(_));
            let function = text(frame.function).to_owned();
            // Without a symbol, only the offset in the file is known.
            let offset = if function.is_empty() { Some(location.address) } else { location.offset };
            let source = match (text(frame.file), frame.line) {
                ("", _) => String::new(),
                (file, 0) => file.to_owned(),
                (file, line) => format!("{file}:{line}"),
            };
            StackLine {
                function,
                offset: offset.filter(|_| is_code && depth == 0),
                module: text(frame.module).to_owned(),
                source,
                kind: frame.kind,
                guessed: frame.guessed,
            }
        };
        self.frames_of(location).iter().enumerate().map(line).rev()
    }
}

/// An entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEntry {
    /// Number of a [`Location`].
    pub location: u32,
    /// True if the address to show is the return address, after the call instruction.
    pub returns: bool,
}

/// Classes of events. The class determines the fields that are shown by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventClass {
    /// Counted by the CPU's PMU.
    #[default]
    Hardware,
    /// Counted by the kernel.
    Software,
    /// A tracepoint.
    Tracepoint,
    /// Counted by the CPU's PMU, requested in its own encoding.
    Raw,
    /// A breakpoint.
    Breakpoint,
    /// Counted by the PMU of another device.
    Other,
}

/// A kind of event, and the fields that are recorded for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventKind {
    /// Name of the event, as it was requested.
    pub name: String,
    /// Class of the event.
    pub class: EventClass,
    /// True if events have stacks.
    pub stack: bool,
    /// True if events have process and thread.
    pub thread: bool,
    /// True if events have times.
    pub time: bool,
    /// True if events have the CPU.
    pub cpu: bool,
    /// True if events have the instruction pointer.
    pub ip: bool,
    /// True if events have the address of the data.
    pub addr: bool,
    /// True if each event has its period. If false, all events may have the same period.
    pub period: bool,
    /// True if events have weights.
    pub weight: bool,
    /// True if events have the source of the data.
    pub data_src: bool,
    /// True if events have the physical address of the data.
    pub phys_addr: bool,
    /// True if events have the size of the code page.
    pub code_page_size: bool,
    /// True if events have the size of the data page.
    pub data_page_size: bool,
    /// True if events have branches.
    pub branches: bool,
    /// True if events have user-mode registers.
    pub user_registers: bool,
    /// True if events have the registers at the time of the event.
    pub registers: bool,
}

/// One event.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleEvent<'a> {
    /// Number of the event's kind.
    pub kind: usize,
    /// Name of the thread at the time of the event.
    pub comm: &'a str,
    /// The process; 0 is the idle task.
    pub pid: Option<i32>,
    /// The thread; 0 is the idle task.
    pub tid: Option<i32>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Amount of what the event counts that the sample represents.
    pub period: u64,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// Address of the data.
    pub addr: Option<u64>,
    /// Weight: cost of the access or transaction.
    pub weight: Option<u64>,
    /// Source of the data, in the kernel's encoding.
    pub data_src: Option<u64>,
    /// Physical address of the data.
    pub phys_addr: Option<u64>,
    /// The stack, innermost first. If events have no stacks, it contains only the location of the instruction.
    pub stack: &'a [StackEntry],
    /// Fields of a tracepoint, as text.
    pub trace: &'a str,
    /// Raw data of a tracepoint.
    pub raw: &'a [u8],
    /// Fields that few events have.
    pub details: Option<&'a EventDetails<'a>>,
    /// The record, if this is not a sample.
    pub record: Option<&'a EventRecord<'a>>,
}

/// Fields that few events have.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventDetails<'a> {
    /// Size of the page that contains the instruction, in bytes.
    pub code_page_size: Option<u64>,
    /// Size of the page that contains the data, in bytes.
    pub data_page_size: Option<u64>,
    /// The most recent branches, newest first.
    pub branches: &'a [EventBranch],
    /// User-mode registers.
    pub user_registers: Option<EventRegisters<'a>>,
    /// Registers at the time of the event.
    pub registers: Option<EventRegisters<'a>>,
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBranch {
    /// Address of the branch instruction.
    pub from: u64,
    /// Address of its target.
    pub to: u64,
    /// True if the branch was mispredicted.
    pub mispredicted: bool,
    /// True if the branch was predicted correctly.
    pub predicted: bool,
    /// True if it was in a hardware transaction.
    pub in_transaction: bool,
    /// True if it aborted a hardware transaction.
    pub abort: bool,
    /// Cycles since the previous branch.
    pub cycles: u16,
    /// Type of the branch, in the kernel's encoding; 0 if not known.
    pub branch_type: u8,
}

/// Names and values of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRegisters<'a> {
    /// 1 for a 32-bit program, 2 for a 64-bit program.
    pub abi: u64,
    /// Name and value of each register.
    pub values: &'a [(&'static str, u64)],
}

/// Filter for events. An empty list keeps all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Kinds of events, by number.
    pub kinds: Vec<usize>,
    /// Process IDs.
    pub pids: Vec<i32>,
    /// Thread IDs.
    pub tids: Vec<i32>,
    /// Names of threads.
    pub comms: Vec<String>,
    /// CPUs.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// Intervals of time, in nanoseconds.
    pub times: Vec<RangeInclusive<u64>>,
    /// Groups of records to keep. An empty list keeps no records, only samples.
    pub records: Vec<RecordGroup>,
}

impl EventFilter {
    /// Returns true if the event passes the filter. A record passes if it is in one of the requested groups and if either
    /// the thread in which it occurred or the thread that it is about passes. Records have no kind of event.
    pub fn keeps(&self, event: &SingleEvent<'_>) -> bool {
        let Some(record) = event.record else {
            return self.keeps_kind(event.kind) && self.keeps_rest(event);
        };
        let (pid, tid) = record.thread().unzip();
        let about = SingleEvent { pid: pid.or(event.pid), tid: tid.or(event.tid), ..*event };
        self.records.contains(&record.group())
            && (self.keeps_rest(event) || self.keeps_rest(&about))
    }

    fn keeps_kind(&self, kind: usize) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    fn keeps_rest(&self, event: &SingleEvent<'_>) -> bool {
        fn one_of<T>(wanted: &[T], is_it: impl FnMut(&T) -> bool) -> bool {
            wanted.is_empty() || wanted.iter().any(is_it)
        }
        one_of(&self.pids, |pid| Some(*pid) == event.pid)
            && one_of(&self.tids, |tid| Some(*tid) == event.tid)
            && one_of(&self.comms, |comm| comm == event.comm)
            && one_of(&self.cpus, |cpus| event.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
            && one_of(&self.times, |times| event.time.is_some_and(|time| times.contains(&time)))
    }

    /// Returns true if the filter depends on names of threads.
    pub fn needs_names(&self) -> bool {
        !self.comms.is_empty()
    }

    /// Returns true if the filter keeps all samples.
    pub fn is_empty(&self) -> bool {
        *self == Self { records: self.records.clone(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_record::TaskRecord;

    const EVENT: SingleEvent<'_> = SingleEvent {
        kind: 1,
        comm: "two words",
        pid: Some(7),
        tid: Some(8),
        cpu: Some(3),
        time: Some(50),
        period: 1,
        ip: None,
        addr: None,
        weight: None,
        data_src: None,
        phys_addr: None,
        stack: &[],
        trace: "",
        raw: &[],
        details: None,
        record: None,
    };

    fn check(filter: EventFilter, expect: bool) {
        assert_eq!(filter.keeps(&EVENT), expect, "{filter:?}");
        let unknown =
            SingleEvent { pid: None, tid: None, cpu: None, time: None, kind: 9, comm: "", ..EVENT };
        assert_eq!(filter.keeps(&unknown), filter.is_empty(), "{filter:?}");
    }

    #[test]
    fn each_condition_must_hold() {
        let all = EventFilter::default;
        check(all(), true);
        for (kinds, expect) in [(vec![0, 1], true), (vec![0], false)] {
            check(EventFilter { kinds, ..all() }, expect);
        }
        for (pids, expect) in [(vec![7], true), (vec![8], false)] {
            check(EventFilter { pids, ..all() }, expect);
        }
        for (tids, expect) in [(vec![7, 8], true), (vec![7], false)] {
            check(EventFilter { tids, ..all() }, expect);
        }
        for (name, expect) in [("two words", true), ("two", false)] {
            check(EventFilter { comms: vec![name.to_owned()], ..all() }, expect);
        }
        for (cpus, expect) in [(0..=3, true), (4..=9, false)] {
            check(EventFilter { cpus: vec![cpus], ..all() }, expect);
        }
        for (times, expect) in [(50..=50, true), (51..=90, false), (0..=49, false)] {
            check(EventFilter { times: vec![times], ..all() }, expect);
        }
        check(EventFilter { pids: vec![7], tids: vec![1], ..all() }, false);
    }

    #[test]
    fn records_are_kept_by_either_thread_and_only_if_they_are_named() {
        let task = TaskRecord { pid: 20, tid: 21, parent_pid: 7, parent_tid: 8 };
        let fork = EventRecord::Fork(task);
        let event = SingleEvent { record: Some(&fork), ..EVENT };
        let all = || EventFilter { records: vec![RecordGroup::Task], ..EventFilter::default() };
        assert!(all().is_empty() && all().keeps(&event));
        let other = EventFilter { records: vec![RecordGroup::Mmap], ..all() };
        assert!(!other.keeps(&event) && !EventFilter::default().keeps(&event));
        for (pids, expect) in [(vec![7], true), (vec![20], true), (vec![21], false)] {
            assert_eq!(EventFilter { pids, ..all() }.keeps(&event), expect);
        }
        // Process and thread are to be of the same one.
        assert!(!EventFilter { pids: vec![7], tids: vec![21], ..all() }.keeps(&event));
        assert!(!EventFilter { times: vec![51..=60], ..all() }.keeps(&event));
        assert!(EventFilter { kinds: vec![9], ..all() }.keeps(&event));
    }
}
