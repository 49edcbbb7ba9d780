//! The table of system calls, and their decoding.

mod decode;
mod table;
