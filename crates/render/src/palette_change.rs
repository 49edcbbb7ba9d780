//! Colours of changes: nearly white for no change, one hue for more and one for less.

use std::str::FromStr;

use crate::Rgb;
use crate::palette::Paint;

/// A pair of hues for more and for less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeColors {
    /// Red for more, blue for less.
    #[default]
    RedBlue,
    /// Orange for more, blue for less: distinguishable with every type of colour blindness.
    OrangeBlue,
}

/// The name of a pair of colours is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no pair of colours has the name `{0}`: there are red-blue and orange-blue")]
pub struct UnknownChangeColors(String);

impl FromStr for ChangeColors {
    type Err = UnknownChangeColors;

    fn from_str(name: &str) -> Result<Self, UnknownChangeColors> {
        match name {
            "red-blue" => Ok(Self::RedBlue),
            "orange-blue" => Ok(Self::OrangeBlue),
            _ => Err(UnknownChangeColors(name.to_owned())),
        }
    }
}

impl ChangeColors {
    /// Paint for a change from -1, the strongest colour for less, over 0, no change, to 1.
    pub(crate) fn paint(self, share: f64) -> Paint {
        /// Number of steps from no change to the largest.
        const STEPS: f64 = 12.0;
        let strength = (share.abs().min(1.0) * STEPS).ceil() / STEPS;
        // Lightness varies little, so that one text colour is readable on every step.
        let (hue, chroma) = match (share > 0.0, self) {
            (true, Self::RedBlue) => (32.0, 0.17),
            (true, Self::OrangeBlue) => (66.0, 0.16),
            (false, _) => (252.0, 0.15),
        };
        let bright = if hue == 66.0 { 0.16 } else { 0.25 };
        Paint {
            light: Rgb::oklch(0.95 - bright * strength, chroma * strength, hue),
            dark: Rgb::oklch(0.36 + 0.17 * strength, chroma * strength, hue),
            hatched: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_reads_in_one_ink_and_more_is_not_less() {
        for colors in [ChangeColors::RedBlue, ChangeColors::OrangeBlue] {
            for step in -24..=24 {
                let paint = colors.paint(f64::from(step) / 24.0);
                assert_eq!(paint.light.ink(), Rgb::INK, "{colors:?} {step}");
                assert!(paint.dark.contrast(Rgb::WHITE) >= 4.5, "{colors:?} {step}");
            }
            let (more, less) = (colors.paint(1.0).light, colors.paint(-1.0).light);
            assert!(more.0 > less.0 && more.2 < less.2, "{colors:?}: {more} {less}");
        }
        assert!("green".parse::<ChangeColors>().is_err());
    }
}
