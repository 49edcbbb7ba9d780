//! Bars with a resolution of an eighth of a cell.

/// Returns a bar of up to `width` columns for a part of a whole. A nonzero part has at least an eighth of a cell.
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let room = 8 * width as u128;
    let eighths = u128::from(part.min(whole)) * room / u128::from(whole);
    let eighths = (eighths as usize).max(1).min(8 * width);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(1, 2, 4), "██");
        assert_eq!(bar(5, 8, 1), "▋");
        assert_eq!(bar(1, u64::MAX, 4), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar(9, 3, 2), "██");
        assert_eq!(bar(0, 3, 2), "");
        assert_eq!(bar(1, 3, 0), "");
    }
}
