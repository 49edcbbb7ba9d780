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

impl Key {
    fn is_there(&self, view: View, is_live: bool, is_compared: bool) -> bool {
        let is_now = match self.when {
            When::Always => true,
            When::Live => is_live,
            When::Compared => is_compared,
            When::Single => !is_compared,
        };
        is_now && self.views.contains(&view)
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

const KEYS: &[Key] = &[
    key("s", "sort", TABLE),
    key("/", "filter", TABLE),
    key("/", "search", FLAME),
    key("n N", "next", FLAME),
    only(When::Single, key("p", "process", LISTS)),
    only(When::Single, key("t", "thread", LISTS)),
    only(When::Live, key("c", "cgroup", LISTS)),
    key("k", "user/kernel", ALL),
    only(When::Live, key("Space", "pause", ALL)),
    only(When::Live, key("r", "range", ALL)),
    key("f", "flame graph", &[View::Table, View::Calls]),
    key("f", "table", FLAME),
    key("Enter", "callers/callees", TABLE),
    key("Enter", "go there", &[View::Calls]),
    key("Enter", "zoom", FLAME),
    key("Esc", "back", &[View::Flame, View::Calls]),
    key("e", "callers/callees", FLAME),
    only(When::Compared, key("v", "before/after", FLAME)),
    key("d", "height", FLAME),
    key("i", "invert", FLAME),
    key("o x h b", "focus ignore hide from-here", ALL),
    key("-", "filters", ALL),
    key("w", "write SVG", ALL),
    key("q", "quit", ALL),
];

/// Returns the help lines for a view, limited to `width`. Each is a list of keys and descriptions.
pub fn help_lines(
    view: View,
    is_live: bool,
    is_compared: bool,
    width: usize,
) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut lines = vec![Vec::new()];
    let mut used = 0;
    let keys = KEYS.iter().filter(|of| of.is_there(view, is_live, is_compared));
    for of in keys {
        let room = columns(of.key) + 1 + columns(of.does);
        let gap = if used == 0 { 0 } else { 2 };
        if used > 0 && used + gap + room > width {
            lines.push(Vec::new());
            used = room;
        } else {
            used += gap + room;
        }
        if let Some(line) = lines.last_mut() {
            line.push((of.key, of.does));
        }
    }
    lines
}

/// Draws help lines from the top of an area.
pub fn draw(lines: &[Vec<(&str, &str)>], area: Rect, look: Look, buffer: &mut Buffer) {
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        let mut x = area.left();
        for (key, does) in line {
            let room = |x: u16| usize::from(area.right().saturating_sub(x));
            (x, _) = buffer.set_stringn(x, y, key, room(x), look.strong());
            (x, _) = buffer.set_stringn(x, y, format!(" {does}  "), room(x), look.faint());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_there_whatever_the_width() {
        for width in [10, 40, 80, 200] {
            let lines = help_lines(View::Table, true, false, width);
            assert_eq!(lines.iter().map(Vec::len).sum::<usize>(), 14);
            assert!(
                width < 20
                    || lines.iter().all(|line| {
                        let room = |(key, does): &(&str, &str)| columns(key) + 1 + columns(does);
                        line.iter().map(room).sum::<usize>() + 2 * (line.len() - 1) <= width
                    })
            );
        }
        assert_eq!(help_lines(View::Table, true, false, 80).len(), 3);
        assert_eq!(help_lines(View::Table, true, false, 200).len(), 1);
    }
}
