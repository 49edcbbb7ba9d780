//! Stacks of a file's samples: each distinct chain of frames is stored once, in one piece.
//!
//! Chains of compilers and other programs without frame pointers are mostly short and few recur, because their leaves
//! are instructions. A tree of them, such as [`RawStacks`], would have a node for nearly every frame of every sample.
//! Here a sample takes one lookup in a table. The tree is only made of the symbolized frames, of which there are a
//! fraction as many.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;
use pyrograph_profile::{FrameId, Sample, Samples, StackId};

use crate::stacks::{RawFrame, RawStacks, Weight};

/// Distinct chains of frames, and the samples.
#[derive(Debug)]
pub struct Chains {
    frames: Vec<RawFrame>,
    /// The chains, one after the other. Each has the number of the thread, or [`ANY`]; the row of its total in
    /// `samples`; and its frames, leaf first.
    words: Vec<u32>,
    /// Start of each chain in `words`, and the end of the last one.
    starts: Vec<usize>,
    /// Samples; their stacks are indices of chains.
    samples: Samples,
}

/// Interns chains of samples.
#[derive(Debug)]
pub struct Builder {
    chains: Chains,
    /// Hash table of chains, with linear probing. The number of slots is a power of two; at most two thirds are
    /// occupied.
    slots: Vec<Slot>,
    hasher: FixedState,
    /// Buffer for the hashes of a batch, kept to avoid an allocation for each batch.
    hashes: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// Index of the chain plus one; 0 if the slot is free.
    chain: u32,
}

/// Value in place of a thread: the chain belongs to samples that are kept one by one.
const ANY: u32 = u32::MAX;

/// Number of words before a chain's frames.
const HEAD: usize = 2;

/// A sample whose frames are known.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Thread, CPU and time; the stack is ignored.
    pub sample: Sample,
    /// Number of frames.
    pub len: usize,
    /// Value of the sample.
    pub value: u64,
    /// True if the sample is kept with its time. Otherwise its value is added to the total of its thread and chain.
    pub keep_times: bool,
}

impl Row {
    fn thread(&self) -> u32 {
        if self.keep_times { ANY } else { self.sample.thread.0 }
    }
}

impl Chains {
    /// Distinct frames; a [`FrameId`] of a chain is an index into them.
    pub fn frames(&self) -> &[RawFrame] {
        &self.frames
    }

    /// Number of chains.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Frames of a chain, leaf first.
    pub fn chain(&self, number: usize) -> impl DoubleEndedIterator<Item = FrameId> {
        let words = &self.words(number)[HEAD..];
        words.iter().map(|&frame| FrameId(frame))
    }

    fn words(&self, number: usize) -> &[u32] {
        &self.words[self.starts[number]..self.starts[number + 1]]
    }

    /// The samples; their stacks are indices of chains.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Drops the chains and returns the samples.
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    /// Converts the chains to a tree. `keep_times`: all samples are kept one by one, also those without a time.
    pub fn into_stacks(self, keep_times: bool) -> RawStacks {
        let mut raw = RawStacks::default();
        let mut frames = Vec::new();
        let stacks: Vec<StackId> = (0..self.len())
            .map(|number| {
                frames.clear();
                frames.extend(self.chain(number).map(|frame| self.frames[frame.index()]));
                raw.intern(&frames)
            })
            .collect();
        for (row, sample) in self.samples.iter().enumerate() {
            let weight = Weight::at(&self.samples, row);
            let sample = Sample { stack: stacks[sample.stack.index()], ..sample };
            match keep_times || sample.time.is_some() {
                true => raw.push(sample, weight),
                false => raw.add(sample, weight),
            }
        }
        raw
    }
}

impl Default for Builder {
    fn default() -> Self {
        let (frames, words, starts) = (Vec::new(), Vec::new(), vec![0]);
        Self {
            chains: Chains { frames, words, starts, samples: Samples::new(Weight::COLUMNS) },
            slots: vec![Slot::default(); 64],
            hasher: FixedState::with_seed(0),
            hashes: Vec::new(),
        }
    }
}

impl Builder {
    /// Returns the chains that were added. `known` holds the frames, indexed by the numbers used so far. Frames are
    /// renumbered in the order of their first occurrence, each chain from its root on, so that the numbers do not
    /// depend on which thread assigned the earlier ones.
    pub fn finish(self, known: &[RawFrame]) -> Chains {
        const UNKNOWN: u32 = u32::MAX;
        let mut chains = self.chains;
        let mut numbers = vec![UNKNOWN; known.len()];
        for bounds in chains.starts.windows(2) {
            for frame in chains.words[bounds[0] + HEAD..bounds[1]].iter_mut().rev() {
                let number = &mut numbers[*frame as usize];
                if *number == UNKNOWN {
                    *number = FrameId::from_index(chains.frames.len()).0;
                    chains.frames.push(known[*frame as usize]);
                }
                *frame = *number;
            }
        }
        chains
    }

    /// Adds samples. `frames` holds their frames one after the other, each chain leaf first.
    pub fn add(&mut self, rows: &[Row], frames: &[u32]) {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        let mut rest = frames;
        for row in rows {
            let (own, others) = rest.split_at(row.len);
            hashes.push(self.hash(row.thread(), own));
            rest = others;
        }
        self.fetch(&hashes);
        rest = frames;
        for (row, &hash) in rows.iter().zip(&hashes) {
            let (own, others) = rest.split_at(row.len);
            self.add_one(row, own, hash);
            rest = others;
        }
        self.hashes = hashes;
    }

    fn add_one(&mut self, row: &Row, frames: &[u32], hash: u32) {
        let (number, is_new) = self.find_or_add(row.thread(), frames, hash);
        let stack = StackId::from_index(number);
        let samples = &mut self.chains.samples;
        let weight = Weight::one(row.value);
        if row.keep_times {
            samples.push(Sample { stack, ..row.sample }, &weight.columns());
        } else if is_new {
            let sample = Sample { stack, cpu: None, time: None, ..row.sample };
            samples.push(sample, &weight.columns());
        } else {
            let total = self.chains.words[self.chains.starts[number] + 1];
            weight.add_to(samples, total as usize);
        }
    }

    /// Index of a chain, and true if it was added.
    fn find_or_add(&mut self, thread: u32, frames: &[u32], hash: u32) -> (usize, bool) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Slot { hash: known, chain: chain @ 1.. } = self.slots[at] {
            let number = chain as usize - 1;
            if known == hash {
                let words = self.chains.words(number);
                if words[0] == thread && words[HEAD..] == *frames {
                    return (number, false);
                }
            }
            at = (at + 1) & mask;
        }
        let Chains { words, starts, samples, .. } = &mut self.chains;
        let number = starts.len() - 1;
        self.slots[at] = Slot { hash, chain: StackId::from_index(number + 1).0 };
        words.extend([thread, StackId::from_index(samples.len()).0]);
        words.extend_from_slice(frames);
        starts.push(words.len());
        if number + 1 > self.slots.len() / 3 * 2 {
            self.grow();
        }
        (number, true)
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![Slot::default(); 2 * self.slots.len()];
        let mask = slots.len() - 1;
        for slot in self.slots.iter().filter(|slot| slot.chain != 0) {
            let mut at = slot.hash as usize & mask;
            while slots[at].chain != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = *slot;
        }
        self.slots = slots;
    }

    /// Prefetches the memory that chains with these hashes will need. No load depends on a result of another chain's,
    /// so the CPU overlaps them.
    fn fetch(&self, hashes: &[u32]) {
        let mask = self.slots.len() - 1;
        let slots = hashes.iter().map(|&hash| self.slots[hash as usize & mask].chain);
        let starts = slots.map(|chain| self.chains.starts[(chain as usize).saturating_sub(1)]);
        let words = starts.map(|start| self.chains.words.get(start).copied().unwrap_or_default());
        std::hint::black_box(words.fold(0, |all, word| all ^ word));
    }

    fn hash(&self, thread: u32, frames: &[u32]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        thread.hash(&mut hasher);
        frames.hash(&mut hasher);
        let hash = hasher.finish();
        (hash >> 32) as u32 ^ hash as u32
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ThreadId;

    use super::*;
    use crate::module_ids::ModuleId;

    fn row(thread: u32, len: usize, value: u64, time: Option<u64>) -> Row {
        let sample = Sample { thread: ThreadId(thread), time, ..Sample::default() };
        Row { sample, len, value, keep_times: time.is_some() }
    }

    /// As many as a test needs.
    fn known() -> Vec<RawFrame> {
        (0..64).map(|address| RawFrame::new(ModuleId(1), address)).collect()
    }

    /// The addresses of a chain's frames, leaf first.
    fn frames(chains: &Chains, number: usize) -> Vec<u32> {
        chains.chain(number).map(|frame| chains.frames()[frame.index()].address as u32).collect()
    }

    /// Chain, thread, time, value.
    fn samples(chains: Chains) -> Vec<(u32, u32, Option<u64>, u64)> {
        let samples = chains.into_samples();
        let values = samples.values(0).iter();
        samples.iter().zip(values).map(|(s, &v)| (s.stack.0, s.thread.0, s.time, v)).collect()
    }

    #[test]
    fn equal_chains_of_a_thread_are_one() {
        let mut builder = Builder::default();
        let rows = [row(1, 2, 5, None), row(1, 2, 6, None), row(2, 2, 7, None), row(1, 1, 8, None)];
        builder.add(&rows, &[1, 0, 1, 0, 1, 0, 1]);
        builder.add(&[row(1, 0, 3, None), row(1, 2, 9, None)], &[1, 0]);
        let chains = builder.finish(&known());
        let all: Vec<_> = (0..chains.len()).map(|number| frames(&chains, number)).collect();
        assert_eq!(all, [vec![1, 0], vec![1, 0], vec![1], vec![]]);
        let expect = [(0, 1, None, 20), (1, 2, None, 7), (2, 1, None, 8), (3, 1, None, 3)];
        assert_eq!(samples(chains), expect);
    }

    #[test]
    fn frames_have_numbers_in_the_order_of_the_chains() {
        let mut builder = Builder::default();
        builder.add(&[row(1, 2, 5, None), row(1, 3, 6, None)], &[9, 4, 30, 4, 2]);
        let chains = builder.finish(&known());
        let addresses: Vec<_> = chains.frames().iter().map(|frame| frame.address).collect();
        assert_eq!(addresses, [4, 9, 2, 30]);
        assert_eq!([frames(&chains, 0), frames(&chains, 1)], [vec![9, 4], vec![30, 4, 2]]);
    }

    #[test]
    fn samples_with_times_are_kept_one_by_one() {
        let mut builder = Builder::default();
        let rows = [row(1, 1, 5, Some(10)), row(2, 1, 6, Some(11)), row(2, 1, 7, None)];
        builder.add(&rows, &[4, 4, 4]);
        builder.add(&[row(2, 1, 8, None)], &[4]);
        assert_eq!(
            samples(builder.finish(&known())),
            [(0, 1, Some(10), 5), (0, 2, Some(11), 6), (1, 2, None, 15)]
        );
    }

    /// Against a map, over more chains than the first tables have room for.
    #[test]
    fn many_chains() {
        let mut builder = Builder::default();
        let mut totals = std::collections::BTreeMap::new();
        let mut state = 1u32;
        for value in 1..5000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let frames: Vec<u32> = (0..state >> 30).map(|at| state >> (12 + at) & 15).collect();
            builder.add(&[row(state >> 8 & 1, frames.len(), value, None)], &frames);
            *totals.entry((state >> 8 & 1, frames)).or_insert(0) += value;
        }
        let chains = builder.finish(&known());
        let frames: Vec<Vec<u32>> =
            (0..chains.len()).map(|number| frames(&chains, number)).collect();
        assert_eq!(frames.len(), totals.len());
        for (chain, thread, _, value) in samples(chains) {
            assert_eq!(totals.get(&(thread, frames[chain as usize].clone())), Some(&value));
        }
    }

    #[test]
    fn a_tree_of_chains_has_their_frames() {
        let mut builder = Builder::default();
        let frames = [7, 8].map(|address| RawFrame::new(ModuleId(9), address));
        builder.add(&[row(3, 2, 5, None), row(3, 2, 6, Some(1))], &[1, 0, 1, 0]);
        let raw = builder.finish(&frames).into_stacks(false);
        let rows: Vec<_> = raw.samples().collect();
        assert_eq!(rows.iter().map(|row| row.weight.value).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(rows[0].sample.stack, rows[1].sample.stack);
        let found: Vec<_> = raw.leaf_first(rows[0].sample.stack).collect();
        assert_eq!(found, [frames[1], frames[0]]);
    }
}
