//! Estimation of stacks from call graphs, for profilers that do not record stacks. A call graph has the self cost of
//! each function, and for each caller the cost of its calls of the function, including callees.
//!
//! A function's self cost is distributed to its callers in proportion to the costs of their calls, then to their
//! callers, up to functions without callers. So self costs and costs of calls are the same as in the graph (costs
//! below a millionth of the whole go to a single caller). But if a function is cheap for one caller's callers and
//! expensive for another's, the graph cannot show that. gprof, KCachegrind's call graph and speedscope make the same
//! assumption. Functions in a cycle of calls occur in a stack once, on the shortest path from the function at which
//! the cycle is entered.

mod cycles;
mod stacks;

pub(crate) use stacks::put_together;

use crate::warnings::{WarningKind, Warnings};

/// A function in a call graph.
#[derive(Default)]
pub(crate) struct Node {
    /// Self cost of the function, by event.
    pub own: Vec<u64>,
    /// Rows of its callers, and the cost of the calls by each, including callees. Direct recursion is not included.
    pub callers: Vec<(usize, Vec<u64>)>,
}

/// Adds costs to sums, event by event. Saturates.
pub(crate) fn add(sums: &mut Vec<u64>, costs: &[u64]) {
    // Functions may have been added before the events were known.
    sums.resize(sums.len().max(costs.len()), 0);
    for (sum, cost) in sums.iter_mut().zip(costs) {
        *sum = sum.saturating_add(*cost);
    }
}

/// Warns that stacks are not the input's own, and how many of them lack callers.
pub(crate) fn say(warnings: &mut Warnings, format: &str, cut: u64) {
    let said = format!(
        "{format} keeps no stacks: callers are known one level deep, and longer stacks are an estimate"
    );
    warnings.add(WarningKind::NotHeld(said), 1, []);
    if cut > 0 {
        let said = format!("the callers of {cut} costs are left out: there are too many ways");
        warnings.add(WarningKind::NotHeld(said), 1, []);
    }
}
