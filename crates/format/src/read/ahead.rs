//! Batched interning of stacks, which prefetches the memory that each stack needs.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Walk};

/// Steps from caller to callee, and samples at the frames they lead to, that are not in the profile yet.
#[derive(Default)]
pub(crate) struct Ahead<'a> {
    /// For each step, number of callers and name of the function.
    steps: Vec<(usize, &'a str)>,
    /// For each sample, index of the step it belongs to.
    samples: Vec<usize>,
    /// Values of the samples, for all columns.
    values: Vec<u64>,
    // Results of the steps. Empty except during `flush`.
    names: Vec<StringId>,
    walk: Walk,
    stacks: Vec<StackId>,
}

/// How samples are combined into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// One row per stack.
    #[default]
    Totals,
    /// One row per sample, in order; consecutive samples with the same stack are summed.
    Order,
    /// One row per sample, in any order, for the first [`SINGLES`] of them: enough to show the distribution of
    /// values. Later samples are summed.
    Singles,
}

/// Number of samples with rows of their own; see [`Keep::Singles`].
const SINGLES: usize = 1 << 18;

/// The row of samples of each stack, if samples with the same stack are summed.
#[derive(Default)]
pub(crate) struct RowOf {
    /// Row by stack ID, [`NO_ROW`] if there is none; empty while samples have rows of their own.
    rows: Vec<u32>,
    keep: Keep,
    last: Option<(StackId, u32)>,
}

/// The value for "no row".
const NO_ROW: u32 = u32::MAX;

impl RowOf {
    pub fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Adds a sample. Memory grows with the number of distinct stacks, not of samples, unless their order is kept.
    fn add(&mut self, profile: &mut Profile, stack: StackId, values: &[u64]) {
        if self.keep == Keep::Singles && profile.samples.len() >= SINGLES {
            self.keep = Keep::Totals;
            self.rows.resize(profile.stacks.len(), NO_ROW);
            for (row, sample) in profile.samples.iter().enumerate() {
                self.rows[sample.stack.index()] = row as u32;
            }
        }
        let known = match self.keep {
            Keep::Totals => self.rows.get(stack.index()).copied().filter(|&row| row != NO_ROW),
            Keep::Order | Keep::Singles => {
                self.last.filter(|&(last, _)| last == stack).map(|(_, row)| row)
            }
        };
        if let Some(row) = known {
            for (column, &value) in values.iter().enumerate() {
                profile.samples.add(row as usize, column, value);
            }
            return;
        }
        // A row whose number does not fit in 32 bits is never found again, so it stays separate.
        if let Ok(row) = u32::try_from(profile.samples.len())
            && row != NO_ROW
        {
            self.last = Some((stack, row));
            if self.keep == Keep::Totals {
                if self.rows.len() <= stack.index() {
                    self.rows.resize(profile.stacks.len(), NO_ROW);
                }
                self.rows[stack.index()] = row;
            }
        }
        profile.push(Sample::new(stack), values);
    }
}

/// The frame of each string of a profile, if there is one.
#[derive(Default)]
pub(crate) struct FrameOf(Vec<Option<FrameId>>);

impl<'a> Ahead<'a> {
    /// Adds a step to a function that has `depth` callers.
    pub fn step(&mut self, depth: usize, function: &'a str) {
        self.steps.push((depth, function));
    }

    /// Adds a sample at the last step's function.
    pub fn sample(&mut self, values: &[u64]) {
        self.samples.push(self.steps.len().saturating_sub(1));
        self.values.extend_from_slice(values);
    }

    /// True if there are so many steps that a larger batch would not be faster.
    pub fn is_long(&self) -> bool {
        self.steps.len() >= Walk::LONG
    }

    /// Adds all steps and samples to the profile.
    pub fn flush(&mut self, profile: &mut Profile, frames: &mut FrameOf, rows: &mut RowOf) {
        let functions = self.steps.iter().map(|&(_, function)| function);
        profile.strings.intern_all(functions, &mut self.names);
        for (&(depth, _), &name) in self.steps.iter().zip(&self.names) {
            self.walk.step(depth, frames.get(profile, name));
        }
        profile.stacks.intern_walk(&mut self.walk, &mut self.stacks);
        let values = self.values.chunks(profile.value_types.len().max(1));
        for (&step, values) in self.samples.iter().zip(values) {
            rows.add(profile, self.stacks[step], values);
        }
        self.steps.clear();
        self.samples.clear();
        self.values.clear();
        self.names.clear();
        self.stacks.clear();
    }
}

impl FrameOf {
    fn get(&mut self, profile: &mut Profile, name: StringId) -> FrameId {
        if self.0.len() <= name.index() {
            self.0.resize(name.index() + 1, None);
        }
        let intern = || profile.frames.intern(Frame::named(name, FrameKind::User));
        *self.0[name.index()].get_or_insert_with(intern)
    }
}
