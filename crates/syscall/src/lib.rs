#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod call;
mod context;
mod decode;
mod descriptors;
mod error;
mod group;
mod kind;
mod layouts;
mod numbers;
mod pieces;
mod result;
mod signal;
mod table;
mod text;
mod words;

use std::borrow::Cow;

pub use call::{Argument, Call, Copy, Extent, When};
pub use descriptors::Descriptors;
pub use error::{error_name, error_text};
pub use group::{GROUPS, group};
pub use numbers::{all, by_number, number_of};
pub use pieces::{Piece, pieces, push_piece};
pub use result::result;

/// A system call as it was seen, with what was copied of the program's memory.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The number, on this architecture.
    pub number: u32,
    /// The registers that the arguments are in.
    pub arguments: [u64; 6],
    /// What it returned, negative for an error; none while it runs, and if it does not return.
    pub result: Option<i64>,
    /// What was copied. What is not there is shown as an address.
    pub copied: &'a [Copied<'a>],
}

/// Memory of the program, copied for one of [`Call::copies`].
#[derive(Debug, Clone, Copy)]
pub struct Copied<'a> {
    /// Index into [`Call::copies`].
    pub copy: usize,
    /// What was copied.
    pub bytes: &'a [u8],
    /// Bytes that there were to copy: more than `bytes` has where it was cut. Of a string it is enough to say one more.
    pub length: u64,
}

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Most bytes of a string that is no path; `...` follows what is longer.
    pub text: usize,
    /// Most elements of an array; `...` follows more.
    pub items: usize,
}

impl Default for Written {
    fn default() -> Self {
        Self { text: 32, items: 32 }
    }
}

/// The files behind a process's descriptors.
pub trait Files {
    /// Returns the path of a file, or what `/proc/PID/fd` says: `socket:[1234]`.
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>>;
}

/// No file has a name.
impl Files for () {
    fn name(&self, _: i32) -> Option<Cow<'_, str>> {
        None
    }
}

/// Returns the arguments of a call as words, each with its name. Those that the call does not look at are left out; those of a call that
/// is not known are numbers.
pub fn arguments(
    seen: &Seen<'_>,
    files: &dyn Files,
    written: &Written,
) -> Vec<(&'static str, String)> {
    const NAMES: [&str; 6] = ["arg1", "arg2", "arg3", "arg4", "arg5", "arg6"];
    let Some(call) = by_number(seen.number) else {
        let hex = |value: &u64| {
            let mut out = String::new();
            context::hex(*value, &mut out);
            out
        };
        return NAMES
            .iter()
            .zip(&seen.arguments)
            .map(|(name, value)| (*name, hex(value)))
            .collect();
    };
    let context = context::Context { call, seen, files, written };
    let mut words = Vec::with_capacity(call.arguments.len());
    for (index, argument) in call.arguments.iter().enumerate() {
        let mut out = String::new();
        context.argument(index, argument, &mut out);
        if !out.is_empty() {
            words.push((argument.name, out));
        }
    }
    words
}

/// Returns the name of a signal, as `SIGINT` or `SIGRT_2`.
pub fn signal_name(signal: i32) -> Option<Cow<'static, str>> {
    signal::name(signal)
}
