//! Formats the fields of tracepoints as `perf script` does, by the tracepoint's `print fmt`.

use std::fmt::Write;

use hashbrown::HashMap;
use pyrograph_event::{ByteOrder, type_id};
use pyrograph_resolve::Files;
use pyrograph_symbol::{KALLSYMS, Kallsyms, RunningKernel};

use crate::files::RecordedFiles;
use crate::memo::Memo;
use crate::print_format::{Conversion, Expr, Part};
use crate::print_numbers::{binary, cut, unary};
use crate::recording::Recording;
use crate::trace_values::{flags, hex, integer, ip6, socket_address, uuid};
use crate::tracepoint::{Tracepoint, TracepointField};
use crate::tracing;

/// Formats the samples of all tracepoints of a recording as text.
pub struct TraceText<'a> {
    recording: &'a Recording,
    tracepoints: Vec<Option<(Tracepoint, Memo)>>,
    /// Kernel strings by address.
    texts: HashMap<u64, String>,
    /// The kernel's symbols, once they were needed.
    kernel: Option<Kernel>,
    /// Names of functions, by address and by whether the name includes the offset.
    functions: Memo,
}

/// The kernel's symbols.
#[derive(Debug)]
pub(crate) enum Kernel {
    Running(Box<RunningKernel>),
    Recorded(Kallsyms),
    Hidden,
}

impl<'a> TraceText<'a> {
    /// Creates the formatter for a recording.
    pub fn new(recording: &'a Recording) -> Self {
        let found = tracing::parse(&recording.tracing_data, recording.order());
        let of = |event: &crate::events::Event| {
            let is_it = |known: &&Tracepoint| known.id == event.attr.config;
            let is_one = event.attr.type_ == type_id::TRACEPOINT;
            found.iter().find(is_it).filter(|_| is_one).map(|it| (it.clone(), Memo::default()))
        };
        let tracepoints = recording.events.list.iter().map(of).collect();
        let texts = tracing::kernel_texts(&recording.tracing_data, recording.order());
        Self { recording, tracepoints, texts, kernel: None, functions: Memo::default() }
    }

    /// Appends the text of a sample's raw data; nothing if the event is not a tracepoint, or has no format.
    pub fn write(&mut self, event: usize, raw: &[u8], out: &mut String) {
        let Some(Some((tracepoint, memo))) = self.tracepoints.get_mut(event) else { return };
        let (recording, kernel, functions) =
            (self.recording, &mut self.kernel, &mut self.functions);
        let function = &mut |address: u64, with_offset: bool, out: &mut String| {
            let key = (u32::from(with_offset), address.cast_signed());
            functions.write(key, out, |out| {
                let kernel = kernel.get_or_insert_with(|| Kernel::of(recording));
                kernel.write(address, with_offset, out);
            });
        };
        let order = recording.order();
        RawSample { tracepoint, raw, order, texts: &self.texts }.write(function, memo, out);
    }
}

impl Tracepoint {
    /// Formats a sample's raw data by the tracepoint's own `print fmt`, with addresses instead of function names.
    pub fn text(&self, raw: &[u8], order: ByteOrder) -> String {
        let mut out = String::new();
        let sample = RawSample { tracepoint: self, raw, order, texts: &HashMap::new() };
        let function = &mut |address, at, out: &mut String| Kernel::Hidden.write(address, at, out);
        sample.write(function, &mut Memo::default(), &mut out);
        out
    }
}

impl Kernel {
    fn of(recording: &Recording) -> Self {
        let found = RecordedFiles::new(recording, Default::default()).kallsyms();
        match found {
            Some(path) if path.as_os_str() == KALLSYMS => Self::running(),
            Some(path) => match Kallsyms::open(&path) {
                Ok(symbols) if !symbols.is_restricted() => Self::Recorded(symbols),
                _ => Self::Hidden,
            },
            None => Self::Hidden,
        }
    }

    /// Loads the symbols of the running kernel.
    pub(crate) fn running() -> Self {
        let mut kernel = RunningKernel::new(None);
        match kernel.is_hidden() {
            true => Self::Hidden,
            false => Self::Running(Box::new(kernel)),
        }
    }

    pub(crate) fn write(&mut self, address: u64, with_offset: bool, out: &mut String) {
        let symbol = match self {
            Self::Running(kernel) => kernel.lookup(address),
            Self::Recorded(symbols) => symbols.lookup(address),
            Self::Hidden => None,
        };
        let _ = match symbol {
            Some(symbol) if with_offset => {
                write!(out, "{}+{:#x}", symbol.name, address.wrapping_sub(symbol.start))
            }
            Some(symbol) => write!(out, "{}", symbol.name),
            None => write!(out, "{address:#x}"),
        };
    }
}

/// Upper limit for a precision (digits, or characters of a text), above that of any format.
const MOST_DIGITS: usize = 1 << 16;

/// Raw data of a sample, with what is needed to decode it.
pub(crate) struct RawSample<'a> {
    pub tracepoint: &'a Tracepoint,
    pub raw: &'a [u8],
    pub order: ByteOrder,
    pub texts: &'a HashMap<u64, String>,
}

impl<'a> RawSample<'a> {
    /// Appends the text. `function` appends the name of the kernel function at an address, with or without the offset
    /// in it. `memo` caches the names of numbers in samples of this tracepoint.
    pub(crate) fn write(
        &self,
        function: &mut dyn FnMut(u64, bool, &mut String),
        memo: &mut Memo,
        out: &mut String,
    ) {
        let Some(format) = &self.tracepoint.print else {
            for (at, (name, value)) in self.tracepoint.values(self.raw, self.order).enumerate() {
                let blank = if at == 0 { "" } else { " " };
                // Writing to memory cannot fail.
                let _ = write!(out, "{blank}{name}={value}");
            }
            return;
        };
        for (at, part) in (0..).zip(&format.parts) {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(conversion, value) => match (conversion.kind, value) {
                    ('d' | 'i' | 'u' | 'x' | 'X' | 'o', _) => {
                        integer(conversion, self.precision(conversion), self.number(value), out);
                    }
                    ('p', _) if matches!(conversion.pointer, "s" | "S") => {
                        let address = self.number(value).cast_unsigned();
                        function(address, conversion.pointer == "S", out);
                    }
                    ('s', Expr::Flags(number, ..) | Expr::Symbol(number, ..))
                        if conversion.is_plain() =>
                    {
                        let key = (at, self.number(number));
                        memo.write(key, out, |out| self.text(value, out));
                    }
                    _ => self.value(conversion, value, out),
                },
            }
        }
        // A few formats end in a newline of their own.
        out.truncate(out.trim_end_matches('\n').len());
    }

    fn precision(&self, conversion: &Conversion) -> Option<usize> {
        let precision = match &conversion.measured {
            Some(measured) => usize::try_from(self.number(measured)).ok(),
            None => conversion.precision,
        };
        precision.map(|precision| precision.min(MOST_DIGITS))
    }

    /// Appends a value that is not an integer.
    fn value(&self, conversion: &Conversion, value: &Expr, out: &mut String) {
        let start = out.len();
        match conversion.kind {
            's' => {
                self.text(value, out);
                if let Some(most) = self.precision(conversion) {
                    let text = &out[start..];
                    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
                    out.truncate(start + end);
                }
            }
            'c' => out.push((cut(self.number(value), 1, false) as u8).into()),
            _ => self.pointer(conversion.pointer, value, out),
        }
        if conversion.width == 0 {
            return;
        }
        let missing = conversion.width.saturating_sub(out[start..].chars().count());
        let at = if conversion.left { out.len() } else { start };
        out.insert_str(at, &" ".repeat(missing));
    }

    /// Evaluates an expression to a number; 0 for values that only the kernel knows.
    fn number(&self, value: &Expr) -> i64 {
        match value {
            Expr::Number(number) => *number,
            Expr::Field(field) => {
                self.field(*field).map_or(0, |(bytes, signed)| self.read(bytes, signed))
            }
            Expr::Element(field, index) => self.element(*field, self.number(index)),
            Expr::Cast(bytes, signed, inner) => cut(self.number(inner), *bytes, *signed),
            Expr::Unary(sign, inner) => unary(*sign, self.number(inner)),
            Expr::Binary(sign, left, right) => {
                let unsigned = self.is_unsigned(left) || self.is_unsigned(right);
                binary(sign, unsigned, self.number(left), self.number(right))
            }
            Expr::Choice(condition, yes, no) => {
                self.number(if self.number(condition) != 0 { yes } else { no })
            }
            Expr::DynamicLen(field) => self.dynamic(*field).map_or(0, |bytes| bytes.len() as i64),
            Expr::Unknown
            | Expr::Text(_)
            | Expr::Flags(..)
            | Expr::Symbol(..)
            | Expr::Dynamic(_)
            | Expr::Hex(..)
            | Expr::Array(..) => 0,
        }
    }

    /// Returns true if a value is an unsigned 64-bit number.
    fn is_unsigned(&self, value: &Expr) -> bool {
        match value {
            Expr::Cast(bytes, signed, _) => *bytes == 8 && !signed,
            Expr::Field(field) => {
                self.field(*field).is_some_and(|(bytes, signed)| bytes.len() == 8 && !signed)
            }
            Expr::Unary('~' | '-', inner) => self.is_unsigned(inner),
            Expr::Binary("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", left, right) => {
                self.is_unsigned(left) || self.is_unsigned(right)
            }
            Expr::Binary("<<" | ">>", left, _) => self.is_unsigned(left),
            Expr::Choice(_, yes, no) => self.is_unsigned(yes) || self.is_unsigned(no),
            _ => false,
        }
    }

    fn known(&self, field: usize) -> Option<&'a TracepointField> {
        self.tracepoint.fields.get(field)
    }

    fn field(&self, field: usize) -> Option<(&'a [u8], bool)> {
        let field = self.known(field)?;
        Some((field.bytes(self.raw)?, field.signed))
    }

    fn dynamic(&self, field: usize) -> Option<&'a [u8]> {
        self.known(field)?.dynamic(self.raw, self.order)
    }

    fn read(&self, bytes: &[u8], signed: bool) -> i64 {
        let number = match (self.order, bytes) {
            (ByteOrder::Little, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            (ByteOrder::Little, &[a, b, c, d, e, f, g, h, ..]) => {
                u64::from_le_bytes([a, b, c, d, e, f, g, h])
            }
            (ByteOrder::Little, few) => {
                few.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
            (ByteOrder::Big, bytes) => {
                bytes.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
        };
        cut(number.cast_signed(), bytes.len().min(8), signed)
    }

    fn element(&self, field: usize, index: i64) -> i64 {
        let known = self.known(field);
        let (size, signed) = known.map_or((1, false), |it| (it.element_size(), it.signed));
        let bytes = self.bytes_of(field);
        let at = usize::try_from(index).ok().and_then(|index| index.checked_mul(size));
        let element = at.and_then(|at| bytes.get(at..at.checked_add(size)?));
        element.map_or(0, |bytes| self.read(bytes, signed))
    }

    /// Returns the bytes of a field, or the bytes whose location it contains.
    fn bytes_of(&self, field: usize) -> &'a [u8] {
        let dynamic = self.dynamic(field);
        dynamic.or_else(|| self.field(field).map(|(bytes, _)| bytes)).unwrap_or_default()
    }

    fn bytes(&self, value: &Expr) -> &'a [u8] {
        match value {
            Expr::Field(field) | Expr::Dynamic(field) => self.bytes_of(*field),
            Expr::Cast(_, _, inner) => self.bytes(inner),
            Expr::Choice(condition, yes, no) => {
                self.bytes(if self.number(condition) != 0 { yes } else { no })
            }
            _ => &[],
        }
    }

    fn text(&self, value: &Expr, out: &mut String) {
        match value {
            Expr::Text(text) => out.push_str(text),
            Expr::Choice(condition, yes, no) => {
                self.text(if self.number(condition) != 0 { yes } else { no }, out);
            }
            Expr::Cast(_, _, inner) => self.text(inner, out),
            Expr::Flags(value, between, names) => flags(self.number(value), between, names, out),
            Expr::Symbol(value, names) => {
                let value = self.number(value);
                match names.iter().find(|(known, _)| *known == Some(value)) {
                    Some((_, name)) => out.push_str(name),
                    None => hex(value.cast_unsigned(), out),
                }
            }
            Expr::Hex(bytes, len, between) => {
                let len = usize::try_from(self.number(len)).unwrap_or(0);
                let bytes = self.bytes(bytes);
                for (at, byte) in bytes.iter().take(len).enumerate() {
                    let between = if at == 0 { "" } else { between };
                    let _ = write!(out, "{between}{byte:02x}");
                }
            }
            Expr::Array(bytes, count, size) => {
                let size = usize::try_from(self.number(size)).unwrap_or(0).clamp(1, 8);
                let count = usize::try_from(self.number(count)).unwrap_or(0);
                out.push('{');
                for (at, element) in self.bytes(bytes).chunks_exact(size).take(count).enumerate() {
                    let between = if at == 0 { "" } else { "," };
                    let _ = write!(out, "{between}{:#x}", self.read(element, false));
                }
                out.push('}');
            }
            Expr::Dynamic(field) => push_text(self.bytes_of(*field), out),
            Expr::Field(field) if self.known(*field).is_some_and(TracepointField::is_array) => {
                push_text(self.bytes_of(*field), out);
            }
            other => {
                let address = self.number(other).cast_unsigned();
                match self.texts.get(&address) {
                    Some(text) => out.push_str(text),
                    None => hex(address, out),
                }
            }
        }
    }

    fn pointer(&self, kind: &str, value: &Expr, out: &mut String) {
        let bytes = self.bytes(value);
        let address = |out: &mut String| {
            let _ = match self.number(value) {
                0 => write!(out, "(nil)"),
                address => write!(out, "{address:#x}"),
            };
        };
        let _ = match (kind, bytes) {
            ("I4" | "i4", [a, b, c, d, ..]) => write!(out, "{a}.{b}.{c}.{d}"),
            ("I6" | "I6c" | "i6", bytes) if bytes.len() >= 16 => ip6(kind, bytes, out),
            ("M" | "MF", [a, b, c, d, e, f, ..]) => {
                let dash = if kind == "M" { ':' } else { '-' };
                write!(
                    out,
                    "{a:02x}{dash}{b:02x}{dash}{c:02x}{dash}{d:02x}{dash}{e:02x}{dash}{f:02x}"
                )
            }
            ("U" | "Ub" | "UL", bytes) if bytes.len() >= 16 => uuid(kind, bytes, out),
            (socket, [low, high, port, port_low, rest @ ..]) if socket.starts_with("IS") => {
                let family = [*low, *high];
                let family = match self.order {
                    ByteOrder::Little => u16::from_le_bytes(family),
                    ByteOrder::Big => u16::from_be_bytes(family),
                };
                let port = u16::from_be_bytes([*port, *port_low]);
                socket_address(family, port, rest, socket.contains('p'), out)
            }
            _ => {
                address(out);
                Ok(())
            }
        };
    }
}

fn push_text(bytes: &[u8], out: &mut String) {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    out.push_str(&String::from_utf8_lossy(&bytes[..end]));
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "name: x\nID: 7\nformat:\n\
        \tfield:int small;\toffset:0;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long big;\toffset:4;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[8];\toffset:12;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;\n\
        \tfield:u8 bytes[4];\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:u16 port;\toffset:28;\tsize:2;\tsigned:0;\n\n";

    fn raw() -> Vec<u8> {
        let mut raw = (-5i32).to_le_bytes().to_vec();
        raw.extend(0xffff_ffff_ffff_fff0_u64.to_le_bytes());
        raw.extend(b"dd\0junk\xff");
        raw.extend((4u32 << 16 | 30).to_le_bytes());
        raw.extend([127, 0, 0, 1]);
        raw.extend(443u16.to_le_bytes());
        raw.extend(b"abc\0");
        raw
    }

    fn check(format: &str, expect: &str) {
        let text = format!("{FIELDS}print fmt: {format}\n");
        let tracepoint = Tracepoint::parse("test", &text, 8).expect("a tracepoint");
        assert!(tracepoint.print.is_some(), "{format}");
        assert_eq!(tracepoint.text(&raw(), ByteOrder::Little), expect, "{format}");
        for end in 0..raw().len() {
            tracepoint.text(&raw()[..end], ByteOrder::Big);
        }
    }

    #[test]
    fn numbers() {
        check(
            r#""%d %u %x %5d|%-5d|%05d", REC->small, REC->small, REC->small, REC->small, REC->small, REC->small"#,
            "-5 4294967291 fffffffb    -5|-5   |-0005",
        );
        check(
            r#""%ld %lu 0x%08lx %#x %hu %hhu %c%%", REC->small, REC->big, 16UL, 255, REC->port, 257, 65"#,
            "-5 18446744073709551600 0x00000010 0xff 443 1 A%",
        );
        check(r#""%p %p", REC->big, 0"#, "0xfffffffffffffff0 (nil)");
    }

    #[test]
    fn expressions() {
        check(r#""%d", (REC->port >> 1 & 0xf) + 2 * 3 - (4 | 1)"#, "14");
        check(r#""%d %d", REC->small < 0 ? 1 : 2, REC->big > 5"#, "1 1");
        check(r#""%d", REC->big >= (unsigned long)-4095"#, "1");
        check(r#""%d", (unsigned long)5 >= (unsigned long)-4095"#, "0");
        check(
            r#""%d %u", (unsigned char)(REC->small), ((unsigned int) ((REC->big) >> 20))"#,
            "251 4294967295",
        );
        check(r#""%lu", (unknown_name - 1UL * REC->big) / 250"#, "0");
        check(r#""%d %d", 1 / 0, REC->bytes[3]"#, "0 1");
    }

    #[test]
    fn texts() {
        check(
            r#""%s:%s %.2s %5s|" "next", REC->comm, __get_str(name), __get_str(name), REC->comm"#,
            "dd:abc ab    dd|next",
        );
        check(r#""%s", REC->port ? "yes" : "no""#, "yes");
        check(r#""%.*s", 1, REC->comm"#, "d");
        check(
            r#""%s", __print_flags(REC->port, "|", { 1, "A" }, { 2 | 8, "B" }, { 0, ((void *)0) })"#,
            "A|B|0x1b0",
        );
        check(
            r#""%s %s", __print_symbolic(REC->port, { 443, "https" }), __print_symbolic(1, { ENUM, "x" })"#,
            "https 0x1",
        );
        check(
            r#""%pI4 %s %s", REC->bytes, __print_hex(REC->bytes, 2), __print_array(REC->bytes, 2, 2)"#,
            "127.0.0.1 7f 00 {0x7f,0x100}",
        );
        check(r#""%ps!", REC->big"#, "0xfffffffffffffff0!");
    }

    #[test]
    fn what_is_of_no_known_form_is_printed_field_by_field() {
        for format in [r#""%d", what(REC->port)"#, r#""%d""#, r#"no text"#, r#""%d", REC->"#] {
            let text = format!("{FIELDS}print fmt: {format}\n");
            let tracepoint = Tracepoint::parse("test", &text, 8).expect("a tracepoint");
            let found = tracepoint.text(&raw(), ByteOrder::Little);
            assert!(found.starts_with("small=-5 big="), "{format}: {found}");
        }
    }

    /// Formats with a few bytes changed, by a generator that gives the same ones each time.
    #[test]
    fn damaged_formats_are_read_as_far_as_they_go() {
        let format = r#""%5d %.*s %pI4 %s %ps", REC->small, 2, REC->comm, REC->bytes, (REC->port & 1) ? __print_flags(REC->port,
            "|", { 1UL << 3, "A" }, {~0x8, "B"}) : __print_hex(__get_dynamic_array(name), REC->small), (void *)REC->big"#;
        let text = format!("{FIELDS}print fmt: {}\n", format.replace('\n', " "));
        let (mut state, mut read) = (1u64, 0);
        for _ in 0..20_000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = b"(){}[],->REC%*\"0123456789s <:?x"[(state >> 20) as usize % 31];
            }
            let damaged = String::from_utf8_lossy(&bytes);
            if let Some(tracepoint) = Tracepoint::parse("test", &damaged, 8) {
                read += usize::from(tracepoint.print.is_some());
                tracepoint.text(&raw(), ByteOrder::Little);
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn depth_is_limited() {
        let deep = format!("\"%d\", {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(crate::print_format::PrintFormat::parse(&deep, &[]), None);
        let long = format!("\"%d\", 1{}", "+1".repeat(100_000));
        assert_eq!(crate::print_format::PrintFormat::parse(&long, &[]), None);
    }
}
