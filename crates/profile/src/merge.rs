//! Merges profiles: of several files, or of the parts of a file that were read in parallel.

use crate::{Address, AddressId, Frame, FrameId, Profile, Sample, StringId, ThreadId};

impl Profile {
    /// Adds all samples of `other`. Equal strings, frames, stacks and threads are merged. A column whose decimals differ
    /// gets the larger number of decimals.
    ///
    /// # Errors
    ///
    /// If the value types differ in name or unit: their values cannot be added. `self` is then unchanged.
    pub fn merge(&mut self, other: &Profile) -> Result<(), ValueTypesDiffer> {
        let same = self.value_types.len() == other.value_types.len()
            && self
                .value_types
                .iter()
                .zip(&other.value_types)
                .all(|(a, b)| a.name == b.name && a.unit == b.unit);
        if !same {
            return Err(ValueTypesDiffer);
        }
        let factors = self.align_decimals(other);
        self.rooted |= other.rooted;
        if !self.unfiltered.is_empty() || !other.unfiltered.is_empty() {
            let whole = |(column, factor): (usize, &u64)| {
                let theirs = other.whole(column).saturating_mul(*factor);
                self.whole(column).saturating_add(theirs)
            };
            self.unfiltered = factors.iter().enumerate().map(whole).collect();
        }
        self.about.merge(&other.about);
        let fresh = other.code.iter().filter(|code| !self.code.contains(code));
        let fresh: Vec<String> = fresh.cloned().collect();
        self.code.extend(fresh);

        let strings: Vec<StringId> = other.strings.iter().map(|s| self.strings.intern(s)).collect();
        let mut functions = strings.clone();
        for (plain, full) in other.full_names.pairs() {
            let [plain_text, full_text] = [plain, full].map(|text| other.strings.get(text));
            let known = if other.full_names.get(plain) == Some(full) { plain } else { full };
            functions[known.index()] = self.function_named(plain_text, full_text);
        }
        let frames: Vec<FrameId> = other
            .frames
            .iter()
            .map(|frame| {
                self.frames.intern(Frame {
                    function: functions[frame.function.index()],
                    module: strings[frame.module.index()],
                    file: strings[frame.file.index()],
                    ..frame
                })
            })
            .collect();
        let threads: Vec<ThreadId> = other
            .threads
            .iter()
            .map(|thread| self.threads.intern(thread.map_texts(|text| strings[text.index()])))
            .collect();
        let addresses: Vec<AddressId> = other
            .addresses
            .iter()
            .map(|address| {
                self.addresses.intern(Address {
                    module: strings[address.module.index()],
                    build_id: strings[address.build_id.index()],
                    function: functions[address.function.index()],
                    ..address
                })
            })
            .collect();
        let rows = other.stacks.rows();
        let stacks = self
            .stacks
            .intern_tree(rows.map(|(parent, frame)| (parent.index(), frames[frame.index()])));

        let mut values = vec![0; factors.len()];
        for (row, sample) in other.samples.iter().enumerate() {
            for (column, factor) in factors.iter().enumerate() {
                values[column] = other.samples.values(column)[row].saturating_mul(*factor);
            }
            let sample = Sample {
                stack: stacks[sample.stack.index()],
                thread: threads[sample.thread.index()],
                address: sample.address.map(|address| addresses[address.index()]),
                ..sample
            };
            self.push(sample, &values);
        }
        if other.full_names.pairs().next().is_some() {
            self.tell_overloads_apart();
        }
        Ok(())
    }

    /// Scales each column of `self` to the larger number of decimals of the two profiles. Returns the factors that scale
    /// the columns of `other`.
    fn align_decimals(&mut self, other: &Profile) -> Vec<u64> {
        let mut factors = Vec::with_capacity(self.value_types.len());
        for (column, theirs) in other.value_types.iter().enumerate() {
            let ours = &mut self.value_types[column];
            let power = |from: u8, to: u8| 10u64.saturating_pow(u32::from(to.saturating_sub(from)));
            factors.push(power(theirs.decimals, ours.decimals));
            let factor = power(ours.decimals, theirs.decimals);
            if factor > 1 {
                ours.decimals = theirs.decimals;
                self.samples.scale(column, factor);
                if let Some(whole) = self.unfiltered.get_mut(column) {
                    *whole = whole.saturating_mul(factor);
                }
            }
        }
        factors
    }
}

/// Error: the value types of two profiles differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueTypesDiffer;

impl std::fmt::Display for ValueTypesDiffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the profiles count different things")
    }
}

impl std::error::Error for ValueTypesDiffer {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelOptions, Tree, ValueType};

    fn profile(stacks: &[(&[&str], u64)], decimals: u8) -> Profile {
        let mut profile = Profile::new(vec![ValueType { decimals, ..ValueType::samples() }]);
        for (path, value) in stacks {
            let stack = profile.stack_of_names(path.iter().copied());
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    #[test]
    fn equal_stacks_of_two_profiles_become_one() {
        let mut a = profile(&[(&["main", "a"], 1), (&["main", "b"], 2)], 0);
        let b = profile(&[(&["main", "b"], 3), (&["start"], 4)], 0);
        a.merge(&b).expect("the same value type");
        assert_eq!(a.stacks.len(), 1 + 4);
        let tree = Tree::new(&a, &LabelOptions::default());
        assert_eq!(tree.total(0), 10);
    }

    #[test]
    fn samples_keep_their_addresses() {
        let of = |offset| {
            let mut profile = profile(&[], 0);
            let function = profile.strings.intern(&format!("f{offset}"));
            let address = Address { function, offset, ..Address::default() };
            let address = Some(profile.addresses.intern(address));
            profile.push(Sample { address, ..Sample::default() }, &[1]);
            profile
        };
        let mut a = of(1);
        a.merge(&of(2)).expect("the same value type");
        a.merge(&of(1)).expect("the same value type");
        let addresses = a.samples.iter().filter_map(|sample| sample.address);
        let found: Vec<_> = addresses
            .map(|id| a.addresses.get(id))
            .map(|of| (a.strings.get(of.function), of.offset))
            .collect();
        assert_eq!((found, a.addresses.len()), (vec![("f1", 1), ("f2", 2), ("f1", 1)], 2));
    }

    #[test]
    fn decimals_are_brought_to_the_finer_of_the_two() {
        let mut a = profile(&[(&["main"], 15)], 1);
        a.merge(&profile(&[(&["main"], 2)], 0)).expect("the same value type");
        a.merge(&profile(&[(&["main"], 125)], 2)).expect("the same value type");
        assert_eq!(a.value_types[0].decimals, 2);
        assert_eq!(a.samples.total(0), 150 + 200 + 125);
    }

    #[test]
    fn what_counts_different_things_is_not_added() {
        let mut a = profile(&[(&["main"], 1)], 0);
        let mut b = profile(&[(&["main"], 1)], 0);
        b.value_types = vec![ValueType::new("alloc", "bytes")];
        assert_eq!(a.merge(&b), Err(ValueTypesDiffer));
    }
}
