//! What an argument of a system call, or a field of a structure, is.

use crate::call::{Extent, When};
use crate::context::Context;
use crate::words::Table;

/// What a number in a register or in memory means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `int`, of which the low 32 bits count.
    Int,
    /// `unsigned int`.
    Uint,
    /// `long`.
    Long,
    /// `unsigned long`, `size_t`.
    Ulong,
    /// A number in hexadecimal.
    Hex,
    /// An address that is not followed.
    Address,
    /// Permissions, in octal, with the type of the file.
    Mode,
    /// A file descriptor, or `AT_FDCWD`.
    Fd,
    /// The number of a signal.
    Signal,
    /// A device number.
    Device,
    /// One of the names.
    Name(Table),
    /// Bits, in the low 32.
    Flags(Table),
    /// Bits, in 64.
    Flags64(Table),
    /// One of the names in the bits of the mask, and the rest bits.
    Mixed(u64, Table, Table),
    /// A path, up to its NUL, shown whole.
    Path,
    /// A string, up to its NUL.
    Text,
    /// Memory that the argument points at.
    Memory(When, Extent, Shape),
    /// Memory that the kernel changes: what was there before, and after.
    Both(&'static Item),
    /// A number whose meaning depends on the rest of the call. What writes nothing is left out of the call.
    With(Write),
    /// Memory whose meaning depends on the rest of the call.
    MemoryWith(&'static [(When, Extent)], Write),
}

/// Writes an argument, given its index.
pub(crate) type Write = fn(&Context<'_>, usize, &mut String);

/// How copied memory is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// As a string.
    Bytes,
    /// As one thing.
    One(&'static Item),
    /// As things in brackets, as many as were copied.
    Array(&'static Item),
    /// By a function of its own.
    With(fn(&Context<'_>, &Memory<'_>, &mut String)),
}

/// Memory as it was copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
    /// What there was to copy.
    pub length: u64,
}

/// What lies in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item {
    /// A number of so many bytes.
    Number(u8, Kind),
    /// A structure.
    Struct(&'static Layout),
    /// A string in a field of so many bytes, up to its NUL.
    Chars(u16),
    /// Numbers in brackets.
    Numbers(u16, u8, Kind),
    /// So many bytes that a function of their own shows.
    With(u16, fn(&Context<'_>, &[u8], &mut String)),
}

/// The fields of a structure that are shown.
#[derive(Debug)]
pub(crate) struct Layout {
    pub size: u16,
    pub fields: &'static [Field],
    /// True if some fields are left out: `...` follows.
    pub more: bool,
}

/// A field of a structure.
#[derive(Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    pub at: u16,
    pub item: Item,
}

impl Item {
    /// Returns true if it is laid out in 32-bit programs as in others: nothing in it is longer than 4 bytes.
    fn is_alike(&self) -> bool {
        match *self {
            Item::Number(size, _) | Item::Numbers(_, size, _) => size <= 4,
            Item::Chars(_) => true,
            Item::Struct(layout) => {
                !layout.more && layout.fields.iter().all(|field| field.item.is_alike())
            }
            Item::With(..) => false,
        }
    }

    pub(crate) const fn size(&self) -> usize {
        match *self {
            Item::Number(size, _) => size as usize,
            Item::Struct(layout) => layout.size as usize,
            Item::Chars(size) | Item::With(size, _) => size as usize,
            Item::Numbers(count, size, _) => count as usize * size as usize,
        }
    }
}

impl Kind {
    /// Returns true if what has to be copied is laid out in 32-bit programs as in others, but for the size of pointers to strings.
    pub(crate) fn is_alike(&self) -> bool {
        let is_counted = |extent| {
            matches!(
                extent,
                Extent::Argument { .. } | Extent::Result { .. } | Extent::Pointed { .. }
            )
        };
        match *self {
            Kind::Path | Kind::Text | Kind::Memory(_, Extent::Text | Extent::Strings, _) => true,
            Kind::Memory(_, _, Shape::One(item) | Shape::Array(item)) | Kind::Both(item) => {
                item.is_alike()
            }
            Kind::Memory(_, extent, Shape::Bytes | Shape::With(_)) => is_counted(extent),
            Kind::MemoryWith(copies, _) => copies.iter().all(|(_, extent)| is_counted(*extent)),
            _ => false,
        }
    }

    /// Returns what has to be copied to show an argument of this kind, and whether it is shown as a string.
    pub(crate) fn copies(&self) -> [Option<(When, Extent, bool)>; 2] {
        match *self {
            Kind::Path => [Some((When::Entry, Extent::Text, false)), None],
            Kind::Text => [Some((When::Entry, Extent::Text, true)), None],
            Kind::Memory(when, extent, shape) => {
                let pieces = matches!(
                    extent,
                    Extent::Strings
                        | Extent::Vector { .. }
                        | Extent::Message
                        | Extent::Messages { .. }
                );
                [Some((when, extent, pieces || matches!(shape, Shape::Bytes))), None]
            }
            Kind::Both(item) => {
                let extent = Extent::Fixed(item.size() as u32);
                [Some((When::Entry, extent, false)), Some((When::Exit, extent, false))]
            }
            Kind::MemoryWith(copies, _) => {
                let one =
                    |index: usize| copies.get(index).map(|&(when, extent)| (when, extent, false));
                [one(0), one(1)]
            }
            _ => [None, None],
        }
    }
}
