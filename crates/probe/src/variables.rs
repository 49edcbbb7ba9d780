//! Variables that can be named at an instruction.

use std::collections::HashSet;

use crate::functions::Body;
use crate::location::{Gone, Location};
use crate::program::{EntryId, View};

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type as it is written in the source.
    pub kind: String,
    /// True for a parameter of the function.
    pub is_parameter: bool,
    /// Where it is, or why it cannot be read there.
    pub location: Result<Location, Gone>,
}

impl View<'_> {
    /// Returns the parameters and local variables of a function that are in scope at an instruction of its code, in the
    /// order of their declarations; a variable of an inner block hides outer ones of the same name.
    pub fn variables(&self, body: &Body, address: u64) -> Vec<Variable> {
        let all = self.in_scope(body, address).into_iter();
        // The last one of a name is the innermost.
        let mut seen = HashSet::new();
        let mut visible: Vec<Variable> = all
            .rev()
            .filter_map(|id| self.variable(id, body, address))
            .filter(|variable| seen.insert(variable.name.clone()))
            .collect();
        visible.reverse();
        visible
    }

    /// The entries of variables in scope at an instruction; inner blocks come last.
    pub(crate) fn in_scope(&self, body: &Body, address: u64) -> Vec<EntryId> {
        let mut all = Vec::new();
        let mut block = Some(body.id);
        while let Some(id) = block.take() {
            for (id, entry) in self.children(id) {
                match entry.tag() {
                    gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => all.push(id),
                    gimli::DW_TAG_lexical_block
                        if self.ranges(id, &entry).iter().any(|of| of.contains(&address)) =>
                    {
                        block = Some(id);
                    }
                    _ => {}
                }
            }
        }
        all
    }

    fn variable(&self, id: EntryId, body: &Body, address: u64) -> Option<Variable> {
        let name = self.text(id, gimli::DW_AT_name)?;
        let is_parameter = self.entry(id)?.tag() == gimli::DW_TAG_formal_parameter;
        let kind = self.type_name(self.type_of(id));
        let location = self.location(id, body, address);
        Some(Variable { name, kind, is_parameter, location })
    }
}
