//! Ranges of time, as users write them.

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

/// A range of time, in nanoseconds since 1970-01-01 UTC; its end is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first nanosecond.
    pub from: u64,
    /// The one behind its last.
    pub to: u64,
}

impl Range {
    /// All of the time.
    pub const ALL: Self = Self { from: 0, to: u64::MAX };

    /// Parses `A..B`, of which each may be missing: a time of the wall clock (`2026-11-22T03:10`, `03:10:05`, with `Z` or `+01:00` if it
    /// is not the local one), or an age (`-90s`, `-1h`, `-2d`). `now` is the present, in the same unit.
    ///
    /// # Errors
    ///
    /// If it has another form, or ends before it begins; the text says what is expected.
    pub fn parse(text: &str, now: u64) -> Result<Self, String> {
        let (from, to) = text.split_once("..").ok_or_else(|| {
            format!("'{text}': a range A..B is expected: -1h.., 03:10..03:15, 2026-11-22T03:10..")
        })?;
        let point = |text: &str, missing| match text.trim() {
            "" => Ok(missing),
            text => point(text, now),
        };
        let range = Self { from: point(from, 0)?, to: point(to, u64::MAX)? };
        match range.from < range.to {
            true => Ok(range),
            false => Err(format!("'{text}': it ends before it begins")),
        }
    }

    /// Returns true if a time is in the range.
    pub fn contains(&self, time: u64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// Returns true if two ranges have times in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

fn point(text: &str, now: u64) -> Result<u64, String> {
    if text == "now" {
        return Ok(now);
    }
    if let Some(age) = text.strip_prefix('-') {
        return Ok(now.saturating_sub(age_of(age).ok_or_else(|| unknown(text))?));
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return nanoseconds(time.timestamp_nanos_opt(), text);
    }
    let local = |time: NaiveDateTime| {
        // Where clocks are set back, the earlier one.
        let time = Local.from_local_datetime(&time).earliest();
        nanoseconds(time.and_then(|time| time.timestamp_nanos_opt()), text)
    };
    let blank = text.replace('T', " ");
    for form in ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(&blank, form) {
            return local(time);
        }
    }
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return local(day.and_time(NaiveTime::MIN));
    }
    for form in ["%H:%M", "%H:%M:%S%.f"] {
        if let Ok(time) = NaiveTime::parse_from_str(text, form) {
            let today = DateTime::from_timestamp_nanos(now.cast_signed()).with_timezone(&Local);
            return local(today.date_naive().and_time(time));
        }
    }
    Err(unknown(text))
}

fn nanoseconds(time: Option<i64>, text: &str) -> Result<u64, String> {
    time.and_then(|time| u64::try_from(time).ok()).ok_or_else(|| unknown(text))
}

fn unknown(text: &str) -> String {
    format!(
        "'{text}' is no time: use 2026-11-22T03:10, 03:10, or an age such as -90s, -30m, -1h, -2d"
    )
}

/// Nanoseconds of `90s`, `30m`, `1h`, `2d`.
pub fn age_of(text: &str) -> Option<u64> {
    let digits = text.find(|of: char| !of.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds)?.checked_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// 2026-11-22 12:00 UTC.
    const NOON: u64 = 1_795_348_800 * SECOND;

    #[test]
    fn ranges() {
        let range = |text: &str| Range::parse(text, NOON).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(range(".."), Range::ALL);
        assert_eq!(range("-1h.."), Range { from: NOON - 3600 * SECOND, to: u64::MAX });
        assert_eq!(range("-25h..-24h").to, NOON - 86_400 * SECOND);
        assert_eq!(range("-90s..now"), Range { from: NOON - 90 * SECOND, to: NOON });
        assert_eq!(range("2026-11-22T12:00:00Z..").from, NOON);
        assert_eq!(range("2026-11-22T13:00:00+01:00..").from, NOON);
        let local = |text: &str| range(&format!("{text}..")).from;
        assert_eq!(local("2026-11-22 03:10") - local("2026-11-22"), 190 * 60 * SECOND);
        assert_eq!(local("2026-11-22T03:10:05") - local("2026-11-22T03:10"), 5 * SECOND);
        for bad in ["", "x", "-1..", "-1y..", "2026-13-01..", "now..-1h", "25:00.."] {
            assert!(Range::parse(bad, NOON).is_err(), "{bad}");
        }
    }
}
