//! Samples lost while a file was recorded.
//!
//! The kernel writes LOST once there is room in the buffer again. For an event with `PERF_FORMAT_LOST` (Linux 6.0) it
//! also counts lost samples, and perf writes that count as LOST_SAMPLES at the end, without a time: the same losses,
//! plus losses after the last LOST. LOST_SAMPLES of the kernel itself (samples for which the hardware's buffer had no
//! room) have a time, and are separate losses. Samples that a BPF filter dropped are not counted as lost.

use pyrograph_event::{Record, read_format};

use crate::events::Event;

/// Flag in the header's `misc` of a LOST_SAMPLES record that counts samples dropped by a BPF filter.
const LEFT_OUT_BY_FILTER: u16 = 1 << 15;

/// Losses by source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Count from LOST records.
    noticed: u64,
    /// Count from LOST_SAMPLES records that perf wrote at the end.
    counted: u64,
    /// Count from LOST_SAMPLES records of the kernel.
    hardware: u64,
}

impl Losses {
    /// Adds the losses in a record, and returns true if it is about losses. `misc` is from its header.
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

    /// Returns all losses, each counted once.
    pub fn total(&self) -> u64 {
        self.noticed.max(self.counted).saturating_add(self.hardware)
    }
}
