//! Rows of frames and their names, for flame graphs and comparisons.

use std::collections::BTreeMap;
use std::ops::Range;

use super::number;
use super::page::Page;
use crate::palette::Paint;
use crate::tag::{Tag, end, tag};
use crate::text::escape;
use crate::{Rgb, SvgOptions};

/// Minimum width in pixels of a frame with a gap at its left; narrower frames would be hidden by the gap.
const GAP_FROM: f64 = 3.0;
/// Space to the left and right of text, in pixels.
pub(super) const PADDING: f64 = 3.0;

/// Positions of rows, and paints of frames.
pub(super) struct Rows<'a> {
    options: &'a SvgOptions,
    count: u32,
    /// Distinct paints, in a fixed order.
    paints: Vec<Paint>,
    /// Index of each frame's paint.
    paint_of: Vec<u32>,
    /// True if the text colour differs on dark pages.
    inks_differ: bool,
}

/// Writes the last line of a frame's details: its module, or the number of modules with such a function.
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
    /// Creates `count` rows, with a paint for each frame.
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

    /// Index of a frame's paint.
    pub(super) fn paint_of(&self, frame: usize) -> usize {
        self.paint_of[frame] as usize
    }

    pub(super) fn height(&self) -> f64 {
        f64::from(self.count) * self.options.row_height
    }

    /// Height of a frame.
    fn frame_height(&self) -> f64 {
        (self.options.row_height - 1.0).max(1.0)
    }

    /// Top of a row, relative to the top of the frames.
    pub(super) fn top(&self, depth: u32) -> f64 {
        let row = if self.options.inverted { depth } else { self.count - 1 - depth };
        f64::from(row) * self.options.row_height
    }

    /// Baseline of text, relative to the top of a row.
    pub(super) fn baseline(&self) -> f64 {
        self.frame_height() / 2.0 + 0.36 * self.options.font_size
    }

    /// Begins `svg.frames` with a width of `span` in its own coordinates. `more` adds attributes.
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

    /// Writes a row: its frames grouped by colour, and from left to right within a colour.
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

    /// Begins `g.text`, which contains the gaps and the names.
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

    /// Writes the gaps between adjacent frames, given the left edge and width in pixels, and the depth of each frame.
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

    /// Writes the name of a frame.
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
