//! Calls that Go's compiler inlined: the trees that the runtime finds them in, since Go 1.20.
//!
//! Each function that has any has a list of them among the data of functions (`go:func.*`), and a value by address says
//! which of them an instruction is of. Where these data are, only the description of the module says
//! (`runtime.moduledata`), whose fields differ from version to version: the word that leads to what looks like lists of
//! calls, for many functions, is taken for it.

use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::layout::{Form, Layout};
use crate::table::{Function, Place};

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
    /// Finds the lists in the bytes of a file, whose table is `layout`'s. `None` if there are none, or of a form that is
    /// not known.
    pub fn find(file: &'a [u8], layout: &'a Layout) -> Option<Self> {
        // Where `gofunc` was in Go 1.20 to 1.27, and some more.
        const FIELDS: std::ops::Range<usize> = 38..52;
        if layout.form < Form::Go20 {
            return None;
        }
        let endian = LittleEndian;
        let header = elf::FileHeader64::<LittleEndian>::parse(file).ok()?;
        let segments = header.program_headers(endian, file).ok()?;
        let at = |address: u64| {
            segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(
                |of| {
                    let distance = address.checked_sub(of.p_vaddr(endian))?;
                    (distance < of.p_filesz(endian)).then_some(())?;
                    usize::try_from(of.p_offset(endian).checked_add(distance)?).ok()
                },
            )
        };
        let sections = header.sections(endian, file).ok()?;
        let range = layout.range();
        let table = sections.iter().find(|section| {
            section.file_range(endian).is_some_and(|(start, _)| start == range.start as u64)
        })?;
        // The module begins with the address of the table, and then that of the names in it.
        let table_at = table.sh_addr(endian);
        let begin = [table_at, table_at.checked_add(layout.names as u64)?].map(u64::to_le_bytes);
        for section in sections.iter() {
            let flags = section.sh_flags(endian);
            let is_data = flags.contains(elf::SHF_ALLOC) && !flags.contains(elf::SHF_EXECINSTR);
            let is_table = section.sh_addr(endian) == table_at;
            if section.sh_type(endian) != elf::SHT_PROGBITS || !is_data || is_table {
                continue;
            }
            let Ok(data) = section.data(endian, file) else { continue };
            let words = data.as_chunks::<8>().0;
            let modules = words.windows(2).enumerate().filter(|(_, pair)| **pair == begin);
            let found = modules.flat_map(|(module, _)| words.get(module..)?.get(FIELDS));
            for word in found.flatten() {
                let data = at(u64::from_le_bytes(*word)).and_then(|at| file.get(at..));
                let trees = data.map(|data| Self { data });
                if let Some(trees) = trees.filter(|trees| trees.is_plausible(layout, file)) {
                    return Some(trees);
                }
            }
        }
        None
    }

    /// True if the first calls in the lists of some functions are such as can be.
    fn is_plausible(&self, layout: &'a Layout, file: &'a [u8]) -> bool {
        const ENOUGH: usize = 200;
        let with_trees = layout.table(file).functions().filter(|of| of.data(TREE).is_some());
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
