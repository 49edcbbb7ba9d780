#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod by_perf;
mod calls;
mod capabilities;
mod counting;
mod cpu_time;
mod engine_error;
mod error;
mod filters;
mod goroutines;
mod in_kernel;
mod jvm;
mod kernel_places;
mod keys;
mod lifetime;
mod lost;
mod malloc;
mod matching;
pub mod memory;
mod message;
mod needed;
mod places;
mod plan;
mod question;
mod recorder;
mod sampler;
mod sched;
mod scope;
mod source_places;
mod targets;
mod tracing;
mod valued_events;
mod values;

pub use calls::{call_number, call_numbers};
pub use capabilities::capabilities;
pub use counting::{
    CountGaps, CountPlan, Counted, CountedRuns, Counting, count_by_turns, counted_events,
};
pub use cpu_time::cpu_time;
pub use engine_error::EngineError;
pub use error::{Error, GoError, PlaceError};
pub use filters::{Filters, control_group};
pub use in_kernel::kernel_features;
pub use jvm::{JvmError, JvmReport};
pub use keys::KeyKind;
pub use message::{EngineReport, Message};
pub use needed::is_program;
pub use places::{known_places, known_probes_of};
pub use plan::{Engine, Plan};
pub use pyrograph_event::engine::{Feature, LostBy, TableStats};
pub use pyrograph_event::interpreter::Language;
pub use pyrograph_event::request::{Measure, Trigger, Waits};
pub use pyrograph_event::traced::LostCalls;
pub use pyrograph_event::values::Ranges;
pub use pyrograph_probe::{Body, Condition, Function, Variable};
pub use pyrograph_record::{
    Child, Cpus, Event, EventClass, EventError, KnownEvent, Launch, Notice, Rate, Refusal,
    StackMode, Stopper, Summary, Target, Unit, Usage, User, known_events, matches_pattern,
};
pub use pyrograph_resolve::{Resolved, StackMemory};
pub use question::Question;
pub use recorder::{Finished, Progress, Recorder, host_name, record};
pub use sampler::Kept;
pub use sched::{SchedEnd, SchedKey, SchedPlan, SchedRecording};
pub use scope::Scope;
pub use source_places::{SourceFunction, source_functions};
pub use tracing::{
    CountedTime, PageFaults, TraceEnd, TracePlan, TracedEvent, Tracing, names_event, traced_names,
};
pub use valued_events::{ValuedEvents, WantedValues, valued_events};
