//! Time ranges as in `perf script --time`: `1.5,2`, `,2`, `10%-20%`, `10%/2`, or several of them; and as in other
//! subcommands: `0.5..1.5`.

use std::ops::RangeInclusive;
use std::str::FromStr;

use pyrograph_analyze::{Moment, TimeRange};

/// A list of time ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<Span>);

#[derive(Clone, Debug, PartialEq)]
enum Span {
    /// Nanoseconds on the recording's clock.
    Clock(u64, u64),
    /// Parts of the whole time, in billionths of a percent.
    Share(u64, u64),
    /// A range in the syntax of other subcommands.
    Range(TimeRange),
}

/// One percent, in the unit of [`Span::Share`].
const PERCENT: u64 = 1_000_000_000;

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("..") {
            return Ok(Self(vec![Span::Range(text.parse()?)]));
        }
        let spans: Result<Vec<Span>, String> = match text.contains('%') {
            true => text.split([',', ' ']).filter(|part| !part.is_empty()).map(share).collect(),
            false => text.split(' ').filter(|part| !part.is_empty()).map(clock).collect(),
        };
        match spans?.as_slice() {
            [] => Err("no time".to_owned()),
            spans => Ok(Self(spans.to_vec())),
        }
    }
}

/// Parses `START,STOP`, each of which may be missing.
fn clock(text: &str) -> Result<Span, String> {
    let (from, to) = text.split_once(',').unwrap_or((text, ""));
    let moment = |text: &str, without: u64| match text {
        "" => Ok(without),
        text => billionths(text).ok_or_else(|| format!("'{text}' is not a number of seconds")),
    };
    let (from, to) = (moment(from, 0)?, moment(to, u64::MAX)?);
    if from > to {
        return Err("the end is before the beginning".to_owned());
    }
    Ok(Span::Clock(from, to))
}

/// Parses `10%-20%`, or `10%/2`, which is the second tenth.
fn share(text: &str) -> Result<Span, String> {
    let wrong = || format!("'{text}' is neither A%-B% nor A%/N");
    let percent = |text: &str| {
        let share = billionths(text.strip_suffix('%')?)?;
        (share <= 100 * PERCENT).then_some(share)
    };
    let (from, to) = match (text.split_once('-'), text.split_once('/')) {
        (Some((from, to)), _) => (percent(from), percent(to)),
        (None, Some((size, number))) => {
            let number = number.parse().ok().filter(|&number: &u64| number > 0);
            let end = percent(size).zip(number).and_then(|(size, number)| size.checked_mul(number));
            (
                end.zip(percent(size)).map(|(end, size)| end - size),
                end.filter(|&end| end <= 100 * PERCENT),
            )
        }
        (None, None) => (Some(0), percent(text)),
    };
    let (from, to) = from.zip(to).filter(|(from, to)| from < to).ok_or_else(wrong)?;
    Ok(Span::Share(from, to))
}

/// Parses a decimal number to billionths, exactly.
fn billionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digits = format!("{fraction:0<9}");
    let fraction: u64 = digits.get(..9)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(PERCENT)?.checked_add(fraction)
}

impl Times {
    /// Returns true if some ranges are parts of the whole time.
    pub fn has_shares(&self) -> bool {
        self.0.iter().any(|span| matches!(span, Span::Share(..)))
    }

    /// The ranges in nanoseconds, for events between these first and last times.
    pub fn ranges(&self, (first, last): (u64, u64)) -> Vec<RangeInclusive<u64>> {
        let at = |share: u64| {
            let whole = u128::from(last - first) * u128::from(share);
            first + u64::try_from(whole / u128::from(100 * PERCENT)).unwrap_or(0)
        };
        let range = |span: &Span| match span {
            Span::Clock(from, to) => *from..=*to,
            // Each time is in one part only: the end of a part is exclusive, except the end of the last part.
            Span::Share(from, to) if *to == 100 * PERCENT => at(*from)..=last,
            Span::Share(from, to) => at(*from)..=at(*to).saturating_sub(1),
            Span::Range(range) => {
                let moment = |moment: Option<Moment>| {
                    moment.map(|moment| match moment {
                        Moment::SinceStart(time) => first.saturating_add(time),
                        Moment::Clock(time) => time,
                    })
                };
                let end = moment(range.to).map_or(u64::MAX, |end| end.saturating_sub(1));
                moment(range.from).unwrap_or(0)..=end
            }
        };
        self.0.iter().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(u64, u64)]) {
        let times: Result<Times, String> = text.parse();
        let ranges = times.map(|times| times.ranges((2_000_000_000, 12_000_000_000)));
        let found: Result<Vec<(u64, u64)>, String> =
            ranges.map(|ranges| ranges.into_iter().map(RangeInclusive::into_inner).collect());
        match expect {
            [] => assert!(found.is_err(), "{text}: {found:?}"),
            expect => assert_eq!(found, Ok(expect.to_vec()), "{text}"),
        }
    }

    #[test]
    fn times_as_they_are_typed() {
        const S: u64 = 1_000_000_000;
        check("2.5,3", &[(2_500_000_000, 3 * S)]);
        check("2.123456789,", &[(2_123_456_789, u64::MAX)]);
        check(",3", &[(0, 3 * S)]);
        check("2,3 5,6", &[(2 * S, 3 * S), (5 * S, 6 * S)]);
        check("10%-20%", &[(3 * S, 4 * S - 1)]);
        check("0%-10%,90%-100%", &[(2 * S, 3 * S - 1), (11 * S, 12 * S)]);
        check("10%/2", &[(3 * S, 4 * S - 1)]);
        check("10%/10", &[(11 * S, 12 * S)]);
        check("10%/1,10%/3", &[(2 * S, 3 * S - 1), (4 * S, 5 * S - 1)]);
        check("10%", &[(2 * S, 3 * S - 1)]);
        check("1..2", &[(3 * S, 4 * S - 1)]);
        for wrong in ["", "x", "3,2", "20%-10%", "10%/11", "10%/0", "101%", "a%", "1.5.2,", "-1,2"]
        {
            check(wrong, &[]);
        }
    }
}
