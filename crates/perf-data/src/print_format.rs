//! The `print fmt` of a tracepoint: a format of C and its arguments, which are expressions over the fields.
//!
//! ```text
//! "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
//! ```
//!
//! Source: `Documentation/trace/events.rst` and `include/trace/stages/` in the kernel's source.

use std::borrow::Cow;

/// A format that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintFormat {
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Part of a format.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// A value.
    Value(Conversion, Expr),
}

/// How a value is printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversion {
    /// Of `-+ #0`.
    pub flags: String,
    /// At least as wide.
    pub width: usize,
    /// At most as many characters, or at least as many digits.
    pub precision: Option<usize>,
    /// The precision is the value before.
    pub measured: Option<Box<Expr>>,
    /// Of `h`, `hh`, `l`, `ll`, `z`, `j`, `t`: 1, 2, 4 or 8 bytes.
    pub bytes: usize,
    /// The letter, and of `p` what follows it.
    pub kind: char,
    /// As `ISpc` of `%pISpc`.
    pub pointer: String,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
    /// A name that only the kernel knows the value of.
    Unknown,
    /// A field.
    Field(String),
    /// An element of a field.
    Element(String, Box<Expr>),
    /// A conversion to a number of so many bytes, signed or not.
    Cast(usize, bool, Box<Expr>),
    /// An operator with one operand.
    Unary(char, Box<Expr>),
    /// An operator with two.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__print_flags`: a value, what is between names, and the names.
    Flags(Box<Expr>, String, Vec<(Option<i64>, String)>),
    /// `__print_symbolic`: a value and the names.
    Symbol(Box<Expr>, Vec<(Option<i64>, String)>),
    /// `__get_str` and the like: a field whose place is in the field.
    Dynamic(String),
    /// Its length in bytes.
    DynamicLen(String),
    /// `__print_hex`, `__print_hex_str`: bytes, how many, and what is between them.
    Hex(Box<Expr>, Box<Expr>, &'static str),
    /// `__print_array`: bytes, how many elements, and the size of one.
    Array(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Longer formats than any kernel has.
const LONGEST: usize = 1 << 18;

/// Deeper expressions than any format has.
const DEEPEST: usize = 128;

/// Larger ones: they are evaluated by recursion.
const LARGEST: usize = 4096;

impl PrintFormat {
    /// Reads what follows `print fmt:`. `None` if it is of no known form.
    pub fn parse(text: &str) -> Option<Self> {
        let tokens = tokens(text.get(..text.len().min(LONGEST))?)?;
        let mut from = Parser { tokens: &tokens, at: 0, depth: 0, operands: 0 };
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

/// What follows a `%`, and what follows that.
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
    let mut conversion =
        Conversion { flags: flags.to_owned(), width: number(digits)?, ..Conversion::default() };
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
    // The longest first.
    const POINTERS: [&str; 21] = [
        "ISpfsc", "ISpsc", "ISpfc", "ISpc", "ISc", "ISp", "IS", "I6c", "I6", "I4", "i6", "i4",
        "MF", "M", "UL", "Ub", "U", "S", "s", "K", "x",
    ];
    let pointer = POINTERS.into_iter().find(|known| rest.starts_with(known)).unwrap_or("");
    // `%p` may stand before text: `%punlock` is none, but nothing else is known of it.
    conversion.pointer = pointer.to_owned();
    Some((conversion, &rest[pointer.len()..]))
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    Number(i64),
    Text(String),
    Sign(&'static str),
}

/// The longest first.
const SIGNS: [&str; 28] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", "?",
    ":", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">",
];

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (literal, after) = literal(&rest[1..])?;
            match tokens.last_mut() {
                // Texts next to each other are one.
                Some(Token::Text(before)) => before.push_str(&literal),
                _ => tokens.push(Token::Text(literal.into_owned())),
            }
            rest = after;
        } else if first == '\'' {
            let mut chars = rest.chars().skip(1);
            let (shown, end) = (chars.next()?, chars.next()?);
            (end == '\'').then_some(())?;
            tokens.push(Token::Number(i64::from(u32::from(shown))));
            rest = &rest[2 + shown.len_utf8()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            tokens.push(match first.is_ascii_digit() {
                true => Token::Number(number(word)?),
                false => Token::Name(word),
            });
            rest = after;
        } else {
            let others = ["!", "~", "."];
            let sign = SIGNS.into_iter().chain(others).find(|sign| rest.starts_with(sign))?;
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Some(tokens)
}

/// A text up to its quote, and what follows.
fn literal(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut literal = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Cow::Owned(literal), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => literal.push('\n'),
                't' => literal.push('\t'),
                other => literal.push(other),
            },
            c => literal.push(c),
        }
    }
    None
}

/// `1`, `0x10UL`, `017`.
fn number(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let number = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, "0") => Ok(0),
        (None, digits) => match digits.strip_prefix('0') {
            Some(octal) => u64::from_str_radix(octal, 8),
            None => digits.parse(),
        },
    };
    number.ok().map(u64::cast_signed)
}

/// Operators with two operands, those that bind least first.
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
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    /// How many operands the expression has so far.
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

    /// `(unsigned long)` before an operand.
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
            Expr::Field(name) | Expr::Dynamic(name) => Some(Expr::Element(name, Box::new(index))),
            Expr::Cast(_, _, inner) => match *inner {
                Expr::Dynamic(name) => Some(Expr::Element(name, Box::new(index))),
                _ => None,
            },
            _ => None,
        }
    }

    fn named(&mut self, name: &str) -> Option<Expr> {
        if name == "REC" {
            self.expect("->")?;
            let field = self.name()?.to_owned();
            return self.index(Expr::Field(field));
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
            | "__get_rel_sockaddr" => Expr::Dynamic(self.name()?.to_owned()),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expr::DynamicLen(self.name()?.to_owned())
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

    /// `, { 1, "A" }, { 2, "B" }`. Of a number that only the kernel knows there is none.
    fn list(&mut self) -> Option<Vec<(Option<i64>, String)>> {
        let mut list = Vec::new();
        while self.skip(",") {
            if !self.skip("{") {
                // Some lists end in a comma and nothing.
                break;
            }
            // Of a name only its number stays.
            let operands = self.operands;
            let value = self.expression()?;
            self.expect(",")?;
            // Some lists end in a name that is none: `{ 0, ((void *)0) }`.
            if let Expr::Text(name) = self.expression()? {
                list.push((constant(&value), name));
            }
            self.operands = operands;
            self.expect("}")?;
        }
        Some(list)
    }
}

/// The value of an expression without fields.
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

/// A number as one of so many bytes.
pub fn cut(number: i64, bytes: usize, signed: bool) -> i64 {
    let unused = 64 - 8 * bytes.clamp(1, 8) as u32;
    match signed {
        true => number << unused >> unused,
        false => (number.cast_unsigned() << unused >> unused).cast_signed(),
    }
}

/// The result of an operator with one operand.
pub fn unary(sign: char, value: i64) -> i64 {
    match sign {
        '-' => value.wrapping_neg(),
        '!' => i64::from(value == 0),
        _ => !value,
    }
}

/// The result of an operator with two operands, in 64 bits; dividing by nothing gives nothing. `unsigned`: one of the
/// operands has 64 bits without a sign.
pub fn binary(sign: &str, unsigned: bool, a: i64, b: i64) -> i64 {
    let shift = u32::try_from(b).ok().filter(|&bits| bits < 64);
    let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
    match sign {
        "<=" if unsigned => i64::from(x <= y),
        ">=" if unsigned => i64::from(x >= y),
        "<" if unsigned => i64::from(x < y),
        ">" if unsigned => i64::from(x > y),
        "/" if unsigned => x.checked_div(y).unwrap_or(0).cast_signed(),
        "%" if unsigned => x.checked_rem(y).unwrap_or(0).cast_signed(),
        ">>" if unsigned => shift.map_or(0, |bits| (x >> bits).cast_signed()),
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<<" => shift.map_or(0, |bits| a << bits),
        ">>" => shift.map_or(0, |bits| a >> bits),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b).unwrap_or(0),
        _ => a.checked_rem(b).unwrap_or(0),
    }
}

/// Returns true if a word can only be of a type.
fn is_type(word: &str) -> bool {
    const WORDS: [&str; 13] = [
        "unsigned", "signed", "long", "int", "short", "char", "const", "u8", "u16", "u32", "u64",
        "s32", "s64",
    ];
    WORDS.contains(&word) || word.ends_with("_t")
}

/// Size in bytes and sign of a type.
fn size_of_type(words: &[&str]) -> (usize, bool) {
    let has = |word: &str| words.contains(&word);
    let last = words.last().copied().unwrap_or_default();
    let by_name = match last.trim_start_matches('_') {
        "u8" | "uint8_t" | "bool" => Some((1, false)),
        "u16" | "uint16_t" | "le16" | "be16" => Some((2, false)),
        "u32" | "uint32_t" | "gfp_t" | "dev_t" | "uid_t" | "gid_t" | "le32" | "be32" => {
            Some((4, false))
        }
        "s8" | "int8_t" => Some((1, true)),
        "s16" | "int16_t" => Some((2, true)),
        "s32" | "int32_t" | "pid_t" => Some((4, true)),
        _ => None,
    };
    let signed = !has("unsigned");
    by_name.unwrap_or(match () {
        () if has("char") => (1, signed),
        () if has("short") => (2, signed),
        () if has("long") => (8, signed),
        () if has("int") || last == "unsigned" || has("enum") => (4, signed),
        () => (8, signed),
    })
}
