//! Cells of a heat map, with the axes, and bars for rows and columns.

use pyrograph_analyze::{HeatCell, HeatMap, Percentile};

use super::{Form, GAP, Layout, MARGIN, OVER, Picture, SIDE};
use crate::Rgb;
use crate::scale::Scale;
use crate::svg::{MUTED, number};
use crate::tag::{Tag, end, tag};
use crate::text::escape;
use crate::units::{write_integer, write_percent};

/// Colours for light and dark pages: axes, bars, and percentiles with their outline, which keeps them visible on all
/// colours.
pub(super) const LINE: (Rgb, Rgb) = (Rgb(0xc9, 0xc9, 0xcf), Rgb(0x4a, 0x4a, 0x52));
pub(super) const BARS: (Rgb, Rgb) = (Rgb(0x9a, 0x9a, 0xa4), Rgb(0x7c, 0x7c, 0x86));
pub(super) const MARK: (Rgb, Rgb) = (Rgb(0x00, 0x4a, 0xad), Rgb(0x9c, 0xd3, 0xff));
pub(super) const HALO: (Rgb, Rgb) = (Rgb::WHITE, Rgb(0x10, 0x10, 0x14));

/// Dash patterns of the first, second and further percentiles.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "8 3 2 3"];

/// Line widths of a percentile and of its outline.
const MARK_WIDTH: f64 = 1.5;
const HALO_WIDTH: f64 = 3.5;

/// CSS rules for the lines of percentiles, for the root with this class. Their widths are in pixels, regardless of
/// the zoom.
pub(super) fn line_rules(id: &str) -> String {
    let mut rules = format!(
        ".{id} .cells .halo{{stroke-width:{HALO_WIDTH}}}\n\
         .{id} .cells .mark{{stroke-width:{MARK_WIDTH}}}\n"
    );
    for (index, dashes) in DASHES.iter().enumerate().filter(|(_, dashes)| **dashes != "none") {
        rules.push_str(&format!(".{id} .mark.p{index}{{stroke-dasharray:{dashes}}}\n"));
    }
    rules
}

/// Maximum distance in rows at which adjacent levels of a percentile are joined.
const JOINED: f64 = 1.5;

/// Dash pattern of a percentile.
pub(super) fn dashes(index: usize) -> &'static str {
    DASHES[index.min(DASHES.len() - 1)]
}

/// Position of a value, in rows from the bottom; for values outside of the rows, half a row beyond.
pub(super) fn position(map: &HeatMap, value: f64) -> f64 {
    let edges = &map.edges;
    let rows = edges.len() - 1;
    if value < edges[0] {
        return -0.5;
    }
    if value > edges[rows] {
        return rows as f64 + 0.5;
    }
    let row = edges.partition_point(|edge| *edge <= value).clamp(1, rows) - 1;
    let (low, high) = (edges[row], edges[row + 1]);
    let share = if map.log {
        (value.ln() - low.ln()) / (high.ln() - low.ln())
    } else {
        // Halved so that the difference does not exceed a float's range.
        (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    row as f64 + share
}

/// Values to be labelled at the value axis, with their labels.
pub(super) fn value_ticks(map: &HeatMap, scale: &Scale, height: f64) -> Vec<(f64, String)> {
    let (low, high) = (map.edges[0], map.edges[map.edges.len() - 1]);
    let most = (height / 36.0).max(2.0);
    if map.log {
        let ticks = scale.log_ticks(low, high, most);
        return ticks.into_iter().map(|tick| (tick, scale.text(tick, tick, tick))).collect();
    }
    let (ticks, step) = scale.ticks(low, high, most);
    let size = high.abs().max(low.abs());
    ticks.into_iter().map(|tick| (tick, scale.text(tick, size, step))).collect()
}

pub(super) struct Grid<'a> {
    pub(super) picture: &'a Picture<'a>,
}

impl Grid<'_> {
    fn map(&self) -> &HeatMap {
        self.picture.map
    }

    fn rows(&self) -> usize {
        self.map().rows.len()
    }

    fn columns(&self) -> usize {
        self.map().columns.len()
    }

    /// Frame around the cells, ticks, and tick labels.
    pub(super) fn axes(&self, out: &mut String) {
        let layout = self.picture.layout;
        let (left, top, across, down) = (layout.left, layout.top, layout.across, layout.down);
        let size = self.picture.look.font_size;
        tag(out, "g").attr("class", "axes").attr("fill", MUTED.0).open_line();
        let mut lines = String::new();
        let mut line = |x: f64, y: f64, along: char, length: f64| {
            lines.push('M');
            number(&mut lines, x);
            lines.push(' ');
            number(&mut lines, y);
            lines.push(along);
            number(&mut lines, length);
        };
        line(left - 0.5, top, 'v', down + 0.5);
        line(left - 0.5, top + down + 0.5, 'h', across + 0.5);
        let mut texts = String::new();
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            let element = tag(&mut texts, "text").pixels("x", x).pixels("y", y);
            element.attr("text-anchor", anchor).text(text).push('\n');
        };
        let time = Scale::time();
        let until = self.columns() as f64 * self.map().column_step;
        let (ticks, step) = time.ticks(0.0, until, across / 90.0);
        for tick in ticks {
            let x = left + across * tick / until;
            line(x, top + down + 1.0, 'v', 4.0);
            if self.picture.look.grid {
                line(x, top, 'v', down);
            }
            text(x, top + down + size + 7.0, "middle", &time.text(tick, until, step));
        }
        for (tick, label) in value_ticks(self.map(), &self.picture.values, down) {
            let y = top + down * (1.0 - position(self.map(), tick) / self.rows() as f64);
            line(left - 5.0, y, 'h', 4.0);
            if self.picture.look.grid {
                line(left, y, 'h', across);
            }
            text(left - 8.0, y + 0.36 * size, "end", &label);
        }
        let path = tag(out, "path").attr("class", "line").attr("stroke", LINE.0);
        path.attr("fill", "none").attr("d", lines).close();
        out.push('\n');
        out.push_str(&texts);
        end(out, "g");
        self.titles(out);
    }

    /// Titles of the axes.
    fn titles(&self, out: &mut String) {
        let Layout { left, top, across, down, .. } = self.picture.layout;
        let size = self.picture.look.font_size;
        let (x, y) = (left + across / 2.0, top + down + 2.0 * size + 13.0);
        let (up_x, up_y) = (MARGIN + 0.8 * size, top + down / 2.0);
        tag(out, "g")
            .attr("class", "titles")
            .attr("fill", MUTED.0)
            .attr("text-anchor", "middle")
            .open_line();
        tag(out, "text")
            .attr("x", format_args!("{x:.1}"))
            .attr("y", format_args!("{y:.1}"))
            .text("Time from the start")
            .push('\n');
        let turned = format_args!("translate({up_x:.1} {up_y:.1}) rotate(-90)");
        tag(out, "text").attr("transform", turned).text(&self.picture.look.axis).push('\n');
        end(out, "g");
    }

    fn open<'o>(
        &self,
        out: &'o mut String,
        class: &str,
        (x, y): (f64, f64),
        (w, h): (f64, f64),
        [across, down]: [usize; 2],
    ) -> Tag<'o> {
        let svg = tag(out, "svg").attr("class", class).pixels("x", x).pixels("y", y);
        svg.pixels("width", w)
            .pixels("height", h)
            .attr("viewBox", format_args!("0 0 {across} {down}"))
            .attr("preserveAspectRatio", "none")
    }

    fn bars(&self, out: &mut String, bars: &str) {
        tag(out, "path").attr("class", "bars").attr("fill", BARS.0).attr("d", bars).close();
        out.push('\n');
        end(out, "svg");
    }

    /// Bars with the number of points in each column.
    pub(super) fn over(&self, out: &mut String) {
        let layout = self.picture.layout;
        let place = (layout.left, layout.top - GAP - OVER);
        self.open(out, "over", place, (layout.across, OVER), [self.columns(), 1000]).open_line();
        let most = self.map().columns.iter().map(|column| column.points).max().unwrap_or(1).max(1);
        let mut bars = String::new();
        for (at, column) in self.map().columns.iter().enumerate() {
            if column.points > 0 {
                let height = (column.points as f64 / most as f64 * 1000.0).round().max(1.0);
                bars.push_str(&format!("M{at} 1000v-{height}h1v{height}z"));
            }
        }
        self.bars(out, &bars);
    }

    /// Bars with the number of points in each row.
    pub(super) fn side(&self, out: &mut String) {
        let layout = self.picture.layout;
        let place = (layout.left + layout.across + GAP, layout.top);
        self.open(out, "side", place, (SIDE, layout.down), [1000, self.rows()]).open_line();
        let most = self.map().rows.iter().copied().max().unwrap_or(1).max(1);
        let mut bars = String::new();
        for (row, &count) in self.map().rows.iter().enumerate() {
            if count > 0 {
                let width = (count as f64 / most as f64 * 1000.0).round().max(1.0);
                let y = self.rows() - 1 - row;
                bars.push_str(&format!("M0 {y}h{width}v1h-{width}z"));
            }
        }
        self.bars(out, &bars);
    }

    /// Cells, with the percentiles on top.
    pub(super) fn cells(&self, out: &mut String) {
        let layout = self.picture.layout;
        let place = (layout.left, layout.top);
        let view = [self.columns(), self.rows()];
        let svg = self.open(out, "cells", place, (layout.across, layout.down), view);
        let is_fine = self.picture.form == Form::Alone && self.map().fine.factor > 1;
        if is_fine { self.fine(svg) } else { svg }.open_line();
        // A line through the middle of a row has the height of the row at any scale.
        out.push_str("<g class=\"grid\" stroke-width=\"1\" fill=\"none\" shape-rendering=\"crispEdges\" transform=\"translate(0 .5)\">\n");
        let colours = self.picture.ramp.colours();
        let mut cells: Vec<(usize, u32, u32, HeatCell)> = self
            .map()
            .cells
            .iter()
            .map(|cell| {
                let y = self.rows() as u32 - 1 - cell.row;
                (self.picture.ramp.class(cell.count), y, cell.column, *cell)
            })
            .collect();
        cells.sort_unstable_by_key(|&(class, y, column, _)| (class, y, column));
        for group in cells.chunk_by(|a, b| a.0 == b.0) {
            let class = group[0].0;
            let colour = colours[class].0;
            if self.picture.form == Form::Embedded {
                out.push_str(&format!("<g class=\"c{class}\" stroke=\"{colour}\">\n"));
                for (_, y, column, cell) in group {
                    out.push_str(&format!("<path d=\"M{column} {y}h1\"><title>"));
                    self.details(out, cell);
                    out.push_str("</title></path>\n");
                }
                out.push_str("</g>\n");
            } else {
                self.class(out, class, colour, group);
            }
        }
        out.push_str("</g>\n");
        for (index, percentile) in self.map().percentiles.iter().enumerate() {
            self.percentile(out, index, percentile);
        }
        out.push_str("</svg>\n");
    }

    /// Attributes for the script: the lowest count of each colour, and the finer cells. The latter begin with the
    /// number of parts per cell. Then follows, for each cell, its distance from the previous one, column by column
    /// from the bottom, and its count after a colon if that is not 1; in base 36.
    fn fine<'o>(&self, svg: Tag<'o>) -> Tag<'o> {
        let from: Vec<String> = self.picture.ramp.from.iter().map(u64::to_string).collect();
        let fine = &self.map().fine;
        let rows = self.rows() as u64 * u64::from(fine.factor);
        svg.attr("data-from", from.join(" ")).attr_by("data-fine", |out| {
            out.push_str(&fine.factor.to_string());
            let mut before = 0;
            for cell in &fine.cells {
                let at = u64::from(cell.column) * rows + u64::from(cell.row);
                out.push(' ');
                base36(out, at - before);
                before = at;
                if cell.count != 1 {
                    out.push(':');
                    base36(out, cell.count);
                }
            }
        })
    }

    /// Cells of one colour: a line for each run of adjacent cells, and their counts.
    fn class(
        &self,
        out: &mut String,
        class: usize,
        colour: Rgb,
        group: &[(usize, u32, u32, HeatCell)],
    ) {
        out.push_str(&format!("<path class=\"c{class}\" stroke=\"{colour}\" d=\""));
        for run in group.chunk_by(|a, b| a.1 == b.1 && a.2 + 1 == b.2) {
            let (_, y, column, _) = run[0];
            out.push_str(&format!("M{column} {y}h{}", run.len()));
        }
        out.push_str("\" data-n=\"");
        let first = group[0].3.count;
        let all_same = group.iter().all(|(_, _, _, cell)| cell.count == first);
        let counts = if all_same { &group[..1] } else { group };
        let mut buffer = itoa::Buffer::new();
        for (at, (_, _, _, cell)) in counts.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            out.push_str(buffer.format(cell.count));
        }
        out.push_str("\"/>\n");
    }

    /// Tooltip of a cell.
    fn details(&self, out: &mut String, cell: &HeatCell) {
        let map = self.map();
        let (column, row) = (cell.column as usize, cell.row as usize);
        let step = map.column_step;
        let time = Scale::time().range(column as f64 * step, (column + 1) as f64 * step);
        let values = self.picture.values.range(map.edges[row], map.edges[row + 1]);
        escape(out, &time);
        out.push_str(", ");
        escape(out, &values);
        out.push('\n');
        write_integer(out, cell.count);
        out.push(' ');
        let noun = &self.picture.look.noun[..];
        let one = noun.strip_suffix('s').filter(|_| cell.count == 1);
        escape(out, one.unwrap_or(noun));
        out.push_str(", ");
        write_percent(out, cell.count, map.columns[column].points);
        out.push_str(" of the column");
    }

    /// Line of a percentile: a level in each column that has points. Levels are joined if they are close, which keeps
    /// dashes visible; other vertical lines would hide the cells behind them.
    fn percentile(&self, out: &mut String, index: usize, percentile: &Percentile) {
        let mut path = String::new();
        let place = |value: &f64| {
            let y = self.rows() as f64 - position(self.map(), *value);
            // A hundredth of a row: finer than a pixel when zoomed to one cell.
            (y * 100.0).round() / 100.0
        };
        let levels: Vec<Option<f64>> =
            percentile.columns.iter().map(|value| value.as_ref().map(place)).collect();
        let (mut column, mut before) = (0, None);
        for run in levels.chunk_by(|a, b| a == b) {
            if let Some(y) = run[0] {
                match before {
                    Some(before) if f64::abs(y - before) <= JOINED => {
                        path.push_str(&format!("V{y}"))
                    }
                    _ => path.push_str(&format!("M{column} {y}")),
                }
                path.push_str(&format!("h{}", run.len()));
            }
            before = run[0];
            column += run.len();
        }
        // The style sets these sizes in pixels; viewers without styles scale them with the cells.
        let layout = &self.picture.layout;
        let column = layout.across / self.columns() as f64;
        let row = layout.down / self.rows() as f64;
        for (class, colour, width) in [("halo", HALO.0, HALO_WIDTH), ("mark", MARK.0, MARK_WIDTH)] {
            out.push_str(&format!(
                "<path class=\"{class} p{}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"{:.3}\" vector-effect=\"non-scaling-stroke\" \
                 pointer-events=\"none\"",
                index.min(DASHES.len() - 1),
                width / row
            ));
            if class == "halo" {
                out.push_str(" opacity=\".6\"");
            } else if dashes(index) != "none" {
                let lengths = dashes(index).split(' ').filter_map(|length| length.parse().ok());
                let scaled = lengths.map(|length: f64| format!("{:.3}", length / column));
                let scaled = scaled.collect::<Vec<_>>().join(" ");
                out.push_str(&format!(" stroke-dasharray=\"{scaled}\""));
            }
            out.push_str(&format!(" d=\"{path}\"/>\n"));
        }
    }
}

/// Appends a number in base 36, with the digits 0 to 9 and a to z.
fn base36(out: &mut String, mut number: u64) {
    let mut digits = [0; 13];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
        if number == 0 {
            break;
        }
    }
    out.extend(digits[first..].iter().copied().map(char::from));
}
