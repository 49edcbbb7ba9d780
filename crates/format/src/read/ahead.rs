//! Stacks that are interned many at once: what each needs of the memory is fetched meanwhile.

use pyrograph_profile::{FrameId, Profile, Sample, StackId, Walk};

/// Steps from caller to callee, and samples where they led to, that are not in the profile yet.
#[derive(Default)]
pub(crate) struct Ahead {
    walk: Walk,
    /// At which step each sample was taken.
    samples: Vec<usize>,
    /// Their values, of all columns.
    values: Vec<u64>,
    /// Of the steps. Empty but while samples are added.
    stacks: Vec<StackId>,
}

impl Ahead {
    /// The next step, to a frame that has `depth` callers.
    pub fn step(&mut self, profile: &mut Profile, depth: usize, frame: FrameId) {
        if self.walk.is_long() {
            self.flush(profile);
        }
        self.walk.step(depth, frame);
    }

    /// A sample of where the last step led to.
    pub fn sample(&mut self, values: &[u64]) {
        self.samples.push(self.walk.len() - 1);
        self.values.extend_from_slice(values);
    }

    /// Puts all of them into the profile.
    pub fn flush(&mut self, profile: &mut Profile) {
        profile.stacks.intern_walk(&mut self.walk, &mut self.stacks);
        let values = self.values.chunks(profile.value_types.len().max(1));
        for (&step, values) in self.samples.iter().zip(values) {
            profile.push(Sample::new(self.stacks[step]), values);
        }
        self.samples.clear();
        self.values.clear();
        self.stacks.clear();
    }
}
