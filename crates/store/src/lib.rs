#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod checksum;
mod error;
mod footer;
mod groups;
mod read;
mod schema;
mod write;

pub use error::SegmentError;
pub use footer::{Footer, LARGEST_SEGMENT};
pub use read::Segment;
pub use write::write_segment;
