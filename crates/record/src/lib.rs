#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod attach;
mod batch;
mod command;
mod copy;
mod counters;
mod error;
mod event;
mod filter;
mod launch;
mod limits;
mod options;
mod pace;
mod permission;
mod plan;
mod procfs;
pub mod ptrace;
mod reader;
mod ring;
mod session;
mod stack_mode;
mod sys;
mod target;
mod watch;
mod weights;

pub use batch::{Batch, Gap};
pub use command::{Child, Usage, Waiting, exit_code_of};
pub use counters::{Count, CounterOptions, CounterTarget, Counters};
pub use error::{Error, Notice};
pub use event::{
    Event, EventClass, EventError, KnownEvent, Refusal, TracepointFormat, Unit, known_events,
    matches_pattern, nearest, tracepoint_formats,
};
pub use launch::{Launch, User};
pub use limits::online_cpus;
pub use options::{Cpus, Options, Rate};
pub use pace::possible_rate;
pub use permission::{Cause, NotPermitted, Wanted};
pub use procfs::{Mapping, descendants, family, mappings, process_of, threads};
pub use pyrograph_event::clock::monotonic_now;
pub use reader::{Ended, Pacer, Stopper};
pub use session::{Next, Recording, Session, Summary};
pub use stack_mode::StackMode;
pub use target::Target;
pub use watch::Watch;
