//! Parsing and formatting of numbers on the command line.

use std::time::Duration;

use pyrograph_session::Condition;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
pub use pyrograph_render::{counted, grouped, percent};

/// Parses a condition on values.
pub fn parse_condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|error| error.to_string())
}

/// Parses a duration: seconds (`10`, `0.5`), or with a unit (`500ms`, `10s`, `5m`, `1h`).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit '{unit}': use ns, us, ms, s, m or h")),
    };
    let count: f64 = digits.parse().map_err(|_| format!("'{digits}' is not a number"))?;
    match Duration::try_from_secs_f64(count * factor) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be more than 0".to_owned()),
    }
}

/// Parses the ID of a process or thread.
pub fn parse_id(text: &str) -> Result<i32, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| "not the ID of a process or thread, which is a number from 1 on".to_owned())
}

/// Parses a number that is at least 1.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "not a whole number from 1 on".to_owned())
}

/// Parses the interval between two tables; at least 100 ms, because shorter ones show nothing new and cost time.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        interval if interval >= Duration::from_millis(100) => Ok(interval),
        _ => Err("must be 100ms at least".to_owned()),
    }
}

/// Parses a size: bytes (`4096`), or with a unit (`64K`, `256M`, `1G`; powers of 1024).
pub fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        unit => return Err(format!("unknown unit '{unit}': use K, M or G")),
    };
    let count: usize = digits.parse().map_err(|_| format!("'{digits}' is not a whole number"))?;
    match count.checked_mul(1 << shift) {
        Some(0) => Err("must be more than 0".to_owned()),
        size => size.ok_or_else(|| "is too large".to_owned()),
    }
}

/// Parser for one of several named values; each may have a line of help.
pub fn one_of<T, const N: usize>(
    values: [(T, &'static str, &'static str); N],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = values.map(|(_, name, help)| match help {
        "" => PossibleValue::new(name),
        _ => PossibleValue::new(name).help(help),
    });
    PossibleValuesParser::new(names).try_map(move |typed| {
        let named = values.iter().find(|(_, name, _)| *name == typed);
        named.map(|(value, ..)| *value).ok_or("no such value")
    })
}

/// The value of an event that `--by` names: `comm` is the thread's name. `None` for an empty word.
pub fn value_of_event(word: &str) -> Option<String> {
    match word {
        "" => None,
        "comm" => Some("$comm".to_owned()),
        other => Some(other.to_owned()),
    }
}

/// Parser of values that have names, and of other words by `other`; `None` for what is none of these.
pub fn one_of_or<T, const N: usize>(
    values: [(T, &'static str, &'static str); N],
    other: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    OneOfOr { values: values.to_vec(), other }
}

#[derive(Clone)]
struct OneOfOr<T> {
    values: Vec<(T, &'static str, &'static str)>,
    other: fn(&str) -> Option<T>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOfOr<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        let named = self.values.iter().find(|(_, name, _)| *name == text);
        match named.map(|(value, ..)| value.clone()).or_else(|| (self.other)(text)) {
            Some(value) => Ok(value),
            // It names those that there are.
            None => {
                let names = PossibleValuesParser::new(self.values.iter().map(|(_, name, _)| *name));
                names.parse_ref(command, argument, value).and_then(|_| {
                    Err(clap::Error::new(clap::error::ErrorKind::InvalidValue).with_cmd(command))
                })
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let named = |(_, name, help): &(T, &'static str, &'static str)| {
            PossibleValue::new(*name).help(*help)
        };
        Some(Box::new(self.values.iter().map(named)))
    }
}

/// Parses a number above 0.
pub fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("not a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("10", 10_000),
            ("0.5", 500),
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "ten", "0", "-1", "5d", "inf", "nan", "1e30h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("4096", 4096), ("64K", 65536), ("3M", 3 << 20), ("1g", 1 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "0", "-1", "1.5M", "5T", "99999999999999999999", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
