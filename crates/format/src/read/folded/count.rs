//! Parser of the count at the end of a line of folded text.

/// Maximum number of decimals, enough for nanoseconds in seconds; more would leave too few digits before the point.
/// Counts with more decimals are rounded.
const MOST_DECIMALS: u8 = 9;

/// A number in units of 10^-`decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub value: u64,
    pub decimals: u8,
}

/// A line, split into stack and count.
pub(super) enum Split<'a> {
    /// The stack and the count after it.
    Count(&'a [u8], Decimal),
    /// There is no count.
    None,
    /// The count exceeds the range of a column.
    OutOfRange,
}

/// Splits a line, whose end is trimmed, at its last blank.
pub(super) fn split_count(line: &[u8]) -> Split<'_> {
    let digits =
        line.iter().rev().take_while(|&&byte| byte.is_ascii_digit() || byte == b'.').count();
    let (before, count) = line.split_at(line.len() - digits);
    let stack = before.trim_ascii_end();
    // A blank and a count is a sample without a stack, as py-spy writes it.
    if count.is_empty() || stack.len() == before.len() {
        return with_exponent(line);
    }
    let mut value = 0u64;
    let mut decimals: Option<u8> = None;
    for (at, &digit) in count.iter().enumerate() {
        if decimals == Some(MOST_DECIMALS) {
            // Round half up.
            let beyond = &count[at..];
            if beyond.contains(&b'.') {
                return Split::None;
            }
            match value.checked_add(u64::from(beyond[0] >= b'5')) {
                Some(rounded) => value = rounded,
                None => return Split::OutOfRange,
            }
            break;
        }
        if digit == b'.' {
            if decimals.replace(0).is_some() {
                return Split::None;
            }
            continue;
        }
        let more = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        let Some(more) = more else { return Split::OutOfRange };
        value = more;
        if let Some(decimals) = &mut decimals {
            *decimals += 1;
        }
    }
    if count == b"." {
        return Split::None;
    }
    Split::Count(stack, Decimal { value, decimals: decimals.unwrap_or(0) })
}

/// Splits a line whose count is in the form of `%g`: `1.5e3`, `2E+06`, `5e-07`.
fn with_exponent(line: &[u8]) -> Split<'_> {
    let Some(blank) = line.iter().rposition(|byte| matches!(byte, b' ' | b'\t')) else {
        return Split::None;
    };
    let number = str::from_utf8(&line[blank + 1..]).ok();
    let parts = number.and_then(|number| number.split_once(['e', 'E']));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some((mantissa, exponent)) = parts else { return Split::None };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let of_exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let exponent = exponent.parse::<i16>().ok().filter(|_| is_number(of_exponent));
    let Some(exponent) = exponent else { return Split::None };
    if !is_number(whole) || !(fraction.is_empty() || is_number(fraction)) {
        return Split::None;
    }
    let stack = line[..blank].trim_ascii_end();
    let mut digits = whole.bytes().chain(fraction.bytes());
    let value = digits.try_fold(0u128, |value, digit| {
        value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
    });
    // Number of decimals; if negative, number of zeros to append.
    let decimals = fraction.len() as i64 - i64::from(exponent);
    let scaled = |value: u128| -> Option<Decimal> {
        if value == 0 {
            return Some(Decimal { value: 0, decimals: 0 });
        }
        let kept = decimals.clamp(0, i64::from(MOST_DECIMALS));
        let by = u32::try_from((decimals - kept).unsigned_abs()).ok()?;
        let value = match (decimals > kept, 10u128.checked_pow(by)) {
            (true, None) => 0,
            // Round half up.
            (true, Some(scale)) => value / scale + u128::from(value % scale >= scale.div_ceil(2)),
            (false, scale) => value.checked_mul(scale?)?,
        };
        Some(Decimal { value: u64::try_from(value).ok()?, decimals: u8::try_from(kept).ok()? })
    };
    value.and_then(scaled).map_or(Split::OutOfRange, |count| Split::Count(stack, count))
}
