//! Recording where the time goes on this machine, as a library.
//!
//! A [`Plan`] is what to record: a command, running processes or the machine ([`Target`]), what to count
//! ([`Question`]), for how long, and how much detail the profile has. A [`Recorder`] carries it out, with programs in
//! the kernel that unwind and count stacks where that is permitted, and with copied samples of `perf_event_open` where
//! it is not. [`Recorder::step`] does what has come up since the last call; [`Recorder::finish`] names the functions
//! and returns a [`Profile`](pyrograph_profile::Profile).
//!
//! Warnings and details come as [`Message`]s; failures are an [`Error`]. Both are data:
//! how to word them, and by which flag to mend them, is the caller's matter. This crate prints nothing, writes no file,
//! and takes no signal.
//!
//! ```
//! use std::time::Duration;
//!
//! use pyrograph_recorder::{Finished, Message, Plan, Recorder, Target};
//!
//! let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
//! let mut plan = Plan::new(Target::Command(["sh", "-c", script].map(Into::into).to_vec()));
//! plan.duration = Some(Duration::from_secs(20));
//!
//! let report = |message| {
//!     if let Message::Notice(notice) = message {
//!         println!("{notice}");
//!     }
//! };
//! let mut recorder = match Recorder::open(&plan, report) {
//!     Err(error) if error.is_refusal() => return Ok(println!("skipped: {error}")),
//!     recorder => recorder?,
//! };
//! while recorder.step()? {}
//! let Finished { resolved, summary, .. } = recorder.finish()?;
//!
//! let profile = &resolved.profile;
//! println!("{} samples, {} lost", resolved.stats.samples, summary.lost);
//! assert!(profile.samples.total(0) > 0);
//! assert!(profile.threads.iter().any(|thread| profile.strings.get(thread.process) == "sh"));
//! # Ok::<(), pyrograph_recorder::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod by_perf;
mod calls;
mod cpu_time;
mod error;
mod filters;
mod in_kernel;
pub mod memory;
mod message;
mod needed;
mod places;
mod plan;
mod question;
mod recorder;

pub use cpu_time::cpu_time;
pub use error::Error;
pub use filters::{Filters, control_group};
pub use in_kernel::{EngineError, kernel_features};
pub use message::{EngineReport, Message};
pub use places::PlaceError;
pub use plan::{Engine, Plan};
pub use pyrograph_event::engine::{Feature, TableBackend, TableStats};
pub use pyrograph_event::request::{Measure, Trigger, Waits};
pub use pyrograph_record::{Child, Event, EventError, Notice, Rate, StackMode, Summary, Target};
pub use pyrograph_resolve::{Resolved, StackMemory};
pub use question::Question;
pub use recorder::{Finished, Progress, Recorder};
