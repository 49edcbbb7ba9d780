//! Differences between runs beyond sampling: overdispersion, and Student's t distribution.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::digamma;

/// Dispersion of all items: parameters for shrinking the dispersion of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersion {
    /// Typical dispersion of an item.
    typical: f64,
    /// Degrees of freedom of the typical dispersion.
    prior: f64,
    /// Degrees of freedom of an item's own dispersion.
    own: f64,
    /// Sum of both degrees of freedom; 0 if there is one run per side, so that only sampling noise is known.
    pub(super) freedom: f64,
    /// Lower limit of an item's dispersion.
    least: f64,
}

/// Limit of the degrees of freedom, beyond which a t distribution no longer changes visibly.
const MOST_FREEDOM: f64 = 1000.0;
/// Minimum number of items for estimating the typical dispersion.
const FEWEST_ITEMS: usize = 8;

impl Dispersion {
    /// Dispersion for one run per side: sampling noise alone.
    pub(super) const SAMPLING: Self =
        Self { typical: 1.0, prior: 0.0, own: 0.0, freedom: 0.0, least: 1.0 };

    /// Fits a scaled F distribution to the dispersions of items, each with `own` degrees of freedom (Smyth, "Linear
    /// models and empirical Bayes methods …", 2004, section 6.2).
    pub(super) fn fit(items: &[f64], own: f64) -> Self {
        let alone = Self { typical: 1.0, prior: 0.0, own, freedom: own, least: 1.0 };
        let logs: Vec<f64> = items
            .iter()
            .filter(|&&item| item > 1e-9)
            .map(|item| item.ln() - digamma(own / 2.0) + (own / 2.0).ln())
            .collect();
        if logs.len() < FEWEST_ITEMS {
            return alone;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let beyond = variance - trigamma(own / 2.0);
        let (prior, typical) = if beyond > 0.0 {
            let prior = (2.0 * trigamma_inverse(beyond)).min(MOST_FREEDOM);
            (prior, (mean + digamma(prior / 2.0) - (prior / 2.0).ln()).exp())
        } else {
            (MOST_FREEDOM, mean.exp())
        };
        Self { typical, prior, own, freedom: own + prior, least: 1.0 }
    }

    /// Dispersion if sampling noise is unknown: only the differences between runs are used.
    pub(super) fn of_runs_alone(self) -> Self {
        // Stacks of one program vary by different amounts between runs: an item's own runs have at least a quarter of
        // the weight.
        let prior = self.prior.min(3.0 * self.own);
        Self { least: 1e-9, prior, freedom: self.own + prior, ..self }
    }

    /// Shrunken dispersion of an item; never below sampling noise, if that is known.
    pub(super) fn of(&self, item: impl FnOnce() -> f64) -> f64 {
        if self.freedom == 0.0 {
            return 1.0;
        }
        let own = item();
        let drawn = (self.prior * self.typical + self.own * own) / self.freedom;
        // If sampling noise is unknown, shrinking must not lower an item's dispersion below its own.
        if self.least < 1.0 { drawn.max(own).max(self.least) } else { drawn.max(self.least) }
    }
}

/// Trigamma function, the second derivative of the logarithm of the gamma function: the asymptotic series (Abramowitz
/// and Stegun, 6.4.12) for 6 and above, and the recurrence (6.4.6) below 6.
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x
        + square / 2.0
        + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)))
}

/// Inverse of the trigamma function.
fn trigamma_inverse(value: f64) -> f64 {
    // The trigamma function falls from infinity to 0.
    let (mut low, mut high) = (1e-9f64, 1e9f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    low
}

/// Two-sided p-value of Student's t.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Absolute value of Student's t with this two-sided p-value.
pub(crate) fn student_quantile(level: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_two_sided(high, freedom) > level && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if student_two_sided(middle, freedom) > level { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn tables_agree() {
        // Any table of Student's t.
        near(student_quantile(0.05, 4.0), 2.776);
        near(student_quantile(0.01, 10.0), 3.169);
        near(student_quantile(0.05, 1000.0), 1.962);
        // Abramowitz and Stegun, table 6.1: trigamma(1) = π²/6, trigamma(2) = π²/6 - 1.
        near(trigamma(1.0), 1.644_934);
        near(trigamma(2.0), 0.644_934);
        near(trigamma_inverse(0.644_934), 2.0);
    }

    #[test]
    fn equal_dispersions_are_worth_many_runs() {
        let alone = Dispersion::fit(&[1.0; 3], 4.0);
        assert_eq!(alone.freedom, 4.0);
        let many = Dispersion::fit(&[2.0; 50], 4.0);
        assert_eq!(many.freedom, 4.0 + MOST_FREEDOM);
        assert!(many.of(|| 2.0) > 1.5, "runs differ more than sampling makes them");
        assert!(many.of(|| 0.0) >= 1.0);
    }
}
