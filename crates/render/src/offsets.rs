//! A page with a heat map of samples and the flame graph of a span of time that is chosen in it.
//!
//! It is one file that needs no server and no other file. All samples are in it: gzip of lists of
//! whole numbers of seven bits a byte (LEB128), in base64, which the page unpacks itself. The order
//! of the lists is that of [`pack`]. Names are in there too, so that no text from outside is markup.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pyrograph_analyze::{FlameGraph, HeatMap, TimedGraph};
use pyrograph_profile::StringId;

use crate::heatmap::{Form, HeatMapLook, draw, natural_width};
use crate::packed::{Packed, write_base64};
use crate::palette::{Paint, Painter};
use crate::role::{Role, without_mark};
use crate::svg::{BACKGROUND, FONT, MUTED, TEXT};
use crate::text::escape;
use crate::{Palette, Tone};

const STYLE: &str = include_str!("offsets/page.css");
const SCRIPT: &str = concat!(
    include_str!("offsets/1-samples.js"),
    include_str!("script/scale.js"),
    include_str!("script/names.js"),
    include_str!("script/width.js"),
    include_str!("script/flame.js"),
    include_str!("offsets/2-start.js"),
);

/// Times are kept in microseconds: finer than any sampling, and a byte or two each.
const TIME_UNIT: u64 = 1000;

/// Writes the page. `start` is where the heat map's first column begins on the clock of the samples.
///
/// # Errors
///
/// Those of `out`.
pub fn offsets_html(
    map: &HeatMap,
    look: &HeatMapLook,
    timed: &TimedGraph,
    start: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Paints { light, dark, paint_of, legend } = paints(&timed.graph, Palette::default());
    let packed = pack(timed, &paint_of, start)?;
    let mut title = String::new();
    escape(&mut title, &look.title);
    let mut unit = String::new();
    escape(&mut unit, &timed.graph.value_type.unit);
    let mut noun = String::new();
    escape(&mut noun, &timed.graph.value_type.name);
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<title>{title}</title>\n<style>")?;
    let mut font = String::new();
    if !look.font.is_empty() {
        // In a style, what ends it must not stand.
        font.extend(look.font.chars().filter(|c| c.is_alphanumeric() || " ,-'".contains(*c)));
        font.push(',');
    }
    writeln!(
        out,
        ":root{{--background:{};--text:{};--muted:{};--font:{}px {font}{FONT}}}",
        BACKGROUND.0, TEXT.0, MUTED.0, look.font_size
    )?;
    writeln!(
        out,
        "@media screen and (prefers-color-scheme:dark){{:root{{--background:{};--text:{};--muted:{}}}}}",
        BACKGROUND.1, TEXT.1, MUTED.1
    )?;
    out.write_all(STYLE.as_bytes())?;
    writeln!(out, "</style>\n</head>\n<body>\n<main>")?;
    writeln!(out, "<div id=\"map\" style=\"--wide:{:.0}px\">", natural_width(map, look))?;
    out.write_all(draw(map, look, Form::Choosing).as_bytes())?;
    writeln!(out, "</div>")?;
    out.write_all(include_bytes!("offsets/page.html"))?;
    writeln!(out, "<div id=\"legend\">")?;
    for (paint, label) in legend {
        let Paint { light, dark, .. } = paint;
        writeln!(out, "<span><i style=\"--light:{light};--dark:{dark}\"></i>{label}</span>")?;
    }
    writeln!(out, "</div>\n</section>")?;
    writeln!(
        out,
        "<script type=\"text/plain\" id=\"samples\" data-light=\"{light}\" data-dark=\"{dark}\" \
         data-unit=\"{unit}\" data-noun=\"{noun}\" data-decimals=\"{}\">",
        timed.graph.value_type.decimals
    )?;
    write_base64(&packed, out)?;
    writeln!(out, "\n</script>\n<script>")?;
    out.write_all(SCRIPT.as_bytes())?;
    writeln!(out, "</script>\n</main>\n</body>\n</html>")
}

/// The colours of frames.
pub(crate) struct Paints {
    /// On light and on dark pages, with blanks between them.
    pub(crate) light: String,
    pub(crate) dark: String,
    /// Which of them each frame has.
    pub(crate) paint_of: Vec<u64>,
    /// The meanings, where there is more than one.
    pub(crate) legend: Vec<(Paint, &'static str)>,
}

/// Chooses the colours of a graph's frames.
pub(crate) fn paints(graph: &FlameGraph, palette: Palette) -> Paints {
    let painter = Painter { palette, tone: Tone::default(), negate: false, graph };
    let roles = Role::of_frames(graph);
    let chosen: Vec<Paint> = painter.paints(&roles);
    let mut index: BTreeMap<Paint, u64> = chosen.iter().map(|&paint| (paint, 0)).collect();
    let (mut light, mut dark) = (Vec::new(), Vec::new());
    for (number, (paint, place)) in index.iter_mut().enumerate() {
        *place = number as u64;
        light.push(paint.light.to_string());
        dark.push(paint.dark.to_string());
    }
    let paint_of = chosen.iter().map(|paint| index[paint]).collect();
    let mut first: BTreeMap<Role, Paint> = BTreeMap::new();
    for (&role, &paint) in roles.iter().zip(&chosen) {
        first.entry(role).or_insert(paint);
    }
    let label = |(role, paint): (Role, Paint)| role.label().map(|label| (paint, label));
    let mut legend: Vec<_> = first.into_iter().filter_map(label).collect();
    if legend.len() < 2 {
        legend.clear();
    }
    Paints { light: light.join(" "), dark: dark.join(" "), paint_of, legend }
}

/// All of it: names; of each frame how far its caller is from the caller of the one before it, its
/// name, module and colour; of each sample the time since the one before it, its frame, and its
/// value, where they are not all the same.
fn pack(timed: &TimedGraph, paint_of: &[u64], start: u64) -> io::Result<Vec<u8>> {
    let graph = &timed.graph;
    let mut list = Packed::new(flate2::Compression::best());
    list.number(graph.names.iter().count() as u64)?;
    for name in graph.names.iter() {
        list.text(without_mark(name))?;
    }
    pack_frames(&mut list, graph, paint_of, |name| name.0.into())?;
    list.number(timed.samples.len() as u64)?;
    let mut before = 0;
    for sample in &timed.samples {
        let time = sample.time.saturating_sub(start) / TIME_UNIT;
        list.number(time - before)?;
        before = time;
    }
    for sample in &timed.samples {
        list.number(sample.frame.into())?;
    }
    let first = timed.samples.first().map_or(0, |sample| sample.value);
    if timed.samples.iter().all(|sample| sample.value == first) {
        list.number(first)?;
    } else {
        list.number(0)?;
        for sample in &timed.samples {
            list.number(sample.value)?;
        }
    }
    list.finish()
}

/// The frames of a graph, of which `name_of` gives the numbers of names: how far each one's caller is from the caller of the
/// one before it; names, modules, colours.
pub(crate) fn pack_frames(
    list: &mut Packed,
    graph: &FlameGraph,
    paint_of: &[u64],
    name_of: impl Fn(StringId) -> u64,
) -> io::Result<()> {
    let frames = &graph.frames[1..];
    list.number(frames.len() as u64)?;
    let mut before = 0;
    for frame in frames {
        // Row by row, callers never go back.
        list.number(u64::from(frame.parent - before))?;
        before = frame.parent;
    }
    for frame in frames {
        list.number(name_of(frame.name))?;
    }
    for frame in frames {
        list.number(name_of(frame.module))?;
    }
    for paint in paint_of {
        list.number(*paint)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
