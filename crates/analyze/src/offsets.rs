//! Samples by their offset within each second, and flame graphs of arbitrary time spans.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pyrograph_profile::{LabelOptions, Labels, Profile, Sample, StringId, Tree};

use crate::{FlameError, FlameGraph, FlameOptions, flame};

/// Times of samples as points of a heat map with columns of width `period`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offsets {
    /// Start of the period that contains each sample, in nanoseconds since the start of the first period.
    pub times: Vec<f64>,
    /// Offset of each sample within its period, in nanoseconds.
    pub values: Vec<f64>,
    /// Start of the first period, on the recording's clock.
    pub start: u64,
    /// Number of samples without a time.
    pub without_time: u64,
}

/// Returns the times of all samples whose value is not 0. `period` is in nanoseconds, usually a second. Periods start
/// at its multiples on the recording's clock, which counts from the start of the machine.
pub fn offsets(profile: &Profile, column: usize, period: u64) -> Offsets {
    let period = period.max(1);
    let counted = counted(profile, column);
    let first = counted.iter().filter_map(|(_, sample)| sample.time).min().unwrap_or(0);
    let start = first - first % period;
    let mut made = Offsets { start, ..Offsets::default() };
    for (_, sample) in counted {
        let Some(time) = sample.time else {
            made.without_time += 1;
            continue;
        };
        made.times.push((time - time % period - start) as f64);
        made.values.push((time % period) as f64);
    }
    made
}

/// Row numbers and samples whose value is not 0.
fn counted(profile: &Profile, column: usize) -> Vec<(usize, Sample)> {
    let values = profile.samples.values(column);
    profile.samples.iter().enumerate().filter(|(row, _)| values[*row] > 0).collect()
}

/// A flame graph of all samples, and the frame that each sample ends in, from which the graph of any time span can be
/// derived.
#[derive(Clone, Debug)]
pub struct TimedGraph {
    /// The graph, with all frames, however narrow.
    pub graph: FlameGraph,
    /// Samples, sorted by time.
    pub samples: Vec<TimedSample>,
}

/// A sample of a [`TimedGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// Time in nanoseconds on the recording's clock.
    pub time: u64,
    /// Index in [`FlameGraph::frames`] of the frame that the sample ends in.
    pub frame: u32,
    /// Value of the sample.
    pub value: u64,
}

/// Lays out all samples that have a time.
///
/// # Errors
///
/// As [`flame`].
pub fn timed_graph(
    profile: &Profile,
    labels: &LabelOptions,
    column: usize,
) -> Result<TimedGraph, FlameError> {
    let tree = Tree::new(profile, labels);
    let options = FlameOptions { column, ..FlameOptions::default() };
    let graph = flame(profile, &tree, &options)?;
    let mut callees: HashMap<(u32, &str), u32, FixedState> = HashMap::default();
    for (index, frame) in graph.frames.iter().enumerate().skip(1) {
        callees.insert((frame.parent, graph.names.get(frame.name)), index as u32);
    }
    let labels = Labels::new(profile, labels);
    let callee = |frame: u32, name: StringId| callees.get(&(frame, labels.names.get(name)));
    let mut known: HashMap<_, u32, FixedState> = HashMap::default();
    let mut samples = Vec::new();
    let mut path = Vec::new();
    for (row, sample) in counted(profile, column) {
        let Some(time) = sample.time else { continue };
        let root = labels.threads[sample.thread.index()];
        let frame = *known.entry((root, sample.stack)).or_insert_with(|| {
            path.clear();
            let names = profile.stacks.leaf_first(sample.stack);
            path.extend(names.map(|frame| labels.frames[frame.index()]));
            if !root.is_empty() {
                path.push(root);
            }
            path.iter().rev().fold(0, |frame, name| callee(frame, *name).copied().unwrap_or(frame))
        });
        samples.push(TimedSample { time, frame, value: profile.samples.values(column)[row] });
    }
    drop(callees);
    samples.sort_by_key(|sample: &TimedSample| sample.time);
    Ok(TimedGraph { graph, samples })
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ValueType;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn profile(samples: &[(&str, Option<u64>, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (stack, time, value) in samples {
            let id = profile.stack_of_names(stack.split(';'));
            profile.push(Sample { time: *time, ..Sample::new(id) }, &[*value]);
        }
        profile
    }

    #[test]
    fn seconds_are_those_of_the_clock() {
        let profile = profile(&[
            ("a", Some(7 * SECOND + 900), 1),
            ("a", Some(5 * SECOND + 100), 1),
            ("a", Some(6 * SECOND), 0),
            ("a", None, 1),
        ]);
        let offsets = offsets(&profile, 0, SECOND);
        assert_eq!(offsets.start, 5 * SECOND);
        assert_eq!(offsets.times, [2e9, 0.0]);
        assert_eq!(offsets.values, [900.0, 100.0]);
        assert_eq!(offsets.without_time, 1);
    }

    #[test]
    fn samples_name_the_frame_they_end_in() {
        let profile =
            profile(&[("a;b", Some(9), 2), ("a", Some(3), 1), ("c", Some(4), 5), ("a;b", None, 1)]);
        let timed = timed_graph(&profile, &LabelOptions::default(), 0).expect("a graph");
        let name = |frame: u32| timed.graph.names.get(timed.graph.frames[frame as usize].name);
        let samples: Vec<_> =
            timed.samples.iter().map(|at| (at.time, name(at.frame), at.value)).collect();
        assert_eq!(samples, [(3, "a", 1), (4, "c", 5), (9, "b", 2)]);
    }
}
