//! Events to count or sample.

mod list;
mod names;
mod pmu;

use std::path::PathBuf;
use std::sync::Arc;

pub use list::{
    EventClass, KnownEvent, Refusal, TracepointFormat, known_events, matches_pattern,
    tracepoint_formats,
};
pub use names::nearest;
use pyrograph_event::request::Trigger;
use pyrograph_event::{Attr, software, type_id};

/// An event to count or sample, by its name.
///
/// The names are those that `perf list` shows: `cycles`, `page-faults`, `L1-dcache-load-misses`; `r01c2` for a raw
/// code; `cpu/event=0x3c,umask=0x1/` or a name from `/sys/bus/event_source/devices/PMU/events`; `sched:sched_switch`
/// for a tracepoint. After a colon (for a PMU's event, after the last slash) may follow the modifiers `u` (user mode
/// only), `k` (kernel mode only), `h` (hypervisor) and one to three `p` (less and less skid).
///
/// ```
/// use pyrograph_record::{Event, Unit};
///
/// assert_eq!(Event::parse("cpu-clock:u")?.unit(), Unit::Nanoseconds);
/// assert_eq!(Event::parse("faults")?.name(), "page-faults");
/// let error = Event::parse("cycels").unwrap_err();
/// assert!(error.to_string().contains("cycles"));
/// # Ok::<(), pyrograph_record::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    name: String,
    pub(crate) code: Code,
    pub(crate) modifiers: Modifiers,
    /// The place in a program that is the event. Perf events do not count it then.
    place: Option<Arc<Trigger>>,
}

/// Code of an event, as in `perf_event_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Code {
    pub type_: u32,
    pub config: u64,
    pub config1: u64,
    pub config2: u64,
    pub config3: u64,
}

impl Code {
    fn fill(&self, attr: &mut Attr) {
        attr.type_ = self.type_;
        attr.config = self.config;
        attr.config1 = self.config1;
        attr.config2 = self.config2;
        attr.config3 = self.config3;
    }
}

/// Modifiers after the event's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modifiers {
    pub user: bool,
    pub kernel: bool,
    pub hypervisor: bool,
    pub precise: u8,
}

/// Units of an event's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Time, for the clocks.
    Nanoseconds,
    /// Number of occurrences.
    Count,
}

/// Reasons why an event's name could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No event has this name.
    #[error("unknown event '{name}'{}", similar(.near))]
    Unknown {
        /// The name.
        name: String,
        /// Similar names, nearest first.
        near: Vec<String>,
    },
    /// A modifier other than `u`, `k`, `h`, `p`, or more than three `p`.
    #[error(
        "unknown modifiers '{modifiers}' of event '{name}': u, k, h and up to three p are known"
    )]
    Modifiers {
        /// The event's name.
        name: String,
        /// The modifiers.
        modifiers: String,
    },
    /// A term that the PMU does not have, in the name of a PMU's event.
    #[error("PMU '{pmu}' has no '{term}'{}", similar(.near))]
    Term {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
        /// Similar terms, nearest first.
        near: Vec<String>,
    },
    /// The ID of a tracepoint cannot be looked up because tracefs is not mounted.
    #[error(
        "tracepoint '{name}' cannot be looked up: tracefs is not mounted; \
         to mount it: sudo mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NoTracefs {
        /// The tracepoint.
        name: String,
    },
    /// tracefs is mounted, but only root may read it.
    #[error("tracepoint '{name}' cannot be looked up: only root may read {}; run as root (sudo), or with cap_dac_read_search", path.display())]
    TracefsDenied {
        /// The tracepoint.
        name: String,
        /// File or directory that could not be read.
        path: PathBuf,
    },
}

fn similar(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(", ")) }
}

impl Event {
    /// Finds the event with this name on this machine.
    ///
    /// # Errors
    ///
    /// If there is none; the error lists events with a similar spelling.
    pub fn parse(text: &str) -> Result<Self, EventError> {
        Self::parse_with(text, &pmu::Sources::of_this_machine())
    }

    fn parse_with(text: &str, sources: &pmu::Sources) -> Result<Self, EventError> {
        if let Some((pmu, rest)) = text.split_once('/') {
            let (terms, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
            let code = sources.pmu_event(pmu, terms)?;
            let name = format!("{pmu}/{terms}/");
            let modifiers = Modifiers::parse(&name, modifiers)?;
            return Ok(Self { modifiers, code, name, place: None });
        }
        let text = list::without_prefix(text);
        // `cycles:u` looks like a tracepoint, so known names are tried first.
        let (name, modifiers) = text.split_once(':').unwrap_or((text, ""));
        if let Some((name, code)) = names::find(name).or_else(|| sources.named_event(name)) {
            let modifiers = Modifiers::parse(&name, modifiers)?;
            return Ok(Self { modifiers, code, name, place: None });
        }
        if !modifiers.is_empty() {
            let (point, modifiers) = modifiers.split_once(':').unwrap_or((modifiers, ""));
            let code = Code {
                type_: type_id::TRACEPOINT,
                config: sources.tracepoint(name, point)?,
                ..Code::default()
            };
            let name = format!("{name}:{point}");
            let modifiers = Modifiers::parse(&name, modifiers)?;
            return Ok(Self { modifiers, code, name, place: None });
        }
        let known = names::all().into_iter().chain(sources.event_names());
        Err(EventError::Unknown { name: text.to_owned(), near: nearest(name, known) })
    }

    /// Returns the names of all events that are known on this machine, except tracepoints. The hardware may not count
    /// all of them.
    pub fn known_names() -> Vec<String> {
        let mut names = names::all();
        names.extend(pmu::Sources::of_this_machine().event_names());
        names
    }

    /// Returns the event `cycles`: CPU cycles, counted by the hardware.
    pub fn cycles() -> Self {
        Self::known("cycles")
    }

    /// Returns the event `cpu-clock`: time of a CPU, by the kernel's timer.
    pub fn cpu_clock() -> Self {
        Self::known("cpu-clock")
    }

    fn known(name: &str) -> Self {
        let code = names::find(name).map_or_else(Code::default, |(_, code)| code);
        Self { name: name.to_owned(), code, modifiers: Modifiers::default(), place: None }
    }

    /// Returns the event that programs come to a place: a function or instructions. Only eBPF programs count it.
    pub fn at_place(name: &str, place: Trigger) -> Self {
        let (name, code, modifiers) = (name.to_owned(), Code::default(), Modifiers::default());
        Self { name, code, modifiers, place: Some(Arc::new(place)) }
    }

    /// The place in a program, if that is the event.
    pub fn place(&self) -> Option<&Trigger> {
        self.place.as_deref()
    }

    /// Returns the name without modifiers, in the spelling that `perf list` prefers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the letters of the modifiers. Empty for none.
    pub fn modifiers_text(&self) -> String {
        let Modifiers { user, kernel, hypervisor, precise } = self.modifiers;
        let letters = [(user, 'u'), (kernel, 'k'), (hypervisor, 'h')];
        let letters = letters.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter);
        letters.chain(std::iter::repeat_n('p', usize::from(precise))).collect()
    }

    /// Unit of the count.
    pub fn unit(&self) -> Unit {
        match (self.code.type_, self.code.config) {
            _ if self.place.is_some() => Unit::Count,
            (type_id::SOFTWARE, software::CPU_CLOCK | software::TASK_CLOCK) => Unit::Nanoseconds,
            _ => Unit::Count,
        }
    }

    /// Returns true if it is a tracepoint.
    pub fn is_tracepoint(&self) -> bool {
        self.code.type_ == type_id::TRACEPOINT
    }

    /// Returns the system and the name of a tracepoint without modifiers. `None` for other events.
    pub fn plain_tracepoint(&self) -> Option<(&str, &str)> {
        let is_plain = self.is_tracepoint() && self.modifiers == Modifiers::default();
        self.name.split_once(':').filter(|_| is_plain)
    }

    /// Returns true if it is `context-switches` without modifiers.
    pub fn is_context_switches(&self) -> bool {
        (self.code.type_, self.code.config) == (type_id::SOFTWARE, software::CONTEXT_SWITCHES)
            && self.modifiers == Modifiers::default()
    }

    /// Returns true if it is `cgroup-switches`: switches to a thread of another control group.
    pub fn is_cgroup_switches(&self) -> bool {
        (self.code.type_, self.code.config) == (type_id::SOFTWARE, software::CGROUP_SWITCHES)
    }

    /// Returns true if the kernel counts its events one by one: page faults, context switches, tracepoints.
    pub fn is_counted_by_kernel(&self) -> bool {
        self.is_tracepoint() || self.code.type_ == type_id::SOFTWARE && !self.is_clock()
    }

    /// Returns true if it happens in kernel mode only, so that nothing would be counted if kernel mode were excluded.
    pub(crate) fn happens_in_kernel(&self) -> bool {
        const IN_KERNEL: [u64; 3] =
            [software::CONTEXT_SWITCHES, software::CPU_MIGRATIONS, software::CGROUP_SWITCHES];
        self.is_tracepoint()
            || self.code.type_ == type_id::SOFTWARE && IN_KERNEL.contains(&self.code.config)
    }

    /// Returns true if it is `cpu-clock` or `task-clock`, which use the kernel's timer and tick on idle CPUs, too.
    pub(crate) fn is_clock(&self) -> bool {
        self.unit() == Unit::Nanoseconds
    }

    /// Fills in the attributes that identify the event.
    pub(crate) fn fill(&self, attr: &mut Attr) {
        self.code.fill(attr);
        *attr = attr.with_precise_ip(self.modifiers.precise);
    }
}

impl Modifiers {
    fn parse(name: &str, text: &str) -> Result<Self, EventError> {
        let mut modifiers = Self::default();
        for letter in text.chars() {
            match letter {
                'u' => modifiers.user = true,
                'k' => modifiers.kernel = true,
                'h' => modifiers.hypervisor = true,
                'p' if modifiers.precise < 3 => modifiers.precise += 1,
                _ => {
                    return Err(EventError::Modifiers {
                        name: name.to_owned(),
                        modifiers: text.to_owned(),
                    });
                }
            }
        }
        Ok(modifiers)
    }

    /// Returns true if user mode is counted. Without `u`, `k` and `h`, all modes are.
    pub(crate) fn counts_user(self) -> bool {
        self.user || !(self.kernel || self.hypervisor)
    }

    /// Returns true if kernel mode is counted.
    pub(crate) fn counts_kernel(self) -> bool {
        self.kernel || !(self.user || self.hypervisor)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pyrograph_event::hardware;

    use super::*;

    /// A machine with one PMU and one tracepoint.
    pub(super) fn machine() -> (tempfile::TempDir, pmu::Sources) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("devices/cpu/type", "4\n");
        write("devices/cpu/format/event", "config:0-7\n");
        write("devices/cpu/format/umask", "config:8-15\n");
        write("devices/cpu/format/wide", "config1:0-3,8-11\n");
        write("devices/cpu/format/any", "config:21\n");
        write("devices/cpu/events/mem-loads", "event=0xcd,umask=0x1\n");
        write("devices/cpu/events/mem-loads.scale", "0.5\n");
        write("devices/cpu/events/cpu-cycles", "event=0x3c\n");
        write("tracing/events/sched/sched_switch/id", "316\n");
        let sources = pmu::Sources {
            devices: dir.path().join("devices"),
            tracing: vec![dir.path().join("nowhere"), dir.path().join("tracing")],
        };
        (dir, sources)
    }

    fn code(type_: u32, config: u64) -> Code {
        Code { type_, config, ..Code::default() }
    }

    #[test]
    fn names_of_all_kinds() {
        let (_dir, sources) = machine();
        let check = |text: &str, name: &str, expect: Code| {
            let event = Event::parse_with(text, &sources).unwrap();
            assert_eq!((event.name(), event.code), (name, expect), "{text}");
        };
        check("cycles", "cycles", code(type_id::HARDWARE, hardware::CPU_CYCLES));
        check("cpu-cycles", "cycles", code(type_id::HARDWARE, hardware::CPU_CYCLES));
        check(
            "branch-instructions",
            "branches",
            code(type_id::HARDWARE, hardware::BRANCH_INSTRUCTIONS),
        );
        check("cs", "context-switches", code(type_id::SOFTWARE, software::CONTEXT_SWITCHES));
        check("L1-dcache-load-misses", "L1-dcache-load-misses", code(type_id::HW_CACHE, 1 << 16));
        check("llc-stores", "LLC-stores", code(type_id::HW_CACHE, 2 | 1 << 8));
        check(
            "dTLB-prefetch-misses",
            "dTLB-prefetch-misses",
            code(type_id::HW_CACHE, 3 | 2 << 8 | 1 << 16),
        );
        check("r1A8", "r1A8", code(type_id::RAW, 0x1a8));
        check("mem-loads", "mem-loads", code(4, 0x1cd));
        check("cpu/mem-loads/", "cpu/mem-loads/", code(4, 0x1cd));
        check(
            "cpu/event=0x3c,umask=2,any/",
            "cpu/event=0x3c,umask=2,any/",
            code(4, 0x3c | 2 << 8 | 1 << 21),
        );
        check(
            "cpu/wide=0xab/",
            "cpu/wide=0xab/",
            Code { type_: 4, config1: 0xa0b, ..Code::default() },
        );
        check("cpu/config=0x1ff/", "cpu/config=0x1ff/", code(4, 0x1ff));
        check("sched:sched_switch", "sched:sched_switch", code(type_id::TRACEPOINT, 316));
    }

    #[test]
    fn modifiers() {
        let (_dir, sources) = machine();
        let check = |text: &str, user, kernel, precise| {
            let modifiers = Event::parse_with(text, &sources).unwrap().modifiers;
            assert_eq!(
                (modifiers.counts_user(), modifiers.counts_kernel(), modifiers.precise),
                (user, kernel, precise)
            );
        };
        check("cycles", true, true, 0);
        check("cycles:u", true, false, 0);
        check("cycles:kpp", false, true, 2);
        check("cycles:uk", true, true, 0);
        check("cycles:ppp", true, true, 3);
        check("cpu/event=1/k", false, true, 0);
        check("sched:sched_switch:u", true, false, 0);
        for text in ["cycles:x", "cycles:pppp", "cpu/event=1/z", "sched:sched_switch:y"] {
            let error = Event::parse_with(text, &sources).unwrap_err();
            assert!(matches!(error, EventError::Modifiers { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_names_are_answered_with_near_ones() {
        let (_dir, sources) = machine();
        let check = |text: &str, expect: &str| {
            assert_eq!(Event::parse_with(text, &sources).unwrap_err().to_string(), expect);
        };
        check("cycels", "unknown event 'cycels'; did you mean cycles?");
        check("page-fault", "unknown event 'page-fault'; did you mean page-faults?");
        check("mem-load", "unknown event 'mem-load'; did you mean mem-loads?");
        check("qqqqqqqqqq", "unknown event 'qqqqqqqqqq'");
        check(
            "sched:sched_swich",
            "unknown event 'sched:sched_swich'; did you mean sched:sched_switch?",
        );
        check("sched:", "unknown event 'sched:'");
        check("cpu/evnt=1/", "PMU 'cpu' has no 'evnt'; did you mean event?");
        check("cqu/event=1/", "unknown event 'cqu/event=1/'; did you mean cpu/event=1/?");
        check("cpu/event=0x1ff/", "PMU 'cpu' has no 'event=0x1ff'");
        check("cpu/../x/", "PMU 'cpu' has no '../x'");
        check("../cpu:id", "unknown event '../cpu:id/'");
    }

    #[test]
    fn without_tracefs_the_error_says_how_to_mount_it() {
        let (dir, mut sources) = machine();
        sources.tracing = vec![dir.path().join("nowhere")];
        let error = Event::parse_with("sched:sched_switch", &sources).unwrap_err();
        assert!(
            error.to_string().ends_with("mount -t tracefs tracefs /sys/kernel/tracing"),
            "{error}"
        );
    }
}
