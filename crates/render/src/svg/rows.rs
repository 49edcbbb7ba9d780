//! Rows of frames and their names: the common part of the pictures of a profile and of a comparison.

use std::collections::BTreeMap;
use std::ops::Range;

use super::number;
use super::page::Page;
use crate::palette::Paint;
use crate::tag::{Tag, end, tag};
use crate::text::escape;
use crate::{Rgb, SvgOptions};

/// Narrower frames have no gap at their left, or nothing would be left of them; in pixels.
const GAP_FROM: f64 = 3.0;
/// Room left and right of text, in pixels.
pub(super) const PADDING: f64 = 3.0;

/// Where the rows of a picture are, and how their frames are painted.
pub(super) struct Rows<'a> {
    options: &'a SvgOptions,
    count: u32,
    /// The distinct paints, in a fixed order.
    paints: Vec<Paint>,
    /// The paint of each frame.
    paint_of: Vec<u32>,
    /// True if text has another colour on dark pages.
    inks_differ: bool,
}

/// The last line of what is said of a frame: its module, or how many have such a function.
pub(super) fn write_module(out: &mut String, module: &str, modules: u32) {
    match (module, modules) {
        (_, 2..) => out.push_str(&format!("\nin {modules} modules")),
        ("", _) => {}
        (module, _) => {
            out.push('\n');
            escape(out, module);
        }
    }
}

impl<'a> Rows<'a> {
    /// `count` rows of frames with these paints.
    pub(super) fn new(options: &'a SvgOptions, count: u32, chosen: &[Paint]) -> Self {
        let mut index: BTreeMap<Paint, u32> = chosen.iter().map(|&paint| (paint, 0)).collect();
        for (place, number) in index.values_mut().enumerate() {
            *number = place as u32;
        }
        let paint_of = chosen.iter().map(|paint| index[paint]).collect();
        let paints: Vec<Paint> = index.into_keys().collect();
        let inks = |paint: &Paint| paint.inks(options.theme);
        let inks_differ = paints.iter().any(|paint| inks(paint).0 != inks(paint).1);
        Self { options, count, paints, paint_of, inks_differ }
    }

    pub(super) fn paints(&self) -> &[Paint] {
        &self.paints
    }

    /// The number of a frame's paint.
    pub(super) fn paint_of(&self, frame: usize) -> usize {
        self.paint_of[frame] as usize
    }

    pub(super) fn height(&self) -> f64 {
        f64::from(self.count) * self.options.row_height
    }

    /// The height of a frame.
    fn frame_height(&self) -> f64 {
        (self.options.row_height - 1.0).max(1.0)
    }

    /// The top of a row below the top of the frames.
    pub(super) fn top(&self, depth: u32) -> f64 {
        let row = if self.options.inverted { depth } else { self.count - 1 - depth };
        f64::from(row) * self.options.row_height
    }

    /// Where text stands, below the top of a row.
    pub(super) fn baseline(&self) -> f64 {
        self.frame_height() / 2.0 + 0.36 * self.options.font_size
    }

    /// Begins `svg.frames`, whose rows are `span` wide. `more` adds attributes.
    pub(super) fn open<'o>(
        &self,
        out: &'o mut String,
        page: &Page<'_>,
        span: u64,
        more: impl FnOnce(Tag<'o>) -> Tag<'o>,
    ) -> Tag<'o> {
        let svg = tag(out, "svg")
            .attr("class", "frames")
            .pixels("x", SvgOptions::MARGIN)
            .pixels("y", page.top)
            .pixels("width", self.options.frames_width())
            .pixels("height", self.height())
            .attr_by("viewBox", |out| {
                out.push_str(&format!("0 0 {span} "));
                number(out, self.height());
            });
        more(svg).attr("preserveAspectRatio", "none").pixels("stroke-width", self.frame_height())
    }

    /// Writes one row: its frames by colour, and those of a colour from left to right.
    pub(super) fn write(
        &self,
        out: &mut String,
        page: &Page<'_>,
        depth: u32,
        range: Range<usize>,
        mut frame: impl FnMut(&mut String, usize),
    ) {
        let middle = self.top(depth) + self.frame_height() / 2.0;
        tag(out, "g")
            .attr_by("transform", |out| {
                out.push_str("translate(0 ");
                number(out, middle);
                out.push(')');
            })
            .open_line();
        let mut frames: Vec<(u32, usize)> =
            range.map(|index| (self.paint_of[index], index)).collect();
        frames.sort_unstable();
        for group in frames.chunk_by(|a, b| a.0 == b.0) {
            let index = group[0].0;
            let paint = self.paints[index as usize];
            let white = if self.is_white(paint) { " white" } else { "" };
            let group_tag = tag(out, "g").attr("class", format_args!("c{index}{white}"));
            match paint.hatched {
                true => group_tag.attr("stroke", format_args!("url(#{}-{index})", page.id)),
                false => group_tag.attr("stroke", paint.light),
            }
            .open();
            group.iter().for_each(|&(_, index)| frame(out, index));
            end(out, "g");
        }
        end(out, "g");
    }

    /// Begins `g.text` and the path of the gaps in it.
    pub(super) fn open_text(&self, out: &mut String, page: &Page<'_>) {
        tag(out, "g")
            .attr("class", "text")
            .attr("aria-hidden", "true")
            .attr("pointer-events", "none")
            .attr("fill", Rgb::INK)
            .attr_by("transform", |out| {
                out.push_str("translate(10 ");
                number(out, page.top);
                out.push(')');
            })
            .open_line();
    }

    /// Writes the gaps between neighbours: their places in pixels, and depths.
    pub(super) fn gaps(
        &self,
        out: &mut String,
        page: &Page<'_>,
        frames: impl Iterator<Item = (f64, f64, u32)>,
    ) {
        tag(out, "path")
            .attr("class", "gap")
            .attr("stroke", page.gap())
            .attr_by("d", |out| {
                for (x, _, depth) in frames.filter(|(x, width, _)| *width >= GAP_FROM && *x > 0.0) {
                    out.push('M');
                    number(out, x);
                    out.push(' ');
                    number(out, self.top(depth));
                    out.push('v');
                    number(out, self.frame_height());
                }
            })
            .close();
        out.push('\n');
    }

    /// Writes a frame's name.
    pub(super) fn name(&self, out: &mut String, frame: usize, depth: u32, x: f64, text: &str) {
        let white = !self.inks_differ && self.is_white(self.paints[self.paint_of(frame)]);
        tag(out, "text")
            .pixels("x", x)
            .pixels("y", self.top(depth) + self.baseline())
            .attr_if("fill", white.then_some("#fff"))
            .text(text)
            .push('\n');
    }

    fn is_white(&self, paint: Paint) -> bool {
        paint.inks(self.options.theme).0 == Rgb::WHITE
    }
}
