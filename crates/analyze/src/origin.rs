//! Origin of a graph: what was counted, for how long, on which host, when, and what is missing.

use pyrograph_profile::{FrameKind, Profile, StackId, ValueType};

/// Description of a profile for the line below a graph's title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Value type of the column.
    pub value_type: ValueType,
    /// Sum of the column.
    pub total: u64,
    /// Part of the sum in stacks whose outer frames are missing.
    pub cut: u64,
    /// Host name; `None` if unknown, or if there are several hosts.
    pub host: Option<String>,
    /// Start of the recording, in nanoseconds since 1970 (UTC).
    pub start: Option<u64>,
    /// Duration in nanoseconds.
    pub duration: Option<u64>,
    /// Number of lost samples.
    pub lost: u64,
}

/// Describes a profile and one of its columns; `None` if there is no such column.
pub fn origin(profile: &Profile, column: usize) -> Option<Origin> {
    let value_type = profile.value_types.get(column)?.clone();
    let about = &profile.about;
    Some(Origin {
        value_type,
        total: profile.samples.total(column),
        cut: cut(profile, column),
        host: about.host.clone().or_else(|| host(profile)),
        start: about.start,
        duration: about.duration,
        lost: about.lost,
    })
}

/// Host of all threads that have one; `None` if there are several.
fn host(profile: &Profile) -> Option<String> {
    let mut hosts =
        profile.threads.iter().map(|thread| thread.host).filter(|host| !host.is_empty());
    let first = hosts.next()?;
    hosts.all(|host| host == first).then(|| profile.strings.get(first).to_owned())
}

/// Sums the samples whose outer frames are missing. Such a stack begins with a marker that gives the reason.
fn cut(profile: &Profile, column: usize) -> u64 {
    let is_marker = |frame| matches!(profile.frames.get(frame).kind, FrameKind::Marker(_));
    if !profile.frames.iter().any(|frame| matches!(frame.kind, FrameKind::Marker(_))) {
        return 0;
    }
    // Parents come before their children.
    let mut begins_with_marker = vec![false; profile.stacks.len()];
    for (index, (parent, frame)) in profile.stacks.rows().enumerate() {
        begins_with_marker[index + 1] = match parent {
            StackId::ROOT => is_marker(frame),
            parent => begins_with_marker[parent.index()],
        };
    }
    let values = profile.samples.values(column);
    profile
        .samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| begins_with_marker[sample.stack.index()])
        .fold(0, |sum: u64, (row, _)| sum.saturating_add(values[row]))
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Frame, Marker, Sample};

    use super::*;

    #[test]
    fn stacks_that_are_not_whole_are_counted() {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let whole = profile.stack_of_names(["main", "work"]);
        let name = profile.strings.intern("[cut]");
        let marker =
            profile.frames.intern(Frame::named(name, FrameKind::Marker(Marker::Truncated)));
        let cut = profile.stacks.intern(StackId::ROOT, marker);
        let name = profile.strings.intern("work");
        let work = profile.frames.intern(Frame::named(name, FrameKind::User));
        let cut = profile.stacks.intern(cut, work);
        // Where a thread slept is no gap.
        let slept = profile.stacks.intern(whole, marker);
        for (stack, value) in [(whole, 5), (cut, 2), (slept, 4), (StackId::ROOT, 1)] {
            profile.push(Sample::new(stack), &[value]);
        }
        let origin = origin(&profile, 0).expect("a column");
        assert_eq!((origin.total, origin.cut), (12, 2));
    }
}
