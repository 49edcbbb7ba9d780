//! HTML page of a chart: one file with all data, which loads nothing from a network.

use std::io::{self, Write};

use pyrograph_analyze::{Activity, SchedChart};
use pyrograph_profile::{SchedTasks, ValueType};

use super::colours::{DEPTHS, PROCESSES, Pair, of_idle, of_kind, of_process};
use super::graph::{Paints, paints};
use super::pack::{codes, pack};
use super::{Kind, SchedChartLook, Shown};
use crate::Palette;
use crate::packed::write_base64;
use crate::svg::{BACKGROUND, FONT, MUTED, TEXT};
use crate::text::escape;

/// The script, wrapped in a function.
const SCRIPT: &str = concat!(
    "(function () {\n\"use strict\";\n",
    include_str!("1-data.js"),
    include_str!("2-sums.js"),
    include_str!("../script/scale.js"),
    include_str!("../script/names.js"),
    include_str!("../script/search.js"),
    include_str!("../script/width.js"),
    include_str!("../script/unpack.js"),
    include_str!("3-rows.js"),
    include_str!("4-draw.js"),
    include_str!("5-point.js"),
    include_str!("6-panel.js"),
    // A function, so that its names do not conflict with the others.
    "function makeFlame(graph, holder) {\n",
    "var names = graph.names;\nvar parents = graph.parents;\nvar nameOf = graph.nameOf;\n",
    "var moduleOf = graph.moduleOf;\nvar paintOf = graph.paintOf;\nvar depths = graph.depths;\n",
    include_str!("../script/flame.js"),
    "listen();\nreturn showValues;\n}\n",
    include_str!("7-start.js"),
    "})();\n",
);

/// Content security policy: the page may load and send nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// Writes the page. `tasks` is the task table of the chart's events.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn sched_chart_html(
    chart: &SchedChart,
    tasks: &SchedTasks,
    look: &SchedChartLook,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = Shown::new(chart, tasks);
    let timed = chart.stack_graph().ok().flatten();
    let paints = timed
        .as_ref()
        .map(|timed| paints(&timed.graph, Palette::of(&ValueType::new("off-cpu", "ns"))));
    let graph = timed.as_ref().zip(paints.as_ref().map(|paints| &paints.paint_of[..]));
    let packed = pack(&shown, graph)?;
    head(look, &shown, out)?;
    out.write_all(include_bytes!("page.html"))?;
    legend(chart, out)?;
    out.write_all(include_bytes!("panel.html"))?;
    flame(paints.as_ref(), out)?;
    writeln!(out, "</section>\n</section>")?;
    data_element(out)?;
    write_base64(&packed, out)?;
    writeln!(out, "\n</script>\n<script>")?;
    out.write_all(SCRIPT.as_bytes())?;
    writeln!(out, "</script>\n</main>\n</body>\n</html>")
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(&mut out, text);
    out
}

fn head(look: &SchedChartLook, shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let title = escaped(&look.title);
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<title>{title}</title>\n<style>")?;
    let colours = |pick: fn((crate::Rgb, crate::Rgb)) -> crate::Rgb| {
        let [background, text, muted] = [BACKGROUND, TEXT, MUTED].map(pick);
        format!(":root{{--background:{background};--text:{text};--muted:{muted}")
    };
    writeln!(out, "{};--font:12px {FONT}}}", colours(|pair| pair.0))?;
    writeln!(out, "@media screen and (prefers-color-scheme:dark){{{}}}}}", colours(|pair| pair.1))?;
    out.write_all(include_bytes!("page.css"))?;
    writeln!(out, "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>")?;
    writeln!(out, "<p>{}</p>", escaped(&shown.summary()))?;
    if !look.subtitle.is_empty() {
        writeln!(out, "<p>{}</p>", escaped(&look.subtitle))?;
    }
    writeln!(out, "</header>")
}

/// Kinds of activities that occur in a chart.
pub(super) fn kinds_in(chart: &SchedChart) -> Vec<Kind> {
    let mut there = [false; Kind::ALL.len()];
    for activity in chart.tasks.iter().flat_map(|task| &task.activities) {
        there[Kind::of(*activity) as usize] = true;
    }
    if chart.cpus.iter().any(|cpu| cpu.tasks.contains(&None)) {
        there[Kind::of(Activity::Unknown) as usize] = true;
    }
    Kind::ALL.into_iter().filter(|kind| there[*kind as usize]).collect()
}

fn legend(chart: &SchedChart, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div id=\"legend\">")?;
    let mut entry = |(light, dark): Pair, label: &str| {
        writeln!(
            out,
            "<span class=\"key\"><i style=\"--light:{light};--dark:{dark}\"></i>{label}</span>"
        )
    };
    for kind in kinds_in(chart) {
        entry(of_kind(kind), kind.label())?;
    }
    let deepest = chart.cpus.iter().flat_map(|cpu| &cpu.idle).map(|idle| idle.state).max();
    for state in 0..deepest.map_or(0, |deepest| deepest.saturating_add(1).min(DEPTHS as u32)) {
        entry(of_idle(state), &format!("idle state {state}"))?;
    }
    writeln!(out, "<span>CPUs have the colours of processes.</span>\n</div>")
}

fn flame(paints: Option<&Paints>, out: &mut dyn Write) -> io::Result<()> {
    let empty = String::new();
    let (light, dark) = paints.map_or((&empty, &empty), |paints| (&paints.light, &paints.dark));
    writeln!(
        out,
        "<div id=\"flame\" data-light=\"{light}\" data-dark=\"{dark}\" data-unit=\"ns\" data-noun=\"\" \
         data-decimals=\"0\" hidden>\n<canvas id=\"canvas\" tabindex=\"0\" role=\"application\" aria-label=\"Flame graph of \
         the selected span. Arrow keys move, Enter zooms, Escape zooms out.\"></canvas>\n\
         <div id=\"details\" role=\"status\" hidden></div>\n</div>"
    )
}

/// Writes the start tag of the data element, with attributes for the script.
fn data_element(out: &mut dyn Write) -> io::Result<()> {
    let join = |pairs: Vec<Pair>| {
        let texts: Vec<String> =
            pairs.iter().map(|(light, dark)| format!("{light}/{dark}")).collect();
        texts.join(" ")
    };
    let codes: Vec<String> =
        codes().map(|(kind, letter)| format!("{}{letter}", kind as usize)).collect();
    writeln!(
        out,
        "<script type=\"text/plain\" id=\"data\" data-kinds=\"{}\" data-labels=\"{}\" data-codes=\"{}\" \
         data-processes=\"{}\" data-idle=\"{}\">",
        join(Kind::ALL.map(of_kind).to_vec()),
        Kind::ALL.map(Kind::label).join(","),
        codes.join(" "),
        join((0..=PROCESSES).map(of_process).collect()),
        join((0..DEPTHS as u32).map(of_idle).collect()),
    )
}
