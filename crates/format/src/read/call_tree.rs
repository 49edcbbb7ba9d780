//! Printed call trees, whose entries show what is below them by indentation, to samples.

use pyrograph_profile::{FrameId, StackId, ThreadId};

use super::text::Collector;

/// Which way a tree grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Indented functions were called by the one above: the root is the outermost function.
    Callees,
    /// Indented functions called the one above: the root is the innermost function.
    Callers,
}

/// The entries from the root of a tree to the one that was printed last.
///
/// An entry's value includes those below it. What they do not account for is its own, and becomes a
/// sample.
pub(crate) struct CallTree {
    direction: Direction,
    open: Vec<Entry>,
}

struct Entry {
    /// Its indentation, in the format's own measure.
    indent: usize,
    /// `None` for an entry that is no function, as a thread.
    frame: Option<FrameId>,
    /// Its stack, if it is that of its callers and itself.
    stack: StackId,
    /// Its value without those below it.
    left: u64,
}

impl CallTree {
    pub fn new(direction: Direction) -> Self {
        Self { direction, open: Vec::new() }
    }

    /// True if the next entry, if it is indented so far, begins a tree of its own.
    pub fn is_root(&self, indent: usize) -> bool {
        self.open.first().is_none_or(|root| root.indent >= indent)
    }

    /// The next entry.
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
            // Rounded numbers may add up to more than their sum.
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

    /// Ends all entries that are indented as far as `indent`, or further.
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
