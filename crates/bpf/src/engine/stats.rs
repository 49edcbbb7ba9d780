//! Counts of the programs' own work.

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use pyrograph_event::counted::Cut;
use pyrograph_event::engine::LostBy;

use crate::counted::end_of;
use crate::layout::{ENDS, Tick};

use super::Engine;

/// Events that the programs could not count, and results of unwinding user stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Numbers of events that were not counted.
    pub lost: LostBy,
    /// Number of user stacks that were unwound in the kernel, indexed by `enum end`; the first is the number of whole
    /// ones.
    pub ends: [u64; ENDS],
    /// Number of user stacks that ended early in the kernel and were copied, to be unwound in user space.
    pub copied: u64,
    /// Number of user stacks that ended early in the kernel and were not copied because there was no room.
    pub copies_refused: u64,
    /// Number of stacks that were taken, if a clock triggers.
    pub ticks: u64,
    /// Time that taking these stacks took.
    pub spent: Duration,
    /// Time of ticks of the clock that did not come; it counts for the following stack.
    pub skipped_time: Duration,
    /// Number of ticks that did not come.
    pub skipped: u64,
    /// Number of events that were left out because a value could not be read.
    pub unread: u64,
    /// Number of events that were left out because the value that is added up is negative.
    pub negative: u64,
}

impl Stats {
    /// Number of user stacks that ended for this reason in the kernel.
    pub fn ended(&self, cut: Cut) -> u64 {
        let end = usize::try_from(end_of(cut)).ok();
        end.and_then(|end| self.ends.get(end)).copied().unwrap_or(0)
    }
}

impl Engine {
    /// Counts so far.
    pub fn stats(&self) -> Stats {
        let state = self.state.read(0);
        let ticks = self.ticks.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let (mut taken, mut spent, mut skipped) = (0, 0, 0);
        // If these cannot be read, the other counts are still returned.
        for tick in ticks.ok().flatten().into_iter().flatten() {
            let tick: Tick = bytemuck::pod_read_unaligned(&tick);
            taken += tick.taken;
            spent += tick.spent;
            skipped += tick.skipped;
        }
        // The sum may be negative: some samples of threads that take turns represent less than a period.
        let skipped = u64::try_from(skipped).unwrap_or(0);
        Stats {
            ticks: taken,
            spent: Duration::from_nanos(spent),
            skipped_time: Duration::from_nanos(skipped),
            skipped: skipped.checked_div(state.period).unwrap_or(0),
            lost: LostBy {
                counts: state.lost_counts,
                stacks: state.lost_stacks,
                busy: state.lost_busy.saturating_add(state.lost),
                unknown: self.stacks.unknown(),
            },
            ends: state.ends,
            copied: state.copied,
            copies_refused: state.copies_refused,
            unread: state.unread,
            negative: state.negative,
        }
    }
}
