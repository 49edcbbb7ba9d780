//! External text: escaping for XML and for single lines, its width in pictures, and how it is cut.

use std::borrow::Cow;

use pyrograph_names::{elide_arguments, without_hash};

/// Appends external text with escapes for XML content and quoted attributes. Characters that XML does not allow or
/// that change the direction of text are replaced.
pub(crate) fn escape(out: &mut String, text: &str) {
    let mut clean = 0;
    for (at, c) in text.char_indices() {
        let replacement = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\t' | '\n' | '\r' => " ",
            '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}",
            '\u{2028}' | '\u{2029}' => " ",
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "\u{fffd}",
            _ => continue,
        };
        out.push_str(&text[clean..at]);
        out.push_str(replacement);
        clean = at + c.len_utf8();
    }
    out.push_str(&text[clean..]);
}

/// Escapes text such that it stays on one line: line ends, control characters, and characters that change the
/// direction of text are written as in Rust, `\n`, `\u{1b}`. Such characters occur because programs choose the names
/// of their threads.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| !breaks_line(c)) {
        return text.into();
    }
    let mut out = String::new();
    for c in text.chars() {
        match breaks_line(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out.into()
}

fn breaks_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Minimum number of characters of a name that is cut; fewer are not informative.
const LEAST_LETTERS: usize = 4;

/// Suffixes after a dot that come from compilers and file systems.
#[rustfmt::skip]
const SUFFIXES: &[&str] = &[
    "cold", "part", "constprop", "isra", "llvm", "lto_priv", "localalias", "so", "dll", "exe", "py", "pyc",
    "pyx", "js", "mjs", "cjs", "ts", "rb", "php", "lua", "pl", "c", "cc", "cpp", "cxx", "h", "hpp", "rs", "go",
    "java", "kt",
];

/// Estimated widths of characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metrics {
    /// Font size in pixels.
    pub(crate) size: f64,
    /// Width of every character as a share of the font size; `None` for usual proportions.
    pub(crate) uniform: Option<f64>,
}

impl Metrics {
    /// Estimated width of a text in pixels. The reader's font is unknown; the assumed proportions are of the widest
    /// common sans-serif font, so that text is cut rather than too long.
    pub(crate) fn width(self, text: &str) -> f64 {
        text.chars().map(|c| self.advance(c)).sum()
    }

    fn advance(self, c: char) -> f64 {
        let share = self.uniform.unwrap_or(match c {
            'i' | 'j' | 'l' | '\'' | '|' => 0.30,
            ' ' | '.' | ',' | ':' | ';' | '!' | 'I' | 'f' | 't' | '/' | '\\' | '-' => 0.38,
            'r' | '(' | ')' | '[' | ']' | '"' => 0.42,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.98,
            '_' | 'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' | '*' => 0.56,
            '<' | '>' | '=' | '+' | '~' | '#' => 0.82,
            '0'..='9' | 'a'..='z' => 0.625,
            'A'..='Z' | '&' => 0.72,
            // Ideographs and similar characters are as wide as they are high.
            '\u{1100}'.. => 1.0,
            _ => 0.68,
        });
        share * self.size
    }

    /// Returns the part of `text` that fits in `room` pixels: in this order, all of it, all without hash and long
    /// template arguments, the end from a namespace on, or the beginning. Returns `None` if fewer than four
    /// characters of a cut name would be left. `script/names.js` implements the same rule.
    pub(crate) fn fit(self, text: &str, room: f64) -> Option<String> {
        // Fast path: most frames are far too narrow.
        if room < 2.0 * self.uniform.unwrap_or(0.3) * self.size {
            return None;
        }
        if self.width(text) <= room {
            return Some(text.to_owned());
        }
        let text = without_hash(text);
        if self.width(text) <= room {
            return Some(text.to_owned());
        }
        let text = &*elide_arguments(text);
        if self.width(text) <= room {
            return Some(text.to_owned());
        }
        let room = room - self.advance('…');
        let mut last = 0;
        for start in heads(text) {
            last = start;
            let tail = &text[start..];
            if self.width(tail) <= room {
                return (tail.chars().count() >= LEAST_LETTERS).then(|| format!("…{tail}"));
            }
        }
        let text = &text[last..];
        let mut used = 0.0;
        let end = text
            .char_indices()
            .find(|&(_, c)| {
                used += self.advance(c);
                used > room
            })
            .map_or(text.len(), |(at, _)| at);
        (text[..end].chars().count() >= LEAST_LETTERS).then(|| format!("{}…", &text[..end]))
    }
}

/// Positions at which the beginning of a name may be cut: after a type before the name, and after each `::`, `/` and
/// `.` outside of brackets and before the parameters. Text after another space does not belong to the name: V8
/// appends the file of a function there.
fn heads(name: &str) -> impl Iterator<Item = usize> {
    let bytes = name.as_bytes();
    let mut depth = 0;
    let mut ended = false;
    let first = behind_type(name);
    let parts = (first + 1..bytes.len()).filter(move |&at| {
        match bytes[at - 1] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' if depth > 0 => depth -= 1,
            b' ' => ended |= depth == 0,
            b'/' => return depth == 0 && !ended,
            b':' => return depth == 0 && !ended && at > 1 && bytes[at - 2] == b':',
            b'.' => return depth == 0 && !ended && is_part(&bytes[at..]),
            _ => {}
        }
        false
    });
    Some(first).filter(|&first| first > 0).into_iter().chain(parts)
}

/// Position of the name in a Java signature such as `void java.util.List.sort(Comparator)`; 0 if there is no type
/// before it.
fn behind_type(name: &str) -> usize {
    let typed = name.split_once(' ').filter(|(of, rest)| {
        let own = rest.split_once('(').map_or("", |(own, _)| own);
        let is_name = !own.is_empty() && !own.contains([' ', '/']);
        !of.is_empty() && !of.contains('(') && *of != "operator" && is_name && rest.ends_with(')')
    });
    typed.map_or(0, |(of, _)| of.len() + 1)
}

/// Returns true if the text after a dot is a part of a qualified name, as in `com.example.Cart.add`, and not a
/// suffix, as in `app.py`, `render.cold` and `libc.so.6`.
fn is_part(rest: &[u8]) -> bool {
    let letter = |b: &u8| b.is_ascii_alphabetic() || b"_$".contains(b);
    match rest.first() {
        Some(b'<' | b'(') => true,
        Some(first) if letter(first) => {
            let end = rest.iter().position(|b| !letter(b) && !b.is_ascii_digit());
            let part = &rest[..end.unwrap_or(rest.len())];
            !SUFFIXES.iter().any(|suffix| suffix.as_bytes() == part)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_text_stays_text() {
        let mut out = String::new();
        escape(&mut out, "<a href=\"x\">&]]>\0\x1b[1m\u{202e}é\u{ffff}\n");
        assert_eq!(out, "&lt;a href=&quot;x&quot;&gt;&amp;]]&gt;��[1m�é� ");
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(
            one_line("a\nb\tc\r\x1b[31m\u{7f}\u{9b}\u{202e}\u{2028}é\\"),
            "a\\nb\\tc\\r\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}\\u{2028}é\\"
        );
        assert!(matches!(one_line("kworker/0:1"), Cow::Borrowed("kworker/0:1")));
    }

    #[test]
    fn long_names_lose_their_head_first() {
        let metrics = Metrics { size: 10.0, uniform: Some(1.0) };
        let check = |text, characters: u32, expect: Option<&str>| {
            let room = f64::from(characters) * 10.0;
            assert_eq!(metrics.fit(text, room).as_deref(), expect, "{text} in {characters}");
        };
        check("alloc::vec::Vec::push", 21, Some("alloc::vec::Vec::push"));
        check("alloc::vec::Vec::push", 20, Some("…vec::Vec::push"));
        check("alloc::vec::Vec::push", 10, Some("…Vec::push"));
        check("alloc::vec::Vec::push", 5, Some("…push"));
        check("alloc::vec::Vec::pushed", 5, Some("push…"));
        check("a::b<c::d>(e::f)", 13, Some("b<c::d>(e::f…"));
        check("java/util/List.get", 9, Some("…List.get"));
        check("JS:^parse /app/server.js:2:15", 12, Some("JS:^parse /…"));
        check("é::üüüü", 6, Some("…üüüü"));
        check("log::init::h2040ab7e0793ea3f", 28, Some("log::init::h2040ab7e0793ea3f"));
        check("log::init::h2040ab7e0793ea3f", 27, Some("log::init"));
        check("log::init::h2040ab7e0793ea3f", 6, Some("…init"));
        check("", 3, Some(""));
    }

    #[test]
    fn template_arguments_give_way_to_the_function() {
        let metrics = Metrics { size: 10.0, uniform: Some(1.0) };
        let check = |text, characters: u32, expect: Option<&str>| {
            let room = f64::from(characters) * 10.0;
            assert_eq!(metrics.fit(text, room).as_deref(), expect, "{text} in {characters}");
        };
        let find = "std::_Rb_tree<std::string, std::pair<std::string const, int> >::find";
        check(find, 68, Some(find));
        check(find, 67, Some("std::_Rb_tree<…>::find"));
        check(find, 21, Some("…_Rb_tree<…>::find"));
        check(find, 17, Some("…find"));
        let operator = "operator<< <std::char_traits<char>, std::allocator<char> >";
        check(operator, 20, Some("operator<< <std::ch…"));
        check(
            "f<std::vector<int> >(std::vector<int> const&)",
            30,
            Some("f<…>(std::vector<int> const&)"),
        );
    }

    #[test]
    fn dotted_names_keep_their_end() {
        let metrics = Metrics { size: 10.0, uniform: Some(1.0) };
        let check = |text, characters: u32, expect: Option<&str>| {
            let room = f64::from(characters) * 10.0;
            assert_eq!(metrics.fit(text, room).as_deref(), expect, "{text} in {characters}");
        };
        check("com.example.shop.Cart.addItem", 20, Some("…shop.Cart.addItem"));
        check("com.example.shop.Cart.addItem", 14, Some("…Cart.addItem"));
        check("com.example.shop.Cart.addItem", 8, Some("…addItem"));
        check("com.example.shop.Cart.addItem", 6, Some("addIt…"));
        check("importlib._bootstrap._find", 12, Some("…_find"));
        check("json.decoder.decode (/lib/json.py:9)", 30, Some("…decode (/lib/json.py:9)"));
        check("github.com/x/api.(*Server).Serve", 18, Some("…(*Server).Serve"));
        check("void java.util.TimSort.sort(int)", 20, Some("…TimSort.sort(int)"));
        check("void java.util.TimSort.sort(int)", 12, Some("…sort(int)"));
        check("operator new(unsigned long)", 12, Some("operator ne…"));
        // The part behind the last dot is no name.
        check("read_pages.constprop.0", 14, Some("read_pages.co…"));
        check("libstdc++.so.6+0x12", 9, Some("libstdc+…"));
        check("application.py:12", 10, Some("applicati…"));
    }

    #[test]
    fn labels_under_four_letters_are_left_out() {
        let metrics = Metrics { size: 10.0, uniform: Some(1.0) };
        for (text, characters, expect) in [
            ("gc", 2, Some("gc")),
            ("alloc::vec::Vec::push", 4, None),
            ("alloc::vec::Vec::new", 4, None),
            ("alloc::vec::Vec::push", 5, Some("…push")),
            ("function", 4, None),
            ("function", 5, Some("func…")),
        ] {
            let room = f64::from(characters) * 10.0;
            assert_eq!(metrics.fit(text, room).as_deref(), expect, "{text} in {characters}");
        }
    }
}
