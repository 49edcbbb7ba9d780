//! Records that cannot be as they were written: a byte in the file has changed.
//!
//! perf packs records (`perf record -z`) without a checksum. A changed byte may be noticed when
//! they are unpacked, and else gives records that were never written: of types that there are not,
//! of sizes that the kernel does not write, longer or shorter than what they hold.

use pyrograph_event::{ByteOrder, Header, kind, misc};

use crate::events::Event;

/// Types beyond those that are known today, which later versions of the kernel may write.
const LATER_OF_KERNEL: u32 = 32;
/// The same for perf's own.
const LATER_OF_PERF: u32 = 128;

/// True if a record cannot have been written so, by its header alone.
pub fn is_impossible(bytes: &[u8], kind: u32) -> bool {
    let of_kernel = (1..LATER_OF_KERNEL).contains(&kind);
    let of_perf = (kind::FIRST_OF_PERF..LATER_OF_PERF).contains(&kind);
    // Only the kernel fills up its records: perf's descriptions of the machine in a pipe, and the record before
    // the formats of tracepoints (12 bytes), are as long as they are.
    let is_filled_up = bytes.len().is_multiple_of(8);
    !(of_perf || of_kernel && is_filled_up)
}

/// True if a record that was packed cannot have been written so, by all that is in it.
pub fn is_garbled(event: &Event, bytes: &[u8], order: ByteOrder) -> bool {
    let Ok(header) = Header::parse(bytes, order) else { return true };
    // Two modes of the CPU have no meaning.
    let has_no_mode = header.kind == kind::SAMPLE && header.misc & misc::CPU_MODE > 5;
    has_no_mode || !event.layout.fits(bytes)
}
