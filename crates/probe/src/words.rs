//! Words for where values are.

use gimli::{Register, X86_64};

use crate::location::{Base, Location, Number, Step};

impl Location {
    /// Where it is, in words: `rdi`, `[rbp-40]`, `constant 5`, `in 2 parts`.
    pub fn text(&self) -> String {
        match self {
            Self::Register(register) => name_of(*register),
            Self::Memory(address) => match (address.base, address.steps.as_slice()) {
                (Base::Static(_), []) => "static".to_owned(),
                (Base::ThreadLocal(_), []) => "thread-local".to_owned(),
                _ => format!("[{}]", address.text()),
            },
            Self::Computed(number) => match (number.base, number.steps.as_slice()) {
                (Base::Constant(value), []) => format!("constant {}", value.cast_signed()),
                _ => number.text(),
            },
            Self::Bytes(bytes) => format!("constant of {} bytes", bytes.len()),
            Self::Parts(parts) => format!("in {} parts", parts.len()),
        }
    }
}

impl Number {
    fn text(&self) -> String {
        let mut text = match self.base {
            Base::Register(register) | Base::Called(register) => name_of(register),
            Base::Static(address) => format!("{address:#x}"),
            Base::ThreadLocal(offset) => format!("thread+{offset:#x}"),
            Base::Constant(value) => value.cast_signed().to_string(),
        };
        for step in &self.steps {
            text = match step {
                Step::Add(number) => format!("{text}{number:+}"),
                Step::Load(_) => format!("[{text}]"),
            };
        }
        text
    }
}

/// Name of a register by its number in the DWARF of x86-64 (System V ABI, AMD64 supplement, 3.6.2).
fn name_of(register: u16) -> String {
    X86_64::register_name(Register(register))
        .map_or_else(|| format!("register {register}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_words() {
        let number = |base, steps: &[Step]| Number { base, steps: steps.to_vec() };
        let frame = number(Base::Register(6), &[Step::Add(-40)]);
        let loaded = number(Base::Register(5), &[Step::Add(8), Step::Load(8), Step::Add(16)]);
        let check = |location: Location, text: &str| assert_eq!(location.text(), text);
        check(Location::Register(5), "rdi");
        check(Location::Memory(frame), "[rbp-40]");
        check(Location::Memory(loaded), "[[rdi+8]+16]");
        check(Location::Memory(number(Base::Static(0x4010), &[])), "static");
        check(Location::Computed(number(Base::Constant(5), &[])), "constant 5");
        check(Location::Computed(number(Base::Register(0), &[Step::Add(1)])), "rax+1");
        check(Location::Parts(vec![(None, 64), (Some(Location::Register(1)), 64)]), "in 2 parts");
    }
}
