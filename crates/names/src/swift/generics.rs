//! Generic parameters, requirements and arguments.

use std::rc::Rc;

use super::Reader;
use super::node::{Kind, Node, Signature, Text};

/// Maximum number of generic parameters to print for each depth.
const MOST_PARAMETERS: usize = 100;

/// Name of a generic parameter: `A`, `B` at depth 0, `A1` at depth 1.
fn parameter_name(depth: usize, mut index: usize) -> Text {
    let mut name = String::new();
    loop {
        name.push(char::from(b'A' + (index % 26) as u8));
        index /= 26;
        if index == 0 {
            break;
        }
    }
    if depth > 0 {
        name += &depth.to_string();
    }
    Text::same(&name)
}

impl Reader<'_> {
    /// `u`: a type with a generic signature.
    pub(super) fn generic_type(&mut self) -> Option<Node> {
        let generics = self.pop(|node| node.kind == Kind::Signature)?;
        let of = self.pop_type()?;
        Some(match of.kind {
            Kind::Function(function) => {
                let function = Signature { generics: generics.text, ..(*function).clone() };
                let text = function.text("");
                Node::new(Kind::Function(Rc::new(function)), text)
            }
            _ => Node::of_type(Text::joined(&generics.text, "", &of.text)),
        })
    }

    /// `G`: a type with arguments for it and for the types around it.
    pub(super) fn bound_generic(&mut self) -> Option<Node> {
        let lists = self.argument_lists()?;
        let of = self.pop_type()?;
        of.parts.as_ref()?;
        let bound = bind(&of, &lists);
        self.keep(Node::of_type(bound))
    }

    /// Pops argument lists, innermost type first.
    pub(super) fn argument_lists(&mut self) -> Option<Vec<Vec<Text>>> {
        while self.pops(&Kind::Retroactive) {}
        let mut lists = Vec::new();
        loop {
            let mut list = Vec::new();
            while let Some(of) = self.pop_type() {
                list.push(of.text);
            }
            list.reverse();
            lists.push(list);
            if self.pops(&Kind::Empty) {
                return Some(lists);
            }
            if !self.pops(&Kind::First) {
                return None;
            }
        }
    }

    /// `Q…`: associated types, opaque result types, packs.
    pub(super) fn archetype(&mut self) -> Option<Node> {
        let of_index = |it: &mut Self, is_first: bool| {
            if is_first { Some(parameter_name(0, 0)) } else { it.parameter() }
        };
        match self.next() {
            b'a' => {
                let name = self.pop(|node| node.kind == Kind::Identifier)?.text;
                let of = self.pop_type()?.text;
                self.keep(Node::of_type(Text::path(&of, &name)))
            }
            letter @ (b'y' | b'z') => {
                let member = self.member()?;
                let base = of_index(self, letter == b'z')?;
                self.keep(Node::of_type(Text::path(&base, &member)))
            }
            letter @ (b'Y' | b'Z') => {
                let members = self.members()?;
                let base = of_index(self, letter == b'Z')?;
                self.keep(Node::of_type(Text::path(&base, &members)))
            }
            b'x' => {
                let member = self.member()?;
                let base = self.pop_type()?.text;
                self.keep(Node::of_type(Text::path(&base, &member)))
            }
            b'X' => {
                let members = self.members()?;
                let base = self.pop_type()?.text;
                self.keep(Node::of_type(Text::path(&base, &members)))
            }
            b'r' | b'u' => Some(Node::of_type(Text::same("some"))),
            b'R' | b'U' => {
                self.index()?;
                Some(Node::of_type(Text::same("some")))
            }
            b'O' => {
                let of = self.context()?.text;
                let text = of.after("<<opaque return type of ").before(">>");
                Some(Node::new(Kind::Global, text))
            }
            b'o' => {
                let index = self.index()?;
                self.argument_lists()?;
                let of = self.pop(|node| node.kind == Kind::Global)?.text;
                self.keep(Node::of_type(of.before(&format!(".{index}"))))
            }
            b'p' => {
                self.pop_type()?;
                let pattern = self.pop_type()?.text;
                Some(Node::of_type(pattern.after("repeat ")))
            }
            b'P' => {
                let types = self.type_list()?;
                Some(Node::of_type(Text::list(&types, ", ").after("Pack{").before("}")))
            }
            _ => None,
        }
    }

    /// Pops the name of an associated type, with its protocol if that is given.
    fn member(&mut self) -> Option<Text> {
        let protocol = self.pop(|node| node.kind == Kind::Protocol);
        let name = self.pop(|node| node.kind == Kind::Identifier)?.text;
        Some(match protocol {
            Some(protocol) => {
                Text { full: Text::path(&protocol.text, &name).full, short: name.short }
            }
            None => name,
        })
    }

    /// Pops a path of associated types.
    pub(super) fn members(&mut self) -> Option<Text> {
        let members = self.pop_list(Self::member)?;
        Some(Text::list(&members, "."))
    }

    /// `GENERIC-PARAM-INDEX`.
    pub(super) fn parameter(&mut self) -> Option<Text> {
        if self.takes(b'z') {
            return Some(parameter_name(0, 0));
        }
        if self.takes(b's') {
            return Some(Text::same("Self"));
        }
        if self.takes(b'd') {
            let depth = self.index()?.checked_add(1)?;
            return Some(parameter_name(depth, self.index()?));
        }
        Some(parameter_name(0, self.index()?.checked_add(1)?))
    }

    /// `R…`: a requirement of a generic signature.
    pub(super) fn requirement(&mut self) -> Option<Node> {
        enum Of {
            Protocol,
            Same,
            Layout,
        }
        let letter = self.peek();
        match letter {
            b'v' => {
                self.at += 1;
                let of = self.parameter()?;
                return Some(Node::new(Kind::Pack, of));
            }
            // Inverse requirement.
            b'i' => {
                self.at += 1;
                let name = ["Copyable", "Escapable"].get(self.index()?)?;
                let text = self.parameter()?.before(&format!(": ~Swift.{name}"));
                return Some(Node::new(Kind::Requirement, text));
            }
            _ => {}
        }
        let (of, at) = match letter {
            b'b' => (Of::Protocol, b'g'),
            b'c' => (Of::Protocol, b'm'),
            b'C' => (Of::Protocol, b'l'),
            b'B' => (Of::Protocol, b's'),
            b's' => (Of::Same, b'g'),
            b't' => (Of::Same, b'm'),
            b'T' => (Of::Same, b'l'),
            b'S' => (Of::Same, b's'),
            b'l' => (Of::Layout, b'g'),
            b'm' => (Of::Layout, b'm'),
            b'M' => (Of::Layout, b'l'),
            b'L' => (Of::Layout, b's'),
            b'p' => (Of::Protocol, b'm'),
            b'P' => (Of::Protocol, b'l'),
            b'Q' => (Of::Protocol, b's'),
            _ => (Of::Protocol, b'g'),
        };
        let is_class = matches!(letter, b'b' | b'c' | b'C' | b'B');
        let is_plain = matches!(of, Of::Protocol) && at == b'g' && !is_class;
        self.at += usize::from(!is_plain);
        let subject = match at {
            b'g' => self.parameter()?,
            b'm' => {
                let member = self.member()?;
                let of = Text::path(&self.parameter()?, &member);
                self.keep(Node::of_type(of))?.text
            }
            b'l' => {
                let members = self.members()?;
                let of = Text::path(&self.parameter()?, &members);
                self.keep(Node::of_type(of))?.text
            }
            _ => self.pop_type()?.text,
        };
        let text = match of {
            Of::Protocol if is_class => Text::joined(&subject, ": ", &self.pop_type()?.text),
            Of::Protocol => Text::joined(&subject, ": ", &self.protocol()?),
            Of::Same => Text::joined(&subject, " == ", &self.pop_type()?.text),
            Of::Layout => subject.before(&format!(": {}", self.layout()?)),
        };
        Some(Node::new(Kind::Requirement, text))
    }

    /// `LAYOUT-CONSTRAINT`.
    fn layout(&mut self) -> Option<String> {
        Some(match self.next() {
            b'U' => "_UnknownLayout".to_owned(),
            b'R' => "_RefCountedObject".to_owned(),
            b'N' => "_NativeRefCountedObject".to_owned(),
            b'C' => "AnyObject".to_owned(),
            b'D' => "_NativeClass".to_owned(),
            b'T' => "_Trivial".to_owned(),
            b'B' => "_BridgeObject".to_owned(),
            b'E' => format!("_Trivial({}, {})", self.index()?, self.index()?),
            b'e' => format!("_Trivial({})", self.index()?),
            b'M' => format!("_TrivialAtMost({}, {})", self.index()?, self.index()?),
            b'm' => format!("_TrivialAtMost({})", self.index()?),
            b'S' => format!("_TrivialStride({})", self.index()?),
            _ => return None,
        })
    }

    /// Pops requirements and returns the signature, `<A, B where A: P>`. `counts`: number of parameters at each depth.
    pub(super) fn signature(&mut self, counts: Vec<usize>) -> Option<Node> {
        let (mut requirements, mut packs) = (Vec::new(), Vec::new());
        let is_one = |node: &Node| matches!(node.kind, Kind::Requirement | Kind::Pack);
        while let Some(node) = self.pop(is_one) {
            let of = if node.kind == Kind::Pack { &mut packs } else { &mut requirements };
            of.push(node.text);
        }
        requirements.reverse();
        let named = |depth, index| {
            let name = parameter_name(depth, index);
            if packs.contains(&name) { name.after("each ") } else { name }
        };
        let depths = counts.iter().enumerate().map(|(depth, &count)| {
            let names = (0..count.min(MOST_PARAMETERS)).map(|index| named(depth, index));
            Text::list(&names.collect::<Vec<_>>(), ", ")
        });
        let mut text = String::new();
        for (depth, names) in depths.enumerate() {
            text += if depth > 0 { "><" } else { "" };
            text += &names.full;
        }
        let requirements = Text::list(&requirements, ", ");
        let full = if requirements.full.is_empty() {
            format!("<{text}>")
        } else {
            format!("<{text} where {}>", requirements.full)
        };
        Some(Node::new(Kind::Signature, Text { full: full.into(), short: "".into() }))
    }
}

/// A type with arguments. Arrays, dictionaries and optionals are written with Swift's shorthand: `[A]`, `A?`.
fn bind(of: &Node, lists: &[Vec<Text>]) -> Text {
    let Some((arguments, outer)) = lists.split_first() else { return of.text.clone() };
    let plain = match &of.parts {
        Some(parts) if outer.iter().any(|list| !list.is_empty()) && !of.is_local => {
            let (context, name) = &**parts;
            let context = match (&context.kind, &context.parts) {
                (Kind::Extension(by), Some(of)) => by.of(&bind(&of.0, outer)),
                _ => bind(context, outer),
            };
            Text::path(&context, name)
        }
        _ => of.text.clone(),
    };
    match (&*plain.full, arguments.as_slice()) {
        (_, []) => plain,
        ("Swift.Array", [of]) => of.after("[").before("]"),
        ("Swift.Optional", [of]) => {
            let is_long = of.full.contains(" -> ") && !of.full.starts_with(['[', '('])
                || of.full.contains(") -> ");
            if is_long { of.after("(").before(")?") } else { of.before("?") }
        }
        ("Swift.Dictionary", [key, value]) => {
            Text::joined(key, " : ", value).after("[").before("]")
        }
        (_, arguments) => {
            let list = Text::list(arguments, ", ").after("<").before(">");
            Text::joined(&plain, "", &list)
        }
    }
}
