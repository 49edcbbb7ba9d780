//! Places in programs and libraries, given by name.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pyrograph_elf::Image;
use pyrograph_elf::object::ObjectSymbol;
use pyrograph_event::request::{Place, Trigger};
use pyrograph_event::values::{Bits, Memory, ReadValue};
use pyrograph_probe::{Expression, Shape};
use pyrograph_record::{EventClass, KnownEvent, matches_pattern, nearest};
use pyrograph_resolve::{NATIVE, in_root_of};
use pyrograph_symbol::{StaticProbe, function_code, function_names, open_image, static_probes};
use pyrograph_unwind::inside_of_instruction;

use crate::error::{Error, PlaceError};
use crate::kernel_places;
use crate::needed::mapped_files;
use crate::source_places::{self, PlaceWithValues, SourcePlace};
use crate::values::{
    Asking, FRAME, Wanted, frame_of_call, of_static_probes, readable, value_of_register,
};

/// Returns the place that a text names: `uprobe:FILE:FUNCTION` and `uretprobe:FILE:FUNCTION`, as [`function`] takes them,
/// `usdt:FILE:PROVIDER:NAME`, and `kprobe:FUNCTION` for a function of the kernel. `None` if it begins with none of these words.
pub(crate) fn named(text: &str) -> Option<Result<Trigger, PlaceError>> {
    if let Some(function) = kernel_places::named(text) {
        return Some(function);
    }
    let (prefix, place) = text.split_once(':')?;
    let returns = match prefix {
        "uprobe" => false,
        "uretprobe" => true,
        "usdt" => return Some(static_probe(place)),
        _ => return None,
    };
    Some(function(place, returns).map_err(|error| match place.split_once(' ') {
        Some((before, _)) if function(before, returns).is_ok() => {
            PlaceError::ValuesOfPlace { place: text.to_owned() }
        }
        _ => error,
    }))
}

/// Returns the place that a text names, with values of variables there, or arguments of a static probe: a place as [`named`]
/// takes it. `None` if it begins with none of its words.
pub(crate) fn with_values(
    place: &str,
    wanted: Wanted<'_>,
) -> Option<Result<PlaceWithValues, PlaceError>> {
    if let Some(function) = kernel_places::with_values(place, wanted) {
        return Some(function);
    }
    let (prefix, place) = place.split_once(':')?;
    let returns = match prefix {
        "uprobe" => false,
        "uretprobe" => true,
        "usdt" if wanted.frame => {
            return Some(Err(PlaceError::NoCall { place: place.to_owned() }));
        }
        "usdt" => return Some(static_probe_with_values(place, wanted)),
        _ => return None,
    };
    let malformed = || PlaceError::Function { prefix: prefix_of(returns), place: place.to_owned() };
    let parse = || {
        let (path, named) = split_file(place).ok_or_else(malformed)?;
        let source = SourcePlace::parse(named).ok_or_else(malformed)?;
        if wanted.frame && (returns || source.line.is_some()) {
            return Err(PlaceError::NoCall { place: place.to_owned() });
        }
        let path = Path::new(path);
        let found = source_places::with_values(path, source, returns, wanted);
        match (found, source.function) {
            // Its symbol is all that is known.
            (Err(why @ (PlaceError::Source(_) | PlaceError::NoFunction { .. })), Some(name))
                if source.line.is_none() =>
            {
                by_symbol(path, name, returns, wanted, why)
            }
            (found, _) => found,
        }
    };
    Some(parse())
}

/// The calls or returns of a function by its symbol, with what is known of a function without debug information: its arguments
/// in registers (`arg1` to `arg6`), or what it returns (`$retval`). `why`: the error if there is no such symbol, or other values are
/// wanted of a function that has debug information.
fn by_symbol(
    path: &Path,
    name: &str,
    returns: bool,
    wanted: Wanted<'_>,
    why: PlaceError,
) -> Result<PlaceWithValues, PlaceError> {
    let image = open_image(path).map_err(PlaceError::File)?;
    let addresses = image.functions_named(name).map(|symbol| symbol.address());
    let offsets: BTreeSet<u64> = addresses.filter_map(|address| image.offset_of(address)).collect();
    let asking = Asking::new(wanted)?;
    let read = asking.read(|asked| {
        if asked.expression == FRAME {
            return Ok((ReadValue::Number(frame_of_call(), Bits::ALL), Shape::Address));
        }
        value_of_register(asked, returns, Memory::Program).ok_or_else(|| {
            match Expression::parse(asked.expression) {
                Err(why) => PlaceError::Source(pyrograph_probe::Error::Expression { why }),
                Ok(_) => PlaceError::Value {
                    expression: asked.expression.to_owned(),
                    why: "there is no debug information",
                },
            }
        })
    });
    let (reads, named) = match read {
        _ if offsets.is_empty() => return Err(why),
        Err(error) if matches!(why, PlaceError::NoFunction { .. }) => return Err(error),
        Err(_) => return Err(why),
        Ok(read) => read,
    };
    let places: Vec<Place> =
        offsets.into_iter().map(|offset| Place { offset, semaphore: 0 }).collect();
    let values = asking.resolve(vec![reads; places.len()], named)?;
    let trigger =
        |returns| Trigger::Places { path: path.to_owned(), places: places.clone(), returns };
    let until = wanted.frame.then(|| trigger(true));
    Ok(PlaceWithValues { trigger: trigger(returns), values, returns: until })
}

/// Parses `FILE:FUNCTION`, and with a place in the function `FILE:FUNCTION+OFFSET`, `FILE:FUNCTION:LINE`,
/// `FILE:FUNCTION@SOURCE:LINE`; `FILE:@SOURCE:LINE` is a line of whichever function.
///
/// # Errors
///
/// If it has another form, or the file has no such place.
pub fn function(place: &str, returns: bool) -> Result<Trigger, PlaceError> {
    let prefix = prefix_of(returns);
    let malformed = || PlaceError::Function { prefix, place: place.to_owned() };
    let (path, named) = split_file(place).ok_or_else(malformed)?;
    let image = open_image(Path::new(path)).map_err(PlaceError::File)?;
    let source = SourcePlace::parse(named).ok_or_else(malformed)?;
    if let Some(line) = source.line {
        return match returns {
            true => Err(PlaceError::LineOfReturn { prefix, place: place.to_owned() }),
            false => source_places::line(Path::new(path), source, line),
        };
    }
    let is_operator = |name: &str| name.trim_end_matches('+').ends_with("operator");
    let split = named.rsplit_once('+').filter(|(name, _)| !is_operator(name));
    let (name, offset) = split.unwrap_or((named, "0"));
    let number = match offset.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => offset.parse(),
    };
    let offset = number.map_err(|source| PlaceError::Offset {
        prefix,
        place: place.to_owned(),
        offset: offset.to_owned(),
        source,
    })?;
    if returns && offset > 0 {
        return Err(PlaceError::OffsetOfReturn { prefix, place: place.to_owned() });
    }
    if let Err(no_symbol) = check_function(&image, path, name) {
        // A name as it is in the source, or a function of which all calls were inlined.
        return match source_places::function(Path::new(path), name, returns) {
            Err(PlaceError::NoFunction { .. } | PlaceError::Source(_)) => Err(no_symbol),
            found => found,
        };
    }
    if offset > 0 {
        check_offset(&image, name, offset)?;
    } else if !returns && let Some(trigger) = source_places::with_inlined(Path::new(path), name) {
        return Ok(trigger);
    }
    Ok(Trigger::Function { path: path.into(), name: name.to_owned(), offset, returns })
}

/// The word before a place of a function.
fn prefix_of(returns: bool) -> &'static str {
    if returns { "uretprobe" } else { "uprobe" }
}

/// Splits `FILE:REST` behind the first name of a file: both parts may contain colons.
pub(crate) fn split_file(place: &str) -> Option<(&str, &str)> {
    let colons = place.match_indices(':').map(|(at, _)| (&place[..at], &place[at + 1..]));
    let is_file = |(path, _): &(&str, &str)| Path::new(path).is_file();
    let split = colons.clone().find(is_file).or_else(|| colons.clone().next());
    split.filter(|(path, rest)| !path.is_empty() && !rest.is_empty())
}

/// Checks that a file has a function. The error lists functions with similar names.
fn check_function(image: &Image, path: &str, name: &str) -> Result<(), PlaceError> {
    let known = function_names(image);
    // The name of a library's function may be followed by a version: `memcpy@GLIBC_2.14`.
    let is_version =
        |of: &str| of.chars().all(|part| part.is_alphanumeric() || "@._".contains(part));
    let versioned = name.split_once('@').filter(|(_, version)| is_version(version));
    let plain = versioned.map_or(name, |(plain, _)| plain);
    if known.contains(&name) || known.contains(&plain) {
        return Ok(());
    }
    let (name, path) = (name.to_owned(), path.into());
    Err(match known.is_empty() {
        true => PlaceError::NoFunctions { name, path },
        false => PlaceError::NoFunction {
            near: nearest(plain, known.into_iter().map(str::to_owned)),
            name,
            path,
        },
    })
}

/// Checks that an offset in a function is the start of an instruction: a breakpoint elsewhere would corrupt the
/// program.
fn check_offset(image: &Image, name: &str, offset: usize) -> Result<(), PlaceError> {
    for code in function_code(image, name) {
        let name = name.to_owned();
        if offset >= code.len() {
            return Err(PlaceError::Outside { name, offset, len: code.len() });
        }
        if let Some(inside) = inside_of_instruction(NATIVE, code, offset) {
            let (start, next) = (inside.start, inside.end);
            return Err(PlaceError::Inside { name, offset, start, next });
        }
    }
    Ok(())
}

/// Parses `FILE:PROVIDER:NAME`.
///
/// # Errors
///
/// If it has another form, or the file has no such probe.
pub fn static_probe(place: &str) -> Result<Trigger, PlaceError> {
    let (path, probes) = static_probes_of(place)?;
    Ok(trigger_of(path, &probes))
}

/// Names of the arguments of a static probe that can be read; empty for other places, and probes that are not there.
pub(crate) fn arguments_of(place: &str) -> Vec<&'static str> {
    let probes = place.strip_prefix("usdt:").and_then(|place| static_probes_of(place).ok());
    probes.map_or_else(Vec::new, |(_, probes)| readable(&probes))
}

/// Same as [`static_probe`], with arguments of the probe.
fn static_probe_with_values(
    place: &str,
    wanted: Wanted<'_>,
) -> Result<PlaceWithValues, PlaceError> {
    let (path, probes) = static_probes_of(place)?;
    let values = of_static_probes(&probes, wanted)?;
    Ok(PlaceWithValues { trigger: trigger_of(path, &probes), values, returns: None })
}

fn trigger_of(path: PathBuf, probes: &[StaticProbe]) -> Trigger {
    let place = |probe: &StaticProbe| Place { offset: probe.offset, semaphore: probe.semaphore };
    Trigger::Places { path, places: probes.iter().map(place).collect(), returns: false }
}

/// The file and the probes that `FILE:PROVIDER:NAME` names.
fn static_probes_of(place: &str) -> Result<(PathBuf, Vec<StaticProbe>), PlaceError> {
    let parts = place.rsplit_once(':').and_then(|(rest, name)| {
        let (path, provider) = rest.rsplit_once(':')?;
        [path, provider, name].iter().all(|part| !part.is_empty()).then_some((path, provider, name))
    });
    let Some((path, provider, name)) = parts else {
        return Err(PlaceError::Probe { place: place.to_owned() });
    };
    let path = PathBuf::from(path);
    let probes = static_probes(&open_image(&path).map_err(PlaceError::File)?);
    if probes.is_empty() {
        return Err(PlaceError::NoProbes { path });
    }
    let is_it = |probe: &&StaticProbe| probe.provider == provider && probe.name == name;
    let found: Vec<StaticProbe> = probes.iter().filter(is_it).cloned().collect();
    if found.is_empty() {
        let all = probes.iter().map(|probe| format!("{}:{}", probe.provider, probe.name));
        let name = format!("{provider}:{name}");
        return Err(PlaceError::NoProbe { near: nearest(&name, all), name, path });
    }
    Ok((path, found))
}

/// Returns the probes (`usdt:FILE[:PATTERN]`) or functions (`uprobe:FILE[:PATTERN]`) of a file, or functions of the kernel
/// (`kprobe:PATTERN`), with the names that `record -e` takes. `None` if the text has neither form.
///
/// # Errors
///
/// If the file cannot be read, or is not ELF, or the kernel has no probes.
pub fn known_places(text: &str) -> Option<Result<Vec<KnownEvent>, PlaceError>> {
    if let Some(functions) = kernel_places::known(text) {
        return Some(functions);
    }
    let (prefix, rest) = text.split_once(':')?;
    if !matches!(prefix, "usdt" | "uprobe") {
        return None;
    }
    // The file name may contain a colon; the function or probe follows the last one.
    let (path, pattern) = match rest.rsplit_once(':') {
        Some((path, pattern)) if !Path::new(rest).exists() => (path, pattern),
        _ => (rest, ""),
    };
    Some(places_of(prefix, path, pattern))
}

/// Returns the probes in the files that a process has mapped. Files of another mount namespace are named by paths that
/// can be opened from this one. Also returns the mapped files that do not exist under their names.
///
/// # Errors
///
/// If the process does not exist, or belongs to another user.
pub fn known_probes_of(pid: i32) -> Result<(Vec<KnownEvent>, Vec<PathBuf>), Error> {
    let files: BTreeSet<PathBuf> = mapped_files(&pid.to_string())?.into_iter().collect();
    let (mut probes, mut missing) = (Vec::new(), Vec::new());
    for path in files {
        let theirs = in_root_of(pid, &path);
        let identity = |path: &Path| path.metadata().ok().map(|of| (of.dev(), of.ino()));
        let Some(identity_there) = identity(&theirs) else {
            if !is_memory(&path) {
                missing.push(path);
            }
            continue;
        };
        let is_ours = identity(&path) == Some(identity_there);
        let path = if is_ours { path } else { theirs };
        // Files other than programs and libraries have no probes; their errors are ignored.
        probes.extend(places_of("usdt", &path.to_string_lossy(), "").unwrap_or_default());
    }
    Ok((probes, missing))
}

/// Returns true for shared memory, which has a name in mappings, but no file.
fn is_memory(path: &Path) -> bool {
    const NAMES: [&str; 5] = ["/memfd:", "/dev/", "/SYSV", "/anon_", "/[aio]"];
    NAMES.iter().any(|name| path.as_os_str().as_encoded_bytes().starts_with(name.as_bytes()))
}

fn places_of(prefix: &str, path: &str, pattern: &str) -> Result<Vec<KnownEvent>, PlaceError> {
    let image = open_image(Path::new(path)).map_err(PlaceError::File)?;
    let (names, about): (Vec<String>, _) = match prefix {
        "usdt" => {
            let mut names: Vec<String> = static_probes(&image)
                .iter()
                .map(|probe| format!("{}:{}", probe.provider, probe.name))
                .collect();
            names.dedup();
            (names, "probe")
        }
        _ => (function_names(&image).into_iter().map(str::to_owned).collect(), "function"),
    };
    let event = |name: String| KnownEvent {
        name: format!("{prefix}:{path}:{name}"),
        aliases: Vec::new(),
        class: EventClass::File(format!("{about}s of {path}")),
        about: String::new(),
        fields: Vec::new(),
        refused: None,
    };
    Ok(names.into_iter().filter(|name| matches_pattern(pattern, name)).map(event).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_programs() {
        let path = std::env::current_exe().expect("a path");
        let text = path.to_str().expect("it is text");
        let check = |place: &str, returns, offset: Option<usize>| {
            let probe = function(&format!("{text}:{place}"), returns).ok();
            let expect = |offset| {
                let name = "main".to_owned();
                Trigger::Function { path: path.clone(), name, offset, returns }
            };
            assert_eq!(probe, offset.map(expect), "{place}");
        };
        check("main", false, Some(0));
        // The first instruction's end is the next one's start.
        let image = open_image(&path).expect("it can be read");
        let code = function_code(&image, "main")[0];
        let next = (1..16).find(|at| inside_of_instruction(NATIVE, code, *at).is_none());
        let next = next.expect("an instruction has 15 bytes at most");
        check(&format!("main+{next:#x}"), false, Some(next));
        check(&format!("main+{next}"), false, Some(next));
        for inside in 1..next {
            check(&format!("main+{inside}"), false, None);
        }
        check(&format!("main+{}", code.len()), false, None);
        check("main", true, Some(0));
        check("main+7", true, None);
        check("main+x", false, None);
        check("", false, None);
        for bad in ["", "main", ":main", "/nonexistent:main"] {
            assert!(function(bad, false).is_err(), "{bad}");
        }
        for bad in ["", "a", "a:b", ":a:b", "a::b", "/nonexistent:a:b"] {
            assert!(static_probe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_are_spelled_alike_are_offered() {
        let path = std::env::current_exe().expect("a path");
        let image = open_image(&path).expect("it can be read");
        let text = path.to_str().expect("it is text");
        let error = check_function(&image, text, "mian").expect_err("there is none").to_string();
        assert!(error.contains("did you mean") && error.contains("main"), "{error}");
    }
}
