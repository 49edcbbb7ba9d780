//! Reports: functions and the call tree, as text for a terminal or a pipe, as Markdown, as JSON.

mod json;
mod markdown;
mod text;

pub use json::report_json;
pub use markdown::report_markdown;
pub use text::{ReportStyle, report_text};

use pyrograph_analyze::{CallTree, Direction, LeftOut, Report, TopRow};

use crate::units::{Values, grouped, write_percent};

/// The words and figures that text and Markdown share.
struct Figures<'a> {
    report: &'a Report,
    values: Values,
}

impl<'a> Figures<'a> {
    fn new(report: &'a Report) -> Self {
        Self { report, values: Values::plain(&report.value_type, None, 1.0) }
    }

    /// `1,234`, `1.23 s`.
    fn number(&self, value: u64) -> String {
        let mut text = String::new();
        self.values.write_number(&mut text, value);
        text
    }

    /// `1,234 samples`, `1.23 s`.
    fn value(&self, value: u64) -> String {
        let mut text = String::new();
        self.values.write(&mut text, value);
        text
    }

    /// Of the whole.
    fn percent(&self, value: u64) -> String {
        let mut text = String::new();
        write_percent(&mut text, value, self.report.whole);
        text
    }

    /// The subject of the report, and what its percentages are of.
    fn heading(&self) -> String {
        let Report { total, whole, value_type, .. } = self.report;
        let mut text = plain(&self.value(*total));
        if value_type.is_unnamed() {
            text.push_str(" in all (the input names no unit)");
        }
        // Counts are called so already.
        if !value_type.unit_kind().is_count() {
            text.push_str(&format!(" of {}", plain(&value_type.name)));
        }
        if whole > total {
            let (percent, whole) = (self.percent(*total), self.number(*whole));
            text.push_str(&format!(": {percent} of {whole}, of which all percentages are"));
        }
        text
    }

    /// The heading of the call tree.
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

    /// Number of functions that are not in the table, `left_out` of those of the report among them; empty if all are.
    fn more_functions(&self, left_out: usize) -> String {
        match self.report.more_functions + left_out {
            0 => String::new(),
            1 => "and 1 function more".to_owned(),
            more => format!("and {} functions more", grouped(more as u64)),
        }
    }
}

/// Number of lines of a function that were left out.
fn more_lines(row: &TopRow) -> String {
    match row.more_lines {
        1 => "1 line more".to_owned(),
        more => format!("{} lines more", grouped(more as u64)),
    }
}

/// The share below which nodes are left out, as it was typed: 7, not 7.000000000000001.
fn min_percent(report: &Report) -> f64 {
    (report.min_share * 1e8).round() / 1e6
}

/// Text that came from outside, on one line, without what a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let clean = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        // These turn the line's direction round.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(clean).collect()
}

/// The file's name of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// One line of the tree: what stands left of its name.
struct Branch {
    /// The row in the tree's nodes; `None` for what was left out.
    node: Option<usize>,
    /// A note on what was left out, if so.
    left_out: LeftOut,
    /// Lines from the callers above.
    prefix: String,
}

/// The lines of a tree. Only where it branches it goes to the right: what is called from one place
/// alone stands right below its caller.
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

/// One level of the tree while its lines are written.
struct Level {
    /// The beginning of its lines.
    prefix: String,
    /// Number still to come, that of what was left out included.
    to_come: usize,
    left_out: LeftOut,
    style: Style,
}

/// The text before the lines of a level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Nothing: there is only one.
    Chain,
    /// Nothing before them, but a margin before those below them.
    Roots,
    /// The lines that connect them.
    Branches,
}

impl Level {
    fn new(prefix: String, nodes: usize, left_out: LeftOut, style: Style) -> Self {
        let to_come = nodes + usize::from(left_out.count > 0);
        let style = if to_come > 1 { style } else { Style::Chain };
        Self { prefix, to_come, left_out, style }
    }

    /// The beginning of the next line of this level, and of those below it.
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

/// Ends all levels but `left`, each with what was left out of it.
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
