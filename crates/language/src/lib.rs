#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod file;
mod java;
mod luajit;
#[cfg(test)]
mod measured;
mod memory;
mod native;
mod node;
mod perl;
mod php;
mod python;
mod ruby;
mod runtime;
mod thread;

pub use file::Extent;
pub use memory::{Chunks, Memory};
pub use native::Native;
pub use runtime::{Found, InnerCall, Lines, Name, Runtime, Unknown, find, switches_stacks};
