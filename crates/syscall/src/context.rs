//! A traced call, and functions that write its arguments.

use std::fmt::Write;

use crate::call::{Argument, Call, When};
use crate::kind::{Item, Kind, Layout, Memory, Shape};
use crate::text::quoted;
use crate::words::{Table, files::MODES, name_of};
use crate::{Files, Seen, Written, signal};

/// A call, with everything needed to write it.
pub(crate) struct Context<'a> {
    pub call: &'static Call,
    pub seen: &'a Seen<'a>,
    pub files: &'a dyn Files,
    pub written: &'a Written,
}

impl Context<'_> {
    pub(crate) fn raw(&self, argument: usize) -> u64 {
        self.seen.arguments.get(argument).copied().unwrap_or(0)
    }

    /// Returns the result if the call has succeeded.
    pub(crate) fn success(&self) -> Option<i64> {
        self.seen.result.filter(|result| !(-4095..0).contains(result))
    }

    /// Returns the copy of the memory that an argument points to. A failed call has not written any.
    pub(crate) fn memory(&self, argument: usize, when: When) -> Option<Memory<'_>> {
        let address = self.raw(argument);
        if address == 0 || when == When::Exit && self.success().is_none() {
            return None;
        }
        let wanted =
            |copy: crate::Copy| usize::from(copy.argument) == argument && copy.when == when;
        let index = self.call.each_copy().position(wanted)?;
        let copied = self.seen.copied.iter().find(|copied| copied.copy == index)?;
        let bytes = copied.bytes;
        Some(Memory { address, bytes, length: copied.length.max(bytes.len() as u64) })
    }

    /// Writes an argument. If it is not to be shown, `out` stays as it is.
    pub(crate) fn argument(&self, index: usize, argument: &Argument, out: &mut String) {
        let raw = self.raw(index);
        match argument.kind {
            Kind::Path | Kind::Text => match self.memory(index, When::Entry) {
                Some(memory) => {
                    let longest = match argument.kind {
                        Kind::Path => usize::MAX,
                        _ => self.written.text,
                    };
                    let cut = memory.length > memory.bytes.len() as u64;
                    let text = until_nul(memory.bytes);
                    quoted(text, longest, cut && text.len() == memory.bytes.len(), out);
                }
                None => address(raw, out),
            },
            Kind::Memory(when, _, shape) => match self.memory(index, when) {
                Some(memory) => self.shape(shape, &memory, out),
                None => address(raw, out),
            },
            Kind::Both(item) => self.both(index, item, out),
            Kind::With(write) | Kind::MemoryWith(_, write) => write(self, index, out),
            ref kind => self.value(kind, raw, out),
        }
    }

    fn both(&self, index: usize, item: &Item, out: &mut String) {
        let before = self.memory(index, When::Entry);
        let after = self.memory(index, When::Exit);
        let (first, second) = match (before, after) {
            (Some(before), after) => (before, after.filter(|after| after.bytes != before.bytes)),
            (None, Some(after)) => (after, None),
            (None, None) => return address(self.raw(index), out),
        };
        self.item(item, first.bytes, out);
        if let Some(second) = second {
            // For a number in brackets, the change is shown inside them: `[128 => 16]`.
            let inside = matches!(item, Item::Numbers(1, ..)) && out.ends_with(']');
            if inside {
                out.pop();
            }
            out.push_str(" => ");
            let start = out.len();
            self.item(item, second.bytes, out);
            if inside {
                out.remove(start);
            }
        }
    }

    fn shape(&self, shape: Shape, memory: &Memory<'_>, out: &mut String) {
        match shape {
            Shape::Bytes => {
                quoted(
                    memory.bytes,
                    self.written.text,
                    memory.length > memory.bytes.len() as u64,
                    out,
                );
            }
            Shape::One(item) => self.item(item, memory.bytes, out),
            Shape::Array(item) => self.array(item, memory, out),
            Shape::With(write) => write(self, memory, out),
        }
    }

    pub(crate) fn array(&self, item: &Item, memory: &Memory<'_>, out: &mut String) {
        let size = item.size().max(1);
        let mut separated = Separated::new('[', out);
        for (index, bytes) in memory.bytes.chunks_exact(size).enumerate() {
            if index == self.written.items {
                break;
            }
            self.item(item, bytes, separated.next());
        }
        let shown = (memory.bytes.len() / size).min(self.written.items);
        if memory.length / size as u64 > shown as u64 {
            separated.next().push_str("...");
        }
        separated.close(']');
    }

    pub(crate) fn item(&self, item: &Item, bytes: &[u8], out: &mut String) {
        match *item {
            Item::Number(size, ref kind) => match number(bytes, 0, usize::from(size)) {
                Some(value) => self.value(kind, value, out),
                None => out.push_str("..."),
            },
            Item::Struct(layout) => self.structure(layout, bytes, out),
            Item::Chars(size) => {
                let field = bytes.get(..usize::from(size)).unwrap_or(bytes);
                quoted(until_nul(field), usize::MAX, false, out);
            }
            Item::Numbers(count, size, ref kind) => {
                let mut separated = Separated::new('[', out);
                for index in 0..usize::from(count) {
                    match number(bytes, index * usize::from(size), usize::from(size)) {
                        Some(value) => self.value(kind, value, separated.next()),
                        None => {
                            separated.next().push_str("...");
                            break;
                        }
                    }
                }
                separated.close(']');
            }
            Item::With(_, write) => write(self, bytes, out),
        }
    }

    fn structure(&self, layout: &Layout, bytes: &[u8], out: &mut String) {
        let mut separated = Separated::new('{', out);
        let mut more = layout.more;
        for field in layout.fields {
            let at = usize::from(field.at);
            let Some(bytes) = bytes.get(at..at + field.item.size()) else {
                more = true;
                break;
            };
            let out = separated.next();
            out.push_str(field.name);
            out.push('=');
            self.item(&field.item, bytes, out);
        }
        if more {
            separated.next().push_str("...");
        }
        separated.close('}');
    }

    /// Writes a number of a kind that needs no memory.
    pub(crate) fn value(&self, kind: &Kind, raw: u64, out: &mut String) {
        let low = raw & 0xffff_ffff;
        match *kind {
            Kind::Int => put(out, format_args!("{}", raw as i32)),
            Kind::Uint => put(out, format_args!("{low}")),
            Kind::Long => put(out, format_args!("{}", raw as i64)),
            Kind::Ulong => put(out, format_args!("{raw}")),
            Kind::Hex => hex(raw, out),
            Kind::Mode => mode(low, out),
            Kind::Fd => self.descriptor(raw as i32, out),
            Kind::Signal => match signal::name(raw as i32) {
                Some(name) => out.push_str(&name),
                None => put(out, format_args!("{}", raw as i32)),
            },
            Kind::Device => device(raw, out),
            Kind::Name(table) => one_of(table, low, out),
            Kind::Flags(table) => flags(table, low, out),
            Kind::Flags64(table) => flags(table, raw, out),
            Kind::Mixed(mask, names, bits) => {
                one_of(names, low & mask, out);
                if low & !mask != 0 {
                    out.push('|');
                    flags(bits, low & !mask, out);
                }
            }
            Kind::Address
            | Kind::Path
            | Kind::Text
            | Kind::Memory(..)
            | Kind::Both(_)
            | Kind::With(_)
            | Kind::MemoryWith(..) => address(raw, out),
        }
    }

    pub(crate) fn descriptor(&self, descriptor: i32, out: &mut String) {
        if descriptor == -100 {
            return out.push_str("AT_FDCWD");
        }
        put(out, format_args!("{descriptor}"));
        if let Some(name) = self.files.name(descriptor).filter(|_| descriptor >= 0) {
            out.push('<');
            crate::text::escaped(name.as_bytes(), out);
            out.push('>');
        }
    }
}

/// Writes elements separated by commas, in brackets.
pub(crate) struct Separated<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Separated<'a> {
    pub(crate) fn new(open: char, out: &'a mut String) -> Self {
        out.push(open);
        Self { out, first: true }
    }

    pub(crate) fn next(&mut self) -> &mut String {
        if !std::mem::take(&mut self.first) {
            self.out.push_str(", ");
        }
        self.out
    }

    pub(crate) fn close(self, close: char) {
        self.out.push(close);
    }
}

/// Reads a number of 1, 2, 4 or 8 bytes.
pub(crate) fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let from = bytes.get(at..at.checked_add(size)?)?;
    let mut all = [0; 8];
    all.get_mut(..size)?.copy_from_slice(from);
    Some(u64::from_le_bytes(all))
}

pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

pub(crate) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

pub(crate) fn address(raw: u64, out: &mut String) {
    match raw {
        0 => out.push_str("NULL"),
        _ => put(out, format_args!("{raw:#x}")),
    }
}

pub(crate) fn hex(raw: u64, out: &mut String) {
    match raw {
        0 => out.push('0'),
        _ => put(out, format_args!("{raw:#x}")),
    }
}

pub(crate) fn device(raw: u64, out: &mut String) {
    let major = (raw >> 8) & 0xfff | (raw >> 32) & 0xffff_f000;
    let minor = raw & 0xff | (raw >> 12) & 0xffff_ff00;
    out.push_str("makedev(");
    hex(major, out);
    out.push_str(", ");
    hex(minor, out);
    out.push(')');
}

/// Writes the type of a file and its permissions, such as `S_IFREG|0644`.
pub(crate) fn mode(raw: u64, out: &mut String) {
    let Some(name) = name_of(MODES, raw & 0o170_000) else {
        return put(out, format_args!("0{raw:02o}"));
    };
    out.push_str(name);
    for (bit, name) in [(0o4000, "|S_ISUID"), (0o2000, "|S_ISGID"), (0o1000, "|S_ISVTX")] {
        if raw & bit != 0 {
            out.push_str(name);
        }
    }
    put(out, format_args!("|0{:02o}", raw & 0o777));
}

pub(crate) fn one_of(table: Table, raw: u64, out: &mut String) {
    match name_of(table, raw) {
        Some(name) => out.push_str(name),
        None => hex(raw, out),
    }
}

/// Writes the names of bits, and the rest in hexadecimal.
pub(crate) fn flags(table: Table, raw: u64, out: &mut String) {
    let mut rest = raw;
    for &(bits, name) in table {
        if rest & bits == bits && bits != 0 {
            if rest != raw {
                out.push('|');
            }
            out.push_str(name);
            rest &= !bits;
        }
    }
    if rest != 0 || raw == 0 {
        if rest != raw {
            out.push('|');
        }
        hex(rest, out);
    }
}
