//! Recordings through the library.

mod live;
mod sched;
mod sched_end;
