//! Comparisons as SVG: a flame graph with the widths of the side after or before, coloured by change.
//!
//! It has the structure of a flame graph. Each frame also has its position on the other side, in `data-other`. A
//! stack that exists only on the other side is represented by a dashed box of a few pixels.

use std::io::{self, Write};

use pyrograph_analyze::{DiffFrame, DiffGraph, Measure, Scale, Span, Verdict};

use super::details::Details;
use super::page::Page;
use super::rows::{PADDING, Rows, write_module};
use super::{DIFF_SCRIPT, number, script, write_encoded};
use crate::palette::{Paint, hash};
use crate::role::without_mark;
use crate::tag::{end, tag};
use crate::text::escape;
use crate::units::write_integer;
use crate::{ChangeColors, MinWidth, Rgb, SvgOptions};

/// Options of a comparison, in addition to those of all flame graphs.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffStyle {
    /// Colours for more and for less.
    pub colors: ChangeColors,
    /// Side that determines the widths initially.
    pub view: View,
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The side before.
    Before,
    /// The side after.
    #[default]
    After,
}

impl View {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// Range of positions, which are whole numbers; see `FINEST` in `frames.rs`.
const SPAN: u64 = 1_000_000;
/// Minimum width in pixels on the other side for an absent stack to be shown as a box, and the width of the box.
const ABSENT_FROM: f64 = 3.0;
const ABSENT_WIDTH: f64 = 6.0;
/// Line and fill colours of these boxes, on light and on dark pages.
const ABSENT: ((&str, &str), (&str, &str)) = (("#55555c", "#fff"), ("#d5d5da", "#17171b"));
/// Minimum colour strength of significant changes, however small they are relative to the largest.
const LEAST_STRENGTH: f64 = 0.3;

/// Writes a comparison as SVG.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn diff_svg(
    graph: &DiffGraph,
    options: &SvgOptions,
    style: DiffStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let picture = Picture::new(graph, options, style);
    let id = id(graph, options, style);
    let page = Page::new(options, &id);
    let mut text = String::with_capacity(400 * graph.frames.len() + 25_000);
    let legend = picture.legend();
    let notice = picture.notice();
    let footer = page.footer(&legend, &notice);
    page.open(&mut text, &picture.summary(), footer.height + picture.rows.height());
    page.style(&mut text, picture.rows.paints(), &legend);
    picture.style(&mut text, &page);
    page.head(&mut text);
    picture.write(&mut text, &page);
    page.foot(&mut text, &footer, picture.rows.height());
    if !options.embed {
        script(&mut text, DIFF_SCRIPT);
    }
    text.push_str("</svg>\n");
    write_encoded(&text, options, out)
}

/// Class name that is unique to this picture.
fn id(graph: &DiffGraph, options: &SvgOptions, style: DiffStyle) -> String {
    let mut sum = hash(format!("{options:?}{style:?}{:?}", graph.options).as_bytes());
    for frame in &graph.frames {
        for part in [frame.name.0.into(), frame.before.value, frame.after.start, frame.after.value]
        {
            sum = (sum.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    for name in graph.names.iter() {
        sum = sum.rotate_left(5) ^ hash(name.as_bytes());
    }
    format!("p{:08x}", hash(&sum.to_le_bytes()) >> 32)
}

struct Picture<'a> {
    graph: &'a DiffGraph,
    options: &'a SvgOptions,
    style: DiffStyle,
    details: Details<'a>,
    rows: Rows<'a>,
}

impl<'a> Picture<'a> {
    fn new(graph: &'a DiffGraph, options: &'a SvgOptions, style: DiffStyle) -> Self {
        let chosen: Vec<Paint> =
            graph.frames.iter().map(|frame| change_paint(graph, options, style, frame)).collect();
        let rows = Rows::new(options, graph.rows, &chosen);
        Self { graph, options, style, details: Details::new(graph, options), rows }
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        write_integer(&mut text, self.graph.family.changed as u64);
        text.push_str(" of ");
        write_integer(&mut text, self.graph.frames.len() as u64 + self.graph.narrow);
        text.push_str(" frames changed");
        text
    }

    fn legend(&self) -> Vec<(Paint, String)> {
        let sign = if self.options.negate { -1.0 } else { 1.0 };
        let paint = |share: f64| self.style.colors.paint(share * sign).themed(self.options.theme);
        let hatched = |share: f64| Paint { hatched: true, ..paint(share) };
        let mut legend = vec![(paint(-1.0), "less"), (paint(0.0), "same or noise")];
        legend.push((paint(1.0), "more"));
        let any = |absent: fn(&DiffFrame) -> bool| {
            let shown = |frame: &DiffFrame| frame.verdict != Verdict::Noise && absent(frame);
            self.graph.frames.iter().any(shown)
        };
        if any(|frame| frame.before.value == 0) {
            legend.push((hatched(1.0), "new"));
        }
        if any(|frame| frame.after.value == 0) {
            legend.push((hatched(-1.0), "gone"));
        }
        legend.into_iter().map(|(paint, label)| (paint, label.to_owned())).collect()
    }

    /// Line that explains colours, widths and omissions.
    fn notice(&self) -> String {
        let graph = self.graph;
        let of = match graph.options.measure {
            Measure::Total => "",
            Measure::OwnSelf => " by self",
        };
        let mut text = format!("widths: {}; ", self.style.view.name());
        if let Some(unlike) = graph.before.unlike(&graph.after) {
            text.push_str(&unlike);
            text.push_str("; ");
        }
        write_integer(&mut text, graph.family.changed as u64);
        text.push_str(&format!(" frames changed{of}; "));
        self.details.largest(&mut text);
        if graph.narrow > 0 {
            text.push_str("; ");
            write_integer(&mut text, graph.narrow);
            let limit = match self.options.min_width {
                MinWidth::Pixels(pixels) => format!("{pixels} px"),
                MinWidth::Percent(percent) => format!("{percent} %"),
            };
            text.push_str(&format!(" narrower than {limit} not drawn"));
        }
        text
    }

    /// Writes the colours of the boxes for absent stacks.
    fn style(&self, out: &mut String, page: &Page<'_>) {
        let id = page.id;
        let rule = |(stroke, fill): (&str, &str)| {
            format!(".{id} .absent{{stroke:{stroke};fill:{fill};fill-opacity:.55}}")
        };
        let (light, dark) = self.options.theme.choose(ABSENT);
        out.push_str(&format!("<style>{}", rule(light)));
        if light != dark {
            let rule = rule(dark);
            out.push_str(&format!("@media screen and (prefers-color-scheme:dark){{{rule}}}"));
        }
        out.push_str("</style>\n");
    }

    /// Position of a frame on the side that is shown, and on the other side.
    fn sides(&self, frame: &DiffFrame) -> (Span, Span) {
        if frame.depth == 0 {
            // The whole is the outermost zoom level, so it always has the full width.
            let (here, there) = self.widths();
            return (Span { start: 0, value: here }, Span { start: 0, value: there });
        }
        match self.style.view {
            View::Before => (frame.before, frame.after),
            View::After => (frame.after, frame.before),
        }
    }

    fn widths(&self) -> (u64, u64) {
        let (before, after) = self.graph.widths;
        match self.style.view {
            View::Before => (before, after),
            View::After => (after, before),
        }
    }

    fn write(&self, out: &mut String, page: &Page<'_>) {
        self.patterns(out, page, SPAN as f64 / self.options.frames_width());
        let narrow = Some(self.graph.narrow).filter(|&count| count > 0);
        self.rows
            .open(out, page, SPAN, |tag| tag.attr_if("data-narrow", narrow))
            .attr("data-view", self.style.view.name())
            .open_line();
        let frames = &self.graph.frames;
        let mut first = 0;
        while let Some(frame) = frames.get(first) {
            let length = frames[first..].partition_point(|f| f.depth <= frame.depth);
            self.rows.write(out, page, frame.depth, first..first + length, |out, index| {
                self.frame(out, &frames[index]);
            });
            first += length;
        }
        end(out, "svg");
        self.write_text(out, page);
    }

    /// Writes white stripes over the paints of new and gone frames.
    fn patterns(&self, out: &mut String, page: &Page<'_>, scale: f64) {
        for (index, paint) in
            self.rows.paints().iter().enumerate().filter(|(_, paint)| paint.hatched)
        {
            for (suffix, base) in [("", paint.light), ("d", paint.dark)] {
                let id = format!("{}-{index}{suffix}", page.id);
                let transform = format!("scale({scale} 1) rotate(45)");
                out.push_str(&stripes(&id, " class=\"hatch\"", base, &transform));
            }
        }
    }

    fn name(&self, frame: &DiffFrame) -> &'a str {
        if frame.depth == 0 { "all" } else { without_mark(self.graph.names.get(frame.name)) }
    }

    fn frame(&self, out: &mut String, frame: &DiffFrame) {
        let (here, there) = self.sides(frame);
        let widths = self.widths();
        tag(out, "path")
            .attr_by("d", |out| place(out, here, widths.0))
            .attr_by("data-other", |out| place(out, there, widths.1))
            .open()
            .push_str("<title>");
        if !self.options.name_type.is_empty() {
            escape(out, &self.options.name_type);
            out.push(' ');
        }
        escape(out, self.name(frame));
        self.details.write(out, frame);
        write_module(out, self.graph.names.get(frame.module), frame.modules);
        out.push_str("</title></path>");
    }

    /// Writes the gaps between adjacent frames, the boxes for absent stacks, and names that fit.
    fn write_text(&self, out: &mut String, page: &Page<'_>) {
        let widths = self.widths();
        let pixels = self.options.frames_width();
        let scale = pixels / widths.0 as f64;
        self.rows.open_text(out, page);
        let place = |frame: &DiffFrame| {
            let (here, _) = self.sides(frame);
            (here.start as f64 * scale, here.value as f64 * scale, frame.depth)
        };
        self.rows.gaps(out, page, self.graph.frames.iter().map(place));
        let boxes = self.absent(out, pixels);
        for (index, frame) in self.graph.frames.iter().enumerate() {
            let (x, width, depth) = place(frame);
            if width < 2.0 * PADDING {
                continue;
            }
            // A name starts after the boxes that would cover its beginning.
            let before = boxes[depth as usize].iter().filter(|&&at| at <= x + PADDING);
            let covered = before.map(|at| at + ABSENT_WIDTH - x).fold(0.0, f64::max);
            let room = width - 2.0 * PADDING - covered;
            if let Some(text) = page.metrics().fit(self.name(frame), room) {
                self.rows.name(out, index, depth, x + covered + PADDING, &text);
            }
        }
        end(out, "g");
    }

    /// Writes a narrow dashed box for each stack that exists only on the other side. The script implements the same
    /// rule. Returns the left edges of the boxes in each row.
    fn absent(&self, out: &mut String, pixels: f64) -> Vec<Vec<f64>> {
        let mut boxes = vec![Vec::new(); self.graph.rows as usize];
        let widths = self.widths();
        let (stroke, fill) = self.options.theme.choose(ABSENT).0;
        out.push_str(&format!(
            "<path class=\"absent\" stroke=\"{stroke}\" fill=\"{fill}\" fill-opacity=\".55\" \
             stroke-dasharray=\"2 1.5\" d=\""
        ));
        let height = (self.options.row_height - 1.0).max(1.0);
        for frame in &self.graph.frames {
            let (here, there) = self.sides(frame);
            let (caller, _) = self.sides(&self.graph.frames[frame.parent as usize]);
            let wide = there.value as f64 * pixels / widths.1 as f64 >= ABSENT_FROM;
            if here.value > 0 || caller.value == 0 || !wide {
                continue;
            }
            let x = here.start as f64 * pixels / widths.0 as f64 - ABSENT_WIDTH / 2.0;
            let x = x.clamp(0.5, (pixels - ABSENT_WIDTH - 0.5).max(0.5));
            boxes[frame.depth as usize].push(x);
            out.push('M');
            number(out, x);
            out.push(' ');
            number(out, self.rows.top(frame.depth) + 0.5);
            out.push_str(&format!("h{ABSENT_WIDTH}v"));
            number(out, height - 1.0);
            out.push_str(&format!("h-{ABSENT_WIDTH}z"));
        }
        out.push_str("\"/>\n");
        boxes
    }
}

/// Colour of a frame.
pub(crate) fn change_paint(
    graph: &DiffGraph,
    options: &SvgOptions,
    style: DiffStyle,
    frame: &DiffFrame,
) -> Paint {
    let sign = match frame.verdict {
        Verdict::Noise => 0.0,
        Verdict::More => 1.0,
        Verdict::Less => -1.0,
    };
    let size = frame.estimate.change().abs() / graph.largest.max(f64::MIN_POSITIVE);
    // The square root makes small changes more visible.
    let strength = size.sqrt().clamp(LEAST_STRENGTH, 1.0);
    let sign = if options.negate { -sign } else { sign };
    let paint = style.colors.paint(sign * strength).themed(options.theme);
    let one_sided = frame.before.value == 0 || frame.after.value == 0;
    Paint { hatched: one_sided && frame.verdict != Verdict::Noise, ..paint }
}

/// Writes the position of a frame as a path.
fn place(out: &mut String, span: Span, width: u64) {
    let position = |value: u64| {
        // Rounded, without loss of precision.
        let scaled = u128::from(value.min(width)) * u128::from(SPAN) + u128::from(width) / 2;
        (scaled / u128::from(width)) as u64
    };
    let start = position(span.start);
    let end = position(span.start.saturating_add(span.value));
    let mut buffer = itoa::Buffer::new();
    out.push('M');
    out.push_str(buffer.format(start));
    out.push_str(" 0h");
    let length = if span.value == 0 { 0 } else { end.saturating_sub(start).max(1) };
    out.push_str(buffer.format(length));
}

/// Pattern of white stripes over a colour.
pub(super) fn stripes(id: &str, class: &str, base: Rgb, transform: &str) -> String {
    format!(
        "<pattern{class} id=\"{id}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"{transform}\"><rect width=\"6\" height=\"6\" fill=\"{base}\"/>\
         <path d=\"M0 0v6\" stroke=\"#fff\" stroke-opacity=\".5\" stroke-width=\"3\"/></pattern>\n"
    )
}

/// Returns true if values are compared directly, not as shares.
pub(super) fn by_values(graph: &DiffGraph) -> bool {
    graph.options.scale == Scale::Values
}
