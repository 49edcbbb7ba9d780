//! Reader of heap profiles of gperftools as text: `HEAPPROFILE=FILE`, `HeapProfilerDump`,
//! `MallocExtension::GetHeapSample`.
//!
//! ```text
//! heap profile:    103:   124168 [   303:   184168] @ heapprofile
//!    100:    50000 [   100:    50000] @ 0x562bdb4bc1c1 0x562bdb4bc1e5
//!
//! MAPPED_LIBRARIES:
//! 562bdb4bc000-562bdb4bd000 r-xp 00001000 00:00 10012963    /opt/app/heap
//! ```
//!
//! Source: gperftools' `heap-profile-table.cc` and `malloc_extension.cc`. The numbers are live objects and bytes,
//! then all allocated objects and bytes; addresses are leaf first, and are return addresses.
//!
//! - After `@ heapprofile`, all allocations are counted; after `@ heap_v2/RATE` they are sampled, and totals are
//!   estimated as in gperftools' `pprof`.
//! - Go writes the same first line with `@ heap/RATE`, and names: see [Go's](super::go_profile).

use pyrograph_profile::{Profile, Sample, ValueType};

use super::go_profile::estimated;
use super::mapped::{Maps, begins_maps};
use super::rows::Rows;
use super::text::{Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of gperftools heap profiles.
pub struct GperftoolsHeap;

impl Reader for GperftoolsHeap {
    fn name(&self) -> &'static str {
        "gperftools heap"
    }

    fn written_by(&self) -> &'static str {
        "HEAPPROFILE=FILE with gperftools' libtcmalloc"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).find(|line| !line.is_empty()).is_some_and(|line| rate(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        read_heap(input, options, "a heap profile", rate, |line, rate, stacks| {
            let stack = stack(line, rate);
            let is_stack = stack.is_some();
            stacks.extend(stack);
            is_stack
        })
    }
}

/// Live objects and bytes, allocated objects and bytes, and instruction addresses, leaf first.
pub(super) struct Stack {
    pub values: [u64; 4],
    pub addresses: Vec<u64>,
}

/// Reads a heap profile: a first line with the sampling rate (`rate_of`), then stacks and a list of mapped files.
/// `take` parses a line of the stacks, and returns `false` if it is not one; `what` is the name of the format.
pub(super) fn read_heap(
    input: Head,
    options: &Options,
    what: &str,
    rate_of: impl Fn(&str) -> Option<f64>,
    mut take: impl FnMut(&str, f64, &mut Vec<Stack>) -> bool,
) -> Result<Reading, ReadError> {
    let name = input.name().to_owned();
    let mut lines = Lines::new(input);
    let (mut rate, mut stacks, mut maps) = (None, Vec::new(), None::<Maps>);
    while lines.advance() {
        let line = lines.line().trim();
        let is_known = match (rate, &mut maps) {
            _ if line.is_empty() => true,
            (None, _) => {
                rate = rate_of(line);
                rate.is_some()
            }
            (Some(_), Some(maps)) => maps.line(line),
            (Some(_), None) if begins_maps(line) => {
                maps = Some(Maps::default());
                true
            }
            (Some(rate), None) => take(line, rate, &mut stacks),
        };
        if !is_known {
            lines.warn(WarningKind::UnreadableLine);
        }
    }
    if rate.is_none() {
        let reason = format!("it has no first line of {what}");
        return Err(ReadError::Malformed { name, reason });
    }
    let mut warnings = lines.warnings;
    if maps.is_none() {
        let cause = "its list of mapped files is missing: functions have no names".to_owned();
        warnings.add(WarningKind::Truncated(cause), 1, []);
    }
    Ok(build(&stacks, maps.unwrap_or_default(), options, warnings))
}

/// Builds the profile from stacks, whose addresses are symbolized by mapped files.
fn build(stacks: &[Stack], maps: Maps, options: &Options, mut warnings: Warnings) -> Reading {
    let of = ValueType::new;
    let types = vec![
        of("inuse_objects", "count"),
        of("inuse_space", "bytes"),
        of("alloc_objects", "count"),
        of("alloc_space", "bytes"),
    ];
    let mut profile = Profile { shown: 1, ..Profile::new(types) };
    let addresses = stacks.iter().flat_map(|stack| stack.addresses.iter().copied());
    let frames = maps.frames(addresses, options, &mut profile, &mut warnings);
    let mut rows = Rows::new(options, 4);
    for Stack { values, addresses } in stacks {
        let path = addresses.iter().rev().filter_map(|address| frames.get(address));
        let stack = profile.stacks.intern_path(path.flat_map(|of| of.iter().rev().copied()));
        rows.push(Sample::new(stack), values);
    }
    rows.finish(&mut profile);
    Reading::new(profile, warnings)
}

/// Parses the sampling rate in the first line; 0 for a profile of all allocations.
fn rate(line: &str) -> Option<f64> {
    let (_, kind) = line.strip_prefix("heap profile: ")?.rsplit_once("] @ ")?;
    match kind.split_once('/') {
        None => {
            let is_whole =
                ["heapprofile", "heapz", "growth", "growthz", "fragmentation", "fragmentationz"];
            is_whole.contains(&kind).then_some(0.0)
        }
        Some(("heap_v2" | "heapz_v2", rate)) => rate.parse().ok(),
        Some(_) => None,
    }
}

/// Parses `   100:    50000 [   100:    50000] @ 0x562bdb4bc1c1 0x562bdb4bc1e5`.
fn stack(line: &str, rate: f64) -> Option<Stack> {
    let (numbers, addresses) = line.split_once('@')?;
    let values = values(numbers, rate)?;
    let addresses = addresses
        .split_whitespace()
        .map(|address| hex_address(address).map(|address| address.saturating_sub(1)))
        .collect::<Option<_>>()?;
    Some(Stack { values, addresses })
}

/// Parses `100:    50000 [   100:    50000]`, and estimates totals from samples.
pub(super) fn values(numbers: &str, rate: f64) -> Option<[u64; 4]> {
    let numbers = numbers.split([' ', ':', '[', ']']).filter(|text| !text.is_empty());
    let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [live, live_bytes, all, all_bytes] = numbers[..] else { return None };
    let (live, all) = (estimated(live, live_bytes, rate), estimated(all, all_bytes, rate));
    Some([live.0, live.1, all.0, all.1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_lines_of_gperftools() {
        let line =
            |kind: &str| format!("heap profile:    103:   124168 [   303:   184168] @ {kind}");
        assert_eq!(rate(&line("heapprofile")), Some(0.0));
        assert_eq!(rate(&line("heap_v2/524288")), Some(524_288.0));
        // Go's.
        assert_eq!(rate(&line("heap/1048576")), None);
        assert_eq!(rate("heap profile: 1"), None);
    }

    #[test]
    fn samples_stand_for_more() {
        let of = |rate| stack(" 1: 1024 [ 2: 2048] @ 0x11 0x21", rate).expect("a stack");
        assert_eq!(of(0.0).values, [1, 1024, 2, 2048]);
        assert_eq!(of(0.0).addresses, [0x10, 0x20]);
        // 1 / (1 - exp(-1024/524288)) = 512.5.
        assert_eq!(of(524_288.0).values, [512, 524_800, 1025, 1_049_600]);
        assert!(stack("1: 2 [3: 4]", 0.0).is_none());
        assert!(stack("1: 2 [3: 4] @ zz", 0.0).is_none());
    }
}
