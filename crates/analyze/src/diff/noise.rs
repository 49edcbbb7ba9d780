//! Tests whether a difference exceeds chance, and computes its confidence interval.
//!
//! For each item (a frame or a function), the number of its samples on each side is known, and the number of all
//! samples of the side. If nothing changed, each of the item's `n` samples of both sides together belongs to the side
//! after with probability `π = e₁ / (e₀ + e₁)`, where `e` is the exposure of a side: the number after is binomial
//! (Przyborowski and Wilenski, 1940). For shares of a fixed number of samples it is hypergeometric, with a variance
//! that is smaller by the factor `1 - p`. Counts enlarged by `1 / (1 - p)` make it a binomial of the same mean share
//! and variance, and the test equal to Pearson's for a 2×2 table. For items above one half, the samples *not* in the
//! item are compared.
//!
//! The test is exact: its error rate is at most the nominal one. The confidence interval of a change combines the
//! score intervals of both sides (Newcombe, 1998, method 10). Where the interval and the test disagree about 0, the
//! bound next to 0 is replaced by the test's own bound, so that an interval excludes 0 exactly if the test finds a
//! change.
//!
//! Several runs per side also show how much runs differ beyond sampling. The dispersion of each item is shrunk
//! towards the common dispersion of all items (Smyth, 2004), so that three runs suffice. Counts are divided by the
//! dispersion, and a Student's t test is made in addition; the more conservative of both results is used.

use statrs::function::beta::beta_reg;
use statrs::function::erf::{erfc, erfc_inv};

use super::spread::{Dispersion, student_quantile, student_two_sided};
use super::{Row, Scale};

/// Number of expected samples on the smaller side above which the normal approximation is used.
const MANY: f64 = 300.0;

/// Sampling parameters of all runs.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    runs: Vec<RunSampling>,
    /// Index of the first run after, that is, the number of runs before.
    after: usize,
    scale: Scale,
    /// The number of samples is unknown: noise is estimated from the differences between runs of a side, if there are
    /// several.
    unsure: bool,
    /// Sum of the squared weights of all samples, relative to the square of the mean weight; 0 if all weights are
    /// equal.
    squares: f64,
}

/// Sampling parameters of one run.
#[derive(Clone, Copy, Debug)]
struct RunSampling {
    /// Number of samples per unit of value.
    density: f64,
    /// Exposure: the number of all samples for shares; the number of samples per unit of value if values are compared
    /// directly.
    exposure: f64,
}

/// Samples of an item and the exposure, before and after.
#[derive(Clone, Copy, Debug)]
struct Counts {
    samples: [f64; 2],
    exposure: [f64; 2],
    /// If true, `samples` are the samples that are not in the item.
    flipped: bool,
    /// Factor by which counts are enlarged so that they are binomial; see the module's documentation.
    stretch: f64,
}

/// A change with its confidence interval, as rates: shares of the whole, or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Rate before.
    pub before: f64,
    /// Rate after.
    pub after: f64,
    /// Lower bound of the change.
    pub low: f64,
    /// Upper bound of the change.
    pub high: f64,
}

impl Estimate {
    /// Difference between the rates.
    pub fn change(&self) -> f64 {
        self.after - self.before
    }
}

impl Sampling {
    /// Takes the total of each run and the value of one sample; the first `after` runs are the runs before.
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

    /// Sets the sum of the squared weights of all samples.
    pub(super) fn with_squares(self, squares: f64) -> Self {
        Self { squares, ..self }
    }

    /// True if noise can be estimated only from the differences between the runs of a side.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure && self.freedom() > 0.0
    }

    /// Exposure of all runs together.
    pub(super) fn exposure(&self) -> f64 {
        self.runs.iter().map(|run| run.exposure).sum()
    }

    /// Effective number of samples of an item, per sample of mean weight.
    ///
    /// The variance of a sum of weighted samples is the sum of their squared weights. The variance of a share also
    /// depends on the samples that are not in the item. The factor does not change rates.
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

    /// Difference between the rates after and before.
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

    /// Dispersion of an item: the variance between the runs of a side as a multiple of the variance from sampling
    /// alone. Also returns the number of the item's samples.
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

    /// Degrees of freedom: number of runs minus one, summed over both sides.
    pub(super) fn freedom(&self) -> f64 {
        let sides = [self.after, self.runs.len() - self.after];
        sides.iter().map(|&runs| runs.saturating_sub(1)).sum::<usize>() as f64
    }

    /// p-value: probability that chance alone makes a change at least this large; 1 if nothing is known.
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

    /// Smallest p-value that an item with this number of samples can have.
    pub(super) fn least_chance(&self, row: Row<'_>) -> f64 {
        if self.is_unsure() {
            return 0.0;
        }
        let counts = self.counts(row);
        let share = counts.share_after();
        let all = (counts.samples[0] + counts.samples[1]) * counts.stretch;
        (2.0 * share.min(1.0 - share).powf(all)).min(1.0)
    }

    /// Returns the change with its confidence interval, which excludes 0 exactly if the p-value does not exceed the
    /// level of `bar`.
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

    /// Standard error of a change.
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
    /// Probability that a sample belongs to the side after, if nothing changed.
    fn share_after(&self) -> f64 {
        ratio(self.exposure[1], self.exposure[0] + self.exposure[1])
    }

    fn change(&self) -> f64 {
        ratio(self.samples[1], self.exposure[1]) - ratio(self.samples[0], self.exposure[0])
    }

    /// Returns the counts with before and after exchanged if the rate has fallen, and true if so.
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

    /// Confidence interval of the change of the counted rate.
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
        // Where the test and the score intervals disagree about 0, take the test's own bound: the largest share after
        // for which these counts would still be chance, converted to the change of rates that has the same sum of
        // samples.
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

/// Number of samples before and after, enlarged to be binomial.
#[derive(Clone, Copy, Debug)]
struct Binomial {
    before: f64,
    after: f64,
    /// True if there are so many samples that the normal approximation is used.
    many: bool,
}

impl Binomial {
    /// Probability of at least `after` samples after, if each sample is one of them with probability `share`.
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

    /// Returns true if the upper tail at this share has at most the probability `tail`, that is, if the true share is
    /// very likely larger.
    fn is_above(&self, share: f64, tail: f64) -> bool {
        self.after > 0.0 && self.upper_tail(share) <= tail
    }

    /// Share at which the upper tail has the probability `tail`. `at` is where the search starts.
    fn least_share(&self, tail: f64, at: f64) -> f64 {
        if self.after <= 0.0 {
            return 0.0;
        }
        let mode = self.after / (self.before + self.after);
        // On the same side of `at` as the test's result.
        let (mut low, mut high) =
            if self.is_above(at, tail) { (at, mode.max(at)) } else { (0.0, at) };
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if self.upper_tail(middle) <= tail { low = middle } else { high = middle }
        }
        low
    }
}

/// Score interval of a rate: Wilson's interval of a share, or the score interval of a Poisson rate.
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

/// Thresholds for a change to be significant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    /// Maximum p-value.
    pub(super) level: f64,
    /// Two-sided quantiles of the normal distribution and of Student's t for this level.
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

/// Returns `a / b`, or 0 if `b` is not above 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Probability of at least `after` samples after, out of all samples.
#[cfg(test)]
pub(super) fn upper_tail(before: f64, after: f64, share: f64) -> f64 {
    let many = (before + after) * share.min(1.0 - share) > MANY;
    Binomial { before, after, many }.upper_tail(share)
}
