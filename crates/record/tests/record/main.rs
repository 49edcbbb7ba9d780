//! Real programs, recorded. What needs a privilege that this user lacks says so and is skipped.

mod commands;
mod events;
mod permissions;
mod processes;
mod recorded;
mod subject;
