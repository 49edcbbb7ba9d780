//! The events of a file, and which of them a record is of.

use hashbrown::HashMap;
use pyrograph_event::{Attr, ByteOrder, Header, Layout, branch_sample, flag, kind, sample_type};
use pyrograph_event::{read_format, type_id};

use crate::features::{EventDescription, default_name};
use crate::plain::PlainLayout;
use crate::tracepoint::Tracepoint;

/// The branches of a sample are the calls that have not returned (`PERF_SAMPLE_BRANCH_CALL_STACK`).
const CALL_STACK: u64 = 1 << 11;

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its attributes.
    pub attr: Attr,
    /// Layout of its records.
    pub layout: Layout,
    /// Its name as it was asked for.
    pub name: String,
    /// Number of its samples, those that count other events with it included.
    pub samples: u64,
    /// Where in a sample process and thread are.
    tid_at: Option<usize>,
    /// Where in a sample the period is.
    period_at: Option<usize>,
    /// Where all fields are, if its samples are of the usual kind.
    pub plain: Option<PlainLayout>,
}

impl Event {
    fn new(attr: Attr, order: ByteOrder) -> Self {
        use sample_type as field;
        let at = |wanted: u64, before: u64| {
            let words = (attr.sample_type & before).count_ones() as usize;
            (attr.sample_type & wanted != 0).then_some(Header::SIZE + 8 * words)
        };
        let before_tid = field::IDENTIFIER | field::IP;
        let before_period = before_tid
            | field::TID
            | field::TIME
            | field::ADDR
            | field::ID
            | field::STREAM_ID
            | field::CPU;
        Self {
            layout: Layout::with_order(&attr, order),
            name: default_name(&attr),
            samples: 0,
            tid_at: at(field::TID, before_tid),
            period_at: at(field::PERIOD, before_period),
            plain: PlainLayout::new(&attr, order),
            attr,
        }
    }

    /// Process and thread of a sample; −1 where it has none.
    #[inline]
    pub fn pid_tid(&self, record: &[u8]) -> (i32, i32) {
        let word = self.tid_at.and_then(|at| record.get(at..)?.first_chunk::<8>());
        let Some(&[a, b, c, d, e, f, g, h]) = word else { return (-1, -1) };
        match self.layout.order() {
            ByteOrder::Little => {
                (i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]))
            }
            ByteOrder::Big => (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h])),
        }
    }

    /// The value of a sample: its period, or the one that all have.
    #[inline]
    pub fn period(&self, record: &[u8]) -> u64 {
        let word = self.period_at.and_then(|at| record.get(at..)?.first_chunk::<8>());
        match (word, self.layout.order()) {
            (Some(word), ByteOrder::Little) => u64::from_le_bytes(*word),
            (Some(word), ByteOrder::Big) => u64::from_be_bytes(*word),
            (None, _) => self.layout.fixed_period().unwrap_or(1),
        }
    }

    /// True if samples hold counts of the event, or of all events of its group.
    pub fn has_counts(&self) -> bool {
        self.attr.sample_type & sample_type::READ != 0
    }

    /// True if samples hold the counts of all events of the group.
    pub fn leads_group(&self) -> bool {
        self.has_counts() && self.attr.read_format & read_format::GROUP != 0
    }

    /// True if a sample's branches are its callchain.
    pub fn branches_are_calls(&self) -> bool {
        self.attr.branch_sample_type & CALL_STACK != 0
            && self.attr.branch_sample_type & branch_sample::COUNTERS == 0
    }

    /// True if each thread has counts of its own.
    pub fn inherits(&self) -> bool {
        self.attr.has(flag::INHERIT)
    }

    /// True if times are those of `CLOCK_MONOTONIC`, as `perf record -k mono` asks for.
    pub fn has_monotonic_time(&self) -> bool {
        const CLOCK_MONOTONIC: i32 = 1;
        self.attr.has(flag::USE_CLOCKID) && self.attr.clockid == CLOCK_MONOTONIC
    }

    /// True if a record is a sample.
    #[inline]
    pub fn is_sample(&self, record: &[u8]) -> bool {
        let bytes = record.first_chunk().copied().unwrap_or_default();
        let found = match self.layout.order() {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        };
        found == kind::SAMPLE
    }

    /// The unit of the period.
    pub fn unit(&self) -> &'static str {
        use pyrograph_event::software::{CPU_CLOCK, TASK_CLOCK};
        let is_clock = self.attr.type_ == type_id::SOFTWARE
            && matches!(self.attr.config, CPU_CLOCK | TASK_CLOCK);
        if is_clock { "ns" } else { "count" }
    }

    /// True if it is called `wanted`, with or without modifiers.
    pub fn is_called(&self, wanted: &str) -> bool {
        let rest = self.name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || rest.starts_with('/'))
    }
}

/// All events.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// In the file's order.
    pub list: Vec<Event>,
    by_id: HashMap<u64, u16, foldhash::fast::FixedState>,
    /// All records are laid out in the same way.
    alike: bool,
}

impl Events {
    /// Adds one. There may be 65,535.
    pub fn add(&mut self, attr: Attr, ids: &[u64], order: ByteOrder) {
        let Ok(index) = u16::try_from(self.list.len()) else { return };
        for &id in ids {
            self.by_id.entry(id).or_insert(index);
        }
        self.list.push(Event::new(attr, order));
        // perf asks for build IDs with one event, and writes what was mapped before as records of none, which
        // count as the first event's.
        if attr.has(flag::BUILD_ID)
            && let Some(first) = self.list.first_mut()
        {
            first.layout = first.layout.with_build_ids();
        }
        self.alike = self.list.len() == 1;
    }

    /// Gives events the names that they were asked for by.
    pub fn describe(&mut self, descriptions: &[EventDescription]) {
        for (index, description) in descriptions.iter().enumerate() {
            let by_id = description.ids.first().and_then(|&id| self.index(id));
            if let Some(event) = self.list.get_mut(by_id.unwrap_or(index))
                && !description.name.is_empty()
            {
                event.name.clone_from(&description.name);
            }
        }
    }

    /// Gives tracepoints that have no name those of their formats; whether all have one now.
    pub fn name_tracepoints(&mut self, tracepoints: impl FnOnce() -> Vec<Tracepoint>) -> bool {
        let is_nameless = |event: &&mut Event| {
            event.attr.type_ == type_id::TRACEPOINT && event.name == default_name(&event.attr)
        };
        let mut nameless = self.list.iter_mut().filter(is_nameless).peekable();
        if nameless.peek().is_none() {
            return true;
        }
        let tracepoints = tracepoints();
        let mut all = true;
        for event in nameless {
            match tracepoints.iter().find(|tracepoint| tracepoint.id == event.attr.config) {
                Some(tracepoint) => event.name.clone_from(&tracepoint.name),
                None => all = false,
            }
        }
        all
    }

    /// The event with this ID.
    pub fn index(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied().map(usize::from)
    }

    /// The event that a record is of. All events of a file have their ID in the same place of a
    /// record: perf sees to that, for it could not distinguish them either. Records without an ID
    /// are of the first.
    #[inline]
    pub fn of(&self, record: &[u8]) -> Option<usize> {
        if self.alike {
            return Some(0);
        }
        let first = self.list.first()?;
        let id = first.layout.event_id(record).unwrap_or(0);
        Some(if id == 0 { 0 } else { self.index(id)? })
    }

    /// An event, for records that do not say of which they are.
    pub fn any(&self) -> Option<usize> {
        (!self.list.is_empty()).then_some(0)
    }

    /// True if a sample, whose event is `known` by now, has an ID that no event of the file has.
    #[inline]
    pub fn is_foreign(&self, record: &[u8], known: Option<usize>) -> bool {
        if self.by_id.is_empty() || (known.is_some() && !self.alike) {
            return false;
        }
        let id = self.list.first().and_then(|event| event.layout.event_id(record));
        id.is_some_and(|id| id != 0 && !self.by_id.contains_key(&id))
    }

    /// The event to count: the one that is called `wanted`, or else the first in the file's order,
    /// which is that in which they were asked for. It has samples.
    pub fn choose(&self, wanted: Option<&str>) -> Option<usize> {
        let position = |found: &dyn Fn(&Event) -> bool| {
            self.list.iter().position(|event| event.samples > 0 && found(event))
        };
        let Some(wanted) = wanted else { return position(&|_| true) };
        position(&|event| event.name == wanted)
            .or_else(|| position(&|event| event.is_called(wanted)))
    }
}
