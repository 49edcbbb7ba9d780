//! Places in programs by source: lines of functions, and functions of which calls were inlined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pyrograph_elf::Image;
use pyrograph_elf::object::{Object, ObjectKind};
use pyrograph_event::request::{Place, Trigger};
use pyrograph_event::values::{
    Bits, MOST_STEPS, Memory, ReadBase, ReadNumber, ReadStep, ReadValue,
};
use pyrograph_probe::{
    Base, Body, Function, INSTRUCTION_POINTER, Number, Program, Shape, Step, Variable, View,
};
use pyrograph_record::nearest;
use pyrograph_symbol::Locator;

use crate::error::PlaceError;
use crate::places::split_file;
use crate::values::{Asking, FRAME, Resolved, Wanted, bits_of};

/// Number of lines that an error lists.
const MOST_LISTED: usize = 12;

/// What stands behind the file of a place: `handle`, `handle:42`, `handle@app.c:42`, `@app.c:42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePlace<'a> {
    /// The function, by any of its names. `None` for whichever has the line.
    pub function: Option<&'a str>,
    /// The source file, or the end of its path.
    pub file: Option<&'a str>,
    /// The line in the source file. `None` for the calls of the function.
    pub line: Option<u32>,
}

impl<'a> SourcePlace<'a> {
    /// Parses a place. `None` if it has neither a line nor a function.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (before, line) = match text.rsplit_once(':') {
            Some((before, line)) if !before.ends_with(':') => match line.parse().ok() {
                Some(line) => (before, Some(line)),
                None => (text, None),
            },
            _ => (text, None),
        };
        // Without a line, what follows `@` is the version of a symbol.
        let (function, file) = match before.rsplit_once('@').filter(|_| line.is_some()) {
            Some((function, file)) => (function, Some(file).filter(|file| !file.is_empty())),
            None => (before, None),
        };
        let function = Some(function).filter(|function| !function.is_empty());
        (function.is_some() || file.is_some()).then_some(Self { function, file, line })
    }
}

/// Returns the instructions at which a line begins.
///
/// # Errors
///
/// If there is no debug information, or no such function, source file or line.
pub(crate) fn line(path: &Path, place: SourcePlace<'_>, line: u32) -> Result<Trigger, PlaceError> {
    let program = Program::open(path, &Locator::default())?;
    let view = program.read()?;
    let functions = functions_of(&view, path, place)?;
    let addresses = addresses_of(&view, &functions, path, place, line)?;
    Ok(trigger(&program, addresses, false))
}

/// A function of a file, as its source and its debug information have it.
#[derive(Clone, Debug)]
pub struct SourceFunction {
    /// The function and its code.
    pub function: Function,
    /// For each line at which code begins, the number of places where it does.
    pub lines: BTreeMap<u32, usize>,
    /// The variables that are in scope at the line that was asked for, at each of its places.
    pub variables: Vec<Vec<Variable>>,
}

/// Returns the functions that `uprobe:FILE:FUNCTION[:LINE]` or `uprobe:FILE:@SOURCE:LINE` names, with their lines. With a
/// line, only those that have code there, and the variables. `None` if the text has another form, names none of the
/// functions, or the file has no debug information: then its symbols are all that is known.
///
/// # Errors
///
/// If no code begins at the line, or the file has no debug information and a line is asked for.
pub fn source_functions(text: &str) -> Option<Result<Vec<SourceFunction>, PlaceError>> {
    let (path, named) = split_file(text.strip_prefix("uprobe:")?)?;
    let place = SourcePlace::parse(named).filter(|_| !named.contains(['*', '?']))?;
    match place.line {
        Some(_) => Some(described(Path::new(path), place, &Locator::default())),
        // It may be a part of a symbol's name: nothing is downloaded for that.
        None => described(Path::new(path), place, &here()).ok().map(Ok),
    }
}

/// Where debug files of this machine are.
fn here() -> Locator {
    Locator { debuginfod: None, ..Locator::default() }
}

fn described(
    path: &Path,
    place: SourcePlace<'_>,
    locator: &Locator,
) -> Result<Vec<SourceFunction>, PlaceError> {
    let program = Program::open(path, locator)?;
    let view = program.read()?;
    let functions = functions_of(&view, path, place)?;
    let described = functions.iter().filter_map(|function| {
        let lines = view.lines(function);
        let places = match place.line {
            Some(line) => lines.get(&line)?.iter().copied().collect(),
            None => Vec::new(),
        };
        let at = |address: u64| {
            let body = function.bodies.iter().rfind(|body| body.contains(address))?;
            Some(view.variables(body, address))
        };
        let variables = places.into_iter().filter_map(at).collect();
        let lines = lines.into_iter().map(|(line, places)| (line, places.len())).collect();
        Some(SourceFunction { function: function.clone(), lines, variables })
    });
    let described: Vec<SourceFunction> = described.collect();
    if let Some(line) = place.line.filter(|_| described.is_empty()) {
        // The error names the lines that there are.
        addresses_of(&view, &functions, path, place, line)?;
    }
    Ok(described)
}

/// Returns the first instructions of a function, by any of its names, and of its calls that were inlined; for `returns`
/// only of the function.
///
/// # Errors
///
/// If there is no debug information, or no such function.
pub(crate) fn function(path: &Path, name: &str, returns: bool) -> Result<Trigger, PlaceError> {
    let program = Program::open(path, &Locator::default())?;
    let view = program.read()?;
    let place = SourcePlace { function: Some(name), file: None, line: None };
    let functions = functions_of(&view, path, place)?;
    let bodies = functions.iter().flat_map(|function| &function.bodies);
    let is_wanted = |body: &&Body| !returns || body.inlined_into.is_none();
    let entries: BTreeSet<u64> = bodies.filter(is_wanted).map(|body| body.entry).collect();
    if entries.is_empty() {
        return Err(PlaceError::InlinedOnly { name: name.to_owned(), path: path.to_owned() });
    }
    Ok(trigger(&program, entries, returns))
}

/// Same as [`function`], for a function that has a symbol; `None` if no call of it was inlined, as far as is known: no
/// debug information is downloaded for this.
pub(crate) fn with_inlined(path: &Path, name: &str) -> Option<Trigger> {
    let program = Program::open(path, &here()).ok()?;
    let functions = program.read().ok()?.functions(|of| of == name);
    let bodies = || functions.iter().flat_map(|function| &function.bodies);
    let is_inlined = bodies().any(|body| body.inlined_into.is_some());
    is_inlined.then(|| trigger(&program, bodies().map(|body| body.entry).collect(), false))
}

/// A place with the values that are read there.
#[derive(Debug)]
pub(crate) struct PlaceWithValues {
    pub trigger: Trigger,
    /// The values.
    pub values: Resolved,
    /// The returns of the functions, if the address of the frame is read.
    pub returns: Option<Trigger>,
}

/// Returns a place with values.
///
/// # Errors
///
/// If there is no debug information, no such function or line, or a value cannot be read at one of the instructions.
pub(crate) fn with_values(
    path: &Path,
    place: SourcePlace<'_>,
    returns: bool,
    values: Wanted<'_>,
) -> Result<PlaceWithValues, PlaceError> {
    let asking = Asking::new(values)?;
    let program = Program::open(path, &Locator::default())?;
    let view = program.read()?;
    let functions = functions_of(&view, path, place)?;
    let mut wanted: BTreeMap<u64, (&Function, &Body)> = BTreeMap::new();
    let mut entries = BTreeSet::new();
    for function in &functions {
        let lines = place.line.map(|line| view.lines(function).remove(&line).unwrap_or_default());
        let of_calls = returns || values.frame;
        for body in function.bodies.iter().filter(|of| !of_calls || of.inlined_into.is_none()) {
            entries.insert(body.entry);
            match &lines {
                Some(lines) => {
                    let inside = lines.iter().filter(|address| body.contains(**address));
                    wanted.extend(inside.map(|address| (*address, (function, body))));
                }
                None if returns => {
                    wanted.insert(body.entry, (function, body));
                }
                None => {
                    wanted.insert(view.after_entry(function, body), (function, body));
                }
            }
        }
    }
    if let Some(line) = place.line.filter(|_| wanted.is_empty()) {
        // The error names the lines that there are.
        addresses_of(&view, &functions, path, place, line)?;
    }
    if wanted.is_empty() && values.frame {
        let name = place.function.unwrap_or_default().to_owned();
        return Err(PlaceError::InlinedOnly { name, path: path.to_owned() });
    }
    let (mut named, mut reads) = (Vec::new(), Vec::new());
    let thread_block = thread_block(program.image());
    for (address, (function, body)) in &wanted {
        let (of_place, names) = asking.read(|asked| {
            let expression = asked.expression;
            if expression == FRAME {
                let why = "there is no unwind table";
                let refuse = |_| PlaceError::Value { expression: "the frame".to_owned(), why };
                let frame = view.frame_address(*address).map_err(refuse)?;
                let number = read_number(&frame, *address, false, None, expression)?;
                return Ok((ReadValue::Number(number, Bits::ALL), Shape::Address));
            }
            let at = (!returns).then_some(*address);
            let read = view.value(function, body, at, expression, asked.as_text)?;
            let number =
                |number: &Number| read_number(number, *address, returns, thread_block, expression);
            let (bits, shape) = bits_of(read.shape);
            let value = match &shape {
                Shape::Text { length: Some(length) } => {
                    ReadValue::TextOf(number(&read.number)?, number(length)?)
                }
                Shape::Text { length: None } => {
                    ReadValue::Text(number(&read.number)?, Memory::Program)
                }
                _ => ReadValue::Number(number(&read.number)?, bits),
            };
            Ok((value, shape))
        })?;
        reads.push(of_place);
        named = names;
    }
    let trigger = trigger(&program, wanted.into_keys().collect(), returns);
    let returns = values.frame.then(|| self::trigger(&program, entries, true));
    Ok(PlaceWithValues { trigger, values: asking.resolve(reads, named)?, returns })
}

/// Distance of a program's thread-local variables from the thread pointer. `None` for a library, which may be anywhere.
///
/// They end at the thread pointer, where the thread's own block is aligned as they are: variant II of Ulrich Drepper, "ELF
/// Handling For Thread-Local Storage", section 3.4.
fn thread_block(image: &Image) -> Option<i64> {
    let (size, align) = image.thread_block()?;
    let is_program =
        image.elf().kind() == ObjectKind::Executable || image.linked().interpreter.is_some();
    let size = size.checked_next_multiple_of(align.max(1))?;
    is_program.then_some(0i64.checked_sub_unsigned(size)?)
}

/// A number as programs in the kernel compute it at an instruction, or when the function that begins there returns.
fn read_number(
    number: &Number,
    address: u64,
    returns: bool,
    thread_block: Option<i64>,
    expression: &str,
) -> Result<ReadNumber, PlaceError> {
    let refuse = |why| PlaceError::Value { expression: expression.to_owned(), why };
    let mut add = 0i64;
    let base = match number.base {
        Base::Register(register) => ReadBase::Register(register),
        Base::Called(register) => ReadBase::Called(register),
        Base::Constant(number) => ReadBase::Constant(number),
        // The instruction to which it returns may be anywhere.
        Base::Static(place) if returns => {
            add = place.wrapping_sub(address).cast_signed();
            ReadBase::Called(INSTRUCTION_POINTER)
        }
        Base::Static(place) => ReadBase::Distance(place.wrapping_sub(address).cast_signed()),
        Base::ThreadLocal(offset) => {
            let why = "thread-local variables of libraries are not read";
            ReadBase::Thread(thread_block.ok_or_else(|| refuse(why))?.wrapping_add_unsigned(offset))
        }
    };
    let mut steps = Vec::new();
    for step in &number.steps {
        match step {
            Step::Add(number) => add = add.wrapping_add(*number),
            Step::Load(load) => {
                steps.push(ReadStep { add, load: *load, memory: Memory::Program });
                add = 0;
            }
        }
    }
    if add != 0 {
        steps.push(ReadStep { add, load: 0, memory: Memory::Program });
    }
    match steps.len() > MOST_STEPS {
        true => Err(refuse("too many pointers lead to it")),
        false => Ok(ReadNumber { base, steps }),
    }
}

fn trigger(program: &Program, addresses: BTreeSet<u64>, returns: bool) -> Trigger {
    let offsets = addresses.into_iter().filter_map(|address| program.image().offset_of(address));
    let places = offsets.map(|offset| Place { offset, semaphore: 0 }).collect();
    Trigger::Places { path: program.path().to_owned(), places, returns }
}

/// The functions of a place that have code.
fn functions_of(
    view: &View<'_>,
    path: &Path,
    place: SourcePlace<'_>,
) -> Result<Vec<Function>, PlaceError> {
    let mut functions = view.functions(|name| place.function.is_none_or(|wanted| wanted == name));
    if let Some(file) = place.file {
        functions.retain(|function| function.file.as_deref().is_some_and(|of| is_path(of, file)));
    }
    if !functions.is_empty() {
        return Ok(functions);
    }
    let all = view.functions(|_| true);
    let path = path.to_owned();
    Err(match (place.function, place.file) {
        (Some(name), _) => {
            let names = all.into_iter().map(|function| function.name);
            PlaceError::NoFunction { name: name.to_owned(), path, near: nearest(name, names) }
        }
        (None, file) => {
            let name = file.unwrap_or_default();
            let files: BTreeSet<String> = all.into_iter().filter_map(|of| of.file).collect();
            let last = |file: &String| file.rsplit('/').next().unwrap_or(file).to_owned();
            let near = nearest(name, files.iter().map(last));
            PlaceError::NoSource { name: name.to_owned(), path, near }
        }
    })
}

/// Returns true if a path is `wanted`, or ends with its parts.
fn is_path(path: &str, wanted: &str) -> bool {
    path.strip_suffix(wanted)
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || wanted.starts_with('/'))
}

fn addresses_of(
    view: &View<'_>,
    functions: &[Function],
    path: &Path,
    place: SourcePlace<'_>,
    line: u32,
) -> Result<BTreeSet<u64>, PlaceError> {
    let (mut found, mut lines) = (BTreeSet::new(), BTreeSet::new());
    for function in functions {
        let mut of_function = view.lines(function);
        found.extend(of_function.remove(&line).unwrap_or_default());
        lines.extend(of_function.into_keys());
    }
    if !found.is_empty() {
        return Ok(found);
    }
    // The nearest lines, in their order.
    let mut lines: Vec<u32> = lines.into_iter().collect();
    lines.sort_by_key(|known| known.abs_diff(line));
    lines.truncate(MOST_LISTED);
    lines.sort_unstable();
    let what = match (place.function, place.file) {
        (Some(function), _) => function.to_owned(),
        (None, file) => file.unwrap_or_default().to_owned(),
    };
    Err(PlaceError::NoLine { path: path.to_owned(), what, line, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_source() {
        let place = |function, file, line| Some(SourcePlace { function, file, line });
        let check = |text, expect| assert_eq!(SourcePlace::parse(text), expect, "{text}");
        check("handle", place(Some("handle"), None, None));
        check("handle:42", place(Some("handle"), None, Some(42)));
        check("shop::Order::price", place(Some("shop::Order::price"), None, None));
        check("shop::Order::price:7", place(Some("shop::Order::price"), None, Some(7)));
        check("handle@src/app.c:42", place(Some("handle"), Some("src/app.c"), Some(42)));
        check("@app.c:42", place(None, Some("app.c"), Some(42)));
        check("memcpy@GLIBC_2.14", place(Some("memcpy@GLIBC_2.14"), None, None));
        check("a::7", place(Some("a::7"), None, None));
        check("", None);
        check(":42", None);
    }

    #[test]
    fn paths_end_with_whole_parts() {
        let path = "/src/shop/app.c";
        for wanted in ["app.c", "shop/app.c", "/src/shop/app.c"] {
            assert!(is_path(path, wanted), "{wanted}");
        }
        for wanted in ["pp.c", "hop/app.c", "app", "other/app.c"] {
            assert!(!is_path(path, wanted), "{wanted}");
        }
    }
}
