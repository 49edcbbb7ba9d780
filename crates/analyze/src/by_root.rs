//! Functions by root label: per process, per thread, or per other label at the root.

use pyrograph_profile::{LabelOptions, Labels, Profile, StringId};

use crate::TopRow;
use crate::functions::{Functions, NO_FRAME, ends};

/// A function below one root label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootedRow {
    /// Root label; empty if there is none.
    pub root: String,
    /// The function, without source lines.
    pub row: TopRow,
}

/// Returns the same functions as [`top`](crate::top), separately for each root label
/// ([`LabelOptions::process`](pyrograph_profile::LabelOptions)). Rows are sorted by self value, then by total,
/// highest first; rows with equal values by name, module and root label.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn top_by_root(profile: &Profile, labels: &LabelOptions, column: usize) -> Vec<RootedRow> {
    let labels = Labels::new(profile, labels);
    let functions = Functions::new(profile, &labels);
    let mut sums = vec![Sums::default(); functions.list.len()];
    let mut rows = Vec::new();
    for of_root in ends(profile, &labels, column).chunk_by(|a, b| a.root == b.root) {
        let root = labels.names.get(of_root[0].root);
        let mut touched = Vec::new();
        let mut without_frame = 0u64;
        for (number, end) in (1u32..).zip(of_root) {
            let mut is_leaf = true;
            for function in functions.of_stack(profile, end.stack) {
                let sum = &mut sums[function];
                if sum.last == 0 {
                    touched.push(function);
                }
                if is_leaf {
                    sum.own = sum.own.saturating_add(end.value);
                }
                // A recursive function counts once per stack.
                if std::mem::replace(&mut sum.last, number) != number {
                    sum.total = sum.total.saturating_add(end.value);
                }
                is_leaf = false;
            }
            if is_leaf {
                without_frame = without_frame.saturating_add(end.value);
            }
        }
        let row = |(name, module, kind), self_value, total| RootedRow {
            root: root.to_owned(),
            row: TopRow { name, module, kind, self_value, total, lines: Vec::new(), more_lines: 0 },
        };
        for function in touched {
            let Sums { own, total, .. } = std::mem::take(&mut sums[function]);
            rows.push(row(functions.name(profile, &labels, function), own, total));
        }
        if without_frame > 0 {
            let name = (Labels::UNKNOWN.to_owned(), String::new(), NO_FRAME);
            rows.push(row(name, without_frame, without_frame));
        }
    }
    rows.sort_by(|a, b| {
        let values = |of: &TopRow| (of.self_value, of.total);
        let by_value = values(&b.row).cmp(&values(&a.row));
        let names =
            || (&a.row.name, &a.row.module, &a.root).cmp(&(&b.row.name, &b.row.module, &b.root));
        by_value.then_with(names)
    });
    rows
}

/// Values of a function below the current root label.
#[derive(Clone, Copy, Default)]
struct Sums {
    own: u64,
    total: u64,
    /// Number of the last stack that the function was seen in, starting at 1; 0 if it was not seen.
    last: u32,
}

/// Returns the total of each root label, highest first; equal totals are sorted by label.
///
/// # Panics
///
/// Panics if there is no such column.
pub fn root_totals(profile: &Profile, labels: &LabelOptions, column: usize) -> Vec<(String, u64)> {
    let labels = Labels::new(profile, labels);
    let ends = ends(profile, &labels, column);
    let total = |ends: &[crate::functions::End]| {
        ends.iter().fold(0u64, |sum, end| sum.saturating_add(end.value))
    };
    let text = |root: StringId| labels.names.get(root).to_owned();
    let chunks = ends.chunk_by(|a, b| a.root == b.root);
    let mut totals: Vec<_> = chunks.map(|of| (text(of[0].root), total(of))).collect();
    totals.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    totals
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{ProcessLabel, Sample, Thread, ValueType};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::{Filter, top};

    /// Some processes with some recursive stacks, and samples without a frame.
    fn profile(generator: &mut StdRng) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for _ in 0..generator.random_range(1..60) {
            let names: Vec<String> = (0..generator.random_range(0..7))
                .map(|_| format!("f{}", generator.random_range(0..5)))
                .collect();
            let stack = profile.stack_of_names(names.iter().map(String::as_str));
            let pid = generator.random_range(1..4);
            let process = profile.strings.intern("app");
            let thread = Thread { pid: Some(pid), process, ..Thread::default() };
            let thread = profile.threads.intern(thread);
            profile.push(Sample { thread, ..Sample::new(stack) }, &[generator.random_range(0..9)]);
        }
        profile
    }

    #[test]
    fn rows_are_those_of_each_process_alone() {
        let mut generator = StdRng::seed_from_u64(7);
        let labels = LabelOptions { process: ProcessLabel::Pid, ..LabelOptions::default() };
        let mut compared = 0;
        for _ in 0..200 {
            let profile = profile(&mut generator);
            let rows = top_by_root(&profile, &labels, 0);
            let mut expect_totals = Vec::new();
            for pid in 1..4 {
                let root = format!("app-{pid}");
                let of_root = rows.iter().filter(|row| row.root == root);
                let found: Vec<_> = of_root.map(|row| row.row.clone()).collect();
                let filter = Filter { pids: vec![pid], ..Filter::default() };
                let Ok(alone) = filter.apply(profile.clone()) else {
                    assert_eq!(found, []);
                    continue;
                };
                assert_eq!(found, top(&alone, &labels, 0));
                compared += found.len();
                expect_totals.push((root, alone.samples.total(0)));
            }
            expect_totals.retain(|(_, total)| *total > 0);
            expect_totals.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            assert_eq!(root_totals(&profile, &labels, 0), expect_totals);
        }
        assert!(compared > 1000);
    }

    #[test]
    fn without_root_labels_they_are_those_of_the_profile() {
        let mut generator = StdRng::seed_from_u64(8);
        let labels = LabelOptions { process: ProcessLabel::None, ..LabelOptions::default() };
        for _ in 0..100 {
            let profile = profile(&mut generator);
            let rows = top_by_root(&profile, &labels, 0).into_iter().map(|row| row.row);
            assert_eq!(rows.collect::<Vec<_>>(), top(&profile, &labels, 0));
        }
    }
}
