//! Stacks of Haskell programs: code compiled by GHC keeps its callers on a separate stack, which is not read.

use pyrograph_names::{Language, Name};
use pyrograph_profile::{Frame, FrameKind, Marker, Profile};

use super::share::share_of_stacks;

/// Part of the shown value, 0 to 1, whose stacks could not be unwound beyond a Haskell function.
pub fn cut_share(profile: &Profile) -> f64 {
    let is_haskell = |frame: &Frame| {
        let name = profile.strings.get(frame.function);
        // GHC's names for code have this suffix; checking it first is faster than parsing each name.
        name.ends_with("_info") && Name::of(name).language == Some(Language::Haskell)
    };
    let is_haskell: Vec<bool> = profile.frames.iter().map(|frame| is_haskell(&frame)).collect();
    if !is_haskell.contains(&true) {
        return 0.0;
    }
    let is_cut = |frame| profile.frames.get(frame).kind == FrameKind::Marker(Marker::Broken);
    share_of_stacks(profile, |stack| {
        // The marker is the outermost frame.
        let frames: Vec<_> = profile.stacks.leaf_first(stack).collect();
        matches!(frames[..], [.., inner, cut] if is_cut(cut) && is_haskell[inner.index()])
    })
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Sample, ValueType};

    use super::*;

    /// Names as GHC 9.0.2 gives them.
    #[test]
    fn callers_of_haskell_are_missing_where_a_stack_ends_in_it() {
        let mut profile = Profile::new(vec![ValueType::new("samples", "count")]);
        let cut = FrameKind::Marker(Marker::Broken);
        let mut add = |frames: &[(&str, FrameKind)], value| {
            let frames = frames.iter().map(|(function, kind)| {
                let function = profile.strings.intern(function);
                profile.frames.intern(Frame { function, kind: *kind, ..Frame::default() })
            });
            let frames: Vec<_> = frames.collect();
            let stack = profile.stacks.intern_path(frames);
            profile.push(Sample::new(stack), &[value]);
        };
        let (work, user) = (("Main_zdwwork_info", FrameKind::User), FrameKind::User);
        add(&[("", cut), work], 50);
        add(&[("", cut), work, ("asm_sysvec_apic_timer_interrupt", FrameKind::Kernel)], 10);
        add(&[("", cut), ("memcpy", user)], 20);
        add(&[("main", user), ("hs_main", user), work], 20);
        assert_eq!(cut_share(&profile), 0.6);
    }
}
