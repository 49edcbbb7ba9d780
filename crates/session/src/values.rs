//! Values of events by expressions: which ones are read, and filters and sums by them.

mod asking;
mod call;
mod filter;
mod register;
mod static_probe;
mod text;
mod tracepoint;

pub(crate) use self::asking::{Asked, Asking, FRAME, NamedValue, Resolved, Wanted, bits_of, words};
pub(crate) use self::call::call_filters;
pub(crate) use self::register::{frame_of_call, value_of_register};
pub(crate) use self::static_probe::{of_static_probes, readable};
pub(crate) use self::text::text;
#[cfg(feature = "bpf")]
pub(crate) use self::text::value_text;
pub(crate) use self::tracepoint::of_tracepoint;
