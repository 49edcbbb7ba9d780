//! `pyrograph top`: shows a running recording.

mod plan;
mod screen;
mod tables;
mod watch;

use std::process::ExitCode;

use pyrograph_terminal::Screen;

pub use self::plan::Args;
use self::plan::Plan;

/// Runs `pyrograph top`.
///
/// # Errors
///
/// If nothing can be recorded, or the view cannot be shown.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(args)?;
    match plan.tables.is_none() && Screen::is_there() {
        true => screen::run(plan),
        false => tables::run(plan),
    }
}
