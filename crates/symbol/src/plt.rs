//! Stubs of the procedure linkage table (PLT), named by the function that they call.
//!
//! A call to another file goes through a stub, which jumps to the address in a slot of the global offset table; a
//! relocation of that slot names the function. Linkers lay out stubs in several ways (with or without `endbr64`,
//! lazy or not, 8 or 16 bytes), so slots are read from the instructions, not derived from the order of the stubs.

use std::collections::HashMap;
use std::ops::Range;

use object::{Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SymbolIndex};

use crate::symbols::{Finder, without_version};

/// Types of relocations of jump slots for indirect functions, whose address is the addend (`R_X86_64_IRELATIVE`,
/// `R_AARCH64_IRELATIVE` in the processor supplements).
const IRELATIVE: [u64; 2] = [37, 1032];

/// A stub, found by an address in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stub<'a> {
    pub start: u64,
    /// Mangled name of the function that it calls.
    pub callee: &'a [u8],
}

/// Finds the stubs that hold any of `addresses` (sorted). Keys are positions in `addresses`.
pub(crate) fn stubs<'a>(
    elf: &object::File<'a>,
    addresses: &[u64],
    text: &[Range<u64>],
) -> HashMap<usize, Stub<'a>> {
    let mut slots = HashMap::new();
    for section in elf.sections().filter(|section| {
        section.name_bytes().is_ok_and(|name| name.starts_with(b".plt") || name == b".iplt")
    }) {
        let Ok(code) = section.data() else { continue };
        let begin = section.address();
        let first = addresses.partition_point(|&address| address < begin);
        for (i, &address) in addresses.iter().enumerate().skip(first) {
            let Ok(at) = usize::try_from(address - begin) else { break };
            if at >= code.len() {
                break;
            }
            if let Some(slot) = slot(elf, code, begin, at) {
                slots.insert(i, slot);
            }
        }
    }
    // Most passes end here, without reading the relocations, of which there may be many.
    if slots.is_empty() { HashMap::new() } else { name(elf, slots, text) }
}

/// Maximum size of a stub in bytes: six AArch64 instructions.
const LONGEST: u64 = 24;

/// Addresses of the stub that holds an address.
pub(crate) fn extent(
    elf: &object::File<'_>,
    address: u64,
    text: &[Range<u64>],
) -> Option<Range<u64>> {
    let start = stubs(elf, &[address], text).get(&0)?.start;
    let near: Vec<u64> = (start..start.checked_add(LONGEST)?).collect();
    let of_all = stubs(elf, &near, text);
    let same = of_all.iter().filter(|(_, stub)| stub.start == start);
    Some(start..near[*same.map(|(i, _)| i).max()?] + 1)
}

/// Slot that a stub jumps through.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// Address of the slot.
    Slot(u64),
    /// Position of the slot's relocation, if the stub has no address of a slot.
    Relocation(u64),
}

fn slot(elf: &object::File<'_>, code: &[u8], begin: u64, at: usize) -> Option<(u64, Target)> {
    let (start, target) = match elf.architecture() {
        Architecture::X86_64 => {
            x86_slot(code, begin, at, |next, offset| next.checked_add_signed(i64::from(offset)))
        }
        Architecture::I386 => {
            x86_slot(code, begin, at, |_, address| Some(u64::from(address.cast_unsigned())))
        }
        Architecture::Aarch64 => aarch64_slot(code, begin, at),
        _ => None,
    }?;
    Some((begin.checked_add(start as u64)?, target))
}

/// Looks for `jmp *slot(%rip)` (`ff 25`), possibly after `endbr64` (4 bytes) and a `bnd` prefix, in the aligned 16
/// bytes around `at`. Stubs of 8 bytes start with the jump and end with `xchg %ax,%ax`: for these, it looks in the
/// aligned 8 bytes. A stub without this jump pushes the position of its relocation instead.
fn x86_slot(
    code: &[u8],
    begin: u64,
    at: usize,
    resolve: impl Fn(u64, i32) -> Option<u64>,
) -> Option<(usize, Target)> {
    let start = at & !15;
    let is_short = code.get(start + 6..start + 8) == Some(&[0x66, 0x90]);
    let (start, size) = if is_short { (at & !7, 8) } else { (start, 16) };
    let stub = &code[start..code.len().min(start + size)];
    let operand = |at: usize| Some(i32::from_le_bytes(stub.get(at..at + 4)?.try_into().ok()?));
    for prefix in [0, 4, 1, 5] {
        if stub.get(prefix..prefix + 2) == Some(&[0xff, 0x25]) {
            let next = begin.checked_add((start + prefix + 6) as u64)?;
            return Some((start, Target::Slot(resolve(next, operand(prefix + 2)?)?)));
        }
    }
    for prefix in [0, 4] {
        if stub.get(prefix) == Some(&0x68) {
            let position = u64::try_from(operand(prefix + 1)?).ok()?;
            return Some((start, Target::Relocation(position)));
        }
    }
    None
}

/// Looks for `adrp x16, page` and `ldr x17, [x16, #offset]` at or before `at`. A stub has four instructions, or six
/// with `bti c`.
fn aarch64_slot(code: &[u8], begin: u64, at: usize) -> Option<(usize, Target)> {
    const BTI_C: u32 = 0xd503_245f;
    let at = at & !3;
    let instruction = |at: usize| Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
    let from = if instruction(at)? == BTI_C { at + 4 } else { at };
    let adrp = (from.saturating_sub(20)..=from).rev().step_by(4).find_map(|at| {
        let adrp = instruction(at)?;
        let ldr = instruction(at + 4)?;
        let is_pair = adrp & 0x9f00_001f == 0x9000_0010 && ldr & 0xffc0_03ff == 0xf940_0211;
        is_pair.then_some((at, adrp, ldr))
    });
    let (start, adrp, ldr) = adrp?;
    // 21 bits of pages, in two parts; then 12 bits in units of 8 bytes.
    let pages = (adrp >> 29 & 3) | (adrp >> 3 & 0x1f_fffc);
    let pages = i64::from((pages << 11).cast_signed() >> 11);
    let page = begin.checked_add(start as u64)? & !0xfff;
    let slot =
        page.checked_add_signed(pages << 12)?.checked_add(u64::from(ldr >> 10 & 0xfff) * 8)?;
    let has_bti = start >= 4 && instruction(start - 4) == Some(BTI_C);
    Some((if has_bti { start - 4 } else { start }, Target::Slot(slot)))
}

/// Finds the relocations of the slots, and the names of the functions in them.
fn name<'a>(
    elf: &object::File<'a>,
    stubs: HashMap<usize, (u64, Target)>,
    text: &[Range<u64>],
) -> HashMap<usize, Stub<'a>> {
    let lazy: Vec<_> = relocations(elf, "plt").collect();
    let wanted = |(start, target): (u64, Target)| match target {
        Target::Slot(slot) => Some((start, slot)),
        Target::Relocation(position) => {
            Some((start, lazy.get(usize::try_from(position).ok()?)?.slot))
        }
    };
    let mut by_slot: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
    for (i, stub) in stubs {
        if let Some((start, slot)) = wanted(stub) {
            by_slot.entry(slot).or_default().push((i, start));
        }
    }
    let symbols = elf.dynamic_symbol_table();
    let mut named = HashMap::new();
    let others = relocations(elf, "dyn").chain(relocations(elf, "iplt"));
    for relocation in lazy.iter().copied().chain(others) {
        let Some(stubs) = by_slot.remove(&relocation.slot) else { continue };
        let callee = if IRELATIVE.contains(&relocation.kind) {
            let mut finder = Finder::new(std::slice::from_ref(&relocation.addend), text);
            finder.read(elf);
            finder.finish(|_, _| false)[0].map(|symbol| symbol.name)
        } else {
            let index = SymbolIndex(relocation.symbol);
            let symbol = symbols.as_ref().and_then(|table| table.symbol_by_index(index).ok());
            symbol.and_then(|symbol| symbol.name_bytes().ok()).map(without_version)
        };
        if let Some(callee) = callee.filter(|callee| !callee.is_empty()) {
            named.extend(stubs.into_iter().map(|(i, start)| (i, Stub { start, callee })));
        }
    }
    named
}

#[derive(Clone, Copy)]
struct Relocation {
    slot: u64,
    symbol: usize,
    kind: u64,
    addend: u64,
}

/// Relocations in `.rela.NAME`, or `.rel.NAME` on i386. They are parsed from bytes: the relocations of a static
/// program belong to no symbol table, and parsers do not find them.
fn relocations<'a>(
    elf: &object::File<'a>,
    name: &str,
) -> impl Iterator<Item = Relocation> + use<'a> {
    let is_64 = elf.is_64();
    let section = if is_64 { format!(".rela.{name}") } else { format!(".rel.{name}") };
    let section = elf.section_by_name(&section);
    let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b));
    data.chunks_exact(if is_64 { 24 } else { 8 }).map(move |entry| {
        if is_64 {
            Relocation {
                slot: word(&entry[..8]),
                symbol: word(&entry[12..16]) as usize,
                kind: word(&entry[8..12]),
                addend: word(&entry[16..]),
            }
        } else {
            let info = word(&entry[4..]);
            let (symbol, kind) = ((info >> 8) as usize, info & 0xff);
            Relocation { slot: word(&entry[..4]), symbol, kind, addend: 0 }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_of(found: Option<(usize, Target)>) -> Option<(usize, u64)> {
        match found? {
            (start, Target::Slot(slot)) => Some((start, slot)),
            (start, Target::Relocation(position)) => Some((start, position | 1 << 63)),
        }
    }

    fn x86(code: &[u8], at: usize) -> Option<(usize, u64)> {
        let resolve = |next: u64, offset: i32| next.checked_add_signed(i64::from(offset));
        slot_of(x86_slot(code, 0x1000, at, resolve))
    }

    #[test]
    fn forms_of_x86() {
        let lazy = *b"\xff\x25\x10\0\0\0\x68\x07\0\0\0\xe9\0\0\0\0";
        assert_eq!(x86(&lazy, 11), Some((0, 0x1016)));
        let endbr_bnd = *b"\xf3\x0f\x1e\xfa\xf2\xff\x25\x10\0\0\0\x0f\x1f\x44\0\0";
        assert_eq!(x86(&endbr_bnd, 4), Some((0, 0x101b)));
        let only_push = *b"\xf3\x0f\x1e\xfa\x68\x07\0\0\0\xf2\xe9\0\0\0\0\x90";
        assert_eq!(x86(&only_push, 4), Some((0, 7 | 1 << 63)));
        let two_short = *b"\xff\x25\x10\0\0\0\x66\x90\xff\x25\x10\0\0\0\x66\x90";
        assert_eq!(x86(&two_short, 15), Some((8, 0x101e)));
        let first = *b"\xff\x35\x10\0\0\0\xff\x25\x10\0\0\0\x0f\x1f\x40\0";
        assert_eq!(x86(&first, 6), None, "the call of the dynamic linker");
        assert_eq!(x86(&lazy[..3], 0), None);
    }

    #[test]
    fn forms_of_aarch64() {
        // bti c; adrp x16, +2 pages; ldr x17, [x16, #8]; add; br x17; nop
        let words = [0xd503_245f, 0xd000_0010, 0xf940_0611, 0x9100_2210, 0xd61f_0220, 0xd503_201f];
        let code: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        for at in 0..24 {
            assert_eq!(slot_of(aarch64_slot(&code, 0x1000, at)), Some((0, 0x3008)), "{at}");
        }
        // adrp of a page before
        let words = [0xf0ff_fff0_u32, 0xf940_0211];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(slot_of(aarch64_slot(&code, 0x5000, 0)), Some((0, 0x4000)));
        assert_eq!(slot_of(aarch64_slot(&code[4..], 0x5000, 0)), None);
    }
}
