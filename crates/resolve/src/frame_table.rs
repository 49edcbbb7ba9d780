//! Numbering of frames, for files with hundreds of thousands of distinct ones.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::module_ids::ModuleId;
use crate::stacks::RawFrame;

/// Numbers of frames, shared by several threads. The assignment depends on the timing of the threads.
#[derive(Debug, Default)]
pub struct SharedFrames {
    /// Tables by the first bits of the hash, so that threads seldom wait for each other.
    shards: [Mutex<FrameTable>; SHARDS],
}

const SHARD_BITS: u32 = 4;
const SHARDS: usize = 1 << SHARD_BITS;

impl SharedFrames {
    /// Returns the numbers of frames, in the order of `frames`. Threads that begin with different shards wait less for
    /// each other.
    ///
    /// # Panics
    ///
    /// If a shard has 2^28 frames already.
    pub fn intern<'a>(
        &self,
        frames: &[RawFrame],
        begin: usize,
        scratch: &'a mut Scratch,
    ) -> &'a [u32] {
        scratch.sort(frames);
        let Scratch { hashes, starts, order, numbers } = scratch;
        numbers.clear();
        numbers.resize(frames.len(), 0);
        for shard in (0..SHARDS).map(|at| (at + begin) % SHARDS) {
            let own = &order[starts[shard] as usize..starts[shard + 1] as usize];
            if own.is_empty() {
                continue;
            }
            let mut table = lock(&self.shards[shard]);
            table.fetch(own.iter().map(|&at| hashes[at as usize]));
            for &at in own {
                let at = at as usize;
                let number = table.intern(frames[at], hashes[at]);
                assert!(number >> (u32::BITS - SHARD_BITS) == 0, "more than 2^32 distinct frames");
                numbers[at] = number << SHARD_BITS | shard as u32;
            }
        }
        numbers
    }

    /// The frames, indexed by number; there are gaps.
    pub fn into_frames(self) -> Vec<RawFrame> {
        let tables =
            self.shards.map(|table| table.into_inner().unwrap_or_else(PoisonError::into_inner));
        let most = tables.iter().map(|table| table.len as usize).max().unwrap_or(0);
        let mut frames = vec![RawFrame::new(FREE.module, FREE.address); most << SHARD_BITS];
        for (shard, table) in tables.into_iter().enumerate() {
            for slot in table.slots.iter().filter(|slot| !slot.is_free()) {
                let number = (slot.number() as usize) << SHARD_BITS | shard;
                frames[number] = RawFrame::new(slot.module, slot.address).guessed(slot.guessed());
            }
        }
        frames
    }
}

/// Reusable buffers for [`SharedFrames::intern`].
#[derive(Debug, Default)]
pub struct Scratch {
    hashes: Vec<u64>,
    /// Start of each shard's frames in `order`, and the end of the last shard's.
    starts: [u32; SHARDS + 1],
    /// Indices of frames, shard by shard.
    order: Vec<u32>,
    numbers: Vec<u32>,
}

impl Scratch {
    fn sort(&mut self, frames: &[RawFrame]) {
        let shard_of = |hash: u64| (hash >> (u64::BITS - SHARD_BITS)) as usize;
        self.hashes.clear();
        self.hashes.extend(frames.iter().map(|frame| hash(frame.module, frame.address)));
        self.starts = [0; SHARDS + 1];
        self.hashes.iter().for_each(|&hash| self.starts[shard_of(hash) + 1] += 1);
        for shard in 0..SHARDS {
            self.starts[shard + 1] += self.starts[shard];
        }
        let mut next = self.starts;
        self.order.clear();
        self.order.resize(frames.len(), 0);
        for (at, &hash) in (0..).zip(&self.hashes) {
            let next = &mut next[shard_of(hash)];
            self.order[*next as usize] = at;
            *next += 1;
        }
    }
}

fn lock(table: &Mutex<FrameTable>) -> MutexGuard<'_, FrameTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers of frames without versions, from 0 on. Frames are stored in the slots, so that a lookup waits for memory
/// only once.
#[derive(Debug)]
struct FrameTable {
    /// Hash table with linear probing. The number of slots is a power of two; at most two thirds are occupied.
    slots: Vec<Slot>,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u64,
    module: ModuleId,
    /// The frame's number, with [`GUESSED`] if the frame was guessed; `u32::MAX` if the slot is free.
    bits: u32,
}

const GUESSED: u32 = 1 << 31;

const FREE: Slot = Slot { address: 0, module: ModuleId(0), bits: u32::MAX };

impl Slot {
    fn is_free(self) -> bool {
        self.bits == FREE.bits
    }

    fn number(self) -> u32 {
        self.bits & !GUESSED
    }

    fn guessed(self) -> bool {
        self.bits & GUESSED != 0
    }
}

impl Default for FrameTable {
    fn default() -> Self {
        Self { slots: vec![FREE; 64], len: 0 }
    }
}

impl FrameTable {
    /// Returns the number of a frame with this hash. A new frame gets the next number.
    ///
    /// # Panics
    ///
    /// If there are 2^31 − 1 frames already.
    #[inline]
    fn intern(&mut self, frame: RawFrame, hash: u64) -> u32 {
        debug_assert_eq!(frame.version(), 0);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.is_free() {
                break;
            }
            if (slot.address, slot.module, slot.guessed())
                == (frame.address, frame.module, frame.is_guessed())
            {
                return slot.number();
            }
            at = (at + 1) & mask;
        }
        let RawFrame { address, module, .. } = frame;
        let number = self.len;
        assert!(number < GUESSED - 1, "more than 2^31 distinct frames");
        let bits = if frame.is_guessed() { number | GUESSED } else { number };
        self.slots[at] = Slot { address, module, bits };
        self.len += 1;
        if self.len as usize > self.slots.len() / 3 * 2 {
            self.grow();
        }
        number
    }

    /// Prefetches the memory that frames with these hashes will need. No load depends on the result of another, so the
    /// CPU overlaps them.
    fn fetch(&self, hashes: impl Iterator<Item = u64>) {
        let mask = self.slots.len() - 1;
        let numbers = hashes.map(|hash| self.slots[hash as usize & mask].bits);
        std::hint::black_box(numbers.fold(0, |all, number| all ^ number));
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![FREE; 2 * self.slots.len()];
        let mask = slots.len() - 1;
        for slot in self.slots.iter().filter(|slot| !slot.is_free()) {
            let mut at = hash(slot.module, slot.address) as usize & mask;
            while !slots[at].is_free() {
                at = (at + 1) & mask;
            }
            slots[at] = *slot;
        }
        self.slots = slots;
    }
}

/// Hash by a multiplication whose two halves are combined.
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
            let number = *known.entry(frame).or_insert(next);
            let hash = hash(frame.module, frame.address);
            table.fetch([hash].into_iter());
            assert_eq!(table.intern(frame, hash), number);
        }
        assert!(known.len() > 4000, "{}", known.len());
    }

    /// Several threads with the same frames, in another order each.
    #[test]
    fn threads_give_a_frame_the_same_number() {
        let frames: Vec<RawFrame> =
            (0..9000).map(|at| RawFrame::new(ModuleId(at % 7), u64::from(at) * 64)).collect();
        let shared = SharedFrames::default();
        let numbers: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let number = |thread: usize| {
                let (shared, frames) = (&shared, &frames);
                scope.spawn(move || {
                    let mut turned = frames.clone();
                    turned.rotate_left(2000 * thread);
                    let (mut all, mut scratch) = (Vec::new(), Scratch::default());
                    for part in turned.chunks(100) {
                        all.extend(shared.intern(part, thread, &mut scratch));
                    }
                    all.rotate_right(2000 * thread);
                    all
                })
            };
            let threads: Vec<_> = (0..4).map(number).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]));
        let known = shared.into_frames();
        let back: Vec<RawFrame> = numbers[0].iter().map(|&number| known[number as usize]).collect();
        assert_eq!(back, frames);
        assert!(known.len() < 2 * frames.len(), "{}", known.len());
    }
}
