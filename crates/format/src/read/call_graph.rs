//! Graphs of calls, as profilers without stacks write them, to stacks: the cost of each function itself, and that
//! of the calls of it by each of its callers with all that it calls.
//!
//! A function's own cost is shared out among its callers as the costs of their calls are, theirs among their
//! callers, up to the functions that nobody calls. So self costs and the costs of calls come out as they are in the
//! graph (what is less than a millionth of the whole falls to one caller); but if a function is cheap for one
//! caller's callers and dear for another's, the graph cannot show that. gprof, KCachegrind's call graph and
//! speedscope assume the same. Functions that call each other in a circle are in a stack once, by the shortest way
//! from where the circle is entered.

mod cycles;
mod stacks;

pub(crate) use stacks::put_together;

use crate::warnings::{WarningKind, Warnings};

/// A function in a graph of calls.
#[derive(Default)]
pub(crate) struct Node {
    /// Cost of the function itself, by event.
    pub own: Vec<u64>,
    /// Rows of its callers, and the cost of the calls by each with all that they call in turn. Calls of itself are
    /// not in it.
    pub callers: Vec<(usize, Vec<u64>)>,
}

/// Adds costs to sums, event by event. Saturates.
pub(crate) fn add(sums: &mut Vec<u64>, costs: &[u64]) {
    // Functions that came before the events were named.
    sums.resize(sums.len().max(costs.len()), 0);
    for (sum, cost) in sums.iter_mut().zip(costs) {
        *sum = sum.saturating_add(*cost);
    }
}

/// Says that stacks are not the input's own, and how many of them lack callers.
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
