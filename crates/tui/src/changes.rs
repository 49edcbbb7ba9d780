//! Comparisons: the table of functions, with values before and after and the changes that exceed noise; the sides of a graph.

use pyrograph_analyze::{
    Diff, DiffFrame, DiffGraph, FlameFrame, FlameGraph, FunctionChange, Verdict,
};
use pyrograph_profile::{FrameKind, StringId};
use pyrograph_render::{exact_percent, file_labels};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::look::Look;
use crate::shown::{Code, Shown};
use crate::text::{columns, fit_apart, fit_middle, padded};

/// Returns the shown functions, with the largest changes first and noise last, or sorted by the value after.
pub fn rows(diff: &Diff, code: Code, by_value: bool) -> Vec<FunctionChange> {
    let is_whole = |of: &FunctionChange| of.name.is_empty();
    let shown = diff.functions.iter().filter(|of| !is_whole(of) && code.shows(of.kind));
    let mut rows: Vec<FunctionChange> = shown.cloned().collect();
    let size = |of: &FunctionChange| of.estimate.change().abs();
    let is_noise = |of: &FunctionChange| of.verdict == Verdict::Noise;
    // They are sorted by name.
    match by_value {
        true => rows.sort_by_key(|of| std::cmp::Reverse((of.after, of.before))),
        false => rows.sort_by(|a, b| {
            is_noise(a).cmp(&is_noise(b)).then_with(|| size(b).total_cmp(&size(a)))
        }),
    }
    rows
}

/// Mark for an increase or a decrease beyond noise.
pub fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Noise => " ",
        Verdict::More => "▲",
        Verdict::Less => "▼",
    }
}

/// Returns a change in percentage points, such as `+1.25`.
pub fn points(before: (u64, u64), after: (u64, u64)) -> String {
    let share = |(value, whole): (u64, u64)| match whole {
        0 => 0.0,
        _ => 100.0 * value as f64 / whole as f64,
    };
    format!("{:+.2}", share(after) - share(before))
}

/// Width of the numbers, in columns.
const NUMBERS: usize = 8 + 8 + 9 + 2;

/// Data for drawing the table.
pub struct Changes<'a> {
    pub rows: &'a [&'a FunctionChange],
    /// Index of the selected row.
    pub selected: Option<usize>,
    /// Wholes for percentages, before and after.
    pub wholes: (u64, u64),
    /// Sorted by the value after, instead of by the change.
    pub by_value: bool,
    /// Profile with the displayed names.
    pub shown: &'a Shown,
    pub look: Look,
}

impl Changes<'_> {
    /// Draws the heading in the first line of an area, and the rows below it.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width);
        let places: Vec<(&str, &str)> =
            self.rows.iter().map(|of| (self.shown.label(&of.name), &*of.module)).collect();
        let files = file_labels(&places);
        // Modules have a quarter of the width, plus what functions do not need.
        let rest = width.saturating_sub(NUMBERS);
        let longest = |text: &dyn Fn(&FunctionChange) -> usize, least: usize| {
            self.rows.iter().map(|of| text(of)).max().unwrap_or(0).max(least)
        };
        let function = longest(&|of| columns(self.shown.label(&of.name)), 8);
        let room = rest.saturating_sub(function + 1).max(rest / 4);
        let module = files.iter().map(|file| columns(file)).max().unwrap_or(0).max(6);
        let module = module.min(room) + 1;
        let change = if self.by_value { "Change" } else { "Change▾" };
        let after = if self.by_value { "After▾" } else { "After" };
        let heading = format!(
            "{:>7} {after:>7} {change:>8}   {}Function",
            "Before",
            padded("Module", module)
        );
        buffer.set_stringn(area.x, area.y, heading, width, self.look.strong());
        let names: Vec<&str> = places.iter().map(|of| of.0).collect();
        let names = fit_apart(&names, width.saturating_sub(NUMBERS + module));
        for (line, of) in self.rows.iter().enumerate() {
            let y = area.y + 1 + line as u16;
            if y >= area.bottom() {
                break;
            }
            let row = Rect { y, height: 1, ..area };
            let file = fit_middle(files[line], module - 1);
            let texts = format!("{}{}", padded(&file, module), names[line]);
            self.draw_row(of, &texts, row, buffer);
            if self.selected == Some(line) {
                buffer.set_style(row, self.look.selected());
            }
        }
    }

    fn draw_row(&self, of: &FunctionChange, names: &str, row: Rect, buffer: &mut Buffer) {
        let (old, new) = self.wholes;
        let before = exact_percent(of.before, old);
        let after = exact_percent(of.after, new);
        let change = points((of.before, old), (of.after, new));
        let numbers = format!("{before:>7} {after:>7} {change:>8} {}", mark(of.verdict));
        let style = match of.verdict {
            Verdict::Noise => Style::new(),
            verdict => self.look.change(verdict == Verdict::More),
        };
        let width = usize::from(row.width);
        buffer.set_stringn(row.x, row.y, numbers, width, style);
        let room = width.saturating_sub(NUMBERS);
        let x = row.x.saturating_add(NUMBERS as u16).min(row.right());
        buffer.set_stringn(x, row.y, names, room, kind_style(of.kind, self.look));
    }
}

/// Markers are not functions.
fn kind_style(kind: FrameKind, look: Look) -> Style {
    if matches!(kind, FrameKind::Marker(_)) { look.faint() } else { Style::new() }
}

/// Returns one side of a comparison as a graph. Frames keep their indexes; frames that are not on this side have no
/// width.
pub fn side(compared: &DiffGraph, before: bool) -> FlameGraph {
    let (of, total) = match before {
        true => (&compared.before, compared.widths.0),
        false => (&compared.after, compared.widths.1),
    };
    let frame = |frame: &DiffFrame| {
        let (here, there) = match before {
            true => (frame.before, frame.after),
            false => (frame.after, frame.before),
        };
        FlameFrame {
            name: frame.name,
            module: frame.module,
            modules: frame.modules,
            kind: frame.kind,
            depth: frame.depth,
            parent: frame.parent,
            start: here.start,
            value: here.value,
            guessed: 0,
            before: there.value,
            own: None,
            self_change: 0,
            folded: 0,
        }
    };
    let mut frames: Vec<FlameFrame> = compared.frames.iter().map(frame).collect();
    if let Some(whole) = frames.first_mut() {
        (whole.name, whole.start, whole.value) = (StringId::EMPTY, 0, total.max(1));
    }
    FlameGraph {
        names: compared.names.clone(),
        value_type: of.value_type.clone(),
        frames,
        total: total.max(1),
        whole: of.total.max(1),
        rows: compared.rows,
        narrow: compared.narrow,
        narrow_below: 0,
        comparison: None,
        full_names: Default::default(),
        threads: Vec::new(),
    }
}

/// Formats `before 12.50%, after 17.10%, +4.60 points ▲ more`.
pub fn change(compared: &DiffGraph, frame: &DiffFrame) -> String {
    let before = (frame.before.value, compared.before.total);
    let after = (frame.after.value, compared.after.total);
    let share = |(value, whole)| exact_percent(value, whole);
    let verdict = match frame.verdict {
        Verdict::Noise => "no more than noise",
        Verdict::More => "more, beyond noise",
        Verdict::Less => "less, beyond noise",
    };
    let (was, is, points) = (share(before), share(after), points(before, after));
    format!("before {was}, after {is}, {points} points {} {verdict}", mark(frame.verdict).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_in_points() {
        assert_eq!(points((10, 100), (30, 200)), "+5.00");
        assert_eq!(points((10, 100), (0, 0)), "-10.00");
        assert_eq!(points((1, 3), (2, 6)), "+0.00");
    }
}
