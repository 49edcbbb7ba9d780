//! jemalloc's heap profiles: `MALLOC_CONF=prof:true,prof_final:true`, `mallctl("prof.dump")`.
//!
//! ```text
//! heap_v2/524288
//!   t*: 28106: 56637512 [0: 0]
//!   t0: 28106: 56637512 [0: 0]
//! @ 0x5f86da8 0x5f5a1dc
//!   t*: 13: 6688 [0: 0]
//!   t0: 13: 6688 [0: 0]
//!
//! MAPPED_LIBRARIES:
//! 00400000-00500000 r-xp 00000000 08:01 100    /opt/app/app
//! ```
//!
//! Source: jemalloc's `prof_data.c` and `jeprof`. Objects and bytes that live, and in brackets, with `prof_accum:true`,
//! those ever allocated; of all threads together (`t*`), then of each. The first ones are totals. Addresses are leaf
//! first, each behind a call. What the samples stand for is estimated as `jeprof` does.

use super::gperftools_heap::{Stack, build, values};
use super::mapped::Maps;
use super::text::{Lines, first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// See the module.
pub struct Jemalloc;

impl Reader for Jemalloc {
    fn name(&self) -> &'static str {
        "jemalloc heap"
    }

    fn written_by(&self) -> &'static str {
        "MALLOC_CONF=prof:true with jemalloc"
    }

    fn detect(&self, head: &[u8]) -> bool {
        first_lines(head).find(|line| !line.is_empty()).is_some_and(|line| rate(line).is_some())
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut file = File::default();
        while lines.advance() {
            if !file.line(lines.line().trim()) {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if file.rate.is_none() {
            let reason = "it has no first line of a heap profile of jemalloc".to_owned();
            return Err(ReadError::Malformed { name, reason });
        }
        let mut warnings: Warnings = lines.warnings;
        if file.maps.is_none() {
            let cause = "its list of mapped files is missing: functions have no names".to_owned();
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        Ok(build(&file.stacks, file.maps.unwrap_or_default(), options, warnings))
    }
}

#[derive(Default)]
struct File {
    /// Bytes between samples.
    rate: Option<f64>,
    stacks: Vec<Stack>,
    /// The addresses of the stack whose numbers follow.
    addresses: Option<Vec<u64>>,
    maps: Option<Maps>,
}

impl File {
    /// Takes a line; `false` if it is nothing that is known.
    fn line(&mut self, line: &str) -> bool {
        if line.is_empty() {
            return true;
        }
        let Some(rate) = self.rate else {
            self.rate = rate(line);
            return self.rate.is_some();
        };
        if let Some(maps) = &mut self.maps {
            return maps.line(line) || line.contains('=');
        }
        if line == "MAPPED_LIBRARIES:" {
            self.maps = Some(Maps::default());
            return true;
        }
        if let Some(addresses) = line.strip_prefix('@') {
            let behind_call = |address: &str| Some(hex_address(address)?.saturating_sub(1));
            self.addresses = addresses.split_whitespace().map(behind_call).collect();
            return self.addresses.is_some();
        }
        let Some((thread, numbers)) = line.split_once(": ") else { return false };
        let Some(values) = values(numbers, rate) else { return false };
        if thread == "t*"
            && let Some(addresses) = self.addresses.take()
        {
            self.stacks.push(Stack { values, addresses });
        }
        thread.starts_with('t')
    }
}

fn rate(line: &str) -> Option<f64> {
    line.strip_prefix("heap_v2/")?.parse().ok()
}
