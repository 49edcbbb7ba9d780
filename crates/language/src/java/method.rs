//! Methods: their names and lines.

use std::sync::Arc;

use super::tables::Tables;
use crate::memory::{Reader, readable};
use crate::runtime::Name;

/// Offsets of the fields that name a method.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    const_method: u64,
    const_method_size: u64,
    constants: u64,
    code_size: u64,
    name: u64,
    signature: u64,
    flags: u64,
    constants_size: u64,
    holder: u64,
    /// Offset of the index of the source file's name: in the constant pool, or in the class.
    source_in_constants: Option<u64>,
    source_in_class: Option<u64>,
    class_name: u64,
    symbol_len: u64,
    symbol_body: u64,
    /// True if compressed numbers contain no zero bytes (JDK 20 or later).
    pub without_zeros: bool,
}

impl Layout {
    pub fn read(tables: &Tables<'_>, version: u32) -> Option<Self> {
        let field = |class: &str, name: &str| tables.offset(class, name).map(u64::from);
        let of = |name: &str| field("ConstMethod", name);
        let body = field("Symbol", "_body").or_else(|| field("Symbol", "_body[0]"))?;
        Some(Self {
            const_method: field("Method", "_constMethod")?,
            const_method_size: tables.size("ConstMethod")?.into(),
            constants: of("_constants")?,
            code_size: of("_code_size")?,
            name: of("_name_index")?,
            signature: of("_signature_index")?,
            flags: of("_flags").or_else(|| of("_flags._flags"))?,
            constants_size: tables.size("ConstantPool")?.into(),
            holder: field("ConstantPool", "_pool_holder")?,
            source_in_constants: field("ConstantPool", "_source_file_name_index"),
            source_in_class: field("InstanceKlass", "_source_file_name_index"),
            class_name: field("Klass", "_name")?,
            symbol_len: field("Symbol", "_length")?,
            symbol_body: body,
            without_zeros: version >= 20,
        })
    }
}

/// Methods in the memory of a process.
#[derive(Clone, Copy)]
pub(super) struct Methods<'a> {
    pub layout: &'a Layout,
    pub reader: Reader<'a>,
}

/// Start bytecode index and line of each entry, as the compiler that produced the class file wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineTable(Arc<[(u16, u16)]>);

impl LineTable {
    /// Returns the line of a bytecode index; 0 if there is none.
    pub fn line(&self, bytecode: u32) -> u32 {
        // The table may be in any order: the entry with the nearest lower bytecode index applies.
        let before = self.0.iter().filter(|(start, _)| u32::from(*start) <= bytecode);
        before.max_by_key(|(start, _)| *start).map_or(0, |(_, line)| (*line).into())
    }

    fn first(&self) -> u32 {
        self.0.iter().map(|(_, line)| *line).filter(|line| *line > 0).min().unwrap_or(0).into()
    }
}

impl Methods<'_> {
    fn short(&self, address: u64) -> Option<u64> {
        self.reader.bytes(address).map(|bytes| u16::from_le_bytes(bytes).into())
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let len = self.short(address.checked_add(self.layout.symbol_len)?)?;
        let bytes = self.reader.text(address.checked_add(self.layout.symbol_body)?, len)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the addresses of a method's `ConstMethod` and of its constant pool.
    fn parts(&self, method: u64) -> Option<(u64, u64)> {
        let method = method.checked_add(self.layout.const_method)?;
        let constant = self.reader.pointer(method)?;
        Some((constant, self.reader.pointer(constant.checked_add(self.layout.constants)?)?))
    }

    fn constant(&self, constants: u64, index: u64) -> Option<String> {
        // The lowest bits of a pointer to a symbol are flags.
        let at = constants.checked_add(self.layout.constants_size + 8 * index)?;
        self.symbol(self.reader.pointer(at)? & !7)
    }

    /// Returns the method's name in the form of HotSpot's own perf map: `int Counter.add(int, java.lang.String[])`.
    pub fn name(&self, method: u64) -> Option<Name> {
        self.with_lines(method).map(|(name, _)| name)
    }

    /// Returns the method's name and lines.
    pub fn with_lines(&self, method: u64) -> Option<(Name, LineTable)> {
        let layout = self.layout;
        let (constant, constants) = self.parts(method)?;
        let text = |field: u64| self.constant(constants, self.short(constant.checked_add(field)?)?);
        let (name, signature) = (text(layout.name)?, text(layout.signature)?);
        let class = self.reader.pointer(constants.checked_add(layout.holder)?)?;
        let holder = self.symbol(self.reader.pointer(class.checked_add(layout.class_name)?)?)?;
        let holder = holder.replace('/', ".");
        let function = match Signature::parse(&signature) {
            Some(Signature { parameters, returned }) => {
                format!("{returned} {holder}.{name}({})", parameters.join(", "))
            }
            None => format!("{holder}.{name}"),
        };
        let source = match (layout.source_in_constants, layout.source_in_class) {
            (Some(at), _) => self.short(constants.checked_add(at)?),
            (None, Some(at)) => self.short(class.checked_add(at)?),
            (None, None) => None,
        };
        let file = source.filter(|index| *index > 0);
        let file = file.and_then(|index| readable(&self.constant(constants, index)?));
        let (function, lines) = (readable(&function)?, self.lines(method));
        Some((Name { function, file, start_line: lines.first() }, lines))
    }

    /// Returns the method's lines; an empty table if it has none, or they cannot be read.
    pub fn lines(&self, method: u64) -> LineTable {
        self.read_lines(method).unwrap_or_default()
    }

    fn read_lines(&self, method: u64) -> Option<LineTable> {
        const HAS_LINES: u64 = 1;
        /// No table is longer, in bytes.
        const LONGEST: u64 = 1 << 18;
        const PAGE: u64 = 4096;
        let layout = self.layout;
        let (constant, _) = self.parts(method)?;
        let short = |field| self.short(constant.checked_add(field)?);
        if short(layout.flags)? & HAS_LINES == 0 {
            return None;
        }
        let size = layout.const_method_size + short(layout.code_size)?;
        let start = constant.checked_add(size)?;
        // The length is known only from the terminator; the memory behind it may not be mapped.
        let to_page = PAGE - start % PAGE;
        let lens = [256, PAGE, 16 * PAGE, LONGEST];
        let read = |len: &u64| {
            let bytes = self.reader.all(start, *len).or_else(|| self.reader.all(start, to_page));
            decode_lines(&bytes?, layout.without_zeros)
        };
        lens.iter().find_map(read).map(|lines| LineTable(lines.into()))
    }
}

/// Decodes a line table, which ends with a zero byte. Each entry is a byte with the bytecode delta above 3 bits of line
/// delta, or 255 followed by both as signed numbers. `None` if the table does not end in `bytes`.
fn decode_lines(bytes: &[u8], without_zeros: bool) -> Option<Vec<(u16, u16)>> {
    let mut numbers = Numbers { bytes, at: 0, without_zeros };
    let (mut bytecode, mut line) = (0i32, 0i32);
    let mut lines = Vec::new();
    loop {
        let byte = *bytes.get(numbers.at)?;
        numbers.at += 1;
        match byte {
            0 => return Some(lines),
            0xff => {
                bytecode = bytecode.wrapping_add(numbers.signed()?);
                line = line.wrapping_add(numbers.signed()?);
            }
            _ => {
                bytecode = bytecode.wrapping_add((byte >> 3).into());
                line = line.wrapping_add((byte & 7).into());
            }
        }
        lines.push((bytecode as u16, line as u16));
    }
}

/// Compressed numbers (`utilities/unsigned5.hpp`): up to five bytes with six more bits each; a byte below a limit is
/// the last.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    pub without_zeros: bool,
}

impl Numbers<'_> {
    pub fn next(&mut self) -> Option<u32> {
        let least = u32::from(self.without_zeros);
        let mut sum = 0u32;
        for shift in [0, 6, 12, 18, 24] {
            let byte = u32::from(*self.bytes.get(self.at)?);
            self.at += 1;
            sum = sum.wrapping_add(byte.checked_sub(least)? << shift);
            if byte < 192 {
                break;
            }
        }
        Some(sum)
    }

    fn signed(&mut self) -> Option<i32> {
        let value = self.next()?;
        Some((value >> 1) as i32 ^ -((value & 1) as i32))
    }
}

/// Types of a method in Java's syntax.
struct Signature {
    parameters: Vec<String>,
    returned: String,
}

impl Signature {
    /// Parses a descriptor: `(I[Ljava/lang/String;)V`.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('(')?;
        let mut parameters = Vec::new();
        while !rest.starts_with(')') {
            let (name, behind) = type_name(rest)?;
            parameters.push(name);
            rest = behind;
        }
        let (returned, behind) = type_name(&rest[1..])?;
        behind.is_empty().then_some(Self { parameters, returned })
    }
}

/// Returns the first type of a descriptor, and the rest.
fn type_name(text: &str) -> Option<(String, &str)> {
    let element = text.trim_start_matches('[');
    let dimensions = text.len() - element.len();
    let (name, rest) = match element.as_bytes().first()? {
        b'L' => {
            let (name, rest) = element[1..].split_once(';')?;
            (name.replace('/', "."), rest)
        }
        letter => {
            let name = match letter {
                b'B' => "byte",
                b'C' => "char",
                b'D' => "double",
                b'F' => "float",
                b'I' => "int",
                b'J' => "long",
                b'S' => "short",
                b'Z' => "boolean",
                b'V' => "void",
                _ => return None,
            };
            (name.to_owned(), &element[1..])
        }
    };
    Some((format!("{name}{}", "[]".repeat(dimensions)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_written_as_in_java() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            let parsed = Signature::parse(text).map(|it| (it.parameters.join(", "), it.returned));
            assert_eq!(parsed, expect.map(|(a, b)| (a.to_owned(), b.to_owned())), "{text}");
        };
        check("()V", Some(("", "void")));
        check("(I[[Ljava/lang/String;J)[Z", Some(("int, java.lang.String[][], long", "boolean[]")));
        for damaged in ["", "(", "(I", "()", "(L)V", "(I)VV", "(X)V", "([)V", "(é)V"] {
            check(damaged, None);
        }
    }

    /// As HotSpot writes them (`UNSIGNED5`).
    fn encode(value: u32, without_zeros: bool) -> Vec<u8> {
        let least = u32::from(without_zeros);
        let low = 192 - least;
        let (mut bytes, mut rest) = (Vec::new(), value);
        while rest >= low && bytes.len() < 4 {
            rest -= low;
            bytes.push((least + low + rest % 64) as u8);
            rest /= 64;
        }
        bytes.push((least + rest) as u8);
        bytes
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for without_zeros in [false, true] {
            for value in
                (0..40).map(|n| 3u32.wrapping_pow(n) >> (n / 4)).chain([0, 190, 191, 192, 193])
            {
                let bytes = encode(value, without_zeros);
                let mut numbers = Numbers { bytes: &bytes, at: 0, without_zeros };
                assert_eq!((numbers.next(), numbers.at), (Some(value), bytes.len()), "{bytes:?}");
                let mut cut = Numbers { bytes: &bytes[..bytes.len() - 1], at: 0, without_zeros };
                assert_eq!(cut.next(), None);
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_nearest_bytecode_before() {
        for without_zeros in [false, true] {
            let far =
                [&[0xff][..], &encode(2 * 400, without_zeros), &encode(2 * 3 - 1, without_zeros)];
            // Bytecode 0: line 7; 5: 9; 405: 6.
            let bytes = [&[7, 5 << 3 | 2][..], &far.concat(), &[0, 99]].concat();
            let lines = decode_lines(&bytes, without_zeros).expect("a table");
            assert_eq!(lines, [(0, 7), (5, 9), (405, 6)]);
            let table = LineTable(lines.into());
            for (bytecode, line) in [(0, 7), (4, 7), (5, 9), (404, 9), (405, 6), (60_000, 6)] {
                assert_eq!(table.line(bytecode), line, "{bytecode}");
            }
            assert_eq!(table.first(), 6);
            for len in 0..bytes.len() - 2 {
                assert_eq!(decode_lines(&bytes[..len], without_zeros), None);
            }
        }
        assert_eq!(LineTable::default().line(3), 0);
    }
}
