//! Values of expressions: from where a program in the kernel reads them, and how they are shown.

use gimli::{Register, X86_64};

use crate::call::RETURNED;
use crate::error::Error;
use crate::expression::{Access, Expression, Start};
use crate::functions::{Body, Function};
use crate::layout::Layout;
use crate::location::{Base, Gone, Location, Number};
use crate::program::{EntryId, View};

/// Where a value is read from, and how it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadValue {
    /// The value; the address of its first byte for a text.
    pub number: Number,
    /// Its kind.
    pub shape: Shape,
}

/// Kinds of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Number {
        /// True if it may be negative.
        signed: bool,
        /// Its first bit, and the number of its bits.
        bits: (u8, u8),
    },
    /// An address.
    Address,
    /// True or false.
    Truth,
    /// A character.
    Character,
    /// A floating-point number of 4 or 8 bytes.
    Float {
        /// Its size in bytes.
        size: u8,
    },
    /// A value of an enumeration, with its names.
    Names {
        /// True if it may be negative.
        signed: bool,
        /// Its first bit, and the number of its bits.
        bits: (u8, u8),
        /// Values and their names.
        names: Vec<(i64, String)>,
    },
    /// A text that ends with a zero byte, or that has a length.
    Text {
        /// Its length in bytes. `None` for up to a zero byte.
        length: Option<Number>,
    },
}

impl Shape {
    /// The text of a value.
    pub fn text(&self, value: u64) -> String {
        match self {
            Self::Number { signed, bits: (first, count) } => {
                let number = cut(value >> (first & 63), *count, *signed);
                if *signed { number.to_string() } else { number.cast_unsigned().to_string() }
            }
            Self::Address => format!("{value:#x}"),
            Self::Truth => (value & 0xff != 0).to_string(),
            Self::Character => match u8::try_from(value & 0xff) {
                Ok(byte @ b' '..=b'~') => format!("'{}'", char::from(byte)),
                _ => format!("{:#x}", value & 0xff),
            },
            Self::Float { size: 4 } => f32::from_bits(value as u32).to_string(),
            Self::Float { .. } => f64::from_bits(value).to_string(),
            Self::Names { signed, bits: (first, count), names } => {
                let number = cut(value >> (first & 63), *count, *signed);
                let name = names.iter().find(|(known, _)| *known == number);
                name.map_or_else(|| number.to_string(), |(_, name)| name.clone())
            }
            Self::Text { .. } => format!("{value:#x}"),
        }
    }
}

/// The lowest `bits` bits of a value, extended by their sign if it has one.
fn cut(value: u64, bits: u8, signed: bool) -> i64 {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    match signed {
        true => (value << unused).cast_signed() >> unused,
        false => ((value << unused) >> unused).cast_signed(),
    }
}

/// A part of a variable while an expression is followed: where it is, and its type.
struct Item {
    location: Location,
    /// First bit of the value in a location of several bytes that are no memory, and its bits if they are fewer than
    /// the type has.
    first_bit: u64,
    bits: Option<u64>,
    kind: Option<EntryId>,
    /// As many pointers lead to the type, by a cast.
    pointers: u8,
}

impl Item {
    /// All of a value of a type.
    fn new(location: Location, kind: Option<EntryId>) -> Self {
        Self { location, first_bit: 0, bits: None, kind, pointers: 0 }
    }
}

impl View<'_> {
    /// Returns from where the value of an expression is read when the instruction at an address of a function's code
    /// begins, or when the function returns if there is none: then its parameters are as it was called with them.
    /// `as_text` reads the text that a pointer or an array of characters is.
    ///
    /// # Errors
    ///
    /// If the expression is none, or its value cannot be read there; the error says why.
    pub fn value(
        &self,
        function: &Function,
        body: &Body,
        address: Option<u64>,
        expression: &str,
        as_text: bool,
    ) -> Result<ReadValue, Error> {
        let refuse = |why: String| Error::Value { expression: expression.to_owned(), why };
        let parsed = Expression::parse(expression).map_err(|why| Error::Expression { why })?;
        let mut item = match &parsed.start {
            Start::Returned => {
                Item::new(Location::Register(RETURNED), self.type_of(function.declared))
            }
            // All of its bits, as an address.
            Start::Register(number) => {
                Item { bits: Some(64), ..Item::new(Location::Register(*number), None) }
            }
            Start::Variable(name) => self.item(body, address, name).map_err(refuse)?,
        };
        for step in &parsed.steps {
            item = self.step(item, step).map_err(refuse)?;
        }
        self.read(item, as_text).map_err(refuse)
    }

    /// A variable in scope, or a static one.
    fn item(&self, body: &Body, address: Option<u64>, name: &str) -> Result<Item, String> {
        let item = |location, id| Item::new(location, self.type_of(id));
        let Some(address) = address else {
            return self.argument(body, name).map(|(id, location)| item(location, id));
        };
        let in_scope = self.in_scope(body, address);
        let found = in_scope
            .iter()
            .rev()
            .find(|id| self.text(**id, gimli::DW_AT_name).as_deref() == Some(name));
        let id = match found {
            Some(id) => *id,
            None => self.static_variable(body.id.unit, name).ok_or_else(|| {
                let names = in_scope.iter().filter_map(|id| self.text(*id, gimli::DW_AT_name));
                let mut names: Vec<String> = names.collect();
                names.dedup();
                match names.is_empty() {
                    true => "there is no such variable".to_owned(),
                    false => format!("there is no such variable; there are {}", names.join(", ")),
                }
            })?,
        };
        let location = self.location(id, body, address).map_err(|gone| match gone {
            Gone::Elsewhere(ranges) => {
                let range = |range: &std::ops::Range<u64>| format!("{:#x}", range.start);
                let first: Vec<String> = ranges.iter().take(3).map(range).collect();
                format!("not available here, but from {} on", first.join(", "))
            }
            gone => gone.to_string(),
        })?;
        Ok(item(location, id))
    }

    /// A variable of a unit, or of another one.
    pub(crate) fn static_variable(&self, unit: usize, name: &str) -> Option<EntryId> {
        let units =
            std::iter::once(unit).chain((0..self.units.len()).filter(|other| *other != unit));
        let plain = name.rsplit("::").next().unwrap_or(name);
        let mut found = units.filter_map(|unit| {
            let of = self.units.get(unit)?;
            let mut below = vec![EntryId { unit, offset: of.header.root_offset() }];
            while let Some(id) = below.pop() {
                for (id, entry) in self.children(id) {
                    match entry.tag() {
                        gimli::DW_TAG_variable => {
                            let has_place = self.attribute(id, gimli::DW_AT_location).is_some();
                            let is_it = self.text(id, gimli::DW_AT_name).as_deref() == Some(plain);
                            if is_it && has_place {
                                return Some(id);
                            }
                        }
                        gimli::DW_TAG_namespace => below.push(id),
                        _ => {}
                    }
                }
            }
            None
        });
        found.next()
    }

    fn step(&self, item: Item, step: &Access) -> Result<Item, String> {
        match step {
            Access::Member(name) => {
                let item = match self.layout_of(&item) {
                    Layout::Pointer { .. } => self.target(item)?,
                    _ => item,
                };
                self.member(item, name)
            }
            Access::Target => self.target(item),
            Access::Cast(name, pointers) => {
                if item.first_bit != 0 {
                    return Err("it lies in the midst of a register".to_owned());
                }
                // An array is taken for a pointer to its first element.
                let value = match (self.layout_of(&item), &item.location) {
                    (Layout::Array { .. }, Location::Memory(address)) => address.clone(),
                    _ => number(&item, 8)?,
                };
                let location = Location::Computed(value);
                let kind = self.type_named(name);
                let kind = Some(kind.ok_or_else(|| format!("there is no type '{name}'"))?);
                Ok(Item { pointers: *pointers, ..Item::new(location, kind) })
            }
            Access::Element(number) => self.element(item, *number),
            Access::Address => match item.location {
                Location::Memory(address) => {
                    Ok(Item { bits: Some(64), ..Item::new(Location::Computed(address), None) })
                }
                _ => Err("it is not in memory, and has no address".to_owned()),
            },
        }
    }

    /// The layout of an item: that of its type, or a pointer by a cast.
    fn layout_of(&self, item: &Item) -> Layout {
        match item.pointers {
            0 => self.layout(item.kind),
            _ => Layout::Pointer { to: item.kind },
        }
    }

    /// Target of a pointer, or the first element of an array.
    fn target(&self, item: Item) -> Result<Item, String> {
        if item.pointers > 0 {
            let location = Location::Memory(number(&item, 8)?);
            return Ok(Item { location, pointers: item.pointers - 1, ..item });
        }
        let to = match self.layout(item.kind) {
            Layout::Pointer { to } => to,
            Layout::Array { .. } => return self.element(item, 0),
            _ => return Err(format!("{} is no pointer", self.type_name(item.kind))),
        };
        if item.first_bit != 0 {
            return Err("it lies in the midst of a register".to_owned());
        }
        Ok(Item::new(Location::Memory(number(&item, 8)?), to))
    }

    fn element(&self, item: Item, index: i64) -> Result<Item, String> {
        let (item, of) = match self.layout_of(&item) {
            Layout::Array { of } => (item, of),
            Layout::Pointer { to } => (self.target(item)?, to),
            Layout::Structure if let Some(list) = self.list_object(&item) => {
                return self.element(list, index);
            }
            _ => return Err(format!("{} has no elements", self.type_name(item.kind))),
        };
        // Elements that are pointers by a cast.
        let size = if item.pointers > 0 { Some(8) } else { self.size(of) };
        let size = size.ok_or("the size of its elements is not known")?;
        let bytes = index.checked_mul(size.cast_signed()).ok_or("the place is out of range")?;
        let Location::Memory(address) = item.location else {
            return Err("it is not in memory".to_owned());
        };
        let location = Location::Memory(address.add(bytes));
        Ok(Item { pointers: item.pointers, ..Item::new(location, of) })
    }

    /// A member of a member, by their names.
    fn follow(&self, item: &Item, names: &[&str]) -> Option<Item> {
        let (location, kind) = (item.location.clone(), item.kind);
        let (first_bit, pointers) = (item.first_bit, item.pointers);
        let start = Item { location, first_bit, bits: None, kind, pointers };
        names.iter().try_fold(start, |item, name| self.member(item, name)).ok()
    }

    /// The pointer to the first element of an object that is a list: Go's slices, Rust's `&[T]`, C++'s `std::vector`.
    fn list_object(&self, item: &Item) -> Option<Item> {
        // The pointer, and a member beside it that tells such an object from others.
        const KINDS: [(&[&str], &[&str]); 3] = [
            (&["array"], &["len"]),
            (&["data_ptr"], &["length"]),
            (&["_M_impl", "_M_start"], &["_M_impl", "_M_finish"]),
        ];
        let follow = |names: &[&str]| self.follow(item, names);
        let found = KINDS
            .iter()
            .find_map(|(pointer, beside)| follow(beside).and_then(|_| follow(pointer)))?;
        matches!(self.layout(found.kind), Layout::Pointer { .. }).then_some(found)
    }

    fn member(&self, item: Item, name: &str) -> Result<Item, String> {
        let Layout::Structure = self.layout_of(&item) else {
            return Err(format!("{} has no members", self.type_name(item.kind)));
        };
        // Fields of Rust's tuples are called `__0`.
        let alternative = format!("__{name}");
        let kind = self.plain(item.kind);
        let mut names = Vec::new();
        let found = kind.and_then(|kind| self.find_member(kind, &[name, &alternative], &mut names));
        let Some((id, offset)) = found else {
            if let Some(why) = self.one_of(&item) {
                return Err(why);
            }
            names.truncate(12);
            return Err(format!(
                "{} has no member '{name}'; it has {}",
                self.type_name(item.kind),
                names.join(", ")
            ));
        };
        let bits = self.number(id, gimli::DW_AT_bit_size);
        let offset = item.first_bit.wrapping_add(offset);
        let of_type = self.type_of(id);
        let (location, first_bit) = match item.location {
            Location::Memory(address) => {
                let bytes = i64::try_from(offset / 8).map_err(|_| "the place is out of range")?;
                (Location::Memory(address.add(bytes)), offset % 8)
            }
            Location::Parts(parts) => part(parts, offset)?,
            Location::Bytes(mut bytes) => {
                let before = usize::try_from(offset / 8).unwrap_or(usize::MAX);
                bytes.drain(..before.min(bytes.len()));
                (Location::Bytes(bytes), offset % 8)
            }
            // A register or a computed number has eight bytes.
            location if offset < 64 => (location, offset),
            _ => return Err("it is not where the rest of its structure is".to_owned()),
        };
        Ok(Item { location, first_bit, bits, kind: of_type, pointers: 0 })
    }

    /// The first instruction of a function's code at which its variables have their values: without optimization, they are
    /// stored before its second line.
    pub fn after_entry(&self, function: &Function, body: &Body) -> u64 {
        let mut in_scope = self.in_scope(body, body.entry).into_iter();
        let is_stored = |id: EntryId| {
            let place = self.location(id, body, body.entry);
            let entry = self.entry(id).is_some_and(|of| of.tag() == gimli::DW_TAG_formal_parameter);
            entry && matches!(place, Ok(Location::Memory(_)))
        };
        if !in_scope.any(is_stored) {
            return body.entry;
        }
        let lines = self.lines(function);
        let later = lines
            .values()
            .flatten()
            .filter(|address| **address > body.entry && body.contains(**address));
        later.min().copied().unwrap_or(body.entry)
    }

    /// From where an item is read.
    fn read(&self, mut item: Item, as_text: bool) -> Result<ReadValue, String> {
        // A reference is what it refers to.
        let is_reference = |kind: Option<EntryId>| {
            let tag = kind.and_then(|kind| self.entry(kind)).map(|entry| entry.tag());
            matches!(tag, Some(gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type))
        };
        if item.pointers == 0 && is_reference(self.plain(item.kind)) {
            item = self.target(item)?;
        }
        let layout = self.layout_of(&item);
        if as_text {
            return self.text_of(item, &layout);
        }
        let bits = |size: u64| {
            let count = u8::try_from(item.bits.unwrap_or(size.min(8) * 8)).unwrap_or(64);
            (u8::try_from(item.first_bit).unwrap_or(0), count)
        };
        // Less than whole bytes, or in the midst of a register.
        let is_part = item.first_bit != 0 || item.bits.is_some_and(|bits| bits % 8 != 0);
        let (size, shape) = match layout {
            Layout::Number { size, signed } if size <= 8 => {
                (size, Shape::Number { signed, bits: bits(size) })
            }
            Layout::Names { size, signed } if size <= 8 => {
                let names = self.enumerators(item.kind);
                (size, Shape::Names { signed, bits: bits(size), names })
            }
            Layout::Truth | Layout::Character if is_part => {
                (1, Shape::Number { signed: false, bits: bits(1) })
            }
            Layout::Truth => (1, Shape::Truth),
            Layout::Character => (1, Shape::Character),
            Layout::Pointer { .. } | Layout::Float { .. } if is_part => {
                return Err("it lies in the midst of a register".to_owned());
            }
            Layout::Pointer { .. } => (8, Shape::Address),
            Layout::Float { size: size @ (4 | 8) } => (size, Shape::Float { size: size as u8 }),
            Layout::Structure => {
                if let Some(text) = self.string_object(&item) {
                    return text;
                }
                let mut names = Vec::new();
                let kind = self.plain(item.kind);
                kind.and_then(|kind| self.find_member(kind, &[], &mut names));
                names.truncate(12);
                let name = self.type_name(item.kind);
                if let Some(why) = self.one_of(&item) {
                    return Err(why);
                }
                let names = names.join(", ");
                return Err(format!("{name} has several values; its members are {names}"));
            }
            Layout::Array { .. } => {
                let name = self.type_name(item.kind);
                return Err(format!(
                    "{name} has several values: [0] is the first, :string reads characters"
                ));
            }
            // An address without a type.
            Layout::Other if item.bits == Some(64) => (8, Shape::Address),
            _ => {
                let name = self.type_name(item.kind);
                return Err(format!("values of the type {name} are not read"));
            }
        };
        // A field of bits may reach into the next bytes.
        let size = match item.first_bit + u64::from(bits(size).1) {
            end if end > size * 8 => 8,
            _ => size,
        };
        Ok(ReadValue { number: number(&item, size)?, shape })
    }

    /// Why a value is not read that is one of several: `Option<u32>`. `None` for other types.
    fn one_of(&self, item: &Item) -> Option<String> {
        let alternatives = self.alternatives(self.plain(item.kind)?);
        let names = (!alternatives.is_empty()).then(|| alternatives.join(" or "))?;
        let name = self.type_name(item.kind);
        Some(format!("{name} is {names}; which, and what is in it, is not read"))
    }

    /// The text that a pointer or an array of characters is.
    fn text_of(&self, item: Item, layout: &Layout) -> Result<ReadValue, String> {
        let number = match (layout, &item.location) {
            _ if item.first_bit != 0 => return Err("it lies in the midst of a register".to_owned()),
            (Layout::Pointer { .. } | Layout::Number { size: 8, .. }, _) => number(&item, 8)?,
            (Layout::Other, _) if item.bits == Some(64) => number(&item, 8)?,
            (Layout::Array { .. }, Location::Memory(address)) => address.clone(),
            (Layout::Structure, _) => {
                return self
                    .string_object(&item)
                    .unwrap_or_else(|| Err(format!("{} is no text", self.type_name(item.kind))));
            }
            _ => return Err(format!("{} is no text", self.type_name(item.kind))),
        };
        Ok(ReadValue { number, shape: Shape::Text { length: None } })
    }

    /// The text of an object that is one: C++'s `std::string`, Rust's `&str` and `String`, Go's `string`.
    fn string_object(&self, item: &Item) -> Option<Result<ReadValue, String>> {
        const NAMES: [&str; 3] = ["&str", "String", "string"];
        // Members that lead to the text, and to its length.
        const KINDS: [(&[&str], &[&str]); 4] = [
            (&["_M_dataplus", "_M_p"], &["_M_string_length"]),
            (&["data_ptr"], &["length"]),
            (&["vec", "buf", "inner", "ptr", "pointer", "pointer"], &["vec", "len"]),
            (&["str"], &["len"]),
        ];
        let name = self.text(self.plain(item.kind)?, gimli::DW_AT_name)?;
        if !NAMES.contains(&name.as_str()) && !name.starts_with("basic_string<char,") {
            return None;
        }
        let follow = |names: &[&str]| self.follow(item, names);
        KINDS.iter().find_map(|(text, length)| {
            let (text, length) = (follow(text)?, follow(length)?);
            let read = || {
                if text.first_bit != 0 || length.first_bit != 0 {
                    return Err("it lies in the midst of a register".to_owned());
                }
                let length = Some(number(&length, 8)?);
                Ok(ReadValue { number: number(&text, 8)?, shape: Shape::Text { length } })
            };
            Some(read())
        })
    }
}

/// The value of an item that has this number of bytes.
fn number(item: &Item, size: u64) -> Result<Number, String> {
    let size = u8::try_from(size).map_err(|_| "it is too large")?;
    match &item.location {
        Location::Memory(address) => {
            if !matches!(size, 1 | 2 | 4 | 8) {
                return Err(format!("values of {size} bytes are not read"));
            }
            Ok(address.clone().load(size))
        }
        Location::Register(register) => general(*register).map(Number::of),
        Location::Computed(number) => Ok(number.clone()),
        Location::Bytes(bytes) => {
            let mut word = [0; 8];
            let count = bytes.len().min(8);
            if count == 0 {
                return Err("its bytes are not known".to_owned());
            }
            word[..count].copy_from_slice(&bytes[..count]);
            Ok(Number::of(Base::Constant(u64::from_le_bytes(word))))
        }
        Location::Parts(parts) => match parts.first() {
            Some((Some(Location::Register(register)), bits)) if *bits >= u64::from(size) * 8 => {
                general(*register).map(Number::of)
            }
            _ => Err("it is in several parts".to_owned()),
        },
    }
}

/// A register that programs in the kernel see.
fn general(register: u16) -> Result<Base, String> {
    match register <= X86_64::RA.0 {
        true => Ok(Base::Register(register)),
        false => {
            let name = X86_64::register_name(Register(register)).unwrap_or("another register");
            Err(format!("it is in {name}, which the kernel does not hand to programs"))
        }
    }
}

/// The part of a value in which a bit is, and the number of that bit in it.
fn part(parts: Vec<(Option<Location>, u64)>, bit: u64) -> Result<(Location, u64), String> {
    let mut first = 0;
    for (part, bits) in parts {
        if (first..first + bits).contains(&bit) {
            return match part {
                Some(Location::Memory(address)) => {
                    let inside = bit - first;
                    let bytes =
                        i64::try_from(inside / 8).map_err(|_| "the place is out of range")?;
                    Ok((Location::Memory(address.add(bytes)), inside % 8))
                }
                Some(part) => Ok((part, bit - first)),
                None => Err("optimized out".to_owned()),
            };
        }
        first = first.saturating_add(bits);
    }
    Err("it is in no part of the value".to_owned())
}
