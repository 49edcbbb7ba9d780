//! Kinds of arguments of system calls, and of fields of structures.

use crate::call::{Extent, When};
use crate::context::Context;
use crate::words::Table;

/// Meaning of a number in a register or in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `int`: only the low 32 bits are used.
    Int,
    /// `unsigned int`.
    Uint,
    /// `long`.
    Long,
    /// `unsigned long`, `size_t`.
    Ulong,
    /// A number, shown in hexadecimal.
    Hex,
    /// An address whose target is not shown.
    Address,
    /// Permissions in octal, and the type of the file.
    Mode,
    /// A file descriptor, or `AT_FDCWD`.
    Fd,
    /// A signal number.
    Signal,
    /// A device number.
    Device,
    /// A number with one of these names.
    Name(Table),
    /// Flags, in the low 32 bits.
    Flags(Table),
    /// Flags, in 64 bits.
    Flags64(Table),
    /// A number with a name in the bits of the mask, and flags in the others.
    Mixed(u64, Table, Table),
    /// A NUL-terminated path, which is shown as a whole.
    Path,
    /// A NUL-terminated string.
    Text,
    /// Memory that the argument points to.
    Memory(When, Extent, Shape),
    /// Memory that the kernel changes: shown before and after.
    Both(&'static Item),
    /// A number whose meaning depends on other arguments. If the function writes nothing, the argument is left out.
    With(Write),
    /// Memory whose meaning depends on other arguments.
    MemoryWith(&'static [(When, Extent)], Write),
}

/// Writes an argument, given its index.
pub(crate) type Write = fn(&Context<'_>, usize, &mut String);

/// Presentation of copied memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// As a string.
    Bytes,
    /// As one item.
    One(&'static Item),
    /// As items in brackets, as many as were copied.
    Array(&'static Item),
    /// By this function.
    With(fn(&Context<'_>, &Memory<'_>, &mut String)),
}

/// Copied memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
    /// Size of the memory, which may exceed the size of the copy.
    pub length: u64,
}

/// Data in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item {
    /// A number of this many bytes.
    Number(u8, Kind),
    /// A structure.
    Struct(&'static Layout),
    /// A string in a field of this many bytes, up to its NUL.
    Chars(u16),
    /// Numbers in brackets.
    Numbers(u16, u8, Kind),
    /// This many bytes, written by the function.
    With(u16, fn(&Context<'_>, &[u8], &mut String)),
}

/// Size of a structure, and its fields that are shown.
#[derive(Debug)]
pub(crate) struct Layout {
    pub size: u16,
    pub fields: &'static [Field],
    /// True if some fields are left out, which `...` indicates.
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
    /// Returns true if 32-bit programs use the same layout: nothing in it is longer than 4 bytes.
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
    /// Returns true if the memory to copy has the same layout in 32-bit programs, except for the size of pointers to
    /// strings.
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

    /// Returns what has to be copied to show an argument of this kind; true if it is shown as a string.
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
