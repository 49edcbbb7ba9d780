//! Heat maps: values over time, counted in the cells of a grid.
//!
//! A column is a time span, a row a value range. The first column begins at the earliest time, regardless of the
//! order of the points; the last one contains the latest time. The top row contains the highest value, including its
//! upper edge.

mod fine;
mod rows;

use std::str::FromStr;

pub use fine::FineCells;

use rows::Rows;

/// Options of a heat map.
#[derive(Clone, Debug, Default)]
pub struct HeatMapOptions {
    /// Width of a column in nanoseconds; `None` for a round number that gives 48 to 120 columns.
    pub column_step: Option<f64>,
    /// Maximum number of columns; points beyond them are left out and counted.
    pub most_columns: Option<u32>,
    /// Number of rows; `None` for up to 50 rows of a round height.
    pub rows: Option<u32>,
    /// Height of a row, instead of the number of rows. Not with `log`.
    pub row_step: Option<f64>,
    /// Lower edge; lower values are left out and counted. `None` for 0, or for the lowest value if that is negative.
    pub low: Option<f64>,
    /// Upper edge; higher values are left out and counted. `None` for the highest value.
    pub high: Option<f64>,
    /// Logarithmic rows. Values must be above 0; others are left out and counted.
    pub log: bool,
    /// Percentiles to compute over time, such as 99.0.
    pub percentiles: Vec<f64>,
    /// Maximum number of finer cells to count in addition; 0 for none.
    pub most_fine: usize,
}

/// Percentiles from 0 to 100: `50,90,99`, or `none`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl FromStr for Percentiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = |text: &str| match text.trim().trim_start_matches('p').parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            _ => Err(format!("'{text}' is not a percentile from 0 to 100")),
        };
        match text {
            "none" => Ok(Self::default()),
            _ => text.split(',').map(percent).collect::<Result<_, _>>().map(Self),
        }
    }
}

/// Reasons why there is no heat map.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeatMapError {
    /// There are no points.
    #[error("there is nothing to draw: no points")]
    Empty,
    /// All points are outside of the range.
    #[error("there is nothing to draw: none of {0} point{s} has a value in the range", s = if *.0 == 1 { "" } else { "s" })]
    NoneInRange(u64),
    /// The range is empty.
    #[error("the lowest value {0} is not below the highest {1}")]
    EmptyRange(f64, f64),
    /// There would be more cells than can be drawn.
    #[error("{columns} by {rows} cells are too many: take larger steps")]
    TooManyCells {
        /// Number of columns.
        columns: f64,
        /// Number of rows.
        rows: f64,
    },
}

/// A heat map.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Width of a column in nanoseconds.
    pub column_step: f64,
    /// Columns from left to right.
    pub columns: Vec<HeatColumn>,
    /// Edges of the rows, ascending; one more than there are rows.
    pub edges: Vec<f64>,
    /// True if rows are logarithmic.
    pub log: bool,
    /// Cells that are not empty, by column, then by row.
    pub cells: Vec<HeatCell>,
    /// Counts of the same points in finer cells.
    pub fine: FineCells,
    /// Number of points in each row.
    pub rows: Vec<u64>,
    /// Requested percentiles.
    pub percentiles: Vec<Percentile>,
    /// Number of all points, including those that are not drawn.
    pub points: u64,
    /// Number of points below the lowest row.
    pub below: u64,
    /// Number of points above the highest row.
    pub above: u64,
    /// Number of points to the right of the last column.
    pub later: u64,
    /// Highest count of a cell.
    pub largest: u64,
}

/// A column of a heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatColumn {
    /// Number of points, including those above and below the rows.
    pub points: u64,
    /// Number of points below the lowest row.
    pub below: u64,
}

/// A cell that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatCell {
    /// Column, from the left.
    pub column: u32,
    /// Row, from the bottom.
    pub row: u32,
    /// Number of points.
    pub count: u64,
}

/// A percentile, by nearest rank: the lowest value that the given percentage of points does not exceed. Includes
/// points above and below the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentile {
    /// Percentage, such as 99.0.
    pub percent: f64,
    /// Percentile of all points.
    pub overall: f64,
    /// Percentile of each column; `None` for a column without points.
    pub columns: Vec<Option<f64>>,
}

/// Maximum number of cells; more would not make a readable picture.
const MOST_CELLS: f64 = 1_000_000.0;
/// Maximum number of columns by default, where the width of a column is a round number of seconds.
const COLUMNS: f64 = 120.0;

/// Counts points in cells. `times` are nanoseconds in any order; `values` are finite numbers, one per time.
///
/// # Errors
///
/// Fails if there is nothing to draw, or too much.
pub fn heat_map(
    times: &[f64],
    values: &[f64],
    options: &HeatMapOptions,
) -> Result<HeatMap, HeatMapError> {
    let (Some(first), Some(last)) = (least(times), greatest(times)) else {
        return Err(HeatMapError::Empty);
    };
    let rows = Rows::new(values, options)?;
    let column_step = options.column_step.unwrap_or_else(|| round_span((last - first) / COLUMNS));
    let needed = ((last - first) / column_step).floor() + 1.0;
    let most = options.most_columns.map_or(f64::INFINITY, |most| f64::from(most.max(1)));
    let columns = needed.min(most);
    // Also catches a step of 0 and an infinite range.
    let cells = columns * rows.len() as f64;
    if cells.is_nan() || cells > MOST_CELLS {
        return Err(HeatMapError::TooManyCells { columns, rows: rows.len() as f64 });
    }
    let columns = columns as usize;
    let column_of = |time: f64| ((time - first) / column_step) as usize;

    let mut map = HeatMap {
        column_step,
        columns: vec![HeatColumn::default(); columns],
        rows: vec![0; rows.len()],
        log: options.log,
        cells: Vec::new(),
        fine: FineCells::default(),
        percentiles: Vec::new(),
        points: values.len() as u64,
        below: 0,
        above: 0,
        later: 0,
        largest: 0,
        edges: Vec::new(),
    };
    let mut counts = vec![0u64; columns * rows.len()];
    let mut fine = fine::Counter::new(options.most_fine);
    for (&time, &value) in times.iter().zip(values) {
        let at = column_of(time);
        let Some(column) = map.columns.get_mut(at) else {
            map.later += 1;
            continue;
        };
        column.points += 1;
        if rows.is_below(value) {
            column.below += 1;
            map.below += 1;
        } else if let Some(row) = rows.row(value) {
            counts[at * rows.len() + row] += 1;
            let right = (time - first) / column_step - at as f64;
            fine.add((at, row), (right, rows.share(row, value, options.log)));
            map.rows[row] += 1;
        } else {
            map.above += 1;
        }
    }
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (column, row) = ((at / rows.len()) as u32, (at % rows.len()) as u32);
        map.cells.push(HeatCell { column, row, count });
        map.largest = map.largest.max(count);
    }
    if map.cells.is_empty() {
        return Err(HeatMapError::NoneInRange(map.points));
    }
    map.percentiles = percentiles(times, values, &map.columns, &column_of, &options.percentiles);
    map.edges = rows.edges;
    map.fine = fine.finish();
    Ok(map)
}

/// Percentiles of each column, and of all points.
fn percentiles(
    times: &[f64],
    values: &[f64],
    columns: &[HeatColumn],
    column_of: &dyn Fn(f64) -> usize,
    percents: &[f64],
) -> Vec<Percentile> {
    if percents.is_empty() {
        return Vec::new();
    }
    // Sort the values by column.
    let mut next = Vec::with_capacity(columns.len());
    let mut sum = 0;
    for column in columns {
        next.push(sum);
        sum += column.points as usize;
    }
    let mut sorted = vec![0.0; sum];
    for (&time, &value) in times.iter().zip(values) {
        if let Some(place) = next.get_mut(column_of(time)) {
            sorted[*place] = value;
            *place += 1;
        }
    }
    let mut made: Vec<Percentile> = percents
        .iter()
        .map(|&percent| Percentile { percent, overall: 0.0, columns: Vec::new() })
        .collect();
    let mut rest = &mut sorted[..];
    for column in columns {
        let (these, others) = rest.split_at_mut(column.points as usize);
        for one in &mut made {
            one.columns.push(rank(these, one.percent));
        }
        rest = others;
    }
    let mut all = values.to_vec();
    for one in &mut made {
        one.overall = rank(&mut all, one.percent).unwrap_or_default();
    }
    made
}

/// Percentile by nearest rank. Changes the order of the values.
fn rank(values: &mut [f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    let index = rank.saturating_sub(1).min(values.len().checked_sub(1)?);
    Some(*values.select_nth_unstable_by(index, f64::total_cmp).1)
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

fn greatest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// Returns a round number of nanoseconds, not below `least`: 1, 2 or 5 times a power of ten; from a minute on, a
/// divisor of an hour or a day. Returns a second if `least` is not above 0.
fn round_span(least: f64) -> f64 {
    const SECOND: f64 = 1e9;
    const LONG: [f64; 14] = [
        1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0, 720.0, 1440.0, 2880.0, 10080.0,
    ];
    if least <= 0.0 {
        return SECOND;
    }
    if least > 30.0 * SECOND {
        let minutes = least / (60.0 * SECOND);
        if let Some(&long) = LONG.iter().find(|long| **long >= minutes) {
            return long * 60.0 * SECOND;
        }
    }
    if least > 20.0 * SECOND && least <= 30.0 * SECOND {
        return 30.0 * SECOND;
    }
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least).unwrap_or(10.0);
    (digit * power).max(1.0)
}

#[cfg(test)]
mod tests;
