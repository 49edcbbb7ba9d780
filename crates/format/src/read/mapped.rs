//! Addresses of a process to functions, by the files that it had mapped: for formats that hold addresses and the text
//! of `/proc/PID/maps`.
//!
//! ```text
//! 562bdb4bc000-562bdb4bd000 r-xp 00001000 00:00 10012963    /opt/app/heap
//! ```
//!
//! Such formats hold no build IDs: functions are those of the files as they are now. One that is missing is named in
//! a warning.

use std::collections::BTreeMap;
use std::path::Path;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};
use pyrograph_symbol::{Module, Source};

use super::text::is_kernel_address;
use crate::names::tidy_name;
use crate::reader::Options;
use crate::warnings::{WarningKind, Warnings};

/// Mapped files of a process.
#[derive(Default)]
pub(crate) struct Maps {
    /// Sorted by address when they are asked.
    mappings: Vec<Mapping>,
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl Maps {
    /// Takes a line; `false` if it is none of `/proc/PID/maps`.
    pub fn line(&mut self, line: &str) -> bool {
        let Some(mapping) = parse(line) else { return false };
        if mapping.path.starts_with(['/', '[']) {
            self.mappings.push(mapping);
        }
        true
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = &self.mappings[after.checked_sub(1)?];
        (address < mapping.end).then_some(mapping)
    }

    /// The frames of each address, leaf first: calls that were inlined there and the function itself. `addresses` are
    /// those of instructions, not of returns.
    pub fn frames(
        mut self,
        addresses: impl IntoIterator<Item = u64>,
        options: &Options,
        profile: &mut Profile,
        warnings: &mut Warnings,
    ) -> HashMap<u64, Vec<FrameId>> {
        self.mappings.sort_by_key(|mapping| mapping.start);
        let mut by_file: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for address in addresses {
            let mapping = self.find(address);
            let path = mapping.map_or("", |mapping| mapping.path.as_str());
            let offset =
                mapping.map_or(address, |of| (address - of.start).saturating_add(of.offset));
            by_file.entry(path).or_default().push((address, offset));
        }
        let mut frames = HashMap::new();
        for (path, mut places) in by_file {
            places.sort_unstable();
            places.dedup();
            name(path, &places, options, profile, warnings, &mut frames);
        }
        frames
    }
}

/// Names the places of one file: addresses in the process, and offsets in the file.
fn name(
    path: &str,
    places: &[(u64, u64)],
    options: &Options,
    profile: &mut Profile,
    warnings: &mut Warnings,
    frames: &mut HashMap<u64, Vec<FrameId>>,
) {
    let module = if path.starts_with('/') { open(path, options, warnings) } else { None };
    let in_file: Vec<u64> = places
        .iter()
        .map(|&(_, offset)| {
            let address = module.as_ref().and_then(|of| of.file_offset_to_address(offset));
            address.unwrap_or(u64::MAX)
        })
        .collect();
    let found = module.map(|module| module.symbolize(&in_file, &options.symbols));
    if let Some(found) = &found {
        for warning in &found.warnings {
            warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
        }
    }
    let of_module = profile.strings.intern(path);
    for (row, &(address, offset)) in places.iter().enumerate() {
        let calls = found.as_ref().map(|found| &*found.addresses[row].frames).unwrap_or_default();
        let kind = if is_kernel_address(address) { FrameKind::Kernel } else { FrameKind::User };
        let mut list = Vec::with_capacity(calls.len().max(1));
        for (depth, call) in calls.iter().enumerate() {
            let function = profile.strings.intern(&tidy_name(&call.function));
            let file = profile.strings.intern(call.file.as_deref().unwrap_or_default());
            let kind = if depth + 1 < calls.len() { FrameKind::Inlined } else { kind };
            let named = Frame::named(function, kind);
            let frame = Frame { module: of_module, file, line: call.line, ..named };
            list.push(profile.frames.intern(frame));
        }
        if list.is_empty() {
            let address = if options.unknown_addresses { offset } else { 0 };
            let frame = Frame { module: of_module, address, kind, ..Frame::default() };
            list.push(profile.frames.intern(frame));
        }
        frames.insert(address, list);
    }
}

fn open(path: &str, options: &Options, warnings: &mut Warnings) -> Option<Module> {
    let file = options.symbols.locator.open_module(Path::new(path), None);
    let module =
        file.ok().and_then(|file| Module::open(&file, Source { path, ..Source::default() }).ok());
    if module.is_none() {
        warnings.add(WarningKind::MissingFile(path.to_owned()), 1, []);
    }
    module
}

fn parse(line: &str) -> Option<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut fields = line.trim().splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let (access, offset) = (fields.next()?, fields.next()?);
    let (_device, _inode) = (fields.next()?, fields.next()?);
    let path = fields.next().unwrap_or_default().trim_start();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
    (access.len() == 4 && start <= end).then(|| Mapping {
        start,
        end,
        offset,
        path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::ValueType;

    use super::*;

    #[inline(never)]
    extern "C" fn function_to_find(x: u64) -> u64 {
        std::hint::black_box(x) + 1
    }

    #[test]
    fn functions_of_this_process_are_found() {
        let mut maps = Maps::default();
        let text = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        assert!(text.lines().all(|line| maps.line(line)));
        assert!(!maps.line("MAPPED_LIBRARIES:"));
        let address = function_to_find as *const () as u64 + 1;
        let mut profile = Profile::new(vec![ValueType::samples()]);
        let mut warnings = Warnings::default();
        let options = Options::default();
        let frames = maps.frames([address, 1], &options, &mut profile, &mut warnings);
        // Its callees may be inlined there.
        let function = |address| profile.frames.get(*frames[&address].last().expect("a frame"));
        let name = profile.strings.get(function(address).function);
        assert!(name.ends_with("function_to_find"), "{name}");
        assert_eq!(function(1), Frame::default());
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}
