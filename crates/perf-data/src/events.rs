//! The events of a file, and the mapping from records to them.

use hashbrown::HashMap;
use pyrograph_event::{Attr, ByteOrder, Header, Layout, branch_sample, flag, kind, sample_type};
use pyrograph_event::{read_format, type_id};

use crate::features::{EventDescription, default_name};
use crate::plain::PlainLayout;
use crate::tracepoint::Tracepoint;

/// Flag: the branches of a sample are the calls that have not returned (`PERF_SAMPLE_BRANCH_CALL_STACK`).
const CALL_STACK: u64 = 1 << 11;

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its attributes.
    pub attr: Attr,
    /// Layout of its records.
    pub layout: Layout,
    /// Name, as given to `perf record`.
    pub name: String,
    /// Number of its samples, including samples of other events that contain its count.
    pub samples: u64,
    /// Offset of process and thread ID in a sample.
    tid_at: Option<usize>,
    /// Offset of the period in a sample.
    period_at: Option<usize>,
    /// Offsets of all fields, if its samples have the usual form.
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

    /// Returns process and thread ID of a sample; −1 if it has none.
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

    /// Returns the value of a sample: its period, or the fixed period of the event.
    #[inline]
    pub fn period(&self, record: &[u8]) -> u64 {
        let word = self.period_at.and_then(|at| record.get(at..)?.first_chunk::<8>());
        match (word, self.layout.order()) {
            (Some(word), ByteOrder::Little) => u64::from_le_bytes(*word),
            (Some(word), ByteOrder::Big) => u64::from_be_bytes(*word),
            (None, _) => self.layout.fixed_period().unwrap_or(1),
        }
    }

    /// Returns true if samples contain counts of the event, or of all events of its group.
    pub fn has_counts(&self) -> bool {
        self.attr.sample_type & sample_type::READ != 0
    }

    /// Returns true if samples contain the counts of all events of the group.
    pub fn leads_group(&self) -> bool {
        self.has_counts() && self.attr.read_format & read_format::GROUP != 0
    }

    /// Returns true if a sample's branches are its callchain.
    pub fn branches_are_calls(&self) -> bool {
        self.attr.branch_sample_type & CALL_STACK != 0
            && self.attr.branch_sample_type & branch_sample::COUNTERS == 0
    }

    /// Returns true if each thread has its own counts.
    pub fn inherits(&self) -> bool {
        self.attr.has(flag::INHERIT)
    }

    /// Returns true if timestamps are of `CLOCK_MONOTONIC`, as with `perf record -k mono`.
    pub fn has_monotonic_time(&self) -> bool {
        const CLOCK_MONOTONIC: i32 = 1;
        self.attr.has(flag::USE_CLOCKID) && self.attr.clockid == CLOCK_MONOTONIC
    }

    /// Returns true if a record is a sample.
    #[inline]
    pub fn is_sample(&self, record: &[u8]) -> bool {
        let bytes = record.first_chunk().copied().unwrap_or_default();
        let found = match self.layout.order() {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        };
        found == kind::SAMPLE
    }

    /// Returns the unit of the period.
    pub fn unit(&self) -> &'static str {
        use pyrograph_event::software::{CPU_CLOCK, TASK_CLOCK};
        let is_clock = self.attr.type_ == type_id::SOFTWARE
            && matches!(self.attr.config, CPU_CLOCK | TASK_CLOCK);
        if is_clock { "ns" } else { "count" }
    }

    /// Returns true if its name is `wanted`, with or without modifiers.
    pub fn is_called(&self, wanted: &str) -> bool {
        let rest = self.name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || rest.starts_with('/'))
    }
}

/// All events of a file.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Events, in the file's order.
    pub list: Vec<Event>,
    by_id: HashMap<u64, u16, foldhash::fast::FixedState>,
    /// All records have the same layout.
    alike: bool,
}

impl Events {
    /// Adds an event. There may be 65,536; others are ignored.
    pub fn add(&mut self, attr: Attr, ids: &[u64], order: ByteOrder) {
        let Ok(index) = u16::try_from(self.list.len()) else { return };
        for &id in ids {
            self.by_id.entry(id).or_insert(index);
        }
        self.list.push(Event::new(attr, order));
        // perf requests build IDs with one event only, but writes existing mappings as records without an event ID,
        // which count as records of the first event.
        if attr.has(flag::BUILD_ID)
            && let Some(first) = self.list.first_mut()
        {
            first.layout = first.layout.with_build_ids();
        }
        self.alike = self.list.len() == 1;
    }

    /// Sets the names of events to those given to `perf record`.
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

    /// Names tracepoints that have no name by their formats. Returns true if all of them have a name now.
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

    /// Returns the index of the event with this ID.
    pub fn index(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied().map(usize::from)
    }

    /// Returns the index of the event that a record belongs to. In all events of a file, the ID is at the same place of
    /// a record: perf ensures that, since it could not distinguish events otherwise. Records without an ID belong to
    /// the first event.
    #[inline]
    pub fn of(&self, record: &[u8]) -> Option<usize> {
        if self.alike {
            return Some(0);
        }
        let first = self.list.first()?;
        let id = first.layout.event_id(record).unwrap_or(0);
        Some(if id == 0 { 0 } else { self.index(id)? })
    }

    /// Returns the index of some event, for records that do not say which event they belong to.
    pub fn any(&self) -> Option<usize> {
        (!self.list.is_empty()).then_some(0)
    }

    /// Returns true if a sample has an ID that no event of the file has. `known` is the result of [`Self::of`] for it.
    #[inline]
    pub fn is_foreign(&self, record: &[u8], known: Option<usize>) -> bool {
        if self.by_id.is_empty() || (known.is_some() && !self.alike) {
            return false;
        }
        let id = self.list.first().and_then(|event| event.layout.event_id(record));
        id.is_some_and(|id| id != 0 && !self.by_id.contains_key(&id))
    }

    /// Chooses the event to count: the one named `wanted`, or the first in the file's order, which is the order in
    /// which they were requested. The event has samples.
    pub fn choose(&self, wanted: Option<&str>) -> Option<usize> {
        let position = |found: &dyn Fn(&Event) -> bool| {
            self.list.iter().position(|event| event.samples > 0 && found(event))
        };
        let Some(wanted) = wanted else { return position(&|_| true) };
        position(&|event| event.name == wanted)
            .or_else(|| position(&|event| event.is_called(wanted)))
    }
}
