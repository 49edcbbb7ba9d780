//! Lowered function types, which have a convention for each value.

use super::Reader;
use super::find;
use super::node::{Kind, Node, Text};

/// `PARAM-CONVENTION`.
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

/// `RESULT-CONVENTION`.
const GIVEN: &[(u8, &str)] = &[
    (b'r', "@out"),
    (b'o', "@owned"),
    (b'd', "@unowned"),
    (b'u', "@unowned_inner_pointer"),
    (b'a', "@autoreleased"),
    (b'k', "@pack_out"),
];

/// `CALLEE-CONVENTION`.
const CALLED: &[(u8, &str)] = &[
    (b'y', "@callee_unowned "),
    (b'g', "@callee_guaranteed "),
    (b'x', "@callee_owned "),
    (b't', "@convention(thin) "),
];

/// `FUNC-REPRESENTATION`.
const FORMS: &[(u8, &str)] = &[
    (b'B', "@convention(block) "),
    (b'C', "@convention(c) "),
    (b'M', "@convention(method) "),
    (b'J', "@convention(objc_method) "),
    (b'K', "@convention(closure) "),
    (b'W', "@convention(witness_method) "),
];

impl Reader<'_> {
    /// `I…`: a lowered function type.
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

    /// `B` or `C` and a C type, which is skipped.
    pub(super) fn convention_of_c(&mut self) -> Option<&'static str> {
        let prefix = find(FORMS, self.one_of(b"BC")?)?;
        let length = self.natural()?;
        self.at = self.at.checked_add(length).filter(|&at| self.name.is_char_boundary(at))?;
        Some(prefix)
    }
}
