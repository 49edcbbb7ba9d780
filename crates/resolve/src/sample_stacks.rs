//! Stack of each sample of a file, with addresses and offsets: for output that prints one sample after the other.

use pyrograph_profile::{FrameId, Location, Locations, Profile, Strings};

use crate::chains::{Builder, Chains, Row};
use crate::deferred::{Feed, SampleSource};
use crate::files::Files;
use crate::frame_rows::{FrameRows, Names};
use crate::modules::Held;
use crate::names::{NO_START, NameStats, Named, Naming, name_addresses};
use crate::resolver::{Resolver, Stats, available_threads};
use crate::stacks::RawStacks;
use crate::versions::split_versions;

/// Stacks of samples.
#[derive(Debug)]
pub struct SampleStacks {
    /// Code locations that the stacks refer to.
    pub locations: Locations,
    /// Counts of incomplete stacks and other losses.
    pub stats: Stats,
    pub(crate) chains: Chains,
}

impl SampleStacks {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.chains.samples().len()
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locations of a sample's stack, innermost first. Samples are numbered in the order in which they were fed,
    /// without unreadable ones.
    pub fn of(&self, sample: usize) -> impl DoubleEndedIterator<Item = FrameId> {
        self.chains.chain(self.chains.samples().get(sample).stack.index())
    }
}

impl<F: Files> Resolver<F> {
    /// Like [`Resolver::resolve`], but returns the stack of each sample. The options must ask for times.
    pub fn resolve_stacks<S: SampleSource, T>(
        self,
        source: &S,
        workers: usize,
        feed: impl FnOnce(&mut Feed<'_, F>) -> T,
    ) -> (SampleStacks, T) {
        self.resolve_to(source, workers, feed, Self::finish_stacks)
    }

    fn finish_stacks(mut self, chains: Chains, stats: &Stats) -> SampleStacks {
        self.stats.add(stats);
        self.modules.jit.refresh_all(&mut self.files);
        self.stats.missing_files = self.modules.missing();
        let naming = self.naming(available_threads());
        let modules = self.modules.of(chains.frames());
        let chains = match naming.by_time {
            true => as_chains(&mut split_versions(chains.into_stacks(true), &modules)),
            false => chains,
        };
        let mut names = NameStats::default();
        let named = name_addresses(&[chains.frames()], &modules, &naming, &mut names);
        self.stats.names = names;
        let locations = locate(&chains, &named, &modules, &naming);
        SampleStacks { locations, stats: self.stats, chains }
    }
}

pub(crate) fn as_chains(raw: &mut RawStacks) -> Chains {
    let mut builder = Builder::default();
    let mut frames = Vec::new();
    for row in raw.take_samples() {
        frames.clear();
        frames.extend(raw.stacks.leaf_first(row.sample.stack).map(|frame| frame.0));
        let (sample, len, value) = (row.sample, frames.len(), row.weight.value);
        builder.add(&[Row { sample, len, value, keep_times: true }], &frames);
    }
    builder.finish(raw.frames())
}

pub(crate) fn locate(chains: &Chains, named: &Named, modules: &Held, naming: &Naming) -> Locations {
    let (frames, numbers) = (chains.frames(), &named.tables[0]);
    let labels = Strings::default();
    let names = Names { frames, names: numbers, all: &named.names };
    let mut rows = FrameRows::new(names, &labels, modules, naming);
    let mut profile = Profile::default();
    let mut locations = Locations::default();
    for (at, (frame, &name)) in frames.iter().zip(numbers).enumerate() {
        // Each row takes more than a byte: there is no memory for 2^32 rows.
        let first = locations.rows.len() as u32;
        locations.rows.extend(rows.of(FrameId::from_index(at), &mut profile));
        let start = named.starts.get(name as usize).copied().filter(|&start| start != NO_START);
        locations.list.push(Location {
            address: frame.address,
            offset: start.and_then(|start| frame.address.checked_sub(start)),
            rows: first..locations.rows.len() as u32,
        });
    }
    profile.tell_overloads_apart();
    (locations.strings, locations.frames) = (profile.strings, profile.frames);
    locations
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ThreadId};

    use super::*;
    use crate::module_ids::ModuleId;
    use crate::stacks::{RawFrame, Weight};

    #[test]
    fn stacks_stay_with_their_samples() {
        let frame = |address| RawFrame::new(ModuleId::UNKNOWN, address);
        let stacks =
            [vec![frame(3), frame(1)], vec![], vec![frame(2), frame(1)], vec![frame(3), frame(1)]];
        let mut raw = RawStacks::default();
        for (time, frames) in (0..).zip(&stacks) {
            let stack = raw.intern(frames);
            let sample = Sample { thread: ThreadId(0), time: Some(time), ..Sample::new(stack) };
            raw.push(sample, Weight::one(1));
        }
        let chains = as_chains(&mut raw);
        let modules = Held::new();
        let mut stats = NameStats::default();
        let naming = Naming::plain();
        let named = name_addresses(&[chains.frames()], &modules, &naming, &mut stats);
        let locations = locate(&chains, &named, &modules, &naming);
        let stacks_found = SampleStacks { locations, stats: Stats::default(), chains };
        assert_eq!(stacks_found.len(), 4);
        for (number, expect) in stacks.iter().enumerate() {
            let list = &stacks_found.locations.list;
            let found: Vec<u64> =
                stacks_found.of(number).map(|id| list[id.index()].address).collect();
            let expect: Vec<u64> = expect.iter().map(|frame| frame.address).collect();
            assert_eq!(found, expect, "{number}");
        }
    }
}
