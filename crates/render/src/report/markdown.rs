//! Markdown output of reports, for comments on pull requests or pages: a table and a block of text.

use std::io::{self, Write};

use pyrograph_analyze::{Report, TopLine};

use super::text::{ReportStyle, tree_lines};
use super::{Figures, more_lines, plain};
use crate::apart::file_labels;

/// Writes a report as GitHub-flavoured Markdown.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn report_markdown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let figures = Figures::new(report);
    writeln!(out, "{}", prose(&figures.heading()))?;
    if !report.functions.is_empty() {
        write_functions(&figures, out)?;
    }
    if let Some(tree) = &report.tree {
        writeln!(out, "\n{}\n", prose(&figures.tree_heading(tree)))?;
        let lines: Vec<String> = tree_lines(&figures, tree, ReportStyle::default())
            .into_iter()
            .map(|(cells, name)| format!("{:>8}  {name}", cells[0]))
            .collect();
        // The fence must be longer than any run of backticks in the block.
        let fence =
            "`".repeat(lines.iter().map(|line| longest_row(line)).max().unwrap_or(0).max(2) + 1);
        writeln!(out, "{fence}text")?;
        for line in lines {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{fence}")?;
    }
    Ok(())
}

fn write_functions(figures: &Figures<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &figures.report.functions;
    let modules = rows.iter().any(|row| !row.module.is_empty());
    let module = |text: &str| if modules { format!(" {text} |") } else { String::new() };
    let (heading, rule) = (module("Module"), module("---"));
    writeln!(out, "\n| Self | | Total | | Function |{heading}")?;
    writeln!(out, "| ---: | ---: | ---: | ---: | --- |{rule}")?;
    let line = |out: &mut dyn Write, own: u64, total: u64, name: &str, of: &str| {
        let (own_share, total_share) = (figures.percent(own), figures.percent(total));
        let (own, total) = (figures.number(own), figures.number(total));
        let of = module(of);
        writeln!(out, "| {own_share} | {own} | {total_share} | {total} | {name} |{of}")
    };
    let places: Vec<(&str, &str)> = rows.iter().map(|row| (&*row.name, &*row.module)).collect();
    for (row, file) in rows.iter().zip(file_labels(&places)) {
        let of = code(file);
        line(out, row.self_value, row.total, &code(&row.name), &of)?;
        for TopLine { file, line: number, text, self_value, total } in &row.lines {
            let mut place = format!("– {}", code(&format!("{file}:{number}")));
            if !text.trim().is_empty() {
                place.push_str(&format!(" {}", code(text.trim())));
            }
            line(out, *self_value, *total, &place, "")?;
        }
        if row.more_lines > 0 {
            let (text, of) = (more_lines(row), module(""));
            writeln!(out, "| | | | | – {text} |{of}")?;
        }
    }
    match figures.more_functions(0) {
        text if text.is_empty() => Ok(()),
        text => writeln!(out, "\n{text}"),
    }
}

/// Formats text as inline code, in a table cell.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let text = plain(text).replace('|', "\\|");
    let fence = "`".repeat(longest_row(&text) + 1);
    // Markdown strips one blank on each side.
    if text.starts_with('`') || text.ends_with('`') {
        format!("{fence} {text} {fence}")
    } else {
        format!("{fence}{text}{fence}")
    }
}

/// Length of the longest run of backticks.
fn longest_row(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Escapes prose that contains external names.
fn prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '|') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
