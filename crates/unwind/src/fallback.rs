//! Frames whose code has no unwind table: made at run time, assembly, C libraries built without.

use crate::evaluate::Failure;
use crate::registers::{Arch, Memory, Registers};
use crate::space::{AddressSpace, Mapping};

/// How the caller of a frame without a table was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// By the frame pointer.
    ByFramePointer,
    /// By a return address near the top of the stack, or in the link register.
    AsLeaf,
    /// The frame was made by the kernel to run a signal handler; its caller was interrupted.
    Signal,
    /// There is no caller: this is the first frame.
    Root,
    /// Nowhere.
    Nothing,
}

/// A frame without a table.
pub(crate) struct Tableless<'a> {
    pub space: &'a AddressSpace,
    pub stack: &'a Memory<'a>,
    /// Where the frame's code is, if that is known.
    pub mapping: Option<&'a Mapping>,
    /// The innermost frame, or one that a signal interrupted: not in a call.
    pub interrupted: bool,
    /// The callee was left by its frame pointer, too.
    pub chained: bool,
}

impl Tableless<'_> {
    /// Find the caller, and set the registers to its.
    pub(crate) fn step(&self, registers: &mut Registers) -> Result<Found, Failure> {
        let (Some(ip), Some(sp)) = (registers.ip(), registers.sp().or(registers.fp())) else {
            return Ok(Found::Nothing);
        };
        if self.in_entry(ip) {
            return Ok(Found::Root);
        }
        if registers.arch() == Arch::X86_64 {
            if self.code_at(ip).is_some_and(is_signal_return) {
                return self.leave_signal_frame(sp, registers);
            }
            if self.is_new_thread(ip, registers) {
                return Ok(Found::Root);
            }
            if let Some(depth) = self.return_address_depth(ip, sp) {
                return self.leave_leaf(sp, depth, registers);
            }
        }
        if let Some(found) = self.by_frame_pointer(sp, registers)? {
            return Ok(found);
        }
        // No frame pointer: the code may have pushed nothing yet, or may be no code at all (a call
        // through a bad pointer).
        if self.interrupted {
            let return_address = match registers.arch() {
                Arch::X86_64 => self.stack.u64(sp),
                Arch::Aarch64 => registers.get(30).filter(|&link| link != ip),
            };
            if return_address.is_some_and(|address| is_return_address(self.space, address)) {
                return self.leave_leaf(sp, 0, registers);
            }
        }
        Ok(Found::Nothing)
    }

    fn in_entry(&self, ip: u64) -> bool {
        self.mapping.is_some_and(|mapping| {
            let svma = mapping.svma(ip);
            mapping.info.as_ref().is_some_and(|info| info.in_entry(svma))
        })
    }

    fn code_at(&self, ip: u64) -> Option<&[u8]> {
        let mapping = self.mapping?;
        let info = mapping.info.as_ref()?;
        let svma = mapping.svma(ip);
        (1..=16).rev().find_map(|len| info.code(svma, len))
    }

    /// Whether the frame is that of a thread that has just been made: behind `mov $N,%eax; syscall`
    /// with the number of `clone` or `clone3`, which returns 0 in the new thread. C libraries give
    /// these instructions no table, for the stack is another one there.
    fn is_new_thread(&self, ip: u64, registers: &Registers) -> bool {
        const RAX: u8 = 0;
        const CLONE: [u8; 7] = [0xb8, 56, 0, 0, 0, 0x0f, 0x05];
        const CLONE3: [u8; 7] = [0xb8, 0xb3, 0x01, 0, 0, 0x0f, 0x05];
        let before = || {
            let mapping = self.mapping?;
            let info = mapping.info.as_ref()?;
            info.code(mapping.svma(ip).wrapping_sub(7), 7)
        };
        self.interrupted
            && registers.get(RAX) == Some(0)
            && before().is_some_and(|code| code == CLONE || code == CLONE3)
    }

    /// The number of words on the stack above the return address, if the code in front of the
    /// instruction pointer tells: a frame that is not made yet, or no more.
    fn return_address_depth(&self, ip: u64, sp: u64) -> Option<u64> {
        let mapping = self.mapping?;
        let info = mapping.info.as_ref()?;
        let svma = mapping.svma(ip);
        // `.init` and `.fini` align the stack around their calls. An entry of a linkage table may have
        // pushed its number, and the first entry the object's.
        if info.in_stubs(svma) {
            return (0..3).find(|&depth| {
                let word = self.stack.u64(sp.wrapping_add(8 * depth));
                word.is_some_and(|word| is_return_address(self.space, word))
            });
        }
        if !self.interrupted {
            return None;
        }
        const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        const PUSH_RBP: u8 = 0x55;
        const RET: u8 = 0xc3;
        let code = self.code_at(ip)?;
        let code = code.strip_prefix(ENDBR64).unwrap_or(code);
        match code {
            [PUSH_RBP | RET, ..] => Some(0),
            // mov %rsp,%rbp, in both of its encodings
            [0x48, 0x89, 0xe5, ..] | [0x48, 0x8b, 0xec, ..] => {
                (info.code(svma.wrapping_sub(1), 1)? == [PUSH_RBP]).then_some(1)
            }
            _ => None,
        }
    }

    fn leave_leaf(&self, sp: u64, depth: u64, registers: &mut Registers) -> Result<Found, Failure> {
        let arch = registers.arch();
        match arch {
            Arch::X86_64 => {
                let at = sp.wrapping_add(8 * depth);
                let return_address = self.stack.u64(at).ok_or(Failure::Truncated)?;
                registers.set(arch.ip(), return_address);
                registers.set(arch.sp(), at.wrapping_add(8));
            }
            Arch::Aarch64 => {
                let link = registers.get(30).ok_or(Failure::UnknownRegister)?;
                registers.set(arch.ip(), link);
            }
        }
        Ok(Found::AsLeaf)
    }

    /// Follow the frame pointer: it points to the caller's, and the return address is above that.
    fn by_frame_pointer(
        &self,
        sp: u64,
        registers: &mut Registers,
    ) -> Result<Option<Found>, Failure> {
        /// Frames are far smaller; a value further up than this is no frame pointer.
        const LARGEST_STACK: u64 = 1 << 23;
        let arch = registers.arch();
        let Some(fp) = registers.fp() else { return Ok(None) };
        if fp == 0 {
            // The ABI's mark of the first frame. But where frame pointers are not kept it is only a
            // zero: believe it at the end of a chain, and in assembly that starts a thread.
            let elf = self.mapping.is_some_and(|mapping| mapping.info.is_some());
            let root = self.chained || (elf && !self.interrupted);
            return Ok(root.then_some(Found::Root));
        }
        if fp < sp || !fp.is_multiple_of(8) {
            return Ok(None);
        }
        let (Some(caller_fp), Some(return_address)) =
            (self.stack.u64(fp), self.stack.u64(fp.wrapping_add(8)))
        else {
            let near = fp - sp < LARGEST_STACK;
            return if near { Err(Failure::Truncated) } else { Ok(None) };
        };
        if caller_fp == 0 && return_address == 0 {
            return Ok(Some(Found::Root));
        }
        let return_address = match arch {
            Arch::X86_64 => return_address,
            Arch::Aarch64 => return_address & 0x0000_ffff_ffff_ffff,
        };
        if !is_return_address(self.space, return_address) {
            return Ok(None);
        }
        let mut caller = Registers::new(arch);
        caller.set(arch.ip(), return_address);
        caller.set(arch.fp(), caller_fp);
        // On aarch64 the two words can be anywhere in the frame: where it ends is not known.
        if arch == Arch::X86_64 {
            caller.set(arch.sp(), fp.wrapping_add(16));
        }
        *registers = caller;
        Ok(Some(Found::ByFramePointer))
    }

    /// x86-64's signal frame (`struct rt_sigframe`, `arch/x86/include/asm/sigframe.h`) above its
    /// first word: a `struct ucontext` with the interrupted thread's registers from byte 40 on, in
    /// the order of `struct sigcontext_64`.
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

/// Whether a word can be a return address: it points to code, and, where the code is at hand, behind
/// a call.
pub(crate) fn is_return_address(space: &AddressSpace, address: u64) -> bool {
    let Some(mapping) = space.lookup(address.wrapping_sub(1)) else { return false };
    let Some(info) = &mapping.info else { return true };
    if info.arch() == Arch::Aarch64 {
        return address.is_multiple_of(4);
    }
    let svma = mapping.svma(address);
    let before = (2..=7).rev().find_map(|len| info.code(svma.wrapping_sub(len), len as usize));
    before.is_some_and(ends_with_call)
}

/// `mov $15,%rax; syscall` (`rt_sigreturn`), in the two encodings that C libraries use.
fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05])
        || code.starts_with(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])
}

/// Whether x86-64 code ends with a call: `call rel32`, or `call *…` of any length.
fn ends_with_call(code: &[u8]) -> bool {
    matches!(code.last_chunk::<5>(), Some([0xe8, ..]))
        || (2..=7).any(|len| {
            code.len().checked_sub(len).is_some_and(|start| is_indirect_call(&code[start..]))
        })
}

/// Whether the bytes are one indirect near call (Intel SDM, volume 2: `FF /2`, and table 2-2 for how
/// the operand's bytes tell their number). A prefix in front makes no difference.
fn is_indirect_call(code: &[u8]) -> bool {
    let [0xff, modrm, operand @ ..] = code else { return false };
    let (mode, base) = (modrm >> 6, modrm & 7);
    let has_sib = mode != 3 && base == 4;
    let no_base = base == 5 || (has_sib && operand.first().is_some_and(|sib| sib & 7 == 5));
    let displacement = match mode {
        0 if no_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    modrm >> 3 & 7 == 2 && operand.len() == usize::from(has_sib) + displacement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_calls_by_their_bytes() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call rel32
            &[0xff, 0xd0],                   // call *%rax
            &[0x41, 0xff, 0xd4],             // call *%r12
            &[0xff, 0x10],                   // call *(%rax)
            &[0xff, 0x50, 0x18],             // call *0x18(%rax)
            &[0xff, 0x15, 1, 2, 3, 4],       // call *rel32(%rip)
            &[0xff, 0x90, 1, 2, 3, 4],       // call *disp32(%rax)
            &[0xff, 0x14, 0xc3],             // call *(%rbx,%rax,8)
            &[0xff, 0x54, 0x24, 0x08],       // call *0x8(%rsp)
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4], // call *disp32(,%rax,8)
            &[0xff, 0x94, 0xc3, 1, 2, 3, 4], // call *disp32(%rbx,%rax,8)
        ] {
            assert!(ends_with_call(call), "{call:x?}");
        }
        for other in [&[0x48, 0x89, 0xe5][..], &[0xff, 0xe0], &[0xff], &[], &[0x0f, 0x05]] {
            assert!(!ends_with_call(other), "{other:x?}");
        }
    }
}
