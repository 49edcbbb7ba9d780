//! Stacks that are interned many at once: what each needs of the memory is fetched meanwhile.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Walk};

/// Steps from caller to callee, and samples where they led to, that are not in the profile yet.
#[derive(Default)]
pub(crate) struct Ahead<'a> {
    /// Number of callers each step has, and its function.
    steps: Vec<(usize, &'a str)>,
    /// At which step each sample was taken.
    samples: Vec<usize>,
    /// Their values, of all columns.
    values: Vec<u64>,
    // Results of the steps. Empty but while they are put into the profile.
    names: Vec<StringId>,
    walk: Walk,
    stacks: Vec<StackId>,
}

/// Rows that samples have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// One a stack.
    #[default]
    Totals,
    /// One a sample, in their order; those of one stack that follow each other are added up.
    Order,
    /// One a sample, in any order, for the first [`SINGLES`] of them: enough to see how much their values differ. Others
    /// are added up.
    Singles,
}

/// See [`Keep::Singles`].
const SINGLES: usize = 1 << 18;

/// The row of samples of each stack, where those of one stack are added up.
#[derive(Default)]
pub(crate) struct RowOf {
    /// By stack, [`NO_ROW`] where there is none; empty as long as samples have rows of their own.
    rows: Vec<u32>,
    keep: Keep,
    last: Option<(StackId, u32)>,
}

/// Stands for "none".
const NO_ROW: u32 = u32::MAX;

impl RowOf {
    pub fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Adds a sample. Memory grows with the distinct stacks, not with the samples, unless their order is kept.
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
        // Without room for its number, a row is one of its own.
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

/// The frame of each string of a profile, as far as there is one.
#[derive(Default)]
pub(crate) struct FrameOf(Vec<Option<FrameId>>);

impl<'a> Ahead<'a> {
    /// The next step, to a function that has `depth` callers.
    pub fn step(&mut self, depth: usize, function: &'a str) {
        self.steps.push((depth, function));
    }

    /// A sample of where the last step led to.
    pub fn sample(&mut self, values: &[u64]) {
        self.samples.push(self.steps.len().saturating_sub(1));
        self.values.extend_from_slice(values);
    }

    /// True if there are so many steps that more at once would take no less time.
    pub fn is_long(&self) -> bool {
        self.steps.len() >= Walk::LONG
    }

    /// Puts all of them into the profile.
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
