//! Names for frames of which an input has only module, build ID and address.
//!
//! The address is looked up in the file at the module's path if its build ID is that of the input, or in the file of that
//! build ID in a cache, or in debuginfod's: never in a file of which that is not known.

use std::collections::BTreeMap;
use std::path::Path;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, StringId};
use pyrograph_symbol::{BuildId, Module, Source, Symbolized};

use crate::names::tidy_name;
use crate::reader::Options;
use crate::restack::restack;
use crate::warnings::{WarningKind, Warnings};

/// Names the frames without a function in modules whose build IDs are known. Addresses count from that of the first byte
/// that is mapped of a file, as in the Firefox Profiler.
pub(crate) fn name(
    profile: &mut Profile,
    build_ids: &HashMap<StringId, BuildId>,
    options: &Options,
    warnings: &mut Warnings,
) {
    let mut nameless: BTreeMap<StringId, Vec<(u64, FrameId)>> = BTreeMap::new();
    for (id, frame) in profile.frames.iter().enumerate() {
        let is_of_file = profile.strings.get(frame.module).starts_with('/');
        if frame.function.is_empty() && frame.address != 0 && is_of_file {
            let place = (frame.address, FrameId(id as u32));
            nameless.entry(frame.module).or_default().push(place);
        }
    }
    let mut named: HashMap<FrameId, Vec<FrameId>> = HashMap::new();
    for (module, mut places) in nameless {
        let path = profile.strings.get(module).to_owned();
        // Without a build ID, any file may be at that path now.
        let Some(id) = build_ids.get(&module) else { continue };
        let Some(found) = open(&path, id, options) else {
            warnings.add(WarningKind::MissingFile(path), 1, []);
            continue;
        };
        places.sort_unstable();
        let base = found.segments().iter().map(|of| of.address & !0xfff).min().unwrap_or(0);
        let addresses: Vec<u64> =
            places.iter().map(|(address, _)| address.saturating_add(base)).collect();
        let names = found.symbolize(&addresses, &options.symbols);
        for warning in &names.warnings {
            warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
        }
        for ((_, id), at) in places.iter().zip(&names.addresses) {
            let frames = frames(profile, profile.frames.get(*id), at);
            named.insert(*id, frames);
        }
    }
    if named.values().all(Vec::is_empty) {
        return;
    }
    restack(profile, |profile, caller, frame, _| match named.get(&frame) {
        Some(frames) if !frames.is_empty() => {
            frames.iter().fold(caller, |stack, &frame| profile.stacks.intern(stack, frame))
        }
        _ => profile.stacks.intern(caller, frame),
    });
}

fn open(path: &str, build_id: &BuildId, options: &Options) -> Option<Module> {
    let file = options.symbols.locator.open_module(Path::new(path), Some(build_id)).ok()?;
    let source = Source { path, build_id: Some(build_id), ..Source::default() };
    Module::open(&file, source).ok()
}

/// The frames at an address, outermost first; none if no function is known there.
fn frames(profile: &mut Profile, unnamed: Frame, at: &Symbolized) -> Vec<FrameId> {
    let mut frames = Vec::new();
    for (depth, call) in at.frames.iter().rev().enumerate() {
        let function = profile.strings.intern(&tidy_name(&call.function));
        let file = profile.strings.intern(call.file.as_deref().unwrap_or_default());
        let kind = if depth == 0 { unnamed.kind } else { FrameKind::Inlined };
        let frame = Frame { function, file, line: call.line, address: 0, kind, ..unnamed };
        frames.push(profile.frames.intern(frame));
    }
    frames
}
