//! Demangler for Swift: `$s4shop4CartV3add4itemySS_tF` is `shop.Cart.add(item: Swift.String) -> ()`, in short form
//! `Cart.add(item:)`.
//!
//! A mangled name is a list of operators in postfix order: each pops its operands from a stack of nodes and pushes one node.
//! Specification: <https://github.com/swiftlang/swift/blob/main/docs/ABI/Mangling.rst>. Not decoded: macros, derivatives, and
//! some descriptors and records, which are data.

mod entities;
mod generics;
mod identifiers;
mod lowered;
mod node;
mod thunks;
mod types;

use node::{Kind, Node, Text};

use crate::{Language, Name};

/// Maximum number of operators in a name, counting repeated substitutions.
const MOST_STEPS: usize = 8192;

/// Maximum bytes of text to build for one name: substitutions can double the text again and again.
const MOST_WRITTEN: usize = 1 << 20;

/// Demangles a name; `None` if it is not a Swift symbol.
pub(crate) fn name(name: &str) -> Option<Name<'_>> {
    // Mangled names have no dot: a suffix is LLVM's (`.resume.0`, `.cold`).
    let bare = name.split('.').next().unwrap_or(name);
    let start = prefix(bare)?;
    let mut reader = Reader::new(bare, start);
    let (identity, text) = match reader.symbol() {
        Some(node) => (reader.identity(), Some(node.text)),
        // Other languages have names that begin with `$`, too.
        None if !begins_with_module(bare, start) => return None,
        // Merged functions end in `Tm`.
        None => (bare.strip_suffix("Tm").unwrap_or(bare).to_owned(), None),
    };
    Some(Name {
        identity: identity.into(),
        short: text.as_ref().map_or(name.into(), |text| text.short.to_string().into()),
        full: text.map_or(name.into(), |text| text.full.to_string().into()),
        language: Some(Language::Swift),
        tier: None,
    })
}

/// Length of the prefix: `$s`, `$S` (Swift 4.2), `$e` (embedded Swift), each with a leading `_` on macOS; `_T0` (Swift 4.0).
fn prefix(name: &str) -> Option<usize> {
    const PREFIXES: &[&str] = &["$s", "$S", "$e", "_$s", "_$S", "_$e", "_T0"];
    PREFIXES.iter().find_map(|prefix| name.starts_with(prefix).then_some(prefix.len()))
}

fn begins_with_module(name: &str, start: usize) -> bool {
    let first = name.as_bytes().get(start).copied().unwrap_or(0);
    name.starts_with("_T0") || first.is_ascii_digit() || first == b'S'
}

/// State of the demangler.
struct Reader<'a> {
    name: &'a str,
    at: usize,
    /// Swift 4.0, where parameter labels are part of the types.
    is_old: bool,
    stack: Vec<Node>,
    /// Nodes that `A` refers back to.
    substitutions: Vec<Node>,
    /// Words of identifiers that later identifiers refer back to.
    words: Vec<&'a str>,
    /// Number of operators so far.
    steps: usize,
    /// Bytes of text so far.
    written: usize,
    /// Offset at which the function's own name ends; the rest is specialization, merging and the like.
    end: Option<usize>,
    /// Offsets of closure indexes.
    numbers: Vec<std::ops::Range<usize>>,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, start: usize) -> Self {
        Self {
            name,
            at: start,
            is_old: name.starts_with("_T0"),
            stack: Vec::new(),
            substitutions: Vec::new(),
            words: Vec::new(),
            steps: 0,
            written: 0,
            end: None,
            numbers: Vec::new(),
        }
    }

    /// Demangles the whole name.
    fn symbol(&mut self) -> Option<Node> {
        while self.at < self.name.len() {
            self.steps += 1;
            let node = self.operator().filter(|_| self.steps <= MOST_STEPS)?;
            self.written += node.text.full.len() + node.text.short.len();
            if self.written > MOST_WRITTEN {
                return None;
            }
            self.stack.push(Node { end: self.at, ..node });
        }
        let symbol = self.stack.pop()?;
        (self.stack.is_empty() && symbol.is_symbol()).then_some(symbol)
    }

    /// The mangled name without specializations and with all closure indexes 0.
    fn identity(&self) -> String {
        let end = self.end.unwrap_or(self.name.len());
        let mut identity = String::with_capacity(end);
        let mut from = 0;
        for number in self.numbers.iter().filter(|number| number.end <= end) {
            identity.push_str(&self.name[from..number.start]);
            identity.push('_');
            from = number.end;
        }
        identity + &self.name[from..end]
    }

    fn peek(&self) -> u8 {
        self.name.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += usize::from(byte != 0);
        byte
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == byte;
        self.at += usize::from(is_there);
        is_there
    }

    /// Consumes the next byte if it is one of `letters`.
    fn one_of(&mut self, letters: &[u8]) -> Option<u8> {
        let letter = Some(self.peek()).filter(|letter| letters.contains(letter))?;
        self.at += 1;
        Some(letter)
    }

    /// `NATURAL`.
    fn natural(&mut self) -> Option<usize> {
        let rest = &self.name[self.at..];
        let length = crate::scan::digits(rest);
        let number = rest[..length].parse().ok()?;
        self.at += length;
        Some(number)
    }

    /// `INDEX`: `_` is 0, `0_` is 1.
    fn index(&mut self) -> Option<usize> {
        if self.takes(b'_') {
            return Some(0);
        }
        let number = self.natural()?.checked_add(1)?;
        self.takes(b'_').then_some(number)
    }

    fn pop(&mut self, is_one: impl FnOnce(&Node) -> bool) -> Option<Node> {
        self.stack.pop_if(|node| is_one(node))
    }

    fn pops(&mut self, kind: &Kind) -> bool {
        self.pop(|node| node.kind == *kind).is_some()
    }

    fn pop_type(&mut self) -> Option<Node> {
        self.pop(Node::is_type)
    }

    /// Pops a list: empty (`y`), or items up to the one that a first-element marker (`_`) follows.
    fn pop_list<T>(&mut self, mut pop: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if !self.pops(&Kind::Empty) {
            loop {
                let is_first = self.pops(&Kind::First);
                items.push(pop(self)?);
                if is_first {
                    break;
                }
            }
            items.reverse();
        }
        Some(items)
    }

    /// Adds a node to the substitutions.
    fn keep(&mut self, node: Node) -> Option<Node> {
        self.substitutions.push(node.clone());
        Some(node)
    }

    /// Reads one operator and returns the node for it.
    fn operator(&mut self) -> Option<Node> {
        let start = self.at;
        match self.next() {
            b'0'..=b'9' => {
                self.at = start;
                self.identifier()
            }
            b'A' => self.substitution(),
            b'B' => self.builtin(),
            b'C' => self.nominal(Kind::Class),
            b'O' | b'V' | b'a' => self.nominal(Kind::Nominal),
            b'P' => self.nominal(Kind::Protocol),
            b'D' => self.pop_type(),
            b'E' => self.extension(),
            b'F' => self.function(),
            b'G' => self.bound_generic(),
            b'H' => self.conformance_operator(),
            b'I' => self.lowered_function(),
            b'K' => Some(Node::mark("throws")),
            b'L' => self.local_name(),
            b'M' => self.metadata(),
            b'N' => self.of_type("type metadata for "),
            b'Q' => self.archetype(),
            b'R' => self.requirement(),
            b'S' => self.standard(),
            b'T' => self.thunk(),
            b'W' => self.witness(),
            b'X' => self.special_type(),
            b'Y' => self.annotation(),
            b'Z' => {
                let entity = self.pop(|node| node.kind == Kind::Entity)?;
                Some(Node { text: entity.text.after("static "), ..entity })
            }
            b'c' => self.function_type(""),
            b'd' => Some(Node::new(Kind::Variadic, Text::default())),
            b'f' => self.special_entity(),
            b'g' => {
                self.index()?;
                self.pop(|node| node.kind == Kind::Conformance)?;
                Some(Node::new(Kind::Retroactive, Text::default()))
            }
            b'h' => self.annotated("__shared "),
            b'n' => self.annotated("__owned "),
            b'z' => self.annotated("inout "),
            b'i' => self.subscript(),
            b'l' => self.signature(vec![1]),
            b'r' => {
                let mut counts = Vec::new();
                while !self.takes(b'l') {
                    let count = if self.takes(b'z') { 0 } else { self.index()?.checked_add(1)? };
                    counts.push(count);
                }
                self.signature(counts)
            }
            b'm' => self.meta_type(),
            b'o' => self.operator_name(),
            b'p' => {
                let protocols = self.protocols()?;
                let is_any = protocols.full.is_empty();
                let text = if is_any { Text::same("Any") } else { protocols };
                Some(Node::new(Kind::Existential, text))
            }
            b'q' => {
                let parameter = self.parameter()?;
                Some(Node::of_type(parameter))
            }
            b's' => Some(Node::new(Kind::Module, Text { full: "Swift".into(), short: "".into() })),
            b't' => self.tuple(),
            b'u' => self.generic_type(),
            b'v' => self.variable(),
            b'w' => self.value_witness(),
            b'x' => Some(Node::of_type(Text::same("A"))),
            b'y' => Some(Node::new(Kind::Empty, Text::default())),
            b'_' => Some(Node::new(Kind::First, Text::default())),
            _ => None,
        }
    }
}

/// The entry of a table for a letter.
fn find(table: &[(u8, &'static str)], letter: u8) -> Option<&'static str> {
    table.iter().find(|(of, _)| *of == letter).map(|(_, text)| *text)
}
