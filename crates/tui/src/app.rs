//! State of the views, event handling, and drawing.

use pyrograph_analyze::{AsOne, Diff, Filter, FunctionChange, FunctionName, RootedRow, ShownNames};
use pyrograph_profile::{LabelOptions, Profile};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;

use crate::calls::Calls;
use crate::changes;
use crate::chips::Chip;
use crate::flame::Flame;
use crate::keys::View;
use crate::look::Look;
use crate::search::Search;
use crate::shown::{Code, Grouping, Shown};
use crate::table::{Cursor, Step};

mod draw;

/// Initial settings of an [`App`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// True if profiles change over time: there are keys for pausing, and for the time range.
    pub live: bool,
    /// Colours.
    pub look: Look,
    /// Sort functions by total.
    pub by_total: bool,
    /// Which functions are shown.
    pub code: Code,
    /// Grouping of functions.
    pub grouping: Grouping,
    /// Show the flame graph first, instead of the table.
    pub flame_first: bool,
    /// Show full names of functions instead of short ones.
    pub keeps_names: bool,
}

/// Information about a profile that is not in the profile.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Event and target of the recording: `cpu-clock of the machine`.
    pub subject: String,
    /// Time range: `last 10 s`; for a file, a description of it.
    pub span: Option<String>,
    /// Number of samples, or of other events, in a live recording.
    pub samples: Option<u64>,
    /// Singular of what is counted: `sample`.
    pub noun: String,
    /// Number of lost samples.
    pub lost: u64,
    /// The recording is paused.
    pub paused: bool,
    /// Reason why the recording has ended, if it has.
    pub ended: Option<String>,
    /// Name of the engine that takes stacks.
    pub engine: Option<String>,
}

/// Action that the owner of an [`App`] has to perform after an event.
#[derive(Debug)]
pub enum Action {
    /// Nothing: the screen is unchanged.
    None,
    /// Redraw the screen.
    Draw,
    /// Quit.
    Quit,
    /// Suspend, as with Ctrl-Z.
    Suspend,
    /// Pause or resume.
    Pause,
    /// Switch to the next time range.
    NextSpan,
    /// Write a picture of the current view.
    Write(Box<Profile>, LabelOptions),
    /// Write a picture of the [comparison](App::comparison).
    WriteComparison,
    /// Compare both sides again with this filter and these functions, for [`App::compare`].
    Compare(Box<Filter>, Code),
}

/// Text input mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typing {
    /// None: keys are commands.
    Nothing,
    /// Text for filtering functions or searching frames.
    Search,
    /// A filter, as on the command line.
    Filter,
}

/// Parts of the views that are out of date.
#[derive(Clone, Copy, Debug)]
struct Stale {
    rows: bool,
    matching: bool,
    flame: bool,
    calls: bool,
}

impl Stale {
    const ALL: Self = Self { rows: true, matching: true, flame: true, calls: true };
}

/// Views of a profile or a comparison, with their state.
#[derive(Debug)]
pub struct App {
    settings: Settings,
    status: Status,
    shown: Shown,
    compared: Option<Box<Diff>>,
    view: View,
    stale: Stale,
    rows: Vec<RootedRow>,
    /// Rows of a comparison, used instead of `rows`.
    changes: Vec<FunctionChange>,
    /// Indexes of the rows that match the search.
    matching: Vec<usize>,
    cursor: Cursor,
    flame: Flame,
    calls: Calls,
    /// Text for filtering functions or searching frames.
    filter: String,
    /// Text of a filter while it is typed.
    words: String,
    typing: Typing,
    message: Option<String>,
    /// All keys are shown, until the next one.
    shows_keys: bool,
    /// Area in which the list was last drawn.
    list: Rect,
}

impl App {
    /// Creates views without a profile.
    pub fn new(settings: Settings) -> Self {
        // In a live profile, the same function may appear later under a name with other numbers.
        let as_one = if settings.live { AsOne::Identity } else { AsOne::Tiers };
        let mut shown = Shown::new((!settings.keeps_names).then_some(as_one));
        shown.code = settings.code;
        shown.set_grouping(settings.grouping);
        Self {
            settings,
            status: Status::default(),
            shown,
            compared: None,
            view: if settings.flame_first { View::Flame } else { View::Table },
            stale: Stale::ALL,
            rows: Vec::new(),
            changes: Vec::new(),
            matching: Vec::new(),
            cursor: Cursor::default(),
            flame: Flame::default(),
            calls: Calls::default(),
            filter: String::new(),
            words: String::new(),
            typing: Typing::Nothing,
            message: None,
            shows_keys: false,
            list: Rect::default(),
        }
    }

    /// Replaces the profile. Its `shown` column is displayed.
    pub fn update(&mut self, profile: Profile, status: Status) {
        let names = self.shown.names().clone();
        self.shown.update(profile);
        self.follow(&names);
        self.status = status;
        self.stale = Stale::ALL;
    }

    /// Updates names of selected functions that have changed because they became ambiguous.
    fn follow(&mut self, before: &ShownNames) {
        let moved = before.moved(self.shown.names());
        if moved.is_empty() {
            return;
        }
        let follow = |name: &mut String| {
            if let Some(new) = moved.get(name) {
                name.clone_from(new);
            }
        };
        self.rows.iter_mut().for_each(|of| follow(&mut of.row.name));
        self.flame.names_of_zoom().for_each(follow);
        self.calls.names().for_each(follow);
    }

    /// Shows a comparison. The owner has to apply filters: see [`Action::Compare`].
    pub fn compare(&mut self, diff: Diff, status: Status) {
        let mut sides = diff.sides();
        sides.unfiltered = vec![diff.before.total, diff.after.total];
        self.shown.update_as_filtered(sides);
        self.compared = Some(Box::new(diff));
        self.status = status;
        self.stale = Stale::ALL;
    }

    /// Returns the comparison, if one is shown.
    pub fn comparison(&self) -> Option<&Diff> {
        self.compared.as_deref()
    }

    /// Removes the last filter, which cannot be applied, and shows the reason.
    pub fn refuse_filter(&mut self, why: impl Into<String>) {
        self.shown.take_off();
        self.say(why);
    }

    /// Returns the grouping of functions.
    pub fn grouping(&self) -> Grouping {
        self.shown.grouping()
    }

    /// Shows a message in the line above the keys, until the next key.
    pub fn say(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    /// Handles an event.
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
        let closes_help = std::mem::take(&mut self.shows_keys);
        let is_compared = self.compared.is_some();
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Char('c'), true) => return Action::Quit,
            (KeyCode::Char('z'), true) => return Action::Suspend,
            (_, true) => return Action::None,
            (code, false) if self.typing == Typing::Search => self.type_search(code),
            (code, false) if self.typing == Typing::Filter => return self.type_words(code),
            (KeyCode::Char('?') | KeyCode::Esc, _) if closes_help => {}
            (KeyCode::Char('?'), _) => self.shows_keys = true,
            (KeyCode::Char('q'), _) => return Action::Quit,
            (KeyCode::Char(' '), _) if self.settings.live => return Action::Pause,
            (KeyCode::Char('r'), _) if self.settings.live => return Action::NextSpan,
            (KeyCode::Char('w'), _) => return self.write(),
            (KeyCode::Char('/'), _) if self.view != View::Calls => self.typing = Typing::Search,
            (KeyCode::Char('-'), _) => self.typing = Typing::Filter,
            (KeyCode::Char(c @ ('o' | 'x' | 'h' | 'b')), _) => return self.filter_by_function(c),
            (KeyCode::Backspace, _) if !self.shown.chips().is_empty() => {
                self.shown.take_off();
                return self.filtered();
            }
            (KeyCode::Char('k'), _) => {
                self.shown.code = self.shown.code.next();
                return self.filtered();
            }
            (KeyCode::Char('f'), _) => {
                self.view = if self.view == View::Flame { View::Table } else { View::Flame };
            }
            (KeyCode::Char('p'), _) if !is_compared => self.group(Grouping::Process),
            (KeyCode::Char('t'), _) if !is_compared => self.group(Grouping::Thread),
            (KeyCode::Char('c'), _) if self.settings.live => self.group(Grouping::ControlGroup),
            (KeyCode::Char('v'), _) if is_compared => self.flame.change_side(&self.shown),
            (code, _) => match self.view {
                View::Table => self.table_key(code),
                View::Flame => self.flame_key(code),
                View::Calls => self.calls_key(code),
            },
        }
        Action::Draw
    }

    fn type_search(&mut self, code: KeyCode) {
        self.typing = type_text(&mut self.filter, code, Typing::Search);
        self.flame.search(&self.filter, &self.shown);
        self.cursor.selected = 0;
        self.stale.matching = true;
    }

    fn type_words(&mut self, code: KeyCode) -> Action {
        self.typing = type_text(&mut self.words, code, Typing::Filter);
        if code != KeyCode::Enter {
            return Action::Draw;
        }
        let words = std::mem::take(&mut self.words);
        self.put_on(Chip::read(&words))
    }

    /// Adds a filter by the selected function.
    fn filter_by_function(&mut self, key: char) -> Action {
        let word = match key {
            'o' => "focus",
            'x' => "ignore",
            'h' => "hide",
            _ => "from-frame",
        };
        match self.selected_function() {
            Some(of) => self.put_on(Chip::of_function(word, &self.shown.names_of(&of.name))),
            None => Action::None,
        }
    }

    fn put_on(&mut self, chip: Result<Chip, String>) -> Action {
        match chip.and_then(|chip| self.shown.put_on(chip, self.compared.is_some())) {
            Ok(()) => self.filtered(),
            Err(why) => {
                self.say(why);
                Action::Draw
            }
        }
    }

    /// Updates the views after filters have changed.
    fn filtered(&mut self) -> Action {
        self.stale = Stale::ALL;
        match self.compared {
            Some(_) => Action::Compare(Box::new(self.shown.filter()), self.shown.code),
            None => Action::Draw,
        }
    }

    fn table_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('s') => self.sort(!self.settings.by_total),
            KeyCode::Enter => self.open_calls(),
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.flame.search("", &self.shown);
                self.stale.matching = true;
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
            KeyCode::Esc | KeyCode::Backspace => self.view = View::Table,
            KeyCode::Char('e') => self.open_calls(),
            KeyCode::Char(c @ ('n' | 'N')) => self.flame.next_match(c == 'N'),
            KeyCode::Char('d') => self.flame.change_height(),
            KeyCode::Char('i') => self.flame.invert(),
            KeyCode::Char('a') => self.flame.change_rows(&self.shown),
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
            KeyCode::Enter => self.stale.calls |= self.calls.enter(),
            KeyCode::Esc | KeyCode::Backspace => {
                if !self.calls.back() {
                    self.view = View::Table;
                }
                self.stale.calls = true;
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

    /// Selects a row; opens it if it is already selected. A click on a heading sorts.
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
        (self.stale.rows, self.stale.matching) = (true, true);
    }

    fn group(&mut self, grouping: Grouping) {
        let is_off = self.shown.grouping() == grouping;
        self.shown.set_grouping(if is_off { Grouping::None } else { grouping });
        self.stale = Stale::ALL;
    }

    /// Returns the function selected in the current view.
    fn selected_function(&self) -> Option<FunctionName> {
        let row = self.matching.get(self.cursor.selected);
        let of = |name: &str, module: &str| FunctionName {
            root: None,
            name: name.to_owned(),
            module: module.to_owned(),
        };
        match (self.view, &self.compared) {
            (View::Flame, _) => self.flame.function().map(|(name, module)| of(name, module)),
            (View::Calls, _) => self.calls.function().cloned(),
            (View::Table, Some(_)) => {
                self.changes.get(*row?).map(|change| of(&change.name, &change.module))
            }
            (View::Table, None) => {
                let found = self.rows.get(*row?)?;
                let root = (self.shown.grouping() != Grouping::None).then(|| found.root.clone());
                Some(FunctionName { root, ..of(&found.row.name, &found.row.module) })
            }
        }
    }

    fn open_calls(&mut self) {
        let Some(function) = self.selected_function() else { return };
        self.calls.open(function);
        self.view = View::Calls;
        self.stale.calls = true;
    }

    fn write(&mut self) -> Action {
        if self.compared.is_some() {
            return Action::WriteComparison;
        }
        if self.shown.whole() == 0 {
            self.say("nothing was recorded yet");
            return Action::Draw;
        }
        let zoom = if self.view == View::Flame { self.flame.zoom() } else { &[] };
        Action::Write(Box::new(self.shown.picture(zoom)), self.shown.labels())
    }

    /// Recomputes the contents of the current view, if they are out of date.
    fn refresh(&mut self) {
        let take = |stale: &mut bool| std::mem::take(stale);
        match self.view {
            View::Table if self.stale.rows || self.stale.matching => self.refresh_table(),
            View::Flame if take(&mut self.stale.flame) => match &self.compared {
                Some(diff) => self.flame.compare(diff.graph(0.0), &self.shown),
                None => self.flame.update(&self.shown),
            },
            View::Calls if take(&mut self.stale.calls) => {
                self.calls.update(&self.shown, self.compared.is_some());
            }
            _ => {}
        }
    }

    fn refresh_table(&mut self) {
        // Keep the same function selected if it moves, except in the first row.
        let place = self.cursor.selected;
        let selected = self.matching.get(place).filter(|_| place > 0);
        let selected = selected.map(|&row| self.key_of(row).map(str::to_owned));
        if std::mem::take(&mut self.stale.rows) {
            let (by_total, code) = (self.settings.by_total, self.shown.code);
            match &self.compared {
                Some(diff) => self.changes = changes::rows(diff, code, by_total),
                None => self.rows = self.shown.rows(by_total),
            }
        }
        self.stale.matching = false;
        let wanted = Search::new(&self.filter);
        let matches = |row: &usize| {
            let [name, module, root] = self.key_of(*row);
            wanted.is_none()
                || wanted.is_in(module)
                || wanted.is_in(root)
                || wanted.finds(name, &self.shown)
        };
        let rows = self.rows.len().max(self.changes.len());
        self.matching = (0..rows).filter(matches).collect();
        if let Some(selected) = selected {
            let is_it = |&row: &usize| self.key_of(row) == selected;
            self.cursor.selected = self.matching.iter().position(is_it).unwrap_or(place);
        }
    }

    /// Returns name, module and root of a row.
    fn key_of(&self, row: usize) -> [&str; 3] {
        match (self.changes.get(row), self.rows.get(row)) {
            (Some(of), _) => [&of.name, &of.module, ""],
            (None, Some(of)) => [&of.row.name, &of.row.module, &of.root],
            (None, None) => [""; 3],
        }
    }
}

/// Applies a key to a text; returns the new input mode.
fn type_text(text: &mut String, code: KeyCode, typing: Typing) -> Typing {
    match code {
        KeyCode::Char(c) if text.chars().count() < 200 => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Enter => return Typing::Nothing,
        KeyCode::Esc => {
            text.clear();
            return Typing::Nothing;
        }
        _ => {}
    }
    typing
}

/// Returns the step that a key makes in a list.
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
