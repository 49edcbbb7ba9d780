//! Registers of one frame, by DWARF number, and the memory of its stack.

use std::cell::Cell;

/// Processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64. Register numbers: System V ABI, AMD64 supplement, figure 3.36 (`rax` 0, `rdx` 1,
    /// `rcx` 2, `rbx` 3, `rsi` 4, `rdi` 5, `rbp` 6, `rsp` 7, `r8`–`r15` 8–15, return address 16).
    X86_64,
    /// 64-bit Arm. Register numbers: DWARF for the Arm 64-bit Architecture (`x0`–`x30` 0–30,
    /// `sp` 31, `pc` 32).
    Aarch64,
}

impl Arch {
    /// DWARF number of the stack pointer.
    pub const fn sp(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// DWARF number of the instruction pointer; on x86-64 this is the return address column.
    pub const fn ip(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// DWARF number of the frame pointer.
    pub const fn fp(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// Returns true if a rule for this register must be applied to find the callers of a frame. Callers do not
    /// depend on registers that a call may change: libgcc saves `rax` and `rdx` where it raises C++ exceptions, to
    /// pass them to a handler. Vector registers are never needed.
    pub(crate) fn finds_callers(self, register: u16) -> bool {
        u8::try_from(register).is_ok_and(|register| {
            register == self.sp() || register == self.ip() || self.saved().contains(&register)
        })
    }

    /// Registers that a compact rule can describe as saved on the stack: the callee-saved ones, and the link register.
    pub(crate) const fn saved(self) -> &'static [u8] {
        match self {
            Self::X86_64 => &[6, 3, 12, 13, 14, 15],
            Self::Aarch64 => &[29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
        }
    }
}

/// Number of registers that are kept: above the highest DWARF number of both architectures.
pub(crate) const REGISTERS: usize = 33;

/// General registers of a thread, by DWARF number; each may be unknown.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    arch: Arch,
    known: u64,
    values: [u64; REGISTERS],
    /// True if the other registers are from after the instruction at the instruction pointer.
    after: bool,
}

impl Registers {
    /// Creates a set with all registers unknown.
    pub const fn new(arch: Arch) -> Self {
        Self { arch, known: 0, values: [0; REGISTERS], after: false }
    }

    /// Converts the user registers of a perf sample: `mask` is `perf_event_attr`'s `sample_regs_user`, `values`
    /// holds one value for each set bit, lowest bit first. Other registers (segments, flags, vector registers) are
    /// skipped.
    ///
    /// The bit numbers are the kernel's `enum perf_event_x86_regs` and `enum perf_event_arm_regs`
    /// (`arch/*/include/uapi/asm/perf_regs.h`).
    pub fn from_perf(arch: Arch, mask: u64, values: &[u64]) -> Self {
        // AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8 … R15
        const NONE: u8 = u8::MAX;
        const X86: [u8; 24] = [
            0, 3, 2, 1, 4, 5, 6, 7, 16, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 8, 9, 10, 11, 12,
            13, 14, 15,
        ];
        let mut registers = Self::new(arch);
        let mut rest = mask;
        for &value in values {
            if rest == 0 {
                break;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let register = match arch {
                Arch::X86_64 => X86.get(bit).copied().unwrap_or(NONE),
                // X0–X29, LR, SP, PC: the kernel's order is the same as DWARF's.
                Arch::Aarch64 => bit as u8,
            };
            registers.set(register, value);
        }
        registers
    }

    /// Architecture of the thread.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Marks the instruction pointer as the address of the last executed instruction, as in samples of precise
    /// events, instead of the next one.
    pub const fn set_after(&mut self) {
        self.after = true;
    }

    pub(crate) const fn take_after(&mut self) -> bool {
        let after = self.after && matches!(self.arch, Arch::X86_64);
        self.after = false;
        after
    }

    /// Value of the register with this DWARF number; `None` if it is unknown.
    #[inline]
    pub const fn get(&self, register: u8) -> Option<u64> {
        if (register as usize) < REGISTERS && self.known >> register & 1 == 1 {
            Some(self.values[register as usize])
        } else {
            None
        }
    }

    /// Sets the register with this DWARF number; a number that is not of a general register is ignored.
    #[inline]
    pub const fn set(&mut self, register: u8, value: u64) {
        if (register as usize) < REGISTERS {
            self.values[register as usize] = value;
            self.known |= 1 << register;
        }
    }

    /// Marks the register as unknown.
    #[inline]
    pub const fn forget(&mut self, register: u8) {
        if (register as usize) < REGISTERS {
            self.known &= !(1 << register);
        }
    }

    /// The instruction pointer.
    pub const fn ip(&self) -> Option<u64> {
        self.get(self.arch.ip())
    }

    /// The stack pointer.
    pub const fn sp(&self) -> Option<u64> {
        self.get(self.arch.sp())
    }

    /// The frame pointer (`rbp`, `x29`).
    pub const fn fp(&self) -> Option<u64> {
        self.get(self.arch.fp())
    }

    /// Returns true if, judging by the registers, the thread is stopped just after a system call instruction:
    /// x86-64's `syscall` leaves the return address in `rcx`.
    pub(crate) fn after_syscall(&self) -> bool {
        const RCX: u8 = 2;
        self.arch == Arch::X86_64 && self.get(RCX).is_some() && self.get(RCX) == self.ip()
    }
}

/// A copy of the top of a thread's stack.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// Address of the first byte: the stack pointer at the time of the sample.
    pub start: u64,
    /// Copied bytes, from there upwards.
    pub bytes: &'a [u8],
}

/// Current memory of a thread that still runs, for bytes that the copy of its stack does not have.
pub trait LiveMemory {
    /// Reads 8 bytes at an address above the copy; `None` if the copied bytes have changed since.
    fn beyond(&self, address: u64) -> Option<u64>;

    /// Reads 8 bytes at an address of another stack than the copied one; `None` if the copied bytes from `left` on
    /// have changed since. At `left`, the thread's frames left the copied stack: a signal frame, with all registers
    /// of the thread at the time of the signal, begins there.
    fn elsewhere(&self, address: u64, left: u64) -> Option<u64>;

    /// Returns true if the thread's outermost frames were copied, too, and are part of what [`Self::beyond`] reads.
    fn has_root(&self) -> bool {
        false
    }
}

/// Uses one function for both kinds of reads.
impl<F: Fn(u64) -> Option<u64>> LiveMemory for F {
    fn beyond(&self, address: u64) -> Option<u64> {
        self(address)
    }

    fn elsewhere(&self, address: u64, _: u64) -> Option<u64> {
        self(address)
    }
}

/// Copied bytes of the stack and, if available, live memory.
pub(crate) struct Memory<'a> {
    copy: StackCopy<'a>,
    live: Option<&'a dyn LiveMemory>,
    /// True if bytes were read that are not in the copy.
    went_beyond: Cell<bool>,
    /// Lowest address of the stack that is being unwound.
    start: Cell<u64>,
    /// Address at which the frames left the copied stack; `None` if they are still on it.
    left: Cell<Option<u64>>,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(copy: StackCopy<'a>, live: Option<&'a dyn LiveMemory>) -> Self {
        let start = Cell::new(copy.start);
        Self { copy, live, went_beyond: Cell::new(false), start, left: Cell::new(None) }
    }

    /// Moves from stack pointer `from` to stack pointer `to` of the caller's frame, which need not be above it: a
    /// signal handler's stack can be anywhere.
    pub(crate) fn switch(&self, from: u64, to: u64) {
        // The kernel's signal frame holds all registers: up to 11 KiB with AMX.
        const LARGEST_SIGNAL_FRAME: u64 = 1 << 16;
        if to < from || to - from > LARGEST_SIGNAL_FRAME {
            self.start.set(to);
            self.left.set(self.left.get().or(Some(from)));
        }
    }

    /// Returns true if the current stack is not the copied one.
    pub(crate) fn is_switched(&self) -> bool {
        self.left.get().is_some()
    }

    /// Returns true if the thread's outermost frames are from the time of the copy.
    pub(crate) fn has_root(&self) -> bool {
        self.live.is_some_and(LiveMemory::has_root)
    }

    /// Returns true if bytes were read from beyond the copy since the last call of this function.
    #[inline]
    pub(crate) fn take_went_beyond(&self) -> bool {
        self.went_beyond.replace(false)
    }

    /// Lowest address of the stack.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.start.get()
    }

    /// Reads 8 bytes at an address, from the copy or live memory.
    #[inline]
    pub(crate) fn u64(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.wrapping_sub(self.copy.start)).ok()?;
        match self.copy.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => Some(u64::from_le_bytes(*bytes)),
            None => self.read_live(address),
        }
    }

    /// Reads 8 bytes at an address that need not be on a stack. `sp` is the stack pointer of the frame being unwound.
    #[cold]
    pub(crate) fn anywhere(&self, address: u64, sp: u64) -> Option<u64> {
        let left = self.left.get().unwrap_or(sp);
        self.copied(address).or_else(|| {
            let found = self.live?.elsewhere(address, left)?;
            self.went_beyond.set(true);
            Some(found)
        })
    }

    /// Reads 8 bytes at an address, if they were copied.
    pub(crate) fn copied(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.copy.start)?).ok()?;
        self.copy.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    #[cold]
    fn read_live(&self, address: u64) -> Option<u64> {
        let live = self.live.filter(|_| address >= self.start.get())?;
        let value = match self.left.get() {
            Some(left) => live.elsewhere(address, left),
            None => live.beyond(address),
        }?;
        self.went_beyond.set(true);
        Some(value)
    }

    /// Reads `size` (1 to 8) bytes at an address, zero-extended.
    pub(crate) fn unsigned(&self, address: u64, size: u8) -> Option<u64> {
        if size == 8 {
            return self.u64(address);
        }
        let at = usize::try_from(address.checked_sub(self.copy.start)?).ok()?;
        let bytes = self.copy.bytes.get(at..at.checked_add(size.into())?)?;
        let mut value = [0; 8];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_registers_come_in_bit_order_and_skip_what_is_no_general_register() {
        // BX, FLAGS, R15: bits 1, 9, 23.
        let mask = 1 << 1 | 1 << 9 | 1 << 23;
        let registers = Registers::from_perf(Arch::X86_64, mask, &[11, 22, 33, 44]);
        assert_eq!(registers.get(3), Some(11));
        assert_eq!(registers.get(15), Some(33));
        assert_eq!(registers.known.count_ones(), 2);
    }

    #[test]
    fn reads_end_with_the_copy() {
        let copy = StackCopy { start: 0x1000, bytes: &[1, 0, 0, 0, 0, 0, 0, 0, 2] };
        let stack = Memory::new(copy, None);
        assert_eq!(stack.u64(0x1000), Some(1));
        assert_eq!(stack.u64(0x1001), Some(2 << 56));
        assert_eq!(stack.u64(0x1002), None);
        assert_eq!(stack.u64(0xfff), None);
        assert_eq!(stack.u64(u64::MAX), None);
        assert_eq!(stack.unsigned(0x1008, 1), Some(2));
        assert_eq!(stack.unsigned(0x1008, 2), None);
        assert_eq!(stack.unsigned(0x1000, 9), None);
        assert!(!stack.take_went_beyond());
    }

    #[test]
    fn reads_beyond_the_copy_are_marked() {
        let copy = StackCopy { start: 0x1000, bytes: &[0; 8] };
        let beyond = |address| (address < 0x2000).then_some(address);
        let stack = Memory::new(copy, Some(&beyond));
        assert_eq!(stack.u64(0x1000), Some(0));
        assert_eq!(stack.u64(0xff8), None, "what is below is not the stack's any more");
        assert!(!stack.take_went_beyond());
        assert_eq!(stack.u64(0x1008), Some(0x1008));
        assert!(stack.take_went_beyond());
        assert_eq!(stack.u64(0x2000), None);
        assert!(!stack.take_went_beyond());
    }
}
