//! Readers: one file a format.

mod ahead;
mod aix_procstack;
mod austin;
mod bcc;
mod bpftrace;
mod call_graph;
mod call_tree;
mod callgrind;
mod calls;
mod chrome_trace;
mod cpuprofile;
mod csv_table;
mod dhat;
mod dropped;
mod dtrace;
mod eu_stack;
mod faulthandler;
mod firefox;
pub(crate) mod folded;
mod ftrace;
mod gdb;
mod ghc_prof;
mod go_profile;
mod go_raw;
mod goroutines;
mod gperftools;
mod gperftools_heap;
mod gprof2dot;
mod heapprofile;
mod heaptrack;
mod instruments;
mod java;
mod java_exceptions;
mod javacore;
mod jfr;
mod jfr_json;
mod json;
mod json_tree;
mod jstack;
mod lightweight_java;
mod macos_sample;
mod mapped;
mod marshalled;
mod massif;
mod memray;
mod otlp;
mod perf_data;
mod perf_json;
mod perf_report;
mod perf_script;
mod pl_sample_bt;
mod pmcstat;
mod pprof;
mod proc_stack;
mod pstats;
mod pyinstrument;
mod rows;
mod simpleperf;
mod speedscope;
mod stackcount;
mod stackprof;
mod strace;
mod svg;
mod systemtap;
mod text;
mod v8_prof;
mod visual_studio;
mod vtune;
mod wakeuptime;
mod wall_clock;
mod wpa;
mod xctrace;
mod xdebug;

pub(crate) use calls::MOST_DEPTH;
pub(crate) use firefox::{
    EXTRA as FIREFOX_EXTRA, EXTRA_COUNTS, EXTRA_NO_TIMES, EXTRA_VALUE,
    UNKNOWN_THREAD as FIREFOX_UNKNOWN_THREAD,
};
pub use perf_data::{
    EventInfo, ProcessInfo, RecordingInfo, SampleRate, Tracepoint, TracepointField, recording_info,
};
pub(crate) use perf_script::{hex_offset_dropped, is_java, module_kind, parse_frame, tidy_name};
pub use pyrograph_profile::ThreadDetail;
use pyrograph_profile::{Profile, ValueType};
use pyrograph_resolve::SymbolOptions;
pub(crate) use speedscope::SEPARATOR as SPEEDSCOPE_SEPARATOR;
pub(crate) use text::Lines;

use crate::warnings::{WarningKind, Warnings};
use crate::{Head, Input, TraceEvent, detect};

/// A format that can be read.
pub trait Reader: Sync {
    /// Name of the format, in the words of its users.
    fn name(&self) -> &'static str;

    /// The tool or command that writes it, as a user would type it, for a list of formats.
    fn written_by(&self) -> &'static str;

    /// True if an input that begins with `head` (as [`Head::bytes`]) is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// Reads an input.
    ///
    /// # Errors
    ///
    /// Only if nothing at all can be read; everything less is a warning.
    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError>;

    /// True if it heeds [`Options::each_event`].
    fn reads_each_event(&self) -> bool {
        false
    }

    /// Hands over each event of an input, as [`events`](crate::events) says, which see.
    ///
    /// # Errors
    ///
    /// If nothing at all can be read, or the format does not hold single events.
    fn events(
        &self,
        input: Head,
        on_event: &mut dyn FnMut(&TraceEvent<'_>),
    ) -> Result<Warnings, ReadError> {
        let _ = on_event;
        Err(ReadError::NoEvents { name: input.name().to_owned(), format: self.name() })
    }
}

impl std::fmt::Debug for dyn Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The reader of the format that is called `name`. Case, blanks and punctuation do not matter:
/// `perf-script` is "perf script".
pub fn reader_named(name: &str) -> Option<&'static dyn Reader> {
    READERS.iter().copied().find(|reader| same_name(reader.name(), name))
}

/// True if a format is called so: case, blanks and punctuation do not matter.
pub(crate) fn same_name(format: &str, name: &str) -> bool {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    plain(format) == plain(name)
}

/// Result of reading an input.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The profile.
    pub profile: Profile,
    /// Parts that were not read, and why.
    pub warnings: Warnings,
    /// The event that was counted, where the input names events.
    pub event: Option<String>,
}

/// Every format that can be read; the first that recognizes an input gets it.
///
/// Those whose first bytes are unmistakable come first, folded text, which nearly any text could
/// be, last.
pub static READERS: &[&dyn Reader] = &[
    // Profile files.
    &perf_data::PerfData,
    &pprof::Pprof,
    &speedscope::Speedscope,
    &firefox::Firefox,
    &callgrind::Callgrind,
    &otlp::Otlp,
    &jfr::Jfr,
    &jfr_json::JfrJson,
    &svg::Svg,
    // Text of Linux and its kernel.
    &bpftrace::Bpftrace,
    &perf_report::PerfReport,
    &systemtap::SystemTap,
    &bcc::Bcc,
    &stackcount::Stackcount,
    &wakeuptime::Wakeuptime,
    &pl_sample_bt::PlSampleBt,
    &gdb::Gdb,
    &eu_stack::EuStack,
    &proc_stack::ProcStack,
    &ftrace::Ftrace,
    &strace::Strace,
    &massif::Massif,
    &dhat::Dhat,
    &heaptrack::Heaptrack,
    &gperftools::Gperftools,
    &gperftools_heap::GperftoolsHeap,
    &perf_json::PerfJson,
    &simpleperf::Simpleperf,
    // Text of other systems.
    &dtrace::Dtrace,
    &macos_sample::MacosSample,
    &instruments::Instruments,
    &xctrace::Xctrace,
    &vtune::Vtune,
    &visual_studio::VisualStudio,
    &wpa::Wpa,
    &pmcstat::Pmcstat,
    &aix_procstack::AixProcstack,
    // Text of languages and their runtimes.
    &cpuprofile::CpuProfile,
    &heapprofile::HeapProfile,
    &chrome_trace::ChromeTrace,
    &jstack::Jstack,
    &javacore::Javacore,
    &java_exceptions::JavaExceptions,
    &go_raw::GoRaw,
    &go_profile::GoProfile,
    &goroutines::Goroutines,
    &faulthandler::Faulthandler,
    &pstats::Pstats,
    &pyinstrument::Pyinstrument,
    &memray::Memray,
    &gprof2dot::Gprof2dot,
    &stackprof::StackProf,
    &austin::Austin,
    &ghc_prof::GhcProf,
    &v8_prof::V8Prof,
    &xdebug::Xdebug,
    &wall_clock::WallClock,
    &lightweight_java::LightweightJava,
    // Only by name.
    &perf_script::PerfSched,
    // What fits nothing else: lines that look like frames of `perf script` are in many a text.
    &perf_script::PerfScript,
    &folded::Folded,
];

/// Parts of an input to keep. The default keeps totals of the first event, by process name.
#[derive(Clone, Debug)]
pub struct Options {
    /// Totals or single samples.
    pub detail: Detail,
    /// Of [`Detail::Samples`], the order does not matter, and neither does each one: a reader of an input without times
    /// may add up those of a stack where there are very many.
    pub any_order: bool,
    /// How far threads are told apart.
    pub threads: ThreadDetail,
    /// Value of a sample.
    pub count: Count,
    /// The format of every input; the default is to look.
    pub from: Option<&'static dyn Reader>,
    /// The event to count, as the input spells it, with or without modifiers (`cycles` also
    /// takes `cycles:u`); the default is the first.
    pub event: Option<String>,
    /// Read all events, each into a column of its own that counts samples. For readers that
    /// [can](Reader::reads_each_event).
    pub each_event: bool,
    /// Type of the values of an input that does not say so, as folded text; the default is to leave it open.
    pub unit: Option<ValueType>,
    /// Name functions without a symbol by their address, as `[libc.so.6 <1f3a0>]`.
    pub unknown_addresses: bool,
    /// Keep the address of every frame of an ELF file, for [`expand_inlined`](crate::expand_inlined).
    pub addresses: bool,
    /// Leave out frames of a function that calls itself directly, where a reader sees that sooner than a
    /// filter does. The others leave them in.
    pub fold_recursion: bool,
    /// How many threads may parse; 0 for as many as there are CPUs.
    pub workers: usize,
    /// Where to find symbols, for formats that hold addresses, and whether to add inlined calls.
    pub symbols: SymbolOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            detail: Detail::default(),
            any_order: false,
            threads: ThreadDetail::default(),
            count: Count::default(),
            from: None,
            event: None,
            each_event: false,
            unit: None,
            unknown_addresses: false,
            addresses: false,
            fold_recursion: false,
            workers: 0,
            // Nothing that is written so far shows lines.
            symbols: SymbolOptions { lines: false, ..SymbolOptions::default() },
        }
    }
}

/// Totals or single samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One row for each stack of each thread: memory grows with the distinct stacks only.
    #[default]
    Totals,
    /// One row a sample, in the input's order, with CPU and time where they are known.
    Samples,
}

/// Value of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Its period where it has one, otherwise 1.
    #[default]
    Period,
    /// 1.
    Samples,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not even the first byte.
    #[error("read {name}")]
    Io {
        /// The input.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("read {name}: it is empty")]
    Empty {
        /// The input.
        name: String,
    },
    /// It is what it should be, but there is nothing to show.
    #[error("read {name}: {reason}")]
    Nothing {
        /// The input.
        name: String,
        /// Why.
        reason: String,
    },
    /// No reader knows it.
    #[error(
        "read {name}: it is of none of the {tried} formats that are tried (`pyrograph formats` lists them, \
         --from forces one){hint}. It begins: {beginning}"
    )]
    UnknownFormat {
        /// The input.
        name: String,
        /// How many readers looked at it.
        tried: usize,
        /// Further advice; empty if there is none.
        hint: &'static str,
        /// Its first lines, cut to a few dozen characters each.
        beginning: String,
    },
    /// It is of a known format, but not well formed, and no part of it can be told apart.
    #[error("read {name}: {reason}")]
    Malformed {
        /// The input.
        name: String,
        /// The damage, and its place.
        reason: String,
    },
    /// It is not of the one format that serves here.
    #[error("read {name}: not {wanted}")]
    OtherFormat {
        /// The input.
        name: String,
        /// The format.
        wanted: &'static str,
    },
    /// Single events were asked for.
    #[error("read {name}: {format} does not hold single events")]
    NoEvents {
        /// The input.
        name: String,
        /// The name of its format.
        format: &'static str,
    },
    /// Adding up values of different things would be meaningless.
    #[error("add {name}, which counts {theirs}, to what counts {ours}")]
    CountsDiffer {
        /// The input.
        name: String,
        /// Value type of the earlier inputs.
        ours: String,
        /// Value type of this one.
        theirs: String,
    },
    /// A unit was given for an input that names its own.
    #[error("read {name} as counting something else (--unit): it counts {theirs}")]
    HasUnit {
        /// The input.
        name: String,
        /// Its value type.
        theirs: String,
    },
    /// The event that was asked for is in none of the inputs.
    #[error("find event {wanted}; the input has {found}")]
    NoSuchEvent {
        /// The event.
        wanted: String,
        /// The events that are there.
        found: String,
    },
}

/// Reads inputs of any known formats into one profile. The first input that has events chooses
/// which one is counted, unless the options do.
///
/// # Errors
///
/// If an input cannot be read at all, is empty or of no known format, or counts something else
/// than those before it; if the event asked for is nowhere, or nothing fits the format asked for.
pub fn read(inputs: Vec<Input>, options: &Options) -> Result<(Profile, Warnings), ReadError> {
    let mut warnings = Warnings::default();
    let mut merged: Option<Profile> = None;
    let mut options = options.clone();
    let wanted = options.event.clone();
    let names = inputs.iter().map(Input::name).collect::<Vec<_>>().join(", ");
    for input in inputs {
        let name = input.name().to_owned();
        let label = input.label().map(str::to_owned);
        let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let reader = reader_of(&head, options.from)?;
        let mut reading = reader.read(head, &options)?;
        if let Some(unit) = &options.unit {
            name_unit(&mut reading.profile, unit)
                .map_err(|theirs| ReadError::HasUnit { name: name.clone(), theirs })?;
        }
        if let Some(label) = label {
            reading.profile.set_host(&label);
        }
        warnings.extend(reading.warnings);
        options.event = options.event.or(reading.event);
        match &mut merged {
            Some(merged) => add(merged, reading.profile, name)?,
            None => merged = Some(reading.profile),
        }
    }
    let profile = merged.unwrap_or_default();
    if let (None, Some(chosen), false) =
        (&wanted, options.event, other_events(&warnings).is_empty())
    {
        warnings.add(WarningKind::OnlyEvent(chosen), 1, []);
    }
    if let (None, Some(reader), true) = (&wanted, options.from, profile.samples.is_empty()) {
        // It was not asked whether it is of this format at all.
        let reason = format!("nothing in it is of the format {}", reader.name());
        return Err(ReadError::Nothing { name: names, reason });
    }
    match &wanted {
        Some(wanted) if profile.samples.is_empty() => match other_events(&warnings) {
            found if found.is_empty() => Ok((profile, warnings)),
            found => Err(ReadError::NoSuchEvent { wanted: wanted.clone(), found }),
        },
        _ => Ok((profile, warnings)),
    }
}

/// The reader for an input: `wanted`, or the first that recognizes it.
pub(crate) fn reader_of(
    head: &Head,
    wanted: Option<&'static dyn Reader>,
) -> Result<&'static dyn Reader, ReadError> {
    if head.bytes().is_empty() {
        return Err(ReadError::Empty { name: head.name().to_owned() });
    }
    let found = wanted.or_else(|| detect(head.bytes()));
    found.ok_or_else(|| unknown_format(head.name(), head.bytes()))
}

/// Shows the first lines that hold anything, so that a user sees what was taken for input.
fn unknown_format(name: &str, head: &[u8]) -> ReadError {
    let lines = head.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let shown = lines.take(3).map(|line| {
        let text: String = String::from_utf8_lossy(&line[..line.len().min(200)])
            .chars()
            .take(60)
            .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        format!("\n  {text}")
    });
    ReadError::UnknownFormat {
        name: name.to_owned(),
        tried: READERS.len(),
        hint: hint(head),
        beginning: shown.collect(),
    }
}

/// Advice for an input of no known format.
fn hint(head: &[u8]) -> &'static str {
    let begins_with =
        |text: &[u8]| memchr::memmem::find(&head[..head.len().min(64)], text).is_some();
    if begins_with(b"memray\0") {
        return "; it is memray's own: `memray transform csv FILE` makes one that is read";
    }
    if folded::mostly_counted(head) {
        return "; its lines end in numbers: if they are stacks of one frame, --from folded reads them";
    }
    ""
}

/// Says what the values of a profile count that does not say so itself. An error is what it says.
pub(crate) fn name_unit(profile: &mut Profile, unit: &ValueType) -> Result<(), String> {
    if !profile.value_types.iter().any(ValueType::is_unnamed) && !profile.samples.is_empty() {
        return Err(value_names(profile));
    }
    let compared = profile.is_comparison();
    for of in profile.value_types.iter_mut().filter(|of| of.is_unnamed()) {
        of.unit.clone_from(&unit.unit);
        if !compared {
            of.name.clone_from(&unit.name);
        }
    }
    Ok(())
}

/// `alloc_space (bytes), samples (count)`.
fn value_names(profile: &Profile) -> String {
    let name = |of: &ValueType| match of.unit.as_str() {
        "" => format!("{} (no unit)", of.name),
        unit => format!("{} ({unit})", of.name),
    };
    profile.value_types.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Adds a profile to those before it. One that is empty, as that of a file which has nothing of
/// the event asked for, fits to every other.
fn add(merged: &mut Profile, profile: Profile, name: String) -> Result<(), ReadError> {
    if profile.samples.is_empty() {
        return Ok(());
    }
    if merged.samples.is_empty() {
        *merged = profile;
        return Ok(());
    }
    merged.merge(&profile).map_err(|_| ReadError::CountsDiffer {
        name,
        ours: value_names(merged),
        theirs: value_names(&profile),
    })
}

fn other_events(warnings: &Warnings) -> String {
    let names = warnings.iter().filter_map(|warning| match &warning.kind {
        WarningKind::OtherEvent(event) => Some(event.as_str()),
        _ => None,
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_of_memray_are_named_with_what_makes_them_readable() {
        // As memray 1.20 begins them: in a frame of LZ4.
        let bytes = b"\x04\x22M\x18@@\xc0\xaeF\0\0\xf8\x06memray\0\r\0\0\0\xf0\x0f";
        let error = read(vec![Input::bytes("x", bytes.as_slice())], &Options::default());
        let said = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("memray transform csv"), "{said}");
    }
}
