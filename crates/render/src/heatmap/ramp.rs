//! The colours of counts.
//!
//! Lightness changes evenly and in one direction, so that order is seen by everyone, in print too;
//! the hue only helps. Empty cells are the background: the further a colour is from it, the more.

use crate::Rgb;

/// How many colours at most.
const CLASSES: u64 = 16;

/// From a count to a colour.
pub(super) struct Ramp {
    /// The lowest count of each class, ascending; the first is 1.
    pub(super) from: Vec<u64>,
}

impl Ramp {
    /// Each count has a colour of its own if there are few; else, classes of equal ratio: counts
    /// differ by powers of ten, and one slow request among thousands must be seen.
    pub(super) fn new(largest: u64) -> Self {
        let largest = largest.max(1);
        if largest <= CLASSES {
            return Self { from: (1..=largest).collect() };
        }
        let mut from: Vec<u64> = (0..CLASSES)
            .map(|class| {
                let share = class as f64 / CLASSES as f64;
                // Saturates.
                (largest as f64).powf(share).ceil() as u64
            })
            .collect();
        // Where counts are close together, several begin at the same.
        let mut least = 0;
        for count in &mut from {
            *count = (*count).max(least + 1);
            least = *count;
        }
        Self { from }
    }

    pub(super) fn class(&self, count: u64) -> usize {
        self.from.partition_point(|from| *from <= count).saturating_sub(1)
    }

    /// The colours on a light and on a dark page.
    pub(super) fn colours(&self) -> Vec<(Rgb, Rgb)> {
        let last = (self.from.len() - 1).max(1) as f64;
        (0..self.from.len())
            .map(|class| if self.from.len() == 1 { 0.6 } else { class as f64 / last })
            .map(|share| (light(share), dark(share)))
            .collect()
    }
}

/// From pale yellow over orange and red to a dark violet.
fn light(share: f64) -> Rgb {
    let chroma = 0.07 + 0.13 * (1.0 - (2.0 * share - 1.0).powi(2));
    Rgb::oklch(0.92 - 0.66 * share, chroma, 95.0 - 155.0 * share)
}

/// From a dark violet over red and orange to pale yellow.
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
            let ramp = Ramp::new(largest);
            assert_eq!((ramp.class(1), ramp.from[0]), (0, 1));
            assert_eq!(ramp.class(largest), ramp.from.len() - 1, "{largest}");
            assert!(ramp.from.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ramp.from);
        }
        assert_eq!(Ramp::new(5).from, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn colours_go_away_from_the_background_in_even_steps_of_lightness() {
        let colours = Ramp::new(1000).colours();
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
