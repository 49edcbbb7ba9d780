//! Names as the other readers give them.

use pyrograph_profile::{Frame, FrameId, Profile, Sample};

use crate::read::tidy_name;

/// The same profile with names without parameters. Frames that are then the same are one.
pub fn tidy(profile: Profile) -> Profile {
    let untidy = |frame: Frame| {
        let name = profile.strings.get(frame.function);
        tidy_name(name) != name
    };
    if !profile.frames.iter().any(untidy) {
        return profile;
    }
    let mut out = Profile {
        strings: profile.strings.clone(),
        threads: profile.threads.clone(),
        ..Profile::new(profile.value_types.clone())
    };
    let tidied = |frame: Frame| {
        let function = out.strings.intern(&tidy_name(profile.strings.get(frame.function)));
        out.frames.intern(Frame { function, ..frame })
    };
    let frames: Vec<FrameId> = profile.frames.iter().map(tidied).collect();
    let rows = profile.stacks.rows();
    let stacks =
        out.stacks.intern_tree(rows.map(|(parent, frame)| (parent.index(), frames[frame.index()])));
    for (row, sample) in profile.samples.iter().enumerate() {
        let stack = stacks[sample.stack.index()];
        out.push(Sample { stack, ..sample }, &[profile.samples.values(0)[row]]);
    }
    out
}
