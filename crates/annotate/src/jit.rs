//! JIT-compiled code that the process has written to a jitdump file.

use std::fs::File;

use pyrograph_symbol::{JitDump, Options, inlined_names};

use crate::choose::Located;
use crate::code::{Code, JitLines, native};
use crate::{Error, Function};

/// Finds the code of the function, and its lines.
pub(crate) fn find(
    function: &Function,
    name: &str,
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<Code, Error> {
    let path = &function.module;
    let no_code = |reason: &str| {
        Error::NoCode(format!(
            "the code cannot be shown: {path}, which holds code made at run time, {reason}"
        ))
    };
    let file = options.locator.open_module(path.as_ref(), None).or_else(|_| File::open(path));
    let file = file.map_err(|error| no_code(&format!("cannot be opened: {error}")))?;
    let mut dump =
        JitDump::open(file).map_err(|error| no_code(&format!("cannot be read: {error}")))?;
    let hottest = function.offsets.iter().max_by_key(|(_, values)| values.first());
    let Some(&(address, _)) = hottest else { return Err(no_code("has no sample")) };
    let holds =
        |dump: &JitDump<File>, number| dump.range(number).is_some_and(|of| of.contains(&address));
    let numbers = (0..).take_while(|&number| dump.range(number).is_some());
    let numbers: Vec<u32> = numbers.filter(|&number| holds(&dump, number)).collect();
    let mut is_it = |number: &u32| {
        dump.function(*number, address).is_some_and(|found| {
            found.name == name || inlined_names(&found.name).next() == Some(name)
        })
    };
    let named: Vec<u32> = numbers.iter().copied().filter(|number| is_it(number)).collect();
    if named.len() > 1 {
        notes.push(format!(
            "the process has made {name} {} times there: this is its last code",
            named.len()
        ));
    }
    let Some(&number) = named.last().or(numbers.last()) else {
        return Err(no_code("has no function at this address"));
    };
    let Some((start, bytes)) = dump.code(number) else {
        return Err(no_code("does not hold the code of this function"));
    };
    let range = start..start.saturating_add(bytes.len() as u64);
    let is_in = |(address, _): &&Located| range.contains(address);
    let samples: Vec<_> = function.offsets.iter().filter(is_in).cloned().collect();
    let lines = Some(JitLines { dump, number });
    Ok(Code {
        module_path: path.clone(),
        arch: native(),
        start,
        bytes,
        samples,
        lines,
        ..Code::default()
    })
}
