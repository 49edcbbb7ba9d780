#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod attr;
mod callchain;
pub mod clock;
pub mod counted;
mod cursor;
mod encode;
pub mod engine;
mod header;
pub mod interpreter;
mod layout;
mod order;
mod proc_text;
mod record;
pub mod regs;
pub mod request;
mod sample;
pub mod sched;
pub mod traced;
pub mod values;

pub use attr::{Attr, branch_sample, flag, hardware, read_format, sample_type, software, type_id};
pub use callchain::{Callchain, CallchainIter, Context, Entries, Entry};
pub use cursor::{ByteOrder, DecodeError};
pub use header::{CpuMode, Header, kind, misc};
pub use layout::Layout;
pub use order::{Flush, RoundQueue};
pub use proc_text::{is_in_first_user_namespace, proc_text};
pub use record::{
    Aux, BpfEvent, BuildId, CallchainDeferred, Cgroup, Comm, FileId, Ksymbol, Lost, LostSamples,
    Mmap, Mmap2, Namespaces, Read, Record, SampleId, Switch, SwitchCpuWide, Task, TextPoke,
    Throttle, Unknown,
};
pub use regs::{Abi, Regs};
pub use sample::{Branch, BranchStack, ReadValue, ReadValues, Sample, UserStack};
