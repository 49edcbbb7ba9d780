//! Table of a kernel's functions as bytes, searched in place in memory or in a mapped file.
//!
//! ```text
//! symbols   4 bytes   number of symbols
//! modules   4 bytes   number of modules
//! names     4 bytes   size of the names in bytes
//! unused    4 bytes   so that symbols are at multiples of 8
//! symbols            16 bytes each, by address: address (8), name (4), its length (2), module (2)
//! modules             8 bytes each: name (4), its length (4)
//! names               all names, one after the other
//! ```
//!
//! All numbers are little-endian. Module 0 is the kernel itself; any other number is a position in the modules,
//! plus one.

use std::ops::Deref;

use pyrograph_cache::Kept;

const HEADER: usize = 16;
const SYMBOL: usize = 16;
const MODULE: usize = 8;

/// Page size in bytes. Symbols have no sizes, so the last one of a module, or of the kernel, is taken to reach to
/// the end of the page after its own. Code beyond that belongs to something else.
const PAGE: u64 = 4096;

/// Functions of a kernel and its modules.
#[derive(Debug)]
pub struct Kallsyms {
    bytes: Bytes,
    counts: Counts,
    restricted: bool,
}

#[derive(Debug)]
enum Bytes {
    Owned(Vec<u8>),
    Kept(Kept),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Kept(kept) => kept,
        }
    }
}

/// Function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Name of the function.
    pub name: &'a str,
    /// Module that contains the function, in brackets: `[ext4]`, `[bpf]`. `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Address of the function's first instruction.
    pub start: u64,
    /// True if the next symbol, if any, is of another module: the function may end before the looked-up address.
    pub is_last: bool,
}

/// Sizes of the parts of the table.
#[derive(Clone, Copy, Debug)]
struct Counts {
    symbols: usize,
    modules: usize,
    names: usize,
}

impl Counts {
    fn read(bytes: &[u8]) -> Option<Self> {
        let count = |at| usize::try_from(u32_at(bytes, at)?).ok();
        Some(Self { symbols: count(0)?, modules: count(4)?, names: count(8)? })
    }

    fn modules_at(self) -> Option<usize> {
        self.symbols.checked_mul(SYMBOL)?.checked_add(HEADER)
    }

    fn names_at(self) -> Option<usize> {
        self.modules.checked_mul(MODULE)?.checked_add(self.modules_at()?)
    }

    fn len(self) -> Option<usize> {
        self.names.checked_add(self.names_at()?)
    }
}

impl Kallsyms {
    /// Opens a table that was stored from [`Self::bytes`]; `None` if its size is wrong.
    pub(crate) fn kept(kept: Kept) -> Option<Self> {
        let counts = Counts::read(&kept)?;
        let fits = counts.len() == Some(kept.len());
        fits.then_some(Self { bytes: Bytes::Kept(kept), counts, restricted: false })
    }

    /// Bytes of the table, for [`Self::kept`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the addresses were hidden from this reader, so that all lookups fail. Root may see them;
    /// `sysctl kernel.kptr_restrict=0` shows them to other users, too.
    pub fn is_restricted(&self) -> bool {
        self.restricted
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.counts.symbols
    }

    /// Returns true if there are no functions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Start of the last function; 0 if there is none.
    pub(crate) fn last_start(&self) -> u64 {
        let last = self.counts.symbols.checked_sub(1);
        last.and_then(|last| u64_at(&self.bytes, HEADER + last * SYMBOL)).unwrap_or(0)
    }

    /// Finds the function at an address of the running kernel.
    pub fn lookup(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let (symbols, _) = self.bytes.get(HEADER..self.counts.modules_at()?)?.as_chunks::<SYMBOL>();
        let start = |symbol: &[u8; SYMBOL]| u64_at(symbol, 0).unwrap_or(0);
        let module = |symbol: &[u8; SYMBOL]| u16_at(symbol, 14).unwrap_or(0);
        let after = symbols.partition_point(|symbol| start(symbol) <= address);
        let symbol = symbols.get(after.checked_sub(1)?)?;
        let is_last = symbols.get(after).is_none_or(|next| module(next) != module(symbol));
        let start = start(symbol);
        if is_last && address >= (start | (PAGE - 1)).saturating_add(1 + PAGE) {
            return None;
        }
        let name = self.name(u32_at(symbol, 8)?, u16_at(symbol, 12)?.into())?;
        let module = match module(symbol).checked_sub(1) {
            Some(position) => {
                let at = self.counts.modules_at()? + usize::from(position) * MODULE;
                Some(self.name(u32_at(&self.bytes, at)?, u32_at(&self.bytes, at + 4)?)?)
            }
            None => None,
        };
        Some(KernelSymbol { name, module, start, is_last })
    }

    fn name(&self, at: u32, len: u32) -> Option<&str> {
        let names = self.bytes.get(self.counts.names_at()?..)?;
        let name = names.get(at as usize..)?.get(..len as usize)?;
        std::str::from_utf8(name).ok()
    }
}

/// Builds a table.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    symbols: Vec<Symbol>,
    names: String,
    /// Offset and length of each module's name in `names`.
    modules: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u64,
    name: u32,
    len: u16,
    module: u16,
    is_global: bool,
}

impl Builder {
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Adds a function; it is dropped if its name or module does not fit in the table.
    pub fn add(&mut self, start: u64, is_global: bool, name: &str, module: Option<&str>) {
        let Some(module) = module.map_or(Some(0), |module| self.module(module)) else { return };
        if let Some((name, len)) = self.name(name)
            && let Ok(len) = u16::try_from(len)
        {
            self.symbols.push(Symbol { start, name, len, module, is_global });
        }
    }

    fn module(&mut self, module: &str) -> Option<u16> {
        // Symbols of a module are adjacent.
        let last = self.modules.last();
        let is_known = last.is_some_and(|&(at, len)| {
            self.names.get(at as usize..(at + len) as usize) == Some(module)
        });
        if !is_known {
            let name = self.name(module)?;
            self.modules.push(name);
        }
        u16::try_from(self.modules.len()).ok()
    }

    fn name(&mut self, name: &str) -> Option<(u32, u32)> {
        let at = u32::try_from(self.names.len()).ok()?;
        let len = u32::try_from(name.len()).ok()?;
        at.checked_add(len)?;
        self.names.push_str(name);
        Some((at, len))
    }

    /// Builds the table, with one function for each address.
    pub fn finish(mut self, restricted: bool) -> Kallsyms {
        // Among aliases, prefer a global symbol, then the shortest name.
        self.symbols.sort_by_key(|symbol| (symbol.start, !symbol.is_global, symbol.len));
        self.symbols.dedup_by_key(|symbol| symbol.start);
        let (symbols, modules) = (self.symbols.len(), self.modules.len());
        let counts = Counts { symbols, modules, names: self.names.len() };
        let mut bytes = Vec::with_capacity(counts.len().unwrap_or(0));
        // Counts fit in 32 bits: names have offsets below 2^32, and each symbol has a name.
        let counted = [counts.symbols, counts.modules, counts.names, 0];
        bytes.extend(counted.into_iter().flat_map(|count| (count as u32).to_le_bytes()));
        for symbol in &self.symbols {
            bytes.extend(symbol.start.to_le_bytes());
            bytes.extend(symbol.name.to_le_bytes());
            bytes.extend(symbol.len.to_le_bytes());
            bytes.extend(symbol.module.to_le_bytes());
        }
        for (name, len) in &self.modules {
            bytes.extend(name.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
        bytes.extend(self.names.as_bytes());
        Kallsyms { bytes: Bytes::Owned(bytes), counts, restricted }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
