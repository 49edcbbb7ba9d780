//! Stacks of real programs, and tables that are damaged.

#[path = "../common/mod.rs"]
mod common;

mod aarch64;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod damaged;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod instructions;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod live;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod step;
mod table_bytes;
