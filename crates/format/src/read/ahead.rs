//! Stacks that are interned many at once: what each needs of the memory is fetched meanwhile.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Walk};

/// Steps from caller to callee, and samples where they led to, that are not in the profile yet.
#[derive(Default)]
pub(crate) struct Ahead<'a> {
    /// How many callers each step has, and its function.
    steps: Vec<(usize, &'a str)>,
    /// At which step each sample was taken.
    samples: Vec<usize>,
    /// Their values, of all columns.
    values: Vec<u64>,
    // What became of the steps. Empty but while they are put into the profile.
    names: Vec<StringId>,
    walk: Walk,
    stacks: Vec<StackId>,
}

/// The row of samples of each stack, where those of one stack are added up.
#[derive(Default)]
pub(crate) struct RowOf {
    /// By stack; only those of the last sample if the order of samples is to be kept.
    rows: Vec<Option<u32>>,
    keeps_order: bool,
    last: Option<(StackId, u32)>,
}

impl RowOf {
    /// With `keeps_order` only samples that follow each other are added up.
    pub fn new(keeps_order: bool) -> Self {
        Self { keeps_order, ..Self::default() }
    }

    /// Adds a sample. Memory grows with the distinct stacks, not with the samples.
    fn add(&mut self, profile: &mut Profile, stack: StackId, values: &[u64]) {
        let known = match self.keeps_order {
            true => self.last.filter(|&(last, _)| last == stack).map(|(_, row)| row),
            false => self.rows.get(stack.index()).copied().flatten(),
        };
        if let Some(row) = known {
            for (column, &value) in values.iter().enumerate() {
                profile.samples.add(row as usize, column, value);
            }
            return;
        }
        // Without room for its number, a row is one of its own.
        if let Ok(row) = u32::try_from(profile.samples.len()) {
            self.last = Some((stack, row));
            if !self.keeps_order {
                if self.rows.len() <= stack.index() {
                    self.rows.resize(stack.index() + 1, None);
                }
                self.rows[stack.index()] = Some(row);
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
