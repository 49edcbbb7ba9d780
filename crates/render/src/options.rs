//! Options for the appearance of SVG files, as types, with the parsers of their text forms.

use std::str::FromStr;

use crate::{NameAttributes, Palette, PaletteMap, Rgb, Tone};

/// Options of a flame graph.
#[derive(Clone, Debug)]
pub struct SvgOptions {
    /// Title.
    pub title: String,
    /// Subtitle; none if empty.
    pub subtitle: String,
    /// Width of the picture in pixels. `None` draws it with [`SvgOptions::DEFAULT_WIDTH`], and the script fits it to
    /// the reader's window.
    pub width: Option<f64>,
    /// Height of a row in pixels, including a gap of one pixel below it.
    pub row_height: f64,
    /// Minimum width of frames, for the text that mentions omitted frames.
    pub min_width: MinWidth,
    /// CSS font family, preferred to the reader's interface font.
    pub font: String,
    /// Font size of frame labels in pixels.
    pub font_size: f64,
    /// Mean width of a character as a share of the font size; `None` for usual proportions.
    pub font_width: Option<f64>,
    /// Name of the counted items, if it differs from the profile's.
    pub count_name: Option<String>,
    /// Text before a frame's name in its details; nothing if empty.
    pub name_type: String,
    /// Colour palette.
    pub palette: Palette,
    /// Rule that selects a tone of the palette.
    pub tone: Tone,
    /// Colours that are fixed by function name.
    pub palette_map: Option<PaletteMap>,
    /// Light or dark theme.
    pub theme: Theme,
    /// Background; `None` for white or near-black, depending on the theme.
    pub background: Option<Background>,
    /// Draws the root at the top.
    pub inverted: bool,
    /// In a differential flame graph, uses blue for more and red for less.
    pub negate: bool,
    /// Text of a comment in the file.
    pub notes: String,
    /// Attributes for the frames of particular functions.
    pub attributes: NameAttributes,
    /// Factor that shown values are multiplied by.
    pub factor: f64,
    /// Encoding that the file declares.
    pub encoding: Encoding,
    /// Omits the XML prolog and the script, so that the picture can be embedded in a page.
    pub embed: bool,
}

impl SvgOptions {
    /// Default width of pictures, in pixels.
    pub const DEFAULT_WIDTH: f64 = 1200.0;
    /// Margin on each side, in pixels.
    pub const MARGIN: f64 = 10.0;

    /// Width of the frames in pixels, without the margins.
    pub fn frames_width(&self) -> f64 {
        (self.width.unwrap_or(Self::DEFAULT_WIDTH) - 2.0 * Self::MARGIN).max(1.0)
    }
}

impl Default for SvgOptions {
    fn default() -> Self {
        Self {
            title: "Flame Graph".to_owned(),
            subtitle: String::new(),
            width: None,
            row_height: 18.0,
            min_width: MinWidth::default(),
            font: String::new(),
            font_size: 12.0,
            font_width: None,
            count_name: None,
            name_type: String::new(),
            palette: Palette::default(),
            tone: Tone::default(),
            palette_map: None,
            theme: Theme::default(),
            background: None,
            inverted: false,
            negate: false,
            notes: String::new(),
            attributes: NameAttributes::default(),
            factor: 1.0,
            encoding: Encoding::default(),
            embed: false,
        }
    }
}

/// Minimum width of frames to be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinWidth {
    /// In pixels.
    Pixels(f64),
    /// In percent of the whole.
    Percent(f64),
}

impl Default for MinWidth {
    fn default() -> Self {
        Self::Pixels(0.1)
    }
}

impl MinWidth {
    /// Returns the width as a share of the whole, in a picture whose frames are `frames_width` pixels wide.
    pub fn share(self, frames_width: f64) -> f64 {
        match self {
            Self::Pixels(pixels) => pixels / frames_width,
            Self::Percent(percent) => percent / 100.0,
        }
    }
}

/// An option has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Invalid width.
    #[error("`{0}` is no width: give pixels (`0.1`) or percent (`0.5%`), not below 0")]
    MinWidth(String),
    /// Invalid background.
    #[error("`{0}` is no background: give yellow, blue, green, grey, or a colour as #rrggbb")]
    Background(String),
    /// Invalid theme.
    #[error("`{0}` is no theme: give light, dark or auto")]
    Theme(String),
    /// Invalid encoding, or one that is not a superset of ASCII.
    #[error("`{0}` is no encoding that contains ASCII, such as UTF-8 or ISO-8859-1")]
    Encoding(String),
}

impl FromStr for MinWidth {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let value = number
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && *value >= 0.0)
            .ok_or_else(|| OptionError::MinWidth(text.to_owned()))?;
        Ok(if text.ends_with('%') { Self::Percent(value) } else { Self::Pixels(value) })
    }
}

/// Theme of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark, depending on the reader's setting; light when printed.
    #[default]
    Auto,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

impl FromStr for Theme {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "auto" => Ok(Self::Auto),
            "light" => Ok(Self::Light),
            "dark" => Ok(Self::Dark),
            _ => Err(OptionError::Theme(text.to_owned())),
        }
    }
}

impl Theme {
    /// Selects the colours on light and on dark pages; equal if the theme is fixed.
    pub(crate) fn choose<T: Copy>(self, (light, dark): (T, T)) -> (T, T) {
        match self {
            Self::Auto => (light, dark),
            Self::Light => (light, light),
            Self::Dark => (dark, dark),
        }
    }

    /// Name of the theme, if it is fixed.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Light => Some("light"),
            Self::Dark => Some("dark"),
        }
    }
}

/// Background colours, as a vertical gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// Colour at the top.
    pub top: Rgb,
    /// Colour at the bottom.
    pub bottom: Rgb,
}

impl FromStr for Background {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (top, bottom) = match text {
            "yellow" => (Rgb(0xee, 0xee, 0xee), Rgb(0xee, 0xee, 0xb0)),
            "blue" => (Rgb(0xee, 0xee, 0xee), Rgb(0xe0, 0xe0, 0xff)),
            "green" => (Rgb(0xee, 0xf2, 0xee), Rgb(0xe0, 0xff, 0xe0)),
            "grey" | "gray" => (Rgb(0xf8, 0xf8, 0xf8), Rgb(0xe8, 0xe8, 0xe8)),
            _ => {
                let flat = hex(text).ok_or_else(|| OptionError::Background(text.to_owned()))?;
                (flat, flat)
            }
        };
        Ok(Self { top, bottom })
    }
}

/// Parses `#rrggbb`.
fn hex(text: &str) -> Option<Rgb> {
    let digits = text.strip_prefix('#')?;
    if digits.len() != 6 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    Some(Rgb(part(0)?, part(2)?, part(4)?))
}

/// Encoding that the XML prolog declares. Except in UTF-8, non-ASCII characters are written as character references,
/// which are valid in every superset of ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding(String);

impl Default for Encoding {
    fn default() -> Self {
        Self("UTF-8".to_owned())
    }
}

impl Encoding {
    /// Name of the encoding.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns true if all of Unicode can be written without character references.
    pub fn is_utf8(&self) -> bool {
        self.0.eq_ignore_ascii_case("utf-8") || self.0.eq_ignore_ascii_case("utf8")
    }
}

impl FromStr for Encoding {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let bytes = text.as_bytes();
        // The syntax of encoding names follows XML 1.0, section 4.3.3.
        let formed = bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b));
        let upper = text.to_ascii_uppercase();
        let wide = ["UTF-16", "UTF16", "UTF-32", "UTF32", "UCS", "ISO-10646", "UTF-7", "EBCDIC"];
        if !formed || wide.iter().any(|wide| upper.starts_with(wide)) {
            return Err(OptionError::Encoding(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_pixels_or_percent() {
        assert_eq!("0.5".parse(), Ok(MinWidth::Pixels(0.5)));
        assert_eq!("2%".parse(), Ok(MinWidth::Percent(2.0)));
        for bad in ["", "%", "-1", "NaN", "inf", "1px"] {
            assert!(bad.parse::<MinWidth>().is_err(), "{bad}");
        }
        assert!((MinWidth::Pixels(0.1).share(1000.0) - 0.0001).abs() < 1e-12);
        assert!((MinWidth::Percent(2.0).share(1000.0) - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_theme_is_light_dark_or_auto() {
        assert_eq!("dark".parse(), Ok(Theme::Dark));
        assert_eq!("auto".parse(), Ok(Theme::Auto));
        assert!("black".parse::<Theme>().is_err());
    }

    #[test]
    fn a_background_is_a_name_or_a_colour() {
        let flat = Rgb(0xab, 0xcd, 0xef);
        assert_eq!("#abcdef".parse(), Ok(Background { top: flat, bottom: flat }));
        assert!("grey".parse::<Background>().is_ok());
        for bad in ["", "#abc", "#ééé", "red;x", "#abcde\""] {
            assert!(bad.parse::<Background>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_encoding_contains_ascii_and_cannot_leave_its_quotes() {
        assert!("ISO-8859-1".parse::<Encoding>().is_ok_and(|e| !e.is_utf8()));
        assert!("utf-8".parse::<Encoding>().is_ok_and(|e| e.is_utf8()));
        for bad in ["", "UTF-16", "utf-8\"?>", "1x"] {
            assert!(bad.parse::<Encoding>().is_err(), "{bad}");
        }
    }
}
