//! Reader of jemalloc's heap profiles: `MALLOC_CONF=prof:true,prof_final:true`, `mallctl("prof.dump")`.
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
//! Source: jemalloc's `prof_data.c` and `jeprof`. The numbers are live objects and bytes, and in brackets, with
//! `prof_accum:true`, all allocated ones; for all threads together (`t*`), then for each. The numbers before the
//! first stack are totals. Addresses are leaf first, and are return addresses. Totals are estimated from samples as
//! in `jeprof`.

use super::gperftools_heap::{Stack, read_heap, values};
use super::text::{first_lines, hex_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of jemalloc heap profiles.
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
        // Addresses of the stack whose numbers follow.
        let mut addresses: Option<Vec<u64>> = None;
        read_heap(input, options, "a heap profile of jemalloc", rate, |line, rate, stacks| {
            if let Some(text) = line.strip_prefix('@') {
                let behind_call = |address: &str| Some(hex_address(address)?.saturating_sub(1));
                addresses = text.split_whitespace().map(behind_call).collect();
                return addresses.is_some();
            }
            let Some((thread, numbers)) = line.split_once(": ") else { return false };
            let Some(values) = values(numbers, rate) else { return false };
            if thread == "t*"
                && let Some(addresses) = addresses.take()
            {
                stacks.push(Stack { values, addresses });
            }
            thread.starts_with('t')
        })
    }
}

fn rate(line: &str) -> Option<f64> {
    line.strip_prefix("heap_v2/")?.parse().ok()
}
