//! Verdicts on many changes at once.
//!
//! Of a thousand unchanged frames, fifty would look changed at a confidence of 95 %. Therefore the significance level
//! is lowered until at most 5 % of the frames reported as changed are unchanged (false discovery rate: Benjamini and
//! Hochberg, 1995; it also holds for frames that contain each other: Benjamini and Yekutieli, 2001). Items with so
//! few samples that no change could be significant are not counted as tests (Tarone, 1990). Confidence intervals use
//! the lowered level, as is right for items selected from many (Benjamini and Yekutieli, 2005).

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::noise::{Bar, Estimate, Sampling};
use super::spread::Dispersion;
use super::{DiffOptions, Row, Rows};

/// Verdict on an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// No change beyond what chance explains.
    #[default]
    Noise,
    /// A significant increase.
    More,
    /// A significant decrease.
    Less,
}

/// Test results of a family of items.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Family {
    /// Number of items with enough samples for a change to be found.
    pub tested: usize,
    /// Number of items that changed.
    pub changed: usize,
    /// Significance level: the maximum p-value of a change.
    pub level: f64,
}

/// Minimum number of samples per run for an item to be used to estimate the dispersion between runs.
const ENOUGH_SAMPLES: f64 = 10.0;

/// Minimum share of the whole for an item to be used in this way, if the number of samples is unknown.
const LEAST_SHARE: f64 = 1e-3;

/// Tests the items of one family.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    sampling: Sampling,
    dispersion: Dispersion,
    bar: Bar,
    pub(super) family: Family,
    /// p-value of each item's change; 1 for items that were not tested.
    chances: Vec<f64>,
}

impl Judge {
    pub(super) fn new(sampling: Sampling, rows: &Rows, options: &DiffOptions) -> Self {
        let dispersion = dispersion(&sampling, rows);
        let level = (1.0 - options.confidence).clamp(1e-12, 1.0);
        // Many items have the same values as another: callers with a single callee, and small items.
        let mut known = HashMap::with_hasher(FixedState::with_seed(0));
        let chance = |row: Row<'_>| {
            let is_tested = sampling.least_chance(row) <= level;
            is_tested.then(|| sampling.chance(row, &dispersion))
        };
        let found: Vec<Option<f64>> = (0..rows.len())
            .map(|item| {
                let row = rows.row(item);
                let same = (row.values, row.squares.map(f64::to_bits));
                *known.entry(same).or_insert_with(|| chance(row))
            })
            .collect();
        let mut tested: Vec<f64> = found.iter().copied().flatten().collect();
        let chances: Vec<f64> = found.iter().map(|chance| chance.unwrap_or(1.0)).collect();
        let of = if options.each { level } else { false_discovery_level(&mut tested, level) };
        let bar = Bar::new(of, &dispersion);
        let changed = chances.iter().filter(|&&chance| chance <= of).count();
        let family = Family { tested: tested.len(), changed, level: of };
        Self { sampling, dispersion, bar, family, chances }
    }

    pub(super) fn verdicts(&self, rows: &Rows) -> Vec<Verdict> {
        (0..rows.len()).map(|item| self.verdict(item, rows.row(item))).collect()
    }

    fn verdict(&self, item: usize, row: Row<'_>) -> Verdict {
        match self.sampling.change(row) {
            _ if self.chances[item] > self.family.level => Verdict::Noise,
            change if change > 0.0 => Verdict::More,
            change if change < 0.0 => Verdict::Less,
            _ => Verdict::Noise,
        }
    }

    pub(super) fn estimate(&self, row: Row<'_>) -> Estimate {
        self.sampling.estimate(row, &self.dispersion, &self.bar)
    }
}

fn dispersion(sampling: &Sampling, rows: &Rows) -> Dispersion {
    let own = sampling.freedom();
    if own == 0.0 {
        return Dispersion::SAMPLING;
    }
    let least = match sampling.is_unsure() {
        true => LEAST_SHARE * sampling.exposure(),
        false => ENOUGH_SAMPLES * sampling.runs() as f64,
    };
    let items: Vec<f64> = (0..rows.len())
        .map(|item| sampling.dispersion(rows.row(item)))
        .filter(|&(_, samples)| samples >= least)
        .map(|(dispersion, _)| dispersion)
        .collect();
    let fitted = Dispersion::fit(&items, own);
    if sampling.is_unsure() { fitted.of_runs_alone() } else { fitted }
}

/// Returns the highest level at which the false discovery rate is at most `share`; if no item passes, the level for a
/// single item (Bonferroni).
fn false_discovery_level(chances: &mut [f64], share: f64) -> f64 {
    chances.sort_unstable_by(f64::total_cmp);
    let count = chances.len().max(1) as f64;
    let passing = (1..=chances.len()).rev().find(|&k| chances[k - 1] <= share * k as f64 / count);
    share * passing.unwrap_or(1) as f64 / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_follows_what_passes() {
        // The example of Benjamini and Hochberg, 1995, section 3.2: four of fifteen pass.
        let mut chances = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let level = false_discovery_level(&mut chances, 0.05);
        assert_eq!(chances.iter().filter(|&&chance| chance <= level).count(), 4);
        assert_eq!(false_discovery_level(&mut [0.5, 0.9], 0.05), 0.025);
        assert_eq!(false_discovery_level(&mut [], 0.05), 0.05);
    }
}
