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

/// Effect of an instruction on control flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Execution continues with the next instruction.
    #[default]
    Next,
    /// Unconditional jump.
    Jump,
    /// Conditional jump.
    Branch,
    /// Call.
    Call,
    /// Return.
    Return,
    /// Trap: execution does not continue.
    Trap,
}

/// One instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Address of its first byte.
    pub address: u64,
    /// Its length in bytes, at least 1.
    pub len: usize,
    /// Mnemonic and operands on one line; `(bad)` for invalid bytes.
    pub text: String,
    /// Effect on control flow.
    pub flow: Flow,
    /// Target of a jump or call, if it is in the instruction.
    pub target: Option<u64>,
    /// Address of data that it refers to relative to itself (`0x2ee4(%rip)`), if it does.
    pub data: Option<u64>,
}

/// Disassembles `code`, which begins at `address`. The iterator is lazy.
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

/// Text for invalid bytes.
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
