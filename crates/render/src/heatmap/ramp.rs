//! Colours for counts.
//!
//! Lightness changes evenly and in one direction, so that the order is visible to everyone and in print; the hue is
//! only an aid. Empty cells have the background colour: the more a colour differs from it, the higher the count.

use pyrograph_analyze::HeatCell;

use crate::Rgb;

/// Maximum number of colours.
const CLASSES: u64 = 16;

/// Mapping of counts to colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shades {
    /// Classes of equal ratio: one slow request is visible beside thousands of fast ones.
    #[default]
    Ratio,
    /// Classes of equal difference between the 1st and the 99th percentile of the counts of non-empty cells. A cell
    /// of a machine that is half busy is half as dark, and a few outliers do not use up the colours.
    Linear,
}

/// Colour classes of counts.
pub(super) struct Ramp {
    /// Lowest count of each class, ascending; the first is 1.
    pub(super) from: Vec<u64>,
    /// True for classes of equal difference. The first class then includes counts below the lower anchor.
    pub(super) linear: bool,
}

impl Ramp {
    pub(super) fn new(cells: &[HeatCell], shades: Shades) -> Self {
        match shades {
            Shades::Ratio => Self::ratio(cells.iter().map(|cell| cell.count).max().unwrap_or(1)),
            Shades::Linear => Self::linear(anchors(cells)),
        }
    }

    /// One colour per count if there are few counts; otherwise classes of equal ratio, because counts differ by
    /// powers of ten, and one slow request among thousands must be visible.
    fn ratio(largest: u64) -> Self {
        let largest = largest.max(1);
        if largest <= CLASSES {
            return Self { from: (1..=largest).collect(), linear: false };
        }
        let mut from: Vec<u64> = (0..CLASSES)
            .map(|class| {
                let share = class as f64 / CLASSES as f64;
                // The cast saturates.
                (largest as f64).powf(share).ceil() as u64
            })
            .collect();
        // For small counts, several classes would begin at the same count.
        let mut least = 0;
        for count in &mut from {
            *count = (*count).max(least + 1);
            least = *count;
        }
        Self { from, linear: false }
    }

    /// Classes of equal difference, with the first around the lower anchor and the last around the upper anchor.
    fn linear((low, high): (u64, u64)) -> Self {
        let classes = (high - low).saturating_add(1).min(CLASSES);
        let mut from = vec![1];
        for class in 1..classes {
            // Halfway between the centres of two classes, rounded up.
            let (span, steps) = (u128::from(high - low), u128::from(classes - 1));
            let above = (span * u128::from(2 * class - 1)).div_ceil(2 * steps);
            from.push(low + above as u64);
        }
        Self { from, linear: true }
    }

    pub(super) fn class(&self, count: u64) -> usize {
        self.from.partition_point(|from| *from <= count).saturating_sub(1)
    }

    /// Colours on light and on dark pages.
    pub(super) fn colours(&self) -> Vec<(Rgb, Rgb)> {
        let last = (self.from.len() - 1).max(1) as f64;
        (0..self.from.len())
            .map(|class| if self.from.len() == 1 { 0.6 } else { class as f64 / last })
            .map(|share| (light(share), dark(share)))
            .collect()
    }
}

/// The 1st and the 99th percentile of the counts of non-empty cells, by nearest rank; the lowest and the highest
/// count if these percentiles are equal.
fn anchors(cells: &[HeatCell]) -> (u64, u64) {
    let mut counts: Vec<u64> = cells.iter().map(|cell| cell.count.max(1)).collect();
    counts.sort_unstable();
    let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else { return (1, 1) };
    let rank = |percent: usize| counts[(counts.len() * percent).div_ceil(100) - 1];
    let (low, high) = (rank(1), rank(99));
    if low == high { (least, most) } else { (low, high) }
}

/// Colours for light pages: pale yellow, orange, red, dark violet.
fn light(share: f64) -> Rgb {
    let chroma = 0.07 + 0.13 * (1.0 - (2.0 * share - 1.0).powi(2));
    Rgb::oklch(0.92 - 0.66 * share, chroma, 95.0 - 155.0 * share)
}

/// Colours for dark pages: dark violet, red, orange, pale yellow.
fn dark(share: f64) -> Rgb {
    let chroma = 0.09 + 0.11 * (1.0 - (2.0 * share - 1.0).powi(2));
    Rgb::oklch(0.33 + 0.62 * share, chroma, -60.0 + 165.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::BACKGROUND;

    #[test]
    fn every_count_has_a_class_and_more_is_never_a_lower_one() {
        for largest in [1, 2, 16, 17, 20, 100, 12_345, u64::MAX] {
            let ramp = Ramp::ratio(largest);
            assert_eq!((ramp.class(1), ramp.from[0]), (0, 1));
            assert_eq!(ramp.class(largest), ramp.from.len() - 1, "{largest}");
            assert!(ramp.from.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ramp.from);
        }
        assert_eq!(Ramp::ratio(5).from, [1, 2, 3, 4, 5]);
    }

    fn cells(counts: impl IntoIterator<Item = u64>) -> Vec<HeatCell> {
        let cell = |(row, count)| HeatCell { column: 0, row: row as u32, count };
        counts.into_iter().enumerate().map(cell).collect()
    }

    #[test]
    fn half_busy_and_busy_have_different_colours() {
        // Cells of 20 ms on 64 CPUs at 99 Hz, half busy and busy, and a few that are neither.
        let counts = (0..500).map(|at| if at % 2 == 0 { 63 } else { 127 }).chain([1, 300, 2]);
        let lightness = |shades: Shades, pick: fn(&(Rgb, Rgb)) -> Rgb| {
            let ramp = Ramp::new(&cells(counts.clone()), shades);
            let colours = ramp.colours();
            let of = |count: u64| pick(&colours[ramp.class(count)]).to_oklch().0;
            (of(63) - of(127)).abs()
        };
        for pick in [(|pair| pair.0) as fn(&(Rgb, Rgb)) -> Rgb, |pair| pair.1] {
            assert!(lightness(Shades::Linear, pick) > 0.6);
            assert!(lightness(Shades::Ratio, pick) < 0.15, "as latencies have it");
        }
    }

    proptest::proptest! {
        #[test]
        fn linear_colours_are_anchored_at_the_first_and_last_percentile(
            counts in proptest::collection::vec(1u64..5000, 1..400)
        ) {
            // How many cells have at most a count, counted one by one.
            let at_most = |count: u64| counts.iter().filter(|other| **other <= count).count();
            let rank = |percent: usize| {
                let reached = |count: &u64| at_most(*count) * 100 >= percent * counts.len();
                counts.iter().copied().filter(reached).min().expect("the highest")
            };
            let (mut low, mut high) = (rank(1), rank(99));
            if low == high {
                low = counts.iter().copied().min().expect("one");
                high = counts.iter().copied().max().expect("one");
            }
            let ramp = Ramp::new(&cells(counts.iter().copied()), Shades::Linear);
            let last = ramp.from.len() - 1;
            proptest::prop_assert!(ramp.from.is_sorted_by(|a, b| a < b), "{:?}", ramp.from);
            for &count in &counts {
                let share = (count.clamp(low, high) - low) as f64 / (high - low).max(1) as f64;
                let class = share * last as f64;
                let off = (ramp.class(count) as f64 - class).abs();
                proptest::prop_assert!(off <= 0.5 + 1e-9, "{count} of {low} to {high}: {off}");
            }
        }
    }

    #[test]
    fn colours_go_away_from_the_background_in_even_steps_of_lightness() {
        let colours = Ramp::ratio(1000).colours();
        let contrast = |pick: fn(&(Rgb, Rgb)) -> Rgb, background: Rgb| -> Vec<f64> {
            colours.iter().map(|pair| pick(pair).contrast(background)).collect()
        };
        for contrasts in
            [contrast(|pair| pair.0, BACKGROUND.0), contrast(|pair| pair.1, BACKGROUND.1)]
        {
            assert!(contrasts.is_sorted_by(|a, b| a < b), "{contrasts:?}");
            assert!(contrasts[0] > 1.15, "seen on the background: {contrasts:?}");
            assert!(contrasts[15] > 10.0, "{contrasts:?}");
        }
    }
}
