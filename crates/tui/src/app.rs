//! The state of the views, events that change it, and the screen that shows it.

use std::collections::BTreeMap;

use pyrograph_analyze::{FunctionName, RootedRow};
use pyrograph_profile::{LabelOptions, Profile};
use pyrograph_render::percent;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;

use crate::calls::Calls;
use crate::flame::Flame;
use crate::keys::{self, View, help_lines};
use crate::look::Look;
use crate::page::draw_head;
use crate::shown::{Code, Grouping, Shown};
use crate::table::{Cursor, Step, Table};
use crate::text::fit;

/// How an [`App`] begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Profiles go on to change: there are keys to pause, and for the range of time.
    pub live: bool,
    /// Colours.
    pub look: Look,
    /// Functions are sorted by their totals.
    pub by_total: bool,
    /// Functions that are shown.
    pub code: Code,
    /// By what functions are kept apart.
    pub grouping: Grouping,
}

/// Statements about a profile, beside what it says itself.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What was recorded of what: `cpu-clock of the machine`.
    pub subject: String,
    /// Range of time: `last 10 s`.
    pub span: Option<String>,
    /// Number of samples, or of what else is counted.
    pub samples: Option<u64>,
    /// One of these: `sample`.
    pub noun: String,
    /// Number of those that were lost.
    pub lost: u64,
    /// Nothing is recorded for now.
    pub paused: bool,
    /// Why it is over, if it is.
    pub ended: Option<String>,
    /// What takes the stacks.
    pub engine: Option<String>,
}

/// What the owner of an [`App`] is to do after an event.
#[derive(Debug)]
pub enum Action {
    /// Nothing: the screen is as it was.
    None,
    /// Draw the screen anew.
    Draw,
    /// Leave.
    Quit,
    /// Let the shell go on, as Ctrl-Z has it.
    Suspend,
    /// Begin or end a pause.
    Pause,
    /// Show the next range of time.
    NextSpan,
    /// Find the control groups of processes, for [`App::set_control_groups`].
    FindGroups,
    /// Write a picture of what is shown.
    Write(Box<Profile>, LabelOptions),
}

/// The views of a profile, and how they are looked at.
#[derive(Debug)]
pub struct App {
    settings: Settings,
    status: Status,
    shown: Shown,
    view: View,
    /// The profile or how it is looked at has changed since the view was made.
    stale: bool,
    rows: Vec<RootedRow>,
    /// Those of them that the filter keeps.
    matching: Vec<usize>,
    cursor: Cursor,
    flame: Flame,
    calls: Calls,
    /// Text that functions are filtered by, or frames searched for.
    filter: String,
    is_typing: bool,
    message: Option<String>,
    /// Where the list was drawn last.
    list: Rect,
}

impl App {
    /// Nothing is there to be shown yet.
    pub fn new(settings: Settings) -> Self {
        let mut shown = Shown::default();
        shown.code = settings.code;
        shown.set_grouping(settings.grouping);
        Self {
            settings,
            status: Status::default(),
            shown,
            view: View::Table,
            stale: true,
            rows: Vec::new(),
            matching: Vec::new(),
            cursor: Cursor::default(),
            flame: Flame::default(),
            calls: Calls::default(),
            filter: String::new(),
            is_typing: false,
            message: None,
            list: Rect::default(),
        }
    }

    /// Shows another profile: its shown value.
    pub fn update(&mut self, profile: Profile, status: Status) {
        self.shown.update(profile);
        self.status = status;
        self.stale = true;
    }

    /// By what functions are kept apart.
    pub fn grouping(&self) -> Grouping {
        self.shown.grouping()
    }

    /// Takes the control groups of processes, for [`Grouping::ControlGroup`].
    pub fn set_control_groups(&mut self, groups: BTreeMap<i32, String>) {
        self.shown.set_groups(groups);
        self.stale = true;
    }

    /// Says something in the line above the keys, until the next key.
    pub fn say(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    /// Takes an event.
    pub fn handle(&mut self, event: &Event) -> Action {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.message = None;
                self.key(key)
            }
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Resize(..) => Action::Draw,
            _ => Action::None,
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Action {
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Char('c'), true) => return Action::Quit,
            (KeyCode::Char('z'), true) => return Action::Suspend,
            (_, true) => return Action::None,
            (code, false) if self.is_typing => self.type_filter(code),
            (KeyCode::Char('q'), _) => return Action::Quit,
            (KeyCode::Char(' '), _) if self.settings.live => return Action::Pause,
            (KeyCode::Char('r'), _) if self.settings.live => return Action::NextSpan,
            (KeyCode::Char('w'), _) => return self.write(),
            (KeyCode::Char('/'), _) if self.view != View::Calls => self.is_typing = true,
            (KeyCode::Char('k'), _) => {
                self.shown.code = self.shown.code.next();
                self.stale = true;
            }
            (KeyCode::Char('f'), _) => {
                self.show(if self.view == View::Flame { View::Table } else { View::Flame });
            }
            (KeyCode::Char('p'), _) => self.group(Grouping::Process),
            (KeyCode::Char('t'), _) => self.group(Grouping::Thread),
            (KeyCode::Char('c'), _) if self.settings.live => {
                self.group(Grouping::ControlGroup);
                return Action::FindGroups;
            }
            (code, _) => match self.view {
                View::Table => self.table_key(code),
                View::Flame => self.flame_key(code),
                View::Calls => self.calls_key(code),
            },
        }
        Action::Draw
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.chars().count() < 200 => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.flame.search(&self.filter);
        self.cursor.selected = 0;
        self.stale = true;
    }

    fn table_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('s') => self.sort(!self.settings.by_total),
            KeyCode::Enter => self.open_calls(),
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.flame.search("");
                self.stale = true;
            }
            code => {
                if let Some(step) = step_of(code) {
                    self.cursor.go(step, self.matching.len());
                }
            }
        }
    }

    fn flame_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.flame.zoom_in(),
            KeyCode::Esc | KeyCode::Backspace if self.flame.zoom_out() => {}
            KeyCode::Esc | KeyCode::Backspace => self.show(View::Table),
            KeyCode::Char('d') => self.flame.change_height(),
            KeyCode::Char('i') => self.flame.invert(),
            KeyCode::PageUp | KeyCode::PageDown => {
                self.flame.scroll(code == KeyCode::PageUp);
            }
            KeyCode::Left => self.flame.step(Step::First),
            KeyCode::Right => self.flame.step(Step::Last),
            KeyCode::Up => self.flame.step(Step::Up),
            KeyCode::Down => self.flame.step(Step::Down),
            _ => {}
        }
    }

    fn calls_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.stale |= self.calls.enter(),
            KeyCode::Esc | KeyCode::Backspace => {
                if !self.calls.back() {
                    self.show(View::Table);
                }
                self.stale = true;
            }
            code => {
                if let Some(step) = step_of(code) {
                    self.calls.go(step);
                }
            }
        }
    }

    fn mouse(&mut self, mouse: &MouseEvent) -> Action {
        let (x, y) = (mouse.column, mouse.row);
        match (self.view, mouse.kind) {
            (View::Flame, MouseEventKind::Moved) if self.flame.point(x, y) => {}
            (View::Flame, MouseEventKind::Down(MouseButton::Left)) => {
                self.flame.point(x, y);
                self.flame.zoom_in();
            }
            (View::Flame, MouseEventKind::Down(MouseButton::Right)) => {
                self.flame.zoom_out();
            }
            (View::Flame, MouseEventKind::ScrollUp) => self.flame.scroll(true),
            (View::Flame, MouseEventKind::ScrollDown) => self.flame.scroll(false),
            (View::Table, MouseEventKind::Down(MouseButton::Left)) => self.click(x, y),
            (View::Table, MouseEventKind::ScrollUp) => self.scroll_table(Step::Up),
            (View::Table, MouseEventKind::ScrollDown) => self.scroll_table(Step::Down),
            (View::Calls, MouseEventKind::ScrollUp) => self.calls.go(Step::Up),
            (View::Calls, MouseEventKind::ScrollDown) => self.calls.go(Step::Down),
            _ => return Action::None,
        }
        Action::Draw
    }

    fn scroll_table(&mut self, step: Step) {
        (0..3).for_each(|_| self.cursor.go(step, self.matching.len()));
    }

    /// Selects a row; opens it if it is selected already. Headings sort.
    fn click(&mut self, x: u16, y: u16) {
        if y == self.list.y {
            match x.saturating_sub(self.list.x) {
                0..8 => self.sort(false),
                8..16 => self.sort(true),
                _ => {}
            }
            return;
        }
        let line = usize::from(y.saturating_sub(self.list.y + 1));
        let row = self.cursor.at(line, self.matching.len()).filter(|_| y > self.list.y);
        match row {
            Some(row) if row == self.cursor.selected => self.open_calls(),
            Some(row) => self.cursor.selected = row,
            None => {}
        }
    }

    fn sort(&mut self, by_total: bool) {
        self.settings.by_total = by_total;
        self.stale = true;
    }

    fn group(&mut self, grouping: Grouping) {
        let is_off = self.shown.grouping() == grouping;
        self.shown.set_grouping(if is_off { Grouping::None } else { grouping });
        self.stale = true;
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.stale = true;
    }

    fn open_calls(&mut self) {
        let selected = self.matching.get(self.cursor.selected);
        let Some(of) = selected.and_then(|&row| self.rows.get(row)) else { return };
        let root = (self.shown.grouping() != Grouping::None).then(|| of.root.clone());
        let (name, module) = (of.row.name.clone(), of.row.module.clone());
        self.calls.open(FunctionName { root, name, module });
        self.show(View::Calls);
    }

    fn write(&mut self) -> Action {
        if self.shown.whole() == 0 {
            self.say("nothing was recorded yet");
            return Action::Draw;
        }
        let zoom = if self.view == View::Flame { self.flame.zoom() } else { &[] };
        Action::Write(Box::new(self.shown.picture(zoom)), self.shown.labels())
    }

    /// Makes what the present view shows, if that is not done.
    fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        match self.view {
            View::Table => self.refresh_table(),
            View::Flame => self.flame.update(&self.shown),
            View::Calls => self.calls.update(&self.shown),
        }
    }

    fn refresh_table(&mut self) {
        // What was selected stays so where it goes; the first row is the first.
        let place = self.cursor.selected;
        let selected = self.matching.get(place).filter(|_| place > 0);
        let key = |of: &RootedRow| (of.root.clone(), of.row.name.clone(), of.row.module.clone());
        let selected = selected.and_then(|&row| self.rows.get(row)).map(key);
        self.rows = self.shown.rows(self.settings.by_total);
        let wanted = self.filter.to_lowercase();
        let matches = |of: &RootedRow| {
            let is_in = |text: &str| text.to_lowercase().contains(&wanted);
            is_in(&of.row.name) || is_in(&of.row.module) || is_in(&of.root)
        };
        let rows = self.rows.iter().enumerate();
        self.matching =
            rows.filter(|(_, of)| wanted.is_empty() || matches(of)).map(|(at, _)| at).collect();
        if let Some(selected) = selected {
            let is_it = |&row: &usize| key(&self.rows[row]) == selected;
            self.cursor.selected = self.matching.iter().position(is_it).unwrap_or(place);
        }
    }

    /// Draws the whole screen.
    pub fn render(&mut self, buffer: &mut Buffer) {
        self.refresh();
        let area = buffer.area;
        buffer.reset();
        if area.width < 20 || area.height < 6 {
            let text = fit("the terminal is too small", usize::from(area.width));
            buffer.set_stringn(
                area.x,
                area.y,
                text,
                usize::from(area.width),
                self.settings.look.strong(),
            );
            return;
        }
        let look = self.settings.look;
        let line = |y: u16| Rect { y, height: 1, ..area };
        draw_head(&self.status, &self.shown, look, line(area.y), buffer);
        let help = help_lines(self.view, self.settings.live, usize::from(area.width));
        // On a low terminal the view comes first.
        let help_height = (help.len() as u16).min(area.height / 4);
        let bottom = area.bottom() - help_height;
        keys::draw(&help, Rect { y: bottom, height: help_height, ..area }, look, buffer);
        let body = Rect { y: area.y + 2, height: bottom - area.y - 2, ..area };
        let state = match self.view {
            View::Table => self.draw_table(body, buffer),
            View::Flame => self.draw_flame(body, buffer),
            View::Calls => {
                self.calls.draw(&self.shown, look, body, buffer);
                self.state_of_calls()
            }
        };
        let state = self.message.as_deref().unwrap_or(&state);
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y + 1, fit(state, width), width, look.faint());
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

    fn draw_flame(&mut self, area: Rect, buffer: &mut Buffer) -> String {
        let last = Rect { y: area.bottom() - 1, height: 1, ..area };
        let graph = Rect { height: area.height - 1, ..area };
        let narrow = self.flame.draw(self.settings.look, graph, buffer);
        let width = usize::from(area.width);
        let detail = fit(&self.flame.detail(&self.shown), width);
        buffer.set_stringn(last.x, last.y, detail, width, self.settings.look.strong());
        let mut state = Vec::new();
        if !self.filter.is_empty() {
            let (count, value) = self.flame.matches();
            state.push(format!("{count} frames match, {}", percent(value, self.shown.whole())));
        }
        if narrow > 0 {
            state.push(format!("{narrow} frames too narrow to be drawn"));
        }
        self.state(&state.join(", "))
    }

    fn state_of_calls(&self) -> String {
        let Some(of) = self.calls.function() else { return String::new() };
        let root = of.root.as_ref().map(|root| format!(" in {root}")).unwrap_or_default();
        format!(
            "callers and callees of {}{root}, over all places · {}",
            of.name,
            self.shown.code.name()
        )
    }

    /// How the profile is looked at.
    fn state(&self, found: &str) -> String {
        let mut parts = Vec::new();
        if self.is_typing || !self.filter.is_empty() {
            let cursor = if self.is_typing { "█" } else { "" };
            parts.push(format!("/{}{cursor}", self.filter));
        }
        parts.extend(Some(found).filter(|found| !found.is_empty()).map(str::to_owned));
        parts.push(self.shown.code.name().to_owned());
        if self.shown.grouping() != Grouping::None {
            parts.push(format!("by {}", self.shown.grouping().name()));
        }
        parts.join(" · ")
    }
}

/// The step of a key in a list.
fn step_of(code: KeyCode) -> Option<Step> {
    Some(match code {
        KeyCode::Up => Step::Up,
        KeyCode::Down => Step::Down,
        KeyCode::PageUp => Step::PageUp,
        KeyCode::PageDown => Step::PageDown,
        KeyCode::Home => Step::First,
        KeyCode::End => Step::Last,
        _ => return None,
    })
}
