//! Tests whether a difference is more than chance, and finds the bounds between which it lies.
//!
//! Known of an item (a frame, a function) is its count of samples on each side, out of all
//! samples of the side. If nothing changed, then of the `n` samples that both sides have together,
//! each belongs to the side after with probability `π = e₁ / (e₀ + e₁)`, where `e` is how much was
//! sampled there: the number after is binomial (Przyborowski and Wilenski, 1940). For shares of a
//! fixed number of samples it is hypergeometric, whose variance is smaller by `1 - p`; counts that
//! are larger by `1 / (1 - p)` make a binomial of the same mean share and variance, and the test
//! that of Pearson for two by two cells. Above one half, what is *not* in the item is compared.
//!
//! The test is exact, that is, it errs at most as often as it says. The bounds of a change join the
//! score intervals of both sides (Newcombe, 1998, method 10). Where these and the test do not agree
//! about 0, the bound next to it is the test's own: an interval is clear of 0 exactly where the test
//! finds a change.
//!
//! Several runs a side show more: how much runs differ beyond sampling. The dispersion of each
//! item is drawn towards that of all (Smyth, 2004), so that three runs suffice; counts are divided
//! by it, and Student's t is asked, too. The more careful of both answers counts.

use statrs::function::beta::beta_reg;
use statrs::function::erf::{erfc, erfc_inv};

use super::spread::{Dispersion, student_quantile, student_two_sided};
use super::{Row, Scale};

/// From this many expected samples on, on the smaller side, the normal distribution will do.
const MANY: f64 = 300.0;

/// Sampling of all runs.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    runs: Vec<RunSampling>,
    /// Runs from this one on are those after.
    after: usize,
    scale: Scale,
    /// It is not known how many samples there are: runs of a side show the noise, if there are several.
    unsure: bool,
    /// The sum of the squared weights of all samples, where they differ; in samples of mean weight.
    squares: f64,
}

/// Sampling of one run.
#[derive(Clone, Copy, Debug)]
struct RunSampling {
    /// Samples for each value.
    density: f64,
    /// Size of the sample: all samples, or, where values are compared as they are, the samples
    /// that a value stands for.
    exposure: f64,
}

/// An item's samples and what they are out of; before, and after.
#[derive(Clone, Copy, Debug)]
struct Counts {
    samples: [f64; 2],
    exposure: [f64; 2],
    /// Samples that are not in the item are counted.
    flipped: bool,
    /// Source of the binomial spread of counts.
    stretch: f64,
}

/// A change with its bounds, as rates: shares of the whole, or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The rate before.
    pub before: f64,
    /// The rate after.
    pub after: f64,
    /// The least change that is compatible with what was seen.
    pub low: f64,
    /// The largest one.
    pub high: f64,
}

impl Estimate {
    /// The change.
    pub fn change(&self) -> f64 {
        self.after - self.before
    }
}

impl Sampling {
    /// Each run's total and the value of one sample of it; the first `after` runs are those before.
    pub(super) fn new(runs: &[(u64, f64)], after: usize, scale: Scale, unsure: bool) -> Self {
        let runs = runs
            .iter()
            .map(|&(total, sample)| {
                let density = 1.0 / sample;
                let exposure = match scale {
                    Scale::Shares => total as f64 * density,
                    Scale::Values => density,
                };
                RunSampling { density, exposure }
            })
            .collect();
        Self { runs, after, scale, unsure, squares: 0.0 }
    }

    /// With the sum of the squared weights of all samples.
    pub(super) fn with_squares(self, squares: f64) -> Self {
        Self { squares, ..self }
    }

    /// True if noise can be estimated only from the differences between the runs of a side.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure && self.freedom() > 0.0
    }

    /// Size of the sample of all runs.
    pub(super) fn exposure(&self) -> f64 {
        self.runs.iter().map(|run| run.exposure).sum()
    }

    /// Number of samples of equal weight that say as much of an item as one sample of mean weight does.
    ///
    /// The variance of a sum of weighted samples is the sum of their squared weights; that of a share of the whole has
    /// a part of what is not in the item, too. The rates stay as they are.
    fn worth(&self, row: Row<'_>) -> f64 {
        let Some(squares) = row.squares else { return 1.0 };
        let value: f64 =
            row.values.iter().zip(&self.runs).map(|(&value, of)| value as f64 * of.density).sum();
        let worth = match self.scale {
            Scale::Values => ratio(value, squares),
            Scale::Shares => {
                let all = self.exposure();
                let share = ratio(value, all).min(1.0);
                let rest = (self.squares - squares).max(0.0);
                let variance = (1.0 - share).powi(2) * squares + share.powi(2) * rest;
                ratio(share * (1.0 - share) * all, variance)
            }
        };
        if worth.is_finite() && worth > 0.0 { worth } else { 1.0 }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Number of runs before.
    pub(super) fn before(&self) -> usize {
        self.after
    }

    /// The change, as a rate.
    pub(super) fn change(&self, row: Row<'_>) -> f64 {
        let counts = self.counts(row);
        if counts.flipped { -counts.change() } else { counts.change() }
    }

    fn side(&self, run: usize) -> usize {
        usize::from(run >= self.after)
    }

    fn counts(&self, row: Row<'_>) -> Counts {
        let (mut samples, mut exposure) = ([0.0; 2], [0.0; 2]);
        let worth = self.worth(row);
        for (run, (&value, of)) in row.values.iter().zip(&self.runs).enumerate() {
            samples[self.side(run)] += value as f64 * of.density * worth;
            exposure[self.side(run)] += of.exposure * worth;
        }
        let mut counts = Counts { samples, exposure, flipped: false, stretch: 1.0 };
        if self.scale == Scale::Shares {
            let all = exposure[0] + exposure[1];
            let share = if all > 0.0 { (samples[0] + samples[1]) / all } else { 0.0 };
            counts.flipped = share > 0.5;
            if counts.flipped {
                counts.samples = [0, 1].map(|side| (exposure[side] - samples[side]).max(0.0));
            }
            counts.stretch = 1.0 / (1.0 - share.min(1.0 - share)).max(0.5);
        }
        counts
    }

    /// Difference between the runs of a side, as a multiple of what sampling alone
    /// explains; and how many samples the item has.
    pub(super) fn dispersion(&self, row: Row<'_>) -> (f64, f64) {
        let counts = self.counts(row);
        let worth = self.worth(row);
        let mut sum = 0.0;
        for (run, (&value, of)) in row.values.iter().zip(&self.runs).enumerate() {
            let side = self.side(run);
            let (samples, exposure) = (value as f64 * of.density * worth, of.exposure * worth);
            let samples = if counts.flipped { exposure - samples } else { samples };
            let rate = ratio(counts.samples[side], counts.exposure[side]);
            let expected = rate * exposure;
            if expected > 0.0 {
                sum += (samples - expected).powi(2) / expected * counts.stretch;
            }
        }
        (sum / self.freedom().max(1.0), counts.samples[0] + counts.samples[1])
    }

    /// Number of runs beyond the first of each side.
    pub(super) fn freedom(&self) -> f64 {
        let sides = [self.after, self.runs.len() - self.after];
        sides.iter().map(|&runs| runs.saturating_sub(1)).sum::<usize>() as f64
    }

    /// Probability of so large a change by chance, or a larger one; 1 where nothing is known.
    pub(super) fn chance(&self, row: Row<'_>, dispersion: &Dispersion) -> f64 {
        let counts = self.counts(row);
        let factor = dispersion.of(|| self.dispersion(row).0);
        let exact = if self.is_unsure() { 0.0 } else { counts.chance(factor) };
        if dispersion.freedom == 0.0 || exact == 1.0 {
            return exact;
        }
        let error = self.error(&counts, factor);
        let student = match error {
            e if e > 0.0 => student_two_sided(counts.change() / e, dispersion.freedom),
            _ => 1.0,
        };
        exact.max(student)
    }

    /// The least chance that any change could have, given how many samples an item has.
    pub(super) fn least_chance(&self, row: Row<'_>) -> f64 {
        if self.is_unsure() {
            return 0.0;
        }
        let counts = self.counts(row);
        let share = counts.share_after();
        let all = (counts.samples[0] + counts.samples[1]) * counts.stretch;
        (2.0 * share.min(1.0 - share).powf(all)).min(1.0)
    }

    /// The change with its bounds, which leave out 0 exactly if its chance is not above the bar.
    pub(super) fn estimate(&self, row: Row<'_>, dispersion: &Dispersion, bar: &Bar) -> Estimate {
        let counts = self.counts(row);
        let factor = dispersion.of(|| self.dispersion(row).0);
        let rates = [0, 1].map(|side| ratio(counts.samples[side], counts.exposure[side]));
        let change = rates[1] - rates[0];
        let (mut low, mut high) = counts.bounds(factor, bar, self.scale);
        if dispersion.freedom > 0.0 {
            let margin = bar.student * self.error(&counts, factor);
            low = low.min(change - margin);
            high = high.max(change + margin);
        }
        if counts.flipped {
            let [before, after] = rates.map(|rate| 1.0 - rate);
            return Estimate { before, after, low: -high, high: -low };
        }
        Estimate { before: rates[0], after: rates[1], low, high }
    }

    /// The standard error of a change.
    fn error(&self, counts: &Counts, factor: f64) -> f64 {
        let [a, b] = counts.exposure;
        if a <= 0.0 || b <= 0.0 {
            return 0.0;
        }
        let rate = (counts.samples[0] + counts.samples[1]) / (a + b);
        (factor * rate / counts.stretch * (1.0 / a + 1.0 / b)).sqrt()
    }
}

impl Counts {
    /// The probability that a sample is one of those after, if nothing changed.
    fn share_after(&self) -> f64 {
        ratio(self.exposure[1], self.exposure[0] + self.exposure[1])
    }

    fn change(&self) -> f64 {
        ratio(self.samples[1], self.exposure[1]) - ratio(self.samples[0], self.exposure[0])
    }

    /// With before and after exchanged, if the rate has fallen.
    fn rising(&self) -> (Self, bool) {
        let fell = self.change() < 0.0;
        let mut rising = *self;
        if fell {
            rising.samples.reverse();
            rising.exposure.reverse();
        }
        (rising, fell)
    }

    fn binomial(&self, factor: f64) -> Binomial {
        let [before, after] = self.samples.map(|samples| samples * self.stretch / factor);
        let share = self.share_after();
        let many = (before + after) * share.min(1.0 - share) > MANY;
        Binomial { before, after, many }
    }

    fn chance(&self, factor: f64) -> f64 {
        let (rising, _) = self.rising();
        let binomial = rising.binomial(factor);
        let known = self.exposure.iter().all(|&exposure| exposure > 0.0);
        if !known || binomial.after <= 0.0 {
            return 1.0;
        }
        (2.0 * binomial.upper_tail(rising.share_after())).min(1.0)
    }

    /// The bounds of the change, of what is counted here.
    fn bounds(&self, factor: f64, bar: &Bar, scale: Scale) -> (f64, f64) {
        if self.exposure.iter().any(|&exposure| exposure <= 0.0) {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let (rising, fell) = self.rising();
        let rate = |side: usize| rising.samples[side] / rising.exposure[side];
        let score = |side: usize| {
            let (samples, exposure) =
                (rising.samples[side] / factor, rising.exposure[side] / factor);
            score_interval(samples, exposure, bar.normal, scale)
        };
        let (scores, rates) = ([score(0), score(1)], [rate(0), rate(1)]);
        let change = rates[1] - rates[0];
        let far = change + (scores[1].1 - rates[1]).hypot(rates[0] - scores[0].0);
        let near = change - (rates[1] - scores[1].0).hypot(scores[0].1 - rates[0]);
        // Where the test and the score intervals do not agree about 0, the test's own bound: the
        // largest share after that would have made this a chance, as a change of the rates that
        // have this sum of samples.
        let (binomial, tail, at) = (rising.binomial(factor), bar.level / 2.0, rising.share_after());
        let near = if binomial.is_above(at, tail) == (near > 0.0) {
            near
        } else {
            let share = binomial.least_share(tail, at);
            let [e0, e1] = rising.exposure;
            let samples = rising.samples[0] + rising.samples[1];
            samples * (share / e1 - (1.0 - share) / e0)
        };
        if fell { (-far, -near) } else { (near, far) }
    }
}

/// Samples after among all, after having been made binomial.
#[derive(Clone, Copy, Debug)]
struct Binomial {
    before: f64,
    after: f64,
    /// So many that the normal distribution will do.
    many: bool,
}

impl Binomial {
    /// The probability of so many samples after, or more, if each is one with probability `share`.
    fn upper_tail(&self, share: f64) -> f64 {
        if share <= 0.0 {
            return 0.0;
        }
        if share >= 1.0 {
            return 1.0;
        }
        if self.many {
            let all = self.before + self.after;
            let z = (self.after - 0.5 - all * share) / (all * share * (1.0 - share)).sqrt();
            return 0.5 * erfc(z / std::f64::consts::SQRT_2);
        }
        beta_reg(self.after, self.before + 1.0, share)
    }

    /// True if the upper tail at this share has at most this probability: the share is larger in all likelihood.
    fn is_above(&self, share: f64, tail: f64) -> bool {
        self.after > 0.0 && self.upper_tail(share) <= tail
    }

    /// The share at which the upper tail has this probability. `at` is where to begin.
    fn least_share(&self, tail: f64, at: f64) -> f64 {
        if self.after <= 0.0 {
            return 0.0;
        }
        let mode = self.after / (self.before + self.after);
        // On the same side of `at` as the test.
        let (mut low, mut high) =
            if self.is_above(at, tail) { (at, mode.max(at)) } else { (0.0, at) };
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if self.upper_tail(middle) <= tail { low = middle } else { high = middle }
        }
        low
    }
}

/// The score interval of a rate: Wilson's of a share, or that of a Poisson rate.
fn score_interval(samples: f64, exposure: f64, z: f64, scale: Scale) -> (f64, f64) {
    let z2 = z * z;
    match scale {
        Scale::Shares => {
            let share = samples / exposure;
            let middle = samples + z2 / 2.0;
            let margin = z * (samples * (1.0 - share).max(0.0) + z2 / 4.0).sqrt();
            let of = exposure + z2;
            (((middle - margin) / of).max(0.0), ((middle + margin) / of).min(1.0))
        }
        Scale::Values => {
            let middle = samples + z2 / 2.0;
            let margin = z * (samples + z2 / 4.0).sqrt();
            ((middle - margin).max(0.0) / exposure, (middle + margin) / exposure)
        }
    }
}

/// Conditions for a change to count as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    /// Its chance is not above this.
    pub(super) level: f64,
    /// The distance from 0 that has this chance, both ways together: that of the normal
    /// distribution, and that of Student's t.
    normal: f64,
    student: f64,
}

impl Bar {
    pub(super) fn new(level: f64, dispersion: &Dispersion) -> Self {
        let level = level.clamp(1e-300, 1.0);
        let student = match dispersion.freedom {
            freedom if freedom > 0.0 => student_quantile(level, freedom),
            _ => 0.0,
        };
        Self { level, normal: erfc_inv(level) * std::f64::consts::SQRT_2, student }
    }
}

/// 0 where there is nothing to divide by.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The probability of `after` samples after, or more, of all.
#[cfg(test)]
pub(super) fn upper_tail(before: f64, after: f64, share: f64) -> f64 {
    let many = (before + after) * share.min(1.0 - share) > MANY;
    Binomial { before, after, many }.upper_tail(share)
}
