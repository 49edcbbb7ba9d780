//! Positions for breakpoints in a function: at the start of an instruction, if possible one that the kernel need
//! not single-step.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, OpAccess, Register,
};

use crate::registers::Arch;

/// Returns the instruction that contains `place` but does not begin there, as a range of offsets from the
/// function's start. `None` if an instruction begins at `place`, or `place` is beyond the function's end.
///
/// `code` is the function's code from its start: x86-64 instructions have no fixed length.
///
/// ```
/// use pyrograph_unwind::{Arch, inside_of_instruction};
///
/// // push %rbp; mov %rsp, %rbp; ret
/// let code = [0x55, 0x48, 0x89, 0xe5, 0xc3];
/// assert_eq!(inside_of_instruction(Arch::X86_64, &code, 1), None);
/// assert_eq!(inside_of_instruction(Arch::X86_64, &code, 3), Some(1..4));
/// ```
pub fn inside_of_instruction(
    arch: Arch,
    code: &[u8],
    place: usize,
) -> Option<std::ops::Range<usize>> {
    if arch == Arch::Aarch64 {
        let start = place / 4 * 4;
        return (start != place).then_some(start..start + 4);
    }
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() && decoder.position() < place {
        let start = decoder.position();
        let end = start + decoder.decode().len();
        if (start + 1..end).contains(&place) {
            return Some(start..end);
        }
    }
    None
}

/// Returns the offset of the cheapest breakpoint for a function's start: 0, or a few bytes after it if the
/// function's arguments and stack are still unchanged there.
///
/// The kernel executes the instruction under a breakpoint out of line and traps a second time after it, except for
/// some instructions that it emulates (`arch/x86/kernel/uprobes.c`): `push` of a register since Linux 4.15, jumps,
/// `nop`. In a virtual machine, the second trap can cost ten times as much as the first. Many functions begin with
/// `endbr64` or a comparison, followed by such an instruction.
///
/// ```
/// use pyrograph_unwind::{Arch, cheapest_breakpoint};
///
/// // endbr64; push %rbp; ret
/// let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xc3];
/// assert_eq!(cheapest_breakpoint(Arch::X86_64, &code), 4);
/// // sub $24, %rsp; ret
/// assert_eq!(cheapest_breakpoint(Arch::X86_64, &[0x48, 0x83, 0xec, 0x18, 0xc3]), 0);
/// ```
pub fn cheapest_breakpoint(arch: Arch, code: &[u8]) -> usize {
    if arch != Arch::X86_64 {
        return 0;
    }
    let mut factory = InstructionInfoFactory::new();
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let place = decoder.position();
        let instruction = decoder.decode();
        if is_emulated(&code[place..decoder.position()]) {
            let first = place == 0 || !is_jumped_to(code, place);
            return if first { place } else { 0 };
        }
        if !leaves_arguments(&mut factory, &instruction) {
            return 0;
        }
    }
    0
}

/// Returns true if the kernel emulates an instruction instead of executing it: `push`, `nop`, `jmp`, conditional jumps.
fn is_emulated(instruction: &[u8]) -> bool {
    matches!(
        instruction,
        [0x50..=0x57 | 0x90]
            | [0x41, 0x50..=0x57]
            | [0xeb | 0x70..=0x7f, _]
            | [0xe9, _, _, _, _]
            | [0x0f, 0x80..=0x8f, _, _, _, _]
    )
}

/// Returns true if an instruction changes neither the argument registers nor the stack, and continues at the next
/// instruction.
fn leaves_arguments(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    use Register::{R8, R9, RBP, RCX, RDI, RDX, RSI, RSP};
    if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
        return false;
    }
    let info = factory.info_options(instruction, InstructionInfoOptions::NONE);
    let writes = |access| matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
    let arguments = [RDI, RSI, RDX, RCX, R8, R9, RSP, RBP];
    !info.used_memory().iter().any(|memory| writes(memory.access()))
        && !info.used_registers().iter().any(|used| {
            writes(used.access()) && arguments.contains(&used.register().full_register())
        })
}

/// Returns true if the function itself jumps to `place`: a breakpoint there would be hit more often than one at its
/// start.
fn is_jumped_to(code: &[u8], place: usize) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let jumps = std::iter::from_fn(|| decoder.can_decode().then(|| decoder.decode()));
    let mut jumps = jumps.filter(|instruction| {
        matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        )
    });
    jumps.any(|jump| jump.near_branch_target() == place as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_stand_before_what_the_kernel_emulates_as_long_as_arguments_are_there() {
        let check = |code: &[u8], place| {
            assert_eq!(cheapest_breakpoint(Arch::X86_64, code), place, "{code:x?}");
        };
        // push %r12; ret
        check(&[0x41, 0x54, 0xc3], 0);
        // cmp $0x1000, %rdi; ja …
        check(&[0x48, 0x81, 0xff, 0, 0x10, 0, 0, 0x0f, 0x87, 0x93, 0, 0, 0, 0xc3], 7);
        // test %rdi, %rdi; je …
        check(&[0x48, 0x85, 0xff, 0x74, 0x10, 0xc3], 3);
        // mov %rdi, %rax; push %rbx
        check(&[0x48, 0x89, 0xf8, 0x53, 0xc3], 3);
        // mov %rax, %rdi; push %rbx: the argument is gone.
        check(&[0x48, 0x89, 0xc7, 0x53, 0xc3], 0);
        // xor %edi, %edi; push %rbx
        check(&[0x31, 0xff, 0x53, 0xc3], 0);
        // sub $8, %rsp; jmp …
        check(&[0x48, 0x83, 0xec, 8, 0xeb, 0, 0xc3], 0);
        // endbr64; call …; the kernel emulates that, too, but it would be for another function.
        check(&[0xf3, 0x0f, 0x1e, 0xfa, 0xe8, 0, 0, 0, 0, 0xc3], 0);
        // mov %rdi, (%rax); push %rbx
        check(&[0x48, 0x89, 0x38, 0x53, 0xc3], 0);
        // dec %eax; jne …; jmp back to the jne
        check(&[0xff, 0xc8, 0x75, 2, 0xeb, 0xfc, 0xc3], 0);
        check(&[], 0);
        check(&[0xc3], 0);
        assert_eq!(cheapest_breakpoint(Arch::Aarch64, &[0x55, 0xc3]), 0);
    }

    #[test]
    fn places_inside_of_instructions_are_found() {
        // push %rbp; mov %rsp, %rbp; movabs …, %rsi; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0xbe, 1, 2, 3, 4, 5, 6, 7, 8, 0xc3];
        for place in 0..16 {
            let inside = match place {
                2 | 3 => Some(1..4),
                5..14 => Some(4..14),
                _ => None,
            };
            assert_eq!(inside_of_instruction(Arch::X86_64, &code, place), inside, "{place}");
        }
        assert_eq!(inside_of_instruction(Arch::Aarch64, &code, 6), Some(4..8));
        assert_eq!(inside_of_instruction(Arch::Aarch64, &code, 8), None);
    }
}
