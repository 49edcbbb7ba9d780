#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout))]

mod call;
mod compat;
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
pub use compat::{compat_alike, compat_name, compat_same};
pub use descriptors::Descriptors;
pub use error::{error_name, error_text};
pub use group::{GROUPS, group};
pub use numbers::{all, by_number, number_of, number_of_tracepoint, tracepoint_name};
pub use pieces::{Piece, pieces, push_piece};
pub use result::{result, write_result};

/// A traced system call, with the memory copied from the program.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Number on this architecture.
    pub number: u32,
    /// Registers with the arguments.
    pub arguments: [u64; 6],
    /// Result, negative for an error; `None` while the call runs, and if it does not return.
    pub result: Option<i64>,
    /// Copied memory. Anything missing is shown as an address.
    pub copied: &'a [Copied<'a>],
}

/// Memory of the program, copied for one of [`Call::copies`].
#[derive(Debug, Clone, Copy)]
pub struct Copied<'a> {
    /// Index into [`Call::copies`].
    pub copy: usize,
    /// Copied bytes.
    pub bytes: &'a [u8],
    /// Size of the memory in bytes: more than `bytes` has if that is truncated. For a string, one more is enough.
    pub length: u64,
}

/// Limits for the length of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Maximum number of bytes of a string, except a path; `...` follows if it is longer.
    pub text: usize,
    /// Maximum number of elements of an array; `...` follows if there are more.
    pub items: usize,
}

impl Default for Written {
    fn default() -> Self {
        Self { text: 32, items: 32 }
    }
}

/// The files behind a process's descriptors.
pub trait Files {
    /// Returns the path of a file, or the link in `/proc/PID/fd`: `socket:[1234]`.
    fn name(&self, descriptor: i32) -> Option<Cow<'_, str>>;
}

/// Knows no file names.
impl Files for () {
    fn name(&self, _: i32) -> Option<Cow<'_, str>> {
        None
    }
}

/// Returns the arguments of a call as text, each with its name. Arguments that the call does not use are left out. The
/// arguments of an unknown call are shown as numbers.
pub fn arguments(
    seen: &Seen<'_>,
    files: &dyn Files,
    written: &Written,
) -> Vec<(&'static str, String)> {
    let mut words = Vec::with_capacity(6);
    each_argument(seen, files, written, |name, write| {
        let mut word = String::new();
        write(&mut word);
        if !word.is_empty() {
            words.push((name, word));
        }
    });
    words
}

/// Appends the arguments of a call, separated by commas: `3</etc/passwd>, "root:x:0:0"..., 4096`. Same as
/// [`arguments`], without a string for each.
pub fn write_arguments(seen: &Seen<'_>, files: &dyn Files, written: &Written, out: &mut String) {
    let start = out.len();
    each_argument(seen, files, written, |_, write| {
        let before = out.len();
        if before > start {
            out.push_str(", ");
        }
        let from = out.len();
        write(out);
        if out.len() == from {
            out.truncate(before);
        }
    });
}

/// Calls `each` with the name of each argument and a function that writes it.
fn each_argument(
    seen: &Seen<'_>,
    files: &dyn Files,
    written: &Written,
    mut each: impl FnMut(&'static str, &mut dyn FnMut(&mut String)),
) {
    const NAMES: [&str; 6] = ["arg1", "arg2", "arg3", "arg4", "arg5", "arg6"];
    let Some(call) = by_number(seen.number) else {
        for (name, value) in NAMES.into_iter().zip(seen.arguments) {
            each(name, &mut |out| context::hex(value, out));
        }
        return;
    };
    let context = context::Context { call, seen, files, written };
    for (index, argument) in call.arguments.iter().enumerate() {
        each(argument.name, &mut |out| context.argument(index, argument, out));
    }
}

/// Returns the name of a signal, such as `SIGINT` or `SIGRT_2`.
pub fn signal_name(signal: i32) -> Option<Cow<'static, str>> {
    signal::name(signal)
}
