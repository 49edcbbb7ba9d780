//! Reasons why the outer part of a user stack is missing: derived from the unwinder's result, and counted.

use pyrograph_event::counted::Cut;
use pyrograph_unwind::StackEnd;

use crate::stacks::Marker;

/// Reason why the unwinder stopped; `None` if it reached the root. `is_cut`: the copy is full, so the stack was larger
/// than the copy.
pub(crate) fn cut_of(end: StackEnd, is_cut: bool) -> Option<Cut> {
    Some(match end {
        StackEnd::Root => return None,
        // A copy that is not full ends where the mapped memory ends: a larger copy would not have helped.
        StackEnd::Truncated if !is_cut => Cut::OffStack,
        StackEnd::Truncated => Cut::CopyTooSmall,
        StackEnd::TooManyFrames => Cut::TooManyFrames,
        StackEnd::OffStack => Cut::OffStack,
        StackEnd::NoRule | StackEnd::Unread => Cut::NoTable,
        StackEnd::BadRule => Cut::BadRule,
        StackEnd::Moved => Cut::Moved,
    })
}

/// Marker frame in place of the missing part.
pub(crate) fn marker_of_cut(cut: Cut) -> Marker {
    match cut {
        Cut::TooManyFrames | Cut::CopyTooSmall | Cut::Unreadable => Marker::Truncated,
        Cut::NotTaken => Marker::NotTaken,
        _ => Marker::Broken,
    }
}

/// Number of user stacks that end early, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts([u64; Cut::ALL.len()]);

impl Cuts {
    pub(crate) fn add(&mut self, cut: Cut, times: u64) {
        self.0[cut as usize] += times;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(to, count)| *to += count);
    }

    /// The reasons that occurred, most frequent first.
    pub fn by_count(&self) -> Vec<(Cut, u64)> {
        let mut all: Vec<_> = Cut::ALL.into_iter().zip(self.0).filter(|row| row.1 > 0).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted() {
        let mut cuts = Cuts::default();
        assert_eq!(cuts.by_count(), []);
        cuts.add(Cut::BadRule, 2);
        cuts.add(Cut::NoTable, 3);
        cuts.add_all(&cuts.clone());
        assert_eq!(cuts.by_count(), [(Cut::NoTable, 6), (Cut::BadRule, 4)]);
    }
}
