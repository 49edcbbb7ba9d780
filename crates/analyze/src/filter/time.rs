//! Time ranges: `10..20`, `..500ms`, `@5312.25..@5313`.

use std::str::FromStr;

/// A time range, including its start and excluding its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// Start; `None` for the start of the profile.
    pub from: Option<Moment>,
    /// End; `None` for the end of the profile.
    pub to: Option<Moment>,
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Nanoseconds since the first sample. If samples are from several hosts, whose clocks differ, since the first
    /// sample of the same host.
    SinceStart(u64),
    /// Nanoseconds on the recording's clock.
    Clock(u64),
}

/// Parses two times separated by `..`, either of which may be missing: seconds since the first sample, or a number
/// with a unit; after `@`, a time on the recording's clock.
impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").ok_or("not two times with .. between them")?;
        let moment = |text: &str| match text.trim() {
            "" => Ok(None),
            text => match text.strip_prefix('@') {
                Some(clock) => nanoseconds(clock).map(Moment::Clock),
                None => nanoseconds(text).map(Moment::SinceStart),
            }
            .map(Some),
        };
        let range = TimeRange { from: moment(from)?, to: moment(to)? };
        match range {
            TimeRange { from: None, to: None } => Err("neither a beginning nor an end".to_owned()),
            TimeRange { from: Some(Moment::Clock(from)), to: Some(Moment::Clock(to)) }
            | TimeRange {
                from: Some(Moment::SinceStart(from)),
                to: Some(Moment::SinceStart(to)),
            } if from >= to => Err("the end is not after the beginning".to_owned()),
            range => Ok(range),
        }
    }
}

/// Parses a time without rounding: the recording's clock has more digits than a float can hold.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[number.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        unit => return Err(format!("unknown unit '{unit}': use ns, us, ms, s, m or h")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let wrong = || format!("'{number}' is not a time");
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut time = whole.checked_mul(unit).ok_or_else(wrong)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        time = time.checked_add(u64::from(digit - b'0') * place).ok_or_else(wrong)?;
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let since = |ns| Some(Moment::SinceStart(ns));
        let clock = |ns| Some(Moment::Clock(ns));
        let check = |text: &str, from, to| assert_eq!(text.parse(), Ok(TimeRange { from, to }));
        check("10..20", since(10_000_000_000), since(20_000_000_000));
        check("..500ms", None, since(500_000_000));
        check("1m..", since(60_000_000_000), None);
        check("0.25..1.5", since(250_000_000), since(1_500_000_000));
        let (from, to) = (clock(5_312_123_456_789_000), clock(5_312_124_000_000_000));
        check("@5312123.456789..@5312124", from, to);
        check("1.0000000001..2", since(1_000_000_000), since(2_000_000_000));
        for text in ["10", "..", "a..b", "-1..2", "1d..2d", "1..99999999999999", ".5..1", "@..1"] {
            assert!(text.parse::<TimeRange>().is_err(), "{text}");
        }
        for text in ["5..1", "2..2", "@7..@3", "1s..900ms"] {
            let error = text.parse::<TimeRange>().expect_err("it is empty");
            assert_eq!(error, "the end is not after the beginning");
        }
    }
}
