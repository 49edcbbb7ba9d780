//! Flame graphs as SVG.
//!
//! ```text
//! svg.ID                      the whole picture; coordinates are pixels
//!   style, rect.bg
//!   g.head                    title and subtitle
//!   svg.frames                coordinates are values: the viewBox is the zoom
//!     g                       a row, starting with the root
//!       g.cN                  the frames of one colour
//!         path > title        a frame: a line as thick as the row, and its details
//!   g.text                    gaps between frames, and their text; coordinates are pixels
//!   g.foot                    legend, and what was left out
//!   script
//! ```
//!
//! A frame is a stroked line because that takes a third of the bytes of a `rect`, and because a horizontal line keeps
//! its thickness at any horizontal scale: a zoom changes a single attribute.
//! Colours are attributes, so that they survive an editor that strips styles; the style adds the colours for dark
//! pages.

mod details;
mod diff;
mod frames;
mod page;
mod rows;

use std::io::{self, Write};

use pyrograph_analyze::FlameGraph;

use crate::SvgOptions;
use crate::palette::hash;
use crate::text::escape;
pub(crate) use diff::change_paint;
pub use diff::{DiffStyle, View, diff_svg};
use frames::Frames;
use page::Page;
pub(crate) use page::{BACKGROUND, FONT, MUTED, TEXT, wrap};

/// The interactive part: one function, split into several files. Comment lines and indentation are not written to SVG
/// files.
const SCRIPT: &str = concat!(
    include_str!("svg/script/1-frames.js"),
    include_str!("script/names.js"),
    include_str!("script/search.js"),
    include_str!("script/window.js"),
    include_str!("svg/script/2-view.js"),
    include_str!("svg/script/3-controls.js"),
    include_str!("svg/script/4-actions.js"),
    include_str!("svg/script/5-start.js"),
);

/// The script of a comparison, which can show both sides.
const DIFF_SCRIPT: &str = concat!(
    include_str!("svg/script/1-frames.js"),
    include_str!("script/names.js"),
    include_str!("script/search.js"),
    include_str!("script/window.js"),
    include_str!("svg/script/2-view.js"),
    include_str!("svg/script/3-controls.js"),
    include_str!("svg/script/4-actions.js"),
    include_str!("svg/script/diff.js"),
    include_str!("svg/script/5-start.js"),
);

/// The script of a chart with a true time axis.
const CHART_SCRIPT: &str = concat!(
    include_str!("svg/script/1-frames.js"),
    include_str!("script/names.js"),
    include_str!("script/search.js"),
    include_str!("script/window.js"),
    include_str!("svg/script/2-view.js"),
    include_str!("svg/script/3-controls.js"),
    include_str!("svg/script/4-actions.js"),
    include_str!("script/scale.js"),
    include_str!("svg/script/chart.js"),
    include_str!("svg/script/5-start.js"),
);

/// Writes a flame graph as SVG.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn svg(graph: &FlameGraph, options: &SvgOptions, out: &mut dyn Write) -> io::Result<()> {
    let frames = Frames::new(graph, options);
    let id = id(graph, options);
    let page = Page::new(options, &id);
    let mut text = String::with_capacity(128 * graph.frames.len() + 20_000);
    let summary = frames.summary();
    let (legend, notice) = (frames.legend(), frames.notice());
    let footer = page.footer(&legend, &notice);
    page.open(&mut text, &summary, footer.height + frames.height());
    page.style(&mut text, frames.paints(), &legend);
    page.head(&mut text);
    frames.write(&mut text, &page);
    page.foot(&mut text, &footer, frames.height());
    if !options.embed {
        script(&mut text, if graph.threads.is_empty() { SCRIPT } else { CHART_SCRIPT });
    }
    text.push_str("</svg>\n");
    write_encoded(&text, options, out)
}

/// Maximum width of a picture with a message, in pixels.
const MESSAGE_WIDTH: f64 = 480.0;

/// Writes a picture with a message instead of frames, which says why there are none.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn svg_message(message: &str, options: &SvgOptions, out: &mut dyn Write) -> io::Result<()> {
    let id = format!("p{:08x}", hash(message.as_bytes()) >> 32);
    let mut page = Page::new(options, &id);
    // There is no script to adapt the layout: in a narrow window the picture shrinks, and its text should stay
    // readable.
    page.width = page.width.min(MESSAGE_WIDTH);
    let mut text = String::new();
    let footer = page.footer(&[], message);
    let mut summary = String::new();
    escape(&mut summary, message);
    page.open(&mut text, &summary, footer.height);
    if !options.embed {
        // Normally added by the script: otherwise mobile browsers would assume a viewport of 980 pixels.
        text.push_str(
            "<meta xmlns=\"http://www.w3.org/1999/xhtml\" name=\"viewport\" \
             content=\"width=device-width,initial-scale=1\"/>\n",
        );
    }
    page.style(&mut text, &[], &[]);
    page.head(&mut text);
    page.foot(&mut text, &footer, 0.0);
    text.push_str("</svg>\n");
    write_encoded(&text, options, out)
}

/// Class name that is unique to this picture, so that several fit on one page.
fn id(graph: &FlameGraph, options: &SvgOptions) -> String {
    let mut sum = hash(format!("{options:?}").as_bytes());
    for frame in &graph.frames {
        sum = sum.rotate_left(5) ^ u64::from(frame.name.0) ^ frame.start;
        sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame.value;
    }
    for name in graph.names.iter() {
        sum = sum.rotate_left(5) ^ hash(name.as_bytes());
    }
    format!("p{:08x}", hash(&sum.to_le_bytes()) >> 32)
}

/// Writes a script without comment lines and indentation.
pub(crate) fn script(out: &mut String, source: &str) {
    out.push_str(
        "<script>
",
    );
    for line in source.lines().map(str::trim) {
        if !line.is_empty() && !line.starts_with("//") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.push_str("</script>\n");
}

fn write_encoded(text: &str, options: &SvgOptions, out: &mut dyn Write) -> io::Result<()> {
    if options.embed || options.encoding.is_utf8() {
        return out.write_all(text.as_bytes());
    }
    // Only text content and attribute values contain non-ASCII characters, where character references are allowed.
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            ascii.push_str(&format!("&#{};", u32::from(c)));
        }
    }
    out.write_all(ascii.as_bytes())
}

/// Writes a coordinate with at most one decimal.
pub(crate) fn number(out: &mut String, value: f64) {
    // The cast saturates; NaN becomes 0.
    let tenths = (value * 10.0).round() as i64;
    let mut buffer = itoa::Buffer::new();
    if tenths < 0 {
        out.push('-');
    }
    out.push_str(buffer.format(tenths.unsigned_abs() / 10));
    if tenths % 10 != 0 {
        out.push('.');
        out.push_str(buffer.format(tenths.unsigned_abs() % 10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_stand_in_any_page() {
        for source in [SCRIPT, DIFF_SCRIPT, CHART_SCRIPT] {
            let mut text = String::new();
            script(&mut text, source);
            let body = &text["<script>\n".len()..text.len() - "</script>\n".len()];
            assert!(body.is_ascii());
            for bad in ["<", "&", "]]>", "\n\n"] {
                assert!(!body.contains(bad), "the script contains {bad:?}");
            }
            assert!(body.lines().all(|line| !line.starts_with("//")), "comments are left out");
        }
    }

    #[test]
    fn coordinates_are_short() {
        let text = |value| {
            let mut out = String::new();
            number(&mut out, value);
            out
        };
        assert_eq!(text(12.0), "12");
        assert_eq!(text(12.34), "12.3");
        assert_eq!(text(-0.26), "-0.3");
        assert_eq!(text(f64::NAN), "0");
    }
}
