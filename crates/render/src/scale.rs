//! Axes: positions of ticks, and formatting of numbers with units. `script/scale.js` implements the same rules for
//! zoomed pictures.

use pyrograph_profile::TimeUnit;

use crate::units::write_integer;

/// Unit of the numbers on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Nanoseconds per unit; `None` if the unit is not a time.
    pub(crate) nanoseconds: Option<f64>,
    /// Text after a number, if the unit is not a time.
    pub(crate) label: String,
    /// True for addresses, in hexadecimal.
    pub(crate) hex: bool,
}

/// Unit of addresses: numbers are shown in hexadecimal.
pub const HEX: &str = "hex";

/// A minute and an hour in nanoseconds, above which steps are not decimal.
const MINUTE: f64 = 60e9;
const HOUR: f64 = 3600e9;
/// Steps in minutes, from a minute on.
const LONG: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0, 720.0, 1440.0];

impl Scale {
    /// Creates the scale of values with a unit: `us`, `ms`, `%`.
    pub(crate) fn of_unit(unit: &str) -> Self {
        let unit = unit.trim();
        let nanoseconds = TimeUnit::named(unit).map(|unit| unit.nanoseconds() as f64);
        let hex = unit == HEX;
        Self { nanoseconds, label: if hex { String::new() } else { unit.to_owned() }, hex }
    }

    /// Creates a scale of nanoseconds.
    pub(crate) fn time() -> Self {
        Self::of_unit("ns")
    }

    /// Returns at most `most` round numbers from `low` to `high`, and the step between them.
    pub(crate) fn ticks(&self, low: f64, high: f64, most: f64) -> (Vec<f64>, f64) {
        let factor = self.nanoseconds.unwrap_or(1.0);
        let least = ((high - low) * factor) / most.max(1.0);
        let step =
            if self.hex { round_hex(least) } else { round(least, self.nanoseconds.is_some()) };
        let step = step / factor;
        if !step.is_finite() || step <= 0.0 {
            return (vec![low], 1.0);
        }
        let first = (low / step - 1e-9).ceil();
        let count = ((high / step + 1e-9).floor() - first).clamp(-1.0, 100.0);
        let ticks = (0..=(count as i64)).map(|at| (first + at as f64) * step).collect();
        (ticks, step)
    }

    /// Returns powers of ten from `low` to `high`, and also two and five times these if there is room.
    pub(crate) fn log_ticks(&self, low: f64, high: f64, most: f64) -> Vec<f64> {
        let base: f64 = if self.hex { 16.0 } else { 10.0 };
        let of = |value: f64| if self.hex { value.log2() / 4.0 } else { value.log10() };
        let (first, last) = (of(low).floor() as i32, of(high).ceil() as i32);
        let decades = of(high) - of(low);
        let digits: &[f64] = match (decades * 3.0 <= most, self.hex) {
            (true, true) => &[1.0, 4.0],
            (true, false) => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = (decades / most.max(1.0)).ceil().max(1.0) as usize;
        (first..=last)
            .step_by(every)
            .flat_map(|power| digits.iter().map(move |digit| digit * base.powi(power)))
            .filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9))
            .collect()
    }

    /// Formats a number with its unit. `size` is the largest number of the axis, which determines the unit; `step` is
    /// the difference that must be visible.
    pub(crate) fn text(&self, value: f64, size: f64, step: f64) -> String {
        if self.hex {
            return hex(value);
        }
        let (unit, label) = self.unit(size, step);
        let number = number(value / unit, step / unit);
        if label.is_empty() { number } else { format!("{number} {label}") }
    }

    /// Formats a range: `2.5–5 ms`.
    pub(crate) fn range(&self, low: f64, high: f64) -> String {
        if self.hex {
            return format!("{}–{}", hex(low), hex(high));
        }
        let (step, size) = (high - low, high.abs().max(low.abs()));
        let (unit, _) = self.unit(size, step);
        format!("{}–{}", number(low / unit, step / unit), self.text(high, size, step))
    }

    /// Size of a suitable unit in the scale's numbers, and its name.
    fn unit(&self, size: f64, step: f64) -> (f64, &str) {
        let Some(factor) = self.nanoseconds else { return (1.0, &self.label) };
        let (size, step) = (size.abs() * factor, step.abs() * factor);
        let (unit, label) = match (size, step) {
            (_, step) if step >= HOUR => (HOUR, "h"),
            (_, step) if step >= MINUTE => (MINUTE, "min"),
            (size, _) if size >= 1e9 => (1e9, "s"),
            (size, _) if size >= 1e6 => (1e6, "ms"),
            (size, _) if size >= 1e3 => (1e3, "µs"),
            _ => (1.0, "ns"),
        };
        (unit / factor, label)
    }
}

/// Smallest power of two that is not below `least`, 1 at least.
fn round_hex(least: f64) -> f64 {
    least.max(1.0).log2().ceil().exp2()
}

/// Formats an address.
fn hex(value: f64) -> String {
    let sign = if value <= -1.0 { "-" } else { "" };
    format!("{sign}{:#x}", value.abs() as u64)
}

/// Smallest round step that is not below `least`.
fn round(least: f64, time: bool) -> f64 {
    if time && least > 20e9 {
        if least <= 30e9 {
            return 30e9;
        }
        if let Some(long) = LONG.iter().find(|long| **long * MINUTE >= least) {
            return long * MINUTE;
        }
    }
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// Formats a number with as many digits as the step needs, at most three significant digits of the step.
fn number(value: f64, step: f64) -> String {
    if value.abs() >= 1e15 || step.abs() < 1e-9 || !step.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { format!("{value:.3e}") };
    }
    let most = (2.0 - step.abs().log10().floor()).clamp(0.0, 11.0) as usize;
    let digits = (0..most)
        .find(|digits| {
            let shown = step * 10f64.powi(*digits as i32);
            (shown - shown.round()).abs() < 1e-6 * shown.abs()
        })
        .unwrap_or(most);
    let text = format!("{:.digits$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    if value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        out.push('-');
    }
    write_integer(&mut out, whole.parse().unwrap_or(u64::MAX));
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_the_unit_that_is_shown() {
        let check = |unit: &str, low, high, expect: &[&str]| {
            let scale = Scale::of_unit(unit);
            let (ticks, step) = scale.ticks(low, high, 6.0);
            let texts: Vec<String> =
                ticks.iter().map(|&tick| scale.text(tick, high, step)).collect();
            assert_eq!(texts, expect, "{low} to {high} {unit}");
        };
        check("us", 0.0, 105_611.0, &["0 ms", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"]);
        check("s", 0.0, 0.0025, &["0.0 ms", "0.5 ms", "1.0 ms", "1.5 ms", "2.0 ms", "2.5 ms"]);
        check("s", 0.0, 300.0, &["0 min", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        check(
            "s",
            3000.0,
            3001.0,
            &["3,000.0 s", "3,000.2 s", "3,000.4 s", "3,000.6 s", "3,000.8 s", "3,001.0 s"],
        );
        check("%", -20.0, 100.0, &["-20 %", "0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        check(
            "",
            0.0,
            3e16,
            &["0", "5.000e15", "1.000e16", "1.500e16", "2.000e16", "2.500e16", "3.000e16"],
        );
    }

    #[test]
    fn addresses_are_hexadecimal() {
        let scale = Scale::of_unit("hex");
        let (ticks, step) = scale.ticks(140_737_488_347_136.0, 140_737_488_355_328.0, 4.0);
        let texts: Vec<String> = ticks.iter().map(|&tick| scale.text(tick, tick, step)).collect();
        let expect = [
            "0x7fffffffe000",
            "0x7fffffffe800",
            "0x7ffffffff000",
            "0x7ffffffff800",
            "0x800000000000",
        ];
        assert_eq!(texts, expect);
        assert_eq!(scale.range(0.0, 4096.0), "0x0–0x1000");
        assert_eq!(scale.text(-18.0, 18.0, 1.0), "-0x12");
        let powers = scale.log_ticks(1.0, 4096.0, 4.0);
        let powers: Vec<String> = powers.iter().map(|&tick| scale.text(tick, tick, tick)).collect();
        assert_eq!(powers, ["0x1", "0x10", "0x100", "0x1000"]);
    }

    #[test]
    fn powers_of_ten_have_units_of_their_own() {
        let scale = Scale::of_unit("us");
        let texts = |low, high| -> Vec<String> {
            let ticks = scale.log_ticks(low, high, 8.0);
            ticks.iter().map(|&tick| scale.text(tick, tick, tick)).collect()
        };
        assert_eq!(texts(1.0, 1e6), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(texts(3.0, 150.0), ["5 µs", "10 µs", "20 µs", "50 µs", "100 µs"]);
        assert!(texts(1e-300, 1e300).len() <= 9);
    }

    #[test]
    fn ranges_name_the_unit_once() {
        assert_eq!(Scale::of_unit("us").range(2500.0, 5000.0), "2.5–5.0 ms");
        assert_eq!(Scale::of_unit("us").range(0.0, 2112.22), "0.00–2.11 ms");
        assert_eq!(Scale::of_unit("KB").range(1000.0, 2000.0), "1,000–2,000 KB");
        assert_eq!(Scale::time().range(0.0, 120e9), "0–2 min");
        assert_eq!(Scale::of_unit("").range(-1e300, 1e300), "-1.000e300–1.000e300");
    }
}
