//! Colours in sRGB and OKLCH, and contrast ratios.

use std::fmt;

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// Black, for text on light frames.
    pub const INK: Self = Self(0, 0, 0);
    /// White.
    pub const WHITE: Self = Self(255, 255, 255);

    /// Converts from the OKLCH colour space (Björn Ottosson, "A perceptual color space for image processing", 2020):
    /// lightness and chroma from 0 to 1, hue in degrees. For colours outside the sRGB gamut, chroma is reduced, with
    /// the same lightness and hue.
    pub fn oklch(lightness: f64, chroma: f64, hue: f64) -> Self {
        let (sin, cos) = hue.to_radians().sin_cos();
        let mut chroma = chroma;
        loop {
            let linear = oklab_to_linear(lightness, chroma * cos, chroma * sin);
            let shown = linear.iter().all(|c| (-0.0005..=1.0005).contains(c));
            if shown || chroma < 0.001 {
                let [r, g, b] = linear.map(encode);
                return Self(r, g, b);
            }
            chroma -= 0.002;
        }
    }

    /// Lightness, chroma, and hue in degrees in the OKLCH colour space.
    pub(crate) fn to_oklch(self) -> (f64, f64, f64) {
        let [lightness, a, b] = linear_to_oklab([self.0, self.1, self.2].map(decode));
        (lightness, a.hypot(b), b.atan2(a).to_degrees())
    }

    /// Linear red, green and blue.
    #[cfg(test)]
    pub(crate) fn linear(self) -> [f64; 3] {
        [self.0, self.1, self.2].map(decode)
    }

    /// Converts linear RGB to OKLab.
    #[cfg(test)]
    pub(crate) fn lab(light: [f64; 3]) -> [f64; 3] {
        linear_to_oklab(light)
    }

    /// Nearly grey colour with the same hue and lightness.
    pub(crate) fn muted(self) -> Self {
        let (lightness, chroma, hue) = self.to_oklch();
        Self::oklch(lightness, 0.2 * chroma, hue)
    }

    /// Contrast ratio according to WCAG 2, from 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Text colour for this background: black or white, whichever has the higher contrast, which is at least 4.5:1.
    pub fn ink(self) -> Self {
        if self.contrast(Self::INK) >= self.contrast(Self::WHITE) { Self::INK } else { Self::WHITE }
    }

    fn luminance(self) -> f64 {
        0.2126 * decode(self.0) + 0.7152 * decode(self.1) + 0.0722 * decode(self.2)
    }
}

/// Formats as `#rrggbb`, or as the equivalent `#rgb` if there is one.
impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(r, g, b) = *self;
        if [r, g, b].iter().all(|c| c >> 4 == c & 15) {
            write!(f, "#{:x}{:x}{:x}", r & 15, g & 15, b & 15)
        } else {
            write!(f, "#{r:02x}{g:02x}{b:02x}")
        }
    }
}

fn oklab_to_linear(lightness: f64, a: f64, b: f64) -> [f64; 3] {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
    ]
}

/// Inverse of [`oklab_to_linear`].
fn linear_to_oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
    ]
}

/// Converts an sRGB channel to linear light.
fn decode(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

fn encode(linear: f64) -> u8 {
    let linear = linear.clamp(0.0, 1.0);
    let encoded =
        if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
    (encoded * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oklch_agrees_with_the_published_values() {
        // White, and sRGB red: oklch(0.628 0.2577 29.23) in CSS Color 4.
        assert_eq!(Rgb::oklch(1.0, 0.0, 0.0), Rgb::WHITE);
        assert_eq!(Rgb::oklch(0.62796, 0.25768, 29.2339), Rgb(255, 0, 0));
    }

    #[test]
    fn colours_come_back_from_oklch() {
        for colour in [Rgb(255, 0, 0), Rgb(12, 200, 77), Rgb(90, 90, 90), Rgb(250, 180, 60)] {
            let (lightness, chroma, hue) = colour.to_oklch();
            let Rgb(r, g, b) = Rgb::oklch(lightness, chroma, hue);
            let off = [r.abs_diff(colour.0), g.abs_diff(colour.1), b.abs_diff(colour.2)];
            assert!(off.iter().all(|off| *off <= 1), "{colour} {off:?}");
        }
    }

    #[test]
    fn every_colour_has_a_readable_ink() {
        for r in (0..=255).step_by(15) {
            for g in (0..=255).step_by(15) {
                for b in (0..=255).step_by(15) {
                    let colour = Rgb(r, g, b);
                    assert!(colour.contrast(colour.ink()) >= 4.5, "{colour}");
                }
            }
        }
    }

    #[test]
    fn colours_are_written_as_short_as_they_can_be() {
        assert_eq!(Rgb(255, 0, 170).to_string(), "#f0a");
        assert_eq!(Rgb(255, 1, 170).to_string(), "#ff01aa");
    }
}
