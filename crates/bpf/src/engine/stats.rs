//! Counts of the programs' own work.

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use pyrograph_event::counted::Cut;
use pyrograph_event::engine::LostBy;

use crate::counted::end_of;
use crate::layout::{ENDS, Tick};

use super::Engine;

/// Events that the programs could not count, and how user stacks ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that were not counted.
    pub lost: LostBy,
    /// User stacks that were unwound in the kernel, by how they ended: the first number is that of whole ones,
    /// the others are those of `enum end`.
    pub ends: [u64; ENDS],
    /// User stacks that ended early in the kernel and were copied out, to be unwound in user space.
    pub copied: u64,
    /// User stacks that ended early in the kernel and were not copied, for lack of room.
    pub copies_refused: u64,
    /// Where a clock triggers: the stacks that were taken, how long that took in all, and the time of ticks that did not
    /// come, which counts for the stack after, and how many that are.
    pub ticks: u64,
    /// See [`Self::ticks`].
    pub spent: Duration,
    /// See [`Self::ticks`].
    pub skipped_time: Duration,
    /// See [`Self::ticks`].
    pub skipped: u64,
}

impl Stats {
    /// User stacks that ended so in the kernel.
    pub fn ended(&self, cut: Cut) -> u64 {
        let end = usize::try_from(end_of(cut)).ok();
        end.and_then(|end| self.ends.get(end)).copied().unwrap_or(0)
    }
}

impl Engine {
    /// The counts so far.
    pub fn stats(&self) -> Stats {
        let state = self.state.read(0);
        let ticks = self.ticks.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let (mut taken, mut spent, mut skipped) = (0, 0, 0);
        // The counts stay, though it could not be read.
        for tick in ticks.ok().flatten().into_iter().flatten() {
            let tick: Tick = bytemuck::pod_read_unaligned(&tick);
            taken += tick.taken;
            spent += tick.spent;
            skipped += tick.skipped;
        }
        // Of threads that take turns, some samples stand for less than a period.
        let skipped = u64::try_from(skipped).unwrap_or(0);
        Stats {
            ticks: taken,
            spent: Duration::from_nanos(spent),
            skipped_time: Duration::from_nanos(skipped),
            skipped: skipped.checked_div(state.period).unwrap_or(0),
            lost: LostBy {
                counts: state.lost_counts,
                stacks: state.lost_stacks,
                busy: state.lost_busy,
                unknown: self.stacks.unknown(),
            },
            ends: state.ends,
            copied: state.copied,
            copies_refused: state.copies_refused,
        }
    }
}
