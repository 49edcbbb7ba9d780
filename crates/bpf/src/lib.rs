//! The in-kernel engine: stacks are unwound and counted where they are, by programs inside of the
//! kernel, and only totals come out.
//!
//! An [`Engine`] loads the programs (compiled from `src/programs`, and part of the binary). It is told
//! which code each process has mapped ([`Engine::set_process`]), makes the unwind tables of the mapped
//! files that the programs search, and hands out what was counted ([`Engine::drain`]).
//!
//! It finds no symbols and knows no file names: mappings carry numbers of their modules, frames come out
//! with them. It follows no processes but through forks and executions: mappings are told by the caller.

mod builder;
mod counted;
mod engine;
mod error;
mod kernel_text;
mod layout;
mod processes;
mod shared;
mod tables;
mod trigger;

pub use builder::{TableStats, prefer_this_thread};
pub use counted::{Counted, Cut, Socket, Sort, UserFrame, UserStack, Wait, Waker};
pub use engine::{Engine, ModuleOf, Options, Stats, Waits};
pub use error::Error;
pub use trigger::{Measure, Place, Trigger};
