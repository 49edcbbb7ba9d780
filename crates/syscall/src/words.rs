//! Names of numbers and bits.

pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod ioctl;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod time;
pub(crate) mod tracing;

/// Names and their values. In tables of flags, names of several bits come first.
pub(crate) type Table = &'static [(u64, &'static str)];

/// Declares tables, each with the header that it is from.
macro_rules! words {
    ($($(#[$doc:meta])* $table:ident { $($name:ident = $value:expr,)* })*) => {
        $($(#[$doc])* pub(crate) const $table: $crate::words::Table = &[$(($value, stringify!($name))),*];)*
    };
}
pub(crate) use words;

/// No names: all bits are shown as a number.
pub(crate) const NONE: Table = &[];

pub(crate) fn name_of(table: Table, value: u64) -> Option<&'static str> {
    table.iter().find(|&&(one, _)| one == value).map(|&(_, name)| name)
}
