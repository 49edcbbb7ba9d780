//! Table of functions.

use pyrograph_analyze::RootedRow;
use pyrograph_render::{exact_percent, file_labels, function_colors};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::bars::bar;
use crate::look::Look;
use crate::shown::Grouping;
use crate::text::{columns, fit_apart, fit_middle, padded};

/// Selection and scroll position in a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Index of the selected row.
    pub selected: usize,
    /// Index of the first visible row.
    top: usize,
    /// Number of visible rows.
    height: usize,
}

/// Movement in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl Cursor {
    /// Moves the selection in a list of `rows` rows.
    pub fn go(&mut self, step: Step, rows: usize) {
        let page = self.height.max(1);
        let at = match step {
            Step::Up => self.selected.saturating_sub(1),
            Step::Down => self.selected + 1,
            Step::PageUp => self.selected.saturating_sub(page),
            Step::PageDown => self.selected + page,
            Step::First => 0,
            Step::Last => rows,
        };
        self.selected = at.min(rows.saturating_sub(1));
    }

    /// Returns the rows visible in a window of this height, which include the selected one.
    pub fn window(&mut self, rows: usize, height: usize) -> std::ops::Range<usize> {
        self.height = height;
        self.selected = self.selected.min(rows.saturating_sub(1));
        self.top = self.top.min(self.selected).min(rows.saturating_sub(height));
        if self.selected >= self.top + height {
            self.top = self.selected + 1 - height;
        }
        self.top..rows.min(self.top + height)
    }

    /// Returns the row at a line of the window.
    pub fn at(&self, line: usize, rows: usize) -> Option<usize> {
        Some(self.top + line).filter(|&row| line < self.height && row < rows)
    }
}

/// Column widths.
struct Widths {
    bar: usize,
    group: usize,
    module: usize,
    function: usize,
}

/// Width of a percentage, with the blank before it.
const SHARE: usize = 8;

impl Widths {
    fn new(width: usize, rows: &[&RootedRow], files: &[&str], grouping: Grouping) -> Self {
        let rest = width.saturating_sub(2 * SHARE + 1);
        let bar = (rest / 6).clamp(6, 24);
        let rest = rest.saturating_sub(bar + 1);
        let longest = |text: &dyn Fn(&RootedRow) -> usize, least: usize, most: usize| {
            let longest = rows.iter().map(|row| text(row)).max().unwrap_or(0);
            longest.max(least).min(most.max(least))
        };
        let group = match grouping {
            Grouping::None => 0,
            _ => longest(&|row| columns(&row.root), columns(grouping.heading()), rest / 3) + 1,
        };
        // Modules have a quarter of the width, plus what functions do not need.
        let function = longest(&|row| columns(&row.row.name), 8, rest);
        let room = rest.saturating_sub(group + function + 1).max(rest / 4);
        let module = files.iter().map(|file| columns(file)).max().unwrap_or(0);
        let module = module.max(6).min(room.max(6)) + 1;
        let function = rest.saturating_sub(group + module);
        Self { bar, group, module, function }
    }
}

/// Returns the file name of a module, without its directory.
pub fn file_name(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

/// Data for drawing a table.
pub struct Table<'a> {
    /// Visible rows.
    pub rows: &'a [&'a RootedRow],
    /// Index of the selected row.
    pub selected: Option<usize>,
    pub grouping: Grouping,
    pub by_total: bool,
    /// Whole for percentages.
    pub whole: u64,
    /// Value of a full bar.
    pub longest: u64,
    pub look: Look,
}

impl Table<'_> {
    /// Draws the heading in the first line of an area, and the rows below it.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let places: Vec<(&str, &str)> =
            self.rows.iter().map(|of| (&*of.row.name, &*of.row.module)).collect();
        let files = file_labels(&places);
        let widths = Widths::new(usize::from(area.width), self.rows, &files, self.grouping);
        let names: Vec<&str> = places.iter().map(|of| of.0).collect();
        let names = fit_apart(&names, widths.function);
        let mut heading = format!("{:>7} {:>7} ", "Self", "Total");
        heading
            .push_str(&padded(if self.by_total { "by total" } else { "by self" }, widths.bar + 1));
        if widths.group > 0 {
            heading.push_str(&padded(self.grouping.heading(), widths.group));
        }
        heading.push_str(&padded("Module", widths.module));
        heading.push_str("Function");
        let width = usize::from(area.width);
        buffer.set_stringn(area.left(), area.top(), heading, width, self.look.strong());
        for (line, row) in self.rows.iter().enumerate() {
            let y = area.top() + 1 + line as u16;
            if y < area.bottom() {
                let row_area = Rect { y, height: 1, ..area };
                let texts = (files[line], names[line].as_str());
                let is_selected = self.selected == Some(line);
                self.draw_row(row, texts, &widths, row_area, is_selected, buffer);
            }
        }
    }

    fn draw_row(
        &self,
        of: &RootedRow,
        (file, name): (&str, &str),
        widths: &Widths,
        area: Rect,
        is_selected: bool,
        buffer: &mut Buffer,
    ) {
        let row = &of.row;
        let share = |value| exact_percent(value, self.whole);
        let value = if self.by_total { row.total } else { row.self_value };
        let shares = format!("{:>7} {:>7} ", share(row.self_value), share(row.total));
        let colors = function_colors(&row.name, row.kind);
        let bar_style = match self.look.color(colors.fill) {
            Some(color) => Style::new().fg(color),
            None => Style::new(),
        };
        let mut names = String::new();
        if widths.group > 0 {
            names.push_str(&padded(&fit_middle(&of.root, widths.group - 1), widths.group));
        }
        names.push_str(&padded(&fit_middle(file, widths.module - 1), widths.module));
        names.push_str(name);
        let mut x = area.left();
        let mut put = |text: &str, style: Style, room: usize| {
            let left = usize::from(area.right().saturating_sub(x));
            buffer.set_stringn(x, area.y, text, left.min(room), style);
            x = x.saturating_add(room as u16);
        };
        put(&shares, Style::new(), 2 * SHARE);
        put(&bar(value, self.longest, widths.bar), bar_style, widths.bar + 1);
        put(&names, Style::new(), usize::from(area.width));
        if is_selected {
            buffer.set_style(area, self.look.selected());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_what_is_selected() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.window(100, 10), 0..10);
        cursor.go(Step::PageDown, 100);
        assert_eq!(cursor.window(100, 10), 1..11);
        cursor.go(Step::Last, 100);
        assert_eq!(cursor.window(100, 10), 90..100);
        assert_eq!((cursor.at(0, 100), cursor.at(10, 100)), (Some(90), None));
        // The list is shorter now.
        assert_eq!(cursor.window(5, 10), 0..5);
        assert_eq!(cursor.selected, 4);
        cursor.go(Step::Down, 5);
        assert_eq!(cursor.selected, 4);
        assert_eq!(cursor.window(0, 10), 0..0);
        cursor.go(Step::Down, 0);
        assert_eq!(cursor.selected, 0);
    }
}
