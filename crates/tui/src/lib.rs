#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod app;
mod bars;
mod calls;
mod changes;
mod chips;
mod flame;
mod frame_rows;
mod keys;
mod look;
mod page;
mod search;
mod shown;
mod table;
mod text;

pub use app::{Action, App, Settings, Status};
pub use look::{ColorDepth, Look};
pub use shown::{Code, Grouping, Shown};
