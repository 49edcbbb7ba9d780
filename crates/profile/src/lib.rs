//! The profile model: what every reader fills and every view reads.
//!
//! A [`Profile`] holds interned strings, frames and stacks, the threads that were seen, and the
//! samples: one row for each, as columns. A [`Tree`] is its *folded* projection: every frame
//! reduced to one label, equal paths merged. Folded text, flame graphs and call trees are all drawn
//! from it.
//!
//! This crate opens no file, reads no clock, and knows no format.
//!
//! ```
//! use pyrograph_profile::{Frame, FrameKind, LabelOptions, Profile, Sample, StackId, Tree, ValueType};
//!
//! let mut profile = Profile::new(vec![ValueType::samples()]);
//! let main = profile.strings.intern("main");
//! let frame = profile.frames.intern(Frame::named(main, FrameKind::User));
//! let stack = profile.stacks.intern(StackId::ROOT, frame);
//! profile.push(Sample::new(stack), &[3]);
//!
//! let tree = Tree::new(&profile, &LabelOptions::default());
//! assert_eq!(tree.total(0), 3);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod about;
mod check;
mod children;
mod frame;
mod ids;
mod label;
mod marker;
mod merge;
mod profile;
mod sample;
mod spans;
mod stack;
mod strings;
mod thread;
mod trace_event;
mod tree;
mod value;

pub use about::About;
pub use check::InvalidProfile;
pub use frame::{Frame, FrameKind, Frames};
pub use ids::{FrameId, NodeId, StackId, StringId, ThreadId};
pub use label::{LabelOptions, Labels, ProcessLabel};
pub use marker::Marker;
pub use profile::Profile;
pub use sample::{Sample, Samples};
pub use spans::{GAP, Span, spans};
pub use stack::{Stacks, Walk};
pub use strings::Strings;
pub use thread::{Thread, ThreadDetail, Threads};
pub use trace_event::{FieldValue, TraceEvent, TraceField};
pub use tree::Tree;
pub use value::{Quantity, TimeUnit, UnitKind, ValueType};
