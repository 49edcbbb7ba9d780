//! Words of a file after relocation, and the values that its trivial functions return.

use std::collections::HashMap;

use object::elf::{R_X86_64_64, R_X86_64_RELATIVE};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};

use crate::Image;

/// Upper limit for the length of names in tables.
const LONGEST: usize = 256;

/// Words of a file after relocation for load address 0.
#[derive(Debug)]
pub struct Loaded<'a> {
    image: &'a Image,
    /// Relocated words sorted by address: a browser has more than a million.
    relocated: Vec<(u64, u64)>,
    /// Words that [`Self::set`] has replaced.
    set: HashMap<u64, u64>,
}

impl<'a> Loaded<'a> {
    /// Reads the file's x86-64 relocations.
    pub fn new(image: &'a Image) -> Self {
        Self { image, relocated: relocations(image), set: HashMap::new() }
    }

    /// Replaces a word, for code that stores it at start.
    pub fn set(&mut self, address: u64, value: u64) {
        self.set.insert(address, value);
    }

    /// Returns the word at an address; `None` if the file has none there.
    pub fn word(&self, address: u64) -> Option<u64> {
        let in_file = || self.image.bytes_at(address, 8)?.try_into().ok().map(u64::from_le_bytes);
        let relocated = || {
            let at = self.relocated.binary_search_by_key(&address, |word| word.0).ok()?;
            Some(self.relocated[at].1)
        };
        self.set.get(&address).copied().or_else(relocated).or_else(in_file)
    }

    /// Returns the 32-bit value at an address. Relocations are not applied.
    pub fn half(&self, address: u64) -> Option<u32> {
        self.image.bytes_at(address, 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Returns a zero-terminated string shorter than 256 bytes.
    pub fn text(&self, address: u64) -> Option<&'a str> {
        let bytes = self.image.first_bytes(address, LONGEST)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        str::from_utf8(&bytes[..end]).ok()
    }

    /// Returns the result of an x86-64 function that does nothing but return an address, a constant, or the value of a
    /// variable. The upper half of a 32-bit value is 0.
    pub fn returned(&self, function: u64) -> Option<u64> {
        let mut at = function;
        let mut rest = self.image.first_bytes(function, 32)?;
        let mut take = |bytes: &[u8]| -> bool {
            let Some(after) = rest.strip_prefix(bytes) else { return false };
            (at, rest) = (at.wrapping_add(bytes.len() as u64), after);
            true
        };
        // endbr64; push rbp, mov rbp,rsp
        take(&[0xf3, 0x0f, 0x1e, 0xfa]);
        take(&[0x55, 0x48, 0x89, 0xe5]);
        // lea rax,[rip+distance]; mov rax,[rip+distance]; mov eax,[rip+distance]; mov eax,value
        let first = [[0x48, 0x8d, 0x05].as_slice(), &[0x48, 0x8b, 0x05], &[0x8b, 0x05], &[0xb8]];
        let form = first.iter().position(|bytes| take(bytes))?;
        let (number, behind) = rest.split_first_chunk()?;
        let number = i32::from_le_bytes(*number);
        let place = at.wrapping_add(4).wrapping_add_signed(number.into());
        let value = match form {
            0 => place,
            1 => self.word(place)?,
            2 => self.half(place)?.into(),
            _ => u64::from(number.cast_unsigned()),
        };
        // mov rax,[rax]; mov eax,[rax]; optional pop rbp; ret
        let (value, behind) = match behind {
            [0x48, 0x8b, 0x00, behind @ ..] => (self.word(value)?, behind),
            [0x8b, 0x00, behind @ ..] => (self.half(value)?.into(), behind),
            _ => (value, behind),
        };
        matches!(behind, [0xc3, ..] | [0x5d, 0xc3, ..]).then_some(value)
    }
}

/// Returns the words that are relocated when a library is loaded.
fn relocations(image: &Image) -> Vec<(u64, u64)> {
    let elf = image.elf();
    let symbols = elf.dynamic_symbol_table();
    let relocations = elf.dynamic_relocations().into_iter().flatten();
    let word = relocations.filter_map(|(address, relocation)| {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
        let addend = relocation.addend() as u64;
        let value = match (r_type, relocation.target()) {
            (R_X86_64_RELATIVE, _) => addend,
            (R_X86_64_64, RelocationTarget::Symbol(index)) => {
                let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
                symbol.address().wrapping_add(addend)
            }
            _ => return None,
        };
        Some((address, value))
    });
    let mut words: Vec<_> = word.collect();
    // Linkers sort them only in parts.
    words.sort_by_key(|word| word.0);
    words
}
