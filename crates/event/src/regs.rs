//! Sampled registers and their numbers.
//!
//! Sources: `arch/x86/include/uapi/asm/perf_regs.h`, `arch/arm64/include/uapi/asm/perf_regs.h`.

use crate::cursor::{ByteOrder, word_at};

/// Mode of the sampled task (`enum perf_sample_regs_abi`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abi {
    /// A 32-bit program: pointers on its stack are 4 bytes wide.
    Bits32,
    /// A 64-bit program.
    Bits64,
}

/// Registers of a sample, accessed by the numbers in [`x86_64`] or [`aarch64`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regs<'a> {
    /// The task's mode.
    pub abi: Abi,
    mask: u64,
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Regs<'a> {
    /// Creates the registers of a sample. `bytes` holds one word for each set bit of `mask`, lowest bit first.
    pub fn new(abi: Abi, mask: u64, bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { abi, mask, bytes, order }
    }

    /// Mask of the sampled registers, one bit per register number.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Value of the register with this number, if it was sampled.
    #[inline]
    pub fn get(&self, register: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(register)?;
        if self.mask & bit == 0 {
            return None;
        }
        word_at(self.bytes, (self.mask & (bit - 1)).count_ones() as usize, self.order)
    }

    /// Iterates over numbers and values of the sampled registers, in ascending order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        let regs = *self;
        (0..u64::BITS).filter_map(move |register| Some((register, regs.get(register)?)))
    }
}

/// Numbers of the x86-64 registers (`enum perf_event_x86_regs`).
#[expect(missing_docs, reason = "the names are the registers' own")]
pub mod x86_64 {
    pub const AX: u32 = 0;
    pub const BX: u32 = 1;
    pub const CX: u32 = 2;
    pub const DX: u32 = 3;
    pub const SI: u32 = 4;
    pub const DI: u32 = 5;
    pub const BP: u32 = 6;
    pub const SP: u32 = 7;
    pub const IP: u32 = 8;
    pub const FLAGS: u32 = 9;
    pub const CS: u32 = 10;
    pub const SS: u32 = 11;
    pub const R8: u32 = 16;
    pub const R9: u32 = 17;
    pub const R10: u32 = 18;
    pub const R11: u32 = 19;
    pub const R12: u32 = 20;
    pub const R13: u32 = 21;
    pub const R14: u32 = 22;
    pub const R15: u32 = 23;
    /// Registers that unwinding may need: the general registers and the instruction pointer. (The kernel
    /// refuses DS, ES, FS and GS in 64-bit mode.)
    pub const UNWIND: u64 = 0x00ff_01ff;
}

/// Numbers of the aarch64 registers (`enum perf_event_arm_regs`): `Xn` is `n`.
#[expect(missing_docs, reason = "the names are the registers' own")]
pub mod aarch64 {
    pub const X0: u32 = 0;
    pub const X29: u32 = 29;
    pub const LR: u32 = 30;
    pub const SP: u32 = 31;
    pub const PC: u32 = 32;
    /// Registers that unwinding may need: X0 to X30, the stack pointer and the program counter.
    pub const UNWIND: u64 = (1 << 33) - 1;
}

/// Registers that unwinding may need on the target architecture.
#[cfg(target_arch = "x86_64")]
pub const UNWIND: u64 = x86_64::UNWIND;
/// Registers that unwinding may need on the target architecture.
#[cfg(target_arch = "aarch64")]
pub const UNWIND: u64 = aarch64::UNWIND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_found_by_its_number_among_those_sampled() {
        let bytes: Vec<u8> = (100..117_u64).flat_map(u64::to_le_bytes).collect();
        let regs = Regs::new(Abi::Bits64, x86_64::UNWIND, &bytes, ByteOrder::Little);
        assert_eq!(regs.get(x86_64::AX), Some(100));
        assert_eq!(regs.get(x86_64::IP), Some(108));
        assert_eq!(regs.get(x86_64::FLAGS), None);
        assert_eq!(regs.get(x86_64::R8), Some(109));
        assert_eq!(regs.get(x86_64::R15), Some(116));
        assert_eq!(regs.get(64), None);
        assert_eq!(regs.iter().count(), 17);
    }

    #[test]
    fn masks_hold_the_registers_they_name() {
        assert_eq!(x86_64::UNWIND.count_ones(), 17);
        assert_eq!(aarch64::UNWIND.count_ones(), 33);
    }
}
