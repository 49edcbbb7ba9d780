//! Single events with their fields, in order of time: the data of block I/O, scheduler and other tracepoints beyond the
//! stack.
//!
//! A `perf.data` file and the output of `perf script` for it yield the same names and the same text of values, so that
//! one can replace the other:
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

/// Calls `on_event` for each event of an input, of all kinds. Events of `perf.data` come in order of time, events of
/// text in the order of the text, which is the same if `perf script` wrote it.
///
/// Needs little memory: nothing of a text is kept, and only an index of a `perf.data` file.
///
/// # Errors
///
/// If the input cannot be read at all, is empty or of an unknown format, or if its format contains no single events.
pub fn events(
    head: Head,
    on_event: &mut dyn FnMut(&TraceEvent<'_>),
) -> Result<Warnings, ReadError> {
    reader_of(&head, None)?.events(head, on_event)
}
