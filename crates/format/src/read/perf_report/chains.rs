//! Parser of the callchains below an entry.
//!
//! As a tree (`-g graph`, `-g fractal`). Frames with a single child are in the same column as that child; older
//! versions print a blank before the first name:
//!
//! ```text
//!             |--99--start_thread
//!             |          loop
//!             |          |
//!             |          |--72.73%--read
//!             |          |          |
//!             |          |           --71.00%--entry_SYSCALL_64_after_hwframe
//!             |          |
//!             |           --27.27%--app::spin
//!             |
//!              --1.98%--0x72656b726f77006f
//!                        __GI___libc_open
//!
//!             ---start_thread
//!                loop
//! ```
//!
//! As lists (`-g flat`), or one per line (`-g folded`):
//!
//! ```text
//!            18.64%
//!                 start_thread
//!                 loop
//!
//! 65 start_thread;loop;app::spin
//! 18.64% start_thread;loop;app::spin
//! ```

use super::entry::percent;

/// All chains of an entry, as a forest.
#[derive(Debug, Default)]
pub struct Chains {
    nodes: Vec<Node>,
    /// The node of each open branch, and the column of its names.
    open: Vec<(usize, usize)>,
    percentages: bool,
    /// True if branches are drawn: a graph, not lists.
    pub is_graph: bool,
}

#[derive(Debug, Default)]
struct Node {
    parent: Option<usize>,
    frames: Vec<String>,
    /// Samples, periods, or hundredths of a percent, including the node's children.
    value: Option<u64>,
    children: Vec<usize>,
}

/// Columns between a bar and the names of the branch that begins at it.
const INDENT: usize = 11;

impl Chains {
    /// Parses a line; returns `false` if it is not part of a callchain.
    pub fn line(&mut self, line: &str) -> bool {
        let text = line.trim_start_matches([' ', '|']);
        let column = line.len() - text.len();
        let text = text.trim_end();
        if text.is_empty() {
            return true;
        }
        if column == 0 {
            return self.folded(text);
        }
        if let Some(branch) = text.strip_prefix("--") {
            return self.branch(branch, column);
        }
        if let Some(value) = self.value(text)
            && self.open.last().is_none_or(|&(_, names)| column < names)
        {
            self.add(None, Some(value), column + 1, "");
            return true;
        }
        self.name(text, column)
    }

    fn value(&mut self, text: &str) -> Option<u64> {
        if let Some(value) = percent(text) {
            self.percentages = true;
            return Some(value);
        }
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }

    /// Parses `65 start_thread;loop`.
    fn folded(&mut self, text: &str) -> bool {
        let Some((value, names)) = text.split_once(' ') else { return false };
        let Some(value) = self.value(value) else { return false };
        let node = self.add(None, Some(value), usize::MAX, "");
        self.nodes[node].frames = names.split(';').map(str::to_owned).collect();
        true
    }

    /// Parses a branch, given the text after the first two dashes: `72.73%--read`, `-start_thread`, `- start_thread`.
    fn branch(&mut self, text: &str, column: usize) -> bool {
        let bar = column - 1;
        self.is_graph = true;
        self.open.retain(|&(_, names)| names <= bar);
        let parent = self.open.last().filter(|&&(_, names)| names == bar).map(|&(node, _)| node);
        if let Some(name) = text.strip_prefix('-') {
            let first = name.trim_start();
            self.add(None, None, column + 3 + (name.len() - first.len()), first);
            return true;
        }
        let Some((value, name)) = text.split_once("--") else { return false };
        let Some(value) = self.value(value) else { return false };
        let first = name.trim_start();
        self.add(parent, Some(value), bar + INDENT, first);
        true
    }

    /// Adds a name to the branch with names in the same column.
    fn name(&mut self, text: &str, column: usize) -> bool {
        self.open.retain(|&(_, names)| names <= column);
        let Some(&(node, _)) = self.open.last() else { return false };
        self.nodes[node].frames.push(text.to_owned());
        true
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        value: Option<u64>,
        names: usize,
        first: &str,
    ) -> usize {
        let node = self.nodes.len();
        let frames = Some(first).filter(|first| !first.is_empty()).map(str::to_owned);
        self.nodes.push(Node {
            parent,
            value,
            frames: frames.into_iter().collect(),
            ..Node::default()
        });
        match parent {
            Some(parent) => self.nodes[parent].children.push(node),
            None => self.open.clear(),
        }
        self.open.push((node, names));
        node
    }

    /// True if the numbers are percentages.
    pub fn are_percentages(&self) -> bool {
        self.percentages
    }

    /// Returns the smallest percentage, in hundredths.
    pub fn least_percentage(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.value).filter(|_| self.percentages).min()
    }

    /// Iterates over all names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().flat_map(|node| node.frames.iter().map(String::as_str))
    }

    /// Removes positions within functions from all names: `-g address` and `-g srcline` print them.
    pub fn drop_places(&mut self) {
        for name in self.nodes.iter_mut().flat_map(|node| &mut node.frames) {
            let length = without_place(name).map_or(name.len(), str::len);
            name.truncate(length);
        }
    }

    /// True if no chain was printed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if each chain has a number, and none is a percentage.
    pub fn all_have_plain_numbers(&self) -> bool {
        !self.percentages
            && !self.nodes.is_empty()
            && self.nodes.iter().all(|node| node.value.is_some())
    }

    /// Iterates over the first name of each chain.
    pub fn firsts(&self) -> impl Iterator<Item = &str> {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        roots.filter_map(|node| node.frames.first().map(String::as_str))
    }

    /// Returns the sum and the number of the branches after a first frame that matches `is_frame`. The sum is in
    /// hundredths of a percent; `entry` is used if the trunk has no number. Both are 0 if the numbers are not
    /// percentages, or if the frame occurs again further on.
    pub fn behind(&self, entry: u64, is_frame: impl Fn(&str) -> bool) -> (u64, u64) {
        let is_trunk =
            |node: &Node| node.parent.is_none() && node.frames.first().is_some_and(|f| is_frame(f));
        let Some(trunk) = self.nodes.iter().position(is_trunk).filter(|_| self.percentages) else {
            return (0, 0);
        };
        let below = self.nodes.iter().enumerate().filter(|&(at, _)| self.root_of(at) == trunk);
        let names = below.flat_map(|(_, node)| &node.frames);
        if names.filter(|name| is_frame(name)).count() > 1 {
            return (0, 0);
        }
        let trunk = &self.nodes[trunk];
        if trunk.frames.len() > 1 {
            return (trunk.value.unwrap_or(entry), 1);
        }
        let branches = trunk.children.iter().filter_map(|&child| self.nodes[child].value);
        (branches.fold(0u64, u64::saturating_add), trunk.children.len() as u64)
    }

    fn root_of(&self, mut node: usize) -> usize {
        while let Some(parent) = self.nodes[node].parent {
            node = parent;
        }
        node
    }

    /// Iterates over the names of each chain that has no further branches.
    pub fn paths(&self) -> impl Iterator<Item = Vec<&str>> {
        let ends = (0..self.nodes.len()).filter(|&node| self.nodes[node].children.is_empty());
        ends.map(|node| self.path(node))
    }

    fn path(&self, node: usize) -> Vec<&str> {
        let mut nodes = vec![node];
        let mut at = node;
        while let Some(parent) = self.nodes[at].parent {
            nodes.push(parent);
            at = parent;
        }
        nodes.iter().rev().flat_map(|&node| &self.nodes[node].frames).map(String::as_str).collect()
    }

    /// True if the percentages must be relative to the branch above: the sum below a branch or the entry exceeds its
    /// own value.
    pub fn is_fractal(&self, entry: u64) -> bool {
        if !self.percentages {
            return false;
        }
        let sum = |nodes: &mut dyn Iterator<Item = usize>| {
            let mut count = 0;
            let values = nodes.filter_map(|node| self.nodes[node].value).inspect(|_| count += 1);
            let sum = values.fold(0u64, u64::saturating_add);
            // Each value may be rounded up.
            sum.saturating_sub(count)
        };
        let mut roots = (0..self.nodes.len()).filter(|&node| self.nodes[node].parent.is_none());
        sum(&mut roots) > entry
            || self
                .nodes
                .iter()
                .any(|node| sum(&mut node.children.iter().copied()) > node.value.unwrap_or(entry))
    }

    /// Returns each chain with its value minus that of the longer chains which contain it: in the unit of the
    /// numbers, or for a tree without numbers, in samples of the entry if these are known.
    pub fn weigh(&self, entry: u64, samples: Option<u64>, fractal: bool) -> Vec<(Vec<&str>, u64)> {
        let whole = if self.percentages { Some(entry) } else { samples };
        // Parents come before their children.
        let mut weights: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let above = node.parent.map_or(whole.unwrap_or(entry), |parent| weights[parent]);
            weights.push(match node.value {
                Some(part) if fractal => scaled(above, part),
                Some(value) => value,
                None => self.whole_of(node, whole, entry),
            });
        }
        let mut stacks = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let below =
                node.children.iter().fold(0u64, |sum, &child| sum.saturating_add(weights[child]));
            let own = match node.children.len() as u64 {
                0 => weights[place],
                // Ignore rounding errors.
                children if self.percentages => {
                    let own = weights[place].saturating_sub(below);
                    if fractal || own <= children { 0 } else { own }
                }
                _ => weights[place].saturating_sub(below),
            };
            if own > 0 {
                stacks.push((self.path(place), own));
            }
        }
        stacks
    }

    /// Returns the value of a tree whose trunk has no number: the entry's value, if that is known in the unit of the
    /// branches. If the branches count something else, returns their sum.
    fn whole_of(&self, trunk: &Node, whole: Option<u64>, entry: u64) -> u64 {
        let below = trunk.children.iter().filter_map(|&child| self.nodes[child].value);
        let below = below.fold(0u64, u64::saturating_add);
        match whole {
            Some(whole) if self.percentages || below <= whole => whole,
            None if below == 0 => entry,
            _ => below,
        }
    }
}

/// Returns the function in `leaf_a spin.c:5` or `schedule +35`.
pub fn without_place(name: &str) -> Option<&str> {
    let (function, place) = name.rsplit_once(' ')?;
    let number =
        place.strip_prefix('+').or_else(|| place.rsplit_once(':').map(|(_, line)| line))?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !function.is_empty()).then_some(function)
}

/// Returns `part` hundredths of a percent of `whole`.
fn scaled(whole: u64, part: u64) -> u64 {
    u64::try_from((u128::from(whole) * u128::from(part) + 5000) / 10_000).unwrap_or(u64::MAX)
}
