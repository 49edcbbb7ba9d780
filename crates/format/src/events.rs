//! Single events with their fields, in the order of time: what block I/O, scheduler and other
//! tracepoints hold beyond a stack.
//!
//! A `perf.data` file and the text that `perf script` makes of it give the same names and the same
//! text of values, so that one can be used in place of the other:
//!
//! ```
//! use pyrograph_format::{Input, events};
//!
//! let text = b"dd 7 [001] 1.5: block:block_rq_issue: 8,0 WS 4096 () 1234 + 8 [dd]\n";
//! let head = Input::bytes("trace.txt", text.as_slice()).begin()?;
//! let mut seen = Vec::new();
//! events(head, &mut |event| {
//!     let value = |name: &str| event.field(name).map(ToString::to_string);
//!     seen.push((event.time, value("dev"), value("sector")));
//! })?;
//! assert_eq!(seen, [(Some(1_500_000_000), Some("8,0".to_owned()), Some("1234".to_owned()))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use pyrograph_profile::TraceEvent;

use crate::input::Head;
use crate::read::reader_of;
use crate::reader::ReadError;
use crate::warnings::Warnings;

/// Hands over each event of an input, of all kinds that it has. Those of `perf.data` come in the
/// order of time, those of text in the text's, which as `perf script` writes it is the same.
///
/// Only what is needed for that is kept in memory: nothing of text, and of `perf.data` an index.
///
/// # Errors
///
/// If the input cannot be read at all, is empty or of no known format, or if its format does not
/// hold single events.
pub fn events(
    head: Head,
    on_event: &mut dyn FnMut(&TraceEvent<'_>),
) -> Result<Warnings, ReadError> {
    reader_of(&head, None)?.events(head, on_event)
}
