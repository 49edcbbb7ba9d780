//! Formatting of values with their units.

use pyrograph_profile::{UnitKind, ValueType};

use crate::text::escape;

/// Formats values of one value type, as markup or plain text.
pub(crate) struct Values {
    /// Text after a count, escaped for markup; empty for times and sizes, which have units.
    noun: String,
    unit: Unit,
    /// Factor from a value to units.
    scale: f64,
    /// Number of decimals of counts.
    decimals: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Nanoseconds,
    Bytes,
}

impl Values {
    pub(crate) fn new(value_type: &ValueType, count_name: Option<&str>, factor: f64) -> Self {
        let mut values = Self::plain(value_type, count_name, factor);
        let mut escaped = String::new();
        escape(&mut escaped, &values.noun);
        values.noun = escaped;
        values
    }

    /// Creates an instance for plain text, without escapes.
    pub(crate) fn plain(value_type: &ValueType, count_name: Option<&str>, factor: f64) -> Self {
        let measure = value_type.unit_kind();
        let (unit, step) = match (count_name, measure) {
            (None, UnitKind::Time(unit)) => (Unit::Nanoseconds, unit.nanoseconds() as f64),
            (None, UnitKind::Bytes) => (Unit::Bytes, 1.0),
            _ => (Unit::Count, 1.0),
        };
        let noun = count_name.unwrap_or(match measure {
            _ if unit != Unit::Count || value_type.is_unnamed() => "",
            UnitKind::Count | UnitKind::Unknown => &value_type.name,
            _ => &value_type.unit,
        });
        Self {
            noun: noun.to_owned(),
            unit,
            scale: factor * step / 10f64.powi(value_type.decimals.into()),
            decimals: usize::from(value_type.decimals),
        }
    }

    /// Appends a value with its unit: `1,234 samples`, `1.23 s`, `4.50 MiB`.
    pub(crate) fn write(&self, out: &mut String, value: u64) {
        self.write_number(out, value);
        let noun = &self.noun[..];
        let one = value == 1 && self.scale == 1.0;
        let noun = if one { noun.strip_suffix('s').unwrap_or(noun) } else { noun };
        if !noun.is_empty() {
            out.push(' ');
            out.push_str(noun);
        }
    }

    /// Text after a count; empty for times and sizes.
    pub(crate) fn noun(&self) -> &str {
        &self.noun
    }

    /// Returns true if the input has no unit.
    pub(crate) fn is_unknown(&self) -> bool {
        self.unit == Unit::Count && self.noun.is_empty()
    }

    /// Name of the counted quantity: `samples`, `time of cpu-clock`, `bytes of alloc`. Plain text or markup, like
    /// `name`.
    pub(crate) fn counted(&self, name: &str) -> String {
        let counted = match self.unit {
            Unit::Nanoseconds => "time",
            Unit::Bytes => "bytes",
            Unit::Count if self.noun.is_empty() => "counts without a unit",
            Unit::Count => &self.noun[..],
        };
        match name {
            "" => counted.to_owned(),
            name if name == counted || self.unit == Unit::Count => counted.to_owned(),
            name => format!("{counted} of {name}"),
        }
    }

    /// Appends a value without the name of a count: `1,234`, `1.23 s`, `4.50 MiB`.
    pub(crate) fn write_number(&self, out: &mut String, value: u64) {
        let scaled = value as f64 * self.scale;
        match self.unit {
            Unit::Nanoseconds => {
                write_step(out, scaled, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]);
            }
            Unit::Bytes => {
                let (kib, mib, gib) = (1024.0, 1_048_576.0, 1_073_741_824.0);
                write_step(out, scaled, &[(gib, "GiB"), (mib, "MiB"), (kib, "KiB"), (1.0, "B")]);
            }
            Unit::Count if self.scale == 1.0 => write_integer(out, value),
            Unit::Count => self.write_scaled(out, scaled),
        }
    }

    fn write_scaled(&self, out: &mut String, scaled: f64) {
        let text = format!("{scaled:.*}", self.decimals);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        match whole.parse::<u64>() {
            Ok(whole) => write_integer(out, whole),
            Err(_) => out.push_str(whole),
        }
        let fraction = fraction.trim_end_matches('0');
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
    }
}

/// Appends a value in the largest unit that is not above it, with three significant digits, or all digits of the
/// integer part if there are more.
fn write_step(out: &mut String, value: f64, steps: &[(f64, &str)]) {
    let last = steps.len() - 1;
    let &(size, unit) = steps.iter().find(|(size, _)| value >= *size).unwrap_or(&steps[last]);
    let value = value / size;
    let digits = match value {
        _ if size == 1.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    out.push_str(&format!("{value:.digits$} {unit}"));
}

/// Formats `1234567` as `1,234,567`.
pub fn grouped(value: u64) -> String {
    let mut text = String::new();
    write_integer(&mut text, value);
    text
}

/// Formats a number with a noun: `1 sample`, `2,000 samples`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// Formats a share in percent with as many digits as are needed to show that it is not 0: `12 %`, `0.04 %`.
pub fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    match share {
        s if s == 0.0 || s >= 10.0 => format!("{s:.0} %"),
        s if s >= 0.1 => format!("{s:.1} %"),
        s if s >= 0.01 => format!("{s:.2} %"),
        _ => "< 0.01 %".to_owned(),
    }
}

/// Formats a share in percent for tables: `12.34%`, with more digits if these would be 0.
pub fn exact_percent(part: u64, whole: u64) -> String {
    let mut text = String::new();
    write_percent(&mut text, part, whole);
    text
}

/// Formats a value with its unit: `1,234 samples`, `1.23 s`, `4.50 MiB`.
pub fn value_text(of: &ValueType, value: u64) -> String {
    let mut text = String::new();
    Values::plain(of, None, 1.0).write(&mut text, value);
    text
}

/// Appends an integer with commas between groups of three digits.
pub(crate) fn write_integer(out: &mut String, value: u64) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
}

/// Appends a share in percent: `12.34%`, with more digits if these would be 0.
pub(crate) fn write_percent(out: &mut String, part: u64, whole: u64) {
    // In integers, in units of 0.01 %: floats would be slower, and round halves inconsistently.
    let whole = u128::from(whole.max(1));
    let share = |scale: u128| ((u128::from(part) * scale * 2 + whole) / (2 * whole)) as u64;
    let (value, digits) = match share(10_000) {
        0 if part > 0 => (share(1_000_000), 4),
        value => (value, 2),
    };
    let scale = 10u64.pow(digits);
    let mut buffer = itoa::Buffer::new();
    out.push_str(buffer.format(value / scale));
    let fraction = value % scale;
    out.push('.');
    let mut digit = scale / 10;
    while digit > fraction.max(1) {
        out.push('0');
        digit /= 10;
    }
    out.push_str(buffer.format(fraction));
    out.push('%');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value_type: &ValueType, name: Option<&str>, factor: f64, value: u64) -> String {
        let mut out = String::new();
        Values::new(value_type, name, factor).write(&mut out, value);
        out
    }

    #[test]
    fn values_carry_their_unit() {
        let samples = ValueType::samples();
        assert_eq!(text(&samples, None, 1.0, 1_234_567), "1,234,567 samples");
        assert_eq!(text(&samples, None, 1.0, 1), "1 sample");
        assert_eq!(text(&samples, Some("calls"), 10.0, 5), "50 calls");
        let tenths = ValueType { decimals: 1, ..ValueType::samples() };
        assert_eq!(text(&tenths, None, 1.0, 12_345), "1,234.5 samples");
        assert_eq!(text(&tenths, None, 1.0, 10), "1 samples");
        let ns = ValueType::new("cpu", "ns");
        assert_eq!(text(&ns, None, 1.0, 12_345_678), "12.3 ms");
        assert_eq!(text(&ns, None, 1.0, 1_234_567_890), "1.23 s");
        assert_eq!(text(&ns, None, 1.0, 999), "999 ns");
        assert_eq!(text(&ns, Some("ticks"), 1.0, 999), "999 ticks");
        assert_eq!(text(&ValueType::new("off-cpu", "us"), None, 1.0, 1_500), "1.50 ms");
        let seconds = ValueType { decimals: 3, ..ValueType::new("wall", "seconds") };
        assert_eq!(text(&seconds, None, 1.0, 250), "250 ms");
        let bytes = ValueType::new("alloc", "bytes");
        assert_eq!(text(&bytes, None, 1.0, 3 << 19), "1.50 MiB");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(0, "sample"), "0 samples");
    }

    #[test]
    fn percentages_have_two_digits_or_say_more() {
        let exact = |part, whole| {
            let mut out = String::new();
            write_percent(&mut out, part, whole);
            out
        };
        assert_eq!(exact(1, 1), "100.00%");
        assert_eq!(exact(1, 3), "33.33%");
        assert_eq!(exact(2, 3), "66.67%");
        assert_eq!(exact(1, 2000), "0.05%");
        assert_eq!(exact(0, 5), "0.00%");
        assert_eq!(exact(1, 100_000), "0.0010%");
        assert_eq!(exact(u64::MAX, u64::MAX), "100.00%");
    }

    #[test]
    fn shares_have_as_many_digits_as_they_need() {
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(1, 1000), "0.1 %");
        assert_eq!(percent(3, 10_000), "0.03 %");
        assert_eq!(percent(1, 1_000_000), "< 0.01 %");
        assert_eq!(percent(0, 0), "0 %");
    }
}
