//! Recordings through the library.

mod ends;
mod live;
mod sched;
mod scheduled;
