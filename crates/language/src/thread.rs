//! Variables of threads of a program or library ("ELF Handling For Thread-Local Storage", Ulrich Drepper, variant II).

use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, elf};
use pyrograph_event::interpreter::ThreadPlace;

use crate::file::File;

/// Bytes of a row in a thread's table of blocks: glibc's have a pointer and another word, musl's a pointer.
const GLIBC_ROW: u32 = 16;
const MUSL_ROW: u32 = 8;

/// How a variable is found. `None` if there is none of this name, or nothing leads to it.
pub(crate) fn thread_place(file: &File<'_>, name: &str) -> Option<ThreadPlace> {
    let offset = file.thread_symbol(name)?;
    let linked = file.image.linked();
    if linked.interpreter.is_some() || is_fixed(file) {
        // A program's own block ends at what `fs` points to.
        let (size, align) = file.image.thread_block()?;
        let size = size.checked_next_multiple_of(align.max(1))?;
        return Some(ThreadPlace::Thread(offset.wrapping_sub(size)));
    }
    let is_musl = linked.needed.iter().any(|library| library.starts_with(b"libc.musl"));
    let row = if is_musl { MUSL_ROW } else { GLIBC_ROW };
    // The dynamic linker writes the number of the library's block, or the distance of a variable, where code looks for it.
    let mut library = None;
    for (at, relocation) in file.image.elf().dynamic_relocations()? {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let symbol = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let table = file.image.elf().dynamic_symbol_table()?;
                Some(table.symbol_by_index(index).ok()?)
            }
            _ => None,
        };
        match r_type {
            elf::R_X86_64_TPOFF64 if symbol.as_ref().is_some_and(|s| s.name() == Ok(name)) => {
                return Some(ThreadPlace::ThreadAt(at));
            }
            // Of a variable of this very file.
            elf::R_X86_64_DTPMOD64 if symbol.as_ref().is_none_or(ObjectSymbol::is_definition) => {
                library = Some(ThreadPlace::Library { number_at: at, offset, row });
            }
            _ => {}
        }
    }
    library
}

/// A program that runs where it was linked for.
fn is_fixed(file: &File<'_>) -> bool {
    file.image.elf().kind() == object::ObjectKind::Executable
}
