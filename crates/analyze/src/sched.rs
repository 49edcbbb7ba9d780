//! Views of the scheduler's events, which are fed to them one at a time.

mod filter;
mod latency;
mod latency_table;
mod track;

pub use filter::SchedFilter;
pub use latency::SchedLatency;
pub use latency_table::{LatencyBy, LatencyRow, LatencySort, LatencyTable, sched_latency_table};
pub use track::{Absence, Arrival, Ready, SchedTrack, Stint, Switched};
