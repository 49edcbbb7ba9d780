//! Values of functions of which nothing is known but their registers.

use pyrograph_event::values::{
    ARGUMENTS, Bits, Memory, RETURNED, ReadBase, ReadNumber, ReadStep, ReadValue,
};
use pyrograph_probe::Shape;

use super::asking::Asked;

/// Address of the frame of a call, where the function begins: its return address is on top of the stack.
pub(crate) fn frame_of_call() -> ReadNumber {
    /// The stack pointer by its number in DWARF.
    const STACK_POINTER: u16 = 7;
    let behind = ReadStep { add: 8, load: 0, memory: Memory::Program };
    ReadNumber { base: ReadBase::Register(STACK_POINTER), steps: vec![behind] }
}

/// Value of a function of which nothing is known but its registers: `arg1` to `arg6` where it is called, `$retval` where it
/// returns; a text is in `memory`. `None` for other values.
pub(crate) fn value_of_register(
    asked: &Asked<'_>,
    returns: bool,
    memory: Memory,
) -> Option<(ReadValue, Shape)> {
    // `arg1` is the first.
    let argument = |name: &str| {
        let number: usize = name.trim_start_matches('$').strip_prefix("arg")?.parse().ok()?;
        ARGUMENTS.get(number.checked_sub(1)?).copied()
    };
    let register = match asked.expression {
        "$retval" if returns => RETURNED,
        _ if returns => return None,
        name => argument(name)?,
    };
    let number = ReadNumber { base: ReadBase::Register(register), steps: Vec::new() };
    Some(match asked.as_text {
        true => (ReadValue::Text(number, memory), Shape::Text { length: None }),
        false => {
            let bits = Bits { signed: true, ..Bits::ALL };
            (ReadValue::Number(number, bits), Shape::Number { signed: true, bits: (0, 64) })
        }
    })
}
