//! The perf_event records and their decoder, for live ring buffers and `perf.data` files alike.
//!
//! Linux describes each event by an [`Attr`]; what follows from it for the bytes of a record is a
//! [`Layout`]. [`Layout::decode`] turns the bytes of one record into a [`Record`] that borrows from
//! them; nothing is copied or allocated. [`RoundQueue`] puts records from several buffers in the
//! order of time. A few records can also be written ([`Comm::encode`], [`Task::encode_fork`],
//! [`Mmap2::encode`]), so that what was read from `/proc` takes the same way as the kernel's records.
//!
//! Counts of programs in the kernel are in [`counted`], and what they are asked to count in [`request`].
//! [`engine`] has facts about the engine that runs them.
//!
//! This crate opens no file and makes no system call. Input is not trusted: a record that is
//! too short, or that claims to hold more than it does, is a [`DecodeError`], never a panic.
//!
//! The source of every layout and constant is the kernel's user-space interface,
//! `include/uapi/linux/perf_event.h`, and the man page perf_event_open(2).
//!
//! ```
//! use pyrograph_event::{Attr, Comm, Layout, Record, SampleId, sample_type};
//!
//! let attr = Attr { sample_type: sample_type::TID | sample_type::TIME, ..Attr::new() }
//!     .with(pyrograph_event::flag::SAMPLE_ID_ALL);
//! let layout = Layout::new(&attr);
//!
//! let id = SampleId { pid: Some(7), tid: Some(7), time: Some(1_000), ..SampleId::default() };
//! let mut bytes = Vec::new();
//! Comm { pid: 7, tid: 7, name: b"xz", exec: true, id }.encode(&layout, &mut bytes);
//!
//! let Record::Comm(comm) = layout.decode(&bytes)? else { panic!("not a COMM record") };
//! assert_eq!((comm.pid, comm.name, comm.exec), (7, &b"xz"[..], true));
//! # Ok::<(), pyrograph_event::DecodeError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod attr;
mod callchain;
pub mod counted;
mod cursor;
mod encode;
pub mod engine;
mod header;
mod layout;
mod order;
mod record;
pub mod regs;
pub mod request;
mod sample;

pub use attr::{Attr, branch_sample, flag, hardware, read_format, sample_type, software, type_id};
pub use callchain::{Callchain, CallchainIter, Context, Entries, Entry};
pub use cursor::{ByteOrder, DecodeError};
pub use header::{CpuMode, Header, kind, misc};
pub use layout::Layout;
pub use order::{Flush, RoundQueue};
pub use record::{
    Aux, BpfEvent, BuildId, CallchainDeferred, Cgroup, Comm, FileId, Ksymbol, Lost, LostSamples,
    Mmap, Mmap2, Namespaces, Read, Record, SampleId, Switch, SwitchCpuWide, Task, TextPoke,
    Throttle, Unknown,
};
pub use regs::{Abi, Regs};
pub use sample::{Branch, BranchStack, ReadValue, ReadValues, Sample, UserStack};
