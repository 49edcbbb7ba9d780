//! Reports with functions and the call tree, as text, Markdown and JSON.

mod json;
mod markdown;
mod text;

pub use json::report_json;
pub use markdown::report_markdown;
pub use text::{ReportStyle, report_text};

use pyrograph_analyze::{CallTree, Direction, LeftOut, Report, TopRow};

use crate::units::{Values, grouped, write_percent};

/// Formatting that text and Markdown share.
struct Figures<'a> {
    report: &'a Report,
    values: Values,
}

impl<'a> Figures<'a> {
    fn new(report: &'a Report) -> Self {
        Self { report, values: Values::plain(&report.value_type, None, 1.0) }
    }

    /// Formats a value without the name of a count: `1,234`, `1.23 s`.
    fn number(&self, value: u64) -> String {
        let mut text = String::new();
        self.values.write_number(&mut text, value);
        text
    }

    /// Formats a value with its unit: `1,234 samples`, `1.23 s`.
    fn value(&self, value: u64) -> String {
        let mut text = String::new();
        self.values.write(&mut text, value);
        text
    }

    /// Formats a value as a percentage of the whole.
    fn percent(&self, value: u64) -> String {
        let mut text = String::new();
        write_percent(&mut text, value, self.report.whole);
        text
    }

    /// Heading: the total, and the base of percentages.
    fn heading(&self) -> String {
        let Report { total, whole, value_type, .. } = self.report;
        let mut text = plain(&self.value(*total));
        if value_type.is_unnamed() {
            text.push_str(" in all (the input names no unit)");
        }
        // The names of counts are already in the total.
        if !value_type.unit_kind().is_count() {
            text.push_str(&format!(" of {}", plain(&value_type.name)));
        }
        if whole > total {
            let (percent, whole) = (self.percent(*total), self.number(*whole));
            text.push_str(&format!(": {percent} of {whole}, of which all percentages are"));
        }
        text
    }

    /// Heading of the call tree.
    fn tree_heading(&self, tree: &CallTree) -> String {
        let below = match tree.direction {
            Direction::Callees => "Call tree: below each function what it calls",
            Direction::Callers => "Callers: below each function what calls it",
        };
        match min_percent(self.report) {
            percent if percent > 0.0 => format!("{below}, from {percent}% on"),
            _ => below.to_owned(),
        }
    }

    /// Line with the number of functions that are not in the table, including `left_out` functions of the report;
    /// empty if there are none.
    fn more_functions(&self, left_out: usize) -> String {
        match self.report.more_functions + left_out {
            0 => String::new(),
            1 => "and 1 function more".to_owned(),
            more => format!("and {} functions more", grouped(more as u64)),
        }
    }
}

/// Number of omitted lines of a function.
fn more_lines(row: &TopRow) -> String {
    match row.more_lines {
        1 => "1 line more".to_owned(),
        more => format!("{} lines more", grouped(more as u64)),
    }
}

/// Percentage below which nodes are left out, without rounding errors: 7, not 7.000000000000001.
fn min_percent(report: &Report) -> f64 {
    (report.min_share * 1e8).round() / 1e6
}

/// Converts external text to a single line without control characters.
pub(crate) fn plain(text: &str) -> String {
    let clean = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        // These characters change the direction of text.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(clean).collect()
}

/// File name of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A line of the tree, with the text before its name.
struct Branch {
    /// Index of the node in the tree; `None` for omitted nodes.
    node: Option<usize>,
    /// Omitted nodes, if this line is about them.
    left_out: LeftOut,
    /// Connecting lines from the callers above.
    prefix: String,
}

/// Lines of a tree. Only branches are indented: an only child is placed right below its caller, with the same
/// indentation.
fn branches(report: &Report, tree: &CallTree) -> Vec<Branch> {
    let least = report.min_share * report.whole as f64;
    let heavy = |of: LeftOut| if of.value as f64 >= least { of } else { LeftOut::default() };
    let roots = tree.nodes.iter().filter(|node| node.depth == 0).count();
    let mut lines = Vec::with_capacity(tree.nodes.len());
    let mut levels = vec![Level::new(String::new(), roots, heavy(tree.left_out), Style::Roots)];
    for (index, node) in tree.nodes.iter().enumerate() {
        close(&mut levels, node.depth as usize + 1, &mut lines);
        let Some(level) = levels.last_mut() else { break };
        let (prefix, below) = level.next();
        lines.push(Branch { node: Some(index), left_out: LeftOut::default(), prefix });
        let (children, left_out) = (node.children as usize, heavy(node.left_out));
        levels.push(Level::new(below, children, left_out, Style::Branches));
    }
    close(&mut levels, 0, &mut lines);
    lines
}

/// A level of the tree whose lines are being written.
struct Level {
    /// Text before its lines.
    prefix: String,
    /// Number of remaining lines, including the line for omitted nodes.
    to_come: usize,
    left_out: LeftOut,
    style: Style,
}

/// Kind of text before the lines of a level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Nothing: the level has only one line.
    Chain,
    /// Nothing before the roots, but a margin for the levels below.
    Roots,
    /// Connecting lines.
    Branches,
}

impl Level {
    fn new(prefix: String, nodes: usize, left_out: LeftOut, style: Style) -> Self {
        let to_come = nodes + usize::from(left_out.count > 0);
        let style = if to_come > 1 { style } else { Style::Chain };
        Self { prefix, to_come, left_out, style }
    }

    /// Returns the text before the next line of this level, and before the lines of the levels below it.
    fn next(&mut self) -> (String, String) {
        self.to_come = self.to_come.saturating_sub(1);
        let (own, below) = match self.style {
            Style::Chain => ("", ""),
            Style::Roots => ("", "  "),
            Style::Branches if self.to_come == 0 => ("└ ", "  "),
            Style::Branches => ("├ ", "│ "),
        };
        (format!("{}{own}", self.prefix), format!("{}{below}", self.prefix))
    }
}

/// Closes levels until `left` remain, adding a line for the omitted nodes of each.
fn close(levels: &mut Vec<Level>, left: usize, lines: &mut Vec<Branch>) {
    while levels.len() > left {
        let Some(mut level) = levels.pop() else { break };
        if level.left_out.count > 0 {
            let (prefix, _) = level.next();
            lines.push(Branch { node: None, left_out: level.left_out, prefix });
        }
    }
}

#[cfg(test)]
mod tests;
