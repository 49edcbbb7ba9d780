//! Entities: functions, variables, closures, nominal types, and their contexts.

use std::rc::Rc;

use super::Reader;
use super::node::{Element, Extension, Kind, Node, Signature, Text};
use super::types::in_parentheses;

impl Reader<'_> {
    /// Pops a module, or an identifier that names one.
    fn module(&mut self) -> Option<Node> {
        let node = self.pop(|node| matches!(node.kind, Kind::Module | Kind::Identifier))?;
        let short = "".into();
        Some(Node::new(Kind::Module, Text { short, ..node.text }))
    }

    /// Pops a declaration context.
    pub(super) fn context(&mut self) -> Option<Node> {
        let is_named = |node: &Node| {
            matches!(
                node.kind,
                Kind::Entity | Kind::Extension(_) | Kind::Nominal | Kind::Class | Kind::Protocol
            )
        };
        self.pop(is_named).or_else(|| self.module())
    }

    /// Pops a declaration's name.
    fn declared(&mut self) -> Option<Text> {
        self.pop(Node::is_name).map(|node| node.text)
    }

    pub(super) fn nominal(&mut self, kind: Kind) -> Option<Node> {
        let name = self.declared()?;
        let context = self.context()?;
        self.keep(Node::in_context(kind, context, name))
    }

    /// Pops a protocol: a type, or context and name.
    pub(super) fn protocol(&mut self) -> Option<Text> {
        if let Some(protocol) = self.pop(|node| node.kind == Kind::Protocol) {
            return Some(protocol.text);
        }
        let name = self.declared()?;
        let context = self.context()?;
        Some(Node::in_context(Kind::Protocol, context, name).text)
    }

    /// Pops a protocol list: `A & B`.
    pub(super) fn protocols(&mut self) -> Option<Text> {
        let protocols = self.pop_list(Self::protocol)?;
        Some(Text::list(&protocols, " & "))
    }

    pub(super) fn extension(&mut self) -> Option<Node> {
        let generics = self.pop(|node| node.kind == Kind::Signature);
        let module = self.module()?;
        let of = self.pop_type()?;
        let generics = generics.map(|node| node.text.full).unwrap_or_default();
        let by = Extension { module: module.text.full, generics };
        let text = by.of(&of.text);
        let is_local = of.is_local;
        let parts = Some(Rc::new((of, Text::default())));
        Some(Node { is_local, parts, ..Node::new(Kind::Extension(by), text) })
    }

    /// Pops the label list of a function and adds it to the parameters. A function without parameters has none.
    fn labelled(&mut self, function: &mut Signature) -> Option<()> {
        if self.is_old || self.pops(&Kind::Empty) {
            return Some(());
        }
        for element in function.parameters.iter_mut().rev() {
            let label = self.pop(|node| matches!(node.kind, Kind::Identifier | Kind::First))?;
            let is_one = label.kind == Kind::Identifier;
            element.label = Some(if is_one { label.text.full } else { "_".into() });
        }
        Some(())
    }

    /// `f<A>(a: A) throws -> B`, in short `f(a:)`.
    fn called(name: &Text, function: &Signature) -> Text {
        let label = |element: &Element| format!("{}:", element.label.as_deref().unwrap_or("_"));
        let labels: String = function.parameters.iter().map(label).collect();
        let parameters = in_parentheses(&function.parameters).full;
        let Signature { generics, attributes, effects, result, .. } = function;
        let (generics, result) = (&generics.full, &result.full);
        // Behind `f #1`.
        let blank = if name.full.contains(" #") { " " } else { "" };
        Text {
            full: format!(
                "{}{blank}{generics}{attributes}{parameters}{effects} -> {result}",
                name.full
            )
            .into(),
            short: format!("{}({labels})", name.short).into(),
        }
    }

    pub(super) fn function(&mut self) -> Option<Node> {
        let generics = self.pop(|node| node.kind == Kind::Signature);
        let mut function = self.pop_function()?;
        function.generics = generics.map(|node| node.text).unwrap_or_default();
        self.labelled(&mut function)?;
        let name = self.declared()?;
        let context = self.context()?;
        Some(Node::in_context(Kind::Entity, context, Self::called(&name, &function)))
    }

    /// `ACCESSOR` of a variable or subscript.
    fn accessor(&mut self) -> Option<&'static str> {
        Some(match self.next() {
            b'p' => "",
            b'm' => ".materializeForSet",
            b's' => ".setter",
            b'g' | b'G' => ".getter",
            b'w' => ".willset",
            b'W' => ".didset",
            b'r' => ".read",
            b'M' => ".modify",
            b'x' => ".modify2",
            b'y' => ".read2",
            b'i' => ".init",
            b'a' => match self.next() {
                b'O' => ".owningMutableAddressor",
                b'o' => ".nativeOwningMutableAddressor",
                b'p' => ".nativePinningMutableAddressor",
                b'u' => ".unsafeMutableAddressor",
                _ => return None,
            },
            b'l' => match self.next() {
                b'O' => ".owningAddressor",
                b'o' => ".nativeOwningAddressor",
                b'p' => ".nativePinningAddressor",
                b'u' => ".unsafeAddressor",
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Pops a type and, for a function type, its labels.
    fn labelled_type(&mut self) -> Option<(Node, Option<Signature>)> {
        let of = self.pop_type()?;
        let function = match &of.kind {
            Kind::Function(function) => {
                let mut function = Signature::clone(function);
                self.labelled(&mut function)?;
                Some(function)
            }
            _ => {
                self.pops(&Kind::Empty);
                None
            }
        };
        Some((of, function))
    }

    pub(super) fn variable(&mut self) -> Option<Node> {
        let accessor = self.accessor()?;
        let (of, _) = self.labelled_type()?;
        let name = self.declared()?;
        let context = self.context()?;
        let own = name.before(accessor);
        let own =
            Text { full: format!("{} : {}", own.full, of.text.full).into(), short: own.short };
        Some(Node::in_context(Kind::Entity, context, own))
    }

    pub(super) fn subscript(&mut self) -> Option<Node> {
        let accessor = self.accessor()?;
        let file = self.pop(|node| node.kind == Kind::File);
        let (of, function) = self.labelled_type()?;
        let context = self.context()?;
        let name = self.of_file(file, "subscript").before(accessor);
        let own = match function {
            Some(function) if accessor.is_empty() => Self::called(&name, &function),
            Some(function) => {
                let short = format!(
                    "{}{accessor}",
                    Self::called(&Text::same("subscript"), &function).short
                );
                let full = format!("{} : {}", name.full, function.text("").full);
                Text { full: full.into(), short: short.into() }
            }
            None => {
                Text { full: format!("{} : {}", name.full, of.text.full).into(), short: name.short }
            }
        };
        Some(Node::in_context(Kind::Entity, context, own))
    }

    /// Name of a declaration that is private to a file and has no identifier.
    fn of_file(&self, file: Option<Node>, name: &str) -> Text {
        match file {
            Some(file) => {
                Text { full: format!("{}.{name}", file.text.full).into(), short: name.into() }
            }
            None => Text::same(name),
        }
    }

    /// `f…`: initializers, deinitializers, closures, default arguments.
    pub(super) fn special_entity(&mut self) -> Option<Node> {
        let of = |it: &mut Self, prefix: &str| {
            let context = it.context()?;
            let is_local = true;
            Some(Node { is_local, ..Node::new(Kind::Entity, context.text.after(prefix)) })
        };
        let named = |it: &mut Self, name: &str| {
            let context = it.context()?;
            Some(Node::in_context(Kind::Entity, context, Text::same(name)))
        };
        match self.next() {
            letter @ (b'C' | b'c') => {
                let file = self.pop(|node| node.kind == Kind::File);
                let (_, function) = self.labelled_type()?;
                let context = self.context()?;
                let is_allocating = letter == b'C' && context.kind == Kind::Class;
                let name = if is_allocating { "__allocating_init" } else { "init" };
                let name = self.of_file(file, name);
                Some(Node::in_context(Kind::Entity, context, Self::called(&name, &function?)))
            }
            b'D' if self.stack.last().is_some_and(|of| of.kind == Kind::Class) => {
                named(self, "__deallocating_deinit")
            }
            b'D' | b'd' => named(self, "deinit"),
            b'E' => named(self, "__ivar_destroyer"),
            b'e' => named(self, "__ivar_initializer"),
            letter @ (b'U' | b'u') => {
                let start = self.at;
                let number = self.index()?.checked_add(1)?;
                self.numbers.push(start..self.at);
                let kind = if letter == b'U' { "closure" } else { "implicit closure" };
                let signature = self.pop_type()?.text.full;
                let context = self.context()?.text;
                let text = Text {
                    full: format!("{kind} #{number} {signature} in {}", context.full).into(),
                    short: format!("{kind} #{number} in {}", context.short).into(),
                };
                Some(Node { is_local: true, ..Node::new(Kind::Entity, text) })
            }
            b'A' => {
                let number = self.index()?;
                of(self, &format!("default argument {number} of "))
            }
            b'i' => of(self, "variable initialization expression of "),
            b'P' => of(self, "property wrapper backing initializer of "),
            b'W' => of(self, "property wrapper init from projected value of "),
            _ => None,
        }
    }

    /// Pops a protocol conformance: `T : P in M`.
    pub(super) fn conformance(&mut self) -> Option<Text> {
        let generics = self.pop(|node| node.kind == Kind::Signature);
        let module = self.module()?.text.full;
        let protocol = self.protocol()?;
        let of = self.pop_type()?.text;
        let generics = generics.map(|node| format!("{} ", node.text.full)).unwrap_or_default();
        Some(Text {
            full: format!("{generics}{} : {} in {module}", of.full, protocol.full).into(),
            short: format!("{} : {}", of.short, protocol.short).into(),
        })
    }

    /// `H…`: conformances of type arguments. They are popped and not shown.
    pub(super) fn conformance_operator(&mut self) -> Option<Node> {
        let is_one = |node: &Node| node.kind == Kind::Conformance;
        let kind = match self.next() {
            b'P' | b'p' => {
                self.protocol()?;
                Kind::ConformanceTo
            }
            b'C' => {
                self.pop_list(|it| it.pop(is_one))?;
                if self.pop(|node| node.kind == Kind::ConformanceTo).is_none() {
                    self.module()?;
                    self.protocol()?;
                }
                self.pop_type()?;
                Kind::Conformance
            }
            b'D' => {
                self.index()?;
                self.protocol()?;
                self.pop_type()?;
                Kind::Conformance
            }
            b'I' => {
                self.index()?;
                self.protocol()?;
                self.pop(is_one)?;
                Kind::Conformance
            }
            b'A' => {
                self.index()?;
                self.protocol()?;
                self.pop_type()?;
                self.pop(is_one)?;
                Kind::Conformance
            }
            _ => return None,
        };
        Some(Node::new(kind, Text::default()))
    }

    /// Pops an entity and prepends `prefix` to its text.
    pub(super) fn marked(&mut self, prefix: &str) -> Option<Node> {
        let entity = self.pop(Node::is_symbol)?;
        Some(Node { kind: Kind::Global, text: entity.text.after(prefix), ..entity })
    }
}
