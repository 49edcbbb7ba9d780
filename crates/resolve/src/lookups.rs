//! Addresses that were just looked up: most come again soon, of the same process.

/// Frames by mappings and address, as many as the CPU has near memory for: a new one takes the place of
/// another.
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

/// A slot where this is the frame is free.
const NONE: u32 = u32::MAX;

const BITS: u32 = 15;

impl Default for Lookups {
    fn default() -> Self {
        Self { slots: vec![Slot { address: 0, space: 0, frame: NONE }; 1 << BITS] }
    }
}

impl Lookups {
    /// The frame of an address among mappings with a number, if it was put here lately.
    #[inline]
    pub fn get(&self, space: u32, address: u64) -> Option<u32> {
        let slot = self.slots[slot_of(space, address)];
        let is_it = (slot.address, slot.space) == (address, space) && slot.frame != NONE;
        is_it.then_some(slot.frame)
    }

    /// This is its frame.
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
