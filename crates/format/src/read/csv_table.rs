//! Shared code of readers of CSV: a heading, and columns by name.
//!
//! Rows follow RFC 4180, except that a cell ends at the end of its line even if its quotation mark is not closed:
//! none of the formats has cells of several lines, and a stray mark must not turn the rest of the file into one cell.

use std::borrow::Cow;
use std::ops::Range;

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};

use super::text::Lines;
use crate::bytes;
use crate::callees::{Callees, Function};
use crate::input::Head;
use crate::warnings::{WarningKind, Warnings};

/// The rows of a table below its heading.
pub(crate) struct Table {
    lines: Lines,
    delimiter: u8,
    headings: Vec<String>,
    cells: Cells,
}

/// Byte ranges of the cells in a line.
#[derive(Default)]
struct Cells {
    places: Vec<Range<usize>>,
    /// The text of cells with quotation marks inside: their ranges are beyond the end of the line.
    unquoted: Vec<u8>,
}

impl Table {
    /// Opens a table. Lines before the heading, such as a tool's messages, are skipped; `is_heading` recognizes the
    /// heading. Returns `None` if there is no heading.
    pub fn open(input: Head, delimiter: u8, is_heading: fn(&str) -> bool) -> Option<Self> {
        let (lines, cells) = (Lines::new(input), Cells::default());
        let mut table = Self { lines, delimiter, headings: Vec::new(), cells };
        while table.next() {
            let columns = 0..table.cells.places.len();
            let cells: Vec<String> = columns.map(|column| clean(&table.text(column))).collect();
            if is_heading(&cells.join(",")) {
                table.headings = cells;
                return Some(table);
            }
        }
        None
    }

    /// Advances to the next row; returns `false` at the end.
    pub fn next(&mut self) -> bool {
        while self.lines.advance() {
            let line = self.lines.bytes();
            if !line.is_empty() {
                self.cells.split(line, self.delimiter);
                if self.cells.places.len() < self.headings.len() && self.lines.is_unfinished() {
                    let cause = "its last row is not whole".to_owned();
                    self.lines.warnings.add(WarningKind::Truncated(cause), 1, []);
                    return false;
                }
                return true;
            }
        }
        false
    }

    /// Adds a warning at the current row.
    pub fn warn(&mut self, kind: WarningKind) {
        self.lines.warn(kind);
    }

    /// Returns the warnings about unreadable rows.
    pub fn into_warnings(self) -> Warnings {
        self.lines.warnings
    }

    /// Returns the index of the first column with the heading `wanted`, ignoring case.
    pub fn column(&self, wanted: &str) -> Option<usize> {
        self.headings.iter().position(|heading| heading.eq_ignore_ascii_case(wanted))
    }

    /// Returns all headings.
    pub fn headings(&self) -> &[String] {
        &self.headings
    }

    /// Returns a cell of the current row, including blanks around it; empty if it does not exist.
    pub fn cell(&self, column: usize) -> &[u8] {
        self.cells.get(self.lines.bytes(), column)
    }

    /// Returns a cell of the current row as text.
    pub fn text(&self, column: usize) -> Cow<'_, str> {
        String::from_utf8_lossy(self.cell(column))
    }
}

impl Cells {
    /// Finds the cells of a line.
    fn split(&mut self, line: &[u8], delimiter: u8) {
        self.places.clear();
        self.unquoted.clear();
        if !self.split_plain(line, delimiter) {
            self.places.clear();
            self.split_any(line, delimiter);
        }
    }

    /// Finds the cells of a line whose quotation marks all enclose whole cells; returns `false` for other lines.
    ///
    /// Works in steps of 64 bytes, with one bit per byte: delimiters that are not between quotation marks end cells.
    fn split_plain(&mut self, line: &[u8], delimiter: u8) -> bool {
        let (mut begin, mut marks, mut needed) = (0, 0, 0);
        // All ones if the previous block ended between quotation marks.
        let mut between = 0;
        for start in (0..line.len()).step_by(64) {
            let (mut quotes, mut ends) = (0, 0);
            for at in (0..64.min(line.len() - start)).step_by(16) {
                let block = bytes::block(line, start + at);
                quotes |= u64::from(bytes::equal(block, b'"')) << at;
                ends |= u64::from(bytes::equal(block, delimiter)) << at;
            }
            marks += quotes.count_ones();
            // Prefix XOR: each bit becomes the parity of the number of marks up to it.
            for step in [1, 2, 4, 8, 16, 32] {
                quotes ^= quotes << step;
            }
            quotes ^= between;
            between = 0u64.wrapping_sub(quotes >> 63);
            ends &= !quotes;
            while ends != 0 {
                let end = start + ends.trailing_zeros() as usize;
                ends &= ends - 1;
                needed += self.push(line, begin..end);
                begin = end + 1;
            }
        }
        needed += self.push(line, begin..line.len());
        marks == needed
    }

    /// Adds a cell, and returns the number of quotation marks around it.
    fn push(&mut self, line: &[u8], place: Range<usize>) -> u32 {
        match &line[place.clone()] {
            [b'"', .., b'"'] => {
                self.places.push(place.start + 1..place.end - 1);
                2
            }
            _ => {
                self.places.push(place);
                0
            }
        }
    }

    /// Finds the cells of any line.
    fn split_any(&mut self, line: &[u8], delimiter: u8) {
        let mut at = 0;
        loop {
            let blanks = line[at..].iter().take_while(|&&byte| byte == b' ').count();
            if blanks > 0 && line.get(at + blanks) == Some(&b'"') {
                // Blanks before a quoted cell are ignored.
                self.places.push(at..at);
                at = self.unquote(line, at, delimiter) + 1;
                if at > line.len() {
                    return;
                }
                continue;
            }
            let is_quoted = line.get(at) == Some(&b'"');
            let (begin, mark) = if is_quoted { (at + 1, b'"') } else { (at, delimiter) };
            let mut end = bytes::find(line, begin, mark);
            self.places.push(begin..end);
            if is_quoted {
                end += 1;
                if line.get(end).is_some_and(|&next| next != delimiter) {
                    end = self.unquote(line, at, delimiter);
                }
            }
            if end >= line.len() {
                return;
            }
            at = end + 1;
        }
    }

    /// Parses the last cell, which contains quotation marks, from its start; returns the offset of its end.
    fn unquote(&mut self, line: &[u8], begin: usize, delimiter: u8) -> usize {
        let start = self.unquoted.len();
        let mut is_open = false;
        let mut at = begin;
        while let Some(&byte) = line.get(at) {
            match byte {
                b'"' if is_open && line.get(at + 1) == Some(&b'"') => {
                    self.unquoted.push(b'"');
                    at += 1;
                }
                b'"' => is_open = !is_open,
                byte if byte == delimiter && !is_open => break,
                byte => self.unquoted.push(byte),
            }
            at += 1;
        }
        if let Some(place) = self.places.last_mut() {
            *place = line.len() + start..line.len() + self.unquoted.len();
        }
        at
    }

    /// Returns the text of a cell of a line; empty if it does not exist.
    fn get<'a>(&'a self, line: &'a [u8], column: usize) -> &'a [u8] {
        let Some(place) = self.places.get(column) else { return &[] };
        line.get(place.clone())
            .unwrap_or_else(|| &self.unquoted[place.start - line.len()..place.end - line.len()])
    }
}

/// Frames by the text of their function and module cells.
pub(crate) struct Frames(Callees<FrameId>);

impl Frames {
    pub fn new() -> Self {
        Self(Callees::new(16 << 20))
    }

    /// Looks up or adds a function in a module (`""` if unknown) called by `caller`; returns it and its frame.
    #[inline]
    pub fn get(
        &mut self,
        profile: &mut Profile,
        caller: Function,
        function: &[u8],
        module: &[u8],
    ) -> (Function, FrameId) {
        self.0.find_or_add(caller, function, module, || {
            let module = profile.strings.intern(&String::from_utf8_lossy(module));
            let function = profile.strings.intern(&String::from_utf8_lossy(function));
            profile.frames.intern(Frame { module, ..Frame::named(function, FrameKind::User) })
        })
    }
}

/// Removes blanks and a byte order mark.
fn clean(cell: &str) -> String {
    cell.trim_start_matches('\u{feff}').trim().to_owned()
}

/// Parses a number in the notation of various countries: `1,234.5`, `1.234,5`, `1 234`, `12,5`.
///
/// A single comma before three digits is taken for a thousands separator; a single point never is.
pub(crate) fn number(text: &[u8]) -> Option<f64> {
    if let Some(number) = common_number(text.trim_ascii()) {
        return Some(number);
    }
    let text = str::from_utf8(text).ok()?.trim().trim_end_matches('%');
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (comma, point) = (text.rfind(','), text.rfind('.'));
    let plain = match (comma, point) {
        (Some(comma), Some(point)) if comma > point => text.replace('.', "").replace(',', "."),
        (Some(_), Some(_)) => text.replace(',', ""),
        (Some(comma), None) if text.matches(',').count() == 1 && text.len() - comma != 4 => {
            text.replace(',', ".")
        }
        (Some(_), None) => text.replace(',', ""),
        _ => text,
    };
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Rounds to the nearest integer, halves up; saturates at 0 and the maximum.
#[inline]
pub(crate) fn rounded(value: f64) -> u64 {
    // `f64::round` is a call of the math library on most machines.
    let whole = value as u64;
    whole.saturating_add(u64::from(value - whole as f64 >= 0.5))
}

/// Parses a number in the most common notation, with a point before decimals and commas between thousands; returns
/// `None` for others, and if it has too many digits to be exact.
fn common_number(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1., 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    if text.len() > 20 {
        return None;
    }
    // Overflow does not matter: numbers with too many digits are not returned.
    let push =
        |number: u64, digit: u8| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
    let is_three =
        |digits: &[u8]| digits.iter().take_while(|byte| byte.is_ascii_digit()).count() == 3;
    let (mut number, mut at, mut commas) = (0, 0, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'0'..=b'9' => number = push(number, byte),
            b',' if is_three(&text[at + 1..]) => commas += 1,
            _ => break,
        }
        at += 1;
    }
    let decimals = match &text[at..] {
        [] => &[][..],
        [b'.', decimals @ ..] => decimals,
        _ => return None,
    };
    for &digit in decimals {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = push(number, digit);
    }
    // Both operands are exact, so the quotient is the nearest representable number.
    let digits = at - commas + decimals.len();
    (1..POWERS.len()).contains(&digits).then(|| number as f64 / POWERS[decimals.len()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells(line: &str) -> Vec<String> {
        let mut cells = Cells::default();
        let line = line.as_bytes();
        cells.split(line, b',');
        let text = |column| String::from_utf8_lossy(cells.get(line, column)).into_owned();
        (0..cells.places.len()).map(text).collect()
    }

    #[test]
    fn cells_with_quotation_marks() {
        assert_eq!(cells("a,b,,c"), ["a", "b", "", "c"]);
        assert_eq!(cells("a,"), ["a", ""]);
        assert_eq!(cells(r#""f(int, char)","1,234.5",x,"#), ["f(int, char)", "1,234.5", "x", ""]);
        assert_eq!(cells(r#""operator""""",1"#), [r#"operator"""#, "1"]);
        assert_eq!(cells(r#""né"e,"a,b"#), ["née", "a,b"]);
        assert_eq!(cells("\",\",\"\",\"\""), [",", "", ""]);
        assert_eq!(cells(r#"  "f(int, char)",1.5,  "m, n""#), ["  f(int, char)", "1.5", "  m, n"]);
        assert_eq!(cells(r#"a"b,c"d,e"#), [r#"a"b"#, r#"c"d"#, "e"]);
    }

    #[test]
    fn a_file_that_is_cut_within_its_last_row_says_so() {
        let rows = |text: &str| {
            let head = crate::Input::bytes("x", text).begin().expect("bytes");
            let mut table = Table::open(head, b',', |line| line.starts_with("Name")).expect("one");
            let mut rows = 0;
            while table.next() {
                rows += 1;
            }
            (rows, table.into_warnings().any_loss())
        };
        let text = "Name,Time,Module\nf,1,a\ng,2,b\n";
        assert_eq!(rows(text), (2, false));
        assert_eq!(rows(text.trim_end()), (2, false));
        assert_eq!(rows(&text[..text.len() - 3]), (1, true));
        assert_eq!(rows(&text[..text.len() - 5]), (1, true));
    }

    proptest! {
        /// Long enough for several steps.
        #[test]
        fn both_ways_of_splitting_agree(
            parts in prop::collection::vec("[a-c ]{0,30}|,|\"|\",\"|\"\"", 1..12),
        ) {
            let line = parts.concat();
            let (mut plain, mut any) = (Cells::default(), Cells::default());
            if plain.split_plain(line.as_bytes(), b',') {
                any.split_any(line.as_bytes(), b',');
                prop_assert_eq!(plain.places, any.places, "{}", line);
            }
        }
    }

    #[test]
    fn numbers_of_many_countries() {
        for (text, expect) in [
            ("1,234.5", 1234.5),
            ("1.234,5", 1234.5),
            ("1\u{a0}234", 1234.0),
            ("12,5", 12.5),
            ("1,234", 1234.0),
            ("1,234,567", 1_234_567.0),
            ("0.125", 0.125),
            ("100,00", 100.0),
            ("7%", 7.0),
        ] {
            assert_eq!(number(text.as_bytes()), Some(expect), "{text}");
        }
        assert_eq!(number(b"n/a"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"inf"), None);
    }
}
