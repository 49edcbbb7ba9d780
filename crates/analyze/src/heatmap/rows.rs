//! Rows of a heat map: their edges, and the row of a value.

use super::{HeatMapError, HeatMapOptions, MOST_CELLS, greatest, least};

/// Maximum number of rows by default.
const ROWS: f64 = 50.0;

/// Minimum height of a row by default: powers of ten below a float's range are 0.
const FINEST: f64 = 1e-290;

/// Rows of a heat map.
pub(super) struct Rows {
    /// Edges, ascending; one more than there are rows.
    pub(super) edges: Vec<f64>,
}

impl Rows {
    pub(super) fn new(values: &[f64], options: &HeatMapOptions) -> Result<Self, HeatMapError> {
        let in_range = |value: &f64| {
            options.low.is_none_or(|low| *value >= low)
                && options.high.is_none_or(|high| *value <= high)
                && (!options.log || *value > 0.0)
        };
        let kept = || values.iter().copied().filter(in_range);
        let (Some(lowest), Some(highest)) = (kept().reduce(f64::min), kept().reduce(f64::max))
        else {
            let count = values.len() as u64;
            return Err(match (options.low, options.high) {
                (Some(low), Some(high)) if low >= high => HeatMapError::EmptyRange(low, high),
                _ => HeatMapError::NoneInRange(count),
            });
        };
        let edges = if options.log {
            ratios(lowest, highest, options)?
        } else {
            let whole = kept().all(|value| value.fract() == 0.0);
            differences(lowest, highest, whole, options)?
        };
        debug_assert!(least(&edges) == edges.first().copied());
        debug_assert!(greatest(&edges) == edges.last().copied());
        Ok(Self { edges })
    }

    pub(super) fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Position of a value within its row, from 0 to 1.
    pub(super) fn share(&self, row: usize, value: f64, log: bool) -> f64 {
        let (low, high) = (self.edges[row], self.edges[row + 1]);
        let share = match log {
            true => (value / low).ln() / (high / low).ln(),
            // Halved so that the difference does not exceed a float's range.
            false => (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
        };
        share.clamp(0.0, 1.0)
    }

    pub(super) fn is_below(&self, value: f64) -> bool {
        value < self.edges[0]
    }

    /// The row of a value that is not below the lowest edge; `None` if the value is above the highest edge.
    pub(super) fn row(&self, value: f64) -> Option<usize> {
        let row = self.edges.partition_point(|edge| *edge <= value).saturating_sub(1);
        if row < self.len() {
            return Some(row);
        }
        // The top row includes its upper edge.
        (value <= self.edges[self.len()]).then(|| self.len() - 1)
    }
}

/// Edges at equal distances. If all values are integers (`whole`), rows have a height of at least 1; otherwise some
/// rows would always be empty.
fn differences(
    lowest: f64,
    highest: f64,
    whole: bool,
    options: &HeatMapOptions,
) -> Result<Vec<f64>, HeatMapError> {
    let low = options.low.unwrap_or(lowest.min(0.0));
    let high = options.high.unwrap_or(highest);
    let high = if options.high.is_none() && high <= low { low + 1.0 } else { high };
    if low >= high {
        return Err(HeatMapError::EmptyRange(low, high));
    }
    if let Some(rows) = options.rows {
        let rows = rows.max(1);
        check(f64::from(rows))?;
        let mut edges: Vec<f64> = (0..=rows)
            .map(|row| {
                let share = f64::from(row) / f64::from(rows);
                // Not `high - low`, which may exceed a float's range.
                low * (1.0 - share) + high * share
            })
            .collect();
        edges[rows as usize] = high;
        return Ok(edges);
    }
    if let Some(step) = options.row_step {
        let rows = match options.high {
            Some(_) => ((high - low) / step).ceil(),
            None => ((high - low) / step).floor() + 1.0,
        };
        check(rows)?;
        return Ok((0..=rows as u64).map(|row| low + row as f64 * step).collect());
    }
    let step = RoundStep::new((high / ROWS - low / ROWS).max(FINEST), whole);
    // The lowest edge is a multiple of the step, so that all edges are round numbers.
    let first = step.below(low);
    let mut last = step.below(high);
    if step.times(last) < high || options.high.is_none() {
        last += 1.0;
    }
    let rows = last - first;
    check(rows)?;
    let mut edges: Vec<f64> =
        (0..=rows as u64).map(|row| finite(step.times(first + row as f64))).collect();
    // Edges that the user gave are kept exactly.
    if options.low.is_some() {
        edges[0] = low;
    }
    if options.high.is_some() {
        edges[rows as usize] = high;
    }
    Ok(edges)
}

/// Edges at equal ratios.
fn ratios(lowest: f64, highest: f64, options: &HeatMapOptions) -> Result<Vec<f64>, HeatMapError> {
    let asked = options.low.filter(|low| *low > 0.0);
    let (mut low, mut high) = (asked.unwrap_or(lowest), options.high.unwrap_or(highest));
    if high <= low {
        low = asked.unwrap_or(low / 2.0);
        high = options.high.unwrap_or((high * 2.0).min(f64::MAX));
    }
    if high <= low {
        return Err(HeatMapError::EmptyRange(low, high));
    }
    let decades = high.log10() - low.log10();
    let per_decade = [40.0, 20.0, 10.0, 8.0, 5.0, 4.0, 2.0, 1.0]
        .into_iter()
        .find(|per| decades * per + 1.0 <= ROWS);
    let (Some(per), None) = (per_decade, options.rows) else {
        let rows = options.rows.unwrap_or(ROWS as u32).max(1);
        check(f64::from(rows))?;
        let edge = |row: u32| 10f64.powf(low.log10() + decades * f64::from(row) / f64::from(rows));
        let mut edges: Vec<f64> = (0..=rows).map(edge).collect();
        (edges[0], edges[rows as usize]) = (low, high);
        edges.dedup();
        return Ok(edges);
    };
    // Makes every power of ten an edge.
    let first = (low.log10() * per + 1e-9).floor();
    let mut last = (high.log10() * per - 1e-9).ceil().max(first + 1.0);
    let edge = |at: f64| {
        let (decade, part) = ((at / per).floor(), at.rem_euclid(per));
        10f64.powi(decade as i32) * 10f64.powf(part / per)
    };
    if edge(last) <= high && options.high.is_none() {
        last += 1.0;
    }
    let rows = (last - first) as u64;
    let mut edges: Vec<f64> = (0..=rows).map(|row| finite(edge(first + row as f64))).collect();
    let top = edges.len() - 1;
    edges[0] = if asked.is_some() { low } else { edges[0].min(low) };
    edges[top] = if options.high.is_some() { high } else { edges[top].max(high) };
    edges.dedup();
    Ok(edges)
}

fn finite(edge: f64) -> f64 {
    edge.clamp(f64::MIN, f64::MAX)
}

fn check(rows: f64) -> Result<(), HeatMapError> {
    // Also catches infinity and NaN.
    if rows <= MOST_CELLS / 100.0 {
        Ok(())
    } else {
        Err(HeatMapError::TooManyCells { columns: 1.0, rows })
    }
}

/// A step of 1, 2, 2.5 or 5 times a power of ten. Multiples are exact if a float can represent them.
struct RoundStep {
    digits: f64,
    /// Power of ten by which digits are multiplied, or divided if `divide` is set.
    power: f64,
    divide: bool,
}

impl RoundStep {
    /// Smallest round step that is not below `least`; an integer if `whole` is set.
    fn new(least: f64, whole: bool) -> Self {
        let least = if whole { least.max(1.0) } else { least };
        // Digits of 25 instead of 2.5 keep them integers.
        let exponent = least.log10().floor() - 1.0;
        let digits = [10.0, 20.0, 25.0, 50.0, 100.0]
            .into_iter()
            .find(|digits| {
                let step = Self::of(*digits, exponent);
                step.times(1.0) >= least && (!whole || step.times(1.0).fract() == 0.0)
            })
            .unwrap_or(100.0);
        Self::of(digits, exponent)
    }

    fn of(digits: f64, exponent: f64) -> Self {
        Self { digits, power: 10f64.powi(exponent.abs() as i32), divide: exponent < 0.0 }
    }

    fn times(&self, count: f64) -> f64 {
        let digits = count * self.digits;
        if self.divide { digits / self.power } else { digits * self.power }
    }

    /// Largest number of steps that is not above a value.
    fn below(&self, value: f64) -> f64 {
        let count = (value / self.times(1.0)).floor();
        if self.times(count + 1.0) <= value { count + 1.0 } else { count }
    }
}
