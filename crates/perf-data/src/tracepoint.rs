//! A tracepoint's fields: their description in its `format` file, and their values in the raw data of samples.
//!
//! Source: `Documentation/trace/events.rst` in the kernel's source, and for `__data_loc` and
//! `__rel_loc` `Documentation/trace/fprobetrace.rst` and `include/trace/stages/`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pyrograph_event::ByteOrder;

use pyrograph_profile::FieldValue;

use crate::print_format::PrintFormat;

/// A tracepoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracepoint {
    /// ID: `config` of the event that counts it.
    pub id: u64,
    /// Name with its system: `sched:sched_switch`.
    pub name: String,
    /// Fields of its samples, without the fields that all tracepoints have.
    pub fields: Vec<TracepointField>,
    /// Format for printing its samples, if it is known.
    pub(crate) print: Option<PrintFormat>,
}

/// A field of a tracepoint's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracepointField {
    /// Its name.
    pub name: String,
    /// Type in C.
    pub kind: String,
    /// Offset in the raw data of a sample, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// True if its numbers are signed.
    pub signed: bool,
    shape: Shape,
}

/// Interpretation of a field's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Shape {
    /// A number.
    #[default]
    Number,
    /// A pointer, or the address of an instruction.
    Address,
    /// The kernel's internal `dev_t`: the minor number is in the lowest 20 bits.
    Device,
    /// State of the thread that was switched out, with the names of its bits.
    TaskState(States),
    /// Inline array of these elements.
    Array(Element),
    /// A word with the location of the elements: length and offset, 16 bits each.
    Elsewhere {
        element: Element,
        /// The offset counts from the end of the word instead of the start of the raw data.
        relative: bool,
    },
}

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// Text up to the first zero byte.
    Char,
    /// Bytes.
    Byte,
    /// Numbers of this size in bytes.
    Number(usize),
}

/// Lists with more elements are shown as bytes.
const LONGEST_LIST: usize = 1024;

/// Upper limit for the number of fields, above that of any tracepoint.
const MOST_FIELDS: usize = 1024;

impl Tracepoint {
    /// Parses a format:
    ///
    /// ```text
    /// name: sched_wakeup
    /// ID: 318
    /// format:
    ///     field:unsigned short common_type;  offset:0;  size:2;  signed:0;
    ///
    ///     field:char comm[16];  offset:8;  size:16;  signed:0;
    ///
    /// print fmt: "comm=%s", REC->comm
    /// ```
    ///
    /// `long_size` is the size of a `long` in bytes on the recorded machine.
    pub fn parse(system: &str, text: &str, long_size: u8) -> Option<Self> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let states = line("print fmt:").and_then(state_names);
        let fields = text.lines().filter_map(|line| field(line.trim(), states.as_ref(), long_size));
        let fields: Vec<_> =
            fields.filter(|field| !field.name.starts_with("common_")).take(MOST_FIELDS).collect();
        Some(Self {
            id: line("ID:")?.parse().ok()?,
            name: format!("{system}:{}", line("name:")?),
            print: line("print fmt:").and_then(|text| PrintFormat::parse(text, &fields)),
            fields,
        })
    }

    /// Returns the fields' names and values in the raw data of a sample ([`Sample::raw`]). Fields beyond the end of the
    /// data are left out.
    ///
    /// [`Sample::raw`]: pyrograph_event::Sample::raw
    pub fn values<'a>(
        &'a self,
        raw: &'a [u8],
        order: ByteOrder,
    ) -> impl Iterator<Item = (&'a str, FieldValue<'a>)> {
        self.fields
            .iter()
            .filter_map(move |field| Some((field.name.as_str(), field.value(raw, order)?)))
    }
}

impl TracepointField {
    /// Returns its range in the raw data; an array without a size extends to the end.
    fn place(&self, raw: &[u8]) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        match self.size {
            0 => Some(start..raw.len()),
            size => Some(start..start.checked_add(usize::try_from(size).ok()?)?),
        }
    }

    /// Returns its bytes in the raw data.
    pub(crate) fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.place(raw)?)
    }

    /// Returns the bytes whose location it contains; `None` if it does not contain a location.
    pub(crate) fn dynamic<'a>(&self, raw: &'a [u8], order: ByteOrder) -> Option<&'a [u8]> {
        let Shape::Elsewhere { relative, .. } = self.shape else { return None };
        let place = self.place(raw)?;
        let end = place.end;
        elsewhere(unsigned(raw.get(place)?, order)?, relative, end, raw)
    }

    /// Returns its text up to the first zero byte, and up to invalid UTF-8: the kernel cuts thread names after 15
    /// bytes.
    pub(crate) fn text<'a>(&self, raw: &'a [u8], order: ByteOrder) -> Option<&'a str> {
        let bytes = self.dynamic(raw, order).or_else(|| self.bytes(raw))?;
        let bytes = &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())];
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        }
    }

    /// Returns its bytes as a number, whatever they mean.
    pub(crate) fn number(&self, raw: &[u8], order: ByteOrder) -> Option<u64> {
        unsigned(self.bytes(raw)?, order)
    }

    /// Returns the size of an array element in bytes.
    pub(crate) fn element_size(&self) -> usize {
        let size = match self.shape {
            Shape::Array(Element::Number(size))
            | Shape::Elsewhere { element: Element::Number(size), .. } => size,
            _ => 1,
        };
        size.max(1)
    }

    /// Returns true if it is an array.
    pub(crate) fn is_array(&self) -> bool {
        matches!(self.shape, Shape::Array(_) | Shape::Elsewhere { .. })
    }

    /// Returns its value in the raw data of a sample.
    pub(crate) fn value<'a>(&self, raw: &'a [u8], order: ByteOrder) -> Option<FieldValue<'a>> {
        let place = self.place(raw)?;
        let end = place.end;
        let bytes = raw.get(place)?;
        Some(match &self.shape {
            Shape::Number => return number(bytes, self.signed, order),
            Shape::Address => FieldValue::Address(unsigned(bytes, order)?),
            Shape::Device => {
                let device = u32::try_from(unsigned(bytes, order)?).ok()?;
                FieldValue::Device(device >> 20, device & 0xf_ffff)
            }
            Shape::TaskState(names) => task_state(unsigned(bytes, order)?, names),
            Shape::Array(element) => self.elements(bytes, *element, order),
            Shape::Elsewhere { element, relative } => {
                let word = unsigned(bytes, order)?;
                self.elements(elsewhere(word, *relative, end, raw)?, *element, order)
            }
        })
    }

    fn elements<'a>(&self, bytes: &'a [u8], element: Element, order: ByteOrder) -> FieldValue<'a> {
        match element {
            Element::Char => FieldValue::Text(text(bytes)),
            Element::Number(size) if size > 0 && bytes.len() / size <= LONGEST_LIST => {
                let values = bytes.chunks_exact(size);
                FieldValue::List(values.filter_map(|it| number(it, self.signed, order)).collect())
            }
            Element::Byte | Element::Number(_) => FieldValue::Bytes(bytes),
        }
    }
}

/// Returns the bytes whose location is in a word that ends at `end`.
fn elsewhere(word: u64, relative: bool, end: usize, raw: &[u8]) -> Option<&[u8]> {
    let (len, offset) = ((word >> 16 & 0xffff) as usize, (word & 0xffff) as usize);
    let start = if relative { end.checked_add(offset)? } else { offset };
    raw.get(start..start.checked_add(len)?)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end])
}

/// Decodes a number of 1, 2, 4 or 8 bytes; other sizes are returned as bytes.
fn number(bytes: &[u8], signed: bool, order: ByteOrder) -> Option<FieldValue<'_>> {
    let Some(number) = unsigned(bytes, order) else { return Some(FieldValue::Bytes(bytes)) };
    if !signed {
        return Some(FieldValue::Unsigned(number));
    }
    let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
    Some(FieldValue::Signed((number << unused).cast_signed() >> unused))
}

fn unsigned(bytes: &[u8], order: ByteOrder) -> Option<u64> {
    if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
        return None;
    }
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
        ByteOrder::Big => bytes.iter().fold(0, add),
    })
}

/// Formats a task state: `S`, `D|N`, `R+`. These are the names of the bits; `R` if none is set, and a plus for a thread
/// that was preempted, whose bit is above the highest named one.
fn task_state(state: u64, names: &[(u64, String)]) -> FieldValue<'static> {
    let all = names.iter().fold(0, |all, (bit, _)| all | bit);
    let set = names.iter().filter(|(bit, _)| state & bit != 0).map(|(_, name)| name.as_str());
    let mut text = set.collect::<Vec<_>>().join("|");
    if text.is_empty() {
        text.push('R');
    }
    let above = all.checked_add(1).and_then(u64::checked_next_power_of_two);
    if above.is_some_and(|above| state & above != 0) {
        text.push('+');
    }
    FieldValue::Text(Cow::Owned(text))
}

/// Names of thread states, each with its bit.
type States = Arc<[(u64, String)]>;

/// Parses the line of a field. `states` are the tracepoint's names of thread states.
fn field(line: &str, states: Option<&States>, long_size: u8) -> Option<TracepointField> {
    let mut parts = line.strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<u32>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    // Missing before Linux 2.6.34.
    let signed = number("signed:").is_some_and(|signed| signed != 0);
    let (kind, name, array) = declaration_parts(declaration)?;
    let shape = match location(&kind) {
        Some((kind, relative)) => {
            Shape::Elsewhere { element: element(kind, 0, long_size), relative }
        }
        None if kind.contains('*') && array.is_none() => Shape::Address,
        None if name.starts_with("__probe_") => Shape::Address,
        None => match array {
            Some(count) => {
                let count = count.parse::<u32>().unwrap_or(0);
                let size = size.checked_div(count).unwrap_or(0);
                Shape::Array(element(&kind, size, long_size))
            }
            None if kind == "dev_t" && size == 4 => Shape::Device,
            None if name == "prev_state" => {
                states.map_or(Shape::Number, |states| Shape::TaskState(states.clone()))
            }
            None => Shape::Number,
        },
    };
    let kind = array.map_or_else(|| kind.clone(), |count| format!("{kind}[{count}]"));
    Some(TracepointField { name: name.to_owned(), kind, offset, size, signed, shape })
}

/// Splits a declaration into type, name, and array length if it is an array: `char comm[16]`, but `__data_loc char[]
/// name`.
fn declaration_parts(declaration: &str) -> Option<(String, &str, Option<&str>)> {
    let (before, array) = match declaration.strip_suffix(']').and_then(|it| it.split_once('[')) {
        Some((before, count)) => (before, Some(count)),
        None => (declaration, None),
    };
    let at = before.rfind([' ', '*'])?;
    let (kind, name) = (before[..=at].trim_end(), &before[at + 1..]);
    Some((kind.to_owned(), name, array))
}

/// Returns the type of dynamic data, and true if its location is relative.
fn location(kind: &str) -> Option<(&str, bool)> {
    let absolute = kind.strip_prefix("__data_loc ").map(|kind| (kind, false));
    let found = absolute.or_else(|| Some((kind.strip_prefix("__rel_loc ")?, true)));
    found.map(|(kind, relative)| (kind.strip_suffix("[]").unwrap_or(kind).trim(), relative))
}

/// Returns the element type of an array of `kind`. `size` is the element size in bytes; 0 if it is not known.
fn element(kind: &str, size: u32, long_size: u8) -> Element {
    let kind = kind.trim_start_matches("const ");
    match kind {
        "char" => Element::Char,
        "unsigned char" | "signed char" | "u8" | "s8" | "__u8" | "__s8" | "uint8_t" => {
            Element::Byte
        }
        _ if size != 0 => Element::Number(usize::try_from(size).unwrap_or(0)),
        "short" | "unsigned short" | "u16" | "s16" | "__u16" | "__s16" => Element::Number(2),
        "int" | "unsigned int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" => {
            Element::Number(4)
        }
        "long" | "unsigned long" => Element::Number(usize::from(long_size)),
        "long long" | "unsigned long long" | "u64" | "s64" | "__u64" | "__s64" => {
            Element::Number(8)
        }
        _ => Element::Byte,
    }
}

/// Parses the names of the bits of a thread state, which differ between kernels:
///
/// ```text
/// … __print_flags(REC->prev_state & …, "|", { 0x00000001, "S" }, { 0x00000002, "D" }, …) : "R", …
/// ```
fn state_names(print: &str) -> Option<States> {
    let flags = print.split_once("__print_flags(")?.1;
    let mut names = Vec::new();
    for entry in flags.split('{').skip(1).map_while(|rest| rest.split_once('}')) {
        let (bits, name) = entry.0.split_once(',')?;
        let bits = bits.trim();
        let bits = match bits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => bits.parse(),
        };
        names.push((bits.ok()?, name.trim().trim_matches('"').to_owned()));
        if !entry.1.trim_start().starts_with(',') {
            break;
        }
    }
    (!names.is_empty()).then(|| names.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[8];\toffset:12;\tsize:8;\tsigned:0;\n\
        \tfield:const char * filename;\toffset:20;\tsize:8;\tsigned:0;\n\
        \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] cmd;\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc unsigned int[] lengths;\toffset:36;\tsize:4;\tsigned:0;\n\
        \tfield:u8 address[2];\toffset:40;\tsize:2;\tsigned:0;\n\
        \tfield:long prev_state;\toffset:42;\tsize:8;\tsigned:1;\n\
        \tfield:s16 pair[2];\toffset:50;\tsize:4;\tsigned:1;\n\
        \tfield:char odd[3];\toffset:60;\tsize:9;\tsigned:0;\n\n\
        print fmt: \"%d %s%s\", REC->dev, (REC->prev_state & ((((1 | 2) + 1) << 1) - 1)) ? \
        __print_flags(REC->prev_state & 7, \"|\", { 0x00000001, \"S\" }, { 2, \"D\" }) : \"R\", \
        __print_symbolic(REC->error, { 0, \"none\" })\n";

    fn tracepoint() -> Tracepoint {
        Tracepoint::parse("sched", FORMAT, 8).expect("a format")
    }

    fn shown(raw: &[u8], order: ByteOrder) -> Vec<String> {
        let tracepoint = tracepoint();
        tracepoint.values(raw, order).map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Raw data; `state` is that of the thread.
    fn raw(order: ByteOrder, state: u64) -> Vec<u8> {
        let number = |bytes: usize, number: u64| match order {
            ByteOrder::Little => number.to_le_bytes()[..bytes].to_vec(),
            ByteOrder::Big => number.to_be_bytes()[8 - bytes..].to_vec(),
        };
        let mut raw = vec![0; 8];
        raw.extend(number(4, 254 << 20 | 3));
        raw.extend(b"dd\0junk\xff");
        raw.extend(number(8, 0x7ffd_0000_1234));
        raw.extend(number(4, u64::from((-5i32).cast_unsigned())));
        raw.extend(number(4, 4 << 16 | 54));
        // Behind the word, at 40, to 58.
        raw.extend(number(4, 8 << 16 | 18));
        raw.extend([0xab, 0x0c]);
        raw.extend(number(8, state));
        raw.extend(number(2, u64::from((-2i16).cast_unsigned())));
        raw.extend(number(2, 3));
        raw.extend(b"abc\0");
        raw.extend(number(4, 7));
        raw.extend(number(4, 9));
        raw
    }

    #[test]
    fn fields_have_names_types_and_places() {
        let tracepoint = tracepoint();
        assert_eq!((tracepoint.id, tracepoint.name.as_str()), (372, "sched:sched_switch"));
        let fields: Vec<_> = tracepoint
            .fields
            .iter()
            .map(|field| format!("{} {} {} {}", field.kind, field.name, field.offset, field.size))
            .collect();
        assert_eq!(
            fields[..5],
            [
                "dev_t dev 8 4",
                "char[8] comm 12 8",
                "const char * filename 20 8",
                "int error 28 4",
                "__data_loc char[] cmd 32 4"
            ]
        );
    }

    #[test]
    fn values_in_both_byte_orders() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let expect = [
                "dev=254,3",
                "comm=dd",
                "filename=0x7ffd00001234",
                "error=-5",
                "cmd=abc",
                "lengths=7,9",
                "address=ab0c",
                "prev_state=S",
                "pair=-2,3",
            ];
            assert_eq!(shown(&raw(order, 1), order), expect, "{order:?}");
        }
    }

    #[test]
    fn states_of_threads() {
        for (state, expect) in [(0, "R"), (1, "S"), (3, "S|D"), (4, "R+"), (6, "D+"), (8, "R")] {
            let values = shown(&raw(ByteOrder::Little, state), ByteOrder::Little);
            assert_eq!(values[7], format!("prev_state={expect}"), "{state}");
        }
    }

    #[test]
    fn what_the_data_is_too_short_for_is_left_out() {
        let raw = raw(ByteOrder::Little, 1);
        for end in 0..raw.len() {
            assert!(
                shown(&raw[..end], ByteOrder::Little).len() < 9 + usize::from(end == raw.len())
            );
        }
        // A text that says it is beyond the end.
        let mut beyond = raw.clone();
        beyond[32..36].copy_from_slice(&[0xff; 4]);
        assert!(!shown(&beyond, ByteOrder::Little).iter().any(|value| value.starts_with("cmd")));
    }

    #[test]
    fn formats_that_are_none() {
        assert_eq!(Tracepoint::parse("a", "name: b\n", 8), None);
        assert_eq!(Tracepoint::parse("a", "name: b\nID: x\n", 8), None);
        let odd = "name: b\nID: 1\nfield:;\nfield:x;offset:1;size:1;\n\
            field:int a;offset:-1;size:4;signed:1;\nfield:int a]b[;offset:0;size:4;\n";
        let found = Tracepoint::parse("a", odd, 0).expect("a format");
        assert!(found.fields.len() <= 1, "{:?}", found.fields);
    }
}
