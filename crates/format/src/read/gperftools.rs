//! CPU profiles of gperftools (`CPUPROFILE=FILE`, `ProfilerStart`), in its own binary format.
//!
//! ```text
//! 0  3  0  10000  0        header: words of the machine; the fourth is the period in microseconds
//! 14  6  0x55cd82ec018b …  samples, depth of the stack, its addresses leaf first
//! 0  1  0                  end
//! 55cd82ec0000-55cd82ec1000 r-xp 00001000 00:00 1001    /opt/app/heap
//! ```
//!
//! Source: "CPU Profile Format" in gperftools' documentation (`cpuprofile-fileformat.html`). Addresses but a stack's
//! first are those behind a call. Words of 32 and 64 bits are read, little-endian ones.

use pyrograph_profile::{Profile, Sample, ValueType};

use super::mapped::Maps;
use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
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
        let maps = maps(words.bytes, &mut warnings);
        Ok(build(&stacks, period, maps, options, warnings))
    }
}

/// A stack: how often, and the addresses of its instructions, leaf first.
struct Taken {
    count: u64,
    addresses: Vec<u64>,
}

/// Words of the machine that wrote them.
struct Words<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl<'a> Words<'a> {
    /// The words after the header, and the period in microseconds, if it is one.
    fn of(bytes: &'a [u8]) -> Option<(Self, u64)> {
        [8, 4].into_iter().find_map(|size| {
            let mut words = Self { bytes, size };
            let first = [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
            let [0, count, 0, period @ 1..=60_000_000, 0] = first else { return None };
            let more = usize::try_from(count).ok().filter(|count| (3..=64).contains(count))? - 3;
            (0..more).try_for_each(|_| words.next().map(|_| ()))?;
            Some((words, period))
        })
    }

    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.bytes.split_at_checked(self.size)?;
        self.bytes = rest;
        Some(word.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

/// All stacks, and whether they end as they should.
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
    // Not believed before so much is there.
    if depth > words.bytes.len() / words.size {
        return None;
    }
    let mut addresses = Vec::with_capacity(depth);
    for place in 0..depth {
        let address = words.next()?;
        addresses.push(if place == 0 { address } else { address.saturating_sub(1) });
    }
    Some(Taken { count, addresses })
}

/// The mapped files at the end. Other lines, as `build=`, are passed over.
fn maps(bytes: &[u8], warnings: &mut Warnings) -> Maps {
    let mut maps = Maps::default();
    let lines = bytes.split(|&byte| byte == b'\n').map(String::from_utf8_lossy);
    if lines.filter(|line| maps.line(line)).count() == 0 {
        let said = "the list of mapped files is missing: functions have no names".to_owned();
        warnings.add(WarningKind::Damaged(said), 1, []);
    }
    maps
}

fn build(
    stacks: &[Taken],
    period: u64,
    maps: Maps,
    options: &Options,
    mut warnings: Warnings,
) -> Reading {
    let types = vec![ValueType::samples(), ValueType::new("cpu", "ns")];
    let mut profile = Profile { shown: 1, ..Profile::new(types) };
    let addresses = stacks.iter().flat_map(|taken| taken.addresses.iter().copied());
    let frames = maps.frames(addresses, options, &mut profile, &mut warnings);
    let mut rows = Rows::new(options, 2);
    for taken in stacks {
        let path = taken.addresses.iter().rev().filter_map(|address| frames.get(address));
        let stack = profile.stacks.intern_path(path.flat_map(|of| of.iter().rev().copied()));
        let time = taken.count.saturating_mul(period).saturating_mul(1000);
        rows.push(Sample::new(stack), &[taken.count, time]);
    }
    rows.finish(&mut profile);
    Reading::new(profile, warnings)
}
