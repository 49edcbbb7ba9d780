//! Frames: the entries of stacks, each a function or a place in one.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::{FrameId, Marker, StringId};

/// Kind of a frame's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Machine code of a program or shared library; also a frame whose kind is not known.
    #[default]
    User,
    /// The kernel or one of its modules.
    Kernel,
    /// A call that the compiler inlined into the frame before it (toward the root).
    Inlined,
    /// Code generated at run time.
    Jit,
    /// A function of an interpreted language.
    Interpreted,
    /// No code: a remark about the stack, for example that it is truncated.
    Marker(Marker),
}

impl FrameKind {
    /// First code of the markers.
    const MARKERS: u8 = 16;

    /// Returns a number for the kind that is written to files and never changes.
    pub fn code(self) -> u8 {
        match self {
            Self::User => 0,
            Self::Kernel => 1,
            Self::Inlined => 2,
            Self::Jit => 3,
            Self::Interpreted => 4,
            // These two were added after `Remark` had its number.
            Self::Marker(Marker::Frozen) => Self::MARKERS + 16,
            Self::Marker(Marker::Lost) => Self::MARKERS + 17,
            Self::Marker(Marker::Remark) => Self::MARKERS + 15,
            Self::Marker(marker) => Self::MARKERS + marker as u8,
        }
    }

    /// Returns the kind with this number.
    pub fn of_code(code: u8) -> Option<Self> {
        let markers = Marker::ALL.into_iter().chain([Marker::Remark]).map(Self::Marker);
        [Self::User, Self::Kernel, Self::Inlined, Self::Jit, Self::Interpreted]
            .into_iter()
            .chain(markers)
            .find(|kind| kind.code() == code)
    }

    /// Name of the kind in tables and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
            Self::Inlined => "inlined",
            Self::Jit => "jit",
            Self::Interpreted => "interpreted",
            Self::Marker(_) => "remark",
        }
    }
}

/// One frame. Text that is not known is [`StringId::EMPTY`]; numbers that are not known are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name, demangled. Empty if there is no symbol; the frame is then identified by `module` and `address`.
    pub function: StringId,
    /// Module that holds the code: an ELF file's path, a script, a package, `[kernel.kallsyms]`.
    pub module: StringId,
    /// Source file.
    pub file: StringId,
    /// Source line, from 1.
    pub line: u32,
    /// First line of the function in its source file, from 1. It is the same in all frames of a function; no view
    /// distinguishes functions by it. Compilers that read profiles count lines from it.
    pub start_line: u32,
    /// Address relative to the module (a file offset for an ELF file). Sources set it only if a view needs it, for
    /// example if there is no symbol: with an address in each frame, every call site would be a frame of its own.
    pub address: u64,
    /// Kind of the code.
    pub kind: FrameKind,
    /// True if the frame was found by a guess, because there was no unwind table. It may be wrong, and the frames outside
    /// of it, too.
    pub guessed: bool,
}

impl Frame {
    /// Creates a frame of which only the function name and the kind are known.
    pub fn named(function: StringId, kind: FrameKind) -> Self {
        Self { function, kind, ..Self::default() }
    }
}

/// Interned frames: equal frames have equal [`FrameId`]s.
#[derive(Clone, Debug)]
pub struct Frames {
    rows: Vec<Frame>,
    index: HashTable<FrameId>,
    hasher: FixedState,
}

impl Default for Frames {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashTable::new(), hasher: FixedState::with_seed(0) }
    }
}

impl Frames {
    /// Returns the identifier of `frame`, which is added if it is new.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        let hash = self.hasher.hash_one(frame);
        let rows = &self.rows;
        if let Some(&id) = self.index.find(hash, |&id| rows[id.index()] == frame) {
            return id;
        }
        let id = FrameId::from_index(self.rows.len());
        self.rows.push(frame);
        let (rows, hasher) = (&self.rows, &self.hasher);
        self.index.insert_unique(hash, id, |&id| hasher.hash_one(rows[id.index()]));
        id
    }

    /// Replaces the kind of each frame. A frame is left unchanged if the result exists already.
    pub(crate) fn set_kinds(&mut self, kind: impl Fn(Frame) -> FrameKind) {
        self.replace(|frame| Frame { kind: kind(frame), ..frame });
    }

    /// Replaces the function of each frame. A frame is left unchanged if the result exists already.
    pub(crate) fn set_functions(&mut self, function: impl Fn(StringId) -> StringId) {
        self.replace(|frame| Frame { function: function(frame.function), ..frame });
    }

    fn replace(&mut self, new: impl Fn(Frame) -> Frame) {
        for row in 0..self.rows.len() {
            let old = self.rows[row];
            let new = new(old);
            if old == new || self.find(new).is_some() {
                continue;
            }
            let id = FrameId::from_index(row);
            let hash = self.hasher.hash_one(old);
            if let Ok(entry) = self.index.find_entry(hash, |&known| known == id) {
                entry.remove();
            }
            self.rows[row] = new;
            let (rows, hasher) = (&self.rows, &self.hasher);
            self.index
                .insert_unique(hasher.hash_one(new), id, |&id| hasher.hash_one(rows[id.index()]));
        }
    }

    /// Returns the identifier of `frame`, if it is in the table.
    pub fn find(&self, frame: Frame) -> Option<FrameId> {
        let hash = self.hasher.hash_one(frame);
        self.index.find(hash, |&id| self.rows[id.index()] == frame).copied()
    }

    /// Adds a frame without checking whether it exists already.
    #[cfg(test)]
    pub(crate) fn push_unchecked(&mut self, frame: Frame) {
        self.rows.push(frame);
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Frame>() + self.index.allocation_size()
    }

    /// Returns the frame with this identifier.
    pub fn get(&self, id: FrameId) -> Frame {
        self.rows[id.index()]
    }

    /// Number of distinct frames.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over all frames, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Frame> + '_ {
        self.rows.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_files_that_were_written() {
        let markers: Vec<u8> = Marker::ALL.map(|of| FrameKind::Marker(of).code()).to_vec();
        assert_eq!(markers, (16..31).chain([32, 33]).collect::<Vec<u8>>());
        assert_eq!(FrameKind::Marker(Marker::Remark).code(), 31);
        let known = (0..=255).filter_map(FrameKind::of_code).map(FrameKind::code);
        assert_eq!(known.collect::<Vec<u8>>(), (0..5).chain(16..34).collect::<Vec<u8>>());
    }

    #[test]
    fn a_frame_takes_32_bytes() {
        // Recordings with addresses have millions of them.
        assert_eq!(size_of::<Frame>(), 32);
    }
}
