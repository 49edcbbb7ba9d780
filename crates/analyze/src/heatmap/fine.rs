//! Counts of the same points in finer cells, for zoomed heat maps.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::HeatCell;

/// Maximum number of parts that a cell is divided into in each direction; a power of two.
const FINEST: u32 = 16;

/// Cells of a heat map, each divided in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FineCells {
    /// Number of parts in each direction: a power of two; 1 if finer cells were not requested or would be too many.
    pub factor: u32,
    /// Cells that are not empty, by column, then by row, numbered in the finer grid. Empty if the factor is 1.
    pub cells: Vec<HeatCell>,
}

/// Counts points in the finest cells that stay within the limit.
pub(super) struct Counter {
    most: usize,
    factor: u32,
    counts: HashMap<(u32, u32), u64, FixedState>,
}

impl Counter {
    pub(super) fn new(most: usize) -> Self {
        let factor = if most == 0 { 1 } else { FINEST };
        Self { most, factor, counts: HashMap::default() }
    }

    /// Adds a point in a cell of the map. Its position is given as shares of the cell's width and height, from 0 to 1.
    pub(super) fn add(&mut self, (column, row): (usize, usize), (right, up): (f64, f64)) {
        if self.factor == 1 {
            return;
        }
        let fine = |cell: usize, share: f64| {
            let part = (share * f64::from(self.factor)) as u32;
            cell as u32 * self.factor + part.min(self.factor - 1)
        };
        *self.counts.entry((fine(column, right), fine(row, up))).or_default() += 1;
        while self.counts.len() > self.most && self.factor > 1 {
            self.factor /= 2;
            let before = std::mem::take(&mut self.counts);
            for ((column, row), count) in before {
                *self.counts.entry((column / 2, row / 2)).or_default() += count;
            }
        }
    }

    pub(super) fn finish(self) -> FineCells {
        if self.factor == 1 {
            return FineCells { factor: 1, cells: Vec::new() };
        }
        let mut cells: Vec<HeatCell> = self
            .counts
            .into_iter()
            .map(|((column, row), count)| HeatCell { column, row, count })
            .collect();
        cells.sort_unstable_by_key(|cell| (cell.column, cell.row));
        FineCells { factor: self.factor, cells }
    }
}
