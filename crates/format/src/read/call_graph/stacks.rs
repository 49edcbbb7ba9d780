//! Stacks from who calls whom: each function's own cost is shared out among the ways to it.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId};

use super::cycles::components;
use super::{Node, add};
use crate::read::rows::Rows;

/// Number of frames and callers that are looked at. In a graph of calls there may be more ways than
/// atoms in the universe; what is then left of each cost is not followed any further up.
const MOST_WORK: usize = 100_000_000;

/// Costs below this part of the whole are not shared out any more: all of it falls to the
/// caller whose calls cost most.
const LEAST_SHARE: u64 = 1_000_000;

/// Marker above a function whose callers were not followed.
const CALLERS_LEFT_OUT: &str = "[callers left out]";

/// Adds a row for each way to each function that costs something itself. Returns how many costs
/// were not followed to a root.
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

/// The functions, those in a circle taken together: the groups are in none.
struct Groups {
    of_function: Vec<usize>,
    entrances: Vec<Vec<Entrance>>,
    /// Part of each group's cost, with all that it calls, that came from no caller.
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
            // Costs that were rounded do not add up: so little did not come from nobody.
            if !entrances.is_empty() {
                for (left, &least) in whole.iter_mut().zip(least) {
                    *left = if *left <= least { 0 } else { *left };
                }
            }
        }
        groups
    }
}

/// Walks from functions up to those that nobody calls.
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
    /// For each function that was found to be an entrance, whence its circle's members are called
    /// on the shortest way from it.
    ways: HashMap<usize, HashMap<usize, usize>>,
    cut: u64,
}

/// One function of a walk, whose callers are being looked at.
struct Step {
    function: usize,
    /// Length of the path before it.
    depth: usize,
    /// Rest to be given to the entrances from `next` on.
    costs: Vec<u64>,
    /// Costs of the calls from there on, and of those that came from nobody.
    weights: Vec<u64>,
    next: usize,
    /// The entrance that all of it falls to, if it is too little to be shared out.
    all_to: Option<usize>,
    /// There was no more time to look at the callers.
    cut: bool,
}

impl Walk<'_> {
    /// Shares out a function's costs. Not recursive: a chain of calls may be long.
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

    /// Puts the functions on the path that are between one and where its circle was entered.
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

    /// Whose calls cost most, unless most came from nobody.
    fn heaviest_entrance(&self, group: usize) -> Option<usize> {
        let sum = |costs: &[u64]| costs.iter().fold(0u64, |sum, cost| sum.saturating_add(*cost));
        let entrances = self.groups.entrances[group].iter().enumerate();
        let (heaviest, at) = entrances.map(|(at, entrance)| (sum(&entrance.costs), at)).max()?;
        (heaviest >= sum(&self.groups.from_nobody[group])).then_some(at)
    }

    /// Makes a stack that begins here of what no caller took.
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

/// The caller of each member of a circle on the shortest way from where it is entered.
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

/// Takes the part of the costs that falls to a caller whose call weighs `weights`, of the weights
/// that are left. The last one gets what is left, so that nothing is lost to rounding.
fn take_part(costs: &mut [u64], left: &mut [u64], weights: &[u64]) -> Vec<u64> {
    let mut part = vec![0; costs.len()];
    for (column, cost) in costs.iter_mut().enumerate() {
        let Some(left) = left.get_mut(column) else { continue };
        let weight = weights.get(column).copied().unwrap_or(0).min(*left);
        let whole = u128::from(*cost) * u128::from(weight);
        if let Some(share) = whole.checked_div(u128::from(*left)) {
            // Not more than the cost, as the weight is not more than what is left.
            part[column] = share as u64;
            *cost -= part[column];
            *left -= weight;
        }
    }
    part
}
