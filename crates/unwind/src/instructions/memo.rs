//! Cache of the effects of instructions and of the joins of states: a few of them make up most code.

/// Bytes of an instruction, padded with zeros, with the length in the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes(u128);

impl Bytes {
    /// Takes the instruction of `len` bytes, at most 15, at the start of `code`.
    pub(super) fn new(code: &[u8], len: usize) -> Self {
        let mut bytes = [0; 16];
        match code.first_chunk() {
            // A copy of constant length needs no function call.
            Some(whole) => {
                let mask = (1 << (8 * len)) - 1;
                return Self(u128::from_le_bytes(*whole) & mask | (len as u128) << 120);
            }
            None => bytes[..len].copy_from_slice(&code[..len]),
        }
        Self(u128::from_le_bytes(bytes) | (len as u128) << 120)
    }
}

/// Caches the state after an instruction, and the join of two states, by the numbers of states. Entries that were
/// overwritten are computed again.
pub(super) struct Memo {
    next: Vec<Next>,
    joined: Vec<Joined>,
}

#[derive(Clone, Copy, Default)]
struct Next {
    bytes: Bytes,
    /// Number of the state before the instruction, plus 1; 0 for an empty slot.
    state: u32,
    next: u32,
}

#[derive(Clone, Copy, Default)]
struct Joined {
    /// Numbers of the states, plus 1; 0 for an empty slot.
    states: (u32, u32),
    joined: u32,
}

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Memo {
    /// Creates a cache for `len` bytes of code: most pieces are small, and need few slots.
    pub(super) fn new(len: usize) -> Self {
        let slots = (len / 8).next_power_of_two().clamp(16, 4096);
        Self { next: vec![Next::default(); slots], joined: vec![Joined::default(); slots / 4] }
    }

    fn next_slot(&mut self, state: u32, bytes: Bytes) -> &mut Next {
        let mixed = (bytes.0 as u64 ^ (bytes.0 >> 64) as u64).wrapping_mul(MIX);
        let mixed = (mixed ^ u64::from(state)).wrapping_mul(MIX) >> 32;
        let mask = self.next.len() - 1;
        &mut self.next[mixed as usize & mask]
    }

    /// State after an instruction, if it is cached.
    pub(super) fn next(&mut self, state: u32, bytes: Bytes) -> Option<u32> {
        let slot = self.next_slot(state, bytes);
        (slot.state == state + 1 && slot.bytes == bytes).then_some(slot.next)
    }

    pub(super) fn set_next(&mut self, state: u32, bytes: Bytes, next: u32) {
        *self.next_slot(state, bytes) = Next { bytes, state: state + 1, next };
    }

    fn joined_slot(&mut self, before: u32, after: u32) -> &mut Joined {
        let mixed = (u64::from(before) << 32 | u64::from(after)).wrapping_mul(MIX) >> 32;
        let mask = self.joined.len() - 1;
        &mut self.joined[mixed as usize & mask]
    }

    /// Join of two states, if it is cached.
    pub(super) fn joined(&mut self, before: u32, after: u32) -> Option<u32> {
        let slot = self.joined_slot(before, after);
        (slot.states == (before + 1, after + 1)).then_some(slot.joined)
    }

    pub(super) fn set_joined(&mut self, before: u32, after: u32, joined: u32) {
        *self.joined_slot(before, after) = Joined { states: (before + 1, after + 1), joined };
    }
}
