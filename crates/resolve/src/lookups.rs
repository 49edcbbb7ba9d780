//! Caches of recent address lookups: most addresses recur soon, in the same process.

use std::ops::Range;

use pyrograph_unwind::AddressSpace;

use crate::module_ids::{ModuleId, module_of_tag};
use crate::stacks::RawFrame;

/// Cache of frames by address space and address. It is small enough for the CPU's near caches; a new entry replaces the
/// one in its slot.
#[derive(Debug)]
pub struct Lookups {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u64,
    space: u32,
    frame: u32,
}

/// Value of [`Slot::frame`] that marks a free slot.
const NONE: u32 = u32::MAX;

const BITS: u32 = 15;

/// Cache of the mappings of recent addresses, keyed by the number of the address space and by 2 MiB of addresses. A
/// search in all mappings waits for memory several times.
#[derive(Debug)]
pub struct Mappings {
    slots: Vec<Mapped>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    /// Added to an address, this gives the address of its frame.
    to_frame: u64,
    space: u32,
    module: ModuleId,
}

impl Default for Mappings {
    fn default() -> Self {
        let none = Mapped { start: 0, end: 0, to_frame: 0, space: 0, module: ModuleId::UNKNOWN };
        Self { slots: vec![none; 1 << 8] }
    }
}

impl Mappings {
    /// Frame of an address in `process`; `space` is the number of its address space.
    #[inline]
    pub fn frame(&mut self, space: u32, process: &AddressSpace, address: u64) -> RawFrame {
        let key = (address >> 21 ^ u64::from(space) << 43).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(key >> (u64::BITS - 8)) as usize];
        let is_it = slot.space == space && (slot.start..slot.end).contains(&address);
        if !is_it {
            let Some(mapping) = process.lookup(address) else {
                return RawFrame::new(ModuleId::UNKNOWN, address);
            };
            let (module, is_file) = module_of_tag(mapping.tag);
            let Range { start, end } = mapping.range;
            let to_frame = if is_file { mapping.file_offset.wrapping_sub(start) } else { 0 };
            *slot = Mapped { start, end, to_frame, space, module };
        }
        RawFrame::new(slot.module, address.wrapping_add(slot.to_frame))
    }
}

impl Default for Lookups {
    fn default() -> Self {
        Self { slots: vec![Slot { address: 0, space: 0, frame: NONE }; 1 << BITS] }
    }
}

impl Lookups {
    /// Frame of an address in the address space with this number, if it is in the cache.
    #[inline]
    pub fn get(&self, space: u32, address: u64) -> Option<u32> {
        let slot = self.slots[slot_of(space, address)];
        let is_it = (slot.address, slot.space) == (address, space) && slot.frame != NONE;
        is_it.then_some(slot.frame)
    }

    /// Stores the frame of an address, in place of the slot's earlier entry.
    #[inline]
    pub fn put(&mut self, space: u32, address: u64, frame: u32) {
        self.slots[slot_of(space, address)] = Slot { address, space, frame };
    }
}

#[inline]
fn slot_of(space: u32, address: u64) -> usize {
    let key = address ^ u64::from(space).rotate_right(16);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_that_of_the_mappings() {
        let mut lookups = Lookups::default();
        let mut found = 0;
        for again in [false, true] {
            for space in 0..4 {
                for address in (0..100_000).step_by(7) {
                    let frame = space * 100_000 + address;
                    match lookups.get(space, u64::from(address)) {
                        Some(known) => assert_eq!((known, again), (frame, true)),
                        None => lookups.put(space, u64::from(address), frame),
                    }
                    found += u32::from(lookups.get(space, u64::from(address)) == Some(frame));
                }
            }
        }
        assert_eq!(found, 2 * 4 * 14_286);
    }
}
