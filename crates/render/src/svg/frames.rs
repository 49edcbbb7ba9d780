//! Frames of a flame graph: lines in value coordinates, and their text in pixel coordinates.

use std::borrow::Cow;

use pyrograph_analyze::{FlameFrame, FlameGraph};
use pyrograph_profile::UnitKind;

use super::number;
use super::page::Page;
use super::rows::{PADDING, Rows, write_module};
use crate::attributes::Attributes;
use crate::palette::{Paint, Painter};
use crate::role::{Role, without_mark};
use crate::tag::{end, tag};
use crate::text::{Metrics, escape};
use crate::units::{Values, write_integer, write_percent};
use crate::{MinWidth, Rgb, SvgOptions};

/// Maximum total: larger ones are divided, so that positions stay short. At the maximum zoom, to a frame of 0.1 px, a
/// pixel is about one unit.
const FINEST: u64 = 10_000_000;
/// Minimum width in pixels of frames whose details include their share. About 90 % of the frames of a large graph are
/// narrower; the script adds their share when zooming makes them visible.
const SHARE_FROM: f64 = 1.0;
/// Minimum position of time labels in a chart, in pixels: the name of the row comes before them.
const TICKS_FROM: f64 = 44.0;

/// Frames of a graph with their paints.
pub(super) struct Frames<'a> {
    graph: &'a FlameGraph,
    options: &'a SvgOptions,
    values: Values,
    rows: Rows<'a>,
    roles: Vec<Role>,
    /// For each frame, true if it has callees.
    has_callees: Vec<bool>,
    /// Divisor from values to positions.
    divisor: u64,
}

impl<'a> Frames<'a> {
    pub(super) fn new(graph: &'a FlameGraph, options: &'a SvgOptions) -> Self {
        let painter =
            Painter { palette: options.palette, tone: options.tone, negate: options.negate, graph };
        let roles = Role::of_frames(graph);
        let mut chosen = painter.paints(&roles);
        for (paint, frame) in chosen.iter_mut().zip(&graph.frames) {
            let map = options.palette_map.as_ref();
            let name = || without_mark(graph.names.get(frame.name));
            *paint = match map.and_then(|map| map.get(name())) {
                Some(colour) => Paint { light: colour, dark: colour, hatched: false },
                None => paint.themed(options.theme),
            };
        }
        let mut has_callees = vec![false; graph.frames.len()];
        for frame in graph.frames.iter().skip(1) {
            has_callees[frame.parent as usize] = true;
        }
        // The two columns of a comparison may have the names of their files.
        let is_compared =
            graph.comparison.is_some() && graph.value_type.unit_kind() == UnitKind::Count;
        let compared = is_compared.then_some("samples");
        let count_name = options.count_name.as_deref().or(compared);
        Self {
            graph,
            options,
            values: Values::new(&graph.value_type, count_name, options.factor),
            rows: Rows::new(options, graph.rows, &chosen),
            roles,
            has_callees,
            divisor: graph.total.div_ceil(FINEST).max(1),
        }
    }

    pub(super) fn paints(&self) -> &[Paint] {
        self.rows.paints()
    }

    pub(super) fn height(&self) -> f64 {
        self.rows.height()
    }

    /// Summary of the whole picture, as markup.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        self.values.write(&mut text, self.graph.total);
        text.push_str(", ");
        write_integer(&mut text, self.graph.frames.len() as u64);
        text.push_str(" frames in ");
        write_integer(&mut text, self.graph.rows.into());
        text.push_str(" rows");
        text
    }

    /// Line that explains widths, and what is not drawn and why.
    pub(super) fn notice(&self) -> String {
        let value_type = &self.graph.value_type;
        let values =
            Values::plain(value_type, self.options.count_name.as_deref(), self.options.factor);
        let mut text = format!("width: {}", values.counted(&value_type.name));
        if self.graph.whole > self.graph.total {
            text.push_str(", ");
            write_percent(&mut text, self.graph.total, self.graph.whole);
            text.push_str(" of the whole input");
        }
        if self.graph.frames.iter().any(|frame| frame.folded > 0) {
            text.push_str(", the start of threads in one row");
        }
        if self.graph.narrow == 0 {
            return text;
        }
        text.push_str(", ");
        write_integer(&mut text, self.graph.narrow);
        text.push_str(if self.graph.narrow == 1 { " frame" } else { " frames" });
        let limit = match self.options.min_width {
            MinWidth::Pixels(pixels) => format!("{pixels} px"),
            MinWidth::Percent(percent) => format!("{percent} %"),
        };
        text.push_str(&format!(" narrower than {limit} not drawn"));
        text
    }

    /// Entries of the legend.
    pub(super) fn legend(&self) -> Vec<(Paint, String)> {
        let painter = self.painter();
        if let Some(comparison) = &self.graph.comparison {
            let largest = i64::try_from(comparison.largest.max(1)).unwrap_or(i64::MAX);
            let paint = |change| painter.changed(change).themed(self.options.theme);
            return [(-largest, "less"), (0, "same"), (largest, "more than before")]
                .map(|(change, label)| (paint(change), label.to_owned()))
                .into();
        }
        if self.options.palette_map.is_some() {
            return Vec::new();
        }
        let mut roles: Vec<(Role, usize)> = Vec::new();
        let mut entries: Vec<(Role, Paint, String)> = Vec::new();
        for (index, &role) in self.roles.iter().enumerate() {
            let paint = (role, self.rows.paint_of(index));
            if roles.contains(&paint) {
                continue;
            }
            roles.push(paint);
            if let Some(label) = painter.meaning_of(index, role, &self.graph.value_type.name)
                && entries.iter().all(|(_, _, known)| *known != label)
            {
                let paint = painter.middle(index, role).themed(self.options.theme);
                entries.push((role, paint, label));
            }
        }
        entries.sort_by_key(|(role, ..)| *role);
        entries.into_iter().map(|(_, paint, label)| (paint, label)).collect()
    }

    fn painter(&self) -> Painter<'a> {
        let SvgOptions { palette, tone, negate, .. } = *self.options;
        Painter { palette, tone, negate, graph: self.graph }
    }

    /// Writes `svg.frames` and `g.text`.
    pub(super) fn write(&self, out: &mut String, page: &Page<'_>) {
        let graph = self.graph;
        let span = self.position(graph.total);
        self.patterns(out, page, span as f64 / self.options.frames_width());
        let whole = (graph.whole > graph.total).then(|| self.position(graph.whole));
        let narrow = Some(graph.narrow).filter(|&count| count > 0);
        let says_self = !self.options.embed
            && graph.comparison.is_none()
            && graph.frames.iter().any(|frame| frame.own.is_some());
        let threads = graph.threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let is_chart = !graph.threads.is_empty();
        self.rows
            .open(out, page, span, |tag| {
                tag.attr_if("data-whole", whole)
                    .attr_if("data-narrow", narrow)
                    .attr_if("data-self", says_self.then_some(""))
                    .attr_if("data-threads", is_chart.then_some(threads))
                    .attr_if("data-ns", is_chart.then_some(self.divisor))
            })
            .open_line();
        let mut first = 0;
        while let Some(frame) = graph.frames.get(first) {
            let length = graph.frames[first..].partition_point(|f| f.depth <= frame.depth);
            self.rows.write(out, page, frame.depth, first..first + length, |out, index| {
                self.frame(out, &graph.frames[index], !self.has_callees[index]);
            });
            first += length;
        }
        end(out, "svg");
        self.write_text(out, page);
    }

    /// Pixels per unit of value.
    fn scale(&self) -> f64 {
        self.options.frames_width() / self.graph.total as f64
    }

    fn position(&self, value: u64) -> u64 {
        value.saturating_add(self.divisor / 2) / self.divisor
    }

    /// Writes hatching patterns for the paints that need them.
    fn patterns(&self, out: &mut String, page: &Page<'_>, scale: f64) {
        let hatched = self.paints().iter().enumerate().filter(|(_, paint)| paint.hatched);
        let lines = self.options.theme.choose((Rgb(0xb6, 0xb6, 0xbc), Rgb(0x85, 0x85, 0x8d)));
        for (index, paint) in hatched {
            for (suffix, base, line) in [("", paint.light, lines.0), ("d", paint.dark, lines.1)] {
                out.push_str(&format!(
                    "<pattern class=\"hatch\" id=\"{}-{index}{suffix}\" width=\"6\" height=\"6\" \
                     patternUnits=\"userSpaceOnUse\" patternTransform=\"scale({scale} 1) \
                     rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"{base}\"/>\
                     <path d=\"M0 0v6\" stroke=\"{line}\" stroke-width=\"2\"/></pattern>\n",
                    page.id
                ));
            }
        }
    }

    fn name(&self, frame: &FlameFrame) -> &'a str {
        match frame.depth {
            0 if self.graph.threads.is_empty() => "all",
            0 => "time",
            _ => without_mark(self.graph.names.get(frame.name)),
        }
    }

    /// Name that is drawn: with the number of rows that the frame stands for in addition.
    fn label(&self, frame: &FlameFrame) -> Cow<'a, str> {
        match frame.folded_text() {
            Some(more) => format!("{} {more}", self.name(frame)).into(),
            None => self.name(frame).into(),
        }
    }

    fn frame(&self, out: &mut String, frame: &FlameFrame, leaf: bool) {
        let name = self.name(frame);
        let attributes = &self.options.attributes;
        let attributes =
            attributes.get(self.graph.names.get(frame.name)).or_else(|| attributes.get(name));
        let link = attributes.is_some_and(|a| open_link(out, a));

        let start = self.position(frame.start);
        let end = self.position(frame.start.saturating_add(frame.value).min(self.graph.total));
        let mut path = tag(out, "path").attr_by("d", |out| {
            let mut buffer = itoa::Buffer::new();
            out.push('M');
            out.push_str(buffer.format(start));
            out.push_str(" 0h");
            out.push_str(buffer.format(end.saturating_sub(start).max(1)));
        });
        path = path.attr_if("data-more", frame.folded_text());
        for (name, value) in attributes.into_iter().flat_map(|a| &a.others) {
            path = path.attr_text(name, value);
        }
        if let Some(fill) = attributes.and_then(|a| a.fill.as_ref()) {
            path = path.attr_by("style", |out| {
                out.push_str("stroke:");
                escape(out, fill);
            });
        }
        path.open().push_str("<title>");
        match attributes.and_then(|a| a.title.as_ref()) {
            Some(title) => escape(out, title),
            None => {
                if !self.options.name_type.is_empty() {
                    escape(out, &self.options.name_type);
                    out.push(' ');
                }
                escape(out, name);
            }
        }
        out.push('\n');
        self.details(out, frame, leaf);
        out.push_str("</title></path>");
        if link {
            out.push_str("</a>");
        }
    }

    /// Writes `self 12, 0.05%`. For frames that are too narrow to be seen without a zoom, this is omitted if the
    /// script can derive it: it assumes that the self value of a frame without callees is its total, and that of a
    /// frame with callees is 0.
    fn own(&self, out: &mut String, frame: &FlameFrame, leaf: bool) {
        let Some(own) = frame.own.filter(|_| self.graph.comparison.is_none()) else { return };
        let follows = own == if leaf { frame.value } else { 0 };
        if follows && (frame.value as f64 * self.scale()) < SHARE_FROM {
            return;
        }
        out.push_str("\nself ");
        self.values.write_number(out, own);
        out.push_str(", ");
        write_percent(out, own, self.graph.whole);
    }

    /// Writes details: `1,234 samples, 5.67%`, the value before, the self value, the full name, and the module.
    fn details(&self, out: &mut String, frame: &FlameFrame, leaf: bool) {
        self.values.write(out, frame.value);
        if frame.value as f64 * self.scale() >= SHARE_FROM || self.graph.comparison.is_some() {
            out.push_str(", ");
            write_percent(out, frame.value, self.graph.whole);
        }
        if let Some(comparison) = &self.graph.comparison {
            out.push_str("; before ");
            self.values.write(out, frame.before);
            out.push_str(", ");
            write_percent(out, frame.before, comparison.total);
            out.push_str("; self ");
            out.push(if frame.self_change < 0 { '-' } else { '+' });
            write_percent(out, frame.self_change.unsigned_abs(), self.graph.whole);
        }
        if frame.guessed > 0 {
            out.push('\n');
            write_percent(out, frame.guessed, frame.value);
            out.push_str(" of it by a guess, without an unwind table");
        }
        self.own(out, frame, leaf);
        if let Some(&full) = self.graph.full_names.get(&frame.name) {
            out.push('\n');
            escape(out, self.graph.names.get(full));
        }
        write_module(out, self.graph.names.get(frame.module), frame.modules);
        if let Some(more) = frame.folded_text() {
            out.push_str(&format!("\n{more} of the start of threads in this one"));
        }
    }

    /// Writes the gaps between adjacent frames, and names that fit.
    fn write_text(&self, out: &mut String, page: &Page<'_>) {
        let scale = self.scale();
        self.rows.open_text(out, page);
        let place = |frame: &FlameFrame| {
            (frame.start as f64 * scale, frame.value as f64 * scale, frame.depth)
        };
        self.rows.gaps(out, page, self.graph.frames.iter().map(place));
        for (index, frame) in self.graph.frames.iter().enumerate() {
            let (x, width, depth) = place(frame);
            let room = width - 2.0 * PADDING;
            if let Some(text) = page.metrics().fit(&self.label(frame), room) {
                self.rows.name(out, index, depth, x + PADDING, &text);
            }
        }
        if !self.graph.threads.is_empty() {
            self.time_ticks(out, page.metrics());
        }
        end(out, "g");
    }

    /// Writes the time axis of a chart in the row of the whole. `svg/script/chart.js` redraws it after a zoom.
    fn time_ticks(&self, out: &mut String, metrics: Metrics) {
        let time = crate::scale::Scale::time();
        let total = self.graph.total as f64;
        let y = self.rows.top(0);
        let (ticks, step) = time.ticks(0.0, total, self.options.frames_width() / 110.0);
        tag(out, "g").attr("class", "ticks").open_line();
        for tick in ticks {
            let x = tick * self.scale();
            // The name of the row is here.
            if x < TICKS_FROM {
                continue;
            }
            tag(out, "path")
                .attr_by("d", |out| {
                    out.push('M');
                    number(out, x);
                    out.push(' ');
                    number(out, y);
                    out.push_str("v5");
                })
                .attr("stroke", "#77777f")
                .close();
            let label = time.text(tick, total, step);
            // At the right edge there is only room to the left of the tick.
            let fits = x + 2.0 * PADDING + metrics.width(&label) <= self.options.frames_width();
            let at = if fits { x + PADDING } else { x - PADDING };
            tag(out, "text")
                .pixels("x", at)
                .pixels("y", y + self.rows.baseline())
                .attr_if("text-anchor", (!fits).then_some("end"))
                .text(&label)
                .push('\n');
        }
        end(out, "g");
    }
}

/// Writes the start of a link around a frame. Returns false if it has none.
fn open_link(out: &mut String, attributes: &Attributes) -> bool {
    let Some(href) = &attributes.href else { return false };
    let mut link = tag(out, "a").attr_text("href", href);
    if let Some(target) = &attributes.target {
        link = link.attr_text("target", target).attr("rel", "noopener");
    }
    link.open();
    true
}
