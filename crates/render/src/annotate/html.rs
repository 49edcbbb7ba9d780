//! HTML output of an annotated function: a single file without scripts, which needs no network.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pyrograph_analyze::Annotation;
use sha2::{Digest, Sha256};

use super::rows::{Row, rows};
use super::{AnnotationStyle, Heat, heading, hottest_line};
use crate::text::escape;
use crate::units::grouped;

const STYLE: &str = include_str!("page.css");

/// Writes an annotated function as an HTML page. The page opens with the hottest instructions in view.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn annotation_html(
    of: &Annotation,
    style: AnnotationStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; \
         form-action 'none'; base-uri 'none'\">"
    )?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(
        out,
        "<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        text(&of.function)
    )?;
    write_header(of, style, out)?;
    writeln!(out, "<main>\n<table>")?;
    write!(out, "<tr>")?;
    match &of.value_types[..] {
        [_] => write!(out, "<th>Percent</th>")?,
        all => all.iter().try_for_each(|value| write!(out, "<th>{}</th>", text(&value.name)))?,
    }
    writeln!(out, "</tr>")?;
    let hot = of.hottest(style.column).map(|region| region.start);
    for row in rows(of, style) {
        write_row(of, &row, hot, out)?;
    }
    writeln!(out, "</table>\n</main>\n</body>\n</html>")
}

fn write_header(of: &Annotation, style: AnnotationStyle, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<header>\n<h1>{}</h1>\n<p>{}</p>", text(&of.function), text(&of.module))?;
    for line in heading(of) {
        writeln!(out, "<p>{}</p>", text(&line))?;
    }
    if let Some(line) = hottest_line(of, style.column) {
        writeln!(out, "<p><a href=\"#hot\">hottest</a>: {}</p>", text(&line))?;
    }
    for note in &of.notes {
        writeln!(out, "<p>{}</p>", text(note))?;
    }
    writeln!(out, "</header>")
}

fn write_row(
    of: &Annotation,
    row: &Row,
    hot: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = of.value_types.len();
    let empty = format!("<td colspan=\"{columns}\"></td>");
    match row {
        Row::Owner(name) => {
            writeln!(out, "<tr class=\"owner\">{empty}<td colspan=\"3\">{}</td></tr>", text(name))
        }
        Row::Source { label, text: line, values } => {
            let shares = values.as_ref().map_or(empty, |values| shares(of, values));
            let (label, line) = (text(label), text(line));
            let class = if values.is_none() { "source" } else { "line" };
            writeln!(
                out,
                "<tr class=\"{class}\">{shares}<td class=\"label\" colspan=\"2\">{label}</td><td>{line}</td></tr>"
            )
        }
        Row::Instruction { at, arrows } => {
            let instruction = &of.instructions[*at];
            // The browser scrolls the focused element into view.
            let mark = if hot == Some(*at) { " id=\"hot\" tabindex=\"0\" autofocus" } else { "" };
            writeln!(
                out,
                "<tr{mark}>{}<td class=\"lanes\">{}</td><td class=\"label\">{:x}</td><td>{}</td></tr>",
                shares(of, &instruction.values),
                text(arrows),
                instruction.address,
                text(&instruction.text)
            )
        }
        Row::LeftOut(count) => {
            let count = grouped(*count as u64);
            writeln!(
                out,
                "<tr class=\"left\">{empty}<td colspan=\"3\">… {count} instructions without samples</td></tr>"
            )
        }
    }
}

fn shares(of: &Annotation, values: &[u64]) -> String {
    let cell = |(column, &value): (usize, &u64)| {
        if value == 0 {
            return "<td class=\"n\"></td>".to_owned();
        }
        let share = of.share(values, column);
        let class = match Heat::of(share) {
            Heat::Hot => " hot",
            Heat::Warm => " warm",
            Heat::Cool => "",
        };
        format!("<td class=\"n{class}\">{:.2}</td>", 100.0 * share)
    };
    values.iter().enumerate().map(cell).collect()
}

fn text(of: &str) -> String {
    let mut out = String::new();
    escape(&mut out, of);
    out
}
