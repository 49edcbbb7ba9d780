//! Number of independent samples behind values.
//!
//! Noise depends on the number of samples, but profiles contain values: one sample of a CPU clock may count as
//! 10,101,010 ns. The value of one sample is determined, in this order, from the user's option, a column of sample
//! counts beside the values, the values if they are counts, their common divisor, the recording's sampling period, or
//! their spread: `n` samples of unequal weights `w` are equivalent to `(Σw)² / Σw²` samples of equal weight (Leslie
//! Kish, "Survey Sampling", 1965).

use pyrograph_profile::{Profile, UnitKind, ValueType};

use super::Run;

/// Maximum plausible number of samples of a run; a larger sum of counts is one of cycles or the like.
const MOST_SAMPLES: u64 = 100_000_000;
/// Minimum common divisor that is taken for a period. Smaller ones are no evidence: sizes of memory are multiples of
/// 8 or 16, too. In nanoseconds, this is the period of a clock that samples a million times per second.
const LEAST_PERIOD: u64 = 1000;

/// Source of the value of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleBasis {
    /// Given by the user.
    Given,
    /// Samples were counted, or the values are multiples of one period.
    Counted,
    /// Estimated from the spread of the values of single samples.
    Spread,
    /// Estimated from the spread of totals of stacks, each of an unknown number of samples: a conservative estimate.
    Totals,
}

/// Value of one independent sample in a column, in the column's own whole numbers; above 0. `given` is the user's
/// value in units.
pub(super) fn sample_value(
    profile: &Profile,
    column: usize,
    given: Option<f64>,
) -> (f64, SampleBasis) {
    let of = &profile.value_types[column];
    let one = 10f64.powi(of.decimals.into());
    let values = profile.samples.values(column);
    let total = profile.samples.total(column);
    if let Some(given) = given {
        return ((given * one).max(f64::MIN_POSITIVE), SampleBasis::Given);
    }
    match profile.numbers_beside(column) {
        Some(counts) => {
            let samples = profile.samples.total(counts);
            if samples > 0 && total > 0 {
                return (total as f64 / samples as f64, SampleBasis::Counted);
            }
        }
        _ if of.unit_kind().is_count() && total as f64 / one <= MOST_SAMPLES as f64 => {
            return (one, SampleBasis::Counted);
        }
        _ => {}
    }
    if of.unit_kind() != UnitKind::Bytes {
        let divisor = values.iter().fold(0, |divisor, &value| common_divisor(divisor, value));
        if divisor >= LEAST_PERIOD {
            return (divisor as f64, SampleBasis::Counted);
        }
    }
    if let Some(period) = period_of(profile, of) {
        return (period * one, SampleBasis::Counted);
    }
    let squares: f64 = values.iter().map(|&value| (value as f64).powi(2)).sum();
    // Only single samples have times; totals of stacks do not.
    let single = profile.samples.iter().any(|sample| sample.time.is_some());
    let basis = if single { SampleBasis::Spread } else { SampleBasis::Totals };
    if total == 0 { (one, basis) } else { (squares / total as f64, basis) }
}

/// Mean number of units between samples, if the profile gives it: 512 KiB for a heap profile, for example.
fn period_of(profile: &Profile, of: &ValueType) -> Option<f64> {
    let (period, every) = profile.about.period.as_ref()?;
    (period.unit == of.unit && *every > 1).then_some(*every as f64)
}

/// Weights of samples, if they differ: the column with the number of samples of each stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    counts: usize,
}

/// Maximum ratio between the mean weights of stacks for the weights to count as equal, as they do for a clock.
const LIKE_A_CLOCK: f64 = 1.01;

impl Weights {
    /// Returns the weights of a run; `None` if all samples have the same weight, or if nothing is known about it.
    pub(super) fn of(run: &Run<'_>, given: Option<f64>) -> Option<Self> {
        let counts = run.profile.numbers_beside(run.column).filter(|_| given.is_none())?;
        let means = run.tree.self_values(run.column).iter().zip(run.tree.self_values(counts));
        let means = means.filter(|&(_, &count)| count > 0);
        let means = means.map(|(&value, &count)| value as f64 / count as f64);
        let (low, high) =
            means.fold((f64::MAX, 0.0f64), |(low, high), mean| (low.min(mean), high.max(mean)));
        (high > low * LIKE_A_CLOCK).then_some(Self { counts })
    }

    /// Sum of the squared weights of the samples that end in a node, in the column's own whole numbers.
    ///
    /// The spread of weights within one stack is unknown. Waits and sizes are spread about as widely as an
    /// exponential distribution, whose mean square is twice the square of its mean.
    pub(super) fn square(self, run: &Run<'_>, node: usize) -> f64 {
        let value = run.tree.self_values(run.column)[node] as f64;
        let count = run.tree.self_values(self.counts)[node].max(1) as f64;
        value * value / count * (2.0 - 1.0 / count)
    }
}

/// Greatest common divisor; for 0 and another number, that number.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, StackId, ValueType};

    use super::*;

    fn check(types: &[ValueType], rows: &[&[u64]], given: Option<f64>, expect: (f64, SampleBasis)) {
        let mut profile = Profile::new(types.to_vec());
        for row in rows {
            profile.push(Sample::new(StackId::ROOT), row);
        }
        let column = types.len() - 1;
        let (value, basis) = sample_value(&profile, column, given);
        assert!((value / expect.0 - 1.0).abs() < 1e-6, "{value} for {types:?} {rows:?}");
        assert_eq!(basis, expect.1, "{types:?} {rows:?}");
    }

    #[test]
    fn counts_are_samples_unless_there_are_too_many() {
        let cycles = ValueType::new("cycles", "count");
        check(&[ValueType::samples()], &[&[100], &[200]], None, (1.0, SampleBasis::Counted));
        let tenths = ValueType { decimals: 1, ..ValueType::samples() };
        check(&[tenths], &[&[15], &[20]], None, (10.0, SampleBasis::Counted));
        // (9² + 3²) / (9 + 3), near enough.
        let spread = (750_000_001.0, SampleBasis::Totals);
        check(&[cycles], &[&[900_000_001], &[300_000_000], &[0]], None, spread);
    }

    #[test]
    fn a_period_that_divides_all_values_is_a_sample() {
        let time = ValueType::new("cpu-clock", "ns");
        let rows: [&[u64]; 2] = [&[20_202_020], &[30_303_030]];
        check(std::slice::from_ref(&time), &rows, None, (10_101_010.0, SampleBasis::Counted));
        check(
            std::slice::from_ref(&time),
            &rows,
            Some(5_000_000.0),
            (5_000_000.0, SampleBasis::Given),
        );
        // (7² + 1²) / 8
        check(&[time], &[&[7], &[1]], None, (6.25, SampleBasis::Totals));
    }

    #[test]
    fn sample_counts_beside_the_values_tell() {
        let waits = [ValueType::new("waits", "count"), ValueType::new("off-cpu", "ns")];
        check(&waits, &[&[3, 70], &[1, 30]], None, (25.0, SampleBasis::Counted));
        // A heap's objects are estimated.
        let heap =
            [ValueType::new("alloc_objects", "count"), ValueType::new("alloc_space", "bytes")];
        check(&heap, &[&[300, 4096], &[100, 4096]], None, (4096.0, SampleBasis::Totals));
        let types = [ValueType::samples(), ValueType::new("cpu", "ns")];
        check(&types, &[&[3, 70], &[1, 30]], None, (25.0, SampleBasis::Counted));
    }

    #[test]
    fn sizes_are_no_multiples_of_a_period() {
        let bytes = ValueType::new("alloc_space", "bytes");
        check(&[bytes], &[&[4096], &[4096]], None, (4096.0, SampleBasis::Totals));
    }
}
