//! Text in cells: control characters are replaced, and long text is truncated.

use pyrograph_render::cut_apart;
use pyrograph_terminal::plain;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the width of a text in columns.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Returns one line of text, safe to draw, truncated with `…` if it is wider than `width` columns.
pub fn fit(text: &str, width: usize) -> String {
    let text = line(text);
    if columns(&text) <= width {
        return text;
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = used + c.width().unwrap_or(0);
        if next + 1 > width {
            break;
        }
        cut.push(c);
        used = next;
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// As [`fit`], truncated in the middle: in paths and type names the end is the most informative part.
pub fn fit_middle(text: &str, width: usize) -> String {
    let text = line(text);
    if columns(&text) <= width {
        return text;
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let end = room / 2;
    let mut tail = String::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > end {
            break;
        }
        tail.insert(0, c);
    }
    let head = fit(&text, width - columns(&tail));
    format!("{head}{tail}")
}

/// Truncates several texts as [`fit_middle`] does, but keeps different texts different.
pub fn fit_apart(texts: &[&str], width: usize) -> Vec<String> {
    let lines: Vec<String> = texts.iter().map(|text| line(text)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    cut_apart(&lines, |text| fit_middle(text, width), |text| columns(text) <= width)
}

/// As [`fit_middle`], padded with blanks to the width.
pub fn padded(text: &str, width: usize) -> String {
    let mut text = fit_middle(text, width);
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&text))));
    text
}

/// Returns the text on one line, without control characters.
fn line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(fit("main", 4), "main");
        assert_eq!(fit("main", 3), "ma…");
        assert_eq!(fit("main", 0), "");
        assert_eq!(fit_middle("std::vector<int>::push_back", 11), "std::…_back");
        assert_eq!(fit_middle("main", 1), "…");
        assert_eq!(padded("é", 3), "é  ");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("計算"), 4);
        assert_eq!(fit("計算する", 5), "計算…");
        assert_eq!(columns(&padded("計算する", 6)), 6);
    }

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(fit("a\x1b[31m\nb\tc", 20), "a\u{fffd}[31m b c");
    }
}
