#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod checksum;
mod directory;
mod error;
mod footer;
mod groups;
mod owner;
mod read;
mod schema;
mod when;
mod write;

pub use directory::{Answer, Directory, Entry, Retention, Writing, open};
pub use error::{SegmentError, StoreError};
pub use footer::{Footer, Kept, LARGEST_SEGMENT};
pub use owner::{Owner, owner};
pub use read::{Segment, Wanted};
pub use when::{Range, age_of};
pub use write::write_segment;
