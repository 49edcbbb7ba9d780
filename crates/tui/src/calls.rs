//! Callers and callees of one function.

use pyrograph_analyze::{FunctionName, Neighbor, Neighbors, neighbors};
use pyrograph_profile::FrameKind;
use pyrograph_render::{exact_percent, function_colors};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::bars::bar;
use crate::look::Look;
use crate::shown::Shown;
use crate::table::{Cursor, Step, file_name};
use crate::text::{fit_middle, padded};

/// The functions visited, the current one last.
#[derive(Debug, Default)]
pub struct Calls {
    path: Vec<FunctionName>,
    /// Callers and callees of the last function; `None` if no sample has it.
    found: Option<Neighbors>,
    /// The same before, in a comparison.
    before: Option<Neighbors>,
    cursor: Cursor,
}

/// A line of the view.
enum Line<'a> {
    Heading(String),
    /// Index in the list, callers first.
    Call(usize, &'a Neighbor),
    Function,
}

impl Calls {
    /// Starts with this function.
    pub fn open(&mut self, function: FunctionName) {
        *self = Self { path: vec![function], ..Self::default() };
    }

    /// Finds the neighbors in a profile; in a comparison, also those before.
    pub fn update(&mut self, shown: &Shown, is_compared: bool) {
        let of = self.path.last().filter(|_| !shown.profile().value_types.is_empty());
        let find = |column: usize| {
            of.and_then(|of| neighbors(shown.profile(), &shown.labels(), column, of))
        };
        self.found = find(shown.column());
        self.before = None;
        if is_compared {
            self.before = Some(find(0).unwrap_or_else(nothing));
            let found = self.found.get_or_insert_with(nothing);
            if let Some(before) = &self.before {
                add_gone(&mut found.callers, &before.callers);
                add_gone(&mut found.callees, &before.callees);
            }
        }
        if let Some(found) = &mut self.found {
            for side in [&mut found.callers, &mut found.callees] {
                side.retain(|of| shown.code.shows(of.kind));
            }
        }
    }

    pub fn go(&mut self, step: Step) {
        let rows = self.list().count();
        self.cursor.go(step, rows);
    }

    /// Opens the selected caller or callee; returns true if there is one.
    pub fn enter(&mut self) -> bool {
        let Some(next) = self.list().nth(self.cursor.selected) else { return false };
        let root = self.path.last().and_then(|of| of.root.clone());
        let next = FunctionName { root, name: next.name.clone(), module: next.module.clone() };
        self.path.push(next);
        self.cursor = Cursor::default();
        true
    }

    /// Returns to the previous function; returns true if there was one.
    pub fn back(&mut self) -> bool {
        self.path.pop();
        self.cursor = Cursor::default();
        !self.path.is_empty()
    }

    /// Returns the names of the visited functions, to change them.
    pub fn names(&mut self) -> impl Iterator<Item = &mut String> {
        self.path.iter_mut().map(|of| &mut of.name)
    }

    /// Returns the current function.
    pub fn function(&self) -> Option<&FunctionName> {
        self.path.last()
    }

    fn list(&self) -> impl Iterator<Item = &Neighbor> {
        self.found.iter().flat_map(|found| found.callers.iter().chain(&found.callees))
    }

    /// Returns the lines, and the index of the selected one.
    fn lines(&self) -> (Vec<Line<'_>>, usize) {
        let Some(found) = &self.found else { return (Vec::new(), 0) };
        let mut lines = vec![Line::Heading(format!("callers ({})", found.callers.len()))];
        let callers = found.callers.len();
        lines.extend(found.callers.iter().enumerate().map(|(at, of)| Line::Call(at, of)));
        if found.outermost > 0 && found.callers.is_empty() {
            lines.push(Line::Heading("  nothing calls it: stacks begin with it".to_owned()));
        }
        lines.push(Line::Function);
        lines.push(Line::Heading(format!("callees ({})", found.callees.len())));
        let callees = found.callees.iter().enumerate();
        lines.extend(callees.map(|(at, of)| Line::Call(callers + at, of)));
        let is_selected =
            |line: &Line<'_>| matches!(line, Line::Call(at, _) if *at == self.cursor.selected);
        let selected = lines.iter().position(is_selected).unwrap_or(0);
        (lines, selected)
    }

    /// Draws a heading and the lines below it.
    pub fn draw(&mut self, shown: &Shown, look: Look, area: Rect, buffer: &mut Buffer) {
        let width = usize::from(area.width);
        let shares = match &self.before {
            Some(_) => ["before", "after"],
            None => ["of all", "of it"],
        };
        let [first, second] = shares;
        let heading = format!("{first:>7} {second:>7} {:12}{:24} Function", "", "Module");
        buffer.set_stringn(area.left(), area.top(), heading, width, look.strong());
        let height = usize::from(area.height.saturating_sub(1));
        let (lines, selected) = self.lines();
        if lines.is_empty() {
            let text = "no sample has this function now; Esc goes back";
            buffer.set_stringn(area.left(), area.top() + 1, text, width, look.faint());
            return;
        }
        // Show the window of lines, including headings, around the selected one.
        let top = (selected + 1 + height / 4).saturating_sub(height).min(lines.len());
        let (found, before) = (self.found.as_ref(), self.before.as_ref());
        let style = Drawing { found, before, shown, look };
        let mut height_of_list = 0;
        let callers = found.map_or(0, |found| found.callers.len());
        for (line, y) in lines[top..].iter().zip(area.top() + 1..area.bottom()) {
            let row = Rect { y, height: 1, ..area };
            match line {
                Line::Heading(text) => {
                    buffer.set_stringn(area.left(), y, text, width, look.faint());
                }
                Line::Function => style.draw_function(self.path.last(), row, buffer),
                Line::Call(at, of) => {
                    height_of_list += 1;
                    style.draw_call(of, *at < callers, row, buffer);
                    if *at == self.cursor.selected {
                        buffer.set_style(row, look.selected());
                    }
                }
            }
        }
        let rows = self.list().count();
        self.cursor.window(rows, height_of_list);
    }
}

/// Result for a function that is in no sample.
fn nothing() -> Neighbors {
    Neighbors {
        kind: FrameKind::User,
        self_value: 0,
        total: 0,
        outermost: 0,
        callers: Vec::new(),
        callees: Vec::new(),
    }
}

fn is_same(a: &Neighbor, b: &Neighbor) -> bool {
    a.name == b.name && a.module == b.module
}

/// Adds neighbors that no longer exist.
fn add_gone(after: &mut Vec<Neighbor>, before: &[Neighbor]) {
    for of in before {
        if !after.iter().any(|is| is_same(is, of)) {
            after.push(Neighbor { value: 0, ..of.clone() });
        }
    }
}

struct Drawing<'a> {
    found: Option<&'a Neighbors>,
    before: Option<&'a Neighbors>,
    shown: &'a Shown,
    look: Look,
}

impl Drawing<'_> {
    /// Returns the total before, in a comparison: its first column.
    fn whole_before(&self) -> u64 {
        self.shown.profile().whole(0)
    }

    fn draw_call(&self, of: &Neighbor, is_caller: bool, row: Rect, buffer: &mut Buffer) {
        let total = self.found.map_or(0, |found| found.total);
        let whole = self.shown.whole();
        let shares = match self.before {
            Some(before) => {
                let side = if is_caller { &before.callers } else { &before.callees };
                let was = side.iter().find(|was| is_same(was, of)).map_or(0, |was| was.value);
                [exact_percent(was, self.whole_before()), exact_percent(of.value, whole)]
            }
            None => [exact_percent(of.value, whole), exact_percent(of.value, total)],
        };
        self.draw(&shares, bar(of.value, total, 10), of, Style::new(), row, buffer);
    }

    fn draw_function(&self, name: Option<&FunctionName>, row: Rect, buffer: &mut Buffer) {
        let (Some(found), Some(name)) = (self.found, name) else { return };
        let whole = self.shown.whole();
        let own = exact_percent(found.self_value, whole);
        let shares = match self.before {
            Some(before) => [
                exact_percent(before.total, self.whole_before()),
                exact_percent(found.total, whole),
            ],
            None => [exact_percent(found.total, whole), "100%".to_owned()],
        };
        let of = Neighbor {
            name: format!("{} (self {own})", self.shown.label(&name.name)),
            module: name.module.clone(),
            kind: found.kind,
            value: found.total,
        };
        self.draw(&shares, "█".repeat(10), &of, self.look.strong(), row, buffer);
    }

    fn draw(
        &self,
        shares: &[String; 2],
        bar: String,
        of: &Neighbor,
        style: Style,
        row: Rect,
        buffer: &mut Buffer,
    ) {
        let width = usize::from(row.width);
        let text = format!("{:>7} {:>7} ", shares[0], shares[1]);
        buffer.set_stringn(row.x, row.y, text, width, style);
        let color = self.look.color(function_colors(&of.name, of.kind).fill);
        let bar_style = color.map_or(style, |color| style.fg(color));
        let after = |columns: u16| row.x.saturating_add(columns).min(row.right());
        let room = |columns: u16| usize::from(row.right() - after(columns));
        buffer.set_stringn(after(16), row.y, bar, room(16).min(10), bar_style);
        let module = padded(&fit_middle(file_name(&of.module), 24), 25);
        let name = fit_middle(self.shown.label(&of.name), room(28 + 25));
        buffer.set_stringn(after(28), row.y, format!("{module}{name}"), room(28), style);
    }
}
