//! Whole pictures, pages and texts.

#[path = "../common/mod.rs"]
mod common;

mod geometry;
mod golden;
mod safety;
