//! How many independent samples stand behind values.
//!
//! Noise depends on the number of samples, and profiles hold values: a sample of a CPU clock may
//! count as 10,101,010 ns. What one sample is worth comes, in this order, from the user, from a
//! column of sample counts beside the values, from the values being counts, from their common
//! divisor, or from their spread: `n` samples of unequal weights `w` are as good as
//! `(Σw)² / Σw²` equal ones (Leslie Kish, "Survey Sampling", 1965).

use pyrograph_profile::Profile;

/// No run takes more samples than this; a larger sum of counts is one of cycles or the like.
const MOST_SAMPLES: u64 = 100_000_000;
/// A smaller common divisor says nothing: sizes of memory are multiples of 8 or 16, too. In
/// nanoseconds, the period of a clock that samples a million times a second.
const LEAST_PERIOD: u64 = 1000;

/// Where the worth of a sample is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleBasis {
    /// The user said it.
    Given,
    /// Samples were counted, or the values are multiples of one period.
    Counted,
    /// Estimated from the spread of the values: with totals, on the safe side.
    Spread,
}

/// The value that stands for one independent sample in a column, in the column's own whole
/// numbers; above 0. `given` is in units.
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
    let counts = (0..profile.value_types.len()).find(|&other| {
        let other = &profile.value_types[other];
        other.name == "samples" && other.unit == "count" && other.decimals == 0
    });
    match counts {
        Some(counts) if counts != column => {
            let samples = profile.samples.total(counts);
            if samples > 0 && total > 0 {
                return (total as f64 / samples as f64, SampleBasis::Counted);
            }
        }
        _ if matches!(of.unit.as_str(), "count" | "")
            && total as f64 / one <= MOST_SAMPLES as f64 =>
        {
            return (one, SampleBasis::Counted);
        }
        _ => {}
    }
    if of.unit != "bytes" {
        let divisor = values.iter().fold(0, |divisor, &value| common_divisor(divisor, value));
        if divisor >= LEAST_PERIOD {
            return (divisor as f64, SampleBasis::Counted);
        }
    }
    let squares: f64 = values.iter().map(|&value| (value as f64).powi(2)).sum();
    if total == 0 {
        (one, SampleBasis::Spread)
    } else {
        (squares / total as f64, SampleBasis::Spread)
    }
}

/// The greatest common divisor; that of 0 and a number is the number.
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
        let spread = (750_000_001.0, SampleBasis::Spread);
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
        check(&[time], &[&[7], &[1]], None, (6.25, SampleBasis::Spread));
    }

    #[test]
    fn sample_counts_beside_the_values_tell() {
        let types = [ValueType::samples(), ValueType::new("cpu", "ns")];
        check(&types, &[&[3, 70], &[1, 30]], None, (25.0, SampleBasis::Counted));
    }

    #[test]
    fn sizes_are_no_multiples_of_a_period() {
        let bytes = ValueType::new("alloc_space", "bytes");
        check(&[bytes], &[&[4096], &[4096]], None, (4096.0, SampleBasis::Spread));
    }
}
