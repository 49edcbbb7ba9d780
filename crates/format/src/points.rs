//! Numbers over time as text, the input of heat maps.
//!
//! ```text
//! TIMEus DELTAus
//! 9339835017 15133
//! 9339835827 712
//! ```
//!
//! Each line has a time and a value, separated by blanks or a comma. The rest of the line is ignored, lines that begin
//! with `#` are comments, and a first line without numbers is a header.
//!
//! ```
//! use pyrograph_format::{Input, TimeUnit, read_points};
//!
//! let head = Input::bytes("trace.txt", b"1.5 20\n1.25 30\n".as_slice()).begin()?;
//! let (points, warnings) = read_points([head], TimeUnit::Seconds)?;
//! assert_eq!((points.start, points.times, points.values), (1_500_000_000, vec![0.0, -2.5e8], vec![20.0, 30.0]));
//! assert!(warnings.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use pyrograph_profile::TimeUnit;

use crate::input::Head;
use crate::read::text::Lines;
use crate::reader::ReadError;
use crate::warnings::{WarningKind, Warnings};

/// Numbers over time, in the order of the input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Time of the first point, in nanoseconds.
    pub start: i128,
    /// Nanoseconds since `start`, each exact within 104 days. Times may decrease.
    pub times: Vec<f64>,
    /// Values, one for each time, all finite.
    pub values: Vec<f64>,
}

/// Reads inputs one after the other. Invalid lines are counted.
///
/// # Errors
///
/// If no line has a time and a value.
pub fn read_points(
    inputs: impl IntoIterator<Item = Head>,
    unit: TimeUnit,
) -> Result<(Points, Warnings), ReadError> {
    let mut points = Points::default();
    let mut warnings = Warnings::default();
    let mut names = Vec::new();
    for input in inputs {
        names.push(input.name().to_owned());
        warnings.extend(read_one(input, unit, &mut points));
    }
    if points.times.is_empty() {
        let reason = "no line begins with a time and a number".to_owned();
        return Err(ReadError::Nothing { name: names.join(", "), reason });
    }
    Ok((points, warnings))
}

fn read_one(input: Head, unit: TimeUnit, points: &mut Points) -> Warnings {
    let mut lines = Lines::new(input);
    let mut line = String::new();
    let mut begun = false;
    while lines.next(&mut line) {
        let text = line.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut columns =
            text.split(|c: char| c == ',' || c.is_whitespace()).filter(|column| !column.is_empty());
        let (first, second) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
        let is_header = !begun && number(first).is_none() && number(second).is_none();
        begun = true;
        match (nanoseconds(first, unit), number(second)) {
            (Some(time), Some(value)) => {
                if points.times.is_empty() {
                    points.start = time;
                }
                points.times.push(time.saturating_sub(points.start) as f64);
                points.values.push(value);
            }
            _ if is_header => {}
            _ => lines.warn(WarningKind::NotTwoNumbers),
        }
    }
    lines.warnings
}

/// Parses a finite number: `inf` and `NaN` are rejected.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a time exactly: a float cannot hold today's date in nanoseconds.
fn nanoseconds(text: &str, unit: TimeUnit) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let places = unit.nanoseconds().ilog10();
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || whole.is_empty() || whole.len() > 24 {
        // `1.5e9`, `.5`, or a number that is too large for its digits to matter.
        let nanoseconds = number(text)? * 10f64.powi(places as i32);
        return (nanoseconds.abs() < 1e36).then_some(nanoseconds as i128);
    }
    let mut time: i128 = whole.parse().ok()?;
    let mut fraction = fraction.bytes();
    for _ in 0..places {
        let digit = fraction.next().map_or(0, |byte| byte - b'0');
        time = time.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    Some(if negative { -time } else { time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    fn read(text: &str, unit: TimeUnit) -> Result<(Points, Vec<String>), ReadError> {
        let head = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let (points, warnings) = read_points([head], unit)?;
        Ok((points, warnings.iter().map(ToString::to_string).collect()))
    }

    fn check(text: &str, unit: TimeUnit, start: i128, times: &[f64], values: &[f64]) {
        let (points, warnings) = read(text, unit).expect("points");
        assert_eq!(warnings, [""; 0], "{text:?}");
        assert_eq!(points.start, start, "{text:?}");
        assert_eq!((&points.times[..], &points.values[..]), (times, values), "{text:?}");
    }

    #[test]
    fn two_columns() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        check("1 2\n3 4\n", Seconds, 1_000_000_000, &[0.0, 2e9], &[2.0, 4.0]);
        check("TIMEus DELTAus\n10 5\n9 6", Microseconds, 10_000, &[0.0, -1000.0], &[5.0, 6.0]);
        check("# a\n\n 1.5\t-2e3 more 3\r\n", Milliseconds, 1_500_000, &[0.0], &[-2000.0]);
        check("7,8,9\n8, 9\n", Nanoseconds, 7, &[0.0, 1.0], &[8.0, 9.0]);
        check("-0.5 1\n1e-3 1\n", Seconds, -500_000_000, &[0.0, 501_000_000.0], &[1.0, 1.0]);
    }

    #[test]
    fn nanoseconds_of_a_date_are_kept() {
        let text = "1763731234.123456789 1\n1763731234.123456790 1\n";
        check(text, TimeUnit::Seconds, 1_763_731_234_123_456_789, &[0.0, 1.0], &[1.0, 1.0]);
    }

    #[test]
    fn lines_that_do_not_fit_are_counted() {
        let text = "1 2\nx y\n3\n4 NaN\n5 inf\n99999999999999999999999999999999999999999 1\n6 7\n";
        let (points, warnings) = read(text, TimeUnit::Seconds).expect("points");
        assert_eq!(points.values, [2.0, 7.0]);
        assert_eq!(warnings, ["5 lines were skipped: not a time and a number (x:2, x:3, x:4, …)"]);
    }

    #[test]
    fn no_points_are_an_error() {
        for text in ["", "time value\n", "a;b 1\n"] {
            let error = read(text, TimeUnit::Seconds).expect_err("no points").to_string();
            assert_eq!(error, "read x: no line begins with a time and a number");
        }
    }
}
