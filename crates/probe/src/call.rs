//! Parameters of a function at its return: registers that were saved at its call, and the memory that they point to.

use gimli::X86_64;

use crate::functions::Body;
use crate::layout::Layout;
use crate::location::{Base, Location, Number, Step};
use crate::program::{EntryId, View};

/// Registers of the arguments of functions by their numbers in DWARF, in order (System V ABI, AMD64 supplement, 3.2.3). Linux follows
/// the convention within the kernel, too.
pub const ARGUMENTS: [u16; 6] =
    [X86_64::RDI.0, X86_64::RSI.0, X86_64::RDX.0, X86_64::RCX.0, X86_64::R8.0, X86_64::R9.0];

/// Register of the value that a function returns.
pub const RETURNED: u16 = X86_64::RAX.0;
/// The instruction pointer, which DWARF calls the return address.
pub const INSTRUCTION_POINTER: u16 = X86_64::RA.0;

/// Distance of the first argument on the stack from the stack pointer at the function's first instruction.
const ON_STACK: i64 = 8;

impl View<'_> {
    /// A parameter of a function, with where its value was when the function was called; or a static variable.
    ///
    /// # Errors
    ///
    /// If there is none of the name, or its value was in no place that is kept; the text says why.
    pub(crate) fn argument(&self, body: &Body, name: &str) -> Result<(EntryId, Location), String> {
        let parameters = self.parameters_of(body);
        let named = |id: &EntryId| self.text(*id, gimli::DW_AT_name);
        let index = parameters.iter().position(|id| named(id).as_deref() == Some(name));
        let Some((index, id)) = index.and_then(|index| Some((index, *parameters.get(index)?)))
        else {
            let is_local =
                self.locals_of(body.id).iter().any(|id| named(id).as_deref() == Some(name));
            if let Some(id) = self.static_variable(body.id.unit, name).filter(|_| !is_local) {
                let location = self.location(id, body, body.entry);
                return Ok((id, location.map_err(|gone| gone.to_string())?));
            }
            let names: Vec<String> = parameters.iter().filter_map(named).collect();
            return Err(format!(
                "when a function returns, its variables are gone; there are {}",
                [&["$retval".to_owned()][..], &names].concat().join(", ")
            ));
        };
        match self.location(id, body, body.entry) {
            Ok(Location::Memory(address)) if !is_argument_on_stack(&address) => {
                let location = self.by_convention(body, &parameters[..=index])?;
                Ok((id, location))
            }
            Ok(location) => Ok((id, called(location))),
            Err(gone) => Err(gone.to_string()),
        }
    }

    /// The local variables of a function, also those of blocks in it.
    fn locals_of(&self, function: EntryId) -> Vec<EntryId> {
        let (mut all, mut blocks) = (Vec::new(), vec![function]);
        while let Some(block) = blocks.pop() {
            for (id, entry) in self.children(block) {
                match entry.tag() {
                    gimli::DW_TAG_variable => all.push(id),
                    gimli::DW_TAG_lexical_block => blocks.push(id),
                    _ => {}
                }
            }
        }
        all
    }

    fn parameters_of(&self, body: &Body) -> Vec<EntryId> {
        let children = self.children(body.id).into_iter();
        let is_parameter = |tag| tag == gimli::DW_TAG_formal_parameter;
        children.filter(|(_, entry)| is_parameter(entry.tag())).map(|(id, _)| id).collect()
    }

    /// Where the last of these parameters, the first ones of a function, is by the calling convention: code that is not optimized
    /// stores parameters in its frame first, and the debug information has them there alone.
    fn by_convention(&self, body: &Body, parameters: &[EntryId]) -> Result<Location, String> {
        if !self.follows_convention(body.id.unit) {
            return Err("only optimized code of this language says where it was".to_owned());
        }
        if matches!(self.layout(self.type_of(body.id)), Layout::Structure | Layout::Array { .. }) {
            return Err("the function returns a structure, and has other registers".to_owned());
        }
        let mut before = 0;
        let mut last = None;
        for id in parameters {
            let kind = self.type_of(*id);
            let size = self.size(kind).unwrap_or(u64::MAX);
            last = match self.layout(kind) {
                Layout::Float { .. } => None,
                Layout::Number { .. }
                | Layout::Truth
                | Layout::Character
                | Layout::Pointer { .. }
                | Layout::Names { .. }
                    if size <= 8 =>
                {
                    before += 1;
                    Some(before - 1)
                }
                _ => {
                    let why = "it or one before it is a structure, and in other registers";
                    return Err(why.to_owned());
                }
            };
        }
        match last.map(|index: usize| ARGUMENTS.get(index)) {
            Some(Some(register)) => Ok(Location::Computed(Number::of(Base::Called(*register)))),
            Some(None) => Err("it was on the stack".to_owned()),
            None => Err("it was in a vector register".to_owned()),
        }
    }
}

fn is_argument_on_stack(address: &Number) -> bool {
    matches!(
        (address.base, address.steps.as_slice()),
        (Base::Register(register), [Step::Add(distance)])
            if register == X86_64::RSP.0 && *distance >= ON_STACK
    )
}

/// The same location, with registers as they were when the function was called.
fn called(location: Location) -> Location {
    let of_call = |mut number: Number| {
        if let Base::Register(register) = number.base {
            number.base = Base::Called(register);
        }
        number
    };
    match location {
        // What is not among those that are kept is refused by its name.
        Location::Register(register) if register <= INSTRUCTION_POINTER => {
            Location::Computed(Number::of(Base::Called(register)))
        }
        Location::Memory(number) => Location::Memory(of_call(number)),
        Location::Computed(number) => Location::Computed(of_call(number)),
        Location::Parts(parts) => {
            let parts = parts.into_iter();
            Location::Parts(parts.map(|(part, bits)| (part.map(called), bits)).collect())
        }
        location @ (Location::Register(_) | Location::Bytes(_)) => location,
    }
}
