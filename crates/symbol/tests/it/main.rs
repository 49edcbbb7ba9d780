//! Names of addresses, in real programs.

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod debug_info;
mod demangle;
mod fixtures;
mod go;
mod symbols;
mod unpacked;
