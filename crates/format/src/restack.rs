//! Rewriting of all stacks of a profile.

use pyrograph_profile::{FrameId, Profile, Sample, Samples, StackId};

/// Replaces each stack by the stack that `enter` returns. `enter` gets the new stack of the caller, the frame, and the
/// index of the old stack, from 1. It is called in the order of the old stacks: callers come before their callees.
pub(crate) fn restack(
    profile: &mut Profile,
    mut enter: impl FnMut(&mut Profile, StackId, FrameId, usize) -> StackId,
) {
    let old = std::mem::take(&mut profile.stacks);
    let mut new = vec![StackId::ROOT];
    for (row, (caller, frame)) in old.rows().enumerate() {
        let stack = enter(profile, new[caller.index()], frame, row + 1);
        new.push(stack);
    }
    let samples = std::mem::replace(&mut profile.samples, Samples::new(profile.value_types.len()));
    let mut values = Vec::new();
    for (row, sample) in samples.iter().enumerate() {
        values.clear();
        values.extend((0..profile.value_types.len()).map(|column| samples.values(column)[row]));
        let stack = new[sample.stack.index()];
        profile.push(Sample { stack, ..sample }, &values);
    }
}
