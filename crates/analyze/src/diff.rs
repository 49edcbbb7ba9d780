//! Comparison of two profiles or two groups of profiles: what changed, and which changes exceed sampling noise.
//!
//! [`diff`] unites all runs in one tree, and tests each node and each function; [`DiffGraph`] is the tree laid out as
//! a flame graph. `noise.rs` describes the tests.

mod alike;
mod functions;
mod identity;
mod layout;
mod noise;
pub(crate) mod spread;
#[cfg(test)]
mod tests;
mod union;
mod verdict;
mod weight;

use pyrograph_profile::{
    Frame, LabelOptions, ProcessLabel, Profile, Sample, StackId, Tree, ValueType,
};

pub use alike::{Alike, Renamed};
pub use functions::FunctionChange;
pub use layout::{DiffFrame, DiffGraph, Span};
pub use noise::Estimate;
pub use verdict::{Family, Verdict};
pub use weight::SampleBasis;

use functions::functions;
use noise::Sampling;
use union::NameRules;
use verdict::Judge;
use weight::{Weights, sample_value};

/// One run: a profile, its call tree, and the column to compare.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Folded projection of the profile.
    pub tree: &'a Tree,
    /// The column to compare.
    pub column: usize,
}

impl Run<'_> {
    fn value_type(&self) -> &ValueType {
        &self.profile.value_types[self.column]
    }
}

/// Value of a frame to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Total: the samples that end in the frame or in its callees.
    #[default]
    Total,
    /// Self: the samples that end in the frame.
    OwnSelf,
}

/// Basis for comparing runs of different lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Values are compared as shares of the whole: for runs that were sampled for some time.
    #[default]
    Shares,
    /// Values are compared directly: for runs that did the same work.
    Values,
}

/// Options of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions {
    /// The value to compare.
    pub measure: Measure,
    /// Basis for comparing runs of different lengths.
    pub scale: Scale,
    /// Confidence level, between 0 and 1.
    pub confidence: f64,
    /// If true, each frame is tested by itself at the given confidence: up to `1 - confidence` of the unchanged
    /// frames are reported as changed. If false, the false discovery rate is controlled: at most `1 - confidence` of
    /// the frames reported as changed are unchanged.
    pub each: bool,
    /// Value of one sample, in units of the value type, if the user gave it.
    pub sample: Option<f64>,
    /// Treats all hexadecimal numbers in names as equal.
    pub strip_addresses: bool,
    /// Treats names as equal if they differ only in what varies between builds or runs: clones, closures, generated
    /// classes, tiers, hashes, line numbers.
    pub by_identity: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            measure: Measure::default(),
            scale: Scale::default(),
            confidence: 0.95,
            each: false,
            sample: None,
            strip_addresses: false,
            by_identity: true,
        }
    }
}

/// Reasons why two sides cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// One side has no runs.
    #[error("there is nothing to compare with")]
    NoRuns,
    /// The sides have incompatible values, such as bytes and time.
    #[error("one counts {0}, another {1}: only what counts the same can be compared")]
    DifferentValues(String, String),
    /// The values differ, such as samples and time; only their shares can be compared.
    #[error("one counts {0}, another {1}: of these only shares can be compared")]
    OnlyShares(String, String),
    /// Runs of one side have different value types.
    #[error("of the runs on one side one counts {0}, another {1}: they do not add up")]
    DifferentRuns(String, String),
    /// All values are 0.
    #[error("there is nothing to compare: the {0} of both sides add up to 0")]
    Empty(String),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Value type; that of the other side may differ, see [`Side::unlike`].
    pub value_type: ValueType,
    /// Number of runs.
    pub runs: usize,
    /// Sum of the totals of the runs, before any filter.
    pub total: u64,
    /// Estimated number of independent samples.
    pub samples: f64,
    /// Name of the samples: `samples`, `waits`, `allocations` …
    pub sample_name: String,
    /// Source of the number of samples.
    pub basis: SampleBasis,
}

impl Side {
    /// Returns a remark if the two sides have different value types.
    pub fn unlike(&self, after: &Self) -> Option<String> {
        let (old, new) = (&self.value_type, &after.value_type);
        let words = union::words;
        (!union::is_same(old, new)).then(|| {
            format!("before counts {}, after {}: shares are compared", words(old), words(new))
        })
    }
}

/// Result of a comparison.
#[derive(Clone, Debug)]
pub struct Diff {
    /// Options of the comparison.
    pub options: DiffOptions,
    /// The side before.
    pub before: Side,
    /// The side after.
    pub after: Side,
    /// All stacks of both sides, with one column per run, runs before first. Frames have labels as names.
    pub profile: Profile,
    /// Call tree of the profile; node numbers are indices into [`Diff::nodes`].
    pub tree: Tree,
    /// Verdict on each node of the tree.
    pub nodes: Vec<Verdict>,
    /// Test results of the nodes as a family.
    pub frames: Family,
    /// Changes of all functions that are on any stack, sorted by name.
    pub functions: Vec<FunctionChange>,
    /// Test results of the functions as a family.
    pub functions_family: Family,
    rows: Rows,
    judge: Judge,
}

impl Diff {
    /// Returns both sides as a profile with two columns: the sums of the runs before and of the runs after. Stack IDs
    /// equal the node numbers of the tree.
    pub fn sides(&self) -> Profile {
        let [_, after] = [&self.before, &self.after].map(|side| &side.value_type);
        let mut sides = Profile::new(after.before_and_after().to_vec());
        (sides.shown, sides.rooted) = (1, self.profile.rooted);
        let mut stacks = vec![StackId::ROOT];
        for node in self.tree.nodes() {
            let frame = self.tree.frame(node).map(|frame| self.profile.frames.get(frame));
            let module = frame.map_or("", |frame| self.profile.strings.get(frame.module));
            let frame = Frame {
                module: sides.strings.intern(module),
                ..Frame::named(sides.strings.intern(self.tree.name(node)), self.tree.kind(node))
            };
            let frame = sides.frames.intern(frame);
            stacks.push(sides.stacks.intern(stacks[self.tree.parent(node).index()], frame));
        }
        let sum = |node: usize, runs: std::ops::Range<usize>| {
            runs.fold(0u64, |sum, run| sum.saturating_add(self.tree.self_values(run)[node]))
        };
        let runs = self.tree.value_types.len();
        for (node, &stack) in stacks.iter().enumerate() {
            let values = [sum(node, 0..self.before.runs), sum(node, self.before.runs..runs)];
            if values != [0, 0] {
                sides.push(Sample::new(stack), &values);
            }
        }
        sides
    }
}

/// Name of a side's samples, if the columns of sample counts of all its runs have the same name; otherwise `samples`.
fn sample_name(runs: &[Run<'_>], options: &DiffOptions) -> String {
    let name = |run: &Run<'_>| {
        let numbers = run.profile.numbers_beside(run.column)?;
        Some(run.profile.value_types[numbers].name.clone())
    };
    let mut names = runs.iter().map(name);
    let first = names.next().flatten().filter(|_| options.sample.is_none());
    let is_one = names.all(|name| name == first);
    first.filter(|_| is_one).unwrap_or_else(|| "samples".to_owned())
}

/// Compares two groups of runs.
///
/// # Errors
///
/// Fails if a side has no runs, if the value types cannot be compared, or if all values are 0.
pub fn diff(
    before: &[Run<'_>],
    after: &[Run<'_>],
    alike: &Alike,
    options: &DiffOptions,
) -> Result<Diff, DiffError> {
    if before.is_empty() || after.is_empty() {
        return Err(DiffError::NoRuns);
    }
    let runs = [before, after].concat();
    let [old, new] = union::value_types(before, after, options.scale)?;
    let types =
        runs.iter().enumerate().map(|(run, _)| if run < before.len() { &old } else { &new });
    let types = types.cloned().collect();
    let names = NameRules {
        alike,
        before: before.len(),
        strip_addresses: options.strip_addresses,
        by_identity: options.by_identity,
    };
    let (profile, places) = union::unite(&runs, types, |run| run, &names);
    let labels = LabelOptions { process: ProcessLabel::None, ..LabelOptions::default() };
    let tree = Tree::new(&profile, &labels);

    let scaled = |run: &Run<'_>| {
        let (value, basis) = sample_value(run.profile, run.column, options.sample);
        let decimals = new.decimals - run.value_type().decimals;
        (value * 10f64.powi(decimals.into()), basis)
    };
    let samples: Vec<(f64, SampleBasis)> = runs.iter().map(scaled).collect();
    if (0..runs.len()).all(|run| tree.total(run) == 0) {
        let name = if new.is_unnamed() { "values".to_owned() } else { new.name };
        return Err(DiffError::Empty(name));
    }
    // Shares refer to the whole before filters.
    let whole = |run: &Run<'_>| {
        let decimals = new.decimals - run.value_type().decimals;
        run.profile.whole(run.column).saturating_mul(10u64.saturating_pow(decimals.into()))
    };
    let totals: Vec<u64> = runs.iter().map(whole).collect();
    let side = |value_type: ValueType, range: std::ops::Range<usize>| Side {
        value_type,
        runs: range.len(),
        total: totals[range.clone()].iter().fold(0, |sum, &total| sum.saturating_add(total)),
        samples: range.clone().map(|run| totals[run] as f64 / samples[run].0).sum(),
        sample_name: sample_name(&runs[range.clone()], options),
        basis: samples[range].iter().map(|&(_, basis)| basis).max().unwrap_or(SampleBasis::Given),
    };
    let sides = (side(old, 0..before.len()), side(new, before.len()..runs.len()));
    let sampled: Vec<(u64, f64)> =
        totals.iter().zip(&samples).map(|(&total, &(sample, _))| (total, sample)).collect();
    let unsure = sides.0.basis.max(sides.1.basis) == SampleBasis::Totals;
    let squares = squares(&runs, &samples, &places, tree.len(), options.sample);
    let all = squares.iter().sum();
    let sampling = Sampling::new(&sampled, before.len(), options.scale, unsure).with_squares(all);

    let rows = rows(&tree, &squares, options.measure);
    let judge = Judge::new(sampling.clone(), &rows, options);
    let nodes = judge.verdicts(&rows);
    let (functions, functions_family) = functions(&tree, &squares, &profile, &sampling, options);
    let frames = judge.family;
    Ok(Diff {
        options: *options,
        before: sides.0,
        after: sides.1,
        profile,
        tree,
        nodes,
        frames,
        functions,
        functions_family,
        rows,
        judge,
    })
}

/// Sum of the squared weights of the samples that end in each node of the united tree, over all runs, relative to the
/// square of the mean weight; empty if all samples have the same weight. `samples`: the value of a sample of each
/// run.
fn squares(
    runs: &[Run<'_>],
    samples: &[(f64, SampleBasis)],
    places: &[Vec<StackId>],
    nodes: usize,
    given: Option<f64>,
) -> Vec<f64> {
    let weights: Vec<Option<Weights>> = runs.iter().map(|run| Weights::of(run, given)).collect();
    if weights.iter().all(Option::is_none) {
        return Vec::new();
    }
    let finest = runs.iter().map(|run| run.value_type().decimals).max().unwrap_or(0);
    let mut squares = vec![0.0; nodes];
    for ((run, weights), (&(sample, _), places)) in
        runs.iter().zip(&weights).zip(samples.iter().zip(places))
    {
        // Value of one sample in the run's own fixed-point representation.
        let own = sample * 10f64.powi(-i32::from(finest) + i32::from(run.value_type().decimals));
        for (node, &place) in places.iter().enumerate() {
            squares[place.index()] += match weights {
                Some(weights) => weights.square(run, node) / (own * own),
                None => run.tree.self_values(run.column)[node] as f64 / own,
            };
        }
    }
    squares
}

/// Values of an item (a node or a function), one per run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    values: &'a [u64],
    /// Sum of the squared weights of its samples, relative to the square of the mean weight; `None` if all samples
    /// have the same weight.
    squares: Option<f64>,
}

/// Values of items: one row per item, one column per run.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    runs: usize,
    values: Vec<u64>,
    /// See [`Row::squares`]; empty if all samples have the same weight.
    squares: Vec<f64>,
}

impl Rows {
    fn new(items: usize, runs: usize, weighted: bool) -> Self {
        let squares = vec![0.0; if weighted { items } else { 0 }];
        Self { runs, values: vec![0; items * runs], squares }
    }

    fn len(&self) -> usize {
        self.values.len() / self.runs
    }

    fn row(&self, item: usize) -> Row<'_> {
        let values = &self.values[item * self.runs..(item + 1) * self.runs];
        Row { values, squares: self.squares.get(item).copied() }
    }

    fn row_mut(&mut self, item: usize) -> &mut [u64] {
        &mut self.values[item * self.runs..(item + 1) * self.runs]
    }

    /// Sums of an item's values before and after.
    fn sums(&self, item: usize, before: usize) -> (u64, u64) {
        let sum = |values: &[u64]| values.iter().fold(0u64, |sum, &v| sum.saturating_add(v));
        let (old, new) = self.row(item).values.split_at(before);
        (sum(old), sum(new))
    }
}

/// Compared values of the nodes of a tree.
fn rows(tree: &Tree, squares: &[f64], measure: Measure) -> Rows {
    let runs = tree.value_types.len();
    let mut rows = Rows::new(tree.len(), runs, !squares.is_empty());
    rows.squares = match measure {
        Measure::Total => total_squares(tree, squares),
        Measure::OwnSelf => squares.to_vec(),
    };
    for run in 0..runs {
        let values = match measure {
            Measure::Total => tree.total_values(run),
            Measure::OwnSelf => tree.self_values(run).to_vec(),
        };
        for (node, value) in values.into_iter().enumerate() {
            rows.values[node * runs + run] = value;
        }
    }
    rows
}

/// Sums the squared weights of each node and its descendants.
fn total_squares(tree: &Tree, squares: &[f64]) -> Vec<f64> {
    let mut totals = squares.to_vec();
    if !totals.is_empty() {
        for node in tree.nodes().rev() {
            totals[tree.parent(node).index()] += totals[node.index()];
        }
    }
    totals
}

/// Merges the runs of each side into a profile with two columns, before and after, for folded text.
///
/// With `normalize`, values before are scaled to the total after and rounded down to whole numbers.
///
/// # Errors
///
/// As [`diff`], but all values may be 0. Without `normalize`, the sides must have the same value type; with
/// `normalize`, their shares must be comparable.
pub fn two_columns(
    before: &[Run<'_>],
    after: &[Run<'_>],
    normalize: bool,
    strip_addresses: bool,
) -> Result<Profile, DiffError> {
    let runs = [before, after].concat();
    let scale = if normalize { Scale::Shares } else { Scale::Values };
    // Values scaled to the total after are in its unit.
    let [_, of] = union::value_types(before, after, scale)?;
    let types = of.before_and_after().to_vec();
    let column = |run| usize::from(run >= before.len());
    // As `difffolded.pl`, which compares names literally.
    let alike = &Alike::default();
    let names = NameRules { alike, before: before.len(), strip_addresses, by_identity: false };
    let (united, _) = union::unite(&runs, types, column, &names);
    if !normalize {
        return Ok(united);
    }
    let scaled = to_total_after([0, 1].map(|side| united.samples.total(side)), of.decimals);
    let mut scaled_profile = united.clone();
    scaled_profile.samples = pyrograph_profile::Samples::new(2);
    // Values of a stack are added up before they are rounded down.
    let labels = LabelOptions { process: ProcessLabel::None, ..LabelOptions::default() };
    let tree = Tree::new(&united, &labels);
    for stack in 0..tree.len() {
        let values = [scaled(tree.self_values(0)[stack]), tree.self_values(1)[stack]];
        if values != [0, 0] {
            let stack = StackId::from_index(stack);
            scaled_profile.push(Sample::new(stack), &values);
        }
    }
    Ok(scaled_profile)
}

/// Returns a function that scales values before so that both sides have the same total, and rounds them down to a
/// whole number of units. The arguments are the totals before and after, and the decimals of the values.
pub fn to_total_after([old, new]: [u64; 2], decimals: u8) -> impl Fn(u64) -> u64 {
    let one = 10u128.pow(decimals.into());
    move |value| match old {
        0 => 0,
        old => {
            let exact = u128::from(value) * u128::from(new) / u128::from(old);
            u64::try_from(exact / one * one).unwrap_or(u64::MAX)
        }
    }
}
