//! Our extensions of pprof, shared by its writer and its reader. Other programs skip a field that they do not know, and
//! show the names of mappings as they are.

use pyrograph_profile::{FrameKind, Marker};

/// The field of a location that is 1 if it was found by a guess, for want of an unwind table.
pub(crate) const GUESSED_FIELD: u32 = 1001;

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

/// The kind of code in the mapping of this name, if it is a stand-in.
pub(crate) fn stand_in_kind(mapping: &str) -> Option<FrameKind> {
    STAND_INS.iter().find(|(_, name)| *name == mapping).map(|(kind, _)| *kind)
}
