//! Tables that HotSpot's library contains for debuggers (`src/hotspot/share/runtime/vmStructs.hpp` of the JDK): fields
//! of its classes with their offsets or addresses, and the sizes of these classes.
//!
//! ```text
//! gHotSpotVMStructs → [type name, field name, type, is static, offset, address], …, [0, …]
//! gHotSpotVMTypes   → [type name, superclass name, three flags, size], …, [0, …]
//! ```
//!
//! Pointers in them are relocated when the library is loaded. Some compilers also compute offsets at that time, by code
//! that stores a constant for each: `mov qword [rip + …], …`. These instructions are decoded instead.

use std::collections::HashMap;

use memchr::memmem;
use pyrograph_elf::Loaded;

use crate::file::File;

/// Upper limit for the number of entries, above that of any version (900 fields, 600 types).
const MOST: u64 = 10_000;
const FIELD_BYTES: u64 = 48;
const TYPE_BYTES: u64 = 40;

/// Contents of the tables of a library.
pub(super) struct Tables<'a> {
    start: u64,
    fields: HashMap<(&'a str, &'a str), Field<'a>>,
    sizes: HashMap<&'a str, u64>,
}

struct Field<'a> {
    of_type: &'a str,
    is_static: bool,
    /// Address if it is static, otherwise offset.
    at: u64,
}

impl<'a> Tables<'a> {
    pub fn read(file: &File<'a>) -> Option<Self> {
        let mut loaded = Loaded::new(file.image);
        let table = |name: &str| loaded.word(file.symbol(name)?);
        let (start, types) = (table("gHotSpotVMStructs")?, table("gHotSpotVMTypes")?);
        let ends = [start, types].map(|start| start..start.saturating_add(MOST * FIELD_BYTES));
        for (address, value) in stores(file) {
            if ends.iter().any(|range| range.contains(&address)) {
                loaded.set(address, value);
            }
        }
        let mut fields = HashMap::new();
        for entry in (0..MOST).map(|index| start.wrapping_add(index * FIELD_BYTES)) {
            let word = |at: u64| loaded.word(entry.wrapping_add(at));
            let name = word(0)?;
            if name == 0 {
                break;
            }
            let key = (loaded.text(name)?, loaded.text(word(8)?)?);
            let is_static = word(24)? as u32 != 0;
            let at = word(if is_static { 40 } else { 32 })?;
            let of_type = word(16).and_then(|at| loaded.text(at)).unwrap_or_default();
            fields.insert(key, Field { of_type, is_static, at });
        }
        let mut sizes = HashMap::new();
        for entry in (0..MOST).map(|index| types.wrapping_add(index * TYPE_BYTES)) {
            let name = loaded.word(entry)?;
            if name == 0 {
                break;
            }
            sizes.insert(loaded.text(name)?, loaded.word(entry.wrapping_add(32))?);
        }
        Some(Self { start, fields, sizes })
    }

    /// Builds tables with these fields of classes, and these sizes.
    #[cfg(test)]
    pub fn of(fields: &[(&'a str, &'a str, &'a str, u64)], sizes: &[(&'a str, u64)]) -> Self {
        let field = |(class, name, of_type, at): &(&'a str, &'a str, &'a str, u64)| {
            ((*class, *name), Field { of_type, is_static: false, at: *at })
        };
        let fields = fields.iter().map(field).collect();
        Self { start: 0, fields, sizes: sizes.iter().copied().collect() }
    }

    /// Returns the start address of the table of fields.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the address of a static field.
    pub fn variable(&self, class: &str, name: &str) -> Option<u64> {
        self.fields.get(&(class, name)).filter(|field| field.is_static).map(|field| field.at)
    }

    /// Returns the offset of a non-static field.
    pub fn offset(&self, class: &str, name: &str) -> Option<u32> {
        /// Upper limit: all of these classes are smaller.
        const LARGEST: u32 = 1 << 14;
        let field = self.fields.get(&(class, name)).filter(|field| !field.is_static)?;
        u32::try_from(field.at).ok().filter(|at| *at < LARGEST)
    }

    /// Returns the type of a field.
    pub fn type_of(&self, class: &str, name: &str) -> Option<&'a str> {
        self.fields.get(&(class, name)).map(|field| field.of_type)
    }

    /// Returns the size of a class, in bytes.
    pub fn size(&self, class: &str) -> Option<u32> {
        u32::try_from(*self.sizes.get(class)?).ok().filter(|size| (1..1 << 14).contains(size))
    }
}

/// Returns the addresses and values of constants that code stores at fixed addresses.
fn stores(file: &File<'_>) -> Vec<(u64, u64)> {
    // REX.W, the opcode, and a RIP-relative operand; its displacement and the constant follow.
    const STORE: [u8; 3] = [0x48, 0xc7, 0x05];
    const LEN: usize = 11;
    let mut found = Vec::new();
    for (start, code) in file.code() {
        for at in memmem::find_iter(code, &STORE) {
            let Some(instruction) = code.get(at..at + LEN) else { continue };
            let number = |from: usize| {
                let bytes = instruction[from..].first_chunk().copied().unwrap_or_default();
                i64::from(i32::from_le_bytes(bytes))
            };
            let behind = start.wrapping_add((at + LEN) as u64);
            found.push((behind.wrapping_add_signed(number(3)), number(7) as u64));
        }
    }
    found
}
