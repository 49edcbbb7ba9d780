//! Values of tracepoints: their fields.

use pyrograph_event::values::{Bits, Memory, ReadBase, ReadNumber, ReadStep, ReadValue};
use pyrograph_perf_data::{Tracepoint, TracepointField};
use pyrograph_probe::Shape;
use pyrograph_record::nearest;

use super::asking::{Asked, Asking, Resolved, Wanted};
use crate::error::PlaceError;

/// Returns from where the values of a tracepoint are read.
///
/// # Errors
///
/// If it has no such field, or one is of another kind than what is wanted of it.
pub(crate) fn of_tracepoint(
    tracepoint: &Tracepoint,
    wanted: Wanted<'_>,
) -> Result<Resolved, PlaceError> {
    let asking = Asking::new(wanted)?;
    let (reads, named) = asking.read(|asked| value(tracepoint, asked))?;
    asking.resolve(vec![reads], named)
}

fn value(tracepoint: &Tracepoint, asked: &Asked<'_>) -> Result<(ReadValue, Shape), PlaceError> {
    let Some(field) = tracepoint.fields.iter().find(|field| field.name == asked.expression) else {
        let names = || tracepoint.fields.iter().map(|field| field.name.clone());
        return Err(PlaceError::NoField {
            name: asked.expression.to_owned(),
            tracepoint: tracepoint.name.clone(),
            near: nearest(asked.expression, names()),
            fields: names().collect::<Vec<_>>().join(", "),
        });
    };
    let refuse = |why| PlaceError::Value { expression: asked.expression.to_owned(), why };
    let at = |load: u8| ReadNumber {
        base: ReadBase::Data,
        steps: vec![ReadStep { add: field.offset.into(), load, memory: Memory::Kernel }],
    };
    let text = Shape::Text { length: None };
    if field.kind.starts_with("__data_loc ") {
        return match field.kind.contains("char[]") {
            true => Ok((ReadValue::TextInData(at(4)), text)),
            false => Err(refuse("it is a list")),
        };
    }
    if field.kind.starts_with("__rel_loc ") {
        return Err(refuse("it is at a place that is not followed"));
    }
    if is_array(field) {
        return match field.kind.starts_with("char") {
            true => Ok((ReadValue::Text(at(0), Memory::Kernel), text)),
            false => Err(refuse("it is a list")),
        };
    }
    let size = u8::try_from(field.size).unwrap_or(u8::MAX);
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(refuse("it is a structure"));
    }
    if asked.as_text {
        let system = tracepoint.name.split(':').next().unwrap_or_default();
        return match field.kind.ends_with('*') {
            true => Ok((ReadValue::Text(at(8), memory_of(system)), text)),
            false => Err(refuse("it is a number, and no text")),
        };
    }
    let count = size * 8;
    // The return value of a call is one of the negative numbers of errors, or a length or address.
    let bits = Bits { first: 0, count, signed: field.signed };
    let shape = match field.kind.ends_with('*') {
        true => Shape::Address,
        false => Shape::Number { signed: field.signed, bits: (0, count) },
    };
    Ok((ReadValue::Number(at(size), bits), shape))
}

/// Memory that a tracepoint's pointers lead to.
fn memory_of(system: &str) -> Memory {
    if matches!(system, "syscalls" | "raw_syscalls") { Memory::Program } else { Memory::Kernel }
}

fn is_array(field: &TracepointField) -> bool {
    field.kind.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: task_x\nID: 5\nformat:\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:int b;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] path;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:const char * name;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"%s %d\", REC->comm, REC->b\n";

    #[test]
    fn fields_are_values() {
        let tracepoint = Tracepoint::parse("syscalls", FORMAT, 8).expect("a format");
        let resolve =
            |shown: &[&str]| of_tracepoint(&tracepoint, Wanted { shown, ..Wanted::default() });
        let found = resolve(&["b", "comm", "path", "name:string", "at=name"]).expect("fields");
        let number = |add, load| ReadNumber {
            base: ReadBase::Data,
            steps: vec![ReadStep { add, load, memory: Memory::Kernel }],
        };
        assert_eq!(
            found.values.reads,
            [vec![
                ReadValue::Number(number(24, 4), Bits { first: 0, count: 32, signed: true }),
                ReadValue::Text(number(8, 0), Memory::Kernel),
                ReadValue::TextInData(number(28, 4)),
                ReadValue::Text(number(32, 8), Memory::Program),
                ReadValue::Number(number(32, 8), Bits::ALL),
            ]]
        );
        let names: Vec<_> = found.named.iter().map(|of| &of.name[..]).collect();
        assert_eq!(names, ["b", "comm", "path", "name", "at"]);
        let error = resolve(&["com"]).expect_err("no such field").to_string();
        assert!(error.contains("did you mean comm?"), "{error}");
        assert!(resolve(&["b:string"]).is_err());
    }
}
