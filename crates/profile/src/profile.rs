//! The profile, which consists of all tables.

use crate::{
    About, Addresses, Frame, FrameKind, Frames, FullNames, Marker, Quantity, Sample, Samples,
    StackId, Stacks, Strings, Thread, ThreadId, Threads, UnitKind, ValueType,
};

/// A profile: the output of every reader and the input of every view.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// All strings of the profile.
    pub strings: Strings,
    /// The distinct frames.
    pub frames: Frames,
    /// The distinct stacks.
    pub stacks: Stacks,
    /// The distinct threads.
    pub threads: Threads,
    /// The distinct addresses of samples, if they were requested.
    pub addresses: Addresses,
    /// Names of functions with parameters, for functions whose names in frames have none.
    pub full_names: FullNames,
    /// Types of the columns of values; at least one.
    pub value_types: Vec<ValueType>,
    /// The samples.
    pub samples: Samples,
    /// Index of the column that views show by default.
    pub shown: usize,
    /// True if the stacks already begin with the process or thread. Views then add no label for it.
    pub rooted: bool,
    /// Sum of each column before samples were filtered out on request; empty if none were. See [`Profile::whole`].
    pub unfiltered: Vec<u64>,
    /// Source and instructions of functions, if the profile was read from pages: the JSON of each page.
    pub code: Vec<String>,
    /// Metadata of the recording.
    pub about: About,
}

impl Profile {
    /// Creates an empty profile with these value types.
    pub fn new(value_types: Vec<ValueType>) -> Self {
        Self { samples: Samples::new(value_types.len()), value_types, ..Self::default() }
    }

    /// Returns the index of the column with this name, such as `cpu`. If several columns have the same name, the unit may
    /// follow: `alloc/bytes`.
    pub fn column(&self, name: &str) -> Option<usize> {
        let named = |of: &ValueType| of.name == name || format!("{}/{}", of.name, of.unit) == name;
        self.value_types.iter().position(named)
    }

    /// Returns the column that counts the samples, waits, calls, … whose values are summed in another column.
    ///
    /// Objects of a heap profile are no such counts: Go and others estimate them from few samples.
    pub fn numbers_beside(&self, column: usize) -> Option<usize> {
        let types = &self.value_types;
        let counts = |&other: &usize| {
            let of = &types[other];
            other != column
                && of.unit_kind() == UnitKind::Count
                && of.decimals == 0
                && of.quantity() != Quantity::Objects
        };
        let mut found = (0..types.len()).filter(counts);
        let named = found.clone().find(|&other| types[other].quantity() == Quantity::Samples);
        // If several columns count something else than samples, it is not known which one is the right one. A column of
        // counts has only a column of samples beside it.
        let is_sum = types[column].unit_kind() != UnitKind::Count;
        let alone = found.next().filter(|_| found.next().is_none() && is_sum);
        named.or(alone)
    }

    /// Total of a column to which percentages refer: the sum of all samples that were read, including those that were
    /// filtered out on request. Saturates.
    pub fn whole(&self, column: usize) -> u64 {
        self.samples.total(column).max(self.unfiltered.get(column).copied().unwrap_or(0))
    }

    /// Sets the machine on which the samples were taken, for all threads.
    pub fn set_host(&mut self, host: &str) {
        let host = self.strings.intern(host);
        self.map_threads(|thread| Thread { host, ..thread });
    }

    /// Replaces each thread. Threads that become equal are merged.
    pub fn map_threads(&mut self, mut new: impl FnMut(Thread) -> Thread) {
        let mut threads = Threads::default();
        let ids: Vec<ThreadId> =
            self.threads.iter().map(|thread| threads.intern(new(thread))).collect();
        self.samples.map_threads(|thread| ids[thread.index()]);
        self.threads = threads;
    }

    /// Removes all columns except the shown one, for formats and views with a single value per stack. Both columns of a
    /// comparison are kept.
    pub fn keep_shown(&mut self) {
        if !self.is_comparison() && self.shown < self.value_types.len() {
            self.value_types = vec![self.value_types.swap_remove(self.shown)];
            self.samples.keep(self.shown);
            self.unfiltered = self.unfiltered.get(self.shown).copied().into_iter().collect();
            self.shown = 0;
        }
    }

    /// Returns true if the two columns are the same quantity before and after a change, as in folded text with two
    /// counts.
    pub fn is_comparison(&self) -> bool {
        let [a, b] = &self.value_types[..] else { return false };
        (a.quantity(), b.quantity()) == (Quantity::Before, Quantity::After)
    }

    /// Returns the stack of user functions and markers with these names, root first, for sources that know only names.
    /// Adds it if it is new.
    pub fn stack_of_names<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> StackId {
        let mut stack = StackId::ROOT;
        for name in names {
            let kind = Marker::of_label(name).map_or(FrameKind::User, FrameKind::Marker);
            let name = self.strings.intern(name);
            let frame = self.frames.intern(Frame::named(name, kind));
            stack = self.stacks.intern(stack, frame);
        }
        stack
    }

    /// Memory of all tables in bytes.
    pub fn bytes(&self) -> usize {
        self.strings.bytes()
            + self.frames.bytes()
            + self.stacks.bytes()
            + self.threads.bytes()
            + self.addresses.bytes()
            + self.samples.bytes()
    }

    /// Adds a sample with one value for each value type.
    pub fn push(&mut self, sample: Sample, values: &[u64]) {
        self.samples.push(sample, values);
    }
}
