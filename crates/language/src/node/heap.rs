//! Objects of V8's heap: `SharedFunctionInfo`, scopes, scripts, strings.

use pyrograph_event::interpreter::Interpreter;

use super::{Scripts, at};
use crate::memory::{Memory, Reader, readable};
use crate::runtime::Name;

/// Reads objects from the memory of a process. Addresses are untagged.
#[derive(Clone, Copy)]
pub(super) struct Heap<'a> {
    offsets: &'a [u32; Interpreter::OFFSETS],
    reader: Reader<'a>,
    scripts: &'a Scripts,
}

/// A tagged word: a number or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(i32),
    Object(u64),
}

/// Location of a string's characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flat {
    pub address: u64,
    /// Number of characters.
    pub len: u64,
    /// True if each character has two bytes.
    pub is_wide: bool,
}

/// Name and position of a function, from its scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope {
    name: Option<String>,
    /// Position of its parameters, in characters from the start of the script.
    start: Option<u64>,
}

/// String representations, and the flag for one byte a character, in string types.
const REPRESENTATION: u32 = 7;
const SEQUENTIAL: u32 = 0;
const CONS: u32 = 1;
const SLICED: u32 = 3;
const THIN: u32 = 5;
const ONE_BYTE: u32 = 8;

/// Maximum number of characters of a name that are read.
const LONGEST: u64 = 512;
/// Number of words behind a scope's variables that are read: name, inferred name, positions, the outer scope.
const SCOPE_WORDS: u64 = 8;
/// Maximum number of variables whose names are inside the scope; with more, they are in a table
/// (`kScopeInfoMaxInlinedLocalNamesSize`).
const INLINE_VARIABLES: u64 = 74;

impl<'a> Heap<'a> {
    pub fn new(it: &'a Interpreter, memory: &'a dyn Memory, scripts: &'a Scripts) -> Self {
        Self { offsets: &it.offsets, reader: Reader(memory), scripts }
    }

    fn offset(self, field: usize) -> u64 {
        self.offsets[field].into()
    }

    fn value(self, address: u64) -> Option<Value> {
        let word = self.reader.u64(address)?;
        match word & 3 {
            0 | 2 => Some(Value::Number((word as i64 >> 32) as i32)),
            1 => Some(Value::Object(word - 1)),
            _ => None,
        }
    }

    fn object(self, address: u64) -> Option<u64> {
        match self.value(address)? {
            Value::Object(object) => Some(object),
            Value::Number(_) => None,
        }
    }

    fn type_of(self, object: u64) -> Option<u32> {
        let map = self.object(object)?;
        let bytes = self.reader.bytes(map.checked_add(self.offset(at::TYPE))?)?;
        Some(u16::from_le_bytes(bytes).into())
    }

    fn is_a(self, object: u64, field: usize) -> bool {
        self.type_of(object) == Some(self.offsets[field])
    }

    /// Returns the name of a function, by its `SharedFunctionInfo`.
    pub fn name(self, shared: u64) -> Option<Name> {
        // Its map is not among the copied memory: the in-kernel programs have checked it.
        if self.type_of(shared).is_some_and(|of| of != self.offsets[at::SHARED_TYPE]) {
            return None;
        }
        let field = |field| shared.checked_add(self.offset(field));
        let scope = match self.value(field(at::NAME)?)? {
            Value::Number(_) => Scope::default(),
            Value::Object(object) if self.is_a(object, at::SCOPE_TYPE) => self.scope(object),
            Value::Object(object) => Scope { name: Some(self.text(object)?), start: None },
        };
        let script = field(at::SCRIPT).and_then(|at| self.object(at));
        let script = script.filter(|script| self.is_a(*script, at::SCRIPT_TYPE));
        let file = script.and_then(|script| self.file(script));
        let line = scope.start.zip(script).and_then(|(start, script)| self.line(script, start));
        let name = scope.name.as_deref().and_then(readable);
        let function = name.unwrap_or_else(|| "(anonymous)".to_owned());
        Some(Name { function, file, start_line: line.unwrap_or(0) })
    }

    /// Reads a scope. Behind its variables it has: a number in classes; its name, or the number 0, and a number; its
    /// inferred name or `undefined`; start and end positions; the outer scope. All of these except the positions of
    /// functions may be missing.
    fn scope(self, scope: u64) -> Scope {
        self.read_scope(scope).unwrap_or_default()
    }

    fn read_scope(self, scope: u64) -> Option<Scope> {
        let first = scope.checked_add(self.offset(at::SCOPE_FIRST))?;
        let variables = scope.checked_add(self.offset(at::SCOPE_VARIABLES))?;
        let Value::Number(variables) = self.value(variables)? else { return None };
        let variables = u64::try_from(variables).ok()?;
        let has_table = variables > INLINE_VARIABLES
            && self.object(first).is_some_and(|table| !self.is_string(table));
        let words = if has_table { 1 + variables } else { 2 * variables };
        let mut found = Scope::default();
        let mut numbers = Vec::new();
        for word in words..words + SCOPE_WORDS {
            let Some(value) = self.value(first.wrapping_add(8 * word)) else { break };
            match value {
                Value::Number(number) => numbers.push(number),
                Value::Object(object) if self.is_string(object) => {
                    if found.name.is_none() {
                        found.name = self.text(object).filter(|text| !text.is_empty());
                    }
                    numbers.clear();
                }
                Value::Object(object) if self.is_a(object, at::ODDBALL_TYPE) => numbers.clear(),
                Value::Object(_) => break,
            }
        }
        // Start and end positions; from Node 24 on they are before the variables.
        let end = variables_end(self.offset(at::SCOPE_VARIABLES), scope);
        let between = first.wrapping_sub(end) / 8;
        found.start = match between {
            2 => self.number(first.wrapping_sub(16)),
            _ => match numbers[..] {
                [.., start, end] if start <= end => u64::try_from(start).ok(),
                _ => None,
            },
        };
        Some(found)
    }

    fn number(self, address: u64) -> Option<u64> {
        match self.value(address)? {
            Value::Number(number) => u64::try_from(number).ok(),
            Value::Object(_) => None,
        }
    }

    fn is_string(self, object: u64) -> bool {
        self.type_of(object).is_some_and(|of| of < self.offsets[at::FIRST_NO_STRING])
    }

    /// Returns the path of a script's file.
    fn file(self, script: u64) -> Option<String> {
        let name = self.object(script.checked_add(self.offset(at::SCRIPT_NAME))?)?;
        let name = self.text(name)?;
        // The name of a module is the URL of its file.
        let path = name.strip_prefix("file://").filter(|path| path.starts_with('/'));
        readable(path.unwrap_or(&name))
    }

    /// Returns the beginning of a string.
    fn text(self, string: u64) -> Option<String> {
        let (mut text, mut rest) = (String::new(), vec![string]);
        let mut steps = 0;
        while let Some(string) = rest.pop() {
            steps += 1;
            if steps > 64 || text.len() >= LONGEST as usize {
                break;
            }
            let of = self.type_of(string)?;
            if of >= self.offsets[at::FIRST_NO_STRING] {
                return None;
            }
            if of & REPRESENTATION == CONS {
                let (first, second) = self.parts(string)?;
                rest.extend(second.into_iter().chain([first]));
                continue;
            }
            text.push_str(&self.characters(self.flat(string)?)?);
        }
        Some(text)
    }

    /// Returns the parts of a concatenated string; the second is `None` if it is empty, which it is once V8 has
    /// flattened the string.
    fn parts(self, string: u64) -> Option<(u64, Option<u64>)> {
        let field = |field| self.object(string.checked_add(self.offset(field))?);
        let first = field(at::CONS_FIRST)?;
        match self.len(first)? == self.len(string)? {
            true => Some((first, None)),
            false => Some((first, Some(field(at::CONS_SECOND)?))),
        }
    }

    fn len(self, string: u64) -> Option<u64> {
        self.reader.u32(string.checked_add(self.offset(at::STRING_LENGTH))?).map(u64::from)
    }

    fn characters(self, flat: Flat) -> Option<String> {
        let len = flat.len.min(LONGEST);
        if len == 0 {
            return Some(String::new());
        }
        if !flat.is_wide {
            let bytes = self.reader.text(flat.address, len)?;
            return Some(bytes.into_iter().map(char::from).collect());
        }
        let bytes = self.reader.text(flat.address, 2 * len)?;
        let (units, _) = bytes.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        Some(String::from_utf16_lossy(&units))
    }

    /// Returns the location of a string's characters, if they are in one place.
    fn flat(self, string: u64) -> Option<Flat> {
        let (mut string, mut skipped, mut len) = (string, 0, None);
        for _ in 0..8 {
            let of = self.type_of(string)?;
            if of >= self.offsets[at::FIRST_NO_STRING] {
                return None;
            }
            let field = |field| string.checked_add(self.offset(field));
            let own = self.len(string)?;
            let len = *len.get_or_insert(own);
            string = match of & REPRESENTATION {
                SEQUENTIAL => {
                    let is_wide = of & ONE_BYTE == 0;
                    let start = field(at::CHARACTERS)?;
                    let address = start.checked_add(skipped << u32::from(is_wide))?;
                    return Some(Flat { address, len, is_wide });
                }
                CONS => match self.parts(string)? {
                    (first, None) => first,
                    _ => return None,
                },
                SLICED => {
                    skipped += self.number(field(at::SLICE_OFFSET)?)?;
                    self.object(field(at::SLICE_PARENT)?)?
                }
                THIN => self.object(field(at::THIN_ACTUAL)?)?,
                _ => return None,
            };
        }
        None
    }

    /// Returns the line, from 1, of a position in a script.
    fn line(self, script: u64, start: u64) -> Option<u32> {
        let source = self.object(script.checked_add(self.offset(at::SCRIPT_SOURCE))?)?;
        let flat = self.flat(source)?;
        if start > flat.len {
            return None;
        }
        self.scripts.line(self.reader.0, flat, start)
    }
}

/// Returns the address of the word after the number of a scope's variables.
fn variables_end(offset: u64, scope: u64) -> u64 {
    scope.wrapping_add(offset + 8)
}
