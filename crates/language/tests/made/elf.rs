//! ELF files with code, data, constants and dynamic symbols.

use super::{START, Space};

/// The address of the code.
pub const CODE: u64 = 0x40_0000;
/// Where it is in the file.
const CODE_OFFSET: u64 = 0x100;
/// Its bytes.
pub const CODE_LEN: u64 = 0x400;

/// A file that is put together.
#[derive(Debug, Default)]
pub struct Elf {
    code: Vec<u8>,
    constants: Vec<u8>,
    names: Vec<u8>,
    symbols: Vec<u8>,
}

const FUNCTION: u8 = 2;
const OBJECT: u8 = 1;
/// Symbols of all kinds are of the section with constants: only that they are of one counts.
const SECTION: u16 = 3;

impl Elf {
    pub fn new(constants: &str) -> Self {
        let constants = [b"\0", constants.as_bytes(), b"\0"].concat();
        Self { constants, names: vec![0], symbols: vec![0; 24], ..Self::default() }
    }

    fn symbol(&mut self, name: &str, kind: u8, address: u64, size: u64) {
        self.symbols.extend((self.names.len() as u32).to_le_bytes());
        self.names.extend(name.as_bytes());
        self.names.push(0);
        // Global.
        self.symbols.extend([1 << 4 | kind, 0]);
        self.symbols.extend(SECTION.to_le_bytes());
        self.symbols.extend(address.to_le_bytes());
        self.symbols.extend(size.to_le_bytes());
    }

    /// The address at which the next function begins.
    pub fn next(&self) -> u64 {
        CODE + self.code.len() as u64
    }

    /// Adds a function; returns its place in the file.
    pub fn function(&mut self, name: &str, code: &[u8]) -> u64 {
        let address = self.next();
        self.symbol(name, FUNCTION, address, code.len() as u64);
        self.code.extend(code);
        address - CODE + CODE_OFFSET
    }

    /// Adds a variable, which is in the data.
    pub fn variable(&mut self, name: &str, address: u64) {
        self.symbol(name, OBJECT, address, 8);
    }

    /// The bytes of the file; what `space` has until now is its data.
    pub fn bytes(mut self, space: &Space) -> Vec<u8> {
        assert!(self.code.len() <= CODE_LEN as usize);
        self.code.resize(CODE_LEN as usize, 0x90);
        let names = b"\0.dynsym\0.dynstr\0.rodata\0.shstrtab\0";
        let parts = [&self.code, &space.0, &self.symbols, &self.names, &self.constants, &names[..]];
        let mut file = vec![0; CODE_OFFSET as usize];
        let mut places = Vec::new();
        for part in parts {
            file.resize(file.len().next_multiple_of(8), 0);
            places.push((file.len() as u64, part.len() as u64));
            file.extend(part);
        }
        file.resize(file.len().next_multiple_of(8), 0);
        let sections = file.len() as u64;
        file.extend([0; 64]);
        // Name, type, linked section, size of an entry: dynamic symbols, their names, constants, names of sections.
        for (at, [name, kind, link, entry]) in
            [(2, [1u32, 11, 2, 24]), (3, [9, 3, 0, 0]), (4, [17, 1, 0, 0]), (5, [25, 3, 0, 0])]
        {
            let (offset, len) = places[at];
            file.extend([name, kind].map(u32::to_le_bytes).as_flattened());
            file.extend([0, 0, offset, len].map(u64::to_le_bytes).as_flattened());
            file.extend([link, 1].map(u32::to_le_bytes).as_flattened());
            file.extend([8, u64::from(entry)].map(u64::to_le_bytes).as_flattened());
        }
        file[..64].copy_from_slice(&header(sections));
        let segments = [(5, CODE, places[0]), (6, START, places[1])].map(segment);
        file[64..64 + 2 * 56].copy_from_slice(segments.as_flattened());
        file
    }
}

/// Of a shared library for x86-64.
fn header(sections: u64) -> [u8; 64] {
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &[3, 0, 62, 0, 1]);
    put(32, &64u64.to_le_bytes());
    put(40, &sections.to_le_bytes());
    // Sizes and numbers of headers, and the section with their names.
    put(52, &[64u16, 56, 2, 64, 5, 4].map(u16::to_le_bytes).concat());
    header
}

fn segment((flags, address, (offset, len)): (u32, u64, (u64, u64))) -> [u8; 56] {
    let mut segment = [0; 56];
    segment[0] = 1;
    segment[4..8].copy_from_slice(&flags.to_le_bytes());
    let words = [offset, address, address, len, len, 8].map(u64::to_le_bytes);
    segment[8..].copy_from_slice(words.as_flattened());
    segment
}
