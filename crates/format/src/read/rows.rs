//! Collection of samples for a profile, with the rows and the detail that the options ask for.

use hashbrown::HashMap;
use pyrograph_profile::{AddressId, Profile, Sample, StackId, Thread, ThreadId};

use crate::reader::{Detail, Options, ThreadDetail};

/// Collects samples in one row each, or in one row per stack and thread.
pub(crate) struct Rows {
    detail: Detail,
    threads: ThreadDetail,
    index: HashMap<(StackId, ThreadId, Option<AddressId>), usize, foldhash::fast::FixedState>,
    samples: Vec<Sample>,
    columns: usize,
    values: Vec<u64>,
}

impl Rows {
    /// Creates an empty collection with `columns` values per sample.
    pub fn new(options: &Options, columns: usize) -> Self {
        Self {
            detail: options.detail,
            threads: options.threads,
            index: HashMap::default(),
            samples: Vec::new(),
            columns,
            values: Vec::new(),
        }
    }

    /// Interns a thread, reduced to the detail that the options ask for.
    pub fn thread(&self, profile: &mut Profile, thread: Thread) -> ThreadId {
        profile.threads.intern(self.threads.keep(thread))
    }

    /// Adds a sample with one value per column.
    pub fn push(&mut self, sample: Sample, values: &[u64]) {
        if self.detail == Detail::Totals {
            let row = self.samples.len();
            let key = (sample.stack, sample.thread, sample.address);
            let known = *self.index.entry(key).or_insert(row);
            if known < row {
                let sums = &mut self.values[known * self.columns..][..self.columns];
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = sum.saturating_add(value);
                }
                return;
            }
            self.samples.push(Sample { cpu: None, time: None, ..sample });
        } else {
            self.samples.push(sample);
        }
        self.values.extend_from_slice(values);
    }

    /// Adds all rows to the profile.
    pub fn finish(self, profile: &mut Profile) {
        for (row, sample) in self.samples.into_iter().enumerate() {
            profile.push(sample, &self.values[row * self.columns..][..self.columns]);
        }
    }
}
