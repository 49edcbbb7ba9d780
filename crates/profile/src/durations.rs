//! Histograms of durations.

/// A histogram of durations, with four ranges for each power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Number of durations.
    pub count: u64,
    /// Sum of the durations, in nanoseconds.
    pub total: u64,
    /// Shortest duration in nanoseconds; 0 if there are none.
    pub least: u64,
    /// Longest duration in nanoseconds.
    pub longest: u64,
    /// Number of durations in each range.
    ranges: Vec<u64>,
}

impl Durations {
    /// Start of the second range, in nanoseconds.
    pub const LEAST: u64 = 1 << Self::LEAST_BITS;
    const LEAST_BITS: u32 = 4;

    /// Creates a histogram from counts in the same ranges.
    pub fn from_ranges(total: u64, least: u64, longest: u64, ranges: &[u32]) -> Self {
        let ranges: Vec<u64> = ranges.iter().copied().map(u64::from).collect();
        Self { count: ranges.iter().sum(), total, least, longest, ranges }
    }

    /// Adds a duration in nanoseconds.
    pub fn add(&mut self, time: u64) {
        let range = Self::range_of(time);
        if self.ranges.len() <= range {
            self.ranges.resize(range + 1, 0);
        }
        self.ranges[range] += 1;
        self.least = if self.count == 0 { time } else { self.least.min(time) };
        self.longest = self.longest.max(time);
        self.count += 1;
        self.total = self.total.saturating_add(time);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.longest = self.longest.max(other.longest);
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        if self.ranges.len() < other.ranges.len() {
            self.ranges.resize(other.ranges.len(), 0);
        }
        self.ranges.iter_mut().zip(&other.ranges).for_each(|(sum, count)| *sum += count);
    }

    fn range_of(time: u64) -> usize {
        match time.checked_ilog2() {
            Some(bits) if bits >= Self::LEAST_BITS => {
                let quarter = time >> (bits - 2) & 3;
                1 + 4 * (bits - Self::LEAST_BITS) as usize + quarter as usize
            }
            _ => 0,
        }
    }

    /// Start of a range, in nanoseconds.
    fn begin(range: usize) -> u64 {
        let Some(range) = range.checked_sub(1) else { return 0 };
        let bits = range / 4 + Self::LEAST_BITS as usize;
        let base = 1u64.checked_shl(u32::try_from(bits).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
        base.saturating_add((base >> 2).saturating_mul(range as u64 % 4))
    }

    /// Iterates over the ranges that are not empty: start and end in nanoseconds, and number of durations.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let all = self.ranges.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(range, count)| (Self::begin(range), Self::begin(range + 1), *count))
    }

    /// Estimates a percentile (`share` 0.99: the 99th) in nanoseconds. The error is at most the width of a range: a
    /// quarter of the value, or 16 ns for values below that.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        for (begin, end, count) in self.ranges() {
            if before + count >= rank {
                // Assumes that the durations are spread evenly over the range.
                let part = (rank - before) as f64 / count as f64;
                let time = begin as f64 + (end - begin) as f64 * part;
                return (time as u64).clamp(self.least, self.longest);
            }
            before += count;
        }
        self.longest
    }

    /// Mean in nanoseconds; 0 if there are no durations.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look as if they were drawn by lot.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 1u64;
        std::iter::from_fn(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((state >> 33) % (1 << (state >> 59)) + 1)
        })
    }

    #[test]
    fn each_duration_is_in_its_range() {
        for time in numbers().take(10_000).chain([0, 1, 15, 16, 17, 19, 20, 31, 32, u64::MAX >> 1])
        {
            let range = Durations::range_of(time);
            assert!(Durations::begin(range) <= time, "{time}");
            assert!(time < Durations::begin(range + 1), "{time}");
        }
    }

    #[test]
    fn percentiles_are_near_those_of_all_durations() {
        let mut all: Vec<u64> = numbers().take(5000).collect();
        let mut times = Durations::default();
        all.iter().for_each(|time| times.add(*time));
        all.sort_unstable();
        for share in [0.01, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let exact = all[((share * all.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let found = times.percentile(share) as f64;
            assert!((found - exact).abs() <= exact / 4.0 + 16.0, "{share}: {found} and {exact}");
        }
        assert_eq!(times.percentile(1.0), times.longest);
        assert_eq!((times.count, times.total), (5000, all.iter().sum()));
    }

    #[test]
    fn what_is_merged_is_as_if_it_had_been_added() {
        let all: Vec<u64> = numbers().take(1000).collect();
        let of = |times: &[u64]| {
            let mut sum = Durations::default();
            times.iter().for_each(|time| sum.add(*time));
            sum
        };
        let mut merged = Durations::default();
        merged.merge(&Durations::default());
        all.chunks(7).for_each(|part| merged.merge(&of(part)));
        assert_eq!(merged, of(&all));
    }
}
