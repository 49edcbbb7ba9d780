//! User stacks that the programs could not unwind to the end, copied to user space with registers.

use pyrograph_event::counted::Cut;

use crate::counted::cut_of;
use crate::layout::{COPY_WINDOW_NS, Copy, LARGE_COPY, ROOT_COPY};

/// Limit to the bytes that a CPU may copy in a window of time (`copy_budget` of `struct config`): enough for full
/// copies of all samples at a known sampling rate, plus a quarter for samples that come early. A copy of the largest
/// size takes some 10 µs, so that the fastest rate takes a twelfth of the CPU.
pub fn budget(hertz: Option<u64>) -> u64 {
    const LEAST_A_SECOND: u64 = 1024;
    const MOST_A_SECOND: u64 = 8192;
    let wanted = hertz.map_or(0, |hertz| hertz.saturating_add(hertz / 4));
    LARGE_COPY * wanted.clamp(LEAST_A_SECOND, MOST_A_SECOND) / (1_000_000_000 / COPY_WINDOW_NS)
}

/// Size of the ring buffer for copies, in bytes: room for what all CPUs copy in a tenth of a second, if the sampling
/// rate is known.
pub fn ring_size(hertz: Option<u64>, cpus: u64) -> u32 {
    const UNKNOWN: u64 = 8 << 20;
    let wanted =
        hertz.map_or(UNKNOWN, |hertz| hertz.saturating_mul(cpus).saturating_mul(LARGE_COPY) / 10);
    (wanted.clamp(2 << 20, 32 << 20) as u32).next_power_of_two()
}

/// Copy of a user stack, made at the event to be counted.
#[derive(Clone, Debug)]
pub struct CopiedStack {
    /// ID of the process, in this process's PID namespace.
    pub pid: i32,
    /// ID of the thread, in this process's PID namespace.
    pub tid: i32,
    /// Time of the copy: nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// `rax`, `rdx`, `rcx`, `rbx`, `rsi`, `rdi`, `rbp`, `rsp`, `r8` to `r15` (their DWARF numbers, System V ABI, AMD64
    /// supplement), and the instruction pointer.
    pub registers: [u64; 17],
    /// Bytes from the stack pointer on, as many as could be copied.
    pub bytes: Vec<u8>,
    /// The thread's first frames, if these are farther up than `bytes` reaches: their address and their bytes.
    pub root: Option<(u64, Vec<u8>)>,
    /// End of the stack's mapping.
    pub stack_end: u64,
    /// Reason why it could not be unwound in the kernel.
    pub cut: Cut,
    /// Hash of the stack in counts. `partial` is the hash of the part that was unwound in the kernel.
    pub(crate) hash: u64,
    pub(crate) partial: u64,
}

impl CopiedStack {
    /// Decodes a `struct copy` and the bytes that follow it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(size_of::<Copy>())?;
        let copy: Copy = bytemuck::pod_read_unaligned(head);
        let len = usize::try_from(copy.len).ok()?;
        let root = match copy.root {
            0 => None,
            address => {
                let from = LARGE_COPY as usize;
                Some((address, rest.get(from..from + ROOT_COPY as usize)?.to_vec()))
            }
        };
        Some(Self {
            pid: copy.tgid,
            tid: copy.tid,
            time: copy.time,
            registers: copy.registers,
            bytes: rest.get(..len)?.to_vec(),
            root,
            stack_end: copy.stack_end,
            cut: cut_of(copy.end.into())?,
            hash: copy.hash,
            partial: copy.partial,
        })
    }

    /// Address of the first byte.
    pub fn start(&self) -> u64 {
        self.registers[7]
    }

    /// Number of bytes of the stack that were not copied.
    pub fn missing(&self) -> u64 {
        let copied_to = self.start().saturating_add(self.bytes.len() as u64);
        self.stack_end.saturating_sub(copied_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_suit_the_rate() {
        assert_eq!(ring_size(Some(99), 2), 2 << 20);
        assert_eq!(ring_size(Some(997), 2), 16 << 20);
        assert_eq!(ring_size(Some(u64::MAX), 1 << 20), 32 << 20);
        assert_eq!(ring_size(None, 2), 8 << 20);
    }

    #[test]
    fn budgets_suit_the_rate() {
        let copies_a_second = |hertz| (budget(hertz) * 10).div_ceil(LARGE_COPY);
        assert_eq!(copies_a_second(None), 1024);
        assert_eq!(copies_a_second(Some(99)), 1024);
        assert_eq!(copies_a_second(Some(2000)), 2500);
        assert_eq!(copies_a_second(Some(u64::MAX)), 8192);
    }

    #[test]
    fn damaged_copies_are_none() {
        let copy = Copy { len: 8, end: 4, ..bytemuck::Zeroable::zeroed() };
        let bytes = [bytemuck::bytes_of(&copy), &[7; 16]].concat();
        assert_eq!(CopiedStack::read(&bytes).expect("a copy").bytes, [7; 8]);
        assert!(CopiedStack::read(&bytes[..bytes.len() - 9]).is_none());
        assert!(CopiedStack::read(&bytes[..40]).is_none());
        let whole = Copy { end: 0, ..copy };
        assert!(CopiedStack::read(bytemuck::bytes_of(&whole)).is_none());

        let copy = Copy { len: LARGE_COPY, root: 0x7000, ..copy };
        let (large, root) = (vec![7; LARGE_COPY as usize], vec![9; ROOT_COPY as usize]);
        let bytes = [bytemuck::bytes_of(&copy), &large, &root].concat();
        assert_eq!(CopiedStack::read(&bytes).expect("a copy").root, Some((0x7000, root)));
        assert!(CopiedStack::read(&bytes[..bytes.len() - 1]).is_none());
    }
}
