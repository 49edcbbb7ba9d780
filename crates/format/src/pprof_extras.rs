//! Our extensions of pprof, shared by the writer and the reader. Other programs skip unknown fields, and show the names
//! of mappings unchanged.
//!
//! The kind of a frame decides its colour, and pprof has no field for it. Most kinds follow from the module's name
//! (`[kernel.kallsyms]`, `perf-12.map`), or from a stand-in mapping if there is no module; [`KIND_FIELD`] holds the
//! others.

use pyrograph_profile::{FrameKind, Marker};

use crate::names::module_kind;

/// Field of a location that is 1 if the location was guessed because there was no unwind table.
pub(crate) const GUESSED_FIELD: u32 = 1001;

/// Field of a location with the kind of its outermost frame, if no name implies it: [`FrameKind::code`] plus 1, because
/// an absent field reads as 0.
pub(crate) const KIND_FIELD: u32 = 1002;

/// Label of a sample: the number of its guessed locations.
pub(crate) const GUESSED_LABEL: &str = "guessed_frames";

/// Beginnings of comments with facts about the recording that have no field: what was recorded (the command, or the names
/// of the processes), the machine, and the number of lost samples.
pub(crate) const COMMAND: &str = "command: ";
pub(crate) const HOST: &str = "host: ";
pub(crate) const LOST: &str = "lost samples: ";

/// Names of mappings for frames without a module, by kind of code.
const STAND_INS: [(FrameKind, &str); 4] = [
    (FrameKind::Kernel, "[kernel]"),
    (FrameKind::Jit, "[jit]"),
    (FrameKind::Interpreted, "[interpreted]"),
    (FrameKind::Marker(Marker::Remark), "[remark]"),
];

/// Name of the mapping for frames without a module; `None` if they need none.
pub(crate) fn stand_in(kind: FrameKind) -> Option<&'static str> {
    let is_it = |known| std::mem::discriminant(known) == std::mem::discriminant(&kind);
    STAND_INS.iter().find(|(known, _)| is_it(known)).map(|(_, name)| *name)
}

/// Content of [`KIND_FIELD`] for a frame of this kind in this module; 0 if names imply the kind.
pub(crate) fn kind_field(kind: FrameKind, module: &str) -> u64 {
    let shown = match module {
        "" => stand_in(kind).and_then(stand_in_kind).unwrap_or_default(),
        module => module_kind(module),
    };
    // Markers are recognized by their names.
    let is_marker = |kind| matches!(kind, FrameKind::Marker(_));
    match kind == shown || is_marker(kind) && is_marker(shown) {
        true => 0,
        false => u64::from(kind.code()) + 1,
    }
}

/// Decodes the content of [`KIND_FIELD`].
pub(crate) fn field_kind(content: u64) -> Option<FrameKind> {
    FrameKind::of_code(u8::try_from(content.checked_sub(1)?).ok()?)
}

/// Kind of the code in a mapping, if the mapping is a stand-in.
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
