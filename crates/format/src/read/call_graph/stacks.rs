//! Stacks from a call graph: each function's self cost is distributed to the paths that lead to it.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId};

use super::cycles::components;
use super::{Node, add};
use crate::read::rows::Rows;

/// Maximum number of frames and callers that are visited. The number of paths in a call graph can be exponential;
/// costs that are left when the limit is reached are not followed further up.
const MOST_WORK: usize = 100_000_000;

/// Costs below this fraction of the whole are not divided any more: all of it goes to the caller with the highest
/// cost of calls.
const LEAST_SHARE: u64 = 1_000_000;

/// Marker above a function whose callers were not followed.
const CALLERS_LEFT_OUT: &str = "[callers left out]";

/// Adds a row for each path to each function with a self cost. Returns the number of costs that were not followed to
/// a root.
pub(crate) fn put_together(
    functions: &[Node],
    frames: &[FrameId],
    profile: &mut Profile,
    rows: &mut Rows,
) -> u64 {
    let mut total = Vec::new();
    functions.iter().for_each(|function| add(&mut total, &function.own));
    let least: Vec<u64> = total.iter().map(|total| total / LEAST_SHARE).collect();
    let mut walk = Walk {
        groups: Groups::new(functions, &least),
        least,
        frames,
        profile,
        rows,
        work_left: MOST_WORK,
        path: Vec::new(),
        steps: Vec::new(),
        ways: HashMap::new(),
        cut: 0,
    };
    for (row, function) in functions.iter().enumerate() {
        if function.own.iter().any(|&cost| cost > 0) {
            walk.share_out(row, function.own.clone());
        }
    }
    walk.cut
}

/// A call into a group from outside.
struct Entrance {
    caller: usize,
    entered: usize,
    costs: Vec<u64>,
}

/// The functions, grouped such that functions in a cycle are one group. The graph of groups has no cycles.
struct Groups {
    of_function: Vec<usize>,
    entrances: Vec<Vec<Entrance>>,
    /// Part of each group's total cost that did not come from a caller.
    from_nobody: Vec<Vec<u64>>,
    /// Calls within a group.
    callees_inside: HashMap<usize, Vec<usize>>,
}

impl Groups {
    fn new(functions: &[Node], least: &[u64]) -> Self {
        let callers: Vec<Vec<usize>> = functions
            .iter()
            .map(|function| function.callers.iter().map(|(caller, _)| *caller).collect())
            .collect();
        let of_function = components(&callers);
        let count = of_function.iter().max().map_or(0, |last| last + 1);
        let mut groups = Self {
            entrances: (0..count).map(|_| Vec::new()).collect(),
            from_nobody: vec![Vec::new(); count],
            callees_inside: HashMap::new(),
            of_function,
        };
        for (callee, function) in functions.iter().enumerate() {
            let group = groups.of_function[callee];
            add(&mut groups.from_nobody[group], &function.own);
            for (caller, costs) in &function.callers {
                let calling = groups.of_function[*caller];
                if calling == group {
                    groups.callees_inside.entry(*caller).or_default().push(callee);
                } else {
                    add(&mut groups.from_nobody[calling], costs);
                    let (caller, costs) = (*caller, costs.clone());
                    groups.entrances[group].push(Entrance { caller, entered: callee, costs });
                }
            }
        }
        for (whole, entrances) in groups.from_nobody.iter_mut().zip(&groups.entrances) {
            for entrance in entrances {
                for (left, cost) in whole.iter_mut().zip(&entrance.costs) {
                    *left = left.saturating_sub(*cost);
                }
            }
            // Rounded costs do not add up exactly: such small differences are not costs without a caller.
            if !entrances.is_empty() {
                for (left, &least) in whole.iter_mut().zip(least) {
                    *left = if *left <= least { 0 } else { *left };
                }
            }
        }
        groups
    }
}

/// Walks from functions up to functions without callers.
struct Walk<'a> {
    groups: Groups,
    frames: &'a [FrameId],
    profile: &'a mut Profile,
    rows: &'a mut Rows,
    least: Vec<u64>,
    work_left: usize,
    /// Functions, leaf first.
    path: Vec<usize>,
    steps: Vec<Step>,
    /// For each function at which a cycle was entered: the caller of each member of the cycle on the shortest path
    /// from it.
    ways: HashMap<usize, HashMap<usize, usize>>,
    cut: u64,
}

/// A function of the walk, whose callers are being visited.
struct Step {
    function: usize,
    /// Length of the path before it.
    depth: usize,
    /// Costs that remain for the entrances from `next` on.
    costs: Vec<u64>,
    /// Costs of the calls from these entrances, and of calls without a caller.
    weights: Vec<u64>,
    next: usize,
    /// The entrance that gets all costs, if they are too small to be divided.
    all_to: Option<usize>,
    /// True if the limit was reached, so that callers are not visited.
    cut: bool,
}

impl Walk<'_> {
    /// Distributes a function's costs. Not recursive, because call chains may be long.
    fn share_out(&mut self, function: usize, costs: Vec<u64>) {
        self.enter(function, costs);
        while let Some(step) = self.steps.last_mut() {
            let entrances = &self.groups.entrances[self.groups.of_function[step.function]];
            let (at, part) = if let Some(all) = step.all_to.take() {
                (all, std::mem::take(&mut step.costs))
            } else if let Some(entrance) = entrances.get(step.next) {
                step.next += 1;
                let part = take_part(&mut step.costs, &mut step.weights, &entrance.costs);
                (step.next - 1, part)
            } else {
                self.leave();
                continue;
            };
            if part.iter().all(|&cost| cost == 0) {
                continue;
            }
            let (caller, entered) = (entrances[at].caller, entrances[at].entered);
            let (function, own) = (step.function, step.depth + 1);
            self.path.truncate(own);
            self.pass_circle(function, entered);
            self.enter(caller, part);
        }
    }

    /// Adds to the path the functions between `function` and `entered`, at which its cycle was entered.
    fn pass_circle(&mut self, function: usize, entered: usize) {
        if function == entered {
            return;
        }
        let groups = &self.groups;
        let way = self.ways.entry(entered).or_insert_with(|| shortest_ways(groups, entered));
        let mut at = function;
        while let Some(&caller) = way.get(&at) {
            self.path.push(caller);
            at = caller;
            if at == entered {
                break;
            }
        }
    }

    /// Goes up to a function.
    fn enter(&mut self, function: usize, costs: Vec<u64>) {
        let group = self.groups.of_function[function];
        let entrances = &self.groups.entrances[group];
        let work = self.path.len() + entrances.len() + 1;
        let cut = self.work_left < work && !entrances.is_empty();
        self.work_left = self.work_left.saturating_sub(work);
        let weights = self.groups.from_nobody[group].clone();
        let depth = self.path.len();
        let mut step = Step { function, depth, costs, weights, next: 0, all_to: None, cut };
        if cut {
            step.next = entrances.len();
        } else if step.costs.iter().zip(&self.least).all(|(cost, least)| cost <= least) {
            step.next = entrances.len();
            step.all_to = self.heaviest_entrance(group);
        } else {
            entrances.iter().for_each(|entrance| add(&mut step.weights, &entrance.costs));
        }
        self.path.push(function);
        self.steps.push(step);
    }

    /// Returns the entrance with the highest cost, unless most of the cost came from no caller.
    fn heaviest_entrance(&self, group: usize) -> Option<usize> {
        let sum = |costs: &[u64]| costs.iter().fold(0u64, |sum, cost| sum.saturating_add(*cost));
        let entrances = self.groups.entrances[group].iter().enumerate();
        let (heaviest, at) = entrances.map(|(at, entrance)| (sum(&entrance.costs), at)).max()?;
        (heaviest >= sum(&self.groups.from_nobody[group])).then_some(at)
    }

    /// Adds a stack that begins here for the costs that no caller got.
    fn leave(&mut self) {
        let Some(step) = self.steps.pop() else { return };
        self.path.truncate(step.depth + 1);
        if step.costs.iter().any(|&cost| cost > 0) {
            let mut stack = StackId::ROOT;
            if step.cut {
                self.cut += 1;
                let marker = self.profile.strings.intern(CALLERS_LEFT_OUT);
                let marker = Frame::named(marker, FrameKind::Marker(Marker::Remark));
                stack = self.profile.stacks.intern(stack, self.profile.frames.intern(marker));
            }
            for &function in self.path.iter().rev() {
                stack = self.profile.stacks.intern(stack, self.frames[function]);
            }
            self.rows.push(Sample::new(stack), &step.costs);
        }
        self.path.truncate(step.depth);
    }
}

/// Returns the caller of each member of a cycle on the shortest path from the function at which it is entered.
fn shortest_ways(groups: &Groups, entered: usize) -> HashMap<usize, usize> {
    let mut ways = HashMap::new();
    let mut reached = vec![entered];
    let mut next = 0;
    while let Some(&caller) = reached.get(next) {
        next += 1;
        for &callee in groups.callees_inside.get(&caller).into_iter().flatten() {
            if callee != entered && !ways.contains_key(&callee) {
                ways.insert(callee, caller);
                reached.push(callee);
            }
        }
    }
    ways
}

/// Takes the part of the costs for a caller with `weights`, out of the remaining weights `left`. The last caller gets
/// all that is left, so that nothing is lost to rounding.
fn take_part(costs: &mut [u64], left: &mut [u64], weights: &[u64]) -> Vec<u64> {
    let mut part = vec![0; costs.len()];
    for (column, cost) in costs.iter_mut().enumerate() {
        let Some(left) = left.get_mut(column) else { continue };
        let weight = weights.get(column).copied().unwrap_or(0).min(*left);
        let whole = u128::from(*cost) * u128::from(weight);
        if let Some(share) = whole.checked_div(u128::from(*left)) {
            // Not more than the cost, because the weight is not more than the remaining weights.
            part[column] = share as u64;
            *cost -= part[column];
            *left -= weight;
        }
    }
    part
}
