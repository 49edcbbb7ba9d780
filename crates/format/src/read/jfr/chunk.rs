//! Parser of the chunks of a recording. Each chunk has its own types and constants.
//!
//! Everything is a value of a type. Types other than numbers and strings are lists of fields; a field may be a
//! reference to a constant of its type, and may be an array. Values are decoded lazily: constants are kept as offsets
//! in the file.

use std::cell::Cell;

use hashbrown::HashMap;

/// A violation of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

type Result<T> = std::result::Result<T, Damaged>;

/// Maximum nesting of types. Real ones nest little: a stack trace has frames, and these refer to constants.
const DEEPEST: usize = 16;

/// Size of a chunk's header, in bytes.
const HEADER: usize = 68;

/// A read position in a chunk.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).ok_or(Damaged)?;
        let taken = self.bytes.get(self.at..end).ok_or(Damaged)?;
        self.at = end;
        Ok(taken)
    }

    /// Decodes a number of up to 64 bits: LEB128 with seven bits per byte, lowest first, but eight bits in the ninth
    /// byte.
    pub fn number(&mut self) -> Result<i64> {
        let mut number = 0;
        for index in 0..9 {
            let byte = u64::from(self.take(1)?[0]);
            if index == 8 {
                number |= byte << 56;
                break;
            }
            number |= (byte & 127) << (7 * index);
            if byte < 128 {
                break;
            }
        }
        Ok(number as i64)
    }

    /// Decodes a number of elements or bytes. Fails if it exceeds the remaining bytes, since each element takes at
    /// least one.
    fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| Damaged)?;
        if count > self.bytes.len() - self.at { Err(Damaged) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<Text> {
        Ok(match self.take(1)?[0] {
            0 | 1 => Text::Plain(String::new()),
            2 => Text::Constant(self.number()?),
            3 => {
                let count = self.count()?;
                Text::Plain(String::from_utf8_lossy(self.take(count)?).into_owned())
            }
            4 => {
                let count = self.count()?;
                let units = (0..count).map(|_| self.number().map(|unit| unit as u16));
                let units = units.collect::<Result<Vec<u16>>>()?;
                Text::Plain(String::from_utf16_lossy(&units))
            }
            5 => {
                let count = self.count()?;
                Text::Plain(self.take(count)?.iter().map(|&byte| char::from(byte)).collect())
            }
            _ => return Err(Damaged),
        })
    }
}

/// A string, or the key of a string constant.
enum Text {
    Plain(String),
    Constant(i64),
}

/// A type of values, from the chunk's metadata.
pub struct Type {
    pub name: String,
    fields: Vec<Field>,
}

impl Type {
    /// True if the type has a field with this name.
    pub fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|of| of.name == field)
    }
}

/// A field of a type.
pub struct Field {
    pub name: String,
    pub type_id: i64,
    is_constant: bool,
    is_array: bool,
}

/// The value of a field.
pub enum Value<'a> {
    /// An integer or boolean.
    Number(i64),
    Text(String),
    /// The key of a constant of the field's type.
    Constant(i64),
    /// The start of an array.
    Array(Cursor<'a>),
    /// A value of any other type.
    Other,
}

/// A self-contained part of a recording.
pub struct Chunk<'a> {
    bytes: &'a [u8],
    pub types: HashMap<i64, Type, foldhash::fast::FixedState>,
    /// Offset of each constant, by type and key.
    constants: HashMap<(i64, i64), usize, foldhash::fast::FixedState>,
    text_type: Option<i64>,
    clock: Clock,
    /// Number of values that may still be read. Types without fields take no bytes, so damaged files could nest them
    /// such that reading never ends.
    budget: Cell<u64>,
}

/// The clock of a chunk.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Start of the chunk, in nanoseconds since 1970.
    pub start: u64,
    /// Duration of the chunk, in nanoseconds.
    pub duration: u64,
    start_ticks: i64,
    ticks_a_second: i64,
}

impl Clock {
    /// Converts a number of ticks to nanoseconds.
    pub fn nanoseconds(&self, ticks: i64) -> u64 {
        let rate = i128::from(self.ticks_a_second.max(1));
        let nanoseconds = i128::from(ticks.max(0)) * 1_000_000_000 / rate;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Converts a timestamp in ticks to nanoseconds since 1970.
    pub fn time(&self, ticks: i64) -> u64 {
        self.start.saturating_add(self.nanoseconds(ticks.saturating_sub(self.start_ticks)))
    }
}

/// True if `bytes` begin with the header of a chunk.
pub fn begins_chunk(bytes: &[u8]) -> bool {
    // Version 2 is written by JDK 11 and later. Versions 0 and 1 were Oracle's own.
    bytes.starts_with(b"FLR\0\0\x02")
}

impl<'a> Chunk<'a> {
    /// Parses the chunk at the beginning of `bytes`; returns it and the rest.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let header = bytes.get(..HEADER).filter(|header| begins_chunk(header)).ok_or(Damaged)?;
        let word = |at: usize| {
            let bytes: [u8; 8] = header[at..at + 8].try_into().unwrap_or_default();
            i64::from_be_bytes(bytes)
        };
        let size = usize::try_from(word(8)).ok().filter(|&size| size >= HEADER);
        let (bytes, rest) = bytes.split_at_checked(size.ok_or(Damaged)?).ok_or(Damaged)?;
        let is_compressed = header[67] & 1 == 1;
        if !is_compressed {
            return Err(Damaged);
        }
        let mut chunk = Self {
            bytes,
            types: HashMap::default(),
            constants: HashMap::default(),
            text_type: None,
            clock: Clock {
                start: u64::try_from(word(32)).unwrap_or(0),
                duration: u64::try_from(word(40)).unwrap_or(0),
                start_ticks: word(48),
                ticks_a_second: word(56),
            },
            budget: Cell::new(bytes.len() as u64 * 4 + 10_000),
        };
        let metadata = usize::try_from(word(24)).map_err(|_| Damaged)?;
        chunk.types = types(Cursor { bytes, at: metadata })?;
        let is_text = |(id, of): (&i64, &Type)| (of.name == "java.lang.String").then_some(*id);
        chunk.text_type = chunk.types.iter().find_map(is_text);
        let tables: Vec<Cursor> =
            chunk.events().filter(|(id, _)| *id == 1).map(|(_, cursor)| cursor).collect();
        for table in tables {
            chunk.index(table)?;
        }
        Ok((chunk, rest))
    }

    /// Returns the clock of the chunk.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Iterates over all events: type ID, and a cursor at the event's fields.
    pub fn events(&self) -> impl Iterator<Item = (i64, Cursor<'a>)> + use<'a> {
        let bytes = self.bytes;
        let mut at = HEADER;
        std::iter::from_fn(move || {
            let mut cursor = Cursor { bytes, at };
            let size = usize::try_from(cursor.number().ok()?).ok().filter(|&size| size > 0)?;
            let end = at.checked_add(size).filter(|&end| end <= bytes.len())?;
            let event = cursor.number().ok()?;
            at = end;
            Some((event, Cursor { bytes: &bytes[..end], at: cursor.at }))
        })
    }

    /// Records the offsets of all constants of a constant pool event.
    fn index(&mut self, mut cursor: Cursor<'a>) -> Result<()> {
        // Time, duration, and offset of the previous constant pool.
        for _ in 0..3 {
            cursor.number()?;
        }
        cursor.take(1)?;
        for _ in 0..cursor.count()? {
            let of = cursor.number()?;
            for _ in 0..cursor.count()? {
                let key = cursor.number()?;
                self.constants.insert((of, key), cursor.at);
                self.skip(of, &mut cursor, 0)?;
            }
        }
        Ok(())
    }

    /// Calls `on_field` for each field of a value of type `of`.
    pub fn fields(
        &self,
        of: i64,
        cursor: &mut Cursor<'a>,
        on_field: &mut dyn FnMut(&Field, Value<'a>),
    ) -> Result<()> {
        for field in &self.types.get(&of).ok_or(Damaged)?.fields {
            let before = *cursor;
            let value = match self.types.get(&field.type_id).ok_or(Damaged)?.name.as_str() {
                _ if field.is_array => {
                    self.skip_field(field, cursor, 0)?;
                    Value::Array(before)
                }
                _ if field.is_constant => Value::Constant(cursor.number()?),
                "boolean" | "byte" => Value::Number(i64::from(cursor.take(1)?[0])),
                "short" | "char" | "int" | "long" => Value::Number(cursor.number()?),
                "java.lang.String" => Value::Text(match cursor.text()? {
                    Text::Plain(text) => text,
                    Text::Constant(key) => self.text_constant(key),
                }),
                _ => {
                    self.skip_field(field, cursor, 0)?;
                    Value::Other
                }
            };
            on_field(field, value);
        }
        Ok(())
    }

    /// Calls `on_field` for each field of each element of an array.
    pub fn elements(
        &self,
        of: i64,
        mut array: Cursor<'a>,
        on_field: &mut dyn FnMut(usize, &Field, Value<'a>),
    ) -> Result<()> {
        for index in 0..array.count()? {
            let before = array.at;
            self.fields(of, &mut array, &mut |field, value| on_field(index, field, value))?;
            if array.at == before {
                return Err(Damaged);
            }
        }
        Ok(())
    }

    /// Returns a cursor at the fields of a constant.
    pub fn constant(&self, of: i64, key: i64) -> Option<Cursor<'a>> {
        let at = *self.constants.get(&(of, key))?;
        Some(Cursor { bytes: self.bytes, at })
    }

    fn text_constant(&self, key: i64) -> String {
        let constant = self.text_type.and_then(|of| self.constant(of, key));
        match constant.map(|mut cursor| cursor.text()) {
            Some(Ok(Text::Plain(text))) => text,
            _ => String::new(),
        }
    }

    fn skip(&self, of: i64, cursor: &mut Cursor<'a>, depth: usize) -> Result<()> {
        let left = self.budget.get().checked_sub(1).ok_or(Damaged)?;
        self.budget.set(left);
        let of = self.types.get(&of).filter(|_| depth < DEEPEST).ok_or(Damaged)?;
        match of.name.as_str() {
            "boolean" | "byte" => drop(cursor.take(1)?),
            "short" | "char" | "int" | "long" => drop(cursor.number()?),
            "float" => drop(cursor.take(4)?),
            "double" => drop(cursor.take(8)?),
            "java.lang.String" => drop(cursor.text()?),
            _ => {
                for field in &of.fields {
                    self.skip_field(field, cursor, depth)?;
                }
            }
        }
        Ok(())
    }

    fn skip_field(&self, field: &Field, cursor: &mut Cursor<'a>, depth: usize) -> Result<()> {
        let count = if field.is_array { cursor.count()? } else { 1 };
        for _ in 0..count {
            let before = cursor.at;
            match field.is_constant {
                true => drop(cursor.number()?),
                false => self.skip(field.type_id, cursor, depth + 1)?,
            }
            if field.is_array && cursor.at == before {
                return Err(Damaged);
            }
        }
        Ok(())
    }
}

type Types = HashMap<i64, Type, foldhash::fast::FixedState>;

/// Parses the metadata event, which describes the types: a tree of elements, whose names and attributes are indices
/// of strings.
fn types<'a>(mut cursor: Cursor<'a>) -> Result<Types> {
    // Size, type, time, duration, metadata ID.
    for _ in 0..5 {
        cursor.number()?;
    }
    let strings = (0..cursor.count()?).map(|_| match cursor.text()? {
        Text::Plain(text) => Ok(text),
        Text::Constant(_) => Err(Damaged),
    });
    let strings = strings.collect::<Result<Vec<String>>>()?;
    let mut types = Types::default();
    // Number of remaining children of each open element.
    let mut open: Vec<usize> = vec![1];
    let mut last = None;
    while let Some(left) = open.last_mut() {
        let Some(rest) = left.checked_sub(1) else {
            open.pop();
            continue;
        };
        *left = rest;
        let string = |cursor: &mut Cursor<'a>| -> Result<&str> {
            let index = usize::try_from(cursor.number()?).map_err(|_| Damaged)?;
            Ok(strings.get(index).ok_or(Damaged)?)
        };
        let element = string(&mut cursor)?;
        let mut attributes = Vec::new();
        for _ in 0..cursor.count()? {
            attributes.push((string(&mut cursor)?, string(&mut cursor)?));
        }
        let attribute = |name: &str| attributes.iter().find(|of| of.0 == name).map(|of| of.1);
        let number = |name: &str| attribute(name).and_then(|text| text.parse::<i64>().ok());
        match element {
            "class" => {
                let id = number("id").ok_or(Damaged)?;
                let name = attribute("name").unwrap_or_default().to_owned();
                types.insert(id, Type { name, fields: Vec::new() });
                last = Some(id);
            }
            "field" => {
                let of = last.and_then(|id| types.get_mut(&id)).ok_or(Damaged)?;
                of.fields.push(Field {
                    name: attribute("name").unwrap_or_default().to_owned(),
                    type_id: number("class").ok_or(Damaged)?,
                    is_constant: attribute("constantPool") == Some("true"),
                    is_array: number("dimension").is_some_and(|dimension| dimension > 0),
                });
            }
            _ => {}
        }
        open.push(cursor.count()?);
    }
    Ok(types)
}
