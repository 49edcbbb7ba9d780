//! Layout of the frames of a flame graph on a grid of half cells.

use pyrograph_analyze::FlameGraph;

/// Frames in each row of half cells, starting at the root.
#[derive(Clone, Debug, Default)]
pub struct FrameRows {
    /// By depth and half cell: the index of the frame in [`FlameGraph::frames`].
    pub rows: Vec<Vec<Option<u32>>>,
    /// Number of frames that are left out because they are narrower than half of a half cell.
    pub narrow: usize,
}

impl FrameRows {
    /// Lays out the frames below `zoomed` over this many cells, with one row for each of its callers.
    pub fn new(graph: &FlameGraph, zoomed: usize, cells: usize) -> Self {
        let width = 2 * cells;
        let zoom = graph.frames[zoomed];
        let mut rows: Vec<Vec<Option<u32>>> = Vec::new();
        let mut row = |depth: u32| -> usize {
            let depth = depth as usize;
            rows.resize_with(rows.len().max(depth + 1), || vec![None; width]);
            depth
        };
        let mut callers = vec![zoomed as u32];
        while let Some(&last) = callers.last().filter(|&&last| last != 0) {
            callers.push(graph.frames[last as usize].parent);
        }
        let mut fill = Vec::new();
        for frame in callers {
            fill.push((row(graph.frames[frame as usize].depth), 0..width, frame));
        }
        let (start, value) = (zoom.start, u128::from(zoom.value.max(1)));
        let end = start.saturating_add(zoom.value);
        // Rounded, so that neighbors share an edge.
        let edge = |at: u64| {
            let at = u128::from(at.clamp(start, end) - start);
            ((at * width as u128 * 2 + value) / (2 * value)) as usize
        };
        let mut narrow = 0;
        for (index, frame) in graph.frames.iter().enumerate() {
            if frame.depth <= zoom.depth || !(start..end).contains(&frame.start) {
                continue;
            }
            let columns = edge(frame.start)..edge(frame.start.saturating_add(frame.value));
            match columns.is_empty() {
                // Frames of the other side of a comparison have no width at all.
                true => narrow += usize::from(frame.value > 0),
                false => fill.push((row(frame.depth), columns, index as u32)),
            }
        }
        for (depth, columns, frame) in fill {
            rows[depth][columns].fill(Some(frame));
        }
        Self { rows, narrow }
    }

    /// Returns the frame at a depth and half cell.
    pub fn at(&self, depth: usize, column: usize) -> Option<usize> {
        self.rows.get(depth)?.get(column).copied().flatten().map(|frame| frame as usize)
    }

    /// Returns the half cells of a frame.
    pub fn columns(&self, depth: usize, frame: usize) -> Option<std::ops::Range<usize>> {
        let row = self.rows.get(depth)?;
        let is_it = |at: &Option<u32>| *at == Some(frame as u32);
        let first = row.iter().position(is_it)?;
        let last = row.iter().rposition(is_it)?;
        Some(first..last + 1)
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_analyze::{FlameOptions, flame};
    use pyrograph_profile::{LabelOptions, Profile, Sample, Tree, ValueType};

    use super::*;

    fn graph(stacks: &[(&str, u64)]) -> FlameGraph {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let stack = profile.stack_of_names(path.split(';'));
            profile.push(Sample::new(stack), &[*value]);
        }
        let tree = Tree::new(&profile, &LabelOptions::default());
        flame(&profile, &tree, &FlameOptions::default()).expect("samples")
    }

    /// The rows as first letters.
    fn check(graph: &FlameGraph, zoomed: &str, cells: usize, expect: &[&str]) {
        let name = |frame: u32| graph.names.get(graph.frames[frame as usize].name);
        let zoomed = (0..graph.frames.len() as u32).find(|&frame| name(frame) == zoomed);
        let rows = FrameRows::new(graph, zoomed.expect("the frame") as usize, cells);
        let letter = |at: &Option<u32>| match at {
            Some(frame) => name(*frame).chars().next().unwrap_or('*'),
            None => '.',
        };
        let rows: Vec<String> =
            rows.rows.iter().map(|row| row.iter().map(letter).collect()).collect();
        assert_eq!(rows, expect);
    }

    #[test]
    fn frames_take_their_share_of_half_cells() {
        let graph = graph(&[("main;a;b", 3), ("main;c", 2), ("x", 3)]);
        check(&graph, "", 4, &["********", "mmmmmxxx", "aaacc...", "bbb....."]);
        check(&graph, "", 2, &["****", "mmmx", "aac.", "aa..".replace('a', "b").as_str()]);
        check(&graph, "main", 5, &["**********", "mmmmmmmmmm", "aaaaaacccc", "bbbbbb...."]);
        check(&graph, "c", 1, &["**", "mm", "cc"]);
    }

    #[test]
    fn narrow_frames_are_counted() {
        let graph = graph(&[("a", 1000), ("b;c", 1)]);
        let rows = FrameRows::new(&graph, 0, 10);
        assert_eq!((rows.rows.len(), rows.narrow), (2, 2));
        assert_eq!(rows.columns(1, 1), Some(0..20));
        assert_eq!(rows.at(1, 19), Some(1));
        assert_eq!(rows.at(1, 20), None);
    }
}
