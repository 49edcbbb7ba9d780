//! Types: builtin, function, tuple, metatype and existential types.

use std::rc::Rc;

use super::Reader;
use super::find;
use super::node::{Element, Kind, Node, Signature, Text};

/// Builtin types, by the letter behind `B`.
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

    /// Pops a type and prepends `prefix` to its text.
    pub(super) fn annotated(&mut self, prefix: &str) -> Option<Node> {
        let of = self.pop_type()?;
        Some(Node::of_type(of.text.after(prefix)))
    }

    /// `m`: a metatype, `Int.Type`.
    pub(super) fn meta_type(&mut self) -> Option<Node> {
        let of = self.pop_type()?;
        let is_existential = of.kind == Kind::Existential && !of.text.full.ends_with("Any");
        let what = if is_existential { ".Protocol" } else { ".Type" };
        Some(Node::of_type(of.in_brackets().before(what)))
    }

    pub(super) fn tuple(&mut self) -> Option<Node> {
        let elements = self.pop_list(|it| {
            let is_variadic = it.pops(&Kind::Variadic);
            let label = it.pop(|node| node.kind == Kind::Identifier);
            let of = it.pop_type()?;
            let text = if is_variadic { of.text.before("...") } else { of.text };
            Some(Element { label: label.map(|label| label.text.full), text })
        })?;
        let text = in_parentheses(&elements);
        Some(Node::new(Kind::Tuple(elements), text))
    }

    /// Pops a type list.
    pub(super) fn type_list(&mut self) -> Option<Vec<Text>> {
        self.pop_list(|it| Some(it.pop_type()?.text))
    }

    /// Pops a function signature: annotations, parameters, result.
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

    /// Pops parameters or results, as a tuple.
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
                let is_one = |node: &Node| node.kind == Kind::Requirement;
                let requirements = self.pop_list(|it| Some(it.pop(is_one)?.text))?;
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

    /// `Y…`: annotations of function types and parameters.
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
}
