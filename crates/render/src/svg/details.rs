//! Details of a frame of a comparison.

use pyrograph_analyze::{DiffFrame, DiffGraph, Measure, Side, Verdict};

use super::diff::by_values;
use crate::SvgOptions;
use crate::units::{Values, write_percent};

/// Writes lines such as these, each after a line end:
///
/// ```text
/// after 1,500 samples, 14.10%
/// before 1,234 samples, 12.34%
/// +266 samples, +1.76 points; 95% between +1.10 and +2.42 points
/// more, beyond noise
/// ```
pub(super) struct Details<'a> {
    graph: &'a DiffGraph,
    /// Value formats before and after.
    values: [Values; 2],
    /// True if both sides have the same value type, so that their values can be subtracted.
    alike: bool,
    /// ` a run` if a side has several runs, otherwise empty.
    each: &'static str,
}

impl<'a> Details<'a> {
    pub(super) fn new(graph: &'a DiffGraph, options: &'a SvgOptions) -> Self {
        let count_name = options.count_name.as_deref();
        let several = graph.before.runs > 1 || graph.after.runs > 1;
        Self {
            graph,
            values: [&graph.before, &graph.after]
                .map(|side| Values::new(&side.value_type, count_name, options.factor)),
            alike: graph.before.unlike(&graph.after).is_none(),
            each: if several { " a run" } else { "" },
        }
    }

    pub(super) fn write(&self, out: &mut String, frame: &DiffFrame) {
        let (before, after) = (0, 1);
        out.push_str("\nafter ");
        self.value(out, frame.after.value, after);
        out.push_str("\nbefore ");
        self.value(out, frame.before.value, before);
        if self.graph.options.measure == Measure::OwnSelf {
            out.push_str("\nself after ");
            self.value(out, frame.compared.1, after);
            out.push_str(", before ");
            self.value(out, frame.compared.0, before);
        }
        self.change(out, frame);
        out.push('\n');
        out.push_str(match (frame.verdict, frame.before.value, frame.after.value) {
            (Verdict::Noise, 0, _) => "new, within noise",
            (Verdict::Noise, _, 0) => "gone, within noise",
            (Verdict::Noise, ..) => "within noise",
            (_, 0, _) => "new, beyond noise",
            (_, _, 0) => "gone, beyond noise",
            (Verdict::More, ..) => "more, beyond noise",
            (Verdict::Less, ..) => "less, beyond noise",
        });
    }

    /// Writes the change in values and in percentage points, with its confidence interval.
    fn change(&self, out: &mut String, frame: &DiffFrame) {
        let graph = self.graph;
        let runs = (graph.before.runs.max(1) as f64, graph.after.runs.max(1) as f64);
        let (before, after) = frame.compared;
        out.push('\n');
        if self.alike {
            self.signed(out, after as f64 / runs.1 - before as f64 / runs.0);
            out.push_str(self.each);
            out.push_str(", ");
        }
        let share = |value: u64, side: &Side| match side.total {
            0 => 0.0,
            total => value as f64 / total as f64,
        };
        let points = share(after, &graph.after) - share(before, &graph.before);
        out.push_str(&format!("{} points", signed(100.0 * points)));
        let estimate = &frame.estimate;
        if !(estimate.low.is_finite() && estimate.high.is_finite()) {
            return;
        }
        out.push_str(&format!("; {} between ", percent(graph.options.confidence)));
        if by_values(graph) {
            self.signed(out, estimate.low);
            out.push_str(" and ");
            self.signed(out, estimate.high);
        } else {
            let (low, high) = (signed(100.0 * estimate.low), signed(100.0 * estimate.high));
            out.push_str(&format!("{low} and {high} points"));
        }
    }

    /// Writes the largest change, for the legend.
    pub(super) fn largest(&self, out: &mut String) {
        let graph = self.graph;
        if graph.family.changed == 0 {
            out.push_str(&format!("{} confidence", percent(graph.options.confidence)));
        } else if by_values(graph) {
            out.push_str("full colour ±");
            self.values[1].write(out, graph.largest.round() as u64);
        } else {
            out.push_str(&format!("full colour ±{:.2} points", 100.0 * graph.largest));
        }
    }

    /// Writes the mean per run and the percentage of a sum over a side's runs; side 0 is before.
    fn value(&self, out: &mut String, sum: u64, side: usize) {
        let values = &self.values[side];
        let side = [&self.graph.before, &self.graph.after][side];
        let runs = side.runs.max(1) as u64;
        values.write(out, (sum + runs / 2) / runs);
        out.push_str(self.each);
        out.push_str(", ");
        write_percent(out, sum, side.total.max(1));
    }

    fn signed(&self, out: &mut String, value: f64) {
        out.push(if value < 0.0 { '-' } else { '+' });
        self.values[1].write(out, value.abs().round() as u64);
    }
}

/// Formats a number with a sign and two decimals, or more if it would look like 0.
fn signed(value: f64) -> String {
    let digits = match value.abs() {
        0.00005..0.0095 => 4,
        0.0095..0.095 => 3,
        _ => 2,
    };
    // Avoids a negative zero.
    format!("{:+.digits$}", value + 0.0)
}

/// Formats a share as a percentage: `95%`, `99.9%`.
fn percent(share: f64) -> String {
    format!("{}%", (1e6 * share).round() / 1e4)
}
