//! Static flame graph for places that do not run the page's script: CI servers show reports without scripts and
//! styles. Therefore it needs neither, and is not interactive.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pyrograph_analyze::{FlameOptions, ViewData, flame};
use pyrograph_profile::{LabelOptions, Tree};

use super::ViewLook;
use crate::palette::meaning;
use crate::role::{Role, without_mark};
use crate::tag::{end, tag};
use crate::text::{Metrics, escape};
use crate::units::write_percent;
use crate::{Rgb, Theme};

/// Width in pixels of the coordinate system; the picture is scaled to the available width.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
/// Minimum width of frames, in pixels.
const NARROW: f64 = 1.0;
const PADDING: f64 = 3.0;
const SIZE: f64 = 11.0;

/// Content that is shown instead of the page.
pub(super) fn still(data: &ViewData<'_>, look: &ViewLook<'_>, line: &str) -> String {
    let mut out = String::from("<div id=\"still\">\n<h1>");
    escape(&mut out, &look.title);
    out.push_str("</h1>\n<p>");
    escape(&mut out, line);
    out.push_str(
        "</p>\n<p>This place does not run the script of this page. Save the page and open it in a browser to search, zoom \
         and filter. Here is its flame graph, the root at the top",
    );
    let column = data.profile.shown;
    let tree = Tree::new(data.profile, &LabelOptions::default());
    let options = FlameOptions { column, min_share: NARROW / WIDTH, ..FlameOptions::default() };
    let Ok(graph) = flame(data.profile, &tree, &options) else {
        out.push_str(": there is nothing to show, the values add up to 0.</p>\n</div>\n");
        return out;
    };
    if look.compared.is_some() || data.profile.is_comparison() {
        out.push_str(", of the side after");
    }
    if graph.narrow > 0 {
        out.push_str(&format!(", without {} narrow frames", graph.narrow));
    }
    out.push_str(".</p>\n");
    hottest(&mut out, data);
    let height = f64::from(graph.rows) * ROW;
    tag(&mut out, "svg")
        .attr("width", "100%")
        .attr("viewBox", format_args!("0 0 {WIDTH} {height}"))
        .attr("font-family", "sans-serif")
        .attr("font-size", SIZE)
        .open_line();
    let metrics = Metrics { size: SIZE, uniform: None };
    let scale = WIDTH / graph.total as f64;
    for (index, frame) in graph.frames.iter().enumerate() {
        let name = if index == 0 { "all" } else { without_mark(graph.names.get(frame.name)) };
        let role = match index {
            0 => Role::Whole,
            _ => Role::of(graph.names.get(frame.name), frame.kind),
        };
        let paint = match role {
            Role::Whole => meaning(role, 0.5),
            _ => look.palette.named(graph.names.get(frame.name), role),
        };
        let paint = paint.themed(Theme::Light);
        let (x, y) = (frame.start as f64 * scale, f64::from(frame.depth) * ROW);
        let width = frame.value as f64 * scale;
        out.push_str("<g><title>");
        escape(&mut out, name);
        out.push_str(", ");
        write_percent(&mut out, frame.value, graph.whole);
        out.push_str("</title>");
        tag(&mut out, "rect")
            .pixels("x", x)
            .pixels("y", y)
            .pixels("width", (width - 0.5).max(0.5))
            .attr("height", ROW - 1.0)
            .attr("fill", paint.light)
            .close();
        if let Some(text) = metrics.fit(name, width - 2.0 * PADDING) {
            let ink = if paint.light.ink() == Rgb::WHITE { "#fff" } else { "#000" };
            tag(&mut out, "text")
                .pixels("x", x + PADDING)
                .pixels("y", y + 0.7 * ROW)
                .attr("fill", ink)
                .open();
            escape(&mut out, &text);
            out.push_str("</text>");
        }
        out.push_str("</g>\n");
    }
    end(&mut out, "svg");
    out.push_str("</div>\n");
    out
}

/// Lists the functions with the highest self values as text, for places that do not show pictures either.
fn hottest(out: &mut String, data: &ViewData<'_>) {
    const SHOWN: usize = 10;
    let profile = data.profile;
    let values = profile.samples.values(profile.shown);
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for (sample, value) in profile.samples.iter().zip(values) {
        let Some((_, frame)) = profile.stacks.get(sample.stack) else { continue };
        let name = profile.strings.get(profile.frames.get(frame).function);
        let own = own.entry(name).or_default();
        *own = own.saturating_add(*value);
    }
    let mut own: Vec<(&str, u64)> = own.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    own.sort_by_key(|&(_, value)| Reverse(value));
    out.push_str("<noscript><p>The functions that took most themselves:");
    for (index, (name, value)) in own.into_iter().take(SHOWN).enumerate() {
        out.push_str(if index == 0 { " " } else { ", " });
        escape(out, name);
        out.push(' ');
        write_percent(out, value, profile.whole(profile.shown));
    }
    out.push_str(".</p></noscript>\n");
}
