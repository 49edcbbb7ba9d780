//! Types, of which functions that differ in nothing else are told apart by.

use std::rc::Rc;

use super::Reader;
use super::node::{Element, Kind, Node, Signature, Text};

/// Types that the compiler has, behind `B`.
const BUILTIN: &[(u8, &str)] = &[
    (b'b', "BridgeObject"),
    (b'B', "UnsafeValueBuffer"),
    (b'c', "RawUnsafeContinuation"),
    (b'D', "DefaultActorStorage"),
    (b'd', "NonDefaultDistributedActorStorage"),
    (b'e', "Executor"),
    (b'I', "IntLiteral"),
    (b'j', "Job"),
    (b'O', "UnknownObject"),
    (b'o', "NativeObject"),
    (b'P', "PackIndex"),
    (b'p', "RawPointer"),
    (b't', "SILToken"),
    (b'w', "Word"),
];

/// How a lowered function takes a parameter.
const TAKEN: &[(u8, &str)] = &[
    (b'i', "@in"),
    (b'c', "@in_constant"),
    (b'l', "@inout"),
    (b'b', "@inout_aliasable"),
    (b'n', "@in_guaranteed"),
    (b'X', "@in_cxx"),
    (b'x', "@owned"),
    (b'g', "@guaranteed"),
    (b'e', "@deallocating"),
    (b'y', "@unowned"),
    (b'v', "@pack_owned"),
    (b'p', "@pack_guaranteed"),
    (b'm', "@pack_inout"),
];

/// How it gives a result.
const GIVEN: &[(u8, &str)] = &[
    (b'r', "@out"),
    (b'o', "@owned"),
    (b'd', "@unowned"),
    (b'u', "@unowned_inner_pointer"),
    (b'a', "@autoreleased"),
    (b'k', "@pack_out"),
];

/// What a lowered function is called by.
const CALLED: &[(u8, &str)] = &[
    (b'y', "@callee_unowned "),
    (b'g', "@callee_guaranteed "),
    (b'x', "@callee_owned "),
    (b't', "@convention(thin) "),
];

/// What it is.
const FORMS: &[(u8, &str)] = &[
    (b'B', "@convention(block) "),
    (b'C', "@convention(c) "),
    (b'M', "@convention(method) "),
    (b'J', "@convention(objc_method) "),
    (b'K', "@convention(closure) "),
    (b'W', "@convention(witness_method) "),
];

/// The most type parameters that are named.
const MOST_PARAMETERS: usize = 100;

fn find<'a>(table: &[(u8, &'a str)], letter: u8) -> Option<&'a str> {
    table.iter().find(|(of, _)| *of == letter).map(|(_, text)| *text)
}

/// The parameter of this index at this depth: `A`, `B`, `A1`.
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

impl Element {
    pub(super) fn text(&self) -> Text {
        match &self.label {
            Some(label) => self.text.after(&format!("{label}: ")),
            None => self.text.clone(),
        }
    }
}

/// `(A, b: B)`.
pub(super) fn in_parentheses(elements: &[Element]) -> Text {
    let texts: Vec<Text> = elements.iter().map(Element::text).collect();
    Text::list(&texts, ", ").after("(").before(")")
}

impl Signature {
    pub(super) fn text(&self, prefix: &str) -> Text {
        let text = in_parentheses(&self.parameters).before(&self.effects);
        let text = Text::joined(&text, " -> ", &self.result);
        Text::joined(&self.generics, "", &text.after(&self.attributes).after(prefix))
    }
}

impl Reader<'_> {
    pub(super) fn builtin(&mut self) -> Option<Node> {
        let letter = self.next();
        let name = match letter {
            b'f' | b'i' | b'v' => {
                let bits = self.natural()?;
                self.takes(b'_').then_some(())?;
                match letter {
                    b'f' => format!("FPIEEE{bits}"),
                    b'i' => format!("Int{bits}"),
                    _ => {
                        let of = self.pop_type()?;
                        format!("Vec{bits}x{}", of.text.full.trim_start_matches("Builtin."))
                    }
                }
            }
            letter => find(BUILTIN, letter)?.to_owned(),
        };
        Some(Node::of_type(Text::same(&format!("Builtin.{name}"))))
    }

    /// A type with something said before it.
    pub(super) fn annotated(&mut self, prefix: &str) -> Option<Node> {
        let of = self.pop_type()?;
        Some(Node::of_type(of.text.after(prefix)))
    }

    /// `Int.Type`.
    pub(super) fn meta_type(&mut self) -> Option<Node> {
        let of = self.pop_type()?;
        let is_existential = of.kind == Kind::Existential && !of.text.full.ends_with("Any");
        let what = if is_existential { ".Protocol" } else { ".Type" };
        Some(Node::of_type(of.in_brackets().before(what)))
    }

    pub(super) fn tuple(&mut self) -> Option<Node> {
        let mut elements = Vec::new();
        if !self.pops(&Kind::Empty) {
            loop {
                let is_first = self.pops(&Kind::First);
                let is_variadic = self.pops(&Kind::Variadic);
                let label = self.pop(|node| node.kind == Kind::Identifier);
                let of = self.pop_type()?;
                let text = if is_variadic { of.text.before("...") } else { of.text };
                elements.push(Element { label: label.map(|label| label.text.full), text });
                if is_first {
                    break;
                }
            }
            elements.reverse();
        }
        let text = in_parentheses(&elements);
        Some(Node::new(Kind::Tuple(elements), text))
    }

    /// Types up to the one that is the first of its list.
    pub(super) fn type_list(&mut self) -> Option<Vec<Text>> {
        let mut types = Vec::new();
        if !self.pops(&Kind::Empty) {
            loop {
                let is_first = self.pops(&Kind::First);
                types.push(self.pop_type()?.text);
                if is_first {
                    break;
                }
            }
            types.reverse();
        }
        Some(types)
    }

    /// The type of a function, of which all parts are on the stack.
    pub(super) fn pop_function(&mut self) -> Option<Signature> {
        let (mut attributes, mut effects, mut is_sent) = (String::new(), String::new(), false);
        while let Some(mark) = self.pop(|node| node.kind == Kind::Mark) {
            let text = &mark.text.full;
            match &**text {
                "sending" => is_sent = true,
                text if text.starts_with(['@', 'n']) => attributes.push_str(&format!("{text} ")),
                text => effects.insert_str(0, &format!(" {text}")),
            }
        }
        let parameters = match self.pop_values()?.kind {
            Kind::Tuple(elements) => elements,
            _ => return None,
        };
        let result = self.pop_values()?;
        let is_one = |elements: &[Element]| elements.len() == 1 && elements[0].label.is_none();
        let result = match &result.kind {
            Kind::Tuple(elements) if is_one(elements) => elements[0].text.clone(),
            _ => result.text,
        };
        let result = if is_sent { result.after("sending ") } else { result };
        let generics = Text::default();
        let (attributes, effects) = (attributes.into(), effects.into());
        Some(Signature { generics, parameters, attributes, effects, result })
    }

    /// Parameters or results, as a tuple.
    fn pop_values(&mut self) -> Option<Node> {
        let elements = if self.pops(&Kind::Empty) {
            Vec::new()
        } else {
            let of = self.pop_type()?;
            if matches!(of.kind, Kind::Tuple(_)) {
                return Some(of);
            }
            vec![Element { label: None, text: of.text }]
        };
        let text = in_parentheses(&elements);
        Some(Node::new(Kind::Tuple(elements), text))
    }

    pub(super) fn function_type(&mut self, prefix: &str) -> Option<Node> {
        let function = self.pop_function()?;
        let text = function.text(prefix);
        Some(Node::new(Kind::Function(Rc::new(function)), text))
    }

    /// A type with parameters: those of a function stay.
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

    pub(super) fn special_type(&mut self) -> Option<Node> {
        let representation = |it: &mut Self| match it.next() {
            b't' => Some("@thin "),
            b'T' => Some("@thick "),
            b'o' => Some("@objc_metatype "),
            _ => None,
        };
        match self.next() {
            b'E' => self.function_type(""),
            b'B' | b'L' => self.function_type("@convention(block) "),
            b'C' => self.function_type("@convention(c) "),
            b'f' => self.function_type("@convention(thin) "),
            b'K' | b'A' => self.function_type("@autoclosure "),
            b'z' => {
                let prefix = self.convention_of_c()?;
                self.function_type(prefix)
            }
            b'o' => self.annotated("unowned "),
            b'u' => self.annotated("unowned(unsafe) "),
            b'w' => self.annotated("weak "),
            b'D' => {
                self.pop_type()?;
                Some(Node::of_type(Text::same("Self")))
            }
            b'M' | b'm' => {
                let prefix = representation(self)?;
                let of = self.meta_type()?;
                Some(Node::of_type(of.text.after(prefix)))
            }
            b'p' => {
                let of = self.pop_type()?;
                Some(Node::of_type(of.in_brackets().before(".Type")))
            }
            b'c' => {
                let class = self.pop_type()?.text;
                let protocols = self.protocols()?;
                Some(Node::new(Kind::Existential, Text::list([&class, &protocols], " & ")))
            }
            b'l' => {
                let protocols = self.protocols()?;
                let object = Text { full: "Swift.AnyObject".into(), short: "AnyObject".into() };
                let all = if protocols.full.is_empty() {
                    object
                } else {
                    Text::joined(&protocols, " & ", &object)
                };
                Some(Node::new(Kind::Existential, all))
            }
            b'P' => {
                let mut requirements = Vec::new();
                loop {
                    let is_first = self.pops(&Kind::First);
                    requirements.push(self.pop(|node| node.kind == Kind::Requirement)?.text);
                    if is_first {
                        break;
                    }
                }
                requirements.reverse();
                let of = self.pop_type()?.text;
                let all = Text::list(&requirements, ", ").after("<").before(">");
                Some(Node::of_type(Text::joined(&of, "", &all).after("any ")))
            }
            b'S' => match self.next() {
                b'q' => Some(Node::of_type(self.pop_type()?.in_brackets().before("?"))),
                b'a' => Some(Node::of_type(self.pop_type()?.text.after("[").before("]"))),
                b'D' => {
                    let value = self.pop_type()?.text;
                    let key = self.pop_type()?.text;
                    Some(Node::of_type(Text::joined(&key, " : ", &value).after("[").before("]")))
                }
                b'p' => Some(Node::of_type(self.pop_type()?.text.after("(").before(")"))),
                _ => None,
            },
            _ => None,
        }
    }

    /// `B` or `C`, and a type of C that is passed over.
    fn convention_of_c(&mut self) -> Option<&'static str> {
        let prefix = find(FORMS, self.one_of(b"BC")?)?;
        let length = self.natural()?;
        self.at = self.at.checked_add(length).filter(|&at| self.name.is_char_boundary(at))?;
        Some(prefix)
    }

    /// Properties of functions, and of parameters.
    pub(super) fn annotation(&mut self) -> Option<Node> {
        match self.next() {
            b'a' => Some(Node::mark("async")),
            b'b' => Some(Node::mark("@Sendable")),
            b'A' => Some(Node::mark("@isolated(any)")),
            b'C' => Some(Node::mark("nonisolated(nonsending)")),
            b'T' => Some(Node::mark("sending")),
            b'c' => {
                let actor = self.pop_type()?;
                Some(Node::mark(&format!("@{}", actor.text.full)))
            }
            b'K' => {
                let error = self.pop_type()?;
                Some(Node::mark(&format!("throws({})", error.text.full)))
            }
            b'j' => Some(Node::mark(match self.next() {
                b'd' => "@differentiable",
                b'f' => "@differentiable(_forward)",
                b'r' => "@differentiable(reverse)",
                b'l' => "@differentiable(_linear)",
                _ => return None,
            })),
            b'i' => self.annotated("isolated "),
            b'k' => self.annotated("@noDerivative "),
            b't' => self.annotated("_const "),
            b'u' => self.annotated("sending "),
            _ => None,
        }
    }

    /// Type arguments: a list for each type that something is in.
    pub(super) fn bound_generic(&mut self) -> Option<Node> {
        let lists = self.argument_lists()?;
        let of = self.pop_type()?;
        of.parts.as_ref()?;
        let bound = bind(&of, &lists);
        self.keep(Node::of_type(bound))
    }

    /// Lists of arguments, the innermost type's first.
    fn argument_lists(&mut self) -> Option<Vec<Vec<Text>>> {
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

    /// Members of types that are not known, and what a function returns without a name for it.
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

    /// The name of a member type, with the protocol that has it.
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

    /// Members of members.
    pub(super) fn members(&mut self) -> Option<Text> {
        let mut members = Vec::new();
        loop {
            let is_first = self.pops(&Kind::First);
            members.push(self.member()?);
            if is_first {
                break;
            }
        }
        members.reverse();
        Some(Text::list(&members, "."))
    }

    /// The type parameter that a letter and numbers stand for.
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

    /// What is required of a type parameter or its members.
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
            // What is not required, as it is of all others.
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

    /// How values of a type are laid out.
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

    /// `<A, B where A: P>`, of so many parameters at each depth.
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

    /// The function type that is left when everything else has been said: how each value is passed.
    pub(super) fn lowered_function(&mut self) -> Option<Node> {
        let mut prefix = String::new();
        let own = if self.takes(b's') {
            let lists = self.argument_lists()?;
            let parameters = self.pop(|node| node.kind == Kind::Signature)?;
            Some((parameters.text, Text::list(&lists.concat(), ", ")))
        } else {
            None
        };
        if self.takes(b'I') {
            self.argument_lists()?;
        }
        self.takes(b'P');
        if self.takes(b'e') {
            prefix += "@escaping ";
        }
        prefix += match self.one_of(b"dfrl") {
            Some(b'd') => "@differentiable ",
            Some(b'f') => "@differentiable(_forward) ",
            Some(b'r') => "@differentiable(reverse) ",
            Some(_) => "@differentiable(_linear) ",
            None => "",
        };
        prefix += find(CALLED, self.next())?;
        if self.takes(b'z') {
            prefix += self.convention_of_c()?;
        } else if let Some(form) = find(FORMS, self.peek()) {
            self.at += 1;
            prefix += form;
        }
        prefix += match self.one_of(b"AIG") {
            Some(b'A') => "@yield_once ",
            Some(b'I') => "@yield_once_2 ",
            Some(_) => "@yield_many ",
            None => "",
        };
        prefix += if self.takes(b'h') { "@Sendable " } else { "" };
        prefix += if self.takes(b'H') { "@async " } else { "" };
        let is_sent = self.takes(b'T');
        let mut taken = Vec::new();
        let mut given = Vec::new();
        while let Some(how) = find(TAKEN, self.peek()) {
            self.at += 1;
            let mut how = how.to_owned();
            how += if self.takes(b'w') { " @noDerivative" } else { "" };
            how += if self.takes(b'T') { " sending" } else { "" };
            taken.push(how);
        }
        while let Some(how) = find(GIVEN, self.peek()) {
            self.at += 1;
            let how = how.to_owned() + if self.takes(b'w') { " @noDerivative" } else { "" };
            given.push(how);
        }
        while self.takes(b'Y') {
            given.push(format!("@yields {}", find(TAKEN, self.next())?));
        }
        if self.takes(b'z') {
            given.push(format!("@error {}", find(GIVEN, self.next())?));
        }
        self.takes(b'_').then_some(())?;
        let generics =
            self.pop(|node| node.kind == Kind::Signature).map(|node| node.text).unwrap_or_default();
        let mut lists = [given, taken].map(|hows| {
            let texts =
                hows.iter().rev().map(|how| Some(self.pop_type()?.text.after(&format!("{how} "))));
            let mut texts = texts.collect::<Option<Vec<_>>>()?;
            texts.reverse();
            Some(Text::list(&texts, ", ").after("(").before(")"))
        });
        let (given, taken) = (lists[0].take()?, lists[1].take()?);
        let arrow = if is_sent { " -> sending " } else { " -> " };
        let text = Text::joined(&taken, arrow, &given);
        let generics = if generics.full.is_empty() { generics } else { generics.before(" ") };
        let text = Text::joined(&generics, "", &text);
        let text = match own {
            Some((parameters, arguments)) => {
                let text = Text::joined(&parameters.after("@substituted "), " ", &text);
                Text::joined(&text, " for ", &arguments.after("<").before(">"))
            }
            None => text,
        };
        Some(Node::new(Kind::Lowered, text.after(&prefix)))
    }
}

/// A type with its arguments, as far as possible in the form of the language: `[A]`, `A?`.
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
