//! Recording: `perf_event_open`, and the ring buffers that the kernel writes samples into.
//!
//! A [`Session`] is opened for a command, running processes or the whole machine ([`Target`]), and
//! started. From then on a thread of its own copies the kernel's buffers out, one for each CPU, and
//! does nothing else, so that little is lost; [`Recording::next`] hands out [`Batch`]es of records
//! in the order of time, to be decoded with [`Session::layout`]. Up to 256 MiB of records may wait for
//! a caller who is busy; after that the kernel's buffers fill up, and it counts how many it loses.
//!
//! The state before the recording began (processes, their names and executable mappings) comes
//! first, as records of the same kind with the time 0.
//!
//! This crate symbolizes nothing, unwinds nothing, and prints nothing: what the user should know is
//! a [`Notice`] or an [`Error`], each with the command that would change it.
//!
//! ```no_run
//! use std::time::Duration;
//! use pyrograph_event::Record;
//! use pyrograph_record::{Next, Options, Session, Target};
//!
//! let options = Options::new(Target::Command(vec!["xz".into(), "--version".into()]));
//! let session = Session::open(&options)?;
//! let layout = session.layout();
//! let mut recording = session.start()?;
//! let mut samples = 0;
//! loop {
//!     match recording.next(Duration::from_millis(100)) {
//!         Next::Batch(batch) => {
//!             for record in batch.iter() {
//!                 samples += u64::from(matches!(layout.decode(record), Ok(Record::Sample(_))));
//!             }
//!         }
//!         Next::Waiting => {}
//!         Next::End => break,
//!     }
//! }
//! let summary = recording.finish();
//! println!("{samples} samples, {} lost, {:?}", summary.lost, summary.status);
//! # Ok::<(), pyrograph_record::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod attach;
mod batch;
mod command;
mod copy;
mod error;
mod event;
mod filter;
mod limits;
mod options;
mod pace;
mod permission;
mod plan;
mod procfs;
mod reader;
mod ring;
mod session;
mod sys;
mod weights;

pub use batch::Batch;
pub use command::{Child, Waiting};
pub use error::{Error, Notice};
pub use event::{Event, EventError, Unit, nearest};
pub use options::{Options, Rate, StackMode, Target};
pub use pace::possible_rate;
pub use permission::{Cause, NotPermitted, Wanted};
pub use procfs::{descendants, process_of};
pub use reader::{Ended, Pacer, Stopper};
pub use session::{Next, Recording, Session, Summary};
