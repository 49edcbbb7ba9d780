//! Why the outer part of a user stack is missing.

use pyrograph_unwind::StackEnd;

use crate::stacks::Marker;

/// Why the outer part of a user stack is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It has more frames than are kept.
    TooManyFrames,
    /// It is larger than the copy that a sample has of it.
    CopyTooSmall,
    /// It could not be read.
    Unreadable,
    /// A return address leads to no code that is mapped.
    Unmapped,
    /// The unwind table of a file was not ready yet, and its stack was not copied.
    TablePending,
    /// The unwind table of a file was left out for want of memory.
    TableOmitted,
    /// Code without an unwind table, and without a frame pointer that leads on.
    NoTable,
    /// The unwind table says what cannot be followed.
    BadRule,
    /// It leads off the stack: to another one that is not at hand, or to a damaged frame.
    OffStack,
    /// A 32-bit program.
    Compat,
    /// All of it: of so many waits, only a part had their stacks taken.
    NotTaken,
    /// In a file of a process that cannot be seen from this PID namespace.
    Invisible,
}

impl Cut {
    /// All causes, in the order in which they are declared.
    pub const ALL: [Self; 12] = [
        Self::TooManyFrames,
        Self::CopyTooSmall,
        Self::Unreadable,
        Self::Unmapped,
        Self::TablePending,
        Self::TableOmitted,
        Self::NoTable,
        Self::BadRule,
        Self::OffStack,
        Self::Compat,
        Self::NotTaken,
        Self::Invisible,
    ];

    /// Where the unwinder stopped; none if that is the root. `is_cut`: the copy is full, so that there was more of
    /// the stack.
    pub(crate) fn of(end: StackEnd, is_cut: bool) -> Option<Self> {
        Some(match end {
            StackEnd::Root => return None,
            // A copy that is not full ends where the mapped memory ends: more would not have helped.
            StackEnd::Truncated if !is_cut => Self::OffStack,
            StackEnd::Truncated => Self::CopyTooSmall,
            StackEnd::TooManyFrames => Self::TooManyFrames,
            StackEnd::OffStack => Self::OffStack,
            StackEnd::NoRule => Self::NoTable,
            StackEnd::BadRule => Self::BadRule,
        })
    }

    /// What stands in the stack in place of the missing part.
    pub(crate) fn marker(self) -> Marker {
        match self {
            Self::TooManyFrames | Self::CopyTooSmall | Self::Unreadable => Marker::Truncated,
            Self::NotTaken => Marker::NotTaken,
            _ => Marker::Broken,
        }
    }

    /// The cause in words that follow a number of stacks: `3 in code without unwind information`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::TooManyFrames => "with more frames than are kept",
            Self::CopyTooSmall => "larger than the copy of the stack",
            Self::Unreadable => "in memory that could not be read",
            Self::Unmapped => "with a return address outside of all mapped code",
            Self::TablePending => "in files whose unwind tables were not ready",
            Self::TableOmitted => "in files whose unwind tables had no room (--table-memory)",
            Self::NoTable => "in code without unwind information",
            Self::BadRule => "in code with unwind information that could not be followed",
            Self::OffStack => "leading off the stack",
            Self::Compat => "of 32-bit programs",
            Self::NotTaken => "of waits whose stacks were not taken",
            Self::Invisible => "of processes in other PID namespaces, whose files cannot be opened",
        }
    }
}

/// How many user stacks end early, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts([u64; Cut::ALL.len()]);

impl Cuts {
    pub(crate) fn add(&mut self, cut: Cut, times: u64) {
        self.0[cut as usize] += times;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(to, count)| *to += count);
    }

    /// The causes that occurred, most frequent first.
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
    fn causes_are_counted_and_sorted() {
        let mut cuts = Cuts::default();
        assert_eq!(cuts.by_count(), []);
        cuts.add(Cut::BadRule, 2);
        cuts.add(Cut::NoTable, 3);
        cuts.add_all(&cuts.clone());
        assert_eq!(cuts.by_count(), [(Cut::NoTable, 6), (Cut::BadRule, 4)]);
        assert!(Cut::ALL.iter().enumerate().all(|(at, cut)| *cut as usize == at));
    }
}
