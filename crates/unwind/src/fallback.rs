//! Unwinding of frames whose code has no unwind table: JIT-compiled code, assembly, C libraries built without tables.

use std::ops::Range;

use crate::code::Tableless;
use crate::evaluate::Failure;
use crate::registers::{Arch, Memory, Registers};
use crate::scan;
use crate::space::AddressSpace;

/// How the caller of a frame without a table was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// By the frame pointer.
    ByFramePointer,
    /// By a return address near the top of the stack, or in the link register.
    AsLeaf,
    /// The frame is a signal frame, which the kernel built to run a handler; its caller was interrupted.
    Signal,
    /// There is no caller: this is the first frame.
    Root,
    /// The caller was not found.
    Nothing,
}

/// A frame without a table.
pub(crate) struct Fallback<'a> {
    pub space: &'a AddressSpace,
    pub stack: &'a Memory<'a>,
    /// Kind of its code.
    pub code: Tableless,
    /// True for the innermost frame, or one that a signal interrupted: it is not in a call.
    pub interrupted: bool,
    /// True if the callee was unwound by its frame pointer, too.
    pub chained: bool,
}

impl Fallback<'_> {
    /// Finds the caller, and sets the registers to the caller's.
    pub(crate) fn step(&self, registers: &mut Registers) -> Result<Found, Failure> {
        const RAX: u8 = 0;
        let Some(sp) = registers.sp().or(registers.fp()) else { return Ok(Found::Nothing) };
        match self.code {
            Tableless::Entry => return Ok(Found::Root),
            Tableless::SignalReturn => return self.leave_signal_frame(sp, registers),
            // `clone` returns 0 in the new thread.
            Tableless::Clone if self.interrupted && registers.get(RAX) == Some(0) => {
                return Ok(Found::Root);
            }
            Tableless::Frameless { words } if self.interrupted => {
                return self.leave_leaf(sp, words.into(), registers);
            }
            Tableless::Stub => {
                if let Some(words) = self.return_address_in(0..3, sp) {
                    return self.leave_leaf(sp, words, registers);
                }
            }
            Tableless::Plain if self.interrupted && self.is_leaf(sp, registers) => {
                return self.leave_leaf(sp, 0, registers);
            }
            _ => {}
        }
        let followed = self.by_frame_pointer(sp, registers);
        if let Ok(Some(found)) = followed {
            return Ok(found);
        }
        // The frame pointer leads nowhere: the code may have pushed nothing but the frame pointer yet, or may not
        // be code at all (a call through a bad pointer).
        match registers.arch() {
            _ if !self.interrupted => {}
            Arch::X86_64 if self.code == Tableless::Unseen => {
                if let Some(words) = self.return_address_in(0..2, sp) {
                    return self.leave_leaf(sp, words, registers);
                }
            }
            Arch::X86_64 => {}
            Arch::Aarch64 => {
                let link = registers.get(LINK).filter(|&link| Some(link) != registers.ip());
                if link.is_some_and(|link| is_return_address(self.space, link)) {
                    return self.leave_leaf(sp, 0, registers);
                }
            }
        }
        followed.map(|_| Found::Nothing)
    }

    /// First of the words at the top of the stack that can be a return address.
    fn return_address_in(&self, words: Range<u64>, sp: u64) -> Option<u64> {
        words.into_iter().find(|words| {
            let word = self.stack.u64(sp.wrapping_add(8 * words));
            word.is_some_and(|word| is_return_address(self.space, word))
        })
    }

    /// Returns true if a function seems to have no frame, like the smaller ones of V8's builtins: there is a return
    /// address at the top of the stack, where other functions have their variables.
    fn is_leaf(&self, sp: u64, registers: &Registers) -> bool {
        // V8's pointers to objects end in binary 01, and some of its objects are code.
        const TAG: u64 = 3;
        const TAGGED: u64 = 1;
        registers.arch() == Arch::X86_64
            && self.stack.u64(sp).is_some_and(|word| {
                let seen = self.space.lookup(word).is_some_and(|mapping| mapping.info.is_some());
                match registers.ip() {
                    Some(ip) if seen => scan::is_from_caller(self.space, word, ip),
                    _ => word & TAG != TAGGED && is_return_address(self.space, word),
                }
            })
    }

    fn leave_leaf(&self, sp: u64, words: u64, registers: &mut Registers) -> Result<Found, Failure> {
        let arch = registers.arch();
        match arch {
            Arch::X86_64 => {
                if self.code == (Tableless::Frameless { words: 1 }) {
                    let fp = self.stack.u64(sp).ok_or(Failure::Truncated)?;
                    registers.set(arch.fp(), fp);
                }
                let at = sp.wrapping_add(8 * words);
                let return_address = self.stack.u64(at).ok_or(Failure::Truncated)?;
                registers.set(arch.ip(), return_address);
                registers.set(arch.sp(), at.wrapping_add(8));
            }
            Arch::Aarch64 => {
                let link = registers.get(LINK).ok_or(Failure::UnknownRegister)?;
                registers.set(arch.ip(), strip_authentication(link));
            }
        }
        Ok(Found::AsLeaf)
    }

    /// Follows the frame pointer: it points to the saved frame pointer of the caller, with the return address above it.
    fn by_frame_pointer(
        &self,
        sp: u64,
        registers: &mut Registers,
    ) -> Result<Option<Found>, Failure> {
        /// Maximum distance of the frame pointer from the stack pointer. Frames are far smaller; a value further up
        /// is not a frame pointer.
        const LARGEST_STACK: u64 = 1 << 23;
        let arch = registers.arch();
        let Some(fp) = registers.fp() else { return Ok(None) };
        // The ABI marks the first frame with 0, but in code that does not keep frame pointers it is just a zero.
        if fp == 0 {
            return Ok(None);
        }
        if fp < sp || !fp.is_multiple_of(8) || fp - sp > LARGEST_STACK {
            return Ok(None);
        }
        let (Some(caller_fp), Some(return_address)) =
            (self.stack.u64(fp), self.stack.u64(fp.wrapping_add(8)))
        else {
            return Err(Failure::Truncated);
        };
        // The end of the chain, where a thread's stack begins.
        if caller_fp == 0 && return_address == 0 && (self.chained || !self.interrupted) {
            return Ok(Some(Found::Root));
        }
        let return_address = match arch {
            Arch::X86_64 => return_address,
            Arch::Aarch64 => strip_authentication(return_address),
        };
        if !is_return_address(self.space, return_address) {
            return Ok(None);
        }
        let mut caller = Registers::new(arch);
        caller.set(arch.ip(), return_address);
        caller.set(arch.fp(), caller_fp);
        // On aarch64 the two words can be anywhere in the frame, so the end of the frame is unknown.
        if arch == Arch::X86_64 {
            caller.set(arch.sp(), fp.wrapping_add(16));
        }
        *registers = caller;
        Ok(Some(Found::ByFramePointer))
    }

    /// Reads x86-64's signal frame (`struct rt_sigframe`, `arch/x86/include/asm/sigframe.h`), from after its first
    /// word on: a `struct ucontext` with the registers of the interrupted thread from byte 40 on, in the order of
    /// `struct sigcontext_64`.
    fn leave_signal_frame(&self, sp: u64, registers: &mut Registers) -> Result<Found, Failure> {
        const ORDER: [u8; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let mut interrupted = Registers::new(registers.arch());
        for (at, register) in (0..).zip(ORDER) {
            let address = sp.wrapping_add(40 + 8 * at);
            interrupted.set(register, self.stack.u64(address).ok_or(Failure::Truncated)?);
        }
        *registers = interrupted;
        Ok(Found::Signal)
    }
}

/// DWARF number of aarch64's link register.
const LINK: u8 = 30;

/// Removes the authentication code that an Armv8.3 return address may have above its 48 bits.
pub(crate) fn strip_authentication(address: u64) -> u64 {
    address & 0x0000_ffff_ffff_ffff
}

/// Returns true if a word can be a return address: it points to code and, if the code's bytes are available,
/// follows a call (on aarch64, only its alignment is checked).
pub(crate) fn is_return_address(space: &AddressSpace, address: u64) -> bool {
    let Some(mapping) = space.lookup(address.wrapping_sub(1)) else { return false };
    let Some(info) = &mapping.info else { return true };
    if info.arch() == Arch::Aarch64 {
        return address.is_multiple_of(4);
    }
    info.is_behind_call(mapping.svma(address))
}
