//! Versions of functions, for processes that put JIT-compiled functions into the place of earlier ones.
//!
//! Only the jitdump file shows which function was at an address at a time, and it may be written after the samples have
//! arrived. So samples of a process that writes one keep their times to the end. Then, if more than one function was at
//! an address, a frame becomes several, each with a version: the function's number in the file plus one. Version 0
//! means that the function is not determined.

use hashbrown::HashMap;
use pyrograph_profile::StackId;
use pyrograph_symbol::JitDump;

use crate::module_ids::ModuleId;
use crate::modules::{Held, ModuleKind};
use crate::stacks::RawStacks;

/// Assigns versions to frames of samples whose times are known and on `CLOCK_MONOTONIC`, the clock that jitdump files
/// use by convention.
pub fn split_versions(raw: RawStacks, modules: &Held) -> RawStacks {
    let dumps: HashMap<ModuleId, _> = modules
        .iter()
        .filter_map(|(&id, module)| match &module.kind {
            ModuleKind::Jit { dump: Some(dump), .. } => Some((id, JitDump::open(&dump.file).ok()?)),
            _ => None,
        })
        .filter(|(_, dump)| !dump.has_arch_timestamps())
        .collect();
    let changes: Vec<bool> = raw
        .frames()
        .iter()
        .map(|frame| dumps.get(&frame.module).is_some_and(|dump| dump.changes(frame.address)))
        .collect();
    if !changes.contains(&true) {
        return raw;
    }
    // Parents come before their children.
    let mut has_changes = vec![false; raw.stacks.len()];
    for index in 1..raw.stacks.len() {
        if let Some((parent, frame)) = raw.stacks.get(StackId::from_index(index)) {
            has_changes[index] = has_changes[parent.index()] || changes[frame.index()];
        }
    }
    let mut split = RawStacks::default();
    let mut moved = vec![None; raw.stacks.len()];
    let mut frames = Vec::new();
    for row in raw.samples() {
        let mut sample = row.sample;
        sample.stack = match sample.time.filter(|_| has_changes[sample.stack.index()]) {
            None => split.copy(&raw, sample.stack, &mut moved),
            Some(time) => {
                frames.clear();
                frames.extend(raw.leaf_first(sample.stack).map(|frame| {
                    let dump = dumps.get(&frame.module);
                    let number = dump
                        .filter(|dump| dump.changes(frame.address))
                        .and_then(|dump| dump.nearest(frame.address, time));
                    frame.with_version(number.map_or(0, |number| number + 1))
                }));
                split.intern(&frames)
            }
        };
        split.push(sample, row.weight);
    }
    split
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};

    use std::sync::Arc;

    use pyrograph_profile::{Profile, Sample, Strings, ThreadId, ValueType};

    use super::*;
    use crate::jit_tables::DumpFile;
    use crate::modules::Module;
    use crate::names::{Naming, name_stacks};
    use crate::stacks::{RawFrame, Weight};

    /// A function for each (time, address, name), of 16 bytes each.
    fn dump(loads: &[(u64, u64, &str)]) -> File {
        let mut bytes = Vec::new();
        for word in [0x4a69_5444u32, 1, 40, 62, 0, 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 16]);
        for (index, (time, address, name)) in (0u64..).zip(loads) {
            let size = 16 + 40 + name.len() as u32 + 1 + 16;
            bytes.extend([0u32.to_le_bytes(), size.to_le_bytes()].concat());
            bytes.extend(time.to_le_bytes());
            bytes.extend([1u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
            bytes.extend([*address, *address, 16, index].map(u64::to_le_bytes).concat());
            bytes.extend(name.as_bytes());
            bytes.extend([0; 17]);
        }
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&bytes).and_then(|()| file.rewind()).expect("it can be written");
        file
    }

    /// `caller;leaf value` for samples at times, all with the same two addresses.
    fn names(loads: &[(u64, u64, &str)], times: &[Option<u64>]) -> Vec<String> {
        let file = DumpFile::new("jit-1.dump", dump(loads));
        let kind = ModuleKind::Jit { map: None, dump: Some(Arc::new(file)) };
        let modules = Held::from([(ModuleId(0), Arc::new(Module { path: String::new(), kind }))]);
        let mut raw = RawStacks::default();
        let stack = raw.intern(&[0x1004, 0x2004].map(|at| RawFrame::new(ModuleId(0), at)));
        for &time in times {
            raw.push(Sample { time, thread: ThreadId(0), ..Sample::new(stack) }, Weight::one(1));
        }
        let mut raw = split_versions(raw, &modules);
        raw.forget_times();
        let mut profile = Profile::new(vec![ValueType::samples(); Weight::COLUMNS]);
        let options = Naming::plain();
        name_stacks(&[&raw], &Strings::default(), &modules, &options, &mut profile);
        let line = |(row, sample): (usize, Sample)| {
            let frames: Vec<_> = profile.stacks.leaf_first(sample.stack).collect();
            let names = frames.iter().rev().map(|&id| profile.frames.get(id).function);
            let names: Vec<_> = names.map(|name| profile.strings.get(name)).collect();
            format!("{} {}", names.join(";"), profile.samples.values(0)[row])
        };
        profile.samples.iter().enumerate().map(line).collect()
    }

    #[test]
    fn functions_in_each_others_place() {
        let loads = [(100, 0x1000, "a"), (110, 0x2000, "caller"), (200, 0x1000, "b")];
        let times = [150, 199, 200, 300, 151].map(Some);
        assert_eq!(names(&loads, &times), ["caller;a 3", "caller;b 2"]);
        // Before any was split of, it is the first; without a time, the last.
        assert_eq!(names(&loads, &[Some(50), None]), ["caller;a 1", "caller;b 1"]);
    }

    #[test]
    fn functions_that_stay() {
        let loads = [(100, 0x1000, "a"), (110, 0x2000, "caller")];
        assert_eq!(names(&loads, &[Some(50), Some(150), None]), ["caller;a 3"]);
    }
}
