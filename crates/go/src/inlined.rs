//! Calls inlined by Go's compiler, from the inline trees of Go's runtime, since Go 1.20.
//!
//! A function with inlined calls has an inline tree in the function data (`go:func.*`), and a pc-value table with the
//! index in the tree of each instruction's call. The address of the function data is only in the module data
//! (`runtime.moduledata`), whose fields differ between versions. Therefore the word is used whose target looks like
//! inline trees for many functions.

use object::{Object, ObjectSegment};

use crate::layout::Form;
use crate::module::Module;
use crate::table::{Function, Place, Table};

/// Maximum nesting; more than this is damage.
const MOST_CALLS: usize = 256;

/// Bytes per row of a tree: kind of function, name, an instruction of the caller, and the function's first line.
const ROW: usize = 16;

/// `FUNCDATA_InlTree`.
const TREE: usize = 3;

/// The inline trees of a file.
#[derive(Clone, Copy, Debug)]
pub struct InlineTrees<'a> {
    /// The file's contents from the start of the function data.
    data: &'a [u8],
}

/// A function active at an address: the called one, or one that was inlined into the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Name, with package.
    pub name: &'a [u8],
    /// Source position of the address, or of the call that was inlined into it.
    pub place: Option<Place<'a>>,
    /// First line of the function, if the table has it.
    pub start_line: Option<u32>,
}

impl<'a> InlineTrees<'a> {
    /// Finds the inline trees of the file that contains `table`. `None` if there are none, or if their form is not
    /// known.
    pub fn find(elf: &object::File<'a>, table: Table<'a>) -> Option<Self> {
        // Range of `gofunc` in Go 1.20 to 1.27, with a margin.
        const FIELDS: std::ops::Range<usize> = 38..52;
        if table.layout.form < Form::Go20 {
            return None;
        }
        let data_at = |address: u64| {
            elf.segments().find_map(|of| {
                let distance = usize::try_from(address.checked_sub(of.address())?).ok()?;
                of.data().ok()?.get(distance..).filter(|data| !data.is_empty())
            })
        };
        let module = Module::find(elf, table.layout.address, table.layout.names)?;
        let trees = module.words(FIELDS).iter().filter_map(|&word| data_at(word));
        trees.map(|data| Self { data }).find(|trees| trees.is_plausible(table))
    }

    /// Returns true if the first rows in the trees of some functions have plausible values.
    fn is_plausible(&self, table: Table<'a>) -> bool {
        const ENOUGH: usize = 200;
        let with_trees = table.functions().filter(|of| of.data(TREE).is_some());
        let mut any = false;
        with_trees.take(ENOUGH).all(|function| {
            any = true;
            let row = self.row(&function, 0);
            row.is_some_and(|row| row.caller < function.end - function.start && row.line > 0)
        }) && any
    }

    fn row(&self, function: &Function<'a>, index: usize) -> Option<Row<'a>> {
        let at = function.data(TREE)?.checked_add(index.checked_mul(ROW)?)?;
        let words = self.data.get(at..)?.first_chunk::<ROW>()?.as_chunks::<4>().0;
        let number = |word: usize| u32::try_from(i32::from_le_bytes(words[word])).ok();
        let name = function.name_at(number(1)? as usize)?;
        Some(Row { name, caller: number(2)?.into(), line: number(3)? })
    }
}

/// One row of an inline tree.
struct Row<'a> {
    name: &'a [u8],
    /// Offset from the start of the function of an instruction at the call.
    caller: u64,
    line: u32,
}

impl<'a> Function<'a> {
    /// Returns the inlined calls at an address of this function, innermost first, and this function last. `None` if the
    /// trees are damaged.
    pub fn calls(&self, trees: &InlineTrees<'a>, address: u64) -> Option<Vec<Call<'a>>> {
        let mut calls = Vec::new();
        let mut at = address;
        while let Some(index) = self.inlined_call(at) {
            let row = trees.row(self, index)?;
            let start_line = Some(row.line).filter(|&line| line > 0);
            calls.push(Call { name: row.name, place: self.place(at), start_line });
            at = self.start.checked_add(row.caller).filter(|&at| at < self.end)?;
            if calls.len() == MOST_CALLS {
                return None;
            }
        }
        let (name, start_line) = (self.name()?, self.start_line());
        calls.push(Call { name, place: self.place(at), start_line });
        Some(calls)
    }
}
