//! Writer for folded stacks: one line per stack, with its frames from the root on and its values.
//!
//! Lines are sorted by their bytes, as by `LC_ALL=C sort`, and written during a walk of the tree: none is kept in
//! memory. Siblings are sorted one family at a time, which is cheap because most nodes have few children.

use std::cmp::Ordering;
use std::io::{self, Write};

use pyrograph_profile::{NodeId, Profile, Quantity, Tree, UnitKind, ValueType};

use crate::capabilities::Capabilities;
use crate::writer::{WriteOptions, Writer};

/// Writer for folded stacks.
pub(super) struct Folded;

impl Writer for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["folded", "collapsed"]
    }

    fn opened_by(&self) -> &'static str {
        "grep, sed, awk; flamegraph.pl, speedscope"
    }

    fn also_called(&self) -> &'static [&'static str] {
        &["collapsed"]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { decimals: true, thread_names: true, ..Capabilities::NAMES }
    }

    fn write(
        &self,
        profile: &Profile,
        options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut tree = Tree::new(profile, &options.labels);
        // Two counts are for comparisons only.
        if !profile.is_comparison() {
            tree.keep_column(profile.shown);
        }
        write_folded(&tree, out)
    }
}

/// Describes the counts in folded text of a profile, because the text has no unit: `counts are ns of off-cpu`. `None` if
/// they are samples, as readers expect, or if the unit is unknown.
pub fn counts_of_folded(profile: &Profile) -> Option<String> {
    let of = match profile.is_comparison() {
        true => profile.value_types.first()?,
        false => profile.value_types.get(profile.shown)?,
    };
    let (name, unit) = (&of.name, &of.unit);
    match (of.quantity(), of.unit_kind()) {
        _ if of.is_unnamed() || *of == ValueType::samples() => None,
        (Quantity::Before | Quantity::After, UnitKind::Count) => None,
        (_, UnitKind::Count | UnitKind::Unknown) => Some(format!("counts are {name}")),
        (Quantity::Before | Quantity::After, _) => Some(format!("counts are {unit}")),
        _ => Some(format!("counts are {unit} of {name}")),
    }
}

/// Writes every stack that has a value, one per line.
///
/// # Errors
///
/// If writing to `out` fails.
pub fn write_folded(tree: &Tree, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Folder::new(tree);
    writer.expand_root();
    // Not recursive: the input decides how deep stacks are.
    while let Some(step) = writer.steps.pop() {
        writer.path.truncate(step.path);
        writer.push_name(step.node);
        match step.what {
            What::Line => writer.line(step.node),
            What::Below => {
                writer.path.push(b';');
                writer.expand(step.node);
            }
            What::Both => {
                writer.line(step.node);
                writer.path.push(b';');
                writer.expand(step.node);
            }
        }
        if writer.lines.len() >= BUFFER {
            out.write_all(&writer.lines)?;
            writer.lines.clear();
        }
    }
    out.write_all(&writer.lines)
}

/// Size of the output buffer in bytes.
const BUFFER: usize = 256 << 10;

/// A pending step of the walk; steps are on a stack, the next one last.
struct Step {
    node: NodeId,
    /// Length of the path of the callers in bytes.
    path: usize,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Write the node's own line.
    Line,
    /// Write the lines of the node's descendants.
    Below,
    /// Write both, one after the other.
    Both,
}

struct Folder<'a> {
    tree: &'a Tree,
    /// The children of node `n` are `children[starts[n]..starts[n + 1]]`.
    children: Vec<NodeId>,
    starts: Vec<u32>,
    /// Names of the tree.
    names: Vec<Name<'a>>,
    steps: Vec<Step>,
    path: Vec<u8>,
    lines: Vec<u8>,
}

/// Name of a frame.
#[derive(Clone, Copy)]
struct Name<'a> {
    /// First bytes of the name, as a number with the same sort order: most siblings differ in them, so that the text
    /// need not be read.
    beginning: u64,
    text: &'a [u8],
    /// True if the name can be written unchanged.
    is_plain: bool,
}

impl<'a> Name<'a> {
    fn new(text: &'a [u8]) -> Self {
        let mut beginning = [0; 8];
        let length = text.len().min(beginning.len());
        beginning[..length].copy_from_slice(&text[..length]);
        Self { beginning: u64::from_be_bytes(beginning), text, is_plain: is_plain(text) }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.beginning.cmp(&other.beginning).then_with(|| self.text.cmp(other.text))
    }

    fn begins(&self, other: &Self) -> bool {
        let is_long = self.text.len() >= size_of_val(&self.beginning);
        !(is_long && self.beginning != other.beginning) && other.text.starts_with(self.text)
    }
}

impl<'a> Folder<'a> {
    fn new(tree: &'a Tree) -> Self {
        let mut starts = vec![0u32; tree.len() + 2];
        for node in tree.nodes() {
            starts[tree.parent(node).index() + 2] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut children = vec![NodeId::ROOT; tree.len() - 1];
        for node in tree.nodes() {
            let at = &mut starts[tree.parent(node).index() + 1];
            children[*at as usize] = node;
            *at += 1;
        }
        let names = tree.names.iter().map(|name| Name::new(name.as_bytes())).collect();
        let (steps, path, lines) = (Vec::new(), Vec::new(), Vec::new());
        Self { tree, children, starts, names, steps, path, lines }
    }

    fn push_name(&mut self, node: NodeId) {
        let known = self.names[self.tree.name_id(node).index()];
        match known.is_plain && node != NodeId::ROOT {
            true => self.path.extend_from_slice(known.text),
            false => push_name(&mut self.path, name(self.tree, node)),
        }
    }

    /// Writes a node's own line if it has a value. Its path must be in `path`.
    fn line(&mut self, node: NodeId) {
        let types = &self.tree.value_types;
        let value = |column: usize| self.tree.self_values(column)[node.index()];
        if (0..types.len()).all(|column| value(column) == 0) {
            return;
        }
        self.lines.extend_from_slice(&self.path);
        for (column, of) in types.iter().enumerate() {
            self.lines.push(b' ');
            push_decimal(&mut self.lines, value(column), of.decimals);
        }
        self.lines.push(b'\n');
    }

    /// Schedules the children of the root, and the root itself among them if it has a value.
    fn expand_root(&mut self) {
        let tree = self.tree;
        let has_value = |column| tree.self_values(column)[NodeId::ROOT.index()] > 0;
        if !(0..tree.value_types.len()).any(has_value) {
            return self.expand(NodeId::ROOT);
        }
        let mut nodes = self.children[..self.starts[1] as usize].to_vec();
        nodes.push(NodeId::ROOT);
        let starts = &self.starts;
        let has_children =
            |n: NodeId| n != NodeId::ROOT && starts[n.index()] < starts[n.index() + 1];
        self.steps.extend(untangled(tree, &nodes, 0, has_children));
        self.steps.reverse();
    }

    /// Schedules the children of a node, whose path, including a semicolon, must be in `path`.
    fn expand(&mut self, node: NodeId) {
        let family = self.starts[node.index()] as usize..self.starts[node.index() + 1] as usize;
        let tree = self.tree;
        let path = self.path.len();
        if let [child] = self.children[family.clone()] {
            self.steps.push(Step { node: child, path, what: What::Both });
            return;
        }
        // The root is not a child of any node.
        let name = |node: &NodeId| &self.names[tree.name_id(*node).index()];
        self.children[family.clone()].sort_unstable_by(|a, b| name(a).cmp(name(b)));
        let mut children = &self.children[family];
        let first_step = self.steps.len();
        while let Some((first, others)) = children.split_first() {
            // A blank sorts before the semicolon, but so do other characters: if a sibling's name begins with this name,
            // its lines may belong between this node's own line and those of its descendants.
            let alike = others.iter().take_while(|other| name(first).begins(name(other)));
            let group = 1 + alike.count();
            if group == 1 {
                self.steps.push(Step { node: *first, path, what: What::Both });
            } else {
                let (tangled, starts) = (&children[..group], &self.starts);
                let has_children = |n: NodeId| starts[n.index()] < starts[n.index() + 1];
                self.steps.extend(untangled(tree, tangled, path, has_children));
            }
            children = &children[group..];
        }
        self.steps[first_step..].reverse();
    }
}

/// Order of the lines of siblings whose names have a common prefix: `f 1`, `f.part.0 2`, `f;g 3`.
fn untangled(
    tree: &Tree,
    siblings: &[NodeId],
    path: usize,
    has_children: impl Fn(NodeId) -> bool,
) -> impl Iterator<Item = Step> {
    let mut parts = Vec::with_capacity(siblings.len() * 2);
    for &node in siblings {
        let mut key = Vec::new();
        push_name(&mut key, name(tree, node));
        if has_children(node) {
            let mut below = key.clone();
            below.push(b';');
            parts.push((below, node, What::Below));
        }
        for (column, of) in tree.value_types.iter().enumerate() {
            key.push(b' ');
            push_decimal(&mut key, tree.self_values(column)[node.index()], of.decimals);
        }
        parts.push((key, node, What::Line));
    }
    parts.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
    parts.into_iter().map(move |(_, node, what)| Step { node, path, what })
}

/// Name of a node in a line. The root has a value if there are samples without a known process and frame.
fn name(tree: &Tree, node: NodeId) -> &str {
    if node == NodeId::ROOT { "[unknown]" } else { tree.name(node) }
}

/// Returns true if a name contains nothing that [`push_name`] replaces. For control characters beyond ASCII (C1), the
/// first of their two bytes is enough to reject the name here.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|&byte| byte >= b' ' && !matches!(byte, b';' | 0x7f | 0xc2))
}

/// Appends a frame's name without characters that separate frames or lines or that control a terminal: `cat` prints the
/// text as it is.
fn push_name(to: &mut Vec<u8>, name: &str) {
    if is_plain(name.as_bytes()) {
        to.extend_from_slice(name.as_bytes());
        return;
    }
    for c in name.chars() {
        let safe = match c {
            ';' => ':',
            // With a NUL, tools would take the text for binary data.
            '\t' | '\n' | '\r' | '\0' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        to.extend_from_slice(safe.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Writes `value` · 10^-`decimals`, exactly and without trailing zeros.
pub(super) fn push_decimal(to: &mut Vec<u8>, value: u64, decimals: u8) {
    let mut buffer = itoa::Buffer::new();
    if decimals == 0 {
        to.extend_from_slice(buffer.format(value).as_bytes());
        return;
    }
    // 2^64 has 20 digits: with more decimals every value is below 1.
    let unit = 10u64.checked_pow(u32::from(decimals));
    let (whole, fraction) = unit.map_or((0, value), |unit| (value / unit, value % unit));
    to.extend_from_slice(buffer.format(whole).as_bytes());
    if fraction > 0 {
        let (mut fraction, mut width) = (fraction, usize::from(decimals));
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        let digits = buffer.format(fraction);
        to.push(b'.');
        to.extend(std::iter::repeat_n(b'0', width - digits.len()));
        to.extend_from_slice(digits.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pyrograph_profile::{LabelOptions, Profile, Sample, ValueType};

    use super::*;

    fn profile(stacks: &[(Vec<&str>, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let stack = profile.stack_of_names(path.iter().copied());
            profile.push(Sample::new(stack), &[*value]);
        }
        profile
    }

    fn folded(profile: &Profile) -> String {
        let mut out = Vec::new();
        write_folded(&Tree::new(profile, &LabelOptions::default()), &mut out).expect("to memory");
        String::from_utf8(out).expect("names are UTF-8")
    }

    fn check(stacks: &[(&str, u64)], expect: &str) {
        let stacks: Vec<_> =
            stacks.iter().map(|(path, value)| (path.split('|').collect(), *value)).collect();
        assert_eq!(folded(&profile(&stacks)), expect);
    }

    #[test]
    fn lines_are_sorted_by_their_bytes() {
        check(
            &[("f|g", 3), ("f", 1), ("f.part.0", 2), ("f.part.0|h", 4), ("f 1", 5), ("e", 6)],
            "e 6\nf 1\nf 1 5\nf.part.0 2\nf.part.0;h 4\nf;g 3\n",
        );
        check(&[("f", 2), ("f 1", 5)], "f 1 5\nf 2\n");
    }

    #[test]
    fn names_cannot_break_lines_or_frames() {
        check(&[("a;b|c\nd", 1)], "a:b;c d 1\n");
        check(&[("a\0b\tc", 1)], "a b c 1\n");
        check(&[("a;b|c", 1), ("a:b|c", 1)], "a:b;c 1\na:b;c 1\n");
    }

    #[test]
    fn names_commanded_the_terminal() {
        let title = "\x1b]0;x\x07|\u{9b}31m|é\u{a0}\u{7f}";
        check(&[(title, 1)], "\u{fffd}]0:x\u{fffd};\u{fffd}31m;é\u{a0}\u{fffd} 1\n");
    }

    #[test]
    fn without_any_name_a_sample_is_unknown() {
        let mut profile = profile(&[(vec!["a"], 1), (vec!["Z", "b"], 3)]);
        profile.push(Sample::default(), &[2]);
        assert_eq!(folded(&profile), "Z;b 3\n[unknown] 2\na 1\n");
    }

    #[test]
    fn decimals() {
        let shown = |value, decimals| {
            let mut text = Vec::new();
            push_decimal(&mut text, value, decimals);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(shown(0, 0), "0");
        assert_eq!(shown(150, 2), "1.5");
        assert_eq!(shown(200, 2), "2");
        assert_eq!(shown(5, 3), "0.005");
        assert_eq!(shown(u64::MAX, 9), "18446744073.709551615");
        assert_eq!(shown(1, 25), "0.0000000000000000000000001");
    }

    #[test]
    fn a_stack_of_a_million_frames_does_not_overflow_the_stack() {
        let path: Vec<&str> = std::iter::repeat_n("f", 1_000_000).collect();
        assert_eq!(folded(&profile(&[(path, 7)])).len(), 2 * 1_000_000 - 1 + 3);
    }

    proptest! {
        #[test]
        fn any_names_come_out_sorted(
            stacks in prop::collection::vec((prop::collection::vec("[ab .5:]{1,3}", 1..4), 1u64..200), 1..20)
        ) {
            let stacks: Vec<(Vec<&str>, u64)> = stacks
                .iter()
                .map(|(path, value)| (path.iter().map(String::as_str).collect(), *value))
                .collect();
            let text = folded(&profile(&stacks));
            let mut sorted: Vec<&str> = text.lines().collect();
            sorted.sort_unstable();
            prop_assert_eq!(text.lines().collect::<Vec<_>>(), sorted);
        }
    }
}
