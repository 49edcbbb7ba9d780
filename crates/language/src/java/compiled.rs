//! Compiled methods: which methods are active at an offset in their code. The compiler inlines methods into others. For
//! each place where the virtual machine may have to know, the code's debug information gives the method and bytecode
//! index, and those of its callers.
//!
//! Place descriptions (`PcDesc`) are sorted by code offset: the first that is not before an offset applies to it. Each
//! refers to a scope, a sequence of compressed numbers. The first three are the offset of the caller's scope (0: none),
//! the method's index among the code's metadata, and the bytecode index plus 1.

use std::collections::HashMap;

use super::Code;
use super::metadata;
use super::method::{LineTable, Numbers};
use super::tables::Tables;
use crate::runtime::{InnerCall, Name};

/// Offsets of the parts of a compiled method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    parts: Parts,
    /// Offsets in a place description: of the code offset, and of the scope's offset.
    pc: u64,
    scope: u64,
    pc_size: u64,
}

#[derive(Clone, Copy, Debug)]
enum Parts {
    /// Behind the code, in this order: metadata, scopes, place descriptions, dependencies.
    Behind { metadata: u64, scopes: u64, pcs: u64, pcs_end: u64 },
    /// Scopes and place descriptions are in separate memory. Metadata is in the code's data, behind a part whose size
    /// is in no table (JDK 23 and 24).
    InData { data: u64, size: u64, method: u64, fixed: Fixed },
    /// All parts are in separate memory (JDK 25 or later); metadata is behind the relocations.
    Apart { mutable: u64, mutable_size: u64, relocations: u64, fixed: Fixed },
}

/// Offsets of the fields that locate the immutable data of a compiled method: its address, its size, and the starts of
/// the parts in it.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    start: u64,
    size: u64,
    pcs: u64,
    scopes: u64,
}

impl Layout {
    /// Returns `None` for versions whose layout is not known.
    pub fn read(tables: &Tables<'_>, version: u32) -> Option<Self> {
        let field = |class: &str, name: &str| tables.offset(class, name).map(u64::from);
        let of = |name: &str| field("nmethod", name);
        let fixed = || {
            Some(Fixed {
                start: of("_immutable_data")?,
                size: of("_immutable_data_size")?,
                pcs: of("_scopes_pcs_offset")?,
                scopes: of("_scopes_data_offset")?,
            })
        };
        let parts = match version {
            11..=22 => Parts::Behind {
                metadata: of("_metadata_offset")?,
                scopes: field("CompiledMethod", "_scopes_data_begin")?,
                pcs: of("_scopes_pcs_offset")?,
                pcs_end: of("_dependencies_offset")?,
            },
            23 | 24 => Parts::InData {
                data: field("CodeBlob", "_data_offset")?,
                size: field("CodeBlob", "_size")?,
                method: of("_method")?,
                fixed: fixed()?,
            },
            25 => Parts::Apart {
                mutable: field("CodeBlob", "_mutable_data")?,
                mutable_size: field("CodeBlob", "_mutable_data_size")?,
                relocations: field("CodeBlob", "_relocation_size")?,
                fixed: fixed()?,
            },
            _ => return None,
        };
        let (pc, scope) =
            (field("PcDesc", "_pc_offset")?, field("PcDesc", "_scope_decode_offset")?);
        Some(Self { parts, pc, scope, pc_size: tables.size("PcDesc")?.into() })
    }
}

/// Parts of one compiled method, read from a process.
struct Bytes {
    metadata: Vec<u8>,
    scopes: Vec<u8>,
    pcs: Vec<u8>,
}

impl Layout {
    fn bytes(&self, code: &Code<'_>, blob: u64) -> Option<Bytes> {
        let word = |at: u64| code.reader.u64(blob.checked_add(at)?);
        let half = |at: u64| code.reader.u32(blob.checked_add(at)?).map(u64::from);
        let range = |start: u64, end: u64| code.reader.all(start, end.checked_sub(start)?);
        match self.parts {
            Parts::Behind { metadata, scopes, pcs, pcs_end } => {
                let at = |field| blob.checked_add(half(field)?);
                let (scopes, pcs) = (word(scopes)?, at(pcs)?);
                Some(Bytes {
                    metadata: range(at(metadata)?, scopes)?,
                    scopes: range(scopes, pcs)?,
                    pcs: range(pcs, at(pcs_end)?)?,
                })
            }
            Parts::InData { data, size, method, fixed } => {
                let (scopes, pcs) = self.fixed(code, blob, fixed)?;
                let [start, end] = [data, size].map(|field| blob.checked_add(half(field)?));
                let data = range(start?, end?)?;
                let used = metadata::Used::read(code, &scopes, &self.places(&pcs))?;
                let metadata = metadata::find(code, &data, word(method)?, &used)?;
                Some(Bytes { metadata: metadata.to_vec(), scopes, pcs })
            }
            Parts::Apart { mutable, mutable_size, relocations, fixed } => {
                let (mutable, size) = (word(mutable)?, half(mutable_size)?);
                let metadata = half(relocations)?.next_multiple_of(8);
                let metadata = range(mutable.checked_add(metadata)?, mutable.checked_add(size)?)?;
                let (scopes, pcs) = self.fixed(code, blob, fixed)?;
                Some(Bytes { metadata, scopes, pcs })
            }
        }
    }

    /// Reads scopes and place descriptions. Which of them comes first differs, and the last may be followed by other
    /// data.
    fn fixed(&self, code: &Code<'_>, blob: u64, fixed: Fixed) -> Option<(Vec<u8>, Vec<u8>)> {
        let half = |at: u64| code.reader.u32(blob.checked_add(at)?).map(u64::from);
        let start = code.reader.u64(blob.checked_add(fixed.start)?)?;
        let (size, pcs, scopes) = (half(fixed.size)?, half(fixed.pcs)?, half(fixed.scopes)?);
        let part = |at: u64, other: u64| {
            let end = if at < other { other } else { size };
            code.reader.all(start.checked_add(at)?, end.checked_sub(at)?)
        };
        Some((part(scopes, pcs)?, part(pcs, scopes)?))
    }

    /// Decodes place descriptions into pairs of code offset and scope offset, in code order.
    fn places(&self, pcs: &[u8]) -> Vec<(u32, u32)> {
        let number = |entry: &[u8], at: u64| {
            let bytes = entry.get(at as usize..)?.first_chunk()?;
            Some(i32::from_le_bytes(*bytes))
        };
        let place = |entry: &[u8]| Some((number(entry, self.pc)?, number(entry, self.scope)?));
        let entries = pcs.chunks_exact(self.pc_size as usize).take(MOST_PLACES);
        // The first and the last entry have no scope; other data may follow the last.
        entries
            .map_while(place)
            .take_while(|(pc, _)| *pc < i32::MAX)
            .filter_map(|(pc, scope)| {
                Some((u32::try_from(pc).ok()?, u32::try_from(scope).ok().filter(|at| *at > 0)?))
            })
            .collect()
    }
}

/// Methods at each place of a compiled method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled {
    /// End of each place and the index of its scope in `scopes`, in code order.
    places: Vec<(u32, u32)>,
    /// Each scope's method (an index into `methods`), bytecode index, and caller's index.
    scopes: Vec<Scope>,
    methods: Vec<(Name, LineTable)>,
}

#[derive(Clone, Copy, Debug)]
struct Scope {
    method: u32,
    bytecode: u32,
    caller: Option<u32>,
}

/// Flag in an offset: line numbers are requested (`JAVA_LINES` of the in-kernel programs).
const LINES: u32 = 1 << 23;
/// Maximum depth of inlined calls.
pub(super) const DEEPEST: usize = 256;
/// Maximum number of place descriptions to read.
const MOST_PLACES: usize = 1 << 17;
pub(super) const MOST_METHODS: usize = 2048;

/// Reads the scopes of one compiled method, each once.
struct Reading<'a> {
    code: &'a Code<'a>,
    bytes: Bytes,
    /// Indexes of scopes by offset; `None` for scopes that cannot be read.
    known: HashMap<u32, Option<u32>>,
    /// Indexes of methods by address; `None` for methods that cannot be named.
    methods: HashMap<u64, Option<u32>>,
    compiled: Compiled,
}

impl Compiled {
    /// Reads a compiled method; `None` if it cannot be read.
    pub(super) fn read(code: &Code<'_>, layout: &Layout, blob: u64) -> Option<Self> {
        let bytes = layout.bytes(code, blob)?;
        let pcs = layout.places(&bytes.pcs);
        let (known, methods) = (HashMap::new(), HashMap::new());
        let mut reading = Reading { code, bytes, known, methods, compiled: Self::default() };
        for (pc, scope) in pcs {
            if let Some(scope) = reading.scope(scope) {
                reading.compiled.places.push((pc, scope));
            }
        }
        let mut compiled = reading.compiled;
        compiled.places.sort_by_key(|(pc, _)| *pc);
        (!compiled.places.is_empty()).then_some(compiled)
    }

    /// Returns the calls at a code offset, innermost first.
    pub fn calls(&self, offset: u32) -> Option<Vec<InnerCall<'_>>> {
        let (pc, has_lines) = (offset & (LINES - 1), offset & LINES != 0);
        let index = self.places.partition_point(|(end, _)| *end < pc);
        // Code behind the last place handles exceptions and the like.
        let (_, scope) = self.places.get(index).or(self.places.last())?;
        let mut calls = Vec::new();
        let mut next = Some(*scope);
        while let Some(Scope { method, bytecode, caller }) =
            next.and_then(|at| self.scopes.get(at as usize))
            && calls.len() < DEEPEST
        {
            let (name, lines) = self.methods.get(*method as usize)?;
            let line = if has_lines { lines.line(*bytecode) } else { 0 };
            calls.push(InnerCall { name, line });
            next = *caller;
        }
        Some(calls)
    }
}

impl Reading<'_> {
    /// Returns the index of the scope at an offset in the scope data.
    fn scope(&mut self, distance: u32) -> Option<u32> {
        let mut chain = Vec::new();
        let number = self.read_scope(distance, &mut chain);
        if number.is_none() {
            for (at, ..) in chain {
                self.known.entry(at).or_insert(None);
            }
        }
        number
    }

    /// Does the work of [`Self::scope`]. `chain` receives the scopes that were read (offset, method, bytecode),
    /// innermost first.
    fn read_scope(&mut self, distance: u32, chain: &mut Vec<(u32, u32, u32)>) -> Option<u32> {
        let mut at = distance;
        let mut caller = None;
        // Stop at a scope that is already known.
        while at != 0 {
            if let Some(known) = self.known.get(&at) {
                caller = Some((*known)?);
                break;
            }
            let (bytes, without_zeros) =
                (&self.bytes.scopes[..], self.code.layout.method.without_zeros);
            let mut numbers = Numbers { bytes, at: at as usize, without_zeros };
            let (sender, method, bytecode) = (numbers.next()?, numbers.next()?, numbers.next()?);
            chain.push((at, method, bytecode.saturating_sub(1)));
            // A caller's scope has a lower offset.
            if sender >= at || chain.len() > DEEPEST {
                return None;
            }
            at = sender;
        }
        for (distance, method, bytecode) in chain.iter().rev() {
            let method = self.method(*method)?;
            let number = u32::try_from(self.compiled.scopes.len()).ok()?;
            self.compiled.scopes.push(Scope { method, bytecode: *bytecode, caller });
            self.known.insert(*distance, Some(number));
            caller = Some(number);
        }
        caller
    }

    /// Returns the index of a method, by its number among the metadata, which starts at 1.
    fn method(&mut self, metadata: u32) -> Option<u32> {
        let at = 8 * usize::try_from(metadata.checked_sub(1)?).ok()?;
        let method = u64::from_le_bytes(*self.bytes.metadata.get(at..)?.first_chunk()?);
        if let Some(known) = self.methods.get(&method) {
            return *known;
        }
        if self.methods.len() >= MOST_METHODS {
            return None;
        }
        let number = u32::try_from(self.compiled.methods.len()).ok()?;
        let named = self.code.methods().with_lines(method);
        self.methods.insert(method, named.is_some().then_some(number));
        self.compiled.methods.push(named?);
        Some(number)
    }
}
