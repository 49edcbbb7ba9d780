//! The command line on files, without a recording: these tests run anywhere.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "most of it is for recordings")]
mod common;

mod annotate_cross;
mod convert;
mod diff;
mod filters;
mod flamegraph;
mod fold;
mod heatmap;
mod info;
mod public_api;
mod report;
mod view;
mod view_terminal;
mod workspace;
