//! Samples lost while a file was recorded.
//!
//! The kernel writes LOST once there is room in the buffer again. Of an event with
//! `PERF_FORMAT_LOST` (Linux 6.0) it also counts what was lost, and perf writes that count as
//! LOST_SAMPLES when it ends, without a time: the same losses, and those after the last LOST.
//! LOST_SAMPLES of the kernel itself (samples that the hardware's buffer had no room for) have a
//! time, and are losses of their own. What a BPF filter left out was not to be recorded.

use pyrograph_event::{Record, read_format};

use crate::events::Event;

/// Set in the header's `misc` of LOST_SAMPLES that counts what a BPF filter left out.
const LEFT_OUT_BY_FILTER: u16 = 1 << 15;

/// Losses by who counted them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// LOST.
    noticed: u64,
    /// LOST_SAMPLES that perf wrote at the end.
    counted: u64,
    /// LOST_SAMPLES of the kernel.
    hardware: u64,
}

impl Losses {
    /// Adds what a record says; whether it is about losses. `misc` is its header's.
    pub fn add(&mut self, event: &Event, record: &Record<'_>, misc: u16) -> bool {
        let (sum, count) = match record {
            Record::Lost(lost) => (&mut self.noticed, lost.count),
            Record::LostSamples(_) if misc & LEFT_OUT_BY_FILTER != 0 => return true,
            Record::LostSamples(lost) => {
                let counts = event.attr.read_format & read_format::LOST != 0;
                let by_perf = counts && lost.id.time.unwrap_or(0) == 0;
                (if by_perf { &mut self.counted } else { &mut self.hardware }, lost.count)
            }
            _ => return false,
        };
        *sum = sum.saturating_add(count);
        true
    }

    /// All losses, each counted once.
    pub fn total(&self) -> u64 {
        self.noticed.max(self.counted).saturating_add(self.hardware)
    }
}
