#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod aarch64;
mod x86_64;

/// Instruction sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// x86, 64-bit mode.
    #[default]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// Effect of an instruction on what runs next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction runs.
    #[default]
    Next,
    /// Another one runs.
    Jump,
    /// Either.
    Branch,
    /// A function runs first.
    Call,
    /// The caller goes on.
    Return,
    /// Nothing does: the processor traps.
    Trap,
}

/// One instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Where it begins.
    pub address: u64,
    /// Its length in bytes, at least 1.
    pub len: usize,
    /// Mnemonic and operands, as one line; `(bad)` for bytes that are none.
    pub text: String,
    /// What runs next.
    pub flow: Flow,
    /// Where a jump or call leads, if the instruction names it.
    pub target: Option<u64>,
    /// The place in memory that it names relative to itself (`0x2ee4(%rip)`), if it does.
    pub data: Option<u64>,
}

/// The instructions of `code`, which begins at `address`. They are made one by one.
pub fn disassemble(
    arch: Arch,
    code: &[u8],
    address: u64,
) -> Box<dyn Iterator<Item = Instruction> + '_> {
    match arch {
        Arch::X86_64 => Box::new(x86_64::instructions(code, address)),
        Arch::Aarch64 => Box::new(aarch64::instructions(code, address)),
    }
}

/// Text of bytes that are no instruction.
const BAD: &str = "(bad)";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any bytes: the instructions are the bytes, one behind the other.
        #[test]
        fn no_byte_is_left_out(code in proptest::collection::vec(any::<u8>(), 0..256), address: u64) {
            for arch in [Arch::X86_64, Arch::Aarch64] {
                let mut next = address;
                for instruction in disassemble(arch, &code, address) {
                    prop_assert_eq!(instruction.address, next);
                    prop_assert!(instruction.len > 0 && !instruction.text.is_empty());
                    prop_assert!(!instruction.text.contains(char::is_control));
                    next = next.wrapping_add(instruction.len as u64);
                }
                prop_assert_eq!(next, address.wrapping_add(code.len() as u64));
            }
        }
    }
}
