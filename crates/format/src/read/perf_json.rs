//! Reader of the output of `perf data convert --to-json`.
//!
//! ```text
//! {"linux-perf-json-version":1,"headers":{…},"samples":[{"timestamp":28213946741333,"pid":7,"tid":7,"cpu":1,
//!  "comm":"ls","callchain":[{"ip":"0xffffffff81b09032","symbol":"ext4_bread","dso":"[kernel.kallsyms]"},
//!  {"ip":"0x0"}]}]}
//! ```
//!
//! Source: `tools/perf/util/data-convert-json.c`. Callchains are leaf first. The file has no periods and events: each
//! sample counts 1.

use pyrograph_profile::{FrameKind, Sample, Thread, ValueType};
use serde::Deserialize;

use super::json;
use super::rows::Rows;
use super::text::{Collector, hex_address, is_kernel_address};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};

/// Reader of perf's JSON.
pub struct PerfJson;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    samples: Vec<Taken>,
}

#[derive(Deserialize)]
struct Taken {
    #[serde(default)]
    timestamp: Option<u64>,
    #[serde(default)]
    pid: Option<i32>,
    #[serde(default)]
    tid: Option<i32>,
    #[serde(default)]
    cpu: Option<u32>,
    #[serde(default, deserialize_with = "json::or_default")]
    comm: String,
    #[serde(default)]
    callchain: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default, deserialize_with = "json::or_default")]
    ip: String,
    #[serde(default, deserialize_with = "json::or_default")]
    symbol: String,
    #[serde(default, deserialize_with = "json::or_default")]
    dso: String,
}

impl Reader for PerfJson {
    fn name(&self) -> &'static str {
        "perf JSON"
    }

    fn written_by(&self) -> &'static str {
        "perf data convert --to-json"
    }

    fn detect(&self, head: &[u8]) -> bool {
        json::begins_object(head) && json::has_key(head, "linux-perf-json-version")
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let (file, warnings) = json::parse::<File>(input)?;
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut rows = Rows::new(options, 1);
        for taken in &file.samples {
            for call in &taken.callchain {
                let address = hex_address(&call.ip).unwrap_or(0);
                let kind =
                    if is_kernel_address(address) { FrameKind::Kernel } else { FrameKind::User };
                match call.symbol.as_str() {
                    // A chain that could not be followed further ends with address 0.
                    "" if call.dso.is_empty() && address == 0 => {}
                    "" => out.unknown(address, &call.dso, kind),
                    symbol => out.symbol(symbol, &call.dso, kind),
                }
            }
            let process = out.intern(&taken.comm);
            let thread = Thread { pid: taken.pid, tid: taken.tid, process, ..Thread::default() };
            let thread = rows.thread(&mut out.profile, thread);
            let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
            let sample =
                Sample { thread, cpu: taken.cpu, time: taken.timestamp, ..Sample::new(stack) };
            rows.push(sample, &[1]);
        }
        rows.finish(&mut out.profile);
        Ok(out.reading(warnings))
    }
}
