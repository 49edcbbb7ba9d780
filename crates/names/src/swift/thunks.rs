//! Symbols that the compiler generates: thunks, specializations, metadata, witnesses.

use super::Reader;
use super::find;
use super::node::{Kind, Node, Text};

/// Thunks, by the letter behind `T`.
const THUNKS: &[(u8, &str)] = &[
    (b'c', "curry thunk of "),
    (b'j', "dispatch thunk of "),
    (b'q', "method descriptor for "),
    (b'o', "@objc "),
    (b'O', "@nonobjc "),
    (b'D', "dynamic "),
    (b'd', "super "),
    (b'E', "distributed thunk "),
    (b'F', "distributed accessor for "),
    (b'I', "dynamically replaceable thunk for "),
    (b'X', "dynamically replaceable variable for "),
    (b'u', "async function pointer to "),
    (b'S', "protocol self-conformance witness for "),
];

/// Metadata of a type, by the letter behind `M`.
const METADATA: &[(u8, &str)] = &[
    (b'a', "type metadata accessor for "),
    (b'b', "canonical specialized generic type metadata accessor for "),
    (b'D', "demangling cache variable for type metadata for "),
    (b'd', "demangling cache variable for type metadata for "),
    (b'f', "full type metadata for "),
    (b'I', "type metadata instantiation cache for "),
    (b'i', "type metadata instantiation function for "),
    (b'L', "lazy cache variable for type metadata for "),
    (b'l', "type metadata singleton initialization cache for "),
    (b'm', "metaclass for "),
    (b'n', "nominal type descriptor for "),
    (b'o', "class metadata base offset for "),
    (b'P', "generic type metadata pattern for "),
    (b'r', "type metadata completion function for "),
    (b'u', "method lookup function for "),
    (b'U', "ObjC metadata update function for "),
    (b's', "ObjC resilient class stub for "),
];

/// Witness tables of a conformance, by the letter behind `W`.
const WITNESSES: &[(u8, &str)] = &[
    (b'P', "protocol witness table for "),
    (b'a', "protocol witness table accessor for "),
    (b'G', "generic protocol witness table for "),
    (b'I', "instantiation function for generic protocol witness table for "),
    (b'p', "protocol witness table pattern for "),
    (b'r', "resilient protocol witness table for "),
];

/// Outlined operations, by the letter behind `WO`.
const OUTLINED: &[(u8, &str)] = &[
    (b'y', "outlined copy of "),
    (b'e', "outlined consume of "),
    (b'r', "outlined retain of "),
    (b's', "outlined release of "),
    (b'b', "outlined init with take of "),
    (b'B', "outlined init with take of "),
    (b'c', "outlined init with copy of "),
    (b'C', "outlined init with copy of "),
    (b'd', "outlined assign with take of "),
    (b'D', "outlined assign with take of "),
    (b'f', "outlined assign with copy of "),
    (b'F', "outlined assign with copy of "),
    (b'h', "outlined destroy of "),
    (b'H', "outlined destroy of "),
    (b'g', "outlined enum get tag of "),
    (b'i', "outlined enum tag store of "),
    (b'j', "outlined enum project data for load of "),
];

/// `VALUE-WITNESS-KIND`.
const VALUES: &[(&str, &str)] = &[
    ("al", "allocateBuffer"),
    ("ca", "assignWithCopy"),
    ("ta", "assignWithTake"),
    ("de", "deallocateBuffer"),
    ("xx", "destroy"),
    ("XX", "destroyBuffer"),
    ("Xx", "destroyArray"),
    ("CP", "initializeBufferWithCopyOfBuffer"),
    ("Cp", "initializeBufferWithCopy"),
    ("cp", "initializeWithCopy"),
    ("TK", "initializeBufferWithTakeOfBuffer"),
    ("Tk", "initializeBufferWithTake"),
    ("tk", "initializeWithTake"),
    ("pr", "projectBuffer"),
    ("xs", "storeExtraInhabitant"),
    ("xg", "getExtraInhabitantIndex"),
    ("Cc", "initializeArrayWithCopy"),
    ("Tt", "initializeArrayWithTakeFrontToBack"),
    ("tT", "initializeArrayWithTakeBackToFront"),
    ("ug", "getEnumTag"),
    ("up", "destructiveProjectEnumData"),
    ("ui", "destructiveInjectEnumTag"),
    ("et", "getEnumTagSinglePayload"),
    ("st", "storeEnumTagSinglePayload"),
];

impl Reader<'_> {
    fn global(text: Text) -> Option<Node> {
        Some(Node::new(Kind::Global, text))
    }

    /// Pops a type and prepends `prefix` to its text.
    pub(super) fn of_type(&mut self, prefix: &str) -> Option<Node> {
        let of = self.pop_type()?;
        Self::global(of.text.after(prefix))
    }

    pub(super) fn metadata(&mut self) -> Option<Node> {
        let letter = self.next();
        if letter == b'c' {
            let conformance = self.conformance()?;
            return Self::global(conformance.after("protocol conformance descriptor for "));
        }
        if letter == b'p' {
            let protocol = self.protocol()?;
            return Self::global(protocol.after("protocol descriptor for "));
        }
        self.of_type(find(METADATA, letter)?)
    }

    pub(super) fn value_witness(&mut self) -> Option<Node> {
        let letters = self.name.get(self.at..self.at + 2)?;
        self.at += 2;
        let (_, name) = VALUES.iter().find(|(of, _)| *of == letters)?;
        self.of_type(&format!("{name} value witness for "))
    }

    pub(super) fn witness(&mut self) -> Option<Node> {
        match self.next() {
            letter @ (b'l' | b'L') => {
                let conformance = self.conformance()?;
                let of = self.pop_type()?.text;
                let what = if letter == b'l' { "accessor" } else { "cache variable" };
                let prefix = format!("lazy protocol witness table {what} for type ");
                Self::global(Text::joined(&of, " and conformance ", &conformance).after(&prefix))
            }
            b'V' => self.of_type("value witness table for "),
            b'O' => {
                let letter = self.next();
                let prefix = find(OUTLINED, letter)?;
                if matches!(letter, b'i' | b'j') {
                    self.index()?;
                }
                self.pop(|node| node.kind == Kind::Signature);
                self.of_type(prefix)
            }
            b'b' => {
                let protocol = self.protocol()?;
                let conformance = self.conformance()?;
                let text = Text::joined(&protocol, " in ", &conformance);
                Self::global(text.after("base witness table accessor for "))
            }
            b'T' => {
                let protocol = self.protocol()?;
                let members = self.members()?;
                let conformance = self.conformance()?;
                let text = Text::joined(&members, " : ", &protocol);
                let text = Text::joined(&text, " in ", &conformance);
                Self::global(text.after("associated type witness table accessor for "))
            }
            letter @ (b'Z' | b'z') => {
                let mut names = Vec::new();
                while self.pops(&Kind::First) {
                    names.push(self.pop(Node::is_name)?.text);
                }
                names.reverse();
                self.context()?;
                let what = if letter == b'Z' { "function" } else { "token" };
                let names = Text::list(&names, ", ");
                Self::global(names.after(&format!("one-time initialization {what} for ")))
            }
            letter => {
                let prefix = find(WITNESSES, letter)?;
                let conformance = self.conformance()?;
                Self::global(conformance.after(prefix))
            }
        }
    }

    pub(super) fn thunk(&mut self) -> Option<Node> {
        let letter = self.next();
        if let Some(prefix) = find(THUNKS, letter) {
            return self.marked(prefix);
        }
        match letter {
            b'm' => self.variant("merged "),
            b'A' => self.variant("partial apply forwarder for "),
            b'a' => self.variant("partial apply ObjC forwarder for "),
            b'Q' | b'Y' => {
                let number = self.index()?;
                let kind = if letter == b'Q' { "await" } else { "suspend" };
                self.variant(&format!("({number}) {kind} resume partial function for "))
            }
            b'w' => match self.next() {
                b'b' => self.marked("back deployment thunk for "),
                b'B' => self.marked("back deployment fallback for "),
                _ => None,
            },
            // With the indexes of dropped arguments.
            b't' => {
                loop {
                    self.natural();
                    if !self.takes(b't') {
                        break;
                    }
                }
                let letter = self.one_of(b"gGsB")?;
                self.specialized(letter)
            }
            b'g' | b'G' | b's' | b'B' | b'i' => self.specialized(letter),
            b'p' | b'P' => {
                let serialized = self.pass()?;
                let of = self.pop_type()?.text.full;
                self.variant(&format!(
                    "generic partial specialization <{serialized}Signature = {of}> of "
                ))
            }
            b'f' => {
                self.pass()?;
                self.changed_arguments()?;
                self.variant("function signature specialization of ")
            }
            b'W' => {
                let of = self.pop(|node| node.kind == Kind::Entity)?.text;
                let conformance = self.conformance()?;
                let text = Text::joined(&of, " in conformance ", &conformance);
                Self::global(text.after("protocol witness for "))
            }
            b'V' => {
                let base = self.pop(|node| node.kind == Kind::Entity)?.text;
                let derived = self.pop(|node| node.kind == Kind::Entity)?.text;
                let text = Text::joined(&base, " dispatching to ", &derived);
                Self::global(text.after("vtable thunk for "))
            }
            b'R' | b'r' => {
                let generics = self.pop(|node| node.kind == Kind::Signature);
                let to = self.pop_type()?.text;
                let from = self.pop_type()?.text;
                let helper = if letter == b'R' { "helper " } else { "" };
                let generics =
                    generics.map(|node| format!("{} ", node.text.full)).unwrap_or_default();
                let full = format!(
                    "reabstraction thunk {helper}{generics}from {} to {}",
                    from.full, to.full
                );
                let short =
                    format!("reabstraction thunk {helper}from {} to {}", from.short, to.short);
                Self::global(Text { full: full.into(), short: short.into() })
            }
            b'K' | b'k' => {
                self.takes(b'q');
                let mut types = Vec::new();
                while let Some(of) = self.pop_type() {
                    types.push(of.text);
                }
                types.reverse();
                let generics = self.pop(|node| node.kind == Kind::Signature);
                let of = self.pop(|node| node.kind == Kind::Entity)?.text;
                let what = if letter == b'K' { "getter" } else { "setter" };
                let generics = generics.map(|node| node.text.full).unwrap_or_default();
                let types = Text::list(&types, ", ");
                let full = format!("key path {what} for {} : {generics}{}", of.full, types.full);
                let short = format!("key path {what} for {}", of.short);
                Self::global(Text { full: full.into(), short: short.into() })
            }
            b'v' => {
                let number = self.index()?;
                let kind = if self.takes(b'r') { "read-only object" } else { "variable" };
                let of = self.pop(Node::is_symbol)?.text;
                Self::global(of.after(&format!("outlined {kind} #{number} of ")))
            }
            b'e' => {
                let letters = &self.name[self.at..];
                let length = letters.find('_')?;
                self.at += length + 1;
                self.marked(&format!("outlined bridged method ({}) of ", &letters[..length]))
            }
            _ => None,
        }
    }

    /// Pops an entity of which this is a specialization, a part or the like. Short form and identity are those of the entity.
    fn variant(&mut self, prefix: &str) -> Option<Node> {
        let of = self.pop(Node::is_symbol)?;
        self.end.get_or_insert(of.end);
        let text = Text { full: of.text.after(prefix).full, short: of.text.short };
        Self::global(text)
    }

    /// A specialization of a generic function.
    fn specialized(&mut self, letter: u8) -> Option<Node> {
        let serialized = self.pass()?;
        let kind = match letter {
            b'G' => "generic not re-abstracted specialization",
            b's' => "generic pre-specialization",
            b'i' => "inlined generic function",
            _ => "generic specialization",
        };
        let types = Text::list(&self.type_list()?, ", ");
        self.variant(&format!("{kind} <{serialized}{}> of ", types.full))
    }

    /// `SPEC-INFO`; returns its text.
    fn pass(&mut self) -> Option<&'static str> {
        self.takes(b'm');
        let is_serialized = self.takes(b'q');
        self.takes(b'a');
        self.one_of(b"0123456789")?;
        Some(if is_serialized { "serialized, " } else { "" })
    }

    /// `ARG-SPEC-KIND* '_' ARG-SPEC-KIND`; pops the identifiers and types that these consume.
    fn changed_arguments(&mut self) -> Option<()> {
        let mut of_names = Vec::new();
        loop {
            match self.next() {
                // One for the result follows.
                b'_' => break,
                b'n' | b'x' | b'i' | b's' | b'r' => {}
                b'c' => of_names.push(b'c'),
                b'p' => match self.next() {
                    b'f' | b'g' => of_names.push(b'f'),
                    b'k' => of_names.push(b'k'),
                    b'i' | b'd' => {
                        self.natural()?;
                    }
                    b's' => {
                        self.one_of(b"bwc")?;
                        of_names.push(b'f');
                    }
                    _ => return None,
                },
                b'e' => while self.one_of(b"DGOX").is_some() {},
                b'd' => while self.one_of(b"GOX").is_some() {},
                b'g' | b'o' => while self.one_of(b"X").is_some() {},
                _ => return None,
            }
        }
        self.one_of(b"nxisdgoe")?;
        while self.one_of(b"DGOX").is_some() {}
        for kind in of_names.into_iter().rev() {
            if kind != b'f' {
                while self.pop_type().is_some() {}
            }
            self.pop(|node| node.kind == Kind::Identifier)?;
        }
        Some(())
    }
}
