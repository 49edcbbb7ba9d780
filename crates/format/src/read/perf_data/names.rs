//! Names as the other readers give them, and the calls that Java's maps tell in one name.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId};

use crate::read::{is_java, tidy_name};

/// The same profile with names without parameters, and with each method that was inlined into
/// another (`a->b` in a perf map) as a frame of its own.
pub fn tidy(profile: Profile) -> Profile {
    let untidy = |frame: &Frame| {
        let name = profile.strings.get(frame.function);
        tidy_name(name) != name || (frame.kind == FrameKind::Jit && name.contains("->"))
    };
    if !profile.frames.iter().any(|frame| untidy(&frame)) {
        return profile;
    }
    let mut out = Profile {
        strings: profile.strings.clone(),
        threads: profile.threads.clone(),
        ..Profile::new(profile.value_types.clone())
    };
    let frames: Vec<Vec<FrameId>> =
        profile.frames.iter().map(|frame| rows(&mut out, frame)).collect();
    let mut stacks = vec![StackId::ROOT; profile.stacks.len()];
    for index in 1..stacks.len() {
        // Parents come first.
        let Some((parent, frame)) = profile.stacks.get(StackId::from_index(index)) else {
            continue;
        };
        stacks[index] = frames[frame.index()]
            .iter()
            .fold(stacks[parent.index()], |stack, &frame| out.stacks.intern(stack, frame));
    }
    for (row, sample) in profile.samples.iter().enumerate() {
        let stack = stacks[sample.stack.index()];
        out.push(Sample { stack, ..sample }, &[profile.samples.values(0)[row]]);
    }
    out
}

/// The frames that stand for a frame, root first.
fn rows(out: &mut Profile, frame: Frame) -> Vec<FrameId> {
    let name = out.strings.get(frame.function).to_owned();
    let mut row = |name: &str, kind: FrameKind| {
        let function = out.strings.intern(&tidy_name(name));
        out.frames.intern(Frame { function, kind, ..frame })
    };
    if frame.kind != FrameKind::Jit || !is_java(&name) {
        return vec![row(&name, frame.kind)];
    }
    let mut kind = frame.kind;
    let parts = name.split("->");
    parts.map(|name| row(name, std::mem::replace(&mut kind, FrameKind::Inlined))).collect()
}
