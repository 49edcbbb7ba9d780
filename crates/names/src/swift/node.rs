//! What a name of Swift is read into.

use std::rc::Rc;

/// No name of real code is longer; what is said by numbers could be.
const LONGEST: usize = 1 << 14;

/// Of what is deeper in others, these are not known by themselves.
const DEEPEST: usize = 64;

/// A text for details, and one for labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub full: Rc<str>,
    pub short: Rc<str>,
}

impl Text {
    pub fn same(text: &str) -> Self {
        Self { full: text.into(), short: text.into() }
    }

    /// The text behind `prefix`.
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

    /// `a.b`, of which one may be empty.
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

    /// Returns true if it is longer than names are.
    pub fn is_too_long(&self) -> bool {
        self.full.len() >= LONGEST || self.short.len() >= LONGEST
    }
}

/// Cuts what no name has: a short name can stand for a text that doubles again and again.
fn join(first: &str, between: &str, second: &str) -> Rc<str> {
    let mut text = [first, between, second].concat();
    if text.len() > LONGEST {
        text.truncate((0..=LONGEST).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
    }
    text.into()
}

/// An element of a tuple, or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub label: Option<Rc<str>>,
    pub text: Text,
}

/// The type of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// `<A where A: P>`.
    pub generics: Text,
    pub parameters: Vec<Element>,
    /// `@Sendable`, with a blank behind it.
    pub attributes: Rc<str>,
    /// `async`, `throws`, each with a blank before it.
    pub effects: Rc<str>,
    pub result: Text,
}

/// Which module extends a type, and of which arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub module: Rc<str>,
    pub generics: Rc<str>,
}

impl Extension {
    /// Of this type.
    pub fn of(&self, extended: &Text) -> Text {
        let full = format!("(extension in {}):{}{}", self.module, extended.full, self.generics);
        Text { full: full.into(), short: Rc::clone(&extended.short) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Identifier,
    /// An identifier with what tells it from its like: `f #1`, `(f in _1234)`, `+ infix`.
    Declared,
    /// A file's mark, for what has no name.
    File,
    Module,
    /// A module's extension of a type.
    Extension(Extension),
    /// A type with a name.
    Nominal,
    Class,
    Protocol,
    /// A type of type arguments: how it reads with others.
    Type,
    /// Whatever has these protocols.
    Existential,
    Tuple(Vec<Element>),
    Function(Rc<Signature>),
    /// A function's type, with how each value is passed.
    Lowered,
    /// A function, a variable, or what is derived from one.
    Entity,
    /// What has no context: metadata, thunks of types.
    Global,
    /// An empty list.
    Empty,
    /// The first one of a list is before this.
    First,
    Variadic,
    /// `throws`, `async` and other properties of a function's type.
    Mark,
    Requirement,
    /// A type parameter that stands for any number of types.
    Pack,
    /// Parameters of a generic function.
    Signature,
    Conformance,
    /// Which protocol a conformance is to.
    ConformanceTo,
    Retroactive,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub text: Text,
    /// It is in a function: `x in f()`.
    pub is_local: bool,
    /// Of a type: what it is in, and its own name.
    pub parts: Option<Rc<(Node, Text)>>,
    /// How many it is in.
    pub depth: usize,
    /// Where it ends in the mangled name.
    pub end: usize,
}

impl Node {
    pub fn new(kind: Kind, text: Text) -> Self {
        Self { kind, text, is_local: false, parts: None, depth: 0, end: 0 }
    }

    /// What stands in a module, a type or a function.
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

    /// Returns true for what may stand for a declaration's name.
    pub fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Identifier | Kind::Declared)
    }

    /// Returns true for what a whole name may stand for.
    pub fn is_symbol(&self) -> bool {
        (self.is_type() || matches!(self.kind, Kind::Entity | Kind::Global))
            && !self.text.is_too_long()
    }

    /// The text as a part of another type: `(() -> ())?`.
    pub fn in_brackets(&self) -> Text {
        let is_long = matches!(self.kind, Kind::Function(_) | Kind::Lowered)
            || self.text.full.contains(" & ");
        if is_long { self.text.after("(").before(")") } else { self.text.clone() }
    }
}
