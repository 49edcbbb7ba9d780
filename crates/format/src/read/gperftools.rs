//! Reader of CPU profiles of gperftools (`CPUPROFILE=FILE`, `ProfilerStart`), in its own binary format.
//!
//! ```text
//! 0  3  0  10000  0        header: words of the machine; the fourth is the period in microseconds
//! 14  6  0x55cd82ec018b …  samples, depth of the stack, its addresses leaf first
//! 0  1  0                  end
//! 55cd82ec0000-55cd82ec1000 r-xp 00001000 00:00 1001    /opt/app/heap
//! ```
//!
//! Source: "CPU Profile Format" in gperftools' documentation (`cpuprofile-fileformat.html`). All addresses except a
//! stack's first are return addresses. Words have 32 or 64 bits, in either byte order.
//!
//! - If a leaf occurs twice, as the interrupted instruction and as an address found by unwinding, it becomes one
//!   frame.
//! - If the third word is 1, addresses are numbers of [places in Java](super::java_places), which follow the samples.

use hashbrown::HashMap;
use pyrograph_profile::{FrameId, Profile, Sample, ValueType};

use super::java_places::Places;
use super::mapped::Maps;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of gperftools CPU profiles.
pub struct Gperftools;

impl Reader for Gperftools {
    fn name(&self) -> &'static str {
        "gperftools"
    }

    fn written_by(&self) -> &'static str {
        "CPUPROFILE=FILE with gperftools' libprofiler"
    }

    fn detect(&self, head: &[u8]) -> bool {
        Words::of(head).is_some()
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let Some((mut words, period)) = Words::of(&bytes) else {
            let reason = "it does not begin as a CPU profile of gperftools does".to_owned();
            return Err(ReadError::Malformed { name, reason });
        };
        let (stacks, ended) = stacks(&mut words);
        if !ended {
            let at = bytes.len() - words.bytes.len();
            let cause = format!("no end of the stacks; no stack at byte {at}");
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        if words.is_java {
            let mut places = Places::default();
            let lines = words.bytes.split(|&byte| byte == b'\n');
            let unread = lines.filter(|line| !places.line(&String::from_utf8_lossy(line))).count();
            if unread > 0 {
                warnings.add(WarningKind::UnreadableRecord, unread as u64, []);
            }
            return Ok(build(&stacks, period, options, warnings, |profile, addresses, _| {
                places.frames(addresses, profile)
            }));
        }
        let maps = maps(words.bytes, &mut warnings);
        Ok(build(&stacks, period, options, warnings, |profile, addresses, warnings| {
            maps.frames(addresses.iter().copied(), options, profile, warnings)
        }))
    }
}

/// A stack: number of samples, and instruction addresses, leaf first.
struct Taken {
    count: u64,
    addresses: Vec<u64>,
}

/// Iterates over machine words of the file's word size and byte order.
struct Words<'a> {
    bytes: &'a [u8],
    size: usize,
    is_big_endian: bool,
    /// True if addresses are numbers of places in Java, which are not return addresses.
    is_java: bool,
}

impl<'a> Words<'a> {
    /// Parses the header; returns the words after it, and the period in microseconds. `None` if the header is
    /// invalid.
    fn of(bytes: &'a [u8]) -> Option<(Self, u64)> {
        [(8, false), (4, false), (8, true), (4, true)].into_iter().find_map(
            |(size, is_big_endian)| {
                let mut words = Self { bytes, size, is_big_endian, is_java: false };
                let first =
                    [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
                let [0, count, language @ 0..=1, period @ 1..=60_000_000, 0] = first else {
                    return None;
                };
                words.is_java = language == 1;
                let more =
                    usize::try_from(count).ok().filter(|count| (3..=64).contains(count))? - 3;
                (0..more).try_for_each(|_| words.next().map(|_| ()))?;
                Some((words, period))
            },
        )
    }

    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.bytes.split_at_checked(self.size)?;
        self.bytes = rest;
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        Some(if self.is_big_endian {
            word.iter().fold(0, add)
        } else {
            word.iter().rev().fold(0, add)
        })
    }
}

/// Parses all stacks. The second value is true if they end with the end marker.
fn stacks(words: &mut Words<'_>) -> (Vec<Taken>, bool) {
    let mut stacks = Vec::new();
    loop {
        let before = words.bytes;
        match stack(words) {
            Some(Taken { count: 0, addresses }) if addresses == [0] => return (stacks, true),
            Some(taken) => stacks.push(taken),
            None => {
                words.bytes = before;
                return (stacks, false);
            }
        }
    }
}

fn stack(words: &mut Words<'_>) -> Option<Taken> {
    let (count, depth) = (words.next()?, usize::try_from(words.next()?).ok()?);
    // Checked before the allocation, because a damaged file could have any depth.
    if depth > words.bytes.len() / words.size {
        return None;
    }
    let mut addresses = Vec::with_capacity(depth);
    for place in 0..depth {
        let address = words.next()?;
        let is_call = place > 0 && !words.is_java;
        // Skip the repeated leaf.
        if !(is_call && place == 1 && address == addresses[0]) {
            addresses.push(address.saturating_sub(u64::from(is_call)));
        }
    }
    Some(Taken { count, addresses })
}

/// Parses the mapped files at the end. Other lines, such as `build=`, are skipped.
fn maps(bytes: &[u8], warnings: &mut Warnings) -> Maps {
    let mut maps = Maps::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        maps.line(&String::from_utf8_lossy(line));
    }
    if maps.is_empty() {
        let said = "the list of mapped files is missing: functions have no names".to_owned();
        warnings.add(WarningKind::Damaged(said), 1, []);
    }
    maps
}

fn build(
    stacks: &[Taken],
    period: u64,
    options: &Options,
    mut warnings: Warnings,
    name: impl FnOnce(&mut Profile, &[u64], &mut Warnings) -> HashMap<u64, Vec<FrameId>>,
) -> Reading {
    let types = vec![ValueType::samples(), ValueType::new("cpu", "ns")];
    let mut profile = Profile { shown: 1, ..Profile::new(types) };
    let mut addresses: Vec<u64> =
        stacks.iter().flat_map(|taken| taken.addresses.iter().copied()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let frames = name(&mut profile, &addresses, &mut warnings);
    let mut rows = Rows::new(options, 2);
    // Java's profiles contain sums for garbage collection and compilation even if they are 0.
    for taken in stacks.iter().filter(|taken| taken.count > 0) {
        let path = taken.addresses.iter().rev().filter_map(|address| frames.get(address));
        let stack = profile.stacks.intern_path(path.flat_map(|of| of.iter().rev().copied()));
        let time = taken.count.saturating_mul(period).saturating_mul(1000);
        rows.push(Sample::new(stack), &[taken.count, time]);
    }
    rows.finish(&mut profile);
    Reading::new(profile, warnings)
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{LabelOptions, Tree};

    use super::*;
    use crate::{Input, write_folded};

    /// A file of these words, then of this text.
    fn check(words: impl IntoIterator<Item = Vec<u8>>, text: &str, expect: &str) {
        let mut bytes: Vec<u8> = words.into_iter().flatten().collect();
        bytes.extend_from_slice(text.as_bytes());
        let input = Input::bytes("x", bytes).begin().expect("bytes");
        assert!(Gperftools.detect(input.bytes()));
        let reading = Gperftools.read(input, &Options::default()).expect("a profile");
        assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
        let mut out = Vec::new();
        write_folded(&Tree::new(&reading.profile, &LabelOptions::default()), &mut out)
            .expect("to memory");
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn words_of_all_machines_and_a_leaf_that_stands_there_twice() {
        let words = [0, 3, 0, 10_000, 0, 2, 3, 0x1010, 0x1010, 0x2008, 0, 1, 0];
        let maps = "00001000-00002000: [a]\n00002000-00003000: [b]\n";
        let expect = "[b];[a] 2 20000000\n";
        check(words.map(|word: u64| word.to_le_bytes().to_vec()), maps, expect);
        check(words.map(|word: u64| word.to_be_bytes().to_vec()), maps, expect);
        check(words.map(|word: u64| (word as u32).to_le_bytes().to_vec()), maps, expect);
        check(words.map(|word: u64| (word as u32).to_be_bytes().to_vec()), maps, expect);
    }

    #[test]
    fn java_has_places_in_place_of_addresses() {
        let words = [0, 3, 1, 10_000, 0, 0, 1, 3, 2, 1, 5, 1, 2, 6, 7, 0, 1, 0];
        let places = " 0x00000003 GC\n 0x0000005 VM\n\n 0x0000006 a.B.f (B.java:6)\n 0x0000007 a.B.main (B.java:9)\n";
        let expect = "VM 2 20000000\na.B.main;a.B.f 1 10000000\n";
        check(words.map(|word: u32| word.to_le_bytes().to_vec()), places, expect);
    }
}
