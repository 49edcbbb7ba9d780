//! Nodes of the demangler's stack.

use std::rc::Rc;

/// Maximum length of a text, in bytes.
const LONGEST: usize = 1 << 14;

/// Maximum depth of nested contexts that are kept as nodes.
const DEEPEST: usize = 64;

/// The full and the short form of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub full: Rc<str>,
    pub short: Rc<str>,
}

impl Text {
    pub fn same(text: &str) -> Self {
        Self { full: text.into(), short: text.into() }
    }

    /// The text with `prefix` before it.
    pub fn after(&self, prefix: &str) -> Self {
        Self { full: join(prefix, "", &self.full), short: join(prefix, "", &self.short) }
    }

    pub fn before(&self, suffix: &str) -> Self {
        Self { full: join(&self.full, "", suffix), short: join(&self.short, "", suffix) }
    }

    pub fn joined(first: &Self, between: &str, second: &Self) -> Self {
        Self {
            full: join(&first.full, between, &second.full),
            short: join(&first.short, between, &second.short),
        }
    }

    /// `first.second`; without the dot if `first` is empty.
    pub fn path(first: &Self, second: &Self) -> Self {
        let dot = |first: &str| if first.is_empty() { "" } else { "." };
        Self {
            full: join(&first.full, dot(&first.full), &second.full),
            short: join(&first.short, dot(&first.short), &second.short),
        }
    }

    pub fn list<'a>(texts: impl IntoIterator<Item = &'a Self>, between: &str) -> Self {
        texts.into_iter().fold(Self::default(), |list, text| {
            if list.full.is_empty() { text.clone() } else { Self::joined(&list, between, text) }
        })
    }

    /// Returns true if it was cut.
    pub fn is_too_long(&self) -> bool {
        self.full.len() >= LONGEST || self.short.len() >= LONGEST
    }
}

/// Concatenates, up to [`LONGEST`].
fn join(first: &str, between: &str, second: &str) -> Rc<str> {
    let mut text = [first, between, second].concat();
    if text.len() > LONGEST {
        text.truncate((0..=LONGEST).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
    }
    text.into()
}

/// An element of a tuple, or a parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub label: Option<Rc<str>>,
    pub text: Text,
}

/// A function type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// `<A where A: P>`.
    pub generics: Text,
    pub parameters: Vec<Element>,
    /// `@Sendable` and the like, each with a trailing blank.
    pub attributes: Rc<str>,
    /// `async`, `throws`, each with a leading blank.
    pub effects: Rc<str>,
    pub result: Text,
}

/// An extension of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub module: Rc<str>,
    pub generics: Rc<str>,
}

impl Extension {
    /// The text of the extension, given that of the type.
    pub fn of(&self, extended: &Text) -> Text {
        let full = format!("(extension in {}):{}{}", self.module, extended.full, self.generics);
        Text { full: full.into(), short: Rc::clone(&extended.short) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Identifier,
    /// A declaration's name with a discriminator or fixity: `f #1`, `(f in _1234)`, `+ infix`.
    Declared,
    /// A file discriminator without an identifier.
    File,
    Module,
    /// The context of what an extension declares.
    Extension(Extension),
    /// A struct, an enum or a type alias.
    Nominal,
    Class,
    Protocol,
    /// Any other type.
    Type,
    /// An existential type.
    Existential,
    Tuple(Vec<Element>),
    Function(Rc<Signature>),
    /// A lowered function type.
    Lowered,
    /// A function, variable or closure.
    Entity,
    /// A thunk, metadata, or a witness.
    Global,
    /// `y`: an empty list.
    Empty,
    /// `_`: the node before it is the first one of a list.
    First,
    Variadic,
    /// `throws`, `async` and other annotations of a function type.
    Mark,
    Requirement,
    /// A generic parameter pack.
    Pack,
    /// A generic signature.
    Signature,
    Conformance,
    /// The protocol of a conformance.
    ConformanceTo,
    Retroactive,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub text: Text,
    /// Declared in a function: `x in f()`.
    pub is_local: bool,
    /// Context and own name of a declaration.
    pub parts: Option<Rc<(Node, Text)>>,
    /// Number of contexts around it.
    pub depth: usize,
    /// Offset of its end in the mangled name.
    pub end: usize,
}

impl Node {
    pub fn new(kind: Kind, text: Text) -> Self {
        Self { kind, text, is_local: false, parts: None, depth: 0, end: 0 }
    }

    /// A declaration in a module, type or function.
    pub fn in_context(kind: Kind, context: Self, own: Text) -> Self {
        let is_local = context.kind == Kind::Entity || context.is_local;
        let text = if is_local {
            Text::joined(&own, " in ", &context.text)
        } else {
            Text::path(&context.text, &own)
        };
        let depth = context.depth + 1;
        let parts = (depth < DEEPEST).then(|| Rc::new((context, own)));
        Self { kind, text, is_local, parts, depth, end: 0 }
    }

    pub fn of_type(text: Text) -> Self {
        Self::new(Kind::Type, text)
    }

    pub fn mark(text: &str) -> Self {
        Self::new(Kind::Mark, Text::same(text))
    }

    pub fn is_type(&self) -> bool {
        matches!(
            self.kind,
            Kind::Nominal
                | Kind::Class
                | Kind::Protocol
                | Kind::Type
                | Kind::Existential
                | Kind::Tuple(_)
                | Kind::Function(_)
                | Kind::Lowered
        )
    }

    /// Returns true if it can be a declaration's name.
    pub fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Identifier | Kind::Declared)
    }

    /// Returns true if a whole mangled name can be this.
    pub fn is_symbol(&self) -> bool {
        (self.is_type() || matches!(self.kind, Kind::Entity | Kind::Global))
            && !self.text.is_too_long()
    }

    /// The text, in brackets if it is a function type or a composition: `(() -> ())?`.
    pub fn in_brackets(&self) -> Text {
        let is_long = matches!(self.kind, Kind::Function(_) | Kind::Lowered)
            || self.text.full.contains(" & ");
        if is_long { self.text.after("(").before(")") } else { self.text.clone() }
    }
}
