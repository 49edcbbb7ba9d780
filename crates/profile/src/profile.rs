//! The profile: all tables together.

use crate::{
    About, Addresses, Frame, FrameKind, Frames, FullNames, Marker, Quantity, Sample, Samples,
    StackId, Stacks, Strings, Thread, ThreadId, Threads, UnitKind, ValueType,
};

/// A profile: what every reader makes and every view takes.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Every text in the profile.
    pub strings: Strings,
    /// The distinct frames.
    pub frames: Frames,
    /// The distinct stacks.
    pub stacks: Stacks,
    /// The distinct threads.
    pub threads: Threads,
    /// The distinct addresses of samples, where they were asked for.
    pub addresses: Addresses,
    /// Names of functions with parameters, where frames have them without.
    pub full_names: FullNames,
    /// Types of the columns of values; at least one.
    pub value_types: Vec<ValueType>,
    /// The samples.
    pub samples: Samples,
    /// The column that views show by default.
    pub shown: usize,
    /// True if stacks begin with who ran them: no view puts a process before them then.
    pub rooted: bool,
    /// Sums of the samples, by column, before some were left out on request; empty if
    /// none was. See [`Profile::whole`].
    pub unfiltered: Vec<u64>,
    /// Source and instructions of functions in the pages that it was read from: the JSON of each page.
    pub code: Vec<String>,
    /// When and how it was recorded.
    pub about: About,
}

impl Profile {
    /// An empty profile with these value types.
    pub fn new(value_types: Vec<ValueType>) -> Self {
        Self { samples: Samples::new(value_types.len()), value_types, ..Self::default() }
    }

    /// The column whose value type has this name, as `cpu`; the unit may follow, as `alloc/bytes`,
    /// where several have one name.
    pub fn column(&self, name: &str) -> Option<usize> {
        let named = |of: &ValueType| of.name == name || format!("{}/{}", of.name, of.unit) == name;
        self.value_types.iter().position(named)
    }

    /// The column that counts the samples, waits, calls … behind the values of another column.
    ///
    /// Objects of a heap profile are none: Go's and others' are estimated from few samples.
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
        // Of several that are called otherwise nobody knows which it is; a count has none beside it.
        let is_sum = types[column].unit_kind() != UnitKind::Count;
        let alone = found.next().filter(|_| found.next().is_none() && is_sum);
        named.or(alone)
    }

    /// The whole that percentages of a column are of: the sum of all samples that were read, also of those
    /// that were left out on request. Saturates.
    pub fn whole(&self, column: usize) -> u64 {
        self.samples.total(column).max(self.unfiltered.get(column).copied().unwrap_or(0))
    }

    /// Says on which machine its samples were taken.
    pub fn set_host(&mut self, host: &str) {
        let host = self.strings.intern(host);
        let mut threads = Threads::default();
        let new: Vec<ThreadId> =
            self.threads.iter().map(|thread| threads.intern(Thread { host, ..thread })).collect();
        self.samples.map_threads(|thread| new[thread.index()]);
        self.threads = threads;
    }

    /// Forgets all columns but the one to show, for what holds one value a stack; a comparison keeps
    /// both of its own.
    pub fn keep_shown(&mut self) {
        if !self.is_comparison() && self.shown < self.value_types.len() {
            self.value_types = vec![self.value_types.swap_remove(self.shown)];
            self.samples.keep(self.shown);
            self.unfiltered = self.unfiltered.get(self.shown).copied().into_iter().collect();
            self.shown = 0;
        }
    }

    /// True if its two columns are the same thing before and after a change, as folded text with
    /// two counts has them.
    pub fn is_comparison(&self) -> bool {
        let [a, b] = &self.value_types[..] else { return false };
        (a.quantity(), b.quantity()) == (Quantity::Before, Quantity::After)
    }

    /// The stack of user functions and markers with these names, root first: for sources that know no more.
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

    /// Bytes of memory that all its tables take.
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
