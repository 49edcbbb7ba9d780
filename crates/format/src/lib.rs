#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod atomic_file;
mod byte_cache;
mod bytes;
mod callees;
mod capabilities;
mod chunks;
mod demangled;
mod depth;
mod detect;
mod each_event;
mod events;
mod folded_columns;
mod gate;
mod huge_text;
mod inline;
mod input;
mod nameless;
mod names;
mod perf_frame;
mod perfetto;
mod points;
mod pprof_extras;
mod protobuf;
mod read;
mod reader;
mod restack;
mod sched_events;
mod single_events;
mod strace_text;
mod thread_events;
mod utf16;
mod warnings;
mod write;
mod writer;

pub use atomic_file::{NotWritable, check_writable, remove_unfinished, write_file};
pub use capabilities::Capabilities;
pub use demangled::demangled;
pub use detect::detect;
pub use each_event::read_each_event;
pub use events::events;
pub use folded_columns::FoldedColumns;
pub use inline::expand_inlined;
pub use input::{Head, Input, label_all};
pub use perfetto::{PERFETTO_ENDINGS, PerfettoTrace, is_perfetto};
pub use points::{Points, TimeUnit, read_points};
pub use pyrograph_profile::{FieldValue, TraceEvent, TraceField};
pub use pyrograph_symbol::{Locator, Options as SymbolOptions};
pub use read::{Described, READERS, describe, read, read_each, read_path, reader_named};
pub use reader::{
    Advice, Count, Detail, FoldedOptions, Options, ReadError, Reader, Reading, ThreadDetail,
};
pub use sched_events::{OnSchedEvent, SchedInput};
pub use single_events::{ChosenEvents, EventInput};
pub use thread_events::thread_events;
pub use warnings::{Place, Warning, WarningKind, Warnings};
pub use write::{
    WRITERS, counts_of_folded, not_held, similar_endings, write_folded, writer_for, writer_named,
};
pub use writer::{WriteOptions, Writer};
