//! Parts of a profile, selected by the frames of its stacks.

use pyrograph_profile::{Frame, LabelOptions, Labels, Profile, Samples, StackId, Stacks};

/// Removes frames. The values of removed frames go to their callers; the value of a stack without any remaining frame
/// counts only for the whole.
pub fn only_frames(profile: &Profile, keeps: impl Fn(Frame) -> bool) -> Profile {
    let keeps: Vec<bool> = profile.frames.iter().map(keeps).collect();
    let mut stacks = Stacks::default();
    let mut new = vec![StackId::ROOT];
    for (caller, frame) in profile.stacks.rows() {
        let caller = new[caller.index()];
        new.push(match keeps[frame.index()] {
            true => stacks.intern(caller, frame),
            false => caller,
        });
    }
    let mut kept = Profile { stacks, ..profile.clone() };
    kept.samples.map_stacks(|stack| new[stack.index()]);
    kept
}

/// Keeps the samples whose stacks begin with a path of labels, including the root label, if there is one. Percentages
/// remain relative to the whole.
pub fn below_path(profile: &Profile, options: &LabelOptions, path: &[&str]) -> Profile {
    let labels = Labels::new(profile, options);
    // Number of labels of the path that each stack begins with; `None` if it deviates from the path. With a root
    // label, the stack's frames are compared with the path from its second label on.
    let begins = |path: &[&str]| {
        let mut begins = vec![Some(0)];
        for (caller, frame) in profile.stacks.rows() {
            let label = labels.names.get(labels.frames[frame.index()]);
            begins.push(match begins[caller.index()] {
                Some(known) if known == path.len() => Some(known),
                Some(known) if path[known] == label => Some(known + 1),
                _ => None,
            });
        }
        begins.into_iter().map(|known| known == Some(path.len())).collect::<Vec<bool>>()
    };
    let without_root = begins(path);
    let with_root = path.split_first().map(|(first, rest)| (*first, begins(rest)));
    let mut kept = profile.clone();
    kept.samples = Samples::new(profile.samples.columns());
    let columns = profile.samples.columns();
    kept.unfiltered = (0..columns).map(|column| profile.whole(column)).collect();
    let mut values = vec![0; columns];
    for (row, sample) in profile.samples.iter().enumerate() {
        let root = labels.names.get(labels.threads[sample.thread.index()]);
        let is_below = match &with_root {
            Some((first, rest)) if !root.is_empty() => root == *first && rest[sample.stack.index()],
            _ => without_root[sample.stack.index()],
        };
        if is_below {
            for (column, value) in values.iter_mut().enumerate() {
                *value = profile.samples.values(column)[row];
            }
            kept.push(sample, &values);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{FrameKind, ProcessLabel, Sample, Thread, Tree, ValueType};

    use super::*;

    const NO_PROCESS: LabelOptions = LabelOptions {
        process: ProcessLabel::None,
        mark_kernel: false,
        mark_jit: false,
        mark_inlined: false,
        mark_guessed: false,
        source: false,
        lines: false,
    };

    /// Names in capitals are of the kernel.
    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for (path, value) in stacks {
            let (process, path) = path.split_once(':').unwrap_or(("", path));
            let mut stack = StackId::ROOT;
            for name in path.split(';') {
                let kind = match name.chars().all(char::is_uppercase) {
                    true => FrameKind::Kernel,
                    false => FrameKind::User,
                };
                let name = profile.strings.intern(name);
                let frame = profile.frames.intern(Frame::named(name, kind));
                stack = profile.stacks.intern(stack, frame);
            }
            let process = profile.strings.intern(process);
            let thread = profile.threads.intern(Thread { process, ..Thread::default() });
            profile.push(Sample { thread, ..Sample::new(stack) }, &[*value]);
        }
        profile
    }

    fn folded(profile: &Profile, options: &LabelOptions) -> Vec<String> {
        let tree = Tree::new(profile, options);
        let mut lines = Vec::new();
        for node in tree.nodes() {
            let value = tree.self_values(0)[node.index()];
            let mut path: Vec<&str> = tree.path(node).collect();
            path.reverse();
            lines.extend((value > 0).then(|| format!("{} {value}", path.join(";"))));
        }
        lines.sort();
        lines
    }

    #[test]
    fn other_frames_count_for_their_callers() {
        let profile = profile(&[("main;a;READ", 3), ("main;READ;IO", 4), ("SWAP", 5)]);
        let user = only_frames(&profile, |frame| frame.kind == FrameKind::User);
        assert_eq!(folded(&user, &NO_PROCESS), ["main 4", "main;a 3"]);
        assert_eq!(user.samples.total(0), 12, "the whole stays");
        let kernel = only_frames(&profile, |frame| frame.kind == FrameKind::Kernel);
        assert_eq!(folded(&kernel, &NO_PROCESS), ["READ 3", "READ;IO 4", "SWAP 5"]);
    }

    #[test]
    fn stacks_below_a_path_are_kept_whole() {
        let profile = profile(&[("x:main;a;b", 1), ("x:main;c", 2), ("y:main;a", 4), ("y:a", 8)]);
        let below = |path: &[&str], options| folded(&below_path(&profile, options, path), options);
        assert_eq!(below(&["main", "a"], &NO_PROCESS), ["main;a 4", "main;a;b 1"]);
        let named = LabelOptions::default();
        assert_eq!(below(&["x", "main"], &named), ["x;main;a;b 1", "x;main;c 2"]);
        assert_eq!(below(&["y"], &named), ["y;a 8", "y;main;a 4"]);
        assert_eq!(below(&[], &named).len(), 4);
        assert_eq!(below_path(&profile, &named, &["y"]).whole(0), 15);
    }
}
