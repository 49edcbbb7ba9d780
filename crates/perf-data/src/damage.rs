//! Detects records that cannot have been written as they are: a byte in the file has changed.
//!
//! perf compresses records (`perf record -z`) without a checksum. A changed byte may make decompression fail. Otherwise
//! it gives records that were never written: with types that do not exist, with sizes that the kernel does not write,
//! longer or shorter than their contents.

use pyrograph_event::{ByteOrder, Header, kind, misc};

use crate::events::Event;

/// Upper limit for the kernel's record types, above the known ones: later kernels may add types.
const LATER_OF_KERNEL: u32 = 32;
/// The same for perf's own record types.
const LATER_OF_PERF: u32 = 128;

/// Returns true if a record cannot have been written like this, judging by its header alone.
pub fn is_impossible(bytes: &[u8], kind: u32) -> bool {
    let of_kernel = (1..LATER_OF_KERNEL).contains(&kind);
    let of_perf = (kind::FIRST_OF_PERF..LATER_OF_PERF).contains(&kind);
    // Only the kernel pads its records to 8 bytes. perf does not pad its descriptions of the machine in a pipe, or the
    // record before the formats of tracepoints (12 bytes).
    let is_filled_up = bytes.len().is_multiple_of(8);
    !(of_perf || of_kernel && is_filled_up)
}

/// Returns true if a decompressed record cannot have been written like this, judging by all of its contents.
pub fn is_garbled(event: &Event, bytes: &[u8], order: ByteOrder) -> bool {
    let Ok(header) = Header::parse(bytes, order) else { return true };
    // Two values of the CPU mode have no meaning.
    let has_no_mode = header.kind == kind::SAMPLE && header.misc & misc::CPU_MODE > 5;
    has_no_mode || !event.layout.fits(bytes)
}
