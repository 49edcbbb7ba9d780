//! Arrows from jump instructions to their targets.

use std::collections::BTreeMap;

use super::AnnotatedInstruction;

/// All jumps to one instruction, drawn as one arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Index of the target instruction.
    pub target: usize,
    /// Indices of the jump instructions, ascending.
    pub from: Vec<usize>,
    /// Column of the vertical line; 0 is next to the instructions.
    pub lane: usize,
}

impl Arrow {
    /// Index of the first instruction that the vertical line touches.
    pub fn top(&self) -> usize {
        self.target.min(self.from.first().copied().unwrap_or(self.target))
    }

    /// Index of the last instruction that the vertical line touches.
    pub fn bottom(&self) -> usize {
        self.target.max(self.from.last().copied().unwrap_or(self.target))
    }
}

/// Lays out the arrows of the jumps within a function in at most `lanes` columns, sorted by their top. Short arrows
/// are placed first, next to the instructions; an arrow without a free lane is left out.
pub fn arrows(instructions: &[AnnotatedInstruction], lanes: usize) -> Vec<Arrow> {
    let mut by_target: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, instruction) in instructions.iter().enumerate() {
        if let Some(target) = instruction.target {
            by_target.entry(target).or_default().push(from);
        }
    }
    let arrow = |(target, from)| Arrow { target, from, lane: 0 };
    let mut arrows: Vec<Arrow> = by_target.into_iter().map(arrow).collect();
    arrows.sort_by_key(|arrow| (arrow.bottom() - arrow.top(), arrow.top()));
    // For each lane, the bottom of each arrow by its top.
    let mut taken: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); lanes];
    arrows.retain_mut(|arrow| {
        let (top, bottom) = (arrow.top(), arrow.bottom());
        let is_free = |lane: &BTreeMap<usize, usize>| {
            lane.range(..=bottom).next_back().is_none_or(|(_, &end)| end < top)
        };
        let Some(lane) = taken.iter().position(is_free) else { return false };
        taken[lane].insert(top, bottom);
        arrow.lane = lane;
        true
    });
    arrows.sort_by_key(|arrow| (arrow.top(), arrow.lane));
    arrows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(jumps: &[(usize, usize)], lanes: usize, expect: &[(usize, &[usize], usize)]) {
        let count = jumps.iter().map(|&(from, to)| from.max(to) + 1).max().unwrap_or(0);
        let mut instructions = vec![AnnotatedInstruction::default(); count];
        for &(from, to) in jumps {
            instructions[from].target = Some(to);
        }
        let found = arrows(&instructions, lanes);
        let found: Vec<_> =
            found.iter().map(|of| (of.target, of.from.as_slice(), of.lane)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn short_jumps_are_next_to_the_code() {
        check(&[], 4, &[]);
        check(&[(9, 0), (4, 2)], 4, &[(0, &[9], 1), (2, &[4], 0)]);
    }

    #[test]
    fn jumps_to_one_place_are_one_arrow() {
        check(&[(3, 5), (1, 5), (8, 5)], 4, &[(5, &[1, 3, 8], 0)]);
    }

    #[test]
    fn lanes_are_used_again() {
        check(&[(1, 0), (3, 2), (5, 4)], 1, &[(0, &[1], 0), (2, &[3], 0), (4, &[5], 0)]);
        // One that ends where the next begins would look like one.
        check(&[(2, 0), (4, 2)], 2, &[(0, &[2], 0), (2, &[4], 1)]);
    }

    #[test]
    fn the_longest_is_left_out_first() {
        check(&[(9, 0), (4, 2), (5, 1)], 2, &[(1, &[5], 1), (2, &[4], 0)]);
    }

    #[test]
    fn a_jump_to_itself_is_an_arrow() {
        check(&[(0, 0)], 1, &[(0, &[0], 0)]);
    }
}
