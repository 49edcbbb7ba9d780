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

    /// Whether there are so many steps that more at once would take no less time.
    pub fn is_long(&self) -> bool {
        self.steps.len() >= Walk::LONG
    }

    /// Puts all of them into the profile.
    pub fn flush(&mut self, profile: &mut Profile, frames: &mut FrameOf) {
        let functions = self.steps.iter().map(|&(_, function)| function);
        profile.strings.intern_all(functions, &mut self.names);
        for (&(depth, _), &name) in self.steps.iter().zip(&self.names) {
            self.walk.step(depth, frames.get(profile, name));
        }
        profile.stacks.intern_walk(&mut self.walk, &mut self.stacks);
        let values = self.values.chunks(profile.value_types.len().max(1));
        for (&step, values) in self.samples.iter().zip(values) {
            profile.push(Sample::new(self.stacks[step]), values);
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
