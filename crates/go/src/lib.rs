#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod inlined;
mod layout;
mod steps;
mod table;

pub use inlined::{Call, InlineTrees};
pub use layout::Layout;
pub use table::{Function, Place, Table};
