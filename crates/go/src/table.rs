//! Functions in the table.

use std::ops::Range;

use crate::layout::{Form, Layout};
use crate::steps::Steps;

/// The function table of a file.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) bytes: &'a [u8],
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    table: Table<'a>,
    /// Virtual address of its first byte.
    pub start: u64,
    /// Start of the next function; padding in between belongs to this one.
    pub end: u64,
    /// Offset of the function's data in the table.
    at: usize,
}

/// A position in source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Name of the file; not always UTF-8.
    pub file: &'a [u8],
    /// Line number, from 1.
    pub line: u32,
}

impl<'a> Table<'a> {
    /// Returns all functions, sorted by address; damaged entries are left out.
    pub fn functions(self) -> impl Iterator<Item = Function<'a>> {
        (0..self.layout.count).filter_map(move |at| self.function(at))
    }

    /// Returns the function that contains an address.
    pub fn lookup(self, address: u64) -> Option<Function<'a>> {
        let (mut low, mut high) = (0, self.layout.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.address(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?).filter(|function| address < function.end)
    }

    fn function(self, number: usize) -> Option<Function<'a>> {
        let (start, end) = (self.address(number)?, self.address(number + 1)?);
        let at = match self.layout.is_relative() {
            true => self.u32(self.row(number)?.checked_add(4)?)? as usize,
            false => usize::try_from(self.u64(self.row(number)?.checked_add(8)?)?).ok()?,
        };
        let at = self.layout.functions.checked_add(at)?;
        (start < end).then_some(Function { table: self, start, end, at })
    }

    /// Returns the offset of a function's row in the index. The row after the last one contains its end.
    fn row(self, number: usize) -> Option<usize> {
        let size = if self.layout.is_relative() { 8 } else { 16 };
        self.layout.index.checked_add(number.checked_mul(size)?)
    }

    fn address(self, number: usize) -> Option<u64> {
        let row = self.row(number)?;
        match self.layout.is_relative() {
            true => self.layout.text.checked_add(self.u32(row)?.into()),
            false => self.u64(row),
        }
    }

    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// Reads a zero-terminated string.
    fn text(self, base: usize, at: usize) -> Option<&'a [u8]> {
        const LONGEST: usize = 1 << 16;
        let rest = self.bytes.get(base.checked_add(at)?..)?;
        let rest = &rest[..rest.len().min(LONGEST)];
        rest.iter().position(|&byte| byte == 0).map(|end| &rest[..end])
    }
}

impl<'a> Function<'a> {
    /// Returns its name, with package: `net/http.(*conn).serve`.
    pub fn name(&self) -> Option<&'a [u8]> {
        self.name_at(usize::try_from(self.field(0)?).ok()?)
    }

    /// Returns the frame size for each range of its instructions: the number of bytes that the stack pointer is below
    /// its value at the call, without the return address. Empty if the table has none. For assembly functions that
    /// switch stacks, the sizes ignore the switch.
    pub fn frame_sizes(&self) -> impl Iterator<Item = (Range<u64>, i32)> + use<'a> {
        self.steps(3).into_iter().flatten()
    }

    /// Returns the frame size at an address.
    pub fn frame_size(&self, address: u64) -> Option<i32> {
        self.steps(3)?.at(address)
    }

    /// Returns its first line; `None` if the table does not have it, as before Go 1.20.
    pub fn start_line(&self) -> Option<u32> {
        let line = (self.table.layout.form >= Form::Go20).then(|| self.field(8))??;
        u32::try_from(line).ok().filter(|&line| line > 0)
    }

    /// Returns true if the code at an address belongs to a call that was inlined into this function.
    pub fn is_inlined(&self, address: u64) -> bool {
        self.inlined_call(address).is_some()
    }

    /// Returns the index in the function's inline tree of the code at an address.
    pub(crate) fn inlined_call(&self, address: u64) -> Option<usize> {
        // PCDATA_InlTreeIndex; -1 means none.
        const INLINED: usize = 2;
        let first = match self.table.layout.form {
            Form::Go2 => 8,
            Form::Go16 | Form::Go18 => 9,
            Form::Go20 => 10,
        };
        self.field(6).filter(|&tables| tables > INLINED as i32)?;
        usize::try_from(self.steps(first + INLINED)?.at(address)?).ok()
    }

    /// Returns the offset of the function data of this kind, relative to the start of all function data (since Go
    /// 1.20).
    pub(crate) fn data(&self, kind: usize) -> Option<usize> {
        const NONE: u32 = u32::MAX;
        let count = (self.field(9)? as u32 >> 24) as usize;
        let before = usize::try_from(self.field(6)?).ok()?;
        let at = 10_usize.checked_add(before)?.checked_add(kind).filter(|_| kind < count)?;
        self.field(at).map(|at| at as u32).filter(|&at| at != NONE).map(|at| at as usize)
    }

    /// Returns a name from the table.
    pub(crate) fn name_at(&self, at: usize) -> Option<&'a [u8]> {
        self.table.text(self.table.layout.names, at).filter(|name| !name.is_empty())
    }

    /// Returns the source position of the code at an address. It is in another function if the code [is
    /// inlined](Self::is_inlined).
    pub fn place(&self, address: u64) -> Option<Place<'a>> {
        let line = u32::try_from(self.steps(5)?.at(address)?).ok()?;
        let number = usize::try_from(self.steps(4)?.at(address)?).ok()?;
        let (table, layout) = (self.table, self.table.layout);
        let file = if layout.form == Form::Go2 {
            let row = layout.files.checked_add(number.checked_mul(4)?)?;
            table.text(0, table.u32(row)? as usize)?
        } else {
            const NONE: u32 = u32::MAX;
            let unit = usize::try_from(self.field(7)?).ok()?;
            let row = layout.units.checked_add(unit.checked_add(number)?.checked_mul(4)?)?;
            let at = table.u32(row).filter(|&at| at != NONE)?;
            table.text(layout.files, at as usize)?
        };
        Some(Place { file, line })
    }

    /// Returns one of the 32-bit fields after the address: 0 name, 3 frame sizes, 4 files, 5 lines, 6 number of further
    /// pc-value tables, 7 compilation unit, 8 first line of the function (since Go 1.20).
    fn field(&self, number: usize) -> Option<i32> {
        let address = if self.table.layout.is_relative() { 4 } else { 8 };
        let at = self.at.checked_add(number.checked_mul(4)?.checked_add(address)?)?;
        self.table.u32(at).map(|value| value as i32)
    }

    /// Returns the pc-value table at the offset in this field; 0 means none.
    fn steps(&self, field: usize) -> Option<Steps<'a>> {
        let at = usize::try_from(self.field(field)?).ok().filter(|&at| at != 0)?;
        let at = self.table.layout.steps.checked_add(at)?;
        let bytes = self.table.bytes.get(at..)?;
        Some(Steps::new(bytes, self.start, self.table.layout.quantum))
    }
}
