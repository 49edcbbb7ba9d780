//! Lists of events: the events of this machine, and parsing of lists on a command line.

use std::fmt;
use std::fs;
use std::io;

use super::pmu::{Sources, file_names};
use super::{Code, Event, EventError, names};
use crate::permission::{NotPermitted, Rights, Wanted};
use crate::sys;
use pyrograph_event::{Attr, flag, type_id};

/// Kinds of events, in the order in which they are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventClass {
    /// Hardware events with generic names, which all CPUs share.
    Hardware,
    /// Hardware events of the CPU's caches.
    Cache,
    /// Software events, counted by the kernel.
    Software,
    /// Events of the PMU with this name.
    Pmu(String),
    /// Tracepoints of the system with this name.
    Tracepoint(String),
    /// Probes in a program or library, with its path.
    File(String),
}

/// An event that can be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEvent {
    /// Name, as [`Event::parse`] takes it.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Its kind.
    pub class: EventClass,
    /// Description in one line.
    pub about: String,
    /// Fields of a tracepoint in the order of its format: type and name.
    pub fields: Vec<String>,
    /// Reason why it cannot be counted here; `None` if it can.
    pub refused: Option<Refusal>,
}

/// Reasons why an event cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// This machine has no counter for it.
    Unsupported,
    /// It is not permitted.
    NotPermitted(NotPermitted),
    /// Its counts cannot be kept apart by what runs (thread, process, control group), for this reason.
    NotApart(&'static str),
    /// Perf events do not count it, for this reason.
    NotByPerf(&'static str),
    /// Another errno of the kernel.
    Other(i32),
}

impl Refusal {
    /// Interprets the errno of an attempt to count something that may not be permitted.
    pub(crate) fn new(errno: i32, rights: &Rights, wanted: impl FnOnce() -> Wanted) -> Self {
        match errno {
            libc::EACCES | libc::EPERM | libc::ENOSYS => {
                Self::NotPermitted(rights.explain(wanted(), errno))
            }
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO => Self::Unsupported,
            errno => Self::Other(errno),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str(
                "this machine does not count such events, as is usual in virtual machines",
            ),
            Self::NotPermitted(why) => write!(f, "not permitted: {}", why.cause),
            Self::NotApart(why) | Self::NotByPerf(why) => f.write_str(why),
            Self::Other(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl fmt::Display for EventClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware => f.write_str("hardware"),
            Self::Cache => f.write_str("hardware cache"),
            Self::Software => f.write_str("software"),
            Self::Pmu(pmu) => write!(f, "PMU {pmu}"),
            Self::Tracepoint(system) => write!(f, "tracepoints of {system}"),
            Self::File(path) => f.write_str(path),
        }
    }
}

/// Returns the events of this machine that match a pattern, ordered by kind. If tracepoints cannot be read, returns the
/// reason, too.
///
/// A pattern is a name, a part of a name, or contains `*` and `?`. An empty pattern matches all.
pub fn known_events(pattern: &str) -> (Vec<KnownEvent>, Option<EventError>) {
    known_events_of(pattern, &Sources::of_this_machine())
}

pub(super) fn known_events_of(
    pattern: &str,
    sources: &Sources,
) -> (Vec<KnownEvent>, Option<EventError>) {
    let pattern = without_prefix(pattern);
    let is_wanted = |name: &str| matches_pattern(pattern, name);
    let rights = Rights::read();
    let mut events: Vec<KnownEvent> = names::described()
        .filter(|(event, aliases, _)| {
            is_wanted(event) || aliases.iter().any(|name| is_wanted(name))
        })
        .map(|(name, aliases, about)| {
            let code = names::find(&name).map(|(_, code)| code).unwrap_or_default();
            let class = match code.type_ {
                type_id::HARDWARE => EventClass::Hardware,
                type_id::HW_CACHE => EventClass::Cache,
                _ => EventClass::Software,
            };
            let refused = try_to_count(&code, &rights);
            KnownEvent { name, aliases, class, about, fields: Vec::new(), refused }
        })
        .collect();
    for pmu in file_names(&sources.devices) {
        let device = sources.devices.join(&pmu);
        let names = file_names(&device.join("events"));
        for event in names.into_iter().filter(|name| !name.contains('.')) {
            let name = format!("{pmu}/{event}/");
            if !is_wanted(&name) {
                continue;
            }
            let read = |suffix: &str| {
                let path = device.join("events").join(format!("{event}{suffix}"));
                fs::read_to_string(path).map(|text| text.trim().to_owned()).ok()
            };
            let unit = read(".unit").map(|unit| format!(", in {unit}")).unwrap_or_default();
            let about = format!("{}{unit}", read("").unwrap_or_default());
            let refused = sources.pmu_event(&pmu, &event).ok();
            let refused = refused.and_then(|code| try_to_count(&code, &rights));
            let class = EventClass::Pmu(pmu.clone());
            let (aliases, fields) = (Vec::new(), Vec::new());
            events.push(KnownEvent { name, aliases, class, about, fields, refused });
        }
    }
    let denied = match sources.tracepoints("*:*") {
        Ok(points) => {
            let mut refused = None;
            for (system, point, path) in points {
                let name = format!("{system}:{point}");
                if !is_wanted(&name) {
                    continue;
                }
                // The answer is the same for all tracepoints.
                let refused = refused.get_or_insert_with(|| {
                    let config = sources.tracepoint(&system, &point).unwrap_or_default();
                    let code = Code { type_: type_id::TRACEPOINT, config, ..Code::default() };
                    try_to_count(&code, &rights)
                });
                let format = fs::read_to_string(path.join("format")).unwrap_or_default();
                let fields = fields(&format);
                let names: Vec<&str> = fields
                    .iter()
                    .map(|field| field_name(field))
                    .filter(|name| *name != "__syscall_nr")
                    .collect();
                let about =
                    match (point.strip_prefix("sys_enter_"), point.strip_prefix("sys_exit_")) {
                        (Some(call), _) => format!("call of {call}({})", names.join(", ")),
                        (_, Some(call)) => format!("return of {call}"),
                        _ => names.join(", "),
                    };
                events.push(KnownEvent {
                    name,
                    aliases: Vec::new(),
                    class: EventClass::Tracepoint(system),
                    about,
                    fields,
                    refused: refused.clone(),
                });
            }
            None
        }
        Err(error) => Some(error),
    };
    events.extend(unnamed(pattern, sources, &rights).filter(|_| events.is_empty()));
    events.sort_by(|a, b| a.class.cmp(&b.class));
    (events, denied)
}

/// Parses an event with a code instead of a name: `r01c2`, `cpu/event=0x3c/`.
fn unnamed(text: &str, sources: &Sources, rights: &Rights) -> Option<KnownEvent> {
    let event = Event::parse_with(text, sources).ok()?;
    let pmu = match text.split_once('/') {
        Some((pmu, _)) => pmu,
        None if event.code.type_ == type_id::RAW => "cpu",
        None => return None,
    };
    Some(KnownEvent {
        name: text.to_owned(),
        aliases: Vec::new(),
        class: EventClass::Pmu(pmu.to_owned()),
        about: format!("code {:#x}", event.code.config),
        fields: Vec::new(),
        refused: try_to_count(&event.code, rights),
    })
}

/// A tracepoint and its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointFormat {
    /// System that it belongs to: `sched`.
    pub system: String,
    /// Name: `sched_switch`.
    pub name: String,
    /// Content of its `format` file in tracefs.
    pub format: String,
}

/// Returns the tracepoints with a name (`sched:sched_switch`) or that match a pattern (`block:*`).
///
/// # Errors
///
/// If there is none, or tracefs cannot be read.
pub fn tracepoint_formats(pattern: &str) -> Result<Vec<TracepointFormat>, EventError> {
    let sources = Sources::of_this_machine();
    let pattern = without_prefix(pattern);
    let all = sources.tracepoints(pattern)?;
    let is_wanted = |name: &str| match pattern.contains(['*', '?']) {
        true => matches(pattern, name),
        false => pattern == name,
    };
    let found: Vec<_> =
        all.iter().filter(|(system, name, _)| is_wanted(&format!("{system}:{name}"))).collect();
    if found.is_empty() {
        let names = all.iter().map(|(system, name, _)| format!("{system}:{name}"));
        let near = names::nearest(pattern, names);
        return Err(EventError::Unknown { name: pattern.to_owned(), near });
    }
    let read = |(system, name, folder): &(String, String, std::path::PathBuf)| {
        let path = folder.join("format");
        let format = fs::read_to_string(&path)
            .map_err(|_| EventError::TracefsDenied { name: format!("{system}:{name}"), path })?;
        Ok(TracepointFormat { system: system.clone(), name: name.clone(), format })
    };
    found.into_iter().map(read).collect()
}

/// Returns the fields in a tracepoint's format, without those that all tracepoints have (`common_…`).
fn fields(format: &str) -> Vec<String> {
    let field = |line: &str| {
        let declaration = line.trim().strip_prefix("field:")?.split(';').next()?.to_owned();
        (!field_name(&declaration).starts_with("common_")).then_some(declaration)
    };
    format.lines().filter_map(field).collect()
}

/// Returns the name in a declaration such as `char comm[16]`.
fn field_name(declaration: &str) -> &str {
    let name = declaration.rsplit([' ', '*']).next().unwrap_or(declaration);
    name.split('[').next().unwrap_or(name)
}

/// Opens an event of this process, or of a CPU, since some events can be opened only there. Returns the reason if both
/// fail.
fn try_to_count(code: &Code, rights: &Rights) -> Option<Refusal> {
    let mut attr = Attr::new();
    code.fill(&mut attr);
    let attempt = |flags, tid, cpu| {
        sys::perf_event_open(&attr.with(flag::DISABLED | flags), tid, cpu)
            .err()
            .map(|error| error.raw_os_error().unwrap_or(0))
    };
    let mut errno = attempt(0, 0, None)?;
    if matches!(errno, libc::EACCES | libc::EPERM) {
        // It may be permitted without kernel mode.
        errno = attempt(flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV, 0, None)?;
    } else if errno == libc::EINVAL {
        errno = attempt(0, -1, Some(0))?;
    }
    Some(Refusal::new(errno, rights, || Wanted::Kernel))
}

/// A tracepoint's name without the word that bpftrace puts before it: `tracepoint:sched:sched_switch`.
pub(super) fn without_prefix(text: &str) -> &str {
    text.strip_prefix("tracepoint:").filter(|rest| rest.contains(':')).unwrap_or(text)
}

/// Returns true if a name matches a pattern with `*` and `?`, or contains a text without these, ignoring case.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.contains(['*', '?']) {
        true => matches(pattern, name),
        false => name.to_ascii_lowercase().contains(&pattern.to_ascii_lowercase()),
    }
}

/// Returns true if a text matches a pattern, in which `*` matches any text and `?` any character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Position of the last `*` in the pattern, and end of the text that it matches.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[place] => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((behind, reaches)) => {
                    star = Some((behind, reaches + 1));
                    at = behind + 1;
                    place = reaches + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

impl Event {
    /// Parses a list of events: `a,b`, with groups in braces, `{a,b}`, and patterns of tracepoints,
    /// `'syscalls:sys_enter_*'`. Each event outside of braces is a group of its own.
    ///
    /// # Errors
    ///
    /// If an event is not known, or no tracepoint matches a pattern.
    pub fn parse_list(text: &str) -> Result<Vec<Vec<Self>>, EventError> {
        Self::parse_list_with(text, &Sources::of_this_machine())
    }

    pub(super) fn parse_list_with(
        text: &str,
        sources: &Sources,
    ) -> Result<Vec<Vec<Self>>, EventError> {
        let mut groups = Vec::new();
        for part in split(text, true) {
            let Some(group) = part.strip_prefix('{') else {
                groups.extend(
                    Self::parse_pattern(part, sources)?.into_iter().map(|event| vec![event]),
                );
                continue;
            };
            // Modifiers after a group apply to all its events.
            let (group, modifiers) = group.rsplit_once('}').unwrap_or((group, ""));
            let mut events = Vec::new();
            for part in split(group, false) {
                events.extend(Self::parse_pattern(&format!("{part}{modifiers}"), sources)?);
            }
            groups.push(events);
        }
        groups.retain(|group| !group.is_empty());
        Ok(groups)
    }

    fn parse_pattern(text: &str, sources: &Sources) -> Result<Vec<Self>, EventError> {
        if !text.contains('*') || text.contains('/') {
            return Ok(vec![Self::parse_with(text, sources)?]);
        }
        let text = without_prefix(text);
        let unknown = || EventError::Unknown { name: text.to_owned(), near: Vec::new() };
        let mut parts = text.splitn(3, ':');
        let (Some(system), Some(point)) = (parts.next(), parts.next()) else {
            return Err(unknown());
        };
        let modifiers = parts.next().map(|modifiers| format!(":{modifiers}")).unwrap_or_default();
        let pattern = format!("{system}:{point}");
        let points = sources.tracepoints(&pattern)?;
        let names = points.into_iter().map(|(system, point, _)| format!("{system}:{point}"));
        let events: Vec<Self> = names
            .filter(|name| matches(&pattern, name))
            // Some directories are no tracepoints: they have no ID.
            .filter_map(|name| Self::parse_with(&format!("{name}{modifiers}"), sources).ok())
            .collect();
        if events.is_empty() { Err(unknown()) } else { Ok(events) }
    }
}

/// Splits at commas, except inside of `/…/` and, with `braces`, of `{…}`.
fn split(text: &str, braces: bool) -> Vec<&str> {
    let (mut parts, mut start, mut slash, mut depth) = (Vec::new(), 0, false, 0usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '/' => slash = !slash,
            '{' if braces => depth += 1,
            '}' if braces => depth = depth.saturating_sub(1),
            ',' if !slash && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, is_match) in [
            ("sched:*", "sched:sched_switch", true),
            ("*:sys_enter_?pen*", "syscalls:sys_enter_openat", true),
            ("*a*b", "xxaxxab", true),
            ("*a*b", "xxaxxabc", false),
            ("", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }

    #[test]
    fn lists_have_groups_patterns_and_modifiers() {
        let (_dir, sources) = machine();
        let names = |text: &str| {
            let groups = Event::parse_list_with(text, &sources).expect("known events");
            let name = |event: &Event| {
                format!("{}{}", event.name(), if event.modifiers.user { ":u" } else { "" })
            };
            groups.iter().map(|group| group.iter().map(name).collect()).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(names("cycles,cs"), [["cycles"], ["context-switches"]]);
        assert_eq!(names("{cycles,instructions}:u,faults").len(), 2);
        assert_eq!(names("{cycles,instructions}:u")[0], ["cycles:u", "instructions:u"]);
        assert_eq!(names("cpu/event=1,umask=2/,cs").len(), 2);
        assert_eq!(names("sched:*"), [["sched:sched_switch"]]);
        assert_eq!(names("s*:*switch:u"), [["sched:sched_switch:u"]]);
        assert!(Event::parse_list_with("nosuch:*", &sources).is_err());
        assert!(Event::parse_list_with("cycles,nosuch", &sources).is_err());
    }

    #[test]
    fn fields_have_types_and_names() {
        let format = "name: x\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\n\n\
                      \tfield:char comm[16];\toffset:8;\tsize:16;\n\tfield:const char * name;\toffset:24;\n";
        let fields = fields(format);
        assert_eq!(fields, ["char comm[16]", "const char * name"]);
        assert_eq!(
            fields.iter().map(|field| field_name(field)).collect::<Vec<_>>(),
            ["comm", "name"]
        );
    }

    #[test]
    fn each_kind_is_listed() {
        let (_dir, sources) = machine();
        let (events, denied) = known_events_of("", &sources);
        assert_eq!(denied, None);
        let of = |name: &str| events.iter().find(|event| event.name == name).expect("a known name");
        assert_eq!(of("cycles").class, EventClass::Hardware);
        assert_eq!(of("cycles").aliases, ["cpu-cycles"]);
        assert_eq!(of("LLC-loads").class, EventClass::Cache);
        assert_eq!(of("page-faults").class, EventClass::Software);
        assert_eq!(of("cpu/mem-loads/").about, "event=0xcd,umask=0x1");
        assert_eq!(of("sched:sched_switch").class, EventClass::Tracepoint("sched".to_owned()));
        let (events, _) = known_events_of("*:sched_*", &sources);
        assert_eq!(events.len(), 1);
        let (events, _) = known_events_of("FAULTS", &sources);
        assert!(events.len() >= 5, "{events:?}");
    }
}
