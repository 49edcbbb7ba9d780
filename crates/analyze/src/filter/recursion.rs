//! Functions that call themselves, directly or indirectly.

use pyrograph_profile::{Labels, Profile, StackId};

/// For each label, true if it occurs more than once in some stack.
pub(super) fn recursive(profile: &Profile, labels: &Labels) -> Vec<bool> {
    let mut found = vec![false; labels.names.len()];
    // No early exit for profiles without a stack longer than its set of distinct labels: finding out is as much work.
    let len = profile.stacks.len();
    let parent = |stack: usize| match profile.stacks.get(StackId::from_index(stack)) {
        Some((parent, frame)) => (parent.index(), labels.frames[frame.index()].index()),
        None => (0, 0),
    };
    // The children of stack `s` are `children[first[s]..first[s + 1]]`.
    let mut first = vec![0u32; len + 1];
    for stack in 1..len {
        first[parent(stack).0 + 1] += 1;
    }
    for stack in 1..first.len() {
        first[stack] += first[stack - 1];
    }
    let (mut next, mut children) = (first.clone(), vec![0u32; len.saturating_sub(1)]);
    for stack in 1..len {
        let place = &mut next[parent(stack).0];
        children[*place as usize] = stack as u32;
        *place += 1;
    }
    // An explicit stack instead of recursion, because the depth of stacks depends on the input.
    let mut open = vec![0u32; labels.names.len()];
    let mut steps: Vec<(u32, bool)> = vec![(0, true)];
    while let Some((stack, enters)) = steps.pop() {
        let (at, label) = (stack as usize, parent(stack as usize).1);
        if at > 0 && !enters {
            open[label] -= 1;
            continue;
        }
        if at > 0 {
            found[label] |= open[label] > 0;
            open[label] += 1;
            steps.push((stack, false));
        }
        let family = first[at] as usize..first[at + 1] as usize;
        steps.extend(children[family].iter().map(|&child| (child, true)));
    }
    found
}
