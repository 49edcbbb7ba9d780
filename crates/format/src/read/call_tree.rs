//! Conversion of printed call trees, in which indentation shows the depth of entries, to samples.

use pyrograph_profile::{FrameId, StackId, ThreadId};

use super::text::Collector;

/// The direction in which a tree grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Indented functions are callees of the entry above: the root is the outermost function.
    Callees,
    /// Indented functions are callers of the entry above: the root is the innermost function.
    Callers,
}

/// The path from the root of a tree to the last entry.
///
/// An entry's value includes the entries below it. The part that they do not account for is the self value, which
/// becomes a sample.
pub(crate) struct CallTree {
    direction: Direction,
    open: Vec<Entry>,
}

struct Entry {
    /// Its indentation, in any unit of the format.
    indent: usize,
    /// `None` for an entry that is not a function, for example a thread.
    frame: Option<FrameId>,
    /// The stack of the entry, for trees of callees.
    stack: StackId,
    /// Its value minus those of the entries below it.
    left: u64,
}

impl CallTree {
    pub fn new(direction: Direction) -> Self {
        Self { direction, open: Vec::new() }
    }

    /// True if an entry with this indentation is the root of a new tree.
    pub fn is_root(&self, indent: usize) -> bool {
        self.open.first().is_none_or(|root| root.indent >= indent)
    }

    /// Adds the next entry.
    pub fn enter(
        &mut self,
        collector: &mut Collector,
        thread: ThreadId,
        indent: usize,
        frame: Option<FrameId>,
        value: u64,
    ) {
        self.close(collector, thread, indent);
        let mut stack = StackId::ROOT;
        if let Some(parent) = self.open.last_mut() {
            // The sum of rounded numbers may exceed the rounded sum.
            parent.left = parent.left.saturating_sub(value);
            stack = parent.stack;
        }
        if let (Direction::Callees, Some(frame)) = (self.direction, frame) {
            stack = collector.profile.stacks.intern(stack, frame);
        }
        self.open.push(Entry { indent, frame, stack, left: value });
    }

    /// Ends the tree.
    pub fn finish(&mut self, collector: &mut Collector, thread: ThreadId) {
        self.close(collector, thread, 0);
    }

    /// Closes all entries with an indentation of `indent` or more.
    fn close(&mut self, collector: &mut Collector, thread: ThreadId, indent: usize) {
        while let Some(last) = self.open.last().filter(|entry| entry.indent >= indent) {
            let (stack, left) = (last.stack, last.left);
            match self.direction {
                _ if left == 0 => {}
                Direction::Callees => collector.sample(stack, thread, left),
                Direction::Callers => {
                    collector.frames.clear();
                    collector.frames.extend(self.open.iter().filter_map(|entry| entry.frame));
                    collector.end_leaf_first(thread, left);
                }
            }
            self.open.pop();
        }
    }
}
