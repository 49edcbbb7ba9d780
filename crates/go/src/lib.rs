#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod inlined;
mod layout;
mod module;
mod steps;
mod table;

pub use inlined::{Call, InlineTrees};
pub use layout::Layout;
pub use table::{Function, Place, Table};
