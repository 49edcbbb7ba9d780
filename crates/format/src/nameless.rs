//! Symbolization of frames for which an input has only module, build ID and address; shared by all formats that contain
//! these.
//!
//! The address is looked up in the file at the module's path if its build ID matches, otherwise in the file with that
//! build ID in a cache, or in its debug file, which may come from debuginfod. For inputs without build IDs, only paths
//! can be used; a warning says that the files may have changed since.

use std::collections::BTreeMap;
use std::path::Path;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, StringId};
use pyrograph_symbol::{BuildId, Module, Source, Symbolized};

use crate::names::tidy_name;
use crate::reader::Options;
use crate::restack::restack;
use crate::warnings::{WarningKind, Warnings};

/// Origin of the addresses of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The beginning of the file.
    File,
    /// The beginning of the mapped image, as in the Firefox Profiler.
    Image,
}

/// Modules whose frames may be symbolized, with the build ID of each if known. Frames in other modules are left alone.
pub(crate) type Files = HashMap<StringId, Option<BuildId>>;

/// Symbolizes the frames without a function in these modules.
pub(crate) fn name(
    profile: &mut Profile,
    files: &Files,
    base: Base,
    options: &Options,
    warnings: &mut Warnings,
) {
    let mut nameless: BTreeMap<StringId, Vec<(u64, FrameId)>> = BTreeMap::new();
    for (id, frame) in profile.frames.iter().enumerate() {
        let is_of_file = profile.strings.get(frame.module).starts_with('/');
        // Code of interpreters and JIT compilers is not in a file.
        let is_machine_code = matches!(frame.kind, FrameKind::User | FrameKind::Kernel);
        if frame.function.is_empty() && frame.address != 0 && is_of_file && is_machine_code {
            let place = (frame.address, FrameId(id as u32));
            nameless.entry(frame.module).or_default().push(place);
        }
    }
    let mut named: HashMap<FrameId, Vec<FrameId>> = HashMap::new();
    let mut by_path = Vec::new();
    for (module, mut places) in nameless {
        let path = profile.strings.get(module).to_owned();
        let Some(build_id) = files.get(&module) else { continue };
        let Some(found) = open(&path, build_id.as_ref(), options) else {
            warnings.add(WarningKind::MissingFile(path), 1, []);
            continue;
        };
        places.sort_unstable();
        let first = found.segments().iter().map(|of| of.address & !0xfff).min().unwrap_or(0);
        let address = |place: u64| match base {
            Base::File => found.file_offset_to_address(place).unwrap_or(u64::MAX),
            Base::Image => place.saturating_add(first),
        };
        let addresses: Vec<u64> = places.iter().map(|&(place, _)| address(place)).collect();
        let names = found.symbolize(&addresses, &options.symbols);
        for warning in &names.warnings {
            warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
        }
        let known = named.len();
        for ((_, id), at) in places.iter().zip(&names.addresses) {
            let frames = frames(profile, profile.frames.get(*id), at);
            if !frames.is_empty() {
                named.insert(*id, frames);
            }
        }
        if build_id.is_none() && named.len() > known {
            by_path.push(path);
        }
    }
    say_by_path(&by_path, warnings);
    if named.is_empty() {
        return;
    }
    restack(profile, |profile, caller, frame, _| match named.get(&frame) {
        Some(frames) => {
            frames.iter().fold(caller, |stack, &frame| profile.stacks.intern(stack, frame))
        }
        None => profile.stacks.intern(caller, frame),
    });
}

/// Warns about files that were found by path only, without a build ID: they may have changed since the recording.
pub(crate) fn say_by_path(paths: &[String], warnings: &mut Warnings) {
    if let Some(said) = said_of_paths(paths) {
        warnings.add(WarningKind::Symbols(said), 1, []);
    }
}

fn said_of_paths(paths: &[String]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown = paths.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = match paths.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let said = "names are those of the files as they are now, for the input has no build IDs of";
    (!paths.is_empty()).then(|| format!("{said} {shown}{more}"))
}

/// Opens the file with a build ID, or else its debug file; without a build ID, the file at the path.
pub(crate) fn open(path: &str, build_id: Option<&BuildId>, options: &Options) -> Option<Module> {
    let locator = &options.symbols.locator;
    let file = locator.open_module(Path::new(path), build_id).ok();
    let file = file.or_else(|| locator.open_debug_file(build_id?))?;
    let source = Source { path, build_id, ..Source::default() };
    Module::open(&file, source).ok()
}

/// The frames at an address, outermost first; empty if no function is known there.
pub(crate) fn frames(profile: &mut Profile, unnamed: Frame, at: &Symbolized) -> Vec<FrameId> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_found_by_path_are_named() {
        let paths = |count: usize| (1..=count).map(|n| format!("/f{n}")).collect::<Vec<_>>();
        assert_eq!(said_of_paths(&paths(0)), None);
        let said = |count| said_of_paths(&paths(count)).expect("files");
        assert!(said(1).ends_with("has no build IDs of /f1"));
        assert!(said(5).ends_with("of /f1, /f2, /f3 and 2 more"));
    }
}
