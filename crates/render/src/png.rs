//! PNG output, for places that do not accept SVG, such as a chat or a report.

use std::borrow::Cow;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{FontResolver, Options, Tree, fontdb};

/// Pixels of the PNG file per pixel of the SVG file, so that text is sharp on high-resolution screens.
const SCALE: f32 = 2.0;

/// Maximum number of pixels (400 MB in memory); larger pictures are scaled down, because a graph may have thousands
/// of rows.
const MOST_PIXELS: f32 = 1e8;

/// Maximum length of a side: viewers refuse larger files.
const LONGEST_SIDE: f32 = 32_000.0;

/// A PNG file.
#[derive(Clone, Debug)]
pub struct Png {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// True if the system has no fonts, so that the picture contains no text.
    pub without_text: bool,
}

/// Reasons why a picture could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The SVG file cannot be parsed.
    #[error("read the picture that is to be drawn")]
    Svg(#[from] resvg::usvg::Error),
    /// There is not enough memory, or the picture has no size.
    #[error("draw a picture of {0} × {1} pixels")]
    Size(u32, u32),
    /// The pixels cannot be compressed.
    #[error("write a PNG file: {0}")]
    Encode(String),
}

/// Renders an SVG file of this crate (written with `embed`: without script) in its light colours, with the fonts of
/// this system.
///
/// # Errors
///
/// Fails if the text is not SVG, or if the picture is too large.
pub fn png(svg: &str) -> Result<Png, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let without_text = fonts.is_empty();
    set_generic_families(&mut fonts);
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "sans-serif".to_owned(),
        font_resolver: FontResolver::default(),
        ..Options::default()
    };
    let tree = Tree::from_str(&in_light_colours(svg), &options)?;
    let size = tree.size();
    let scale = SCALE
        .min((MOST_PIXELS / (size.width() * size.height())).sqrt())
        .min(LONGEST_SIDE / size.width().max(size.height()));
    let (width, height) = (size.width() * scale, size.height() * scale);
    let (width, height) = (width.ceil().max(1.0) as u32, height.ceil().max(1.0) as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(PngError::Size(width, height))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let bytes = pixels.encode_png().map_err(|error| PngError::Encode(error.to_string()))?;
    Ok(Png { bytes, without_text })
}

/// Removes the styles that only interactive viewers need: the renderer would apply the rules for dark pages.
fn in_light_colours(svg: &str) -> Cow<'_, str> {
    let (Some(start), Some(end)) = (svg.find("<style>"), svg.find("</style>")) else {
        return Cow::Borrowed(svg);
    };
    match (svg.get(..start), svg.get(end + "</style>".len()..)) {
        (Some(before), Some(after)) => Cow::Owned([before, after].concat()),
        _ => Cow::Borrowed(svg),
    }
}

/// Sets the fonts for `sans-serif` and `monospace`: the first common system font that exists, otherwise any font.
fn set_generic_families(fonts: &mut fontdb::Database) {
    let first_of = |names: &[&str]| -> Option<String> {
        let is_there = |name: &&str| {
            let family = [fontdb::Family::Name(name)];
            fonts.query(&fontdb::Query { families: &family, ..fontdb::Query::default() }).is_some()
        };
        let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
        names.iter().copied().find(is_there).map(str::to_owned).or_else(any)
    };
    let sans = first_of(&[
        "DejaVu Sans",
        "Noto Sans",
        "Liberation Sans",
        "Open Sans",
        "Cantarell",
        "FreeSans",
        "Arial",
    ]);
    let mono = first_of(&["DejaVu Sans Mono", "Noto Sans Mono", "Liberation Mono", "FreeMono"]);
    if let Some(sans) = sans {
        fonts.set_sans_serif_family(&sans);
        fonts.set_serif_family(sans);
    }
    if let Some(mono) = mono {
        fonts.set_monospace_family(mono);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Width and height, as the file's header says.
    fn size(png: &[u8]) -> (u32, u32) {
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("4 bytes"));
        (number(16), number(20))
    }

    fn svg(width: u32, height: u32) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\">\
             <style>rect{{fill:#000}}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/></svg>"
        )
    }

    #[test]
    fn pictures_are_sharp_and_no_larger_than_viewers_take() {
        let png = |width, height| size(&png(&svg(width, height)).expect("a picture").bytes);
        assert_eq!(png(100, 50), (200, 100));
        assert_eq!(png(10, 64_000), (5, 32_000));
        assert!(super::png("no picture").is_err());
    }

    #[test]
    fn rules_for_other_viewers_do_not_count() {
        let picture = png(&svg(1, 1)).expect("a picture");
        let white = Pixmap::decode_png(&picture.bytes).expect("a PNG file");
        assert!(white.data().iter().all(|&byte| byte == 255));
    }
}
