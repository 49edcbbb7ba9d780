//! Identifiers and substitutions.

use super::Reader;
use super::find;
use super::node::{Kind, Node, Text};

/// Maximum number of words that can be referred back to.
const MOST_WORDS: usize = 26;

/// `OPERATOR-CHAR`.
const SIGNS: &[(u8, char)] = &[
    (b'a', '&'),
    (b'c', '@'),
    (b'd', '/'),
    (b'e', '='),
    (b'g', '>'),
    (b'l', '<'),
    (b'm', '*'),
    (b'n', '!'),
    (b'o', '|'),
    (b'p', '+'),
    (b'q', '?'),
    (b'r', '%'),
    (b's', '-'),
    (b't', '~'),
    (b'x', '^'),
    (b'z', '.'),
];

/// `KNOWN-TYPE-KIND`: types of the standard library.
const STANDARD: &[(u8, &str)] = &[
    (b'A', "AutoreleasingUnsafeMutablePointer"),
    (b'a', "Array"),
    (b'b', "Bool"),
    (b'D', "Dictionary"),
    (b'd', "Double"),
    (b'f', "Float"),
    (b'h', "Set"),
    (b'I', "DefaultIndices"),
    (b'i', "Int"),
    (b'J', "Character"),
    (b'N', "ClosedRange"),
    (b'n', "Range"),
    (b'O', "ObjectIdentifier"),
    (b'P', "UnsafePointer"),
    (b'p', "UnsafeMutablePointer"),
    (b'q', "Optional"),
    (b'R', "UnsafeBufferPointer"),
    (b'r', "UnsafeMutableBufferPointer"),
    (b'S', "String"),
    (b's', "Substring"),
    (b'u', "UInt"),
    (b'V', "UnsafeRawPointer"),
    (b'v', "UnsafeMutableRawPointer"),
    (b'W', "UnsafeRawBufferPointer"),
    (b'w', "UnsafeMutableRawBufferPointer"),
];

/// `KNOWN-TYPE-KIND`: protocols of the standard library.
const STANDARD_PROTOCOLS: &[(u8, &str)] = &[
    (b'B', "BinaryFloatingPoint"),
    (b'E', "Encodable"),
    (b'e', "Decodable"),
    (b'F', "FloatingPoint"),
    (b'G', "RandomNumberGenerator"),
    (b'H', "Hashable"),
    (b'j', "Numeric"),
    (b'K', "BidirectionalCollection"),
    (b'k', "RandomAccessCollection"),
    (b'L', "Comparable"),
    (b'l', "Collection"),
    (b'M', "MutableCollection"),
    (b'm', "RangeReplaceableCollection"),
    (b'Q', "Equatable"),
    (b'T', "Sequence"),
    (b't', "IteratorProtocol"),
    (b'U', "UnsignedInteger"),
    (b'X', "RangeExpression"),
    (b'x', "Strideable"),
    (b'Y', "RawRepresentable"),
    (b'y', "StringProtocol"),
    (b'Z', "SignedInteger"),
    (b'z', "BinaryInteger"),
];

/// `KNOWN-TYPE-KIND-2`, behind `Sc`: concurrency.
const CONCURRENT: &[(u8, Kind, &str)] = &[
    (b'A', Kind::Protocol, "Actor"),
    (b'C', Kind::Nominal, "CheckedContinuation"),
    (b'c', Kind::Nominal, "UnsafeContinuation"),
    (b'E', Kind::Nominal, "CancellationError"),
    (b'e', Kind::Nominal, "UnownedSerialExecutor"),
    (b'F', Kind::Protocol, "Executor"),
    (b'f', Kind::Protocol, "SerialExecutor"),
    (b'G', Kind::Nominal, "TaskGroup"),
    (b'g', Kind::Nominal, "ThrowingTaskGroup"),
    (b'h', Kind::Protocol, "TaskExecutor"),
    (b'I', Kind::Protocol, "AsyncIteratorProtocol"),
    (b'i', Kind::Protocol, "AsyncSequence"),
    (b'J', Kind::Nominal, "UnownedJob"),
    (b'M', Kind::Class, "MainActor"),
    (b'P', Kind::Nominal, "TaskPriority"),
    (b'S', Kind::Nominal, "AsyncStream"),
    (b's', Kind::Nominal, "AsyncThrowingStream"),
    (b'T', Kind::Nominal, "Task"),
    (b't', Kind::Nominal, "UnsafeCurrentTask"),
];

/// A type of module `Swift`.
fn of_swift(kind: Kind, name: &str) -> Node {
    let module = Node::new(Kind::Module, Text { full: "Swift".into(), short: "".into() });
    Node::in_context(kind, module, Text::same(name))
}

impl<'a> Reader<'a> {
    /// `3foo`; with word substitutions `0` and then letters and literal parts: `02Myac1_B`. Punycode (`00`) is not decoded.
    pub(super) fn identifier(&mut self) -> Option<Node> {
        let mut has_words = self.takes(b'0');
        // Two: the rest is Punycode.
        if has_words && self.peek() == b'0' {
            return None;
        }
        let mut text = String::new();
        loop {
            while has_words && self.peek().is_ascii_alphabetic() {
                let letter = self.next();
                has_words = letter.is_ascii_lowercase();
                let number = letter.to_ascii_lowercase() - b'a';
                text.push_str(self.words.get(usize::from(number))?);
            }
            // No literal part follows the last word.
            if self.takes(b'0') {
                break;
            }
            let length = self.natural()?;
            let end = self.at.checked_add(length)?;
            let part = self.name.get(self.at..end)?;
            self.keep_words(part);
            text.push_str(part);
            self.at = end;
            if !has_words {
                break;
            }
        }
        if text.is_empty() {
            return None;
        }
        self.keep(Node::new(Kind::Identifier, Text::same(&text)))
    }

    /// Adds the words of an identifier: they end before `_` and before a capital that follows another character.
    fn keep_words(&mut self, part: &'a str) {
        let bytes = part.as_bytes();
        let mut start = None;
        for at in 0..=bytes.len() {
            let byte = bytes.get(at).copied().unwrap_or(b'_');
            if let Some(from) = start {
                let ends = byte == b'_'
                    || byte.is_ascii_uppercase() && !bytes[at - 1].is_ascii_uppercase();
                if ends {
                    let word = part.get(from..at).filter(|word| word.len() >= 2);
                    self.words.extend(word.filter(|_| self.words.len() < MOST_WORDS));
                    start = None;
                }
            }
            if start.is_none() && byte != b'_' && !byte.is_ascii_digit() {
                start = Some(at);
            }
        }
    }

    /// `A…`: `AB` is substitution 1, `AbC` substitutions 1 and 2, `A2B` substitution 1 twice, `A0_` substitution 27.
    pub(super) fn substitution(&mut self) -> Option<Node> {
        loop {
            let number = if self.peek().is_ascii_digit() { Some(self.natural()?) } else { None };
            let letter = self.next();
            if letter == b'_' {
                let index = number.map_or(Some(26), |number| number.checked_add(27))?;
                return self.substitutions.get(index).cloned();
            }
            if !letter.is_ascii_alphabetic() {
                return None;
            }
            let index = usize::from(letter.to_ascii_lowercase() - b'a');
            let node = self.substitutions.get(index)?.clone();
            self.repeat(&node, number)?;
            if letter.is_ascii_uppercase() {
                return Some(node);
            }
            self.stack.push(node);
        }
    }

    /// Pushes a node `count` - 1 times; the caller returns the last one.
    fn repeat(&mut self, node: &Node, count: Option<usize>) -> Option<()> {
        let more = count.unwrap_or(1).checked_sub(1)?;
        self.steps = self.steps.checked_add(more).filter(|&steps| steps <= super::MOST_STEPS)?;
        self.stack.extend(std::iter::repeat_n(node.clone(), more));
        Some(())
    }

    /// `S…`: `Si` is `Swift.Int`, `S2i` twice that.
    pub(super) fn standard(&mut self) -> Option<Node> {
        match self.peek() {
            b'o' | b'C' => {
                let full = if self.next() == b'o' { "__C" } else { "__C_Synthesized" };
                return Some(Node::new(Kind::Module, Text { full: full.into(), short: "".into() }));
            }
            b'g' => {
                self.at += 1;
                let of = self.pop_type()?;
                let optional = Node::of_type(of.in_brackets().before("?"));
                return self.keep(optional);
            }
            _ => {}
        }
        let count = if self.peek().is_ascii_digit() { Some(self.natural()?) } else { None };
        let letter = self.next();
        let node = if letter == b'c' {
            let letter = self.next();
            let (_, kind, name) = CONCURRENT.iter().find(|(of, ..)| *of == letter)?;
            of_swift(kind.clone(), name)
        } else {
            match find(STANDARD, letter) {
                Some(name) => of_swift(Kind::Nominal, name),
                None => of_swift(Kind::Protocol, find(STANDARD_PROTOCOLS, letter)?),
            }
        };
        self.repeat(&node, count)?;
        Some(node)
    }

    /// `L…`: a local declaration (`L_`), or one that is private to a file (`LL`; `Ll` without an identifier).
    pub(super) fn local_name(&mut self) -> Option<Node> {
        let is_identifier = |node: &Node| node.kind == Kind::Identifier;
        match self.peek() {
            b'L' => {
                self.at += 1;
                let file = self.pop(is_identifier)?.text;
                let name = self.pop(Node::is_name)?.text;
                let full = format!("({} in {})", name.full, file.full);
                Some(Node::new(Kind::Declared, Text { full: full.into(), short: name.short }))
            }
            b'l' => {
                self.at += 1;
                let file = self.pop(is_identifier)?.text;
                let full = format!("(in {})", file.full);
                Some(Node::new(Kind::File, Text { full: full.into(), short: "".into() }))
            }
            b'a'..=b'j' | b'A'..=b'J' => {
                let letter = char::from(self.next());
                let name = self.pop(is_identifier)?.text;
                Some(Node::new(
                    Kind::Declared,
                    name.after(&format!("related decl '{letter}' for ")),
                ))
            }
            _ => {
                let number = self.index()?.checked_add(1)?;
                let name = self.pop(Node::is_name)?.text;
                Some(Node::new(Kind::Declared, name.before(&format!(" #{number}"))))
            }
        }
    }

    /// `o…`: `2eeoi` is `== infix`.
    pub(super) fn operator_name(&mut self) -> Option<Node> {
        let kind = match self.next() {
            b'i' => " infix",
            b'p' => " prefix",
            b'P' => " postfix",
            _ => return None,
        };
        let name = self.pop(|node| node.kind == Kind::Identifier)?.text;
        let sign =
            |byte: u8| SIGNS.iter().find(|(letter, _)| *letter == byte).map(|(_, sign)| *sign);
        let signs: String = name.full.bytes().map(sign).collect::<Option<_>>()?;
        Some(Node::new(Kind::Declared, Text::same(&(signs + kind))))
    }
}
