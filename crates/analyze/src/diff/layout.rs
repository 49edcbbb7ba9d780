//! The layout of a comparison: where each frame stands before, and where after.

use pyrograph_profile::{FrameKind, NodeId, StringId, Strings};

use super::{Diff, DiffOptions, Estimate, Family, Scale, Side, Verdict};
use crate::flame::{Families, Order};

/// A comparison, laid out as a flame graph.
#[derive(Clone, Debug)]
pub struct DiffGraph {
    /// The texts that frames refer to.
    pub names: Strings,
    /// Options of the comparison.
    pub options: DiffOptions,
    /// The side before.
    pub before: Side,
    /// The side after.
    pub after: Side,
    /// Judgement of frames, those that are too narrow included.
    pub family: Family,
    /// Row by row from the root. The first is the whole; it has no name.
    pub frames: Vec<DiffFrame>,
    /// The values of the whole width, before and after.
    pub widths: (u64, u64),
    /// Number of rows.
    pub rows: u32,
    /// Number of frames that were too narrow on both sides.
    pub narrow: u64,
    /// The largest change that is more than chance, up or down.
    pub largest: f64,
}

/// Place of a frame on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The left edge, as a value.
    pub start: u64,
    /// The width, as a value, of all runs together; 0 if the frame is not there.
    pub value: u64,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffFrame {
    /// The label, in [`DiffGraph::names`].
    pub name: StringId,
    /// Module that holds the code, in [`DiffGraph::names`]; empty if not known. The first of several.
    pub module: StringId,
    /// How many modules hold it.
    pub modules: u32,
    /// Kind of its code.
    pub kind: FrameKind,
    /// The row, from 0 for the whole.
    pub depth: u32,
    /// The caller, in [`DiffGraph::frames`]. The whole is its own.
    pub parent: u32,
    /// Before.
    pub before: Span,
    /// After.
    pub after: Span,
    /// Compared values, of the runs of each side together: the same as the widths, or the
    /// frame's own samples.
    pub compared: (u64, u64),
    /// The change with its bounds.
    pub estimate: Estimate,
    /// Verdict: a change or chance.
    pub verdict: Verdict,
}

impl Diff {
    /// Lays it out. Frames below this share of the whole, before and after, are left out and
    /// counted.
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

    /// Values of each node on one side, its own and with its callees: the sums of the runs.
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

    /// The value of the whole width on each side. Sides whose values are compared as they are have
    /// the same width for a run.
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

/// Values of nodes on one side.
struct Sums {
    own: Vec<u64>,
    total: Vec<u64>,
}

impl Sums {
    /// The left edge of each kept node.
    fn starts(&self, kept: &[u32], families: &Families) -> Vec<u64> {
        let mut starts = vec![0u64; kept.len()];
        // Parents come before their children.
        for (slot, &node) in kept.iter().enumerate() {
            // The samples that end here come first.
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
