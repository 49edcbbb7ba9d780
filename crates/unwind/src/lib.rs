#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod breakpoints;
mod calls;
mod code;
mod elf;
mod evaluate;
mod fallback;
mod gaps;
mod go;
mod index;
mod info;
mod instructions;
mod kept_guesses;
mod ranges;
mod registers;
mod rule;
mod scan;
mod space;
mod stored;
mod table;
mod unwinder;

pub use breakpoints::{cheapest_breakpoint, inside_of_instruction};
pub use info::{Error, UnwindInfo};
pub use registers::{Arch, LiveMemory, Registers, StackCopy};
pub use space::{AddressSpace, Mapping};
pub use stored::{StoredTable, TableKey};
pub use table::{Table, TableRow, TableRule, TableRuleKind};
pub use unwinder::{Frame, StackEnd, UnreadCode, Unwinder, Unwound};
