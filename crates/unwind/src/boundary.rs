//! Where instructions begin.

use iced_x86::{Decoder, DecoderOptions};

use crate::registers::Arch;

/// The instruction that a place in a function is inside of: where it begins, and where it ends, in bytes from the
/// function's start. None where an instruction begins at the place itself, or behind the function's end.
///
/// `code` is the function's, from its start: x86-64 instructions have no fixed length.
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
