//! Drawing of the screen.

use pyrograph_analyze::{FunctionChange, RootedRow};
use pyrograph_render::percent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Typing};
use crate::changes::Changes;
use crate::keys::{self, Place, View, help_line};
use crate::page::draw_head;
use crate::shown::Grouping;
use crate::table::Table;
use crate::text::fit;

impl App {
    /// Draws the whole screen.
    pub fn render(&mut self, buffer: &mut Buffer) {
        self.refresh();
        let area = buffer.area;
        let look = self.settings.look;
        let width = usize::from(area.width);
        buffer.reset();
        if area.width < 20 || area.height < 6 {
            let text = fit("the terminal is too small", width);
            buffer.set_stringn(area.x, area.y, text, width, look.strong());
            return;
        }
        let line = |y: u16| Rect { y, height: 1, ..area };
        draw_head(&self.status, &self.shown, look, line(area.y), buffer);
        let place = Place {
            view: self.view,
            is_live: self.settings.live,
            is_compared: self.compared.is_some(),
        };
        let bottom = area.bottom() - 1;
        keys::draw_line(&help_line(place, width), line(bottom), look, buffer);
        let body = Rect { y: area.y + 2, height: bottom - area.y - 2, ..area };
        if self.shows_keys {
            buffer.set_stringn(area.x, area.y + 1, "keys", width, look.faint());
            keys::draw_all(place, body, look, buffer);
            return;
        }
        let state = match self.view {
            View::Table if self.compared.is_some() => self.draw_changes(body, buffer),
            View::Table => self.draw_table(body, buffer),
            View::Flame => self.draw_flame(body, buffer),
            View::Calls => {
                self.calls.draw(&self.shown, look, body, buffer);
                self.state_of_calls()
            }
        };
        let state = match (&self.message, self.typing) {
            (_, Typing::Filter) => format!(
                "--{}\u{2588}  as on the command line: focus, ignore, hide, from-frame, skip-after, pid, tid, comm, fold-recursion",
                self.words.trim_start_matches('-')
            ),
            (Some(message), _) => message.clone(),
            (None, _) => state,
        };
        buffer.set_stringn(area.x, area.y + 1, fit(&state, width), width, look.faint());
    }

    fn draw_table(&mut self, area: Rect, buffer: &mut Buffer) -> String {
        self.list = area;
        let height = usize::from(area.height.saturating_sub(1));
        let window = self.cursor.window(self.matching.len(), height);
        let rows: Vec<&RootedRow> =
            self.matching[window.clone()].iter().map(|&row| &self.rows[row]).collect();
        let by_total = self.settings.by_total;
        let value = |of: &RootedRow| if by_total { of.row.total } else { of.row.self_value };
        Table {
            rows: &rows,
            selected: self.cursor.selected.checked_sub(window.start),
            grouping: self.shown.grouping(),
            by_total,
            whole: self.shown.whole(),
            longest: self.rows.iter().map(value).max().unwrap_or(0),
            look: self.settings.look,
        }
        .draw(area, buffer);
        let own = self.matching.iter().map(|&row| self.rows[row].row.self_value);
        let own = own.fold(0u64, u64::saturating_add);
        let (found, all) = (self.matching.len(), self.rows.len());
        let found = match self.filter.is_empty() {
            true => format!("{all} functions"),
            false => {
                format!("{found} of {all} functions, self {}", percent(own, self.shown.whole()))
            }
        };
        self.state(&found)
    }

    fn draw_changes(&mut self, area: Rect, buffer: &mut Buffer) -> String {
        self.list = area;
        let height = usize::from(area.height.saturating_sub(1));
        let window = self.cursor.window(self.matching.len(), height);
        let rows: Vec<&FunctionChange> =
            self.matching[window.clone()].iter().map(|&row| &self.changes[row]).collect();
        let Some(diff) = &self.compared else { return String::new() };
        Changes {
            rows: &rows,
            selected: self.cursor.selected.checked_sub(window.start),
            wholes: (diff.before.total, diff.after.total),
            by_value: self.settings.by_total,
            shown: &self.shown,
            look: self.settings.look,
        }
        .draw(area, buffer);
        let (found, all) = (self.matching.len(), self.changes.len());
        let found = match self.filter.is_empty() {
            true => format!("{all} functions"),
            false => format!("{found} of {all} functions"),
        };
        let changed = diff.functions_family.changed;
        self.state(&format!("{found}, {changed} changed beyond noise"))
    }

    fn draw_flame(&mut self, area: Rect, buffer: &mut Buffer) -> String {
        let last = Rect { y: area.bottom() - 1, height: 1, ..area };
        let graph = Rect { height: area.height - 1, ..area };
        let narrow = self.flame.draw(&self.shown, self.settings.look, graph, buffer);
        let width = usize::from(area.width);
        let detail = fit(&self.flame.detail(&self.shown), width);
        buffer.set_stringn(last.x, last.y, detail, width, self.settings.look.strong());
        let mut state = Vec::new();
        if !self.filter.is_empty() {
            let found = self.flame.matches();
            let mut text =
                format!("{} frames match, {}", found.frames, percent(found.value, found.whole));
            if !self.flame.zoom().is_empty() {
                let in_zoom = percent(found.in_zoom, found.zoom);
                text.push_str(&format!(" of all, {in_zoom} of what is zoomed"));
            }
            state.push(text);
        }
        state.extend(self.flame.side().map(|side| format!("widths: {side}")));
        if self.flame.rows_beyond() > 0 {
            state.push(format!("{} more rows: PgUp, PgDn", self.flame.rows_beyond()));
        }
        if narrow > 0 {
            state.push(format!("{narrow} frames too narrow to be drawn"));
        }
        self.state(&state.join(", "))
    }

    fn state_of_calls(&self) -> String {
        let Some(of) = self.calls.function() else { return String::new() };
        let root = of.root.as_ref().map(|root| format!(" in {root}")).unwrap_or_default();
        let name = self.shown.full(&of.name);
        let of = format!("callers and callees of {name}{root}, over all places");
        std::iter::once(of).chain(self.chips_and_code()).collect::<Vec<_>>().join(" · ")
    }

    fn chips_and_code(&self) -> impl Iterator<Item = String> {
        let chips = self.shown.chips().iter().map(|chip| chip.text().to_owned());
        chips.chain([self.shown.code.name().to_owned()])
    }

    /// Describes the state of search, filters and grouping.
    fn state(&self, found: &str) -> String {
        let mut parts = Vec::new();
        let is_typing = self.typing == Typing::Search;
        if is_typing || !self.filter.is_empty() {
            let cursor = if is_typing { "█" } else { "" };
            parts.push(format!("/{}{cursor}", self.filter));
        }
        parts.extend(Some(found).filter(|found| !found.is_empty()).map(str::to_owned));
        parts.extend(self.chips_and_code());
        if self.shown.grouping() != Grouping::None {
            parts.push(format!("by {}", self.shown.grouping().name()));
        }
        parts.join(" · ")
    }
}
