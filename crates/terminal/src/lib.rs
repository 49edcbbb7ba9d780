#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

pub mod browser;
mod interrupt;
mod pager;
mod plain;
mod screen;
mod spinner;
mod zone;

pub use interrupt::{Interrupt, OnSignal};
pub use pager::page;
pub use plain::{error_width, plain, standard_error, standard_output, width};
pub use screen::{Screen, ScreenSignal, on_screen_signals, restore, send_stop};
pub use spinner::Spinner;
pub use zone::local_offset;
