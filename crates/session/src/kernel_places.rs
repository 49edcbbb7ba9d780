//! Functions of the kernel, given by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::OnceLock;

use pyrograph_event::request::Trigger;
use pyrograph_event::values::{Bits, Memory, ReadValue};
use pyrograph_probe::Shape;
use pyrograph_record::{EventClass, KnownEvent, matches_pattern, nearest};

use crate::error::PlaceError;
use crate::source_places::PlaceWithValues;
use crate::values::{Asked, Asking, FRAME, Wanted, frame_of_call, value_of_register};

/// Symbols of the running kernel, also for those who may not see their addresses.
const SYMBOLS: &str = "/proc/kallsyms";

/// Splits `kprobe:FUNCTION`, or `kretprobe:FUNCTION` for its returns; `fentry:` and `fexit:` mean the same. `None` if the text
/// begins with none of these words.
fn split(text: &str) -> Option<(&str, bool)> {
    let (prefix, name) = text.split_once(':')?;
    match prefix {
        "kprobe" | "fentry" => Some((name, false)),
        "kretprobe" | "fexit" => Some((name, true)),
        _ => None,
    }
}

/// Returns the function of the kernel that a text names: `kprobe:FUNCTION`. `None` if it begins with none of the words for
/// these.
pub(crate) fn named(text: &str) -> Option<Result<Trigger, PlaceError>> {
    let (name, returns) = split(text)?;
    Some(match name.split_once(' ') {
        Some((before, _)) if check(before).is_ok() => {
            Err(PlaceError::ValuesOfPlace { place: text.to_owned() })
        }
        _ => {
            check(name).map(|()| Trigger::KernelFunctions { names: vec![name.to_owned()], returns })
        }
    })
}

/// Same as [`named`], with values of the function's parameters, or what it returns.
pub(crate) fn with_values(
    place: &str,
    wanted: Wanted<'_>,
) -> Option<Result<PlaceWithValues, PlaceError>> {
    let (name, returns) = split(place)?;
    let parse = || {
        check(name)?;
        if wanted.frame && returns {
            return Err(PlaceError::NoCall { place: place.to_owned() });
        }
        let asking = Asking::new(wanted)?;
        let types = Types::default();
        let (reads, named) = asking.read(|asked| value(&types, name, returns, asked))?;
        let trigger = |returns| Trigger::KernelFunctions { names: vec![name.to_owned()], returns };
        Ok(PlaceWithValues {
            trigger: trigger(returns),
            values: asking.resolve(vec![reads], named)?,
            returns: wanted.frame.then(|| trigger(true)),
        })
    };
    Some(parse())
}

fn value(
    types: &Types,
    name: &str,
    returns: bool,
    asked: &Asked<'_>,
) -> Result<(ReadValue, Shape), PlaceError> {
    if asked.expression == FRAME {
        return Ok((ReadValue::Number(frame_of_call(), Bits::ALL), Shape::Address));
    }
    match types.value(name, returns, asked.expression, asked.as_text) {
        Err(error) => value_of_register(asked, returns, Memory::Kernel).ok_or(error),
        found => found,
    }
}

/// Checks that there is a function, and that the kernel can watch it.
fn check(name: &str) -> Result<(), PlaceError> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || "_.$".contains(part);
    if name.is_empty() || !name.chars().all(is_part) {
        return Err(PlaceError::KernelFunction { name: name.to_owned() });
    }
    let names = symbols();
    if !names.contains_key(name) {
        let near = nearest(name, names.keys().cloned());
        return Err(PlaceError::NoKernelFunction { name: name.to_owned(), near });
    }
    has_probes()
}

/// Checks that the kernel has probes.
fn has_probes() -> Result<(), PlaceError> {
    let is_there = |path: &str| Path::new(path).exists();
    let has = is_there("/sys/bus/event_source/devices/kprobe")
        || is_there("/sys/kernel/tracing/kprobe_events");
    if has { Ok(()) } else { Err(PlaceError::NoKernelProbes) }
}

/// Names of the functions of the kernel and its modules, as they were when this was called first, with their modules.
fn symbols() -> &'static BTreeMap<String, Option<String>> {
    static NAMES: OnceLock<BTreeMap<String, Option<String>>> = OnceLock::new();
    NAMES.get_or_init(read_symbols)
}

fn read_symbols() -> BTreeMap<String, Option<String>> {
    let text = std::fs::read(SYMBOLS).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // `ffffffff812b3c10 t do_filp_open`, `ffffffffc0a6f010 t ovl_open	[overlay]`
    let name = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_code = matches!(words.nth(1)?, "t" | "T" | "w" | "W");
        let name = words.next().filter(|_| is_code)?;
        // What fills the room before functions.
        if name.starts_with("__pfx_") || name.starts_with("__cfi_") {
            return None;
        }
        let name = name.to_owned();
        let module = words.next().map(|word| word.trim_matches(['[', ']']).to_owned());
        Some((name, module))
    };
    text.lines().filter_map(name).collect()
}

/// Returns the functions that `kprobe:PATTERN` stands for, each with its name as an event. `None` if the text begins with none of
/// the words for these.
pub(crate) fn matching(text: &str) -> Option<Result<Vec<(String, Trigger)>, PlaceError>> {
    let (prefix, _) = text.split_once(':')?;
    let (pattern, returns) = split(text)?;
    let matching = |name: String| {
        (format!("{prefix}:{name}"), Trigger::KernelFunctions { names: vec![name], returns })
    };
    Some(has_probes().map(|()| {
        let names = watchable().into_iter().filter(|name| matches_pattern(pattern, name));
        names.map(matching).collect()
    }))
}

/// Names of the functions that can be watched, as far as the kernel says; else of all.
fn watchable() -> BTreeSet<String> {
    traceable().unwrap_or_else(|| symbols().keys().cloned().collect())
}

/// Names of the functions that the kernel's function tracer knows. `None` if it has none, or does not say.
fn traceable() -> Option<BTreeSet<String>> {
    // `vfs_read`, `ext4_readdir [ext4]`
    let listed = std::fs::read_to_string("/sys/kernel/tracing/available_filter_functions").ok()?;
    let first = |line: &str| line.split_ascii_whitespace().next().map(str::to_owned);
    let names: BTreeSet<String> = listed.lines().filter_map(first).collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the functions of the kernel (`kprobe:PATTERN`) with their signatures, where the kernel describes them. `None` if the
/// text has another form.
///
/// # Errors
///
/// If the kernel has no probes.
pub(crate) fn known(text: &str) -> Option<Result<Vec<KnownEvent>, PlaceError>> {
    let (prefix, _) = text.split_once(':')?;
    let (pattern, _) = split(text)?;
    // Probes at what ftrace knows use its calls: `Documentation/trace/kprobes.rst` of Linux.
    let traceable = traceable().unwrap_or_default();
    let how = |name: &String| match traceable.contains(name) {
        true => "by ftrace, without a trap",
        false => "by a breakpoint",
    };
    let event = |(name, signature): (&String, String)| KnownEvent {
        name: format!("{prefix}:{name}"),
        aliases: Vec::new(),
        class: EventClass::File(format!("functions of the kernel, {}", how(name))),
        about: signature,
        fields: Vec::new(),
        refused: None,
    };
    Some(has_probes().map(|()| {
        let names = symbols().iter().filter(|(name, _)| matches_pattern(pattern, name));
        let mut by_module: BTreeMap<Option<&str>, HashMap<String, String>> = BTreeMap::new();
        let mut events: Vec<KnownEvent> = names
            .map(|(name, module)| {
                let module = module.as_deref();
                let signatures =
                    by_module.entry(module).or_insert_with(|| Types::default().signatures(module));
                event((name, signatures.remove(name).unwrap_or_default()))
            })
            .collect();
        // One heading for each way.
        events.sort_by_key(|event| event.class.to_string());
        events
    }))
}

/// Types of the kernel, with those of one module, read when they are needed.
#[derive(Debug, Default)]
struct Types {
    #[cfg(feature = "bpf")]
    types: std::cell::OnceCell<Option<pyrograph_bpf::KernelTypes>>,
}

#[cfg(feature = "bpf")]
impl Types {
    /// The types of the kernel, with those of a module.
    fn get(&self, module: Option<&str>) -> Option<&pyrograph_bpf::KernelTypes> {
        let read = || match module {
            Some(module) => pyrograph_bpf::KernelTypes::with_module(module),
            None => pyrograph_bpf::KernelTypes::of_this_kernel(),
        };
        self.types.get_or_init(read).as_ref()
    }

    fn value(
        &self,
        function: &str,
        returns: bool,
        expression: &str,
        as_text: bool,
    ) -> Result<(ReadValue, Shape), PlaceError> {
        let module = symbols().get(function).and_then(Option::as_deref);
        let types = self.get(module).ok_or_else(|| not_described(expression))?;
        types.value(function, returns, expression, as_text).map_err(PlaceError::Source)
    }

    /// Signatures by name.
    fn signatures(&self, module: Option<&str>) -> HashMap<String, String> {
        self.get(module).map(|types| types.functions().into_iter().collect()).unwrap_or_default()
    }
}

#[cfg(not(feature = "bpf"))]
impl Types {
    fn value(
        &self,
        _: &str,
        _: bool,
        expression: &str,
        _: bool,
    ) -> Result<(ReadValue, Shape), PlaceError> {
        Err(not_described(expression))
    }

    fn signatures(&self, _: Option<&str>) -> HashMap<String, String> {
        HashMap::new()
    }
}

fn not_described(expression: &str) -> PlaceError {
    let why = "this kernel, or the module, does not describe its types (BTF); arg1 to arg6 and $retval are there";
    PlaceError::Value { expression: expression.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_by_name() {
        assert_eq!(split("kprobe:vfs_read"), Some(("vfs_read", false)));
        assert_eq!(split("fexit:vfs_read"), Some(("vfs_read", true)));
        assert_eq!(split("uprobe:vfs_read"), None);
        let error = |text| {
            let named = named(text).expect("it begins with kprobe:");
            named.expect_err("there is none").to_string()
        };
        for bad in ["kprobe:", "kprobe:a+0x10", "kprobe:a:7"] {
            assert!(error(bad).contains("use kprobe:FUNCTION"), "{bad}: {}", error(bad));
        }
        if symbols().is_empty() {
            eprintln!("skipped: this kernel does not list its symbols");
            return;
        }
        assert!(error("kprobe:vfs_raed").contains("did you mean vfs_read"));
        let found = named("kretprobe:vfs_read").expect("it begins with kretprobe:");
        match (has_probes(), found) {
            (Ok(()), Ok(Trigger::KernelFunctions { names, returns: true })) => {
                assert_eq!(names, ["vfs_read"]);
            }
            (Err(_), Err(PlaceError::NoKernelProbes)) => {}
            (_, found) => panic!("{found:?}"),
        }
    }
}
