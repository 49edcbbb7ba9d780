#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod damage;
mod details;
mod events;
mod features;
mod field;
mod fields;
mod files;
mod group_counts;
mod header;
mod info;
mod live_text;
mod lost;
mod memo;
mod names;
mod plain;
mod print_format;
mod print_numbers;
mod print_tokens;
mod recording;
mod records;
mod resolve;
mod sched;
mod single;
mod single_records;
mod trace_events;
mod trace_text;
mod trace_values;
mod tracepoint;
mod tracing;
mod unpack;

pub use header::detect;
pub use live_text::LiveText;
pub use pyrograph_profile::{EventInfo, FieldInfo, ProcessInfo, RecordingInfo, SampleRate};
pub use pyrograph_resolve::{Rename, Resolved, Stats};
pub use recording::Recording;
pub use resolve::{Resolution, ResolveOptions};
pub use sched::{SchedEnd, SchedEvents};
pub use single::SingleEvents;
pub use trace_events::Unread;
pub use tracepoint::{Tracepoint, TracepointField};
