//! Operations on ranges of addresses.

use std::ops::Range;

/// Returns `ranges` without the addresses in `other`.
pub(crate) fn without(ranges: &[Range<u64>], other: &Range<u64>) -> Vec<Range<u64>> {
    let parts = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(other.start);
        let after = range.start.max(other.end)..range.end;
        [before, after]
    });
    parts.filter(|part| part.start < part.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_another_range_is_left_out() {
        let ranges = [10..20, 30..40];
        for other in [0..5, 12..15, 10..12, 15..35, 18..20, 20..30, 0..100, 35..50, 40..50] {
            let parts = without(&ranges, &other);
            for at in 0..60 {
                let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&at));
                assert_eq!(is_in(&parts), is_in(&ranges) && !other.contains(&at), "{at} {other:?}");
            }
            assert!(parts.is_sorted_by_key(|part| part.start), "{parts:?}");
        }
    }
}
