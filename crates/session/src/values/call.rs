//! Values of system calls: arguments, result, duration.

use pyrograph_event::values::{Bits, EventValues, Memory, ReadBase, ReadNumber, ReadValue};
use pyrograph_probe::{Condition, Shape};
use pyrograph_syscall::Call;

use super::asking::{Asked, Asking, Wanted};
use crate::error::PlaceError;

/// Registers in which programs in the kernel have the result of a call, and its duration; the arguments are before them.
const RESULT: u16 = 6;
const DURATION: u16 = 7;

/// Returns the filter of each call that has all values of a condition.
///
/// # Errors
///
/// If none of the calls has, or the condition compares a value with something of another kind.
pub(crate) fn call_filters(
    condition: &Condition,
    calls: Option<&[u32]>,
) -> Result<Vec<(u32, EventValues)>, PlaceError> {
    let is_asked = |number: u32| calls.is_none_or(|calls| calls.contains(&number));
    let (mut filters, mut error) = (Vec::new(), None);
    for (number, call) in pyrograph_syscall::all().filter(|(number, _)| is_asked(*number)) {
        match of_call(call, condition) {
            Ok(values) => filters.push((number, values)),
            // What is wrong with the values of a call that has them says more.
            Err(PlaceError::NoArgument { .. }) if error.is_some() => {}
            Err(reason) => error = Some(reason),
        }
    }
    match error {
        Some(error) if filters.is_empty() => Err(error),
        _ => Ok(filters),
    }
}

fn of_call(call: &Call, condition: &Condition) -> Result<EventValues, PlaceError> {
    let asking = Asking::new(Wanted { filter: Some(condition), ..Wanted::default() })?;
    let (reads, named) = asking.read(|asked| value(call, asked))?;
    Ok(asking.resolve(vec![reads], named)?.values)
}

fn value(call: &Call, asked: &Asked<'_>) -> Result<(ReadValue, Shape), PlaceError> {
    let register = |number: u16| ReadNumber { base: ReadBase::Register(number), steps: Vec::new() };
    let number = |register, (count, signed): (u8, bool)| {
        let shape = Shape::Number { signed, bits: (0, count) };
        (ReadValue::Number(register, Bits { first: 0, count, signed }), shape)
    };
    match asked.expression {
        "ret" => return Ok(number(register(RESULT), (64, true))),
        "duration" => return Ok(number(register(DURATION), (64, false))),
        _ => {}
    }
    let found = (0u16..).zip(call.arguments).find(|(_, of)| of.name == asked.expression);
    let Some((index, argument)) = found else {
        return Err(PlaceError::NoArgument { name: asked.expression.to_owned() });
    };
    match (asked.as_text, argument.is_text()) {
        (true, true) => {
            let text = ReadValue::Text(register(index), Memory::Program);
            Ok((text, Shape::Text { length: None }))
        }
        (true, false) => Err(PlaceError::Value {
            expression: asked.expression.to_owned(),
            why: "it is a number, and no text",
        }),
        (false, _) => Ok(number(register(index), argument.bits())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(text: &str, calls: Option<&[u32]>) -> Result<Vec<(u32, EventValues)>, String> {
        let condition = Condition::parse(text).expect("valid");
        call_filters(&condition, calls).map_err(|error| error.to_string())
    }

    #[test]
    fn calls_that_have_the_arguments_are_filtered() {
        // read, write, close, exit
        let found = filters("ret < 0 && fd == 3", Some(&[0, 1, 3, 60])).expect("valid");
        let numbers: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 3]);
        let bits = |count, signed| Bits { first: 0, count, signed };
        let read = |number, bits| {
            let steps = Vec::new();
            ReadValue::Number(ReadNumber { base: ReadBase::Register(number), steps }, bits)
        };
        assert_eq!(found[0].1.reads, [[read(6, bits(64, true)), read(0, bits(32, true))]]);
        assert!(filters("filename ~ '/etc/*'", None).expect("calls of files").len() > 10);
        let error = filters("nosuch == 1", None).expect_err("no call has it");
        assert!(error.contains("no call has an argument 'nosuch'"), "{error}");
        let error = filters("fd == 'x'", None).expect_err("it is a number");
        assert!(error.contains("it is a number, and no text"), "{error}");
    }
}
