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

/// Appends the arguments of a call with commas between them: `3</etc/passwd>, "root:x:0:0"..., 4096`. It is [`arguments`] without a
/// string for each.
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

/// Calls `each` with the name of each argument and what writes it.
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

/// Returns the name of a signal, as `SIGINT` or `SIGRT_2`.
pub fn signal_name(signal: i32) -> Option<Cow<'static, str>> {
    signal::name(signal)
}
