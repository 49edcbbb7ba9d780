#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod about;
mod address;
mod calls;
mod check;
mod children;
mod counts;
mod durations;
mod event_record;
mod frame;
mod full_names;
mod ids;
mod info;
mod label;
mod marker;
mod merge;
mod profile;
mod rename;
mod sample;
mod sched;
mod sched_counts;
mod sched_fact;
mod sched_threads;
mod single_event;
mod spans;
mod stack;
mod strings;
mod thread;
mod trace_event;
mod tree;
mod value;

pub use about::About;
pub use address::{Address, Addresses};
pub use calls::{CallCount, CallCounts, StackLine, ThreadAction, ThreadEvent, TracedCall};
pub use check::InvalidProfile;
pub use counts::{CommandUsage, CountRun, CountValue, Counter, NotCounted, RangeCount};
pub use durations::Durations;
pub use event_record::{
    EventRecord, MappedFile, MappingDetails, MappingRecord, RecordGroup, TaskRecord,
};
pub use frame::{Frame, FrameKind, Frames};
pub use full_names::FullNames;
pub use ids::{AddressId, FrameId, NodeId, StackId, StringId, ThreadId};
pub use info::{EventInfo, FieldInfo, NodeInfo, ProcessInfo, RecordingInfo, SampleRate};
pub use label::{LabelOptions, Labels, ProcessLabel};
pub use marker::Marker;
pub use profile::Profile;
pub use sample::{Sample, Samples};
pub use sched::{SchedAction, SchedEvent, SchedTask, SchedTasks, TaskId, TaskState, WaitReason};
pub use sched_counts::SchedCount;
pub use sched_fact::{NamedThread, SchedFact};
pub use sched_threads::SchedThreads;
pub use single_event::{
    EventBranch, EventClass, EventDetails, EventFilter, EventKind, EventRegisters, Location,
    Locations, SingleEvent, StackEntry,
};
pub use spans::{GAP, Span, spans};
pub use stack::{Stacks, Walk};
pub use strings::Strings;
pub use thread::{Thread, ThreadDetail, Threads};
pub use trace_event::{FieldValue, TraceEvent, TraceField};
pub use tree::Tree;
pub use value::{Quantity, TimeUnit, UnitKind, ValueType};
