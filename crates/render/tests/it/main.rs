//! What is drawn and printed, whole.

#[path = "../common/mod.rs"]
mod common;

mod geometry;
mod golden;
mod safety;
