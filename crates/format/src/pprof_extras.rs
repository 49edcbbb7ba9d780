//! Our extensions of pprof, shared by its writer and its reader. Other programs skip a field that they do not know, and
//! show the names of mappings as they are.
//!
//! A frame's kind decides its colour, and the format has no place for it. Most kinds follow from the name of the module
//! (`[kernel.kallsyms]`, `perf-12.map`), or from a stand-in where there is none; [`KIND_FIELD`] has the rest.

use pyrograph_profile::{FrameKind, Marker};

use crate::names::module_kind;

/// The field of a location that is 1 if it was found by a guess, for want of an unwind table.
pub(crate) const GUESSED_FIELD: u32 = 1001;

/// The field of a location with the kind of the code of its outermost frame, where no name shows it: one more than
/// [`FrameKind::code`], for 0 is what an absent field means.
pub(crate) const KIND_FIELD: u32 = 1002;

/// The label of a sample that has guessed locations: how many.
pub(crate) const GUESSED_LABEL: &str = "guessed_frames";

/// The names of mappings for frames without a module, by the kind of their code.
const STAND_INS: [(FrameKind, &str); 4] = [
    (FrameKind::Kernel, "[kernel]"),
    (FrameKind::Jit, "[jit]"),
    (FrameKind::Interpreted, "[interpreted]"),
    (FrameKind::Marker(Marker::Remark), "[remark]"),
];

/// The mapping of frames without a module; `None` where they need none.
pub(crate) fn stand_in(kind: FrameKind) -> Option<&'static str> {
    let is_it = |known| std::mem::discriminant(known) == std::mem::discriminant(&kind);
    STAND_INS.iter().find(|(known, _)| is_it(known)).map(|(_, name)| *name)
}

/// The content of [`KIND_FIELD`] for a frame of this kind in this module; 0 where names show it.
pub(crate) fn kind_field(kind: FrameKind, module: &str) -> u64 {
    let shown = match module {
        "" => stand_in(kind).and_then(stand_in_kind).unwrap_or_default(),
        module => module_kind(module),
    };
    // A marker is known by its name.
    let is_marker = |kind| matches!(kind, FrameKind::Marker(_));
    match kind == shown || is_marker(kind) && is_marker(shown) {
        true => 0,
        false => u64::from(kind.code()) + 1,
    }
}

/// The kind that such a field names.
pub(crate) fn field_kind(content: u64) -> Option<FrameKind> {
    FrameKind::of_code(u8::try_from(content.checked_sub(1)?).ok()?)
}

/// The kind of code in the mapping of this name, if it is a stand-in.
pub(crate) fn stand_in_kind(mapping: &str) -> Option<FrameKind> {
    STAND_INS.iter().find(|(_, name)| *name == mapping).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_no_name_shows_are_written() {
        let (jit, user) = (FrameKind::Jit, FrameKind::User);
        for (kind, module, is_written) in [
            (user, "", false),
            (jit, "", false),
            (FrameKind::Marker(Marker::Sleeping), "", false),
            (FrameKind::Kernel, "[kernel.kallsyms]", false),
            (jit, "/tmp/perf-12.map", false),
            (user, "/tmp/perf-12.map", true),
            (user, "[kernel.kallsyms]", true),
            (FrameKind::Interpreted, "/src/a.py", true),
            (FrameKind::Marker(Marker::Remark), "/src/a.py", true),
            (FrameKind::Inlined, "", true),
        ] {
            let field = kind_field(kind, module);
            assert_eq!(field > 0, is_written, "{kind:?} {module}");
            assert_eq!(field_kind(field), is_written.then_some(kind));
        }
        assert_eq!(field_kind(u64::MAX), None);
    }
}
