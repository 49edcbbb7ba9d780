//! Registers and copied stack bytes → return addresses.
//!
//! Finds the callers of a sampled thread from the unwind tables of the files that it maps
//! (`.eh_frame`, `.debug_frame`), so that code without frame pointers has whole stacks. Code without
//! a table (JIT-compiled code, or assembly) is followed by its instructions, or walked by its frame
//! pointers, and the tables take over again above it.
//!
//! It opens no file, knows no process and no symbol name: the caller has the bytes of the files,
//! and maps them as the process has them. A stack that could not be followed to its first frame
//! says so ([`StackEnd`]); input may be damaged in any way.
//!
//! ```
//! use pyrograph_unwind::{AddressSpace, Arch, Registers, StackCopy, StackEnd, Unwinder};
//!
//! // A frame of JIT-compiled code: `rbp` points to the caller's `rbp` and the return address. The thread's
//! // first frame has neither.
//! let mut space = AddressSpace::new();
//! space.map(0x1000..0x2000, 0, None, 0);
//! let mut registers = Registers::new(Arch::X86_64);
//! registers.set(Arch::X86_64.ip(), 0x1234);
//! registers.set(Arch::X86_64.sp(), 0x7000);
//! registers.set(Arch::X86_64.fp(), 0x7008);
//! let words: [u64; 5] = [0, 0x7018, 0x1567, 0, 0];
//! let bytes = words.map(u64::to_le_bytes).concat();
//!
//! let mut frames = Vec::new();
//! let stack = StackCopy { start: 0x7000, bytes: &bytes };
//! let unwound =
//!     Unwinder::new(Arch::X86_64).unwind(&space, &registers, stack, 127, &mut frames);
//! assert_eq!(frames.iter().map(|frame| frame.address).collect::<Vec<_>>(), [0x1234, 0x1567]);
//! assert_eq!(unwound.end, StackEnd::Root);
//! ```

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
pub use unwinder::{Frame, StackEnd, Unwinder, Unwound};
