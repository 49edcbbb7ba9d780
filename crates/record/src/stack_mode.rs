//! How the user part of a stack is sampled.

use std::str::FromStr;

/// Methods of sampling the user part of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    /// No stacks, neither user nor kernel part, for example because an eBPF program takes them.
    None,
    /// Callchain by frame pointers, in the kernel: cheap, and wrong for code without frame pointers.
    FramePointers,
    /// Registers and a copy of the top of the stack, to be unwound with the program's own unwind tables. The callchain
    /// has the kernel part only.
    Dwarf {
        /// Maximum number of bytes of the stack; a multiple of 8, up to [`StackMode::MOST_BYTES`].
        bytes: u32,
    },
}

impl StackMode {
    /// Default size of the stack copy in bytes: the maximum. The kernel copies no more than the stack has, and few
    /// stacks are deep; of `cargo build`'s, which are, 13 % do not fit in 32 KiB, and 8 % do not fit in this.
    pub const DEFAULT_BYTES: u32 = Self::MOST_BYTES;
    /// Maximum size of the stack copy in bytes: a record's size has 16 bits, and the kernel requires a multiple of 8
    /// below 65,535.
    pub const MOST_BYTES: u32 = 65_528;
}

/// Parses `fp`, `dwarf`, or `dwarf,BYTES`.
impl FromStr for StackMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(',') {
            None if text == "fp" => Ok(Self::FramePointers),
            None if text == "dwarf" => Ok(Self::Dwarf { bytes: Self::DEFAULT_BYTES }),
            Some(("dwarf", bytes)) => match bytes.parse::<u32>() {
                Ok(bytes) if (1..=Self::MOST_BYTES).contains(&bytes) => {
                    Ok(Self::Dwarf { bytes: bytes.next_multiple_of(8) })
                }
                _ => Err(format!("the stack copy can have 1 to {} bytes", Self::MOST_BYTES)),
            },
            _ => Err("use fp, dwarf, or dwarf,BYTES".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_modes() {
        let dwarf = |bytes| Ok(StackMode::Dwarf { bytes });
        assert_eq!(StackMode::from_str("fp"), Ok(StackMode::FramePointers));
        assert_eq!(StackMode::from_str("dwarf"), dwarf(StackMode::DEFAULT_BYTES));
        assert_eq!(StackMode::from_str("dwarf,8192"), dwarf(8192));
        assert_eq!(StackMode::from_str("dwarf,8189"), dwarf(8192));
        for text in ["", "lbr", "fp,1", "dwarf,", "dwarf,0", "dwarf,65536", "dwarf,-8"] {
            assert!(text.parse::<StackMode>().is_err(), "{text}");
        }
    }
}
