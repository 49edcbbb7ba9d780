#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod image;
mod section;

pub use image::{Error, Image, Linked, Segment};
pub use object;
pub use section::{Section, read_to};
