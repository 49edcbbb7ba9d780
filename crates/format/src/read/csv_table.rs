//! What readers of CSV have in common: a heading, and columns by name.

use std::io::Read;

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};

use crate::Head;
use crate::byte_cache::ByteCache;
use crate::warnings::{Place, WarningKind, Warnings};

/// The rows of a table below its heading.
pub(crate) struct Table {
    rows: csv::Reader<Box<dyn Read + Send>>,
    headings: Vec<String>,
    name: String,
    record: csv::StringRecord,
    pub warnings: Warnings,
}

impl Table {
    /// Lines above the heading, such as a tool's messages, are passed over: `is_heading` tells it.
    /// `None` if there is no heading.
    pub fn open(input: Head, delimiter: u8, is_heading: fn(&str) -> bool) -> Option<Self> {
        let name = input.name().to_owned();
        let rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(input.into_stream());
        let (headings, record) = (Vec::new(), csv::StringRecord::new());
        let mut table = Self { rows, headings, name, record, warnings: Warnings::default() };
        while table.next() {
            let cells: Vec<String> = table.record.iter().map(clean).collect();
            if is_heading(&cells.join(",")) {
                table.headings = cells;
                return Some(table);
            }
        }
        None
    }

    /// Moves on to the next row; `false` at the end.
    pub fn next(&mut self) -> bool {
        loop {
            match self.rows.read_record(&mut self.record) {
                Ok(more) => return more,
                Err(error) if error.is_io_error() => {
                    self.warnings.add(WarningKind::Truncated(error.to_string()), 1, []);
                    return false;
                }
                Err(_) => self.warn(WarningKind::UnreadableLine),
            }
        }
    }

    /// Counts one of `kind` at the present row.
    pub fn warn(&mut self, kind: WarningKind) {
        let line = self.record.position().map_or(0, csv::Position::line);
        self.warnings.add(kind, 1, [Place { file: self.name.clone(), line }]);
    }

    /// The number of the first column whose heading is `wanted`, whatever its case.
    pub fn column(&self, wanted: &str) -> Option<usize> {
        self.headings.iter().position(|heading| heading.eq_ignore_ascii_case(wanted))
    }

    /// All headings.
    pub fn headings(&self) -> &[String] {
        &self.headings
    }

    /// A cell of the present row, with the blanks around it; empty if there is none.
    pub fn cell(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }
}

/// Frames by the function and the module in their cells.
pub(crate) struct Frames {
    known: ByteCache<FrameId>,
    text: Vec<u8>,
}

impl Frames {
    pub fn new() -> Self {
        Self { known: ByteCache::new(16 << 20), text: Vec::new() }
    }

    /// The frame of a function in a module (`""`: not known).
    pub fn get(&mut self, profile: &mut Profile, function: &str, module: &str) -> FrameId {
        self.text.clear();
        self.text.extend_from_slice(module.as_bytes());
        self.text.push(0);
        self.text.extend_from_slice(function.as_bytes());
        let hash = self.known.hash(&self.text);
        self.known.get(hash, &self.text).unwrap_or_else(|| {
            let module = profile.strings.intern(module);
            let function = profile.strings.intern(function);
            let frame = Frame { module, ..Frame::named(function, FrameKind::User) };
            let frame = profile.frames.intern(frame);
            self.known.insert(hash, &self.text, frame);
            frame
        })
    }
}

/// Without blanks and a byte order mark.
fn clean(cell: &str) -> String {
    cell.trim_start_matches('\u{feff}').trim().to_owned()
}

/// A number as people of many countries write it: `1,234.5`, `1.234,5`, `1 234`, `12,5`.
///
/// A single comma or point with three digits behind it is taken to part thousands, if it is a comma.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches('%');
    // As most of them are written.
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && let Ok(number) = text.parse::<f64>()
    {
        return Some(number);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(number(text), Some(expect), "{text}");
        }
        assert_eq!(number("n/a"), None);
        assert_eq!(number(""), None);
        assert_eq!(number("inf"), None);
    }
}
