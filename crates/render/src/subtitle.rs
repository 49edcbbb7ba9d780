//! Subtitle of a graph: the origin of its data.

use pyrograph_analyze::Origin;

use crate::units::{Values, write_integer, write_percent};

/// Formats the origin. Unknown parts are omitted. `count_name` and `factor` are the picture's options. Example:
/// `off-cpu: 12.3 s in 5.02 s on web-3, 2026-11-22 18:20 UTC; 3 samples lost, 0.80% in stacks that are not whole`.
pub fn subtitle(origin: &Origin, count_name: Option<&str>, factor: f64) -> String {
    let values = Values::plain(&origin.value_type, count_name, factor);
    let mut text = String::new();
    let name = &origin.value_type.name;
    if !values.is_unknown() && values.counted(name) != *values.noun() {
        text.push_str(name);
        text.push_str(": ");
    }
    values.write(&mut text, origin.total);
    if values.is_unknown() {
        text.push_str(" in all (the input names no unit)");
    }
    if let Some(duration) = origin.duration.filter(|&duration| duration > 0) {
        text.push_str(" in ");
        let value_type = pyrograph_profile::ValueType::new("", "ns");
        Values::plain(&value_type, None, 1.0).write(&mut text, duration);
    }
    if let Some(host) = &origin.host {
        text.push_str(" on ");
        text.push_str(host);
    }
    if let Some(start) = origin.start {
        text.push_str(", ");
        text.push_str(&minute(start));
    }
    let mut missing = Vec::new();
    if origin.lost > 0 {
        let mut lost = String::new();
        write_integer(&mut lost, origin.lost);
        lost.push_str(if origin.lost == 1 { " sample lost" } else { " samples lost" });
        missing.push(lost);
    }
    if origin.cut > 0 {
        let mut cut = String::new();
        write_percent(&mut cut, origin.cut, origin.total);
        cut.push_str(" in stacks that are not whole");
        missing.push(cut);
    }
    if !missing.is_empty() {
        text.push_str("; ");
        text.push_str(&missing.join(", "));
    }
    text
}

/// Formats nanoseconds since 1970 as `2026-11-22 18:20 UTC`.
pub(crate) fn minute(nanoseconds: u64) -> String {
    let minutes = nanoseconds / 60_000_000_000;
    let (days, minutes) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Converts days since 1970 to year, month and day in the Gregorian calendar.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // A loop is fast enough: 64 bits of nanoseconds end in 2554.
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ValueType;

    use super::*;

    fn origin(value_type: ValueType, total: u64) -> Origin {
        Origin { value_type, total, cut: 0, host: None, start: None, duration: None, lost: 0 }
    }

    #[test]
    fn a_subtitle_says_what_is_known_and_nothing_else() {
        let samples = origin(ValueType::samples(), 1234);
        assert_eq!(subtitle(&samples, None, 1.0), "1,234 samples");
        let folded = origin(ValueType::new("value", ""), 26);
        assert_eq!(subtitle(&folded, None, 1.0), "26 in all (the input names no unit)");
        assert_eq!(subtitle(&samples, Some("calls"), 2.0), "2,468 calls");
        let known = Origin {
            cut: 40_000_000,
            host: Some("web-3".to_owned()),
            start: Some(1_795_371_600_000_000_000),
            duration: Some(5_020_000_000),
            lost: 3,
            ..origin(ValueType::new("off-cpu", "ns"), 5_000_000_000)
        };
        assert_eq!(
            subtitle(&known, None, 1.0),
            "off-cpu: 5.00 s in 5.02 s on web-3, 2026-11-22 18:20 UTC; 3 samples lost, 0.80% in \
             stacks that are not whole"
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expect) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (11_322, (2000, 12, 31)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expect, "{days}");
        }
    }
}
