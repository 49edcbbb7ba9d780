#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod image;
mod loaded;
mod section;
pub mod v8;

pub use image::{Error, Image, Linked, Segment};
pub use loaded::Loaded;
pub use object;
pub use section::{Section, read_to};
