//! Thread-local variables of a program or library ("ELF Handling For Thread-Local Storage", Ulrich Drepper, variant
//! II).

use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, elf};
use pyrograph_event::interpreter::ThreadPlace;

use crate::file::File;

/// Bytes per entry of a thread's dynamic thread vector: glibc's have a pointer and another word, musl's a pointer.
const GLIBC_ROW: u32 = 16;
const MUSL_ROW: u32 = 8;

/// Offset from the thread pointer (`fs`) at which glibc has the values of the first pthread keys (`specific_1stblock`
/// of `struct pthread`, from 2.10 on).
pub(crate) const GLIBC_VALUES: u64 = 0x310;

/// Returns how a thread-local variable is found. `None` if there is none of this name, or if its location cannot be
/// determined.
pub(crate) fn thread_place(file: &File<'_>, name: &str) -> Option<ThreadPlace> {
    let offset = file.thread_symbol(name)?;
    let linked = file.image.linked();
    if linked.interpreter.is_some() || is_fixed(file) {
        // The thread-local storage block of a program ends at the thread pointer.
        let (size, align) = file.image.thread_block()?;
        let size = size.checked_next_multiple_of(align.max(1))?;
        return Some(ThreadPlace::Thread(offset.wrapping_sub(size)));
    }
    let row = row(file);
    // The dynamic linker writes the module ID of the library, or the offset of a variable, to a place that code reads.
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
            // Relocation for a variable of this file.
            elf::R_X86_64_DTPMOD64 if symbol.as_ref().is_none_or(|s| !s.is_undefined()) => {
                library = Some(ThreadPlace::Library { number_at: at, offset, row });
            }
            _ => {}
        }
    }
    library
}

/// Returns the bytes per entry of a thread's dynamic thread vector, by the C library that a file needs.
fn row(file: &File<'_>) -> u32 {
    let linked = file.image.linked();
    if linked.needed.iter().any(|library| is_musl(library)) { MUSL_ROW } else { GLIBC_ROW }
}

/// musl is `libc.so`, or `libc.musl-x86_64.so.1` on Alpine; glibc is `libc.so.6`.
fn is_musl(library: &[u8]) -> bool {
    library == b"libc.so" || library.starts_with(b"libc.musl")
}

/// Returns true for a program that runs at the address it was linked for.
fn is_fixed(file: &File<'_>) -> bool {
    file.image.elf().kind() == object::ObjectKind::Executable
}

/// Upper limit for the length of the functions that are decoded, in bytes.
const LONGEST: usize = 48;

/// Finds the thread-local variable whose value a function returns, or starts from. `None` if the code has another form.
pub(crate) fn place_by_code(file: &File<'_>, function: &str) -> Option<ThreadPlace> {
    let start = file.symbol(function)?;
    let number = |at| file.u64(at);
    place_in_code(start, file.first_bytes(start, LONGEST)?, row(file), &number)
}

/// Finds the thread-local variable whose offset from the thread pointer a function returns.
pub(crate) fn place_by_distance(file: &File<'_>, function: &str) -> Option<ThreadPlace> {
    let start = file.symbol(function)?;
    distance_in_code(start, file.first_bytes(start, LONGEST)?)
}

/// Decodes `code`. `number` reads a word of the file.
fn place_in_code(
    start: u64,
    code: &[u8],
    row: u32,
    number: &dyn Fn(u64) -> Option<u64>,
) -> Option<ThreadPlace> {
    let (mut at, mut key) = (None, None);
    let mut calls = false;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter().take(10) {
        let into = instruction.op0_register();
        let of_thread = instruction.segment_prefix() == Register::FS;
        match (instruction.mnemonic(), instruction.memory_base()) {
            (Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Push | Mnemonic::Pop, _) => {}
            (Mnemonic::Sub | Mnemonic::Add, Register::None) => {}
            // The variable is in the program's block.
            (Mnemonic::Mov, Register::None) if of_thread && into == Register::RAX => {
                return Some(ThreadPlace::Thread(instruction.memory_displacement64()));
            }
            // The word that was read is the offset of the variable.
            (Mnemonic::Mov, Register::RAX) if of_thread && into == Register::RAX => {
                return Some(ThreadPlace::ThreadAt(at?));
            }
            (Mnemonic::Mov, Register::RIP) if into == Register::EDI => {
                key = Some(instruction.ip_rel_memory_address());
            }
            (Mnemonic::Mov | Mnemonic::Lea, Register::RIP) => {
                at = Some(instruction.ip_rel_memory_address());
            }
            // `pthread_getspecific`.
            (Mnemonic::Call | Mnemonic::Jmp, _) if key.is_some() && row == GLIBC_ROW => {
                return Some(ThreadPlace::Key { key_at: key?, values: GLIBC_VALUES });
            }
            (Mnemonic::Call, _) => calls = true,
            // `__tls_get_addr` was called with the address of the library's module ID, which is followed by the offset
            // in its block.
            (Mnemonic::Mov, Register::RAX) if calls && into == Register::RAX => {
                let number_at = at?;
                let offset = number(number_at.checked_add(8)?)?;
                return Some(ThreadPlace::Library { number_at, offset, row });
            }
            _ => return None,
        }
    }
    None
}

fn distance_in_code(start: u64, code: &[u8]) -> Option<ThreadPlace> {
    let mut place = None;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter().take(4) {
        let into_result = instruction.op0_register() == Register::RAX;
        match (instruction.mnemonic(), instruction.memory_base()) {
            (Mnemonic::Endbr64 | Mnemonic::Nop, _) => {}
            (Mnemonic::Mov, Register::RIP) if into_result => {
                place = Some(ThreadPlace::ThreadAt(instruction.ip_rel_memory_address()));
            }
            (Mnemonic::Mov, Register::None) if into_result => {
                place = Some(ThreadPlace::Thread(instruction.try_immediate(1).ok()?));
            }
            // An offset of 0 means that there is none.
            (Mnemonic::Ret, _) => return place.filter(|place| *place != ThreadPlace::Thread(0)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(code: &[u8], row: u32) -> Option<ThreadPlace> {
        place_in_code(0x1000, code, row, &|at| (at == 0x1113).then_some(8))
    }

    #[test]
    fn variables_of_threads_are_found_in_code() {
        // mov rax, fs:[-0x18]
        let own = [0x64, 0x48, 0x8b, 0x04, 0x25, 0xe8, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(place(&own, GLIBC_ROW), Some(ThreadPlace::Thread(-0x18i64 as u64)));
        // mov rax, [rip + 0x100]; mov rax, fs:[rax]
        let at = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x64, 0x48, 0x8b, 0, 0xc3];
        assert_eq!(place(&at, GLIBC_ROW), Some(ThreadPlace::ThreadAt(0x1107)));
        // endbr64; sub rsp, 8; data16 lea rdi, [rip + 0xfb]; data16 data16 rex.W call; mov rax, [rax]
        let library = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8, 0x66, 0x48, 0x8d, 0x3d, 0xfb, 0, 0, 0,
            0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0, 0xc3,
        ];
        let expected = ThreadPlace::Library { number_at: 0x110b, offset: 8, row: MUSL_ROW };
        assert_eq!(place(&library, MUSL_ROW), Some(expected));
        // mov edi, [rip + 0x100]; jmp
        let key = [0x8b, 0x3d, 0, 1, 0, 0, 0xe9, 0, 0, 0, 0];
        let expected = ThreadPlace::Key { key_at: 0x1106, values: GLIBC_VALUES };
        assert_eq!(place(&key, GLIBC_ROW), Some(expected));
        // musl keeps the values elsewhere.
        assert_eq!(place(&key, MUSL_ROW), None);
        // Something else; nothing.
        assert_eq!(place(&[0x31, 0xc0, 0xc3], GLIBC_ROW), None);
        assert_eq!(place(&[], GLIBC_ROW), None);
        for code in [&own[..], &at, &library, &key] {
            for len in 0..code.len() {
                // Code that is cut is no other code.
                let found = place(&code[..len], GLIBC_ROW);
                assert!(found.is_none() || found == place(code, GLIBC_ROW));
            }
        }
    }

    #[test]
    fn musl_has_two_names() {
        assert!(is_musl(b"libc.so") && is_musl(b"libc.musl-x86_64.so.1"));
        assert!(!is_musl(b"libc.so.6") && !is_musl(b"libcrypt.so.1"));
    }

    #[test]
    fn distances_of_variables_are_found_in_code() {
        // mov rax, -0x18; ret
        let fixed = [0x48, 0xc7, 0xc0, 0xe8, 0xff, 0xff, 0xff, 0xc3];
        let expected = ThreadPlace::Thread(-0x18i64 as u64);
        assert_eq!(distance_in_code(0x1000, &fixed), Some(expected));
        // mov rax, [rip + 0x100]; ret
        let at = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3];
        assert_eq!(distance_in_code(0x1000, &at), Some(ThreadPlace::ThreadAt(0x1107)));
        // mov rax, 0; ret: there is none.
        assert_eq!(distance_in_code(0x1000, &[0x48, 0xc7, 0xc0, 0, 0, 0, 0, 0xc3]), None);
        assert_eq!(distance_in_code(0x1000, &fixed[..7]), None);
    }
}
