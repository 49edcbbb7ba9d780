//! Parser for the `print fmt` of a tracepoint: a C format string and its arguments, which are expressions over the
//! fields.
//!
//! ```text
//! "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
//! ```
//!
//! Source: `Documentation/trace/events.rst` and `include/trace/stages/` in the kernel's source.

use crate::print_numbers::{binary, cut, is_type, size_of_type, unary};
use crate::print_tokens::{Token, tokens};
use crate::tracepoint::TracepointField;

/// A parsed format.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintFormat {
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Part of a format.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// A formatted value.
    Value(Conversion, Expr),
}

/// A conversion specification (`%…`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversion {
    /// `-`: left-aligned.
    pub left: bool,
    /// `+` or a blank: the sign of positive numbers.
    pub sign: Option<char>,
    /// `#`: numbers have the prefix of their base.
    pub prefixed: bool,
    /// `0`: padded with zeros instead of blanks.
    pub zeros: bool,
    /// Minimum width.
    pub width: usize,
    /// Precision: the maximum number of characters, or the minimum number of digits.
    pub precision: Option<usize>,
    /// `*`: the precision is the preceding argument.
    pub measured: Option<Box<Expr>>,
    /// Size in bytes, from `h`, `hh`, `l`, `ll`, `z`, `j` or `t`: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Conversion letter.
    pub kind: char,
    /// Suffix of `%p`, such as `ISpc` of `%pISpc`.
    pub pointer: &'static str,
}

impl Conversion {
    /// Returns true if a text is printed without padding or truncation.
    pub fn is_plain(&self) -> bool {
        self.width == 0 && self.precision.is_none() && self.measured.is_none()
    }
}

/// An expression over the fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
    /// A name whose value is known only to the kernel.
    Unknown,
    /// A field, by index; [`NO_FIELD`] if there is none of that name.
    Field(usize),
    /// An element of a field.
    Element(usize, Box<Expr>),
    /// A cast to a type of this size in bytes; true if it is signed.
    Cast(usize, bool, Box<Expr>),
    /// A unary operator.
    Unary(char, Box<Expr>),
    /// A binary operator.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__print_flags`: value, delimiter, and names of bits.
    Flags(Box<Expr>, String, Vec<(Option<i64>, String)>),
    /// `__print_symbolic`: value and names.
    Symbol(Box<Expr>, Vec<(Option<i64>, String)>),
    /// `__get_str` and the like: a field that contains the location of its data.
    Dynamic(usize),
    /// Length of a dynamic field in bytes.
    DynamicLen(usize),
    /// `__print_hex`, `__print_hex_str`: bytes, count, and delimiter.
    Hex(Box<Expr>, Box<Expr>, &'static str),
    /// `__print_array`: bytes, number of elements, and element size.
    Array(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Field index for an unknown field.
pub const NO_FIELD: usize = usize::MAX;

/// Maximum length of a format, in bytes; those of all kernels are shorter.
const LONGEST: usize = 1 << 18;

/// Maximum depth of an expression; no format has one as deep.
const DEEPEST: usize = 128;

/// Maximum number of operands of an expression, since expressions are evaluated by recursion.
const LARGEST: usize = 4096;

impl PrintFormat {
    /// Parses the text after `print fmt:`, for a tracepoint with these fields. `None` if it has an unknown form.
    pub fn parse(text: &str, fields: &[TracepointField]) -> Option<Self> {
        let tokens = tokens(text.get(..text.len().min(LONGEST))?)?;
        let mut from = Parser { fields, tokens: &tokens, at: 0, depth: 0, operands: 0 };
        let format = from.text()?;
        let mut arguments = Vec::new();
        while from.skip(",") {
            arguments.push(from.expression()?);
        }
        (from.at == tokens.len()).then_some(())?;
        let mut arguments = arguments.into_iter();
        let parts = parts(&format, &mut arguments)?;
        Some(Self { parts })
    }
}

fn parts(format: &str, arguments: &mut impl Iterator<Item = Expr>) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            parts.push(Part::Text(rest[..at].to_owned()));
        }
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            parts.push(Part::Text("%".to_owned()));
            rest = after;
            continue;
        }
        let (conversion, after) = conversion(rest, arguments)?;
        parts.push(Part::Value(conversion, arguments.next()?));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Some(parts)
}

/// Parses the text after a `%`; returns the conversion and the rest.
fn conversion<'a>(
    text: &'a str,
    arguments: &mut impl Iterator<Item = Expr>,
) -> Option<(Conversion, &'a str)> {
    let split = |text: &'a str, of: fn(char) -> bool| {
        text.split_at(text.find(|c: char| !of(c)).unwrap_or(text.len()))
    };
    let number = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse().ok().filter(|&number: &usize| number <= 1024),
    };
    let (flags, rest) = split(text, |c| "-+ #0".contains(c));
    let (digits, mut rest) = split(rest, |c| c.is_ascii_digit());
    let mut conversion = Conversion {
        left: flags.contains('-'),
        sign: ['+', ' '].into_iter().find(|&sign| flags.contains(sign)),
        prefixed: flags.contains('#'),
        zeros: flags.contains('0'),
        width: number(digits)?,
        ..Conversion::default()
    };
    if let Some(after) = rest.strip_prefix('.') {
        match after.strip_prefix('*') {
            Some(after) => {
                conversion.measured = Some(Box::new(arguments.next()?));
                rest = after;
            }
            None => {
                let (digits, after) = split(after, |c| c.is_ascii_digit());
                conversion.precision = Some(number(digits)?);
                rest = after;
            }
        }
    }
    let (size, rest) = split(rest, |c| "hlLzjtq".contains(c));
    conversion.bytes = match size {
        "" => 4,
        "h" => 2,
        "hh" => 1,
        _ => 8,
    };
    conversion.kind = rest.chars().next().filter(|kind| "diuxXospc".contains(*kind))?;
    let rest = &rest[1..];
    if conversion.kind != 'p' {
        return Some((conversion, rest));
    }
    // Longest first.
    const POINTERS: [&str; 21] = [
        "ISpfsc", "ISpsc", "ISpfc", "ISpc", "ISc", "ISp", "IS", "I6c", "I6", "I4", "i6", "i4",
        "MF", "M", "UL", "Ub", "U", "S", "s", "K", "x",
    ];
    let pointer = POINTERS.into_iter().find(|known| rest.starts_with(known)).unwrap_or("");
    // Text may follow `%p` directly: `%punlock` has no suffix. Whatever looks like a known suffix is taken for one.
    conversion.pointer = pointer;
    Some((conversion, &rest[pointer.len()..]))
}

/// Binary operators, lowest precedence first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

struct Parser<'a> {
    fields: &'a [TracepointField],
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    /// Number of operands in the expression so far.
    operands: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        self.skip(sign).then_some(())
    }

    fn text(&mut self) -> Option<String> {
        let Some(Token::Text(text)) = self.peek() else { return None };
        self.at += 1;
        Some(text.clone())
    }

    fn name(&mut self) -> Option<&'a str> {
        let Some(Token::Name(name)) = self.peek() else { return None };
        self.at += 1;
        Some(name)
    }

    fn field(&mut self) -> Option<usize> {
        let name = self.name()?;
        Some(self.fields.iter().position(|field| field.name == name).unwrap_or(NO_FIELD))
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())?;
        let condition = self.binary(0)?;
        let found = match self.skip("?") {
            true => {
                let yes = self.expression()?;
                self.expect(":")?;
                let no = self.expression()?;
                Expr::Choice(Box::new(condition), Box::new(yes), Box::new(no))
            }
            false => condition,
        };
        self.depth -= 1;
        Some(found)
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.skip(sign)) {
            left = Expr::Binary(sign, Box::new(left), Box::new(self.binary(level + 1)?));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())?;
        let sign = ["-", "!", "~", "&", "*", "+"].into_iter().find(|sign| self.skip(sign));
        let found = match sign {
            Some("-") => Expr::Unary('-', Box::new(self.unary()?)),
            Some("!") => Expr::Unary('!', Box::new(self.unary()?)),
            Some("~") => Expr::Unary('~', Box::new(self.unary()?)),
            Some(_) => self.unary()?,
            None => match self.cast() {
                Some((bytes, signed)) => Expr::Cast(bytes, signed, Box::new(self.unary()?)),
                None => self.primary()?,
            },
        };
        self.depth -= 1;
        Some(found)
    }

    /// Parses a cast such as `(unsigned long)` before an operand.
    fn cast(&mut self) -> Option<(usize, bool)> {
        let begin = self.at;
        let found = self.cast_here();
        if found.is_none() {
            self.at = begin;
        }
        found
    }

    fn cast_here(&mut self) -> Option<(usize, bool)> {
        self.expect("(")?;
        let mut words = Vec::new();
        while let Some(word) = self.name() {
            words.push(word);
        }
        let mut pointer = false;
        while self.skip("*") {
            pointer = true;
        }
        self.expect(")")?;
        (!words.is_empty() && words != ["REC"]).then_some(())?;
        let starts = match self.peek()? {
            Token::Name(_) | Token::Number(_) | Token::Text(_) => true,
            Token::Sign(sign) => {
                let is_type = pointer || words.iter().all(|word| is_type(word));
                matches!(*sign, "(" | "~" | "!") || is_type && matches!(*sign, "&" | "*" | "-")
            }
        };
        starts.then_some(())?;
        Some(if pointer { (8, false) } else { size_of_type(&words) })
    }

    fn primary(&mut self) -> Option<Expr> {
        self.operands += 1;
        (self.operands <= LARGEST).then_some(())?;
        match self.peek()? {
            Token::Number(number) => {
                self.at += 1;
                Some(Expr::Number(*number))
            }
            Token::Text(text) => {
                self.at += 1;
                Some(Expr::Text(text.clone()))
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                self.index(inner)
            }
            Token::Name(name) => {
                self.at += 1;
                self.named(name)
            }
            Token::Sign(_) => None,
        }
    }

    fn index(&mut self, of: Expr) -> Option<Expr> {
        if !self.skip("[") {
            return Some(of);
        }
        let index = self.expression()?;
        self.expect("]")?;
        match of {
            Expr::Field(field) | Expr::Dynamic(field) => {
                Some(Expr::Element(field, Box::new(index)))
            }
            Expr::Cast(_, _, inner) => match *inner {
                Expr::Dynamic(field) => Some(Expr::Element(field, Box::new(index))),
                _ => None,
            },
            _ => None,
        }
    }

    fn named(&mut self, name: &str) -> Option<Expr> {
        if name == "REC" {
            self.expect("->")?;
            let field = Expr::Field(self.field()?);
            return self.index(field);
        }
        if !self.skip("(") {
            return Some(Expr::Unknown);
        }
        let found = match name {
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                let between = self.text()?;
                Expr::Flags(value, between, self.list()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                Expr::Symbol(Box::new(self.expression()?), self.list()?)
            }
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => Expr::Dynamic(self.field()?),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expr::DynamicLen(self.field()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let (bytes, len) = self.two()?;
                Expr::Hex(bytes, len, if name == "__print_hex" { " " } else { "" })
            }
            "__print_array" => {
                let (bytes, count) = self.two()?;
                self.expect(",")?;
                Expr::Array(bytes, count, Box::new(self.expression()?))
            }
            "__builtin_expect" => *self.two()?.0,
            _ => return None,
        };
        self.expect(")")?;
        self.index(found)
    }

    fn two(&mut self) -> Option<(Box<Expr>, Box<Expr>)> {
        let first = Box::new(self.expression()?);
        self.expect(",")?;
        Some((first, Box::new(self.expression()?)))
    }

    /// Parses `, { 1, "A" }, { 2, "B" }`. An entry whose number only the kernel knows has `None`.
    fn list(&mut self) -> Option<Vec<(Option<i64>, String)>> {
        let mut list = Vec::new();
        while self.skip(",") {
            if !self.skip("{") {
                // Some lists end in a comma.
                break;
            }
            // Only the value of a name's expression is kept, so its operands do not count.
            let operands = self.operands;
            let value = self.expression()?;
            self.expect(",")?;
            // Some lists end in an entry without a name: `{ 0, ((void *)0) }`.
            if let Expr::Text(name) = self.expression()? {
                list.push((constant(&value), name));
            }
            self.operands = operands;
            self.expect("}")?;
        }
        Some(list)
    }
}

/// Evaluates an expression without fields.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Number(number) => Some(*number),
        Expr::Cast(bytes, signed, inner) => Some(cut(constant(inner)?, *bytes, *signed)),
        Expr::Unary(sign, inner) => Some(unary(*sign, constant(inner)?)),
        Expr::Binary(sign, left, right) => {
            Some(binary(sign, false, constant(left)?, constant(right)?))
        }
        Expr::Choice(condition, yes, no) => {
            constant(if constant(condition)? != 0 { yes } else { no })
        }
        _ => None,
    }
}
