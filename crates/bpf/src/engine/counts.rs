//! Collection of counts from the kernel's maps.

use pyrograph_event::clock::monotonic_now;
use pyrograph_event::request::Waits;

use super::Engine;
use crate::counted::Counted;
use crate::error::Error;
use crate::layout::{Blocked, Count, Site, State};
use crate::rows::{all_rows, take_rows};

impl Engine {
    /// Takes the counts up to the previous call: of two maps, the one that programs do not write to is read. At the
    /// end, after [`Self::stop`], call it twice.
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn drain(&mut self, out: &mut dyn FnMut(Counted<'_>)) -> Result<(), Error> {
        let side = self.state.read(0).side & 1;
        let idle = &self.counts[1 - side as usize];
        let rows = take_rows(idle, "counts")?;
        // The stacks of these counts were sent before the events were counted.
        self.rings.consume().map_err(Error::map("stacks"))?;
        for (key, count) in self.stacks.late() {
            self.stacks.counted(&key, &count, out);
        }
        for (key, count) in &rows {
            let (key, count) =
                (bytemuck::pod_read_unaligned(key), bytemuck::pod_read_unaligned(count));
            if !self.stacks.wait(&key, &count) {
                self.stacks.counted(&key, &count, out);
            }
        }
        self.state.write_field(std::mem::offset_of!(State, rows), 0u32);
        self.state.write_field(std::mem::offset_of!(State, side), 1 - side);
        self.forget_stacks();
        Ok(())
    }

    /// Forgets stacks, so that a long recording needs no more memory than a short one. The programs emit a stack again
    /// when it occurs again.
    fn forget_stacks(&mut self) {
        /// Number of drains between two calls: until then, counts may refer to stacks from before the previous one.
        const DRAINS_BETWEEN: u32 = 4;
        self.drains_since = self.drains_since.saturating_add(1);
        if self.may_forget && self.drains_since >= DRAINS_BETWEEN && self.stacks.are_many() {
            self.stacks.forget();
            self.drains_since = 0;
            let forgotten = self.state.read(0).forgotten.wrapping_add(1);
            self.state.write_field(std::mem::offset_of!(State, forgotten), forgotten);
        }
    }

    /// Takes waits and calls that have not ended: the time that they have taken so far counts, too. Call this once,
    /// after [`Self::stop`] and the last [`Self::drain`].
    ///
    /// # Errors
    ///
    /// If the maps cannot be read.
    pub fn unfinished(&mut self, out: &mut dyn FnMut(Counted<'_>)) -> Result<(), Error> {
        // These have no waker yet.
        if self.waits == Waits::Wakers {
            return Ok(());
        }
        let now = self.end.kernel_time().unwrap_or_else(monotonic_now);
        for map in &self.unfinished {
            for (_, blocked) in all_rows(map, "blocked")? {
                let Blocked { since, mut key, .. } = bytemuck::pod_read_unaligned(&blocked);
                let waited = now.saturating_sub(since);
                self.stacks.set_time(&mut key, now);
                if u128::from(waited) >= self.min_block.as_nanos() {
                    self.stacks.counted(&key, &Count { events: 1, value: waited }, out);
                }
            }
        }
        Ok(())
    }

    /// Reads the memory that is allocated and not freed yet, by the stacks of the allocations. Call this after
    /// [`Self::drain`], which takes the stacks. The counts stay in the map.
    ///
    /// # Errors
    ///
    /// If the map cannot be read.
    pub fn held(&mut self, out: &mut dyn FnMut(Counted<'_>)) -> Result<(), Error> {
        let Some(sites) = &self.sites else { return Ok(()) };
        let rows = all_rows(sites, "sites")?;
        // The stacks of these sites were sent before the allocations were counted.
        self.rings.consume().map_err(Error::map("stacks"))?;
        for (_, site) in rows {
            let Site { key, count } = bytemuck::pod_read_unaligned(&site);
            if count.events > 0 {
                self.stacks.counted(&key, &count, out);
            }
        }
        Ok(())
    }
}
