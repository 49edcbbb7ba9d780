//! Footer of a heat map: the legend, and the points that are not drawn.

use super::{MARGIN, Picture, grid};
use crate::svg::{MUTED, number};
use crate::tag::tag;
use crate::text::escape;
use crate::units::write_integer;

/// Width of a colour swatch.
const SWATCH: f64 = 20.0;

/// A part of the footer, which is never split over two lines.
struct Item {
    markup: String,
    width: f64,
}

pub(super) struct Foot {
    items: Vec<Item>,
    font_size: f64,
    /// Position of each item.
    places: Vec<(f64, f64)>,
    height: f64,
}

impl Foot {
    pub(super) fn new(picture: &Picture<'_>) -> Self {
        let font_size = picture.look.font_size;
        let mut items = vec![colours(picture), meaning(picture)];
        for index in 0..picture.map.percentiles.len() {
            items.push(percentile(picture, index));
        }
        let notice = notice(picture);
        if !notice.is_empty() {
            let mut markup = String::new();
            tag(&mut markup, "text").attr("class", "notice").attr("y", font_size).text(&notice);
            items.push(Item { markup, width: picture.metrics.width(&notice) });
        }
        let line = font_size + 8.0;
        let room = picture.layout.width - MARGIN;
        let (mut x, mut y) = (MARGIN, 0.0);
        let mut places = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if index > 0 && x + item.width > room {
                // Below the swatches is a second line with their counts.
                (x, y) = (MARGIN, y + line + if y == 0.0 { font_size } else { 0.0 });
            }
            places.push((x, y));
            x += item.width + 24.0;
        }
        let height = y + line + font_size + MARGIN;
        Self { items, font_size, places, height }
    }

    pub(super) fn height(&self) -> f64 {
        self.height
    }

    pub(super) fn write(&self, out: &mut String, top: f64) {
        tag(out, "g")
            .attr("class", "foot")
            .attr("fill", MUTED.0)
            .attr_by("transform", |out| {
                out.push_str("translate(0 ");
                number(out, top);
                out.push(')');
            })
            .attr("data-line", self.font_size + 8.0)
            .open_line();
        for (item, (x, y)) in self.items.iter().zip(&self.places) {
            out.push_str("<g class=\"item\" transform=\"translate(");
            number(out, *x);
            out.push(' ');
            number(out, *y);
            out.push_str(")\">");
            out.push_str(&item.markup);
            out.push_str("</g>\n");
        }
        out.push_str("</g>\n");
    }
}

/// Swatches of all colours, with the counts at which they begin below them, as many as there is room for.
fn colours(picture: &Picture<'_>) -> Item {
    let ramp = &picture.ramp;
    let size = picture.look.font_size;
    let mut markup = String::new();
    let mut free = 0.0;
    for (class, (light, _)) in ramp.colours().iter().enumerate() {
        let x = class as f64 * SWATCH;
        let from = ramp.from[class];
        let to = ramp.from.get(class + 1).map_or(picture.map.largest.max(from), |next| next - 1);
        let mut text = String::new();
        write_integer(&mut text, from);
        let mut first = text.clone();
        if ramp.linear && class == 0 && to > from {
            // Also includes counts below the first percentile.
            first = String::from("≤");
            write_integer(&mut first, to);
        }
        if to > from {
            text.push('–');
            write_integer(&mut text, to);
        }
        markup.push_str(&format!(
            "<rect class=\"l{class}\" x=\"{x}\" y=\"2\" width=\"{SWATCH}\" height=\"10\" \
             fill=\"{light}\"><title>{text}</title></rect>"
        ));
        if x >= free {
            tag(&mut markup, "text").pixels("x", x).attr("y", size + 14.0).text(&first);
            free = x + picture.metrics.width(&first) + 8.0;
        }
    }
    let wide = ramp.from.len() as f64 * SWATCH;
    Item { markup, width: wide.max(free - 8.0) }
}

/// Text that says what the colours mean, and the number of all points.
fn meaning(picture: &Picture<'_>) -> Item {
    let (map, noun) = (picture.map, &picture.look.noun);
    let integer = |number: u64| {
        let mut text = String::new();
        write_integer(&mut text, number);
        text
    };
    let mut label = format!("{noun} in a cell");
    if picture.ramp.from.len() > 1 {
        label.push_str(&format!(", up to {}", integer(map.largest)));
    }
    label.push_str(&format!("; n = {}", integer(map.points)));
    let mut markup = String::new();
    let text = tag(&mut markup, "text").attr("class", "meaning");
    text.attr("y", picture.look.font_size).text(&label);
    Item { markup, width: picture.metrics.width(&label) }
}

fn percentile(picture: &Picture<'_>, index: usize) -> Item {
    let percentile = &picture.map.percentiles[index];
    let size = picture.look.font_size;
    let overall = percentile.overall;
    // Three significant digits.
    let step = 10f64.powf(overall.abs().max(1e-300).log10().floor() - 2.0);
    let whole = picture.map.edges.iter().all(|edge| edge.fract() == 0.0);
    let step = if whole && overall.fract() == 0.0 { step.max(1.0) } else { step };
    let label = format!("p{} {}", percentile.percent, picture.values.text(overall, overall, step));
    let dashes = match grid::dashes(index) {
        "none" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    let mut markup = format!(
        "<path class=\"mark\" d=\"M0 7h26\" stroke=\"{}\" stroke-width=\"1.5\"{dashes}/>\
         <text x=\"32\" y=\"{size}\">",
        grid::MARK.0
    );
    escape(&mut markup, &label);
    markup.push_str("</text>");
    Item { markup, width: 32.0 + picture.metrics.width(&label) }
}

/// Describes the points that are not drawn.
fn notice(picture: &Picture<'_>) -> String {
    let map = picture.map;
    let (low, high) = (map.edges[0], map.edges[map.edges.len() - 1]);
    let text = |value: f64, step: f64| picture.values.text(value, value, step);
    let mut parts = Vec::new();
    if map.below > 0 {
        parts.push((map.below, format!("below {}", text(low, map.edges[1] - low))));
    }
    if map.above > 0 {
        let step = high - map.edges[map.edges.len() - 2];
        parts.push((map.above, format!("above {}", text(high, step))));
    }
    if map.later > 0 {
        parts.push((map.later, "later".to_owned()));
    }
    if parts.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(count, place)| {
            let mut text = String::new();
            write_integer(&mut text, count);
            format!("{text} {place}")
        })
        .collect();
    let mut whole = String::new();
    write_integer(&mut whole, map.points);
    format!("not drawn of {whole} {}: {}", picture.look.noun, parts.join(", "))
}
