//! The count at the end of a line of folded text.

/// As many decimals as nanoseconds have to a second; more would leave too few digits before them. What
/// has more is rounded.
const MOST_DECIMALS: u8 = 9;

/// A number of 10^-`decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub value: u64,
    pub decimals: u8,
}

/// A line, parted.
pub(super) enum Split<'a> {
    /// The stack and the count after it.
    Count(&'a [u8], Decimal),
    /// There is no count.
    None,
    /// There is one that no column can hold.
    OutOfRange,
}

/// Parts a line, whose end is trimmed, at its last blank.
pub(super) fn split_count(line: &[u8]) -> Split<'_> {
    let digits =
        line.iter().rev().take_while(|&&byte| byte.is_ascii_digit() || byte == b'.').count();
    let (before, count) = line.split_at(line.len() - digits);
    let stack = before.trim_ascii_end();
    // A blank and a count: samples without a stack, as py-spy writes them.
    if count.is_empty() || stack.len() == before.len() {
        return Split::None;
    }
    let mut value = 0u64;
    let mut decimals: Option<u8> = None;
    for (at, &digit) in count.iter().enumerate() {
        if decimals == Some(MOST_DECIMALS) {
            // Rounded half up.
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
