//! The profile: all tables together.

use crate::{Frames, Sample, Samples, Stacks, Strings, Threads, ValueType};

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
    /// What each column of values counts; at least one.
    pub value_types: Vec<ValueType>,
    /// The samples.
    pub samples: Samples,
}

impl Profile {
    /// An empty profile with these value types.
    pub fn new(value_types: Vec<ValueType>) -> Self {
        Self { samples: Samples::new(value_types.len()), value_types, ..Self::default() }
    }

    /// Adds a sample with one value for each value type.
    pub fn push(&mut self, sample: Sample, values: &[u64]) {
        self.samples.push(sample, values);
    }
}
