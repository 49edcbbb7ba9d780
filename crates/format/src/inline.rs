//! Inlined calls, for inputs that were made without them.

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId};

/// A call at an address: the function that the code belongs to, or one that was inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Function, demangled; empty if not known.
    pub function: String,
    /// Source file; empty if not known.
    pub file: String,
    /// Source line; 0 if not known.
    pub line: u32,
}

/// Replaces each frame that has an address (see [`Options::addresses`](crate::Options::addresses))
/// by the calls that `resolve` finds there, and takes the address away.
///
/// `resolve` gets a module's path and an address relative to it and returns the calls, outermost
/// first: the function itself, then what was inlined into it. If it returns nothing, the frame
/// stays. It is asked once for each distinct frame. The function keeps the name that the input gave
/// it, if it did.
pub fn expand_inlined(
    profile: &Profile,
    mut resolve: impl FnMut(&str, u64) -> Vec<Call>,
) -> Profile {
    let mut out = Profile {
        strings: profile.strings.clone(),
        threads: profile.threads.clone(),
        ..Profile::new(profile.value_types.clone())
    };
    let mut expand = |out: &mut Profile, frame: Frame| -> Vec<FrameId> {
        if frame.address == 0 || frame.kind != FrameKind::User || frame.module.is_empty() {
            return vec![out.frames.intern(frame)];
        }
        let calls = resolve(profile.strings.get(frame.module), frame.address);
        let frame = Frame { address: 0, ..frame };
        if calls.is_empty() {
            return vec![out.frames.intern(frame)];
        }
        let frames = calls.iter().enumerate().map(|(depth, call)| {
            let function = out.strings.intern(&call.function);
            let known = depth == 0 && !frame.function.is_empty();
            out.frames.intern(Frame {
                function: if known { frame.function } else { function },
                file: out.strings.intern(&call.file),
                line: call.line,
                kind: if depth == 0 { frame.kind } else { FrameKind::Inlined },
                ..frame
            })
        });
        frames.collect()
    };

    let mut expanded: HashMap<FrameId, Vec<FrameId>> = HashMap::new();
    let mut stacks = vec![StackId::ROOT; profile.stacks.len()];
    for index in 1..stacks.len() {
        // Parents come first.
        let Some((parent, id)) = profile.stacks.get(StackId::from_index(index)) else { continue };
        let frames = expanded.entry(id).or_insert_with(|| expand(&mut out, profile.frames.get(id)));
        stacks[index] = frames
            .iter()
            .fold(stacks[parent.index()], |stack, &frame| out.stacks.intern(stack, frame));
    }
    let mut values = vec![0; profile.samples.columns()];
    for (row, sample) in profile.samples.iter().enumerate() {
        for (column, value) in values.iter_mut().enumerate() {
            *value = profile.samples.values(column)[row];
        }
        out.push(Sample { stack: stacks[sample.stack.index()], ..sample }, &values);
    }
    out
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, Options, read, write_folded};

    const TEXT: &str = "app 1 1.5: 1 cycles: \n\t 10 leaf (/bin/app)\n\t 21 main (/bin/app)\n\n\
                        app 1 1.5: 1 cycles: \n\t 12 leaf (/bin/app)\n\t 21 main (/bin/app)\n\n\
                        app 1 1.5: 1 cycles: \n\t 30 k ([kernel.kallsyms])\n\t 31 x (/tmp/perf-1.map)\n\n\
                        app 1 1.5: 1 cycles: \n\t 12 in (inlined)\n\t 12 leaf (/bin/app)\n\n";

    #[test]
    fn calls_are_put_in_place_of_their_address() {
        let options = Options { addresses: true, ..Options::default() };
        let inputs = vec![Input::bytes("x", TEXT)];
        let (profile, _) = read(inputs, &options).expect("perf script text");
        let mut asked = Vec::new();
        let call = |function: &str, line| Call {
            function: function.to_owned(),
            file: "a.c".to_owned(),
            line,
        };
        let profile = expand_inlined(&profile, |module, address| {
            asked.push((module.to_owned(), address));
            match address {
                0x10 => vec![call("other", 1), call("mid", 2), call("in", 3)],
                0x20 => vec![call("main", 9)],
                _ => vec![],
            }
        });
        asked.sort();
        let app = || "/bin/app".to_owned();
        // The caller's address is that of its call; what perf resolved already is not asked again.
        assert_eq!(asked, [(app(), 0x10), (app(), 0x12), (app(), 0x20)]);

        let labels = LabelOptions { source: true, mark_inlined: true, ..LabelOptions::default() };
        let mut out = Vec::new();
        write_folded(&Tree::new(&profile, &labels), &mut out).expect("to memory");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "app;leaf;in_[i] 1\n\
             app;main:a.c:9;leaf 1\n\
             app;main:a.c:9;leaf:a.c:1;mid:a.c:2_[i];in:a.c:3_[i] 1\n\
             app;x;k 1\n"
        );
    }
}
