//! Analyses of profiles. The results are plain structs with public fields; nothing is drawn.
//!
//! [`flame`] lays out a [`Tree`](pyrograph_profile::Tree) as a flame graph, [`flame_reversed`] from the leaves, and
//! [`flame_chart`] lays out a profile in the order of its samples.
//! [`Filter`] leaves out samples and frames beforehand; [`top`] lists functions, [`call_tree`] calls, and [`report`]
//! both.
//! Positions are in the profile's values; converting them to pixels is left to the renderer.
//!
//! This crate opens no file, reads no clock, and knows no colour.
//!
//! ```
//! use pyrograph_analyze::{FlameOptions, flame};
//! use pyrograph_profile::{
//!     Frame, FrameKind, LabelOptions, Profile, Sample, StackId, Tree, ValueType,
//! };
//!
//! let mut profile = Profile::new(vec![ValueType::samples()]);
//! let main = profile.strings.intern("main");
//! let frame = profile.frames.intern(Frame::named(main, FrameKind::User));
//! let stack = profile.stacks.intern(StackId::ROOT, frame);
//! profile.push(Sample::new(stack), &[3]);
//!
//! let tree = Tree::new(&profile, &LabelOptions::default());
//! let graph = flame(&profile, &tree, &FlameOptions::default())?;
//! assert_eq!(graph.frames.len(), 2, "the whole, and `main`");
//! assert_eq!(graph.frames[1].value, 3);
//! # Ok::<(), pyrograph_analyze::FlameError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod annotation;
mod by_root;
mod call_table;
mod calls;
mod calltree;
mod chart;
mod counting;
mod diff;
mod event_filter;
mod field_points;
mod filter;
mod flame;
#[cfg(test)]
mod folded;
mod functions;
mod heatmap;
mod history;
mod latency;
mod merging;
mod nameless;
mod names;
mod neighbors;
mod offsets;
mod origin;
mod pairing;
mod parts;
mod report;
mod sched;
mod shown_names;
mod start;
mod top;
mod view;

pub use annotation::{
    AnnotatedInstruction, Annotation, Arrow, Scope, SourceBlock, SourceFile, SourcePlace, arrows,
};
pub use by_root::{RootedRow, root_totals, top_by_root};
pub use call_table::{CallGroup, CallKey, CallRow, CallTable, call_table};
pub use calltree::{CallNode, CallTree, CallTreeOptions, Direction, LeftOut, call_tree};
pub use counting::{
    CountChange, CountNote, CountRow, CountSummary, Mean, compare_counts, summarize,
};
pub use diff::{
    Alike, Diff, DiffError, DiffFrame, DiffGraph, DiffOptions, Estimate, Family, FunctionChange,
    Measure, Renamed, Run, SampleBasis, Scale, Side, Span, Verdict, diff, to_total_after,
    two_columns,
};
pub use field_points::FieldPoints;
pub use filter::{Filter, FilterError, Level, Moment, Pattern, StackView, TimeRange};
pub use flame::{
    Comparison, FlameError, FlameFrame, FlameGraph, FlameOptions, flame, flame_chart,
    flame_reversed,
};
pub use heatmap::{
    FineCells, HeatCell, HeatColumn, HeatMap, HeatMapError, HeatMapOptions, Percentile,
    Percentiles, heat_map,
};
pub use history::{History, PartCounts, Recent};
pub use latency::{Latencies, Pairs};
pub use merging::{function_names, merged_by_identity};
pub use nameless::{Nameless, NamelessJit, nameless};
pub use names::{NameForm, named};
pub use neighbors::{FunctionName, Neighbor, Neighbors, neighbors};
pub use offsets::{Offsets, TimedGraph, TimedSample, offsets, timed_graph};
pub use origin::{Origin, origin};
pub use pairing::{EventName, KeyField, PairedEvents, Pairing};
pub use parts::{below_path, only_frames};
pub use pyrograph_profile::GAP;
pub use report::{Report, ReportOptions, report};
pub use sched::{
    Absence, Activity, ActivityTimes, Arrival, CpuTimeline, IdleSpan, LatencyBy, LatencyRow,
    LatencySort, LatencyTable, MapLine, Ready, ReadyCause, SchedChart, SchedChartBuilder,
    SchedFilter, SchedLatency, SchedMap, SchedProcess, SchedSummary, SchedTrack, Spread, Stint,
    Switched, TaskLetters, TaskSummary, TaskTimeline, Timehist, TimehistEvent, TimehistRow,
    sched_latency_table,
};
pub use shown_names::{AsOne, ShownFunction, ShownNames};
pub use start::StartPart;
pub use top::{TopLine, TopRow, top};
pub use view::{
    VIEW_STEP, ViewAddress, ViewData, ViewFrame, ViewNames, ViewSample, ViewStack, ViewThread,
    view_data,
};
