//! Symbolization of process addresses by mapped files: for formats that contain addresses and the text of
//! `/proc/PID/maps`.
//!
//! ```text
//! 562bdb4bc000-562bdb4bd000 r-xp 00001000 00:00 10012963    /opt/app/heap
//! source=/opt
//!   00400000-00fcb000: $source/app/server (@1000) 6b0c3f53e1
//! ```
//!
//! The second form is printed by some `/pprof/` pages: a file, its offset if it is not 0, and its build ID; offset
//! and build ID may be missing. `$source` is replaced with the value that an earlier line defined.
//!
//! Without a build ID, functions are looked up in the current files; [warnings](crate::nameless) report this, and the
//! files that are missing.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashMap;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile};
use pyrograph_symbol::BuildId;

use super::text::is_kernel_address;
use crate::nameless;
use crate::reader::Options;
use crate::warnings::{WarningKind, Warnings};

/// The mapped files of a process.
#[derive(Default)]
pub(crate) struct Maps {
    /// Mappings, which are sorted by address before lookups.
    mappings: Vec<Mapping>,
    /// Values of names after a `$`.
    texts: Vec<(String, String)>,
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
    build_id: Option<BuildId>,
    /// The offset is not in the file, but leads to the address that the file was linked for.
    is_linked: bool,
}

/// True for a line that is followed by a list of mapped files.
pub(crate) fn begins_maps(line: &str) -> bool {
    matches!(line.trim(), "MAPPED_LIBRARIES:" | "--- Memory map: ---")
}

impl Maps {
    /// Parses a line; returns `false` if it does not belong to a list of mapped files.
    pub fn line(&mut self, line: &str) -> bool {
        let line = line.trim();
        let mapping = parse(line).or_else(|| self.brief(line));
        let Some(mapping) = mapping else { return self.text(line) };
        if !mapping.path.is_empty() {
            self.mappings.push(mapping);
        }
        true
    }

    /// Adds addresses of a file; `base` is where address 0 of the file is.
    pub fn add_linked(&mut self, path: &str, base: u64, range: Range<u64>) {
        let Range { start, end } = range;
        let (offset, path) = (start.wrapping_sub(base), path.to_owned());
        self.mappings.push(Mapping { start, end, offset, path, build_id: None, is_linked: true });
    }

    /// True if no file is known so far.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// Parses `source=/opt`.
    fn text(&mut self, line: &str) -> bool {
        // Each name is searched in each path, and could be in every path, so the number is limited.
        const MOST: usize = 100;
        const LONGEST: usize = 256;
        let Some((name, text)) = line.split_once('=') else { return false };
        if self.texts.len() < MOST && text.len() <= LONGEST {
            self.texts.push((format!("${}", name.trim()), text.trim().to_owned()));
        }
        true
    }

    /// Parses `00400000-00fcb000: $source/app/server (@1000) 6b0c3f53e1`.
    fn brief(&self, line: &str) -> Option<Mapping> {
        let hex =
            |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
        let (range, rest) = line.split_once([' ', '\t'])?;
        let (start, end) = range.strip_suffix(':').unwrap_or(range).split_once('-')?;
        let (start, end) = (hex(start)?, hex(end)?);
        let rest = rest.trim();
        // Without a colon it could be any text.
        let is_file = range.ends_with(':') || rest.starts_with(['/', '[']);
        let (path, offset, build_id) = match rest.rsplit_once(" (@") {
            Some((path, after)) => {
                let (offset, build_id) = after.split_once(')')?;
                (path, hex(offset)?, build_id.trim())
            }
            None => match rest.rsplit_once(' ') {
                Some((path, id)) if id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) => {
                    (path, 0, id)
                }
                _ => (rest, 0, ""),
            },
        };
        let path = path.trim();
        // The last definition counts; of `$source` and `$source2`, the longer name is matched.
        let texts = self.texts.iter().rev().filter(|(name, _)| path.starts_with(name));
        let path = match texts.max_by_key(|(name, _)| name.len()) {
            Some((name, text)) => format!("{text}{}", &path[name.len()..]),
            None => path.to_owned(),
        };
        (start <= end && is_file).then(|| Mapping {
            start,
            end,
            offset,
            path,
            build_id: build_id.parse().ok(),
            is_linked: false,
        })
    }

    /// Calls `on` with each address and the path of its file, or `""`.
    pub fn paths(
        &mut self,
        addresses: impl IntoIterator<Item = u64>,
        mut on: impl FnMut(u64, &str),
    ) {
        self.mappings.sort_by_key(|mapping| mapping.start);
        for address in addresses {
            on(address, self.find(address).map_or("", |mapping| mapping.path.as_str()));
        }
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = &self.mappings[after.checked_sub(1)?];
        (address < mapping.end).then_some(mapping)
    }

    /// Returns the frames of each address, leaf first: inlined calls and the function itself. `addresses` are
    /// addresses of instructions, not return addresses.
    pub fn frames(
        mut self,
        addresses: impl IntoIterator<Item = u64>,
        options: &Options,
        profile: &mut Profile,
        warnings: &mut Warnings,
    ) -> HashMap<u64, Vec<FrameId>> {
        self.mappings.sort_by_key(|mapping| mapping.start);
        type Places<'a> = (Option<&'a BuildId>, bool, Vec<(u64, u64)>);
        let mut by_file: BTreeMap<&str, Places<'_>> = BTreeMap::new();
        for address in addresses {
            let mapping = self.find(address);
            let path = mapping.map_or("", |mapping| mapping.path.as_str());
            let offset =
                mapping.map_or(address, |of| (address - of.start).saturating_add(of.offset));
            let (build_id, is_linked, places) = by_file.entry(path).or_default();
            *is_linked = mapping.is_some_and(|mapping| mapping.is_linked);
            *build_id = build_id.or(mapping.and_then(|mapping| mapping.build_id.as_ref()));
            places.push((address, offset));
        }
        let mut frames = HashMap::new();
        let mut named = Vec::new();
        for (path, (build_id, is_linked, mut places)) in by_file {
            places.sort_unstable();
            places.dedup();
            let file = (path, build_id, is_linked);
            if name(file, &places, options, profile, warnings, &mut frames) && build_id.is_none() {
                named.push(path.to_owned());
            }
        }
        nameless::say_by_path(&named, warnings);
        frames
    }
}

/// Symbolizes addresses in one file, given as process addresses and as offsets or linked addresses. Returns true if any has a name.
fn name(
    (path, build_id, is_linked): (&str, Option<&BuildId>, bool),
    places: &[(u64, u64)],
    options: &Options,
    profile: &mut Profile,
    warnings: &mut Warnings,
    frames: &mut HashMap<u64, Vec<FrameId>>,
) -> bool {
    let is_file = path.starts_with('/');
    let found = if is_file { nameless::open(path, build_id, options) } else { None };
    if is_file && found.is_none() {
        warnings.add(WarningKind::MissingFile(path.to_owned()), 1, []);
    }
    let names = found.map(|file| {
        let address = |&(_, offset): &(u64, u64)| match is_linked {
            true => Some(offset),
            false => file.file_offset_to_address(offset),
        };
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
        build_id: None,
        is_linked: false,
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
    fn files_without_access_and_device() {
        let mut maps = Maps::default();
        for line in [
            "source=/opt",
            "  00400000-00fcb000: $source/app/server",
            "  7f794964f000-7f7949652000: /lib/libnss.so (@1f000) 5cd6f8d0c1a1c4a7",
            "0x8000-0x9000 /a b.so 5cd6f8d0c1a1c4a7",
            "  00010000-00020000: server_main",
            "  ffffffffff600000-ffffffffff601000: [vsyscall]",
        ] {
            assert!(maps.line(line), "{line}");
        }
        for line in ["", "-", "cafe-babe", "a-b some text", "MAPPED_LIBRARIES:", "9-8: /x"] {
            assert!(!maps.line(line), "{line}");
        }
        let mut found = Vec::new();
        let addresses = [0x40_0000, 0x7f79_4964_f001, 0x8001, 0x1_0000, 0xa000];
        maps.paths(addresses, |_, path| found.push(path.to_owned()));
        assert_eq!(found, ["/opt/app/server", "/lib/libnss.so", "/a b.so", "server_main", ""]);
        let of = |address| maps.find(address).expect("a mapping");
        assert_eq!(of(0x7f79_4964_f001).offset, 0x1f000);
        assert!(of(0x7f79_4964_f001).build_id.is_some() && of(0x8001).build_id.is_some());
        assert!(of(0x40_0000).build_id.is_none());
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
