//! Names of D: `_D3app6Parser4nextMFZv` is `app.Parser.next`, `_D3std4conv__T2toTiZ__TQjTymZQpFNaNfymZi` is
//! `std.conv.to!(…).to!(…).to`.
//!
//! The encoding: <https://dlang.org/spec/abi.html#name_mangling>. Types and arguments of templates are passed over.

use crate::scan::digits;
use crate::{Language, Name};

/// How deep types nest in each other at most.
const DEEPEST: u32 = 64;

/// Takes a name apart; `None` if it is not one of a function or a variable.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    let mut reader = Reader { text: name.strip_prefix("_D")?, at: 0, depth: 0, steps: 0 };
    let parts = reader.qualified_name()?;
    // What follows is the type, or `Z` where there is none.
    let is_whole = reader.takes("Z") || reader.symbol_type().is_some();
    // GDC appends the names of clones.
    if parts.is_empty()
        || !is_whole
        || !(reader.rest().is_empty() || reader.rest().starts_with('.'))
    {
        return None;
    }
    let is_template = parts.iter().any(|part| part.ends_with(TEMPLATE));
    let mut readable: Vec<String> = Vec::new();
    for part in parts {
        // A template of one function has that as its member, `to!(…).to`.
        match readable.last() {
            Some(of) if of.strip_suffix(TEMPLATE) == Some(&part) => {}
            _ => readable.push(part),
        }
    }
    let full = readable.join(".");
    let short = readable[readable.len().saturating_sub(2)..].join(".");
    Some(Name {
        identity: name.into(),
        short: short.into(),
        // Arguments of templates tell functions apart.
        full: if is_template { name.into() } else { full.into() },
        language: Some(Language::D),
        tier: None,
    })
}

/// Stands for arguments of a template.
const TEMPLATE: &str = "!(…)";

/// An identifier as it is written in the source.
fn readable(name: &str) -> String {
    match name {
        "__ctor" => "this",
        "__dtor" => "~this",
        name => name,
    }
    .to_owned()
}

struct Reader<'a> {
    /// Behind `_D`: distances of back references do not cross it.
    text: &'a str,
    at: usize,
    depth: u32,
    /// What was read, also by back references, which could make short names long.
    steps: u32,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// What is not read yet: nothing behind the end, or within a character.
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_there = self.rest().starts_with(text);
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    /// One of these letters.
    fn one_of(&mut self, letters: &[u8]) -> Option<u8> {
        let letter = Some(self.peek()).filter(|letter| letters.contains(letter))?;
        self.at += 1;
        Some(letter)
    }

    fn number(&mut self) -> Option<usize> {
        let rest = self.rest();
        let number = rest[..digits(rest)].parse().ok()?;
        self.at += digits(rest);
        Some(number)
    }

    /// Where a back reference leads: the distance is of letters, of which the last one is small.
    fn back(&mut self) -> Option<usize> {
        let start = self.at;
        self.one_of(b"Q")?;
        let mut distance = 0usize;
        loop {
            let letter = self.peek();
            self.at += 1;
            let (value, is_last) = match letter {
                b'A'..=b'Z' => (letter - b'A', false),
                b'a'..=b'z' => (letter - b'a', true),
                _ => return None,
            };
            distance = distance.checked_mul(26)?.checked_add(value.into())?;
            if is_last {
                return start.checked_sub(distance).filter(|&to| to < start);
            }
        }
    }

    /// Reads something inside of something else; nothing that is too much.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.steps += 1;
        if self.depth >= DEEPEST || self.steps > 4096 {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// True if a part of a name follows.
    fn is_part(&mut self) -> bool {
        let start = self.at;
        let is_back = self.peek() == b'Q'
            && self.back().is_some_and(|to| self.text.as_bytes()[to].is_ascii_digit());
        self.at = start;
        is_back || self.peek().is_ascii_digit() || self.is_template()
    }

    fn is_template(&self) -> bool {
        self.rest().starts_with("__T") || self.rest().starts_with("__U")
    }

    fn qualified_name(&mut self) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        while self.is_part() {
            parts.extend(self.part()?);
            // The type of a function that holds what follows.
            let start = self.at;
            let is_outer = self.function_around().is_some() && self.is_part();
            self.at = if is_outer { self.at } else { start };
        }
        Some(parts)
    }

    /// A part of a name; `None` inside for what has none.
    fn part(&mut self) -> Option<Option<String>> {
        self.inside(|it| {
            if it.peek() == b'Q' {
                let to = it.back()?;
                let after = std::mem::replace(&mut it.at, to);
                let name = it.identifier();
                it.at = after;
                return Some(Some(readable(name?)));
            }
            if it.is_template() {
                return Some(Some(it.template()?));
            }
            let start = it.at;
            let length = it.number()?;
            // No name: what the compiler has put around.
            if length == 0 {
                return Some(None);
            }
            // Older compilers wrote the length of a template's instance.
            let body = it.at;
            if it.is_template()
                && let Some(name) = it.template()
                && it.at == body + length
            {
                return Some(Some(name));
            }
            it.at = start;
            it.identifier().map(|name| Some(readable(name)))
        })
    }

    fn identifier(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        let name = self.text.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        (!name.is_empty()).then_some(name)
    }

    fn template(&mut self) -> Option<String> {
        self.at += "__T".len();
        let name = self.part()??;
        while !self.takes("Z") {
            self.argument()?;
        }
        Some(name + TEMPLATE)
    }

    fn argument(&mut self) -> Option<()> {
        self.takes("H");
        match self.one_of(b"TVSX")? {
            b'T' => self.kind(),
            b'V' => {
                let is_associative = self.peek() == b'H';
                self.kind()?;
                self.value(is_associative)
            }
            b'X' => {
                let length = self.number()?;
                self.at = self.at.checked_add(length).filter(|&at| at <= self.text.len())?;
                Some(())
            }
            _ => self.symbol(),
        }
    }

    /// A symbol, mangled as a whole or as a name.
    fn symbol(&mut self) -> Option<()> {
        if self.takes("_D") {
            self.qualified_name()?;
            return self.symbol_type();
        }
        (!self.qualified_name()?.is_empty()).then_some(())
    }

    /// The type of a variable, function or method.
    fn symbol_type(&mut self) -> Option<()> {
        if self.takes("M") {
            while self.one_of(b"xyO").is_some() || self.takes("Ng") {}
        }
        self.kind()
    }

    /// The type of an outer function, without its result.
    fn function_around(&mut self) -> Option<()> {
        if self.takes("M") {
            while self.one_of(b"xyO").is_some() || self.takes("Ng") {}
        }
        self.function()
    }

    fn function(&mut self) -> Option<()> {
        self.one_of(b"FUWVRY")?;
        while self.peek() == b'N' && !b"ghkn".contains(&self.after()) {
            self.at += 2;
        }
        while self.one_of(b"XYZ").is_none() {
            while self.one_of(b"MJKLI").is_some() || self.takes("Nk") {}
            self.kind()?;
        }
        Some(())
    }

    fn after(&self) -> u8 {
        self.text.as_bytes().get(self.at + 1).copied().unwrap_or(0)
    }

    /// A type.
    fn kind(&mut self) -> Option<()> {
        self.inside(|it| match it.peek() {
            b'Q' => it.back().map(drop),
            b'N' => {
                it.at += 2;
                let is_whole = it.text.as_bytes().get(it.at - 1) == Some(&b'n');
                if is_whole { Some(()) } else { it.kind() }
            }
            b'O' | b'x' | b'y' | b'A' | b'P' => {
                it.at += 1;
                it.kind()
            }
            b'G' => {
                it.at += 1;
                it.number()?;
                it.kind()
            }
            b'H' => {
                it.at += 1;
                it.kind()?;
                it.kind()
            }
            b'D' => {
                it.at += 1;
                while it.one_of(b"xyO").is_some() || it.takes("Ng") {}
                if it.peek() == b'Q' {
                    return it.back().map(drop);
                }
                it.function()?;
                it.kind()
            }
            b'F' | b'U' | b'W' | b'V' | b'R' | b'Y' => {
                it.function()?;
                it.kind()
            }
            b'C' | b'S' | b'E' | b'T' | b'I' => {
                it.at += 1;
                (!it.qualified_name()?.is_empty()).then_some(())
            }
            b'B' => {
                it.at += 1;
                let count = it.number()?;
                (0..count).try_for_each(|_| it.kind())
            }
            b'z' => {
                it.at += 1;
                it.one_of(b"ik").map(drop)
            }
            _ => it.one_of(b"vghstiklmfdeopjqrcbauwn").map(drop),
        })
    }

    fn value(&mut self, is_associative: bool) -> Option<()> {
        self.inside(|it| match it.peek() {
            b'n' => it.one_of(b"n").map(drop),
            b'i' | b'N' => {
                it.at += 1;
                it.number().map(drop)
            }
            b'0'..=b'9' => it.number().map(drop),
            b'e' => {
                it.at += 1;
                it.float()
            }
            b'c' => {
                it.at += 1;
                it.float()?;
                it.one_of(b"c")?;
                it.float()
            }
            b'a' | b'w' | b'd' => {
                it.at += 1;
                let length = it.number()?.checked_mul(2)?;
                it.one_of(b"_")?;
                it.at = it.at.checked_add(length).filter(|&at| at <= it.text.len())?;
                Some(())
            }
            b'A' | b'S' => {
                it.at += 1;
                let count = it.number()?;
                let count = if is_associative { count.checked_mul(2)? } else { count };
                (0..count).try_for_each(|_| it.value(false))
            }
            b'f' => {
                it.at += 1;
                it.symbol()
            }
            _ => None,
        })
    }

    /// `NAN`, `INF`, `NINF`, or hexadecimal digits with an exponent.
    fn float(&mut self) -> Option<()> {
        if self.takes("NAN") || self.takes("INF") || self.takes("NINF") {
            return Some(());
        }
        self.takes("N");
        while self.peek().is_ascii_hexdigit() {
            self.at += 1;
        }
        self.one_of(b"P")?;
        self.takes("N");
        self.number().map(drop)
    }
}
