//! Views of scheduler events, which are added one at a time.

mod chart;
mod filter;
mod latency;
mod latency_table;
mod map;
mod reason;
mod summary;
#[cfg(test)]
mod tests;
mod timehist;
mod track;

pub use chart::{
    Activity, ActivityTimes, CpuTimeline, IdleSpan, ReadyCause, SchedChart, SchedChartBuilder,
    SchedProcess, TaskTimeline,
};
pub use filter::SchedFilter;
pub use latency::SchedLatency;
pub use latency_table::{LatencyBy, LatencyRow, LatencySort, LatencyTable, sched_latency_table};
pub use map::{MapLine, SchedMap, TaskLetters};
pub use summary::{SchedSummary, Spread, TaskSummary};
pub use timehist::{Timehist, TimehistEvent, TimehistRow};
pub use track::{Absence, Arrival, Ready, SchedTrack, Stint, Switched};
