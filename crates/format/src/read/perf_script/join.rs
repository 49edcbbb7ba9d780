//! Joins the results of the worker threads, in the order of the input.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, Profile, Sample, StackId, StringId, Thread, ThreadId, ValueType,
};

use super::worker::{Event, Part, Row};
use crate::reader::{Count, Detail, Options, Reading};
use crate::warnings::{LocalWarnings, WarningKind};

/// Joins all parts into one profile. The result depends neither on the number of parts nor on which of them parsed
/// which chunk of the input.
pub fn join(mut parts: Vec<Part>, name: &str, error: Option<String>, options: &Options) -> Reading {
    let mut lines: Vec<(u64, u64)> =
        parts.iter_mut().flat_map(|part| std::mem::take(&mut part.lines)).collect();
    lines.sort_unstable();
    let lines: Vec<u64> = lines.into_iter().map(|(_, lines)| lines).collect();
    let local = parts.iter_mut().map(|part| std::mem::take(&mut part.warnings)).collect();
    let mut warnings = LocalWarnings::gather(local, name, &lines);
    if let Some(cause) = error {
        warnings.add(WarningKind::Truncated(cause), 1, []);
    }

    let events = Events::gather(&parts);
    let chosen = match options.each_event {
        true => vec![true; events.list.len()],
        false => events.choose(options.event.as_deref()),
    };
    let mut other_events = BTreeMap::<String, u64>::new();
    for (event, _) in events.list.iter().zip(&chosen).filter(|(_, chosen)| !**chosen) {
        *other_events.entry(event.display()).or_default() += event.samples;
    }
    let first =
        events.list.iter().zip(&chosen).find(|(_, chosen)| **chosen).map(|(event, _)| event);

    let mut joined = Joined::new(value_types(&events, first, options), &parts);
    if options.each_event {
        joined.columns.clone_from(&events.of_part);
    }
    let counts = |part: usize, event: u32| chosen[events.of_part[part][event as usize]];
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (number, part) in parts.iter_mut().enumerate() {
        let all = std::mem::take(&mut part.rows).into_iter();
        rows.extend(all.filter(|row| counts(number, row.key.event)).map(|row| (number, row)));
    }
    rows.sort_unstable_by_key(|(_, row)| row.position);
    match options.detail {
        Detail::Totals => joined.add_totals(&parts, &rows),
        Detail::Samples => joined.add_samples(&parts, &rows),
    }
    let event = first.map(Event::display).filter(|name| !name.is_empty());
    Reading { profile: joined.profile, warnings, event, other_events }
}

impl Event {
    fn display(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

/// Returns the types of the value columns: with `each_event`, samples of each event; otherwise the value of the
/// chosen event, and for single samples also the number of samples, as for perf.data.
fn value_types(events: &Events, chosen: Option<&Event>, options: &Options) -> Vec<ValueType> {
    let of_event = |event: &Event| match event.display() {
        name if name.is_empty() => ValueType::samples(),
        name => ValueType::new(&name, "samples"),
    };
    match options.each_event && !events.list.is_empty() {
        true => events.list.iter().map(of_event).collect(),
        false => {
            let shown = value_type(chosen, options.count);
            let is_single = options.detail == Detail::Samples && shown != ValueType::samples();
            std::iter::once(shown).chain(is_single.then(ValueType::samples)).collect()
        }
    }
}

/// Returns the value type of the chosen event: nanoseconds for perf's clock events, unnamed if the text prints no
/// event.
fn value_type(event: Option<&Event>, count: Count) -> ValueType {
    let Some(event) = event.filter(|event| event.has_period && count == Count::Period) else {
        return ValueType::samples();
    };
    let name = event.display();
    if name.is_empty() {
        return ValueType::unnamed();
    }
    let clock =
        name.split(':').next().is_some_and(|name| matches!(name, "cpu-clock" | "task-clock"));
    ValueType::new(&name, if clock { "ns" } else { "count" })
}

/// The events of all parts.
struct Events {
    /// All distinct events, ordered by their first samples.
    list: Vec<Event>,
    /// For each part, the index in `list` of each of its events.
    of_part: Vec<Vec<usize>>,
}

impl Events {
    fn gather(parts: &[Part]) -> Self {
        let mut list: Vec<Event> = Vec::new();
        let mut index: HashMap<&[u8], usize, FixedState> = HashMap::default();
        for event in parts.iter().flat_map(|part| &part.events) {
            let at = *index.entry(&event.name).or_insert_with(|| {
                list.push(Event {
                    name: event.name.clone(),
                    first: event.first,
                    ..Event::default()
                });
                list.len() - 1
            });
            list[at].samples += event.samples;
            list[at].first = list[at].first.min(event.first);
            list[at].has_period |= event.has_period;
        }
        list.sort_unstable_by_key(|event| event.first);
        let index: HashMap<&[u8], usize, FixedState> =
            list.iter().enumerate().map(|(at, event)| (event.name.as_slice(), at)).collect();
        let of_part = parts
            .iter()
            .map(|part| part.events.iter().map(|event| index[event.name.as_slice()]).collect())
            .collect();
        drop(index);
        Self { list, of_part }
    }

    /// Selects the events to count: the one named `wanted`, or else those that have this name plus modifiers. Without
    /// `wanted`, the first event.
    fn choose(&self, wanted: Option<&str>) -> Vec<bool> {
        let Some(wanted) = wanted.map(str::as_bytes) else {
            return (0..self.list.len()).map(|at| at == 0).collect();
        };
        let exact: Vec<bool> = self.list.iter().map(|event| event.name == wanted).collect();
        if exact.contains(&true) {
            return exact;
        }
        let modified = |event: &Event| {
            event.name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(b":"))
        };
        self.list.iter().map(modified).collect()
    }
}

/// The joined profile under construction, and the new IDs of each part's stacks, frames and threads.
struct Joined {
    profile: Profile,
    stacks: Vec<Vec<Option<StackId>>>,
    frames: Vec<Vec<Option<FrameId>>>,
    threads: Vec<Vec<Option<ThreadId>>>,
    /// The column of each event of each part; empty if there is only one column.
    columns: Vec<Vec<usize>>,
}

impl Joined {
    fn new(value_types: Vec<ValueType>, parts: &[Part]) -> Self {
        let tables = || parts.iter().map(|part| &part.tables);
        Self {
            profile: Profile::new(value_types),
            stacks: tables().map(|tables| vec![None; tables.stacks.len()]).collect(),
            frames: tables().map(|tables| vec![None; tables.frames.len()]).collect(),
            threads: tables().map(|tables| vec![None; tables.threads.len()]).collect(),
            columns: Vec::new(),
        }
    }

    fn column(&self, part: usize, row: &Row) -> usize {
        self.columns.get(part).map_or(0, |columns| columns[row.key.event as usize])
    }

    fn add_samples(&mut self, parts: &[Part], rows: &[(usize, Row)]) {
        let mut values = vec![0; self.profile.samples.columns()];
        // The second column, if any, is the number of samples.
        if self.columns.is_empty() {
            values[1..].fill(1);
        }
        for (part, row) in rows {
            let stack = self.stack(*part, &parts[*part].tables, row.key.stack);
            let thread = self.thread(*part, &parts[*part].tables, row.key.thread);
            let column = self.column(*part, row);
            values[column] = row.weight;
            self.profile.push(
                Sample { thread, cpu: row.cpu, time: row.time, ..Sample::new(stack) },
                &values,
            );
            values[column] = 0;
        }
    }

    fn add_totals(&mut self, parts: &[Part], rows: &[(usize, Row)]) {
        let mut index: HashMap<(StackId, ThreadId, usize), usize, FixedState> = HashMap::default();
        let mut totals: Vec<(Sample, usize, u64)> = Vec::new();
        for (part, row) in rows {
            let stack = self.stack(*part, &parts[*part].tables, row.key.stack);
            let thread = self.thread(*part, &parts[*part].tables, row.key.thread);
            let column = self.column(*part, row);
            let at = *index.entry((stack, thread, column)).or_insert_with(|| {
                totals.push((Sample { thread, ..Sample::new(stack) }, column, 0));
                totals.len() - 1
            });
            totals[at].2 = totals[at].2.saturating_add(row.weight);
        }
        let mut values = vec![0; self.profile.samples.columns()];
        for (sample, column, weight) in totals {
            values[column] = weight;
            self.profile.push(sample, &values);
            values[column] = 0;
        }
    }

    fn stack(&mut self, part: usize, tables: &Profile, stack: StackId) -> StackId {
        // Walk from the leaf up to a caller that has been translated already, then back down.
        let mut missing = Vec::new();
        let mut at = stack;
        let mut known = loop {
            if let Some(known) = self.stacks[part][at.index()] {
                break known;
            }
            let Some((parent, frame)) = tables.stacks.get(at) else { break StackId::ROOT };
            missing.push((at, frame));
            at = parent;
        };
        while let Some((stack, frame)) = missing.pop() {
            let frame = self.frame(part, tables, frame);
            known = self.profile.stacks.intern(known, frame);
            self.stacks[part][stack.index()] = Some(known);
        }
        known
    }

    fn frame(&mut self, part: usize, tables: &Profile, id: FrameId) -> FrameId {
        if let Some(known) = self.frames[part][id.index()] {
            return known;
        }
        let frame = tables.frames.get(id);
        let frame = Frame {
            function: self.string(tables, frame.function),
            module: self.string(tables, frame.module),
            file: self.string(tables, frame.file),
            ..frame
        };
        let known = self.profile.frames.intern(frame);
        self.frames[part][id.index()] = Some(known);
        known
    }

    fn thread(&mut self, part: usize, tables: &Profile, id: ThreadId) -> ThreadId {
        if let Some(known) = self.threads[part][id.index()] {
            return known;
        }
        let thread = tables.threads.get(id);
        let thread = Thread {
            process: self.string(tables, thread.process),
            name: self.string(tables, thread.name),
            field: self.string(tables, thread.field),
            ..thread
        };
        let known = self.profile.threads.intern(thread);
        self.threads[part][id.index()] = Some(known);
        known
    }

    fn string(&mut self, tables: &Profile, id: StringId) -> StringId {
        self.profile.strings.intern(tables.strings.get(id))
    }
}
