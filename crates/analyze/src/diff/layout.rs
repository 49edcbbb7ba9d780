//! Layout of a comparison: the position of each frame before and after.

use pyrograph_profile::{FrameKind, NodeId, StringId, Strings};

use super::{Diff, DiffOptions, Estimate, Family, Scale, Side, Verdict};
use crate::flame::{Families, Order};

/// A comparison laid out as a flame graph.
#[derive(Clone, Debug)]
pub struct DiffGraph {
    /// Strings that frames refer to.
    pub names: Strings,
    /// Options of the comparison.
    pub options: DiffOptions,
    /// The side before.
    pub before: Side,
    /// The side after.
    pub after: Side,
    /// Test results of the frames, including frames that are too narrow to be drawn.
    pub family: Family,
    /// Frames row by row from the root. The first is the whole, which has no name.
    pub frames: Vec<DiffFrame>,
    /// Values that the full width represents, before and after.
    pub widths: (u64, u64),
    /// Number of rows.
    pub rows: u32,
    /// Number of frames left out because they are too narrow on both sides.
    pub narrow: u64,
    /// Largest absolute change among the frames whose change exceeds noise.
    pub largest: f64,
}

/// Position of a frame on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Left edge, as a value.
    pub start: u64,
    /// Width, as the sum of the values of all runs of the side; 0 if the side does not have the frame.
    pub value: u64,
}

/// A frame with its positions on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffFrame {
    /// Label, in [`DiffGraph::names`].
    pub name: StringId,
    /// Module that contains the code, in [`DiffGraph::names`]; the first if there are several, empty if unknown.
    pub module: StringId,
    /// Number of modules that the function was found in.
    pub modules: u32,
    /// Kind of code.
    pub kind: FrameKind,
    /// Row; 0 is the whole.
    pub depth: u32,
    /// Index of the caller in [`DiffGraph::frames`]. The whole is its own parent.
    pub parent: u32,
    /// Position before.
    pub before: Span,
    /// Position after.
    pub after: Span,
    /// Compared values, summed over the runs of each side: the same as the widths, or the frame's self values.
    pub compared: (u64, u64),
    /// Change with its confidence interval.
    pub estimate: Estimate,
    /// Verdict: more, less, or noise.
    pub verdict: Verdict,
}

impl Diff {
    /// Lays out the comparison. Frames below `min_share` of the whole on both sides are left out and counted.
    pub fn graph(&self, min_share: f64) -> DiffGraph {
        let tree = &self.tree;
        let sides = [self.sums(0), self.sums(1)];
        let widths = self.widths(sides.each_ref().map(|side| side.total[0]));
        let wide = |node: usize| {
            sides.iter().zip(widths).any(|(side, width)| {
                let value = side.total[node];
                value > 0 && value as f64 >= min_share.max(0.0) * width as f64
            })
        };
        let kept: Vec<u32> =
            (0..tree.len()).filter(|&node| node == 0 || wide(node)).map(|n| n as u32).collect();
        let families =
            sides.each_ref().map(|side| Families::new(tree, &side.total, &kept, Order::ByName));
        let starts = [0, 1].map(|side| sides[side].starts(&kept, &families[side]));

        let mut graph = DiffGraph {
            names: Strings::default(),
            options: self.options,
            before: self.before.clone(),
            after: self.after.clone(),
            family: self.frames,
            frames: Vec::with_capacity(kept.len()),
            widths: (widths[0], widths[1]),
            rows: 0,
            narrow: (tree.len() - kept.len()) as u64,
            largest: 0.0,
        };
        let mut slots = vec![0];
        let mut parents = vec![(0, 0)];
        let mut at = 0;
        while let Some(&slot) = slots.get(at) {
            let node = kept[slot as usize] as usize;
            let (parent, depth) = parents[at];
            let span = |side: usize| Span {
                start: starts[side][slot as usize],
                value: sides[side].total[node],
            };
            let frame = self.frame(&mut graph.names, node, (parent, depth), span(0), span(1));
            if frame.verdict != Verdict::Noise {
                graph.largest = graph.largest.max(frame.estimate.change().abs());
            }
            graph.frames.push(frame);
            for child in families[1].children(slot) {
                slots.push(child.slot);
                parents.push((at as u32, depth + 1));
            }
            at += 1;
        }
        graph.rows = graph.frames.last().map_or(0, |frame| frame.depth + 1);
        graph
    }

    fn frame(
        &self,
        names: &mut Strings,
        node: usize,
        (parent, depth): (u32, u32),
        before: Span,
        after: Span,
    ) -> DiffFrame {
        let id = NodeId::from_index(node);
        let module =
            self.tree.modules(id).next().map_or("", |module| self.profile.strings.get(module));
        let row = self.rows.row(node);
        DiffFrame {
            name: names.intern(self.tree.name(id)),
            module: names.intern(module),
            modules: self.tree.modules(id).count() as u32,
            kind: self.tree.kind(id),
            depth,
            parent,
            before,
            after,
            compared: self.rows.sums(node, self.before.runs),
            estimate: self.judge.estimate(row),
            verdict: self.nodes[node],
        }
    }

    /// Self and total value of each node on one side, summed over its runs.
    fn sums(&self, side: usize) -> Sums {
        let runs = match side {
            0 => 0..self.before.runs,
            _ => self.before.runs..self.before.runs + self.after.runs,
        };
        let mut own = vec![0u64; self.tree.len()];
        for run in runs {
            for (sum, &value) in own.iter_mut().zip(self.tree.self_values(run)) {
                *sum = sum.saturating_add(value);
            }
        }
        let mut total = own.clone();
        for node in self.tree.nodes().rev() {
            let parent = self.tree.parent(node).index();
            total[parent] = total[parent].saturating_add(total[node.index()]);
        }
        Sums { own, total }
    }

    /// Value that the full width represents on each side. If values are compared directly, the width per run is the
    /// same on both sides.
    fn widths(&self, totals: [u64; 2]) -> [u64; 2] {
        let runs = [self.before.runs, self.after.runs].map(|runs| runs as u64);
        match self.options.scale {
            Scale::Shares => totals.map(|total| total.max(1)),
            Scale::Values => {
                let widest = totals[0].div_ceil(runs[0]).max(totals[1].div_ceil(runs[1])).max(1);
                runs.map(|runs| widest.saturating_mul(runs))
            }
        }
    }
}

/// Values of all nodes on one side.
struct Sums {
    own: Vec<u64>,
    total: Vec<u64>,
}

impl Sums {
    /// Left edge of each kept node.
    fn starts(&self, kept: &[u32], families: &Families) -> Vec<u64> {
        let mut starts = vec![0u64; kept.len()];
        // Parents come before their children.
        for (slot, &node) in kept.iter().enumerate() {
            // A node's own samples come before its children.
            let mut start = starts[slot].saturating_add(self.own[node as usize]);
            for child in families.children(slot as u32) {
                start = start.saturating_add(child.gap);
                starts[child.slot as usize] = start;
                start = start.saturating_add(self.total[child.node as usize]);
            }
        }
        starts
    }
}
