//! Recordings through the library.

mod live;
mod sched;
