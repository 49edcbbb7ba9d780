//! Heat maps as SVG.
//!
//! ```text
//! svg.ID                    the whole picture; coordinates are pixels
//!   style, rect.bg
//!   g.head                  title and subtitle
//!   g.axes                  grid, ticks and tick labels
//!   g.titles                titles of the axes: time, values
//!   svg.over                bars with the number of points per column; coordinates are columns
//!   svg.cells               coordinates are columns and rows: the viewBox is the zoom; data-fine
//!                           contains the finer cells that are shown when zoomed
//!     path.cN               the cells of one colour: a line for each run of adjacent cells
//!     path.pN               a percentile over time
//!   svg.side                bars with the number of points per row; coordinates are rows
//!   g.foot                  legend, and the points that are not drawn
//!   script
//! ```
//!
//! Colours are attributes, so that they survive an editor that strips styles; the style adds the colours for dark
//! pages. The counts of cells are in an attribute for the script or, in a picture without a script, in a tooltip of
//! each cell.

mod foot;
mod grid;
mod ramp;

use std::io::{self, Write};

use pyrograph_analyze::{HeatColumn, HeatMap};

use crate::palette::hash;
use crate::scale::Scale;
use crate::svg::{BACKGROUND, FONT, MUTED, TEXT, number, script};
use crate::tag::{Tag, end, tag};
use crate::text::{Metrics, escape};
use crate::units::write_integer;
use grid::Grid;
use ramp::Ramp;
pub use ramp::Shades;

/// The interactive part: one function, split into several files.
const SCRIPT: &str = concat!(
    include_str!("heatmap/script/1-cells.js"),
    include_str!("script/scale.js"),
    include_str!("script/window.js"),
    include_str!("heatmap/script/2-layout.js"),
    include_str!("heatmap/script/3-fine.js"),
    include_str!("heatmap/script/4-pointing.js"),
    include_str!("heatmap/script/5-start.js"),
);

/// Appearance of a heat map.
#[derive(Clone, Debug)]
pub struct HeatMapLook {
    /// Title.
    pub title: String,
    /// Subtitle; none if empty.
    pub subtitle: String,
    /// Unit of values. Times (`us`, `ms`, `s`) are converted to a suitable unit; any other unit is appended to each
    /// number.
    pub unit: String,
    /// Name of the counted items, such as `events`.
    pub noun: String,
    /// Title of the value axis, such as `Latency`.
    pub axis: String,
    /// Mapping of counts to colours.
    pub shades: Shades,
    /// Width and height of a cell in pixels. `None` fits the picture to the reader's window.
    pub cell: Option<f64>,
    /// CSS font family, preferred to the reader's interface font.
    pub font: String,
    /// Font size in pixels.
    pub font_size: f64,
    /// Draws lines through the ticks of both axes.
    pub grid: bool,
    /// The details of a cell include the cumulative count of its column, up to and including the cell.
    pub accumulated: bool,
    /// Omits the XML prolog and the script, so that the picture can be embedded in a page.
    pub embed: bool,
}

impl HeatMapLook {
    /// Appearance of a subsecond-offset heat map with periods of `seconds`.
    pub fn of_offsets(seconds: f64) -> Self {
        let period = if seconds == 1.0 { "the second".to_owned() } else { format!("{seconds} s") };
        Self {
            title: "Subsecond-Offset Heat Map".to_owned(),
            unit: "ns".to_owned(),
            noun: "samples".to_owned(),
            axis: format!("Offset within {period}"),
            shades: Shades::Linear,
            ..Self::default()
        }
    }
}

impl Default for HeatMapLook {
    fn default() -> Self {
        Self {
            title: "Latency Heat Map".to_owned(),
            subtitle: String::new(),
            unit: String::new(),
            noun: "events".to_owned(),
            axis: "Latency".to_owned(),
            shades: Shades::default(),
            cell: None,
            font: String::new(),
            font_size: 12.0,
            grid: false,
            accumulated: false,
            embed: false,
        }
    }
}

/// Writes a heat map as SVG.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn heat_map_svg(map: &HeatMap, look: &HeatMapLook, out: &mut dyn Write) -> io::Result<()> {
    let form = if look.embed { Form::Embedded } else { Form::Alone };
    out.write_all(draw(map, look, form).as_bytes())
}

/// Context that a picture is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A file of its own.
    Alone,
    /// A page that allows no scripts.
    Embedded,
}

fn draw(map: &HeatMap, look: &HeatMapLook, form: Form) -> String {
    let id = id(map, look);
    let picture = Picture::new(map, look, form, &id);
    let mut text = String::with_capacity(32 * map.cells.len() + 20_000);
    picture.write(&mut text);
    text
}

/// Class name that is unique to this picture, so that several fit on one page.
fn id(map: &HeatMap, look: &HeatMapLook) -> String {
    let mut sum = hash(format!("{look:?}{:?}", map.edges).as_bytes());
    for cell in &map.cells {
        sum = sum.rotate_left(5) ^ u64::from(cell.column) << 32 ^ u64::from(cell.row);
        sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ cell.count;
    }
    format!("h{:08x}", hash(&sum.to_le_bytes()) >> 32)
}

/// Positions and sizes, in pixels.
#[derive(Clone, Copy, Debug)]
struct Layout {
    width: f64,
    /// Left edge of the cells.
    left: f64,
    /// Top edge of the cells.
    top: f64,
    /// Total size of the cells.
    across: f64,
    down: f64,
}

/// Size of the bars beside the cells: for rows, and for columns.
const SIDE: f64 = 72.0;
const OVER: f64 = 36.0;
/// Gap between the cells and the bars.
const GAP: f64 = 6.0;
const MARGIN: f64 = 10.0;
/// Width of a picture that is not made for a particular window.
const WIDTH: f64 = 1200.0;
/// By default, maximum size of a cell, and minimum size of all cells together (`LEAST`).
const LARGEST: (f64, f64) = (96.0, 32.0);
const LEAST: (f64, f64) = (240.0, 120.0);
const HEIGHT: f64 = 400.0;

struct Picture<'a> {
    map: &'a HeatMap,
    look: &'a HeatMapLook,
    form: Form,
    id: &'a str,
    layout: Layout,
    values: Scale,
    ramp: Ramp,
    metrics: Metrics,
}

impl<'a> Picture<'a> {
    fn new(map: &'a HeatMap, look: &'a HeatMapLook, form: Form, id: &'a str) -> Self {
        let values = Scale::of_unit(&look.unit);
        let metrics = Metrics { size: look.font_size, uniform: None };
        let (columns, rows) = (map.columns.len() as f64, map.rows.len() as f64);
        let down = match look.cell {
            Some(cell) => cell * rows,
            None => HEIGHT.max(rows).min(LARGEST.1 * rows).max(LEAST.1),
        };
        let ticks = grid::value_ticks(map, &values, down);
        let widest = ticks.iter().map(|(_, text)| metrics.width(text)).fold(0.0, f64::max);
        // The title of the axis is vertical.
        let left = (MARGIN + look.font_size + 6.0 + widest + 10.0).ceil().max(56.0);
        let beside = left + GAP + SIDE + MARGIN;
        let (width, across) = match look.cell {
            Some(cell) => ((beside + cell * columns).max(420.0), cell * columns),
            None => (WIDTH, (WIDTH - beside).min(LARGEST.0 * columns).max(LEAST.0)),
        };
        let mut top = MARGIN + OVER + GAP;
        for (shown, line) in [
            (!look.title.is_empty(), look.font_size + 13.0),
            (!look.subtitle.is_empty(), look.font_size + 6.0),
        ] {
            top += if shown { line } else { 0.0 };
        }
        let layout = Layout { width, left, top: top.round(), across, down };
        let ramp = Ramp::new(&map.cells, look.shades);
        Self { map, look, form, id, layout, values, ramp, metrics }
    }

    /// Height of the tick labels and the axis title, between the cells and the footer.
    fn below(&self) -> f64 {
        2.0 * self.look.font_size + 24.0
    }

    fn write(&self, out: &mut String) {
        let Layout { top, down, .. } = self.layout;
        let foot = foot::Foot::new(self);
        let below = self.below();
        self.open(out, top + down + below + foot.height());
        self.style(out);
        self.head(out);
        let grid = Grid { picture: self };
        grid.axes(out);
        grid.over(out);
        grid.cells(out);
        grid.side(out);
        foot.write(out, top + down + below);
        if self.form != Form::Embedded {
            script(out, SCRIPT);
        }
        out.push_str("</svg>\n");
    }

    fn open(&self, out: &mut String, height: f64) {
        let (look, map) = (self.look, self.map);
        if self.form == Form::Alone {
            out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        }
        let width = self.layout.width;
        let mut svg = tag(out, "svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .attr("class", self.id)
            .attr_by("viewBox", |out| {
                out.push_str("0 0 ");
                number(out, width);
                out.push(' ');
                number(out, height);
            })
            .pixels("width", width)
            .pixels("height", height)
            .attr("style", "max-width:100%;height:auto")
            .attr("role", "figure")
            .attr_by("aria-label", |out| {
                escape(out, &look.title);
                out.push_str(": ");
                write_integer(out, map.points);
                out.push(' ');
                escape(out, &look.noun);
            })
            .attr_by("font-family", |out| {
                if !look.font.is_empty() {
                    escape(out, &look.font);
                    out.push(',');
                }
                out.push_str(FONT);
            })
            .pixels("font-size", look.font_size);
        if self.form != Form::Embedded {
            svg = self.settings(svg);
        }
        svg.open_line();
        if !look.title.is_empty() {
            tag(out, "title").text(&look.title).push('\n');
        }
    }

    /// Attributes for the script.
    fn settings<'o>(&self, svg: Tag<'o>) -> Tag<'o> {
        let (look, map) = (self.look, self.map);
        let of_columns = |number: fn(&HeatColumn) -> u64| {
            let numbers = map.columns.iter().map(|column| number(column).to_string());
            numbers.collect::<Vec<_>>().join(" ")
        };
        let edges: Vec<String> = map.edges.iter().map(f64::to_string).collect();
        svg.attr("data-step", map.column_step)
            .attr("data-edges", edges.join(" "))
            .attr("data-points", of_columns(|column| column.points))
            .attr_if("data-below", look.accumulated.then(|| of_columns(|column| column.below)))
            .attr_if("data-log", map.log.then_some(""))
            .attr_if("data-fixed", look.cell.map(|_| ""))
            .attr_if("data-grid", look.grid.then_some(""))
            .attr_text("data-unit", &look.unit)
            .attr_text("data-noun", &look.noun)
    }

    fn style(&self, out: &mut String) {
        let id = self.id;
        out.push_str("<style>\n");
        for rule in [
            "{font-variant-numeric:tabular-nums}",
            " text{cursor:default}",
            // Vertical swipes scroll the page.
            " .cells{cursor:crosshair;touch-action:pan-y;-webkit-user-select:none;user-select:none}",
            " .cells:focus{outline:none}",
        ] {
            out.push_str(&format!(".{id}{rule}\n"));
        }
        out.push_str(&grid::line_rules(id));
        out.push_str(&format!(".{id}{{background:{}}}\n", BACKGROUND.0));
        // Printed pages are light.
        out.push_str("@media screen and (prefers-color-scheme:dark){\n");
        out.push_str(&format!(".{id}{{background:{}}}\n", BACKGROUND.1));
        for (class, property, colour) in [
            ("bg", "fill", BACKGROUND.1.to_string()),
            ("head", "fill", TEXT.1.to_string()),
            ("sub", "fill", MUTED.1.to_string()),
            ("axes", "fill", MUTED.1.to_string()),
            ("titles", "fill", MUTED.1.to_string()),
            ("foot", "fill", MUTED.1.to_string()),
            ("line", "stroke", grid::LINE.1.to_string()),
            ("bars", "fill", grid::BARS.1.to_string()),
            ("halo", "stroke", grid::HALO.1.to_string()),
            ("mark", "stroke", grid::MARK.1.to_string()),
        ] {
            out.push_str(&format!(".{id} .{class}{{{property}:{colour}}}\n"));
        }
        for (class, (_, dark)) in self.ramp.colours().iter().enumerate() {
            out.push_str(&format!(
                ".{id} .c{class}{{stroke:{dark}}}.{id} .l{class}{{fill:{dark}}}\n"
            ));
        }
        // A printed page cannot be clicked; the whole picture fits on one page.
        out.push_str(&format!(
            "}}\n@media print{{.{id} .controls{{display:none}}\
             .{id}:root{{width:100vw;height:100vh}}}}\n</style>\n"
        ));
        tag(out, "rect")
            .attr("class", "bg")
            .attr("width", "100%")
            .attr("height", "100%")
            .attr("fill", BACKGROUND.0)
            .close();
        out.push('\n');
    }

    fn head(&self, out: &mut String) {
        tag(out, "g").attr("class", "head").attr("fill", TEXT.0).open_line();
        let mut y = 6.0;
        let look = self.look;
        let lines = [
            ("title", &look.title, look.font_size + 5.0, ("font-weight", "600".to_owned())),
            ("sub", &look.subtitle, look.font_size, ("fill", MUTED.0.to_string())),
        ];
        for (class, text, size, (name, value)) in lines {
            let metrics = Metrics { size, ..self.metrics };
            let Some(shown) = metrics.fit(text, self.layout.width - 2.0 * MARGIN) else { continue };
            if text.is_empty() {
                continue;
            }
            y += size + 4.0;
            tag(out, "text")
                .attr("class", class)
                .attr("x", MARGIN)
                .attr("y", y)
                .attr("font-size", size)
                .attr(name, value)
                .text(&shown)
                .push('\n');
        }
        end(out, "g");
    }
}

#[cfg(test)]
mod tests;
