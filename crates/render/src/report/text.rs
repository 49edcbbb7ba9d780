//! Text output of reports: aligned columns, with names last.

use std::io::{self, Write};

use pyrograph_analyze::{CallTree, Direction, Report, TopLine, TopRow};

use super::{Branch, Figures, branches, more_lines, plain};
use crate::apart::{SHORTEST_NAME, cut, cut_all, file_labels};

/// Style of text output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportStyle {
    /// Maximum line width in characters, for which names are cut in the middle; `None` shows names whole.
    pub width: Option<usize>,
    /// Colours percentages and headings with terminal escape sequences.
    pub color: bool,
    /// Only counts functions whose self value rounds to 0.00 %, instead of listing them.
    pub no_zeros: bool,
}

/// Maximum width of modules where names are cut.
const LONGEST_MODULE: usize = 20;

/// Writes a report as text. Control characters in names are replaced.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn report_text(report: &Report, style: ReportStyle, out: &mut dyn Write) -> io::Result<()> {
    let figures = Figures::new(report);
    writeln!(out, "{}", figures.heading())?;
    if !report.functions.is_empty() {
        writeln!(out)?;
        write_functions(&figures, style, out)?;
    }
    if let Some(tree) = &report.tree {
        writeln!(out, "\n{}\n", figures.tree_heading(tree))?;
        write_tree(&figures, tree, style, out)?;
    }
    Ok(())
}

fn write_functions(
    figures: &Figures<'_>,
    style: ReportStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = &figures.report.functions;
    let least = figures.report.whole as f64 * LEAST;
    let shown = all.iter().filter(|row| !style.no_zeros || row.self_value as f64 >= least);
    let rows: Vec<&TopRow> = shown.collect();
    let mut table = Table::new(["Self", "", "Total", ""]);
    table.apart = true;
    let cells = |own: u64, total: u64| {
        let own = [figures.percent(own), figures.number(own)];
        [own, [figures.percent(total), figures.number(total)]].concat()
    };
    let places: Vec<(&str, &str)> = rows.iter().map(|row| (&*row.name, &*row.module)).collect();
    let files: Vec<String> = file_labels(&places).into_iter().map(plain).collect();
    let files = if style.width.is_some() { cut_all(&files, LONGEST_MODULE) } else { files };
    let modules = files.iter().map(|file| file.chars().count()).max().unwrap_or_default();
    let modules = if modules > 0 { modules.max("Module".len()) + 2 } else { 0 };
    let name = |module: &str, name: &str| format!("{module:modules$}{name}");
    let heading = if modules > 0 { "Module" } else { "" };
    table.rows.push((Vec::new(), name(heading, "Function")));
    for (row, file) in rows.iter().zip(&files) {
        table.rows.push((cells(row.self_value, row.total), name(file, &plain(&row.name))));
        for TopLine { file, line, text, self_value, total } in &row.lines {
            let place = format!("  {}:{line}  {}", plain(file), plain(text.trim()));
            let place = place.trim_end();
            table.rows.push((cells(*self_value, *total), name("", place)));
        }
        if row.more_lines > 0 {
            table.rows.push((Vec::new(), name("", &format!("  … {}", more_lines(row)))));
        }
    }
    table.write(style, modules, out)?;
    match figures.more_functions(all.len() - rows.len()) {
        text if text.is_empty() => Ok(()),
        text => writeln!(out, "{text}"),
    }
}

fn write_tree(
    figures: &Figures<'_>,
    tree: &CallTree,
    style: ReportStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let both = tree.direction == Direction::Callees;
    let mut table = match both {
        true => Table::new(["Total", "", "Self"]),
        false => Table::new(["Total", ""]),
    };
    table.rows.push((Vec::new(), "Function".to_owned()));
    for line in tree_lines(figures, tree, style) {
        table.rows.push(line);
    }
    table.write(style, 0, out)
}

/// Lines of the tree: the cells with numbers, and the name with the connecting lines before it.
pub(super) fn tree_lines(
    figures: &Figures<'_>,
    tree: &CallTree,
    style: ReportStyle,
) -> Vec<(Vec<String>, String)> {
    let both = tree.direction == Direction::Callees;
    let line = |Branch { node, left_out, prefix }: Branch| {
        let prefix = fit_prefix(prefix, style);
        let Some(node) = node.map(|index| &tree.nodes[index]) else {
            let cells = vec![figures.percent(left_out.value), figures.number(left_out.value)];
            let things = if left_out.count == 1 { "function" } else { "functions" };
            return (cells, format!("{prefix}… {} {things} more", left_out.count));
        };
        let mut cells = vec![figures.percent(node.total), figures.number(node.total)];
        if both {
            cells.push(figures.percent(node.self_value));
        }
        (cells, format!("{prefix}{}", plain(&node.name)))
    };
    branches(figures.report, tree).into_iter().map(line).collect()
}

/// Shortens connecting lines of deep trees; the end is kept.
fn fit_prefix(prefix: String, style: ReportStyle) -> String {
    let room = style.width.map_or(usize::MAX, |width| (width / 3).max(2));
    let length = prefix.chars().count();
    if length <= room {
        return prefix;
    }
    std::iter::once('…').chain(prefix.chars().skip(length - room + 1)).collect()
}

/// Right-aligned columns of numbers, followed by names.
struct Table {
    headings: Vec<&'static str>,
    /// Cells and name of each row. The name of the first row is the column heading.
    rows: Vec<(Vec<String>, String)>,
    /// True if different names must stay different when they are cut.
    apart: bool,
}

impl Table {
    fn new(headings: impl Into<Vec<&'static str>>) -> Self {
        Self { headings: headings.into(), rows: Vec::new(), apart: false }
    }

    /// Names: their first `fixed` characters are kept, and the rest is cut to `room`.
    fn names(&self, room: Option<usize>, fixed: usize) -> Vec<String> {
        let names = || self.rows.iter().map(|(_, name)| name.as_str());
        let Some(room) = room else { return names().map(str::to_owned).collect() };
        let room = room.max(SHORTEST_NAME);
        let split = |name: &'_ str| name.char_indices().nth(fixed).map_or(name.len(), |(at, _)| at);
        let rest: Vec<&str> = names().map(|name| &name[split(name)..]).collect();
        let cut: Vec<String> = match self.apart {
            true => cut_all(&rest, room),
            false => rest.iter().map(|rest| cut(rest, room)).collect(),
        };
        names().zip(cut).map(|(name, cut)| format!("{}{cut}", &name[..split(name)])).collect()
    }

    /// Writes the table. The first `fixed` characters of names are never cut.
    fn write(&self, style: ReportStyle, fixed: usize, out: &mut dyn Write) -> io::Result<()> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
            widest.max(self.headings[column].len())
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let used: usize = widths.iter().map(|width| width + 2).sum();
        let names = self.names(style.width.map(|width| width.saturating_sub(used + fixed)), fixed);
        for (row, ((cells, _), name)) in self.rows.iter().zip(&names).enumerate() {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = match row {
                    0 => self.headings[column],
                    _ => cells.get(column).map_or("", String::as_str),
                };
                let (color, end) = if style.color { colors(row == 0, cell) } else { ("", "") };
                line.push_str(&format!("{color}{cell:>width$}{end}  "));
            }
            line.push_str(name);
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Minimum share that does not round to 0.00 %.
const LEAST: f64 = 0.00005;

/// Escape sequences before and after a cell (ECMA-48, "Select Graphic Rendition"): bold for headings, red from 5 %,
/// green from 0.5 %, as in `perf report`.
fn colors(heading: bool, cell: &str) -> (&'static str, &'static str) {
    let percent = cell.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percent {
        _ if heading => ("\x1b[1m", "\x1b[0m"),
        Some(5.0..) => ("\x1b[31m", "\x1b[0m"),
        Some(0.5..) => ("\x1b[32m", "\x1b[0m"),
        _ => ("", ""),
    }
}
