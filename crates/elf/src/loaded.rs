//! Words of a file as they are once it is loaded, and what its smallest functions return.

use std::collections::HashMap;

use object::elf::{R_X86_64_64, R_X86_64_RELATIVE};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};

use crate::Image;

/// Names in tables are shorter.
const LONGEST: usize = 256;

/// Words of a file as they are when it is loaded at 0.
#[derive(Debug)]
pub struct Loaded<'a> {
    image: &'a Image,
    /// Relocated words by their addresses, which are sorted: a browser has more than a million.
    relocated: Vec<(u64, u64)>,
    /// Words that were set.
    set: HashMap<u64, u64>,
}

impl<'a> Loaded<'a> {
    /// Of a file. Relocations of x86-64 are read.
    pub fn new(image: &'a Image) -> Self {
        Self { image, relocated: relocations(image), set: HashMap::new() }
    }

    /// A word is another, as code stores it.
    pub fn set(&mut self, address: u64, value: u64) {
        self.set.insert(address, value);
    }

    /// The word at an address; `None` if the file has none there.
    pub fn word(&self, address: u64) -> Option<u64> {
        let in_file = || self.image.bytes_at(address, 8)?.try_into().ok().map(u64::from_le_bytes);
        let relocated = || {
            let at = self.relocated.binary_search_by_key(&address, |word| word.0).ok()?;
            Some(self.relocated[at].1)
        };
        self.set.get(&address).copied().or_else(relocated).or_else(in_file)
    }

    /// The half of a word at an address, which is no pointer.
    pub fn half(&self, address: u64) -> Option<u32> {
        self.image.bytes_at(address, 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// A text that ends with a zero, shorter than 256 bytes.
    pub fn text(&self, address: u64) -> Option<&'a str> {
        let bytes = self.image.first_bytes(address, LONGEST)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        str::from_utf8(&bytes[..end]).ok()
    }

    /// What a function of x86-64 returns that does nothing but to return an address, a constant, or the value of a variable; of a
    /// value of 32 bits the upper half is 0.
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
        // mov rax,[rax]; mov eax,[rax]; pop rbp, or none; ret
        let (value, behind) = match behind {
            [0x48, 0x8b, 0x00, behind @ ..] => (self.word(value)?, behind),
            [0x8b, 0x00, behind @ ..] => (self.half(value)?.into(), behind),
            _ => (value, behind),
        };
        matches!(behind, [0xc3, ..] | [0x5d, 0xc3, ..]).then_some(value)
    }
}

/// The words that are relocated when a library is loaded.
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
    // Linkers sort them in pieces.
    words.sort_by_key(|word| word.0);
    words
}
