//! A recording that is viewed while it goes on: its most recent part, or all of it, as one profile.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, Profile, Sample, Samples, StackId, StringId, ThreadDetail, ThreadId,
};

/// Maximum number of rows of the totals since the beginning; if exceeded, the totals restart with the parts that are
/// kept.
const MOST_ROWS: usize = 1 << 16;

/// Tables are rebuilt when they exceed this many bytes, and then whenever they have grown to twice their size.
const LEAST_GROWTH: usize = 4 << 20;

/// Counts of a part of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Recorded time.
    pub span: Duration,
    /// Number of samples, waits, calls …
    pub samples: u64,
    /// Number of lost samples.
    pub lost: u64,
}

impl PartCounts {
    fn add(&mut self, other: Self) {
        self.span = self.span.saturating_add(other.span);
        self.samples = self.samples.saturating_add(other.samples);
        self.lost = self.lost.saturating_add(other.lost);
    }
}

/// Part of a recording to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recent {
    /// The samples of the most recent time, rounded up to whole snapshots.
    Last(Duration),
    /// All samples since the beginning. Threads are distinguished only by name, because the IDs of all threads that
    /// ever existed would take unlimited memory.
    All,
}

/// The snapshots of a recording, as far back as views need them. Memory does not grow with the length of the
/// recording: strings, frames and stacks that no sample refers to any more are dropped.
#[derive(Debug)]
pub struct History {
    longest: Duration,
    /// Strings, frames, stacks and threads of all rows, without samples.
    tables: Profile,
    parts: VecDeque<Part>,
    all: Totals,
    /// Size of the tables in bytes at which they are rebuilt.
    limit: usize,
}

#[derive(Debug, Default)]
struct Part {
    rows: Vec<Row>,
    counts: PartCounts,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    stack: StackId,
    thread: ThreadId,
    value: u64,
}

/// Totals by stack and thread name.
#[derive(Debug, Default)]
struct Totals {
    rows: Vec<Row>,
    index: HashMap<(StackId, ThreadId), usize, FixedState>,
    counts: PartCounts,
}

impl Totals {
    fn add(&mut self, Row { stack, thread, value }: Row) {
        let rows = &mut self.rows;
        let at = *self.index.entry((stack, thread)).or_insert_with(|| {
            rows.push(Row { stack, thread, value: 0 });
            rows.len() - 1
        });
        self.rows[at].value = self.rows[at].value.saturating_add(value);
    }
}

impl History {
    /// Creates an empty history; `longest` is the maximum duration for [`Recent::Last`].
    pub fn new(longest: Duration) -> Self {
        let (tables, parts) = (Profile::default(), VecDeque::new());
        Self { longest, tables, parts, all: Totals::default(), limit: LEAST_GROWTH }
    }

    /// Adds the samples since the last snapshot: the values of its shown column.
    pub fn push(&mut self, snapshot: &Profile, counts: PartCounts) {
        let column = snapshot.shown;
        let Some(value_type) = snapshot.value_types.get(column) else { return };
        if self.tables.value_types.first() != Some(value_type) {
            // The first snapshot, or one with another value type, which cannot be added.
            *self = Self::new(self.longest);
            self.tables = Profile::new(vec![value_type.clone()]);
        }
        let mut part = snapshot.clone();
        part.keep_shown();
        if self.tables.merge(&part).is_err() {
            return;
        }
        let samples = std::mem::replace(&mut self.tables.samples, Samples::new(1));
        self.tables.unfiltered.clear();
        let rows = samples.iter().zip(samples.values(0));
        let rows = rows.map(|(of, &value)| Row { stack: of.stack, thread: of.thread, value });
        let part = Part { rows: rows.collect(), counts };
        self.add_to_all(&part);
        self.parts.push_back(part);
        self.forget_old();
        if self.all.rows.len() > MOST_ROWS {
            self.all = Totals::default();
            let parts = std::mem::take(&mut self.parts);
            parts.iter().for_each(|part| self.add_to_all(part));
            self.parts = parts;
        }
        if self.tables.bytes() > self.limit {
            self.make_tables_anew();
            self.limit = self.tables.bytes().max(LEAST_GROWTH).saturating_mul(2);
        }
    }

    /// Returns a part of the recording as a profile, and its counts.
    pub fn show(&self, recent: Recent) -> (Profile, PartCounts) {
        // Includes only the table entries of these samples, which makes views faster.
        let mut profile = Profile::new(self.tables.value_types.clone());
        let mut moved = Moved::new(&self.tables);
        let mut counts = PartCounts::default();
        let mut push = |row: &Row| {
            let stack = moved.stack(row.stack, &mut profile);
            let thread = moved.thread(row.thread, &mut profile);
            profile.push(Sample { thread, ..Sample::new(stack) }, &[row.value]);
        };
        match recent {
            Recent::All => {
                self.all.rows.iter().for_each(push);
                counts = self.all.counts;
            }
            Recent::Last(span) => {
                for part in self.parts.iter().rev() {
                    if counts.span >= span {
                        break;
                    }
                    part.rows.iter().for_each(&mut push);
                    counts.add(part.counts);
                }
            }
        }
        profile.about.lost = counts.lost;
        profile.about.duration = u64::try_from(counts.span.as_nanos()).ok();
        (profile, counts)
    }

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.parts.iter().map(|part| part.rows.capacity()).sum();
        self.tables.bytes()
            + (rows + self.all.rows.capacity()) * size_of::<Row>()
            + self.all.index.allocation_size()
    }

    fn add_to_all(&mut self, part: &Part) {
        for row in &part.rows {
            let thread = ThreadDetail::Name.keep(self.tables.threads.get(row.thread));
            let thread = self.tables.threads.intern(thread);
            self.all.add(Row { thread, ..*row });
        }
        self.all.counts.add(part.counts);
    }

    fn forget_old(&mut self) {
        let mut span: Duration = self.parts.iter().map(|part| part.counts.span).sum();
        while let Some(first) = self.parts.front().map(|part| part.counts.span) {
            if span.saturating_sub(first) < self.longest {
                break;
            }
            span -= first;
            self.parts.pop_front();
        }
    }

    /// Rebuilds the tables with only the entries that rows refer to.
    fn make_tables_anew(&mut self) {
        let empty = Profile::new(self.tables.value_types.clone());
        let old = std::mem::replace(&mut self.tables, empty);
        let mut moved = Moved::new(&old);
        let parts = self.parts.iter_mut().flat_map(|part| &mut part.rows);
        for row in parts.chain(&mut self.all.rows) {
            row.stack = moved.stack(row.stack, &mut self.tables);
            row.thread = moved.thread(row.thread, &mut self.tables);
        }
        self.all.index.clear();
        let keys = self.all.rows.iter().enumerate();
        self.all.index.extend(keys.map(|(at, row)| ((row.stack, row.thread), at)));
        self.all.index.shrink_to_fit();
    }
}

/// Mapping from the IDs of an old profile to a new one; entries are added to the new profile when they are first
/// needed.
struct Moved<'a> {
    old: &'a Profile,
    stacks: Vec<Option<StackId>>,
    frames: Vec<Option<FrameId>>,
    /// Stacks between the requested one and its nearest caller that the new profile already has.
    missing: Vec<(StackId, FrameId)>,
}

impl<'a> Moved<'a> {
    fn new(old: &'a Profile) -> Self {
        let mut stacks = vec![None; old.stacks.len()];
        stacks[0] = Some(StackId::ROOT);
        Self { old, stacks, frames: vec![None; old.frames.len()], missing: Vec::new() }
    }

    fn stack(&mut self, stack: StackId, new: &mut Profile) -> StackId {
        let mut at = stack;
        let mut found = loop {
            if let Some(known) = self.stacks[at.index()] {
                break known;
            }
            let Some((caller, frame)) = self.old.stacks.get(at) else { break StackId::ROOT };
            self.missing.push((at, frame));
            at = caller;
        };
        while let Some((of, frame)) = self.missing.pop() {
            let frame = self.frame(frame, new);
            found = new.stacks.intern(found, frame);
            self.stacks[of.index()] = Some(found);
        }
        found
    }

    fn frame(&mut self, id: FrameId, new: &mut Profile) -> FrameId {
        if let Some(known) = self.frames[id.index()] {
            return known;
        }
        let frame = self.old.frames.get(id);
        let mut text = |id: StringId| new.strings.intern(self.old.strings.get(id));
        let [function, module, file] = [frame.function, frame.module, frame.file].map(&mut text);
        let id_in_new = new.frames.intern(Frame { function, module, file, ..frame });
        self.frames[id.index()] = Some(id_in_new);
        id_in_new
    }

    fn thread(&mut self, id: ThreadId, new: &mut Profile) -> ThreadId {
        let thread = self.old.threads.get(id);
        let strings = &mut new.strings;
        new.threads.intern(thread.map_texts(|id| strings.intern(self.old.strings.get(id))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pyrograph_profile::{LabelOptions, Labels, ProcessLabel, Thread, ValueType};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The snapshot of a second: a stack that each has, and one that no other has.
    fn snapshot(second: usize) -> Profile {
        let mut profile = Profile::new(vec![ValueType::new("cpu", "ns"), ValueType::samples()]);
        let process = profile.strings.intern("sh");
        let pid = Some(second as i32 + 1);
        let thread = Thread { pid, process, ..Thread::default() };
        let thread = profile.threads.intern(thread);
        let own = format!("only_in_{second}");
        for (path, value) in [(vec!["main", "run"], 10), (vec!["main", own.as_str()], 1)] {
            let stack = profile.stack_of_names(path);
            profile.push(Sample { thread, ..Sample::new(stack) }, &[value, 1]);
        }
        profile
    }

    fn sums(profile: &Profile, process: ProcessLabel) -> BTreeMap<String, u64> {
        profile.check().expect("a sound profile");
        let labels = Labels::new(profile, &LabelOptions { process, ..LabelOptions::default() });
        let mut sums = BTreeMap::new();
        for (sample, value) in profile.samples.iter().zip(profile.samples.values(0)) {
            let mut path: Vec<&str> = profile
                .stacks
                .leaf_first(sample.stack)
                .map(|frame| labels.names.get(labels.frames[frame.index()]))
                .collect();
            path.push(labels.names.get(labels.threads[sample.thread.index()]));
            path.reverse();
            *sums.entry(path.join(";")).or_insert(0) += value;
        }
        sums
    }

    fn counts() -> PartCounts {
        PartCounts { span: SECOND, samples: 2, lost: 1 }
    }

    #[test]
    fn the_last_part_and_all_of_it() {
        let mut history = History::new(10 * SECOND);
        for second in 0..20 {
            history.push(&snapshot(second), counts());
        }
        let (last, counted) = history.show(Recent::Last(2 * SECOND));
        assert_eq!(counted, PartCounts { span: 2 * SECOND, samples: 4, lost: 2 });
        let expect = [
            ("sh-19;main;only_in_18".to_owned(), 1),
            ("sh-19;main;run".to_owned(), 10),
            ("sh-20;main;only_in_19".to_owned(), 1),
            ("sh-20;main;run".to_owned(), 10),
        ];
        assert_eq!(sums(&last, ProcessLabel::Pid), BTreeMap::from(expect));
        let (all, counted) = history.show(Recent::All);
        assert_eq!((counted.span, counted.samples), (20 * SECOND, 40));
        let all = sums(&all, ProcessLabel::Pid);
        assert_eq!(all["sh-?;main;run"], 200);
        assert_eq!(all.len(), 21);
        let (longest, counted) = history.show(Recent::Last(100 * SECOND));
        assert_eq!((counted.span, longest.samples.len()), (10 * SECOND, 20));
    }

    #[test]
    fn tables_that_are_made_anew_hold_the_same() {
        let mut history = History::new(3 * SECOND);
        for second in 0..50 {
            history.push(&snapshot(second), counts());
            let before = [Recent::Last(2 * SECOND), Recent::All].map(|of| history.show(of));
            history.make_tables_anew();
            let after = [Recent::Last(2 * SECOND), Recent::All].map(|of| history.show(of));
            for ((before, _), (after, _)) in before.iter().zip(&after) {
                let [before, after] = [before, after].map(|of| sums(of, ProcessLabel::Pid));
                assert_eq!(before, after);
            }
        }
        // Of threads, those of the last three seconds, those without numbers, and the unknown one.
        assert_eq!(history.tables.threads.len(), 3 + 1 + 1);
    }

    #[test]
    fn memory_does_not_grow_with_time() {
        let mut history = History::new(2 * SECOND);
        let mut most = [0, 0];
        for second in 0..2000 {
            // Always the same functions, but a new process each time.
            let mut part = snapshot(7);
            let process = part.strings.intern(&format!("process {}", second % 100));
            part.threads = Default::default();
            for number in 0..200 {
                let pid = Some(second * 200 + number);
                part.threads.intern(Thread { pid, process, ..Thread::default() });
            }
            history.push(&part, counts());
            let half = usize::from(second >= 1000);
            most[half] = most[half].max(history.bytes());
        }
        assert!(most[1] <= most[0] * 11 / 10, "{most:?}");
        assert!(most[1] < 3 * LEAST_GROWTH, "{most:?}");
    }

    #[test]
    fn a_snapshot_of_something_else_begins_anew() {
        let mut history = History::new(SECOND);
        history.push(&snapshot(0), counts());
        history.push(&Profile::new(vec![ValueType::new("alloc", "bytes")]), counts());
        let (all, counted) = history.show(Recent::All);
        assert_eq!((all.samples.len(), counted.samples), (0, 2));
        history.push(&Profile::default(), counts());
    }
}
