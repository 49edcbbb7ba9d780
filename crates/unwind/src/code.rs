//! Patterns of instructions in code that has no unwind table.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};

use crate::info::{Context, UnwindInfo};
use crate::instructions::{Guess, is_signal_return};
use crate::registers::Arch;
use crate::rule::Compiled;

/// Kind of code without a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tableless {
    /// JIT-compiled or unmapped code: its instructions are not available.
    Unseen,
    /// Code without a special pattern.
    Plain,
    /// Entry code of the file, which has no caller.
    Entry,
    /// Signal trampoline, to which a signal handler returns; its caller is the interrupted frame.
    SignalReturn,
    /// Code after the system call `clone`: in the new thread, it has no caller.
    Clone,
    /// Code that pushes at most two words: PLT entries, `.init`, `.fini`.
    Stub,
    /// The first or last instructions of a function, where the frame pointer is the caller's: this many words were
    /// pushed after the return address.
    Frameless { words: u8 },
}

/// Number of bytes in which the code at an entry point has to end.
const MOST_ENTRY: usize = 64;

impl UnwindInfo {
    /// Virtual addresses of the function at the program's entry point. Without a table they are found by its code:
    /// nothing can return to it, so that compilers end it with `hlt`.
    pub fn entry_function(&self) -> Option<Range<u64>> {
        let entry = self.entry()?;
        if let Some(function) = self.function(entry) {
            return (function.start == entry).then_some(function);
        }
        let Arch::X86_64 = self.arch() else { return None };
        let code = (1..=MOST_ENTRY).rev().find_map(|len| self.code(entry, len))?;
        let decoded = Decoder::with_ip(64, code, entry, DecoderOptions::NONE).into_iter();
        let mut decoded = decoded.take_while(|of| !of.is_invalid());
        let last = decoded.find(|of| matches!(of.mnemonic(), Mnemonic::Hlt | Mnemonic::Ret))?;
        (last.mnemonic() == Mnemonic::Hlt).then(|| entry..last.next_ip())
    }

    /// Returns true if the code at a virtual address is a signal trampoline, to which signal handlers return.
    pub(crate) fn returns_from_signal(&self, svma: u64) -> bool {
        self.arch() == Arch::X86_64 && self.code_from(svma).is_some_and(is_signal_return)
    }

    /// Returns true if a stack can return to a virtual address only because it was prepared to: the address is the
    /// first byte of a function, or of the exit code that Boost gives its contexts, and no call precedes it.
    pub(crate) fn is_prepared(&self, svma: u64, context: &mut Context) -> bool {
        if self.arch() != Arch::X86_64 || self.is_behind_call(svma) {
            return false;
        }
        if self.function(svma).is_some_and(|function| function.start == svma) {
            return !matches!(self.rule(svma, context), Compiled::Row(row) if row.signal);
        }
        self.code_from(svma).is_some_and(is_exit)
    }

    /// Returns true if a C library or Boost makes its contexts start at a virtual address: the first byte of code
    /// that does not return.
    pub(crate) fn starts_contexts(&self, svma: u64) -> bool {
        const LONGEST: u64 = 64;
        if self.arch() != Arch::X86_64 || self.is_behind_call(svma) {
            return false;
        }
        match self.function(svma) {
            Some(function) if function.start == svma && function.end - svma <= LONGEST => {
                self.code(svma, (function.end - svma) as usize).is_some_and(ends_without_return)
            }
            Some(_) => false,
            None => self.code_from(svma).is_some_and(is_exit),
        }
    }

    /// Returns true if a call ends just before a virtual address.
    pub(crate) fn is_behind_call(&self, svma: u64) -> bool {
        let before = (2..=7).rev().find_map(|len| self.code(svma.wrapping_sub(len), len as usize));
        before.is_some_and(ends_with_call)
    }
}

/// Classifies the code around an address, which is the address of the next instruction or of the last byte of a call.
pub(crate) fn classify(info: &UnwindInfo, svma: u64, context: &mut Context) -> Tableless {
    if info.arch() != Arch::X86_64 {
        let is_entry = info.in_entry(svma, context);
        return if is_entry { Tableless::Entry } else { Tableless::Plain };
    }
    // The kernel sets the return address of a signal handler: no call precedes it.
    if info.code_from(svma).is_some_and(is_signal_return)
        || info.code_from(svma.wrapping_add(1)).is_some_and(is_signal_return)
    {
        return Tableless::SignalReturn;
    }
    let is_clone = |end: u64| info.code(end.wrapping_sub(7), 7).is_some_and(is_clone);
    // Code that has not been analysed yet is not analysed just for this.
    let is_unread = info.is_unread(svma);
    if is_unread && info.in_entry(svma, context) {
        return Tableless::Entry;
    }
    let cloned = !is_unread && matches!(info.guess(svma), Guess::Cloned(_));
    if cloned || is_clone(svma) || is_clone(svma.wrapping_add(1)) {
        return Tableless::Clone;
    }
    if info.in_stubs(svma) {
        return Tableless::Stub;
    }
    match frameless(info, svma) {
        Some(words) => Tableless::Frameless { words },
        None => Tableless::Plain,
    }
}

/// Matches `mov $N,%eax; syscall` with the number of `clone` or `clone3`. C libraries have no table for the code
/// after it, because another stack is used there.
fn is_clone(code: &[u8]) -> bool {
    code == [0xb8, 56, 0, 0, 0, 0x0f, 0x05] || code == [0xb8, 0xb3, 0x01, 0, 0, 0x0f, 0x05]
}

/// Matches `xor %rdi,%rdi; call …; hlt`: a stack that returns here ends. Boost's `make_fcontext` prepares its
/// stacks this way, in assembly without a table.
pub(crate) fn is_exit(code: &[u8]) -> bool {
    code.starts_with(&EXIT) && code.get(EXIT.len() + 4) == Some(&0xf4)
}

/// First bytes of the code that [`is_exit`] matches.
pub(crate) const EXIT: [u8; 4] = [0x48, 0x31, 0xff, 0xe8];

/// Returns true if a function's code ends with a call that does not return: `call rel32; hlt`.
pub(crate) fn ends_without_return(code: &[u8]) -> bool {
    matches!(code.last_chunk(), Some([0xe8, _, _, _, _, 0xf4]))
}

/// Number of words pushed after the return address, if the next instruction belongs to a prologue or epilogue.
fn frameless(info: &UnwindInfo, svma: u64) -> Option<u8> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const PUSH_RBP: u8 = 0x55;
    const RET: u8 = 0xc3;
    let code = info.code_from(svma)?;
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

/// Returns true if x86-64 code ends with a call: `call rel32`, or `call *…` of any length.
pub(crate) fn ends_with_call(code: &[u8]) -> bool {
    matches!(code.last_chunk::<5>(), Some([0xe8, ..]))
        || (2..=7).any(|len| {
            code.len().checked_sub(len).is_some_and(|start| is_indirect_call(&code[start..]))
        })
}

/// Returns true if the bytes are one indirect near call (Intel SDM, volume 2: `FF /2`, and table 2-2 for the number
/// of bytes of the operand). A prefix before the call makes no difference.
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
