//! Arguments of static probes (USDT): `arg1` to `arg8`, where the notes of `sys/sdt.h` say.
//!
//! Operands are in the syntax of the GNU assembler for x86-64: `%edi`, `$5`, `-20(%rbp)`.

use pyrograph_event::values::{Bits, Memory, ReadBase, ReadNumber, ReadStep, ReadValue};
use pyrograph_probe::Shape;
use pyrograph_symbol::StaticProbe;

use super::asking::{Asked, Asking, Resolved, Wanted};
use crate::error::PlaceError;

/// Names of arguments.
const NAMES: [&str; 8] = ["arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8"];

/// General registers by their numbers in DWARF; each has names for 8, 4, 2 bytes and 1 byte.
const REGISTERS: [[&str; 4]; 16] = [
    ["rax", "eax", "ax", "al"],
    ["rdx", "edx", "dx", "dl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rbx", "ebx", "bx", "bl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["rbp", "ebp", "bp", "bpl"],
    ["rsp", "esp", "sp", "spl"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r9", "r9d", "r9w", "r9b"],
    ["r10", "r10d", "r10w", "r10b"],
    ["r11", "r11d", "r11w", "r11b"],
    ["r12", "r12d", "r12w", "r12b"],
    ["r13", "r13d", "r13w", "r13b"],
    ["r14", "r14d", "r14w", "r14b"],
    ["r15", "r15d", "r15w", "r15b"],
];

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    number: ReadNumber,
    /// Size in bytes.
    size: u8,
    signed: bool,
}

/// Names of the arguments that all of these probes, which have one name, have and that can be read.
pub(crate) fn readable(probes: &[StaticProbe]) -> Vec<&'static str> {
    let is_readable = |at: &usize| {
        probes.iter().all(|probe| {
            probe
                .arguments
                .split_ascii_whitespace()
                .nth(*at)
                .is_some_and(|text| parse(text).is_ok())
        })
    };
    (0..NAMES.len()).filter(is_readable).map(|at| NAMES[at]).collect()
}

/// Returns from where the arguments of probes are read; all have one name.
///
/// # Errors
///
/// If one of them has no such argument, or it cannot be read.
pub(crate) fn of_static_probes(
    probes: &[StaticProbe],
    wanted: Wanted<'_>,
) -> Result<Resolved, PlaceError> {
    let asking = Asking::new(wanted)?;
    let (mut reads, mut named) = (Vec::new(), Vec::new());
    for probe in probes {
        let (of_probe, names) = asking.read(|asked| {
            let Argument { number, size, signed: own } = argument(probe, asked)?;
            // What a signed number is shown by must be the same at all places.
            let signed =
                probes.iter().any(|probe| argument(probe, asked).is_ok_and(|of| of.signed));
            let refuse = |why| PlaceError::Value { expression: asked.expression.to_owned(), why };
            if asked.as_text {
                return match size {
                    8 => {
                        Ok((ReadValue::Text(number, Memory::Program), Shape::Text { length: None }))
                    }
                    _ => Err(refuse("it is a number, and no text")),
                };
            }
            let bits = Bits { first: 0, count: size * 8, signed: own };
            Ok((ReadValue::Number(number, bits), Shape::Number { signed, bits: (0, 64) }))
        })?;
        reads.push(of_probe);
        named = names;
    }
    asking.resolve(reads, named)
}

fn argument(probe: &StaticProbe, asked: &Asked<'_>) -> Result<Argument, PlaceError> {
    let name = asked.expression.trim_start_matches('$');
    let operands: Vec<&str> = probe.arguments.split_ascii_whitespace().collect();
    let operand = NAMES.iter().position(|known| *known == name).and_then(|at| operands.get(at));
    let Some(operand) = operand else {
        let fields = match NAMES.get(..operands.len()).unwrap_or(&NAMES) {
            [] => "no arguments".to_owned(),
            names => names.join(", "),
        };
        return Err(PlaceError::NoField {
            name: asked.expression.to_owned(),
            tracepoint: format!("{}:{}", probe.provider, probe.name),
            near: Vec::new(),
            fields,
        });
    };
    parse(operand).map_err(|why| PlaceError::Value { expression: asked.expression.to_owned(), why })
}

/// Parses `-4@-20(%rbp)`. The error is the reason why it is not read.
fn parse(text: &str) -> Result<Argument, &'static str> {
    const UNKNOWN: &str = "its place is written in a way that is not read";
    // Without a size, in old notes, it is as long as a register.
    let (size, operand) = text.split_once('@').unwrap_or(("8", text));
    if size.ends_with('f') {
        return Err("it is a floating-point number");
    }
    let size: i8 = size.parse().map_err(|_| UNKNOWN)?;
    let signed = size < 0;
    let size = size.unsigned_abs();
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err("it has a size that is not read");
    }
    let argument = |base, steps| Argument { number: ReadNumber { base, steps }, size, signed };
    if let Some(number) = operand.strip_prefix('$') {
        let number = number_of(number).ok_or(UNKNOWN)?;
        return Ok(argument(ReadBase::Constant(number.cast_unsigned()), Vec::new()));
    }
    if let Some(name) = operand.strip_prefix('%') {
        return match register(name) {
            Some(register) => Ok(argument(ReadBase::Register(register), Vec::new())),
            None if name.starts_with("xmm") => Err("it is in a vector register"),
            None => Err(UNKNOWN),
        };
    }
    let (offset, inside) =
        operand.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or(UNKNOWN)?;
    if inside.contains(',') {
        return Err("it is an element of an array, by a second register");
    }
    let base = inside.strip_prefix('%').and_then(register);
    let Some(base) = base else {
        return Err("it is at the address of a symbol; uprobe: reads static variables by name");
    };
    let add = if offset.is_empty() { 0 } else { number_of(offset).ok_or(UNKNOWN)? };
    let step = ReadStep { add, load: size, memory: Memory::Program };
    Ok(argument(ReadBase::Register(base), vec![step]))
}

fn register(name: &str) -> Option<u16> {
    let number = REGISTERS.iter().position(|names| names.contains(&name))?;
    u16::try_from(number).ok()
}

fn number_of(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.cast_signed(),
        None => digits.parse().ok()?,
    };
    Some(number.wrapping_mul(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(arguments: &str) -> StaticProbe {
        StaticProbe {
            provider: "app".to_owned(),
            name: "begun".to_owned(),
            offset: 0,
            semaphore: 0,
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn operands_are_places() {
        let register =
            |register| ReadNumber { base: ReadBase::Register(register), steps: Vec::new() };
        let memory = |register, add, load| ReadNumber {
            base: ReadBase::Register(register),
            steps: vec![ReadStep { add, load, memory: Memory::Program }],
        };
        let constant = |number: i64| ReadNumber {
            base: ReadBase::Constant(number.cast_unsigned()),
            steps: Vec::new(),
        };
        for (text, number, size, signed) in [
            ("-4@%edi", register(5), 4, true),
            ("8@%r15", register(15), 8, false),
            ("1@%bl", register(3), 1, false),
            ("-4@-20(%rbp)", memory(6, -20, 4), 4, true),
            ("8@(%rsp)", memory(7, 0, 8), 8, false),
            ("2@0x10(%rax)", memory(0, 16, 2), 2, false),
            ("-8@$-1", constant(-1), 8, true),
            ("4@$5", constant(5), 4, false),
            ("%rdx", register(1), 8, false),
        ] {
            assert_eq!(parse(text), Ok(Argument { number, size, signed }), "{text}");
        }
        for text in [
            "8f@%xmm0",
            "16@%xmm1",
            "4@(%rax,%rbx,4)",
            "4@counter(%rip)",
            "4@",
            "x@%rax",
            "4@%ah",
            "",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn arguments_are_values() {
        let probes = [probe("-4@%edi 8@8(%rsp) 8f@%xmm0 4@%esi"), probe("8@%rax 8@%rcx 4@$1")];
        assert_eq!(readable(&probes), ["arg1", "arg2"]);
        assert_eq!(readable(&[probe("")]), Vec::<&str>::new());
        let resolve =
            |shown: &[&str]| of_static_probes(&probes, Wanted { shown, ..Wanted::default() });
        let found = resolve(&["count=arg1", "$arg2:string"]).expect("both have these");
        let bits = found.values.reads.iter().map(|reads| match &reads[0] {
            ReadValue::Number(_, bits) => *bits,
            other => panic!("{other:?}"),
        });
        let bits: Vec<Bits> = bits.collect();
        assert_eq!(
            bits,
            [
                Bits { first: 0, count: 32, signed: true },
                Bits { first: 0, count: 64, signed: false }
            ]
        );
        assert_eq!(found.named[0].shape, Shape::Number { signed: true, bits: (0, 64) });
        assert!(found.values.reads[1][1].is_text());
        let said = |shown| resolve(shown).expect_err("not all have it").to_string();
        assert!(said(&["arg3"]).contains("floating-point"), "{}", said(&["arg3"]));
        assert!(said(&["arg4"]).contains("app:begun has no field 'arg4'; it has arg1, arg2, arg3"));
        assert!(said(&["argument"]).contains("no field 'argument'"));
    }
}
