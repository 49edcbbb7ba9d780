//! Single events, each with everything that is known of it, and the places in code that their stacks lead through.

use std::ops::{Range, RangeInclusive};

use crate::calls::StackLine;
use crate::event_record::{EventRecord, RecordGroup};
use crate::frame::{FrameKind, Frames};
use crate::ids::FrameId;
use crate::strings::Strings;

/// A place in code, which has a name or several: those of the calls that were inlined there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The offset in a file, otherwise the address itself. Of a caller it is the last byte of its call.
    pub address: u64,
    /// Number of bytes from the start of the function's symbol to the address.
    pub offset: Option<u64>,
    /// Where the frames are in [`Locations::rows`], the outermost first.
    pub rows: Range<u32>,
}

/// The places in code of some events.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    /// The texts of the frames.
    pub strings: Strings,
    /// Functions with their modules and lines.
    pub frames: Frames,
    /// The frames of places.
    pub rows: Vec<FrameId>,
    /// The places, by number.
    pub list: Vec<Location>,
}

impl Locations {
    /// The frames of a place, the outermost first.
    pub fn frames_of(&self, location: &Location) -> &[FrameId] {
        self.rows.get(location.rows.start as usize..location.rows.end as usize).unwrap_or_default()
    }

    /// The frames of a place as text, the innermost first: several where calls were inlined.
    pub fn lines_of(&self, location: &Location) -> impl Iterator<Item = StackLine> {
        let text = |id| self.strings.get(id);
        let line = move |(depth, id): (usize, &FrameId)| {
            let frame = self.frames.get(*id);
            let is_code = !matches!(frame.kind, FrameKind::Marker(_));
            let function = text(frame.function).to_owned();
            // Where there is no symbol, the place in the file is all that is known.
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

/// A place of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEntry {
    /// The number of a [`Location`].
    pub location: u32,
    /// The instruction to show is the one to return to, behind the call.
    pub returns: bool,
}

/// Kinds of events, which differ in what is shown of them unless asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventClass {
    /// Counted by the CPU.
    #[default]
    Hardware,
    /// Counted by the kernel.
    Software,
    /// A tracepoint.
    Tracepoint,
    /// Counted by the CPU, and asked for by number.
    Raw,
    /// A breakpoint.
    Breakpoint,
    /// Of another device's unit for counting.
    Other,
}

/// A kind of events, and what is recorded of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventKind {
    /// Its name as it was asked for.
    pub name: String,
    /// Its class.
    pub class: EventClass,
    /// Events have stacks.
    pub stack: bool,
    /// Process and thread are known.
    pub thread: bool,
    /// The time is known.
    pub time: bool,
    /// The CPU is known.
    pub cpu: bool,
    /// The instruction is known.
    pub ip: bool,
    /// The address of the data is known.
    pub addr: bool,
    /// The period is in each event; otherwise it may be one that all have.
    pub period: bool,
    /// Weights are known.
    pub weight: bool,
    /// It is known where the data came from.
    pub data_src: bool,
    /// Physical addresses of the data are known.
    pub phys_addr: bool,
    /// The sizes of the instruction's page are known.
    pub code_page_size: bool,
    /// The sizes of the data's page are known.
    pub data_page_size: bool,
    /// Branches are known.
    pub branches: bool,
    /// The program's registers are known.
    pub user_registers: bool,
    /// Registers are known.
    pub registers: bool,
}

/// One event.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleEvent<'a> {
    /// The number of its kind.
    pub kind: usize,
    /// The thread's name at the time.
    pub comm: &'a str,
    /// The process; 0 is the idle task.
    pub pid: Option<i32>,
    /// The thread; 0 is the idle task.
    pub tid: Option<i32>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Nanoseconds on the recording's clock.
    pub time: Option<u64>,
    /// How much of what is counted it stands for.
    pub period: u64,
    /// The instruction.
    pub ip: Option<u64>,
    /// The address of the data, and its place in code if it is one.
    pub addr: Option<u64>,
    /// Its weight.
    pub weight: Option<u64>,
    /// Where the data came from, as the kernel encodes it.
    pub data_src: Option<u64>,
    /// The physical address of the data.
    pub phys_addr: Option<u64>,
    /// The stack, innermost first. Without stacks, the place of the instruction alone.
    pub stack: &'a [StackEntry],
    /// The fields of a tracepoint, as text.
    pub trace: &'a str,
    /// The raw data of a tracepoint, as the kernel wrote it.
    pub raw: &'a [u8],
    /// Details that few events have.
    pub details: Option<&'a EventDetails<'a>>,
    /// A record in place of a sample.
    pub record: Option<&'a EventRecord<'a>>,
}

/// Details that few events have.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventDetails<'a> {
    /// The size of the page that the instruction is in, in bytes.
    pub code_page_size: Option<u64>,
    /// The size of the page that the data is in, in bytes.
    pub data_page_size: Option<u64>,
    /// The last branches that were taken, the newest first.
    pub branches: &'a [EventBranch],
    /// The program's registers.
    pub user_registers: Option<EventRegisters<'a>>,
    /// The registers at the time of the event.
    pub registers: Option<EventRegisters<'a>>,
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBranch {
    /// Where it was.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// The prediction was wrong.
    pub mispredicted: bool,
    /// The prediction was right.
    pub predicted: bool,
    /// It was in a transaction.
    pub in_transaction: bool,
    /// It aborted a transaction.
    pub abort: bool,
    /// Cycles since the branch before it.
    pub cycles: u16,
    /// Its type, as the kernel encodes it; 0 if it is not known.
    pub branch_type: u8,
}

/// Registers with their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRegisters<'a> {
    /// 1 of a 32-bit program, 2 of a 64-bit one.
    pub abi: u64,
    /// Names and values.
    pub values: &'a [(&'static str, u64)],
}

/// Which events to keep. What is empty keeps all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Kinds of events, by number.
    pub kinds: Vec<usize>,
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Names of threads.
    pub comms: Vec<String>,
    /// CPUs.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// Times in nanoseconds.
    pub times: Vec<RangeInclusive<u64>>,
    /// Records beside samples: none but those that are named here.
    pub records: Vec<RecordGroup>,
}

impl EventFilter {
    /// Returns true if an event is kept. A record is if either the thread that it happened in or the one that it is
    /// about is wanted; it is of no kind of events.
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

    /// Returns true if it depends on the names of threads.
    pub fn needs_names(&self) -> bool {
        !self.comms.is_empty()
    }

    /// Returns true if all samples are kept.
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
