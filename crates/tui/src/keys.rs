//! Keys, as shown in the help lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::look::Look;
use crate::text::columns;

/// A view, in which some keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The table of functions.
    Table,
    /// The flame graph.
    Flame,
    /// Callers and callees of a function.
    Calls,
}

/// A key, and its function.
pub struct Key {
    key: &'static str,
    does: &'static str,
    views: &'static [View],
    when: When,
}

/// Condition for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Live profiles.
    Live,
    /// Comparisons.
    Compared,
    /// Profiles that are not comparisons.
    Single,
}

/// Where keys are pressed.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The current view.
    pub view: View,
    /// The profile is live.
    pub is_live: bool,
    /// The profile is a comparison.
    pub is_compared: bool,
}

impl Key {
    fn is_there(&self, place: Place) -> bool {
        let is_now = match self.when {
            When::Always => true,
            When::Live => place.is_live,
            When::Compared => place.is_compared,
            When::Single => !place.is_compared,
        };
        is_now && self.views.contains(&place.view)
    }
}

const ALL: &[View] = &[View::Table, View::Flame, View::Calls];
const TABLE: &[View] = &[View::Table];
const FLAME: &[View] = &[View::Flame];

const LISTS: &[View] = &[View::Table, View::Flame];

const fn key(key: &'static str, does: &'static str, views: &'static [View]) -> Key {
    Key { key, does, views, when: When::Always }
}

const fn only(when: When, key: Key) -> Key {
    Key { when, ..key }
}

/// Keys, those first that are used most.
const KEYS: &[Key] = &[
    key("s", "sort", TABLE),
    key("/", "filter", TABLE),
    key("/", "search", FLAME),
    key("f", "flame graph", &[View::Table, View::Calls]),
    key("f", "table", FLAME),
    key("Enter", "callers/callees", TABLE),
    key("Enter", "go there", &[View::Calls]),
    key("Enter", "zoom", FLAME),
    key("Esc", "back", &[View::Flame, View::Calls]),
    key("e", "callers/callees", FLAME),
    only(When::Compared, key("v", "before/after", FLAME)),
    only(When::Live, key("Space", "pause", ALL)),
    only(When::Single, key("p", "process", LISTS)),
    only(When::Single, key("t", "thread", LISTS)),
    only(When::Live, key("c", "cgroup", LISTS)),
    key("k", "user/kernel", ALL),
    only(When::Live, key("r", "range", ALL)),
    key("n N", "next", FLAME),
    key("d", "height", FLAME),
    key("i", "invert", FLAME),
    only(When::Single, key("a", "all rows", FLAME)),
    key("o x h b", "focus ignore hide from-here", ALL),
    key("-", "filters", ALL),
    key("w", "write SVG", ALL),
];

/// Key that shows all keys.
const HELP: Key = key("?", "all keys", ALL);
const QUIT: Key = key("q", "quit", ALL);
const MOVE: Key = key("\u{2191} \u{2193} PgUp PgDn", "move", ALL);

/// Returns the keys that work in a place.
fn keys_of(place: Place) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |of| of.is_there(place))
}

/// Returns the keys for the line at the bottom: those that fit in `width`, and always those for help and quitting.
pub fn help_line(place: Place, width: usize) -> Vec<(&'static str, &'static str)> {
    const GAP: usize = 2;
    let room = |of: &Key| columns(of.key) + 1 + columns(of.does) + GAP;
    let mut left = (width + GAP).saturating_sub(room(&HELP) + room(&QUIT));
    let mut line = Vec::new();
    for of in keys_of(place) {
        let Some(rest) = left.checked_sub(room(of)) else { continue };
        left = rest;
        line.push((of.key, of.does));
    }
    line.extend([&HELP, &QUIT].map(|of| (of.key, of.does)));
    line
}

/// Draws the line of keys.
pub fn draw_line(line: &[(&str, &str)], area: Rect, look: Look, buffer: &mut Buffer) {
    let mut x = area.left();
    for (key, does) in line {
        let room = |x: u16| usize::from(area.right().saturating_sub(x));
        (x, _) = buffer.set_stringn(x, area.y, key, room(x), look.strong());
        (x, _) = buffer.set_stringn(x, area.y, format!(" {does}  "), room(x), look.faint());
    }
}

/// Draws all keys of a place, one in a line, in as many columns as they need.
pub fn draw_all(place: Place, area: Rect, look: Look, buffer: &mut Buffer) {
    let all: Vec<&Key> = std::iter::once(&MOVE).chain(keys_of(place)).chain([&QUIT]).collect();
    let mut x = area.left();
    for column in all.chunks(usize::from(area.height).max(1)) {
        let widest = |part: fn(&Key) -> &'static str| {
            column.iter().map(|of| columns(part(of)) as u16).max().unwrap_or(0)
        };
        let does = x.saturating_add(widest(|of| of.key) + 2);
        let room = |x: u16| usize::from(area.right().saturating_sub(x));
        for (of, y) in column.iter().zip(area.top()..) {
            buffer.set_stringn(x, y, of.key, room(x), look.strong());
            buffer.set_stringn(does, y, of.does, room(does), look.faint());
        }
        x = does.saturating_add(widest(|of| of.does) + 3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { view: View::Table, is_live: true, is_compared: false };

    fn screen(width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw_all(PLACE, area, Look::default(), &mut buffer);
        let rows = (0..height)
            .map(|y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>());
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn keys_take_one_line_and_all_are_behind_one_of_them() {
        for width in [24, 40, 80, 200] {
            let line = help_line(PLACE, width);
            let room = |(key, does): &(&str, &str)| columns(key) + 1 + columns(does);
            let used = line.iter().map(room).sum::<usize>() + 2 * (line.len() - 1);
            assert!(used <= width, "{width}: {line:?}");
            assert_eq!(line[line.len() - 2..], [("?", "all keys"), ("q", "quit")]);
        }
        for (width, height) in [(80, 21), (120, 50), (80, 8)] {
            let screen = screen(width, height);
            for of in keys_of(PLACE) {
                assert!(screen.contains(of.does), "{width}x{height}: {}\n{screen}", of.does);
            }
        }
    }
}
