#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod destination;
mod output;

pub use destination::{WriteError, Written, write_output, write_picture};
pub use output::{Output, OutputError, Picture, formats};
