//! Tables of numbered rows, shared by the writers for pprof and OTLP.

use std::hash::Hash;

use hashbrown::HashMap;
use pyrograph_profile::{
    FrameId, FrameKind, Profile, StackId, StringId, Strings, TimeUnit, ValueType,
};

use super::start_lines::StartLines;
use crate::protobuf;

/// Distinct rows, numbered from 1: 0 means "none".
pub(super) struct Table<T> {
    pub rows: Vec<T>,
    index: HashMap<T, u64, foldhash::fast::FixedState>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// Number of a row, which is added if it is new.
    pub fn id(&mut self, row: T) -> u64 {
        if let Some(&id) = self.index.get(&row) {
            return id;
        }
        self.rows.push(row.clone());
        let id = self.rows.len() as u64;
        self.index.insert(row, id);
        id
    }
}

/// Tables of locations and functions.
pub(super) struct Places<'a> {
    profile: &'a Profile,
    /// Frames of each location, innermost first: all but the last are inlined into the last.
    pub locations: Table<Vec<FrameId>>,
    /// By frame: number of the location that consists of this frame only; 0 if there is none yet.
    alone: Vec<u64>,
    /// Name, source file and start line of each function.
    pub functions: Table<(StringId, StringId, u32)>,
    start_lines: StartLines,
}

impl<'a> Places<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        let start_lines = StartLines::new(profile);
        let alone = vec![0; profile.frames.len()];
        let locations = Table::default();
        Self { profile, locations, alone, functions: Table::default(), start_lines }
    }

    /// Appends the locations of a stack to a list, leaf first.
    pub fn add_stack(&mut self, stack: StackId, ids: &mut Vec<u64>) {
        let mut calls = Vec::new();
        for frame in self.profile.stacks.leaf_first(stack) {
            let is_inlined = self.profile.frames.get(frame).kind == FrameKind::Inlined;
            if calls.is_empty() && !is_inlined {
                let known = &mut self.alone[frame.index()];
                if *known == 0 {
                    *known = self.locations.id(vec![frame]);
                }
                ids.push(*known);
                continue;
            }
            calls.push(frame);
            if !is_inlined {
                ids.push(self.locations.id(std::mem::take(&mut calls)));
            }
        }
        if !calls.is_empty() {
            ids.push(self.locations.id(calls));
        }
    }

    /// Function and line of each call of a location; empty if it is an address without a symbol.
    pub fn lines(&mut self, calls: &[FrameId]) -> Vec<(u64, u32)> {
        let frames = calls.iter().map(|&call| self.profile.frames.get(call));
        let named = frames.filter(|frame| {
            calls.len() > 1 || !frame.function.is_empty() || !frame.file.is_empty()
        });
        let line = |frame: pyrograph_profile::Frame| {
            let function = (frame.function, frame.file, self.start_lines.of(frame));
            (self.functions.id(function), frame.line)
        };
        named.map(line).collect()
    }
}

/// Number of a string. String 0 is empty.
pub(super) fn string(strings: &mut Strings, text: &str) -> u64 {
    strings.intern(text).0.into()
}

/// Writes the name and unit of a value type.
pub(super) fn value_type(
    out: &mut protobuf::Writer,
    field: u32,
    strings: &mut Strings,
    of: &ValueType,
) {
    let (name, unit) = (string(strings, &of.name), string(strings, TimeUnit::long_name(&of.unit)));
    out.message(field, |out| {
        out.number(1, name);
        out.number(2, unit);
    });
}
