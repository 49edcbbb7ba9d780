//! Union of several profiles: every stack of labels, with the values of each run.

use pyrograph_profile::{
    Frame, FrameId, NodeId, Profile, Sample, StackId, StringId, UnitKind, ValueType,
};

use super::alike::{Alike, depths};
use super::identity::Identities;
use super::{DiffError, Run, Scale};

/// Rules for comparing different names as one.
pub(super) struct NameRules<'a> {
    /// Names at the roots of stacks.
    pub alike: &'a Alike,
    /// Number of runs before, which come first.
    pub before: usize,
    /// Ignores differences in hexadecimal numbers.
    pub strip_addresses: bool,
    /// Ignores differences in function names that come from builds and runs.
    pub by_identity: bool,
}

/// Merges runs into one profile whose frames are the labels of their trees. The values of run `i` go to the column
/// `column_of(i)` of `value_types`. Also returns, for each run, the stack of each node of its tree.
pub(super) fn unite(
    runs: &[Run<'_>],
    value_types: Vec<ValueType>,
    column_of: impl Fn(usize) -> usize,
    rules: &NameRules<'_>,
) -> (Profile, Vec<Vec<StackId>>) {
    let &NameRules { alike, before, .. } = rules;
    let identities = match rules.by_identity {
        true => Identities::new(runs, before),
        false => Identities::default(),
    };
    let decimals = value_types.first().map_or(0, |of| of.decimals);
    let mut union = Profile::new(value_types);
    // One frame per label: its kind and module come from the first node with the label.
    let mut frame_of: Vec<Option<FrameId>> = Vec::new();
    let mut values = vec![0; union.value_types.len()];
    let mut places = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let names = Names::new(&mut union, run, &identities, rules.strip_addresses);
        let depths = depths(run, alike.levels());
        let factor =
            10u64.saturating_pow(decimals.saturating_sub(run.value_type().decimals).into());
        let column = column_of(index);
        let mut nodes = Vec::with_capacity(run.tree.len());
        for node in run.tree.nodes() {
            let name = depths
                .get(node.index())
                .and_then(|&depth| alike.name(depth, index >= before, run.tree.name(node)))
                .map_or_else(
                    || names.get(run.tree.name_id(node)),
                    |name| union.strings.intern(name),
                );
            frame_of.resize(union.strings.len(), None);
            let frame = match frame_of[name.index()] {
                Some(frame) => frame,
                None => {
                    let frame = label(&mut union, run, node, name);
                    *frame_of[name.index()].insert(frame)
                }
            };
            nodes.push((run.tree.parent(node).index(), frame));
        }
        let stacks = union.stacks.intern_tree(nodes);
        for (&stack, &counted) in stacks.iter().zip(run.tree.self_values(run.column)) {
            if counted > 0 {
                values[column] = counted.saturating_mul(factor);
                union.push(Sample::new(stack), &values);
                values[column] = 0;
            }
        }
        places.push(stacks);
    }
    (union, places)
}

/// Creates the frame of a label.
fn label(union: &mut Profile, run: &Run<'_>, node: NodeId, name: StringId) -> FrameId {
    let module = run.tree.frame(node).map_or("", |frame| {
        let frame = run.profile.frames.get(frame);
        run.profile.strings.get(frame.module)
    });
    let module = union.strings.intern(module);
    let kind = run.tree.kind(node);
    union.frames.intern(Frame { module, ..Frame::named(name, kind) })
}

/// Value types before and after, with the finest decimals among all runs. Fails if runs cannot be compared.
pub(super) fn value_types(
    before: &[Run<'_>],
    after: &[Run<'_>],
    scale: Scale,
) -> Result<[ValueType; 2], DiffError> {
    let of_side = |side: &[Run<'_>]| {
        let first = side.first().ok_or(DiffError::NoRuns)?.value_type();
        match side.iter().map(Run::value_type).find(|of| !is_same(of, first)) {
            Some(other) => Err(DiffError::DifferentRuns(words(first), words(other))),
            None => Ok(first.clone()),
        }
    };
    let [mut old, mut new] = [of_side(before)?, of_side(after)?];
    if !is_same(&old, &new) {
        if old.unit != new.unit && !shares_fit(old.unit_kind(), new.unit_kind()) {
            return Err(DiffError::DifferentValues(words(&old), words(&new)));
        }
        if scale == Scale::Values {
            return Err(DiffError::OnlyShares(words(&old), words(&new)));
        }
    }
    let decimals = before.iter().chain(after).map(|run| run.value_type().decimals).max();
    old.decimals = decimals.unwrap_or_default();
    new.decimals = old.decimals;
    Ok([old, new])
}

pub(super) fn is_same(a: &ValueType, b: &ValueType) -> bool {
    (&a.name, &a.unit) == (&b.name, &b.unit)
}

/// Returns true if shares of both kinds mean the same: samples and cycles measure time, too. Folded text has no unit
/// and may contain any values.
fn shares_fit(a: UnitKind, b: UnitKind) -> bool {
    let is_time = |of| matches!(of, UnitKind::Time(_) | UnitKind::Count);
    a == UnitKind::Unknown || b == UnitKind::Unknown || (is_time(a) && is_time(b))
}

/// Description of a value type: `samples`, `cpu-clock (ns)`.
pub(super) fn words(of: &ValueType) -> String {
    match of.unit_kind() {
        UnitKind::Count => of.name.clone(),
        UnitKind::Unknown => "values without a unit".to_owned(),
        _ => format!("{} ({})", of.name, of.unit),
    }
}

/// IDs in the union of the names of a tree.
struct Names(Vec<StringId>);

impl Names {
    fn new(
        union: &mut Profile,
        run: &Run<'_>,
        identities: &Identities,
        strip_addresses: bool,
    ) -> Self {
        let mut stripped = String::new();
        let intern = |(id, name): (usize, &str)| {
            let name = identities.name(run, StringId::from_index(id), name);
            if strip_addresses && name.contains("0x") {
                stripped.clear();
                strip(name, &mut stripped);
                union.strings.intern(&stripped)
            } else {
                union.strings.intern(name)
            }
        };
        Self(run.tree.names.iter().enumerate().map(intern).collect())
    }

    fn get(&self, name: StringId) -> StringId {
        self.0[name.index()]
    }
}

/// Replaces every hexadecimal number `0x…` by `0x...`.
fn strip(name: &str, out: &mut String) {
    let mut rest = name;
    while let Some(at) = rest.find("0x") {
        let digits = &rest[at + 2..];
        let end = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        out.push_str(&rest[..at + 2]);
        if end > 0 {
            out.push_str("...");
        }
        rest = &digits[end..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_dots() {
        let check = |name, expect: &str| {
            let mut out = String::new();
            strip(name, &mut out);
            assert_eq!(out, expect);
        };
        check("libc.so+0x1fA", "libc.so+0x...");
        check("[0xabc] to [0xDEF]", "[0x...] to [0x...]");
        check("0x", "0x");
        check("0xé0x0", "0xé0x...");
        check("main", "main");
    }
}
