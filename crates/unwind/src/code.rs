//! Patterns of instructions in code that has no unwind table.

use crate::info::{Context, UnwindInfo};
use crate::instructions::{Guess, is_signal_return};
use crate::registers::Arch;
use crate::rule::Compiled;

/// Kinds of code without a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tableless {
    /// Made at run time, or not mapped: there are no instructions to look at.
    Unseen,
    /// Nothing in particular.
    Plain,
    /// The first code of the file: it has no caller.
    Entry,
    /// The code that a signal handler returns to; above it is the interrupted frame.
    SignalReturn,
    /// Behind `clone`, of which a new thread returns without a caller.
    Clone,
    /// Pushes at most two words: linkage tables, `.init`, `.fini`.
    Stub,
    /// At the first or last instructions of a function, where the frame pointer is the caller's: so
    /// many words are on the stack above the return address.
    Frameless { words: u8 },
}

impl UnwindInfo {
    /// True if the code at a virtual address is what signal handlers return to.
    pub(crate) fn returns_from_signal(&self, svma: u64) -> bool {
        self.arch() == Arch::X86_64 && self.code_from(svma).is_some_and(is_signal_return)
    }

    /// Returns true if a stack can only have been prepared to return to a virtual address: it is the first
    /// byte of a function, or of the end that Boost gives its contexts, and no call is before it.
    pub(crate) fn is_prepared(&self, svma: u64, context: &mut Context) -> bool {
        if self.arch() != Arch::X86_64 || self.is_behind_call(svma) {
            return false;
        }
        if self.function(svma).is_some_and(|function| function.start == svma) {
            return !matches!(self.rule(svma, context), Compiled::Row(row) if row.signal);
        }
        self.code_from(svma).is_some_and(is_exit)
    }

    /// Returns true if a virtual address is where a C library lets its contexts start, or Boost: the first byte
    /// of code that does not return.
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

    /// Returns true if the code before a virtual address is a call.
    pub(crate) fn is_behind_call(&self, svma: u64) -> bool {
        let before = (2..=7).rev().find_map(|len| self.code(svma.wrapping_sub(len), len as usize));
        before.is_some_and(ends_with_call)
    }
}

/// Look at the code around an address, which is either that of the next instruction or the last
/// byte of a call.
pub(crate) fn classify(info: &UnwindInfo, svma: u64, context: &mut Context) -> Tableless {
    if info.arch() != Arch::X86_64 {
        let is_entry = info.in_entry(svma, context);
        return if is_entry { Tableless::Entry } else { Tableless::Plain };
    }
    // The kernel makes a handler's return address: no call is in front of it.
    if info.code_from(svma).is_some_and(is_signal_return)
        || info.code_from(svma.wrapping_add(1)).is_some_and(is_signal_return)
    {
        return Tableless::SignalReturn;
    }
    let is_clone = |end: u64| info.code(end.wrapping_sub(7), 7).is_some_and(is_clone);
    // What was not read yet is not read for this.
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

/// `mov $N,%eax; syscall` with the number of `clone` or `clone3`. C libraries give what follows no
/// table, for the stack is another one there.
fn is_clone(code: &[u8]) -> bool {
    code == [0xb8, 56, 0, 0, 0, 0x0f, 0x05] || code == [0xb8, 0xb3, 0x01, 0, 0, 0x0f, 0x05]
}

/// `xor %rdi,%rdi; call …; hlt`: a stack that returns here has an end. Boost's `make_fcontext`
/// prepares its stacks so, in assembly without a table.
pub(crate) fn is_exit(code: &[u8]) -> bool {
    code.starts_with(&EXIT) && code.get(EXIT.len() + 4) == Some(&0xf4)
}

/// How [`is_exit`] begins.
pub(crate) const EXIT: [u8; 4] = [0x48, 0x31, 0xff, 0xe8];

/// Returns true if a function's code ends with a call that does not return: `call rel32; hlt`.
pub(crate) fn ends_without_return(code: &[u8]) -> bool {
    matches!(code.last_chunk(), Some([0xe8, _, _, _, _, 0xf4]))
}

/// The words above the return address, if the next instruction belongs to a prologue or epilogue.
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

/// Returns true if the bytes are one indirect near call (Intel SDM, volume 2: `FF /2`, and table 2-2 for how
/// the operand's bytes give their number). A prefix in front makes no difference.
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
