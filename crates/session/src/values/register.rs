//! Values of functions of which nothing is known but their registers.

use pyrograph_event::values::{Bits, Memory, ReadBase, ReadNumber, ReadStep, ReadValue};
use pyrograph_probe::{ARGUMENTS, Expression, RETURNED, Shape, Start};

use super::asking::Asked;

/// Address of the frame of a call, where the function begins: its return address is on top of the stack.
pub(crate) fn frame_of_call() -> ReadNumber {
    /// The stack pointer by its number in DWARF.
    const STACK_POINTER: u16 = 7;
    let behind = ReadStep { add: 8, load: 0, memory: Memory::Program };
    ReadNumber { base: ReadBase::Register(STACK_POINTER), steps: vec![behind] }
}

/// Value of a function of which nothing is known but its registers: `arg1` to `arg6`, as it was called with them, `$retval` where
/// it returns, any register by its name; a text is in `memory`. `None` for other values.
pub(crate) fn value_of_register(
    asked: &Asked<'_>,
    returns: bool,
    memory: Memory,
) -> Option<(ReadValue, Shape)> {
    // `$arg1` is `arg1`.
    let text = match asked.expression.strip_prefix('$') {
        Some(name) if name.starts_with("arg") => name,
        _ => asked.expression,
    };
    let Expression { start, steps } = Expression::parse(text).ok()?;
    // `arg1` is the first.
    let argument = |name: &str| {
        let number: usize = name.strip_prefix("arg")?.parse().ok()?;
        ARGUMENTS.get(number.checked_sub(1)?).copied()
    };
    let number = Shape::Number { signed: true, bits: (0, 64) };
    let (base, shape) = match start {
        _ if !steps.is_empty() => return None,
        Start::Register(register) => (ReadBase::Register(register), Shape::Address),
        Start::Returned if returns => (ReadBase::Register(RETURNED), number),
        Start::Returned => return None,
        Start::Variable(name) if returns => (ReadBase::Called(argument(&name)?), number),
        Start::Variable(name) => (ReadBase::Register(argument(&name)?), number),
    };
    let number = ReadNumber { base, steps: Vec::new() };
    Some(match asked.as_text {
        true => (ReadValue::Text(number, memory), Shape::Text { length: None }),
        false => {
            let signed = shape != Shape::Address;
            (ReadValue::Number(number, Bits { signed, ..Bits::ALL }), shape)
        }
    })
}
