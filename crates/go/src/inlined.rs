//! Calls that Go's compiler inlined: the trees that the runtime finds them in, since Go 1.20.
//!
//! Each function that has any has a list of them among the data of functions (`go:func.*`), and a value by address says
//! which of them an instruction is of. Where these data are, only the description of the module says
//! (`runtime.moduledata`), whose fields differ from version to version: the word that leads to what looks like lists of
//! calls, for many functions, is taken for it.

use object::{Object, ObjectSegment};

use crate::layout::Form;
use crate::module::Module;
use crate::table::{Function, Place, Table};

/// Deeper nesting than this is damage.
const MOST_CALLS: usize = 256;

/// A row of a list: what it is, the name, an instruction of the caller, and the line where the function begins.
const ROW: usize = 16;

/// `FUNCDATA_InlTree`.
const TREE: usize = 3;

/// The lists of inlined calls of a file.
#[derive(Clone, Copy, Debug)]
pub struct InlineTrees<'a> {
    /// From where the data of functions begin.
    data: &'a [u8],
}

/// A function at an address: one that was really called, or one that was inlined into the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Its name, with package.
    pub name: &'a [u8],
    /// Where in it the address is, or the call of what was inlined into it.
    pub place: Option<Place<'a>>,
    /// The line on which it begins, if the table says it.
    pub start_line: Option<u32>,
}

impl<'a> InlineTrees<'a> {
    /// Finds the lists in a file, whose table this is. `None` if there are none, or of a form that is not known.
    pub fn find(elf: &object::File<'a>, table: Table<'a>) -> Option<Self> {
        // Where `gofunc` was in Go 1.20 to 1.27, and some more.
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

    /// True if the first calls in the lists of some functions are such as can be.
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

/// A call that was inlined.
struct Row<'a> {
    name: &'a [u8],
    /// An instruction at the place of the call, from the function's beginning.
    caller: u64,
    line: u32,
}

impl<'a> Function<'a> {
    /// The calls that were inlined at an address of this function, innermost first, and this function as the last one.
    /// `None` if the lists are damaged.
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
