//! The numbers of frames, for those who meet hundreds of thousands of distinct ones.

use crate::modules::ModuleId;
use crate::stacks::RawFrame;

/// Numbers of frames without versions, from 0 on. A frame is in its slot, so that a look waits for memory once.
#[derive(Debug)]
pub struct FrameTable {
    /// A power of two of them, at most two thirds of them taken; a frame is in the first one that was free from
    /// that of its hash on.
    slots: Vec<Slot>,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u64,
    module: ModuleId,
    number: u32,
}

const FREE: Slot = Slot { address: 0, module: ModuleId(0), number: u32::MAX };

impl Default for FrameTable {
    fn default() -> Self {
        Self { slots: vec![FREE; 64], len: 0 }
    }
}

impl FrameTable {
    /// The number of a frame, and whether it is new.
    ///
    /// # Panics
    ///
    /// When there are 2^32 − 1 already.
    #[inline]
    pub fn intern(&mut self, frame: RawFrame) -> (u32, bool) {
        debug_assert_eq!(frame.version, 0);
        let mask = self.slots.len() - 1;
        let mut at = hash(frame.module, frame.address) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.number == FREE.number {
                break;
            }
            if (slot.address, slot.module) == (frame.address, frame.module) {
                return (slot.number, false);
            }
            at = (at + 1) & mask;
        }
        let RawFrame { address, module, .. } = frame;
        let number = self.len;
        assert!(number < FREE.number, "more than 2^32 distinct frames");
        self.slots[at] = Slot { address, module, number };
        self.len += 1;
        if self.len as usize > self.slots.len() / 3 * 2 {
            self.grow();
        }
        (number, true)
    }

    /// Looks at the memory that will be needed for frames. Nothing waits for these looks, so that the CPU goes
    /// on to the next one meanwhile.
    pub fn fetch(&self, frames: &[RawFrame]) {
        let mask = self.slots.len() - 1;
        let slots = frames.iter().map(|frame| hash(frame.module, frame.address) as usize & mask);
        std::hint::black_box(slots.fold(0, |all, at| all ^ self.slots[at].number));
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![FREE; 2 * self.slots.len()];
        let mask = slots.len() - 1;
        for slot in self.slots.iter().filter(|slot| slot.number != FREE.number) {
            let mut at = hash(slot.module, slot.address) as usize & mask;
            while slots[at].number != FREE.number {
                at = (at + 1) & mask;
            }
            slots[at] = *slot;
        }
        self.slots = slots;
    }
}

/// A multiplication, whose halves are folded into one.
#[inline]
fn hash(module: ModuleId, address: u64) -> u64 {
    let key = address ^ u64::from(module.0).rotate_right(20) ^ 0x9e37_79b9_7f4a_7c15;
    let wide = u128::from(key) * 0xd6e8_feb8_6659_fd93;
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Against a map, over more frames than the first slots have room for.
    #[test]
    fn frames_keep_their_numbers() {
        let mut table = FrameTable::default();
        let mut known = HashMap::new();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let frame = RawFrame::new(ModuleId((state >> 60) as u32), state >> 33 & 0xff8);
            let next = known.len() as u32;
            let is_new = !known.contains_key(&frame);
            let number = *known.entry(frame).or_insert(next);
            table.fetch(&[frame]);
            assert_eq!(table.intern(frame), (number, is_new));
        }
        assert!(known.len() > 4000, "{}", known.len());
    }
}
