//! Addresses of a process to functions, by the files that it had mapped: for formats that hold addresses and the text
//! of `/proc/PID/maps`.
//!
//! ```text
//! 562bdb4bc000-562bdb4bd000 r-xp 00001000 00:00 10012963    /opt/app/heap
//! ```
//!
//! Such formats hold no build IDs: functions are those of the files as they are now, which [a line](crate::nameless) says, and
//! which are missing.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};

use super::text::is_kernel_address;
use crate::nameless;
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
        let mut named = Vec::new();
        for (path, mut places) in by_file {
            places.sort_unstable();
            places.dedup();
            if name(path, &places, options, profile, warnings, &mut frames) {
                named.push(path.to_owned());
            }
        }
        nameless::say_by_path(&named, warnings);
        frames
    }
}

/// Names the places of one file: addresses in the process, and offsets in the file. Returns true if any has a name.
fn name(
    path: &str,
    places: &[(u64, u64)],
    options: &Options,
    profile: &mut Profile,
    warnings: &mut Warnings,
    frames: &mut HashMap<u64, Vec<FrameId>>,
) -> bool {
    let is_file = path.starts_with('/');
    let found = if is_file { nameless::open(path, None, options) } else { None };
    if is_file && found.is_none() {
        warnings.add(WarningKind::MissingFile(path.to_owned()), 1, []);
    }
    let names = found.map(|file| {
        let address = |&(_, offset): &(u64, u64)| file.file_offset_to_address(offset);
        let addresses: Vec<u64> =
            places.iter().map(|place| address(place).unwrap_or(u64::MAX)).collect();
        file.symbolize(&addresses, &options.symbols)
    });
    for warning in names.iter().flat_map(|names| &names.warnings) {
        warnings.add(WarningKind::Symbols(warning.to_string()), 1, []);
    }
    let module = profile.strings.intern(path);
    let mut is_named = false;
    for (row, &(address, offset)) in places.iter().enumerate() {
        let kind = if is_kernel_address(address) { FrameKind::Kernel } else { FrameKind::User };
        let shown = if options.unknown_addresses { offset } else { 0 };
        let bare = Frame { module, address: shown, kind, ..Frame::default() };
        let at = names.as_ref().map(|names| &names.addresses[row]);
        let mut list = at.map_or_else(Vec::new, |at| nameless::frames(profile, bare, at));
        list.reverse();
        is_named |= !list.is_empty();
        if list.is_empty() {
            list.push(profile.frames.intern(bare));
        }
        frames.insert(address, list);
    }
    is_named
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
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let [said] = &said[..] else { panic!("{said:?}") };
        assert!(said.starts_with("names are those of the files as they are now, "), "{said}");
    }
}
