//! The table of readers, one file per format, and functions that read with them.

mod ahead;
mod aix_procstack;
mod art_trace;
mod austin;
mod bcc;
mod bpftrace;
mod call_graph;
mod call_tree;
mod callgrind;
pub(crate) mod calls;
mod chrome_trace;
mod cpuprofile;
mod csv_table;
mod dhat;
mod dropped;
mod dtrace;
mod eu_stack;
mod faulthandler;
pub(crate) mod firefox;
mod flamebearer;
pub(crate) mod folded;
mod ftrace;
mod gdb;
mod gecko;
mod ghc_json;
mod ghc_prof;
mod go_profile;
mod go_raw;
mod goroutines;
mod gperftools;
mod gperftools_heap;
mod gprof;
mod gprof2dot;
mod heapprofile;
mod heaptrack;
mod hprof;
mod instruments;
mod java;
mod java_exceptions;
mod java_places;
mod javacore;
mod jemalloc;
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
mod oprofile;
mod otlp;
mod page;
mod papyrus;
#[cfg(feature = "perf-data")]
pub(crate) mod perf_data;
mod perf_json;
mod perf_report;
mod perf_script;
mod pl_sample_bt;
mod pmcstat;
mod pprof;
mod pprof_text;
mod pprof_traces;
mod proc_stack;
mod pstats;
mod pyinstrument;
mod rows;
mod safari;
#[cfg(feature = "store")]
mod segment;
mod simpleperf;
pub(crate) mod speedscope;
mod stackcount;
mod stackprof;
mod strace;
mod strace_summary;
mod svg;
mod systemtap;
pub(crate) mod text;
mod v8_prof;
mod visual_studio;
mod vtune;
mod wakeuptime;
mod wall_clock;
mod wpa;
mod xctrace;
mod xdebug;

use std::collections::BTreeMap;
use std::path::Path;

use pyrograph_profile::{Profile, RecordingInfo, ThreadDetail, ValueType};

use crate::depth;
use crate::detect::detect;
use crate::gate::{Gate, shown_line};
use crate::input::{Head, Input};
use crate::reader::{Advice, Detail, Options, ReadError, Reader, Reading, same_name};
use crate::warnings::{WarningKind, Warnings};

/// Finds the reader of a format by name. Case, blanks and punctuation are ignored: `perf-script` is "perf script".
pub fn reader_named(name: &str) -> Option<&'static dyn Reader> {
    READERS.iter().copied().find(|reader| same_name(reader.name(), name))
}

/// All formats that can be read; the first one that recognizes an input reads it.
///
/// Formats with unmistakable first bytes come first; folded text, which matches nearly any text, comes last.
pub static READERS: &[&dyn Reader] = &[
    // Profile files.
    #[cfg(feature = "perf-data")]
    &perf_data::PerfData,
    #[cfg(feature = "store")]
    &segment::KeptProfile,
    &pprof::Pprof,
    &speedscope::Speedscope,
    &flamebearer::Flamebearer,
    &firefox::Firefox,
    &gecko::Gecko,
    &callgrind::Callgrind,
    &otlp::Otlp,
    &jfr::Jfr,
    &jfr_json::JfrJson,
    &svg::Svg,
    &page::Page,
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
    &strace_summary::StraceSummary,
    &strace::Strace,
    &massif::Massif,
    &dhat::Dhat,
    &heaptrack::Heaptrack,
    &gperftools::Gperftools,
    &gperftools_heap::GperftoolsHeap,
    &jemalloc::Jemalloc,
    &pprof_text::PprofText,
    &pprof_traces::PprofTraces,
    &gprof::Gprof,
    &perf_json::PerfJson,
    &simpleperf::Simpleperf,
    &art_trace::ArtTrace,
    &oprofile::Oprofile,
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
    &safari::Safari,
    &chrome_trace::ChromeTrace,
    &jstack::Jstack,
    &javacore::Javacore,
    &hprof::Hprof,
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
    &ghc_json::GhcJson,
    &v8_prof::V8Prof,
    &xdebug::Xdebug,
    &papyrus::Papyrus,
    &wall_clock::WallClock,
    &lightweight_java::LightweightJava,
    // Never detected, only selected by name.
    &perf_script::PerfSched,
    // After all others: many texts contain lines that look like frames of `perf script`.
    &perf_script::PerfScript,
    &folded::Folded,
];

/// Reads one input with a reader, and applies the steps that all readers have in common.
pub(crate) fn read_with(
    reader: &dyn Reader,
    head: Head,
    options: &Options,
    label: Option<&str>,
) -> Result<Reading, ReadError> {
    let gate = Gate::new(&head, reader.name());
    let mut reading = reader.read(head, options)?;
    if !reader.may_be_empty() {
        gate.check(&reading)?;
    }
    depth::limit(&mut reading.profile, &mut reading.warnings);
    reading.profile.recognize_markers();
    debug_assert_eq!(reading.profile.check(), Ok(()), "{}", reader.name());
    if let Some(label) = label {
        reading.profile.set_host(label);
    }
    Ok(reading)
}

/// Reads inputs of any known formats into one profile. Unless the options specify an event, the first input that has
/// events determines which one is counted.
///
/// # Errors
///
/// If an input cannot be read at all, is empty or of an unknown format, or counts something else than the inputs before
/// it; if the requested event is in none of them, or if nothing is in the requested format.
pub fn read(inputs: Vec<Input>, options: &Options) -> Result<(Profile, Warnings), ReadError> {
    read_each(inputs, options, &mut |_| {})
}

/// Reads a file of any known format into a profile. A directory is read if `perf record --threads` has written it.
///
/// ```no_run
/// use pyrograph_format::{Options, read_path};
///
/// let (profile, warnings) = read_path("perf.data", &Options::default())?;
/// println!("{} samples; {} warnings", profile.samples.len(), warnings.lines().count());
/// # Ok::<(), pyrograph_format::ReadError>(())
/// ```
///
/// # Errors
///
/// If the file cannot be opened; otherwise as [`read`].
pub fn read_path(
    path: impl AsRef<Path>,
    options: &Options,
) -> Result<(Profile, Warnings), ReadError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let input = Input::open(path).map_err(|source| ReadError::Io { name, source })?;
    read(vec![input], options)
}

/// Same as [`read`]; calls `each` with the profile of each input before it is merged.
///
/// # Errors
///
/// Same as [`read`].
pub fn read_each(
    inputs: Vec<Input>,
    options: &Options,
    each: &mut dyn FnMut(&Profile),
) -> Result<(Profile, Warnings), ReadError> {
    let mut warnings = Warnings::default();
    let mut other_events = BTreeMap::new();
    let mut merged: Option<Profile> = None;
    let mut options = options.clone();
    let wanted = options.event.clone();
    for input in inputs {
        let name = input.name().to_owned();
        let label = input.label().map(str::to_owned);
        let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let reader = reader_of(&head, options.from)?;
        let mut reading = read_with(reader, head, &options, label.as_deref())?;
        if let Some(unit) = &options.unit {
            name_unit(&mut reading.profile, unit)
                .map_err(|theirs| ReadError::HasUnit { name: name.clone(), theirs })?;
        }
        warnings.extend(reading.warnings);
        for (event, samples) in reading.other_events {
            *other_events.entry(event).or_insert(0) += samples;
        }
        options.event = options.event.or(reading.event);
        each(&reading.profile);
        match &mut merged {
            Some(merged) => add(merged, reading.profile, name)?,
            None => merged = Some(reading.profile),
        }
    }
    let profile = merged.unwrap_or_default();
    warnings.add_other_events(&other_events);
    if let (None, Some(chosen), false) = (&wanted, options.event, other_events.is_empty()) {
        warnings.add(WarningKind::OnlyEvent(chosen), 1, []);
    }
    match &wanted {
        Some(wanted) if profile.samples.is_empty() && !other_events.is_empty() => {
            let found = other_events.into_keys().collect::<Vec<_>>().join(", ");
            Err(ReadError::NoSuchEvent { wanted: wanted.clone(), found })
        }
        _ => Ok((profile, warnings)),
    }
}

/// Description of an input.
#[derive(Debug)]
pub enum Described {
    /// Metadata of a `perf.data` file.
    Recording(Box<RecordingInfo>),
    /// A profile of another format, with single samples if the format has them.
    Profile {
        /// Name of the format.
        format: &'static str,
        /// The profile.
        profile: Box<Profile>,
        /// Warnings about parts that could not be read.
        warnings: Warnings,
    },
}

/// Reads the metadata of a `perf.data` file, or a profile of any other format.
///
/// # Errors
///
/// If the input cannot be read, is empty or of an unknown format.
pub fn describe(input: Input) -> Result<Described, ReadError> {
    let name = input.name().to_owned();
    let head = input.begin().map_err(|source| ReadError::Io { name, source })?;
    let reader = reader_of(&head, None)?;
    #[cfg(feature = "perf-data")]
    if reader.name() == perf_data::NAME {
        return perf_data::info_of(head).map(|info| Described::Recording(Box::new(info)));
    }
    let options =
        Options { detail: Detail::Samples, threads: ThreadDetail::Thread, ..Options::default() };
    let Reading { profile, warnings, .. } = read_with(reader, head, &options, None)?;
    Ok(Described::Profile { format: reader.name(), profile: Box::new(profile), warnings })
}

/// The reader for an input: `wanted`, or else the first one that recognizes it.
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

/// Error with the first lines that are not blank, so that users see what was read as input.
fn unknown_format(name: &str, head: &[u8]) -> ReadError {
    let lines = head.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let shown = lines.take(3).map(|line| format!("\n  {}", shown_line(line)));
    ReadError::UnknownFormat {
        name: name.to_owned(),
        tried: READERS.len(),
        advice: advice(head),
        beginning: shown.collect(),
    }
}

/// Advice for an input of an unknown format, if any.
fn advice(head: &[u8]) -> Option<Advice> {
    let begins_with =
        |text: &[u8]| memchr::memmem::find(&head[..head.len().min(64)], text).is_some();
    if begins_with(b"memray\0") {
        return Some(Advice::Memray);
    }
    if head.starts_with(b"v8-version,") {
        return Some(Advice::V8Log);
    }
    folded::mostly_counted(head).then_some(Advice::CountedLines)
}

/// Sets the unit of values that have none. The error contains the value types of a profile that specifies all its units.
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

/// Text of the value types: `alloc_space (bytes), samples (count)`.
fn value_names(profile: &Profile) -> String {
    let name = |of: &ValueType| match of.unit.as_str() {
        "" => format!("{} (no unit)", of.name),
        unit => format!("{} ({unit})", of.name),
    };
    profile.value_types.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Merges a profile into those before it. An empty profile, such as one of a file without the requested event, can be
/// merged with any other.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_v8_are_named_with_what_makes_them_readable() {
        let log = "v8-version,12,4,254,21,-node.35,0\nv8-platform,linux,linux\ntick,0x1,2,0,0,0\n";
        let error = read(vec![Input::bytes("x", log)], &Options::default());
        let said = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("node --prof-process FILE"), "{said}");
    }

    #[test]
    fn own_files_of_memray_are_named_with_what_makes_them_readable() {
        // As memray 1.20 begins them: in a frame of LZ4.
        let bytes = b"\x04\x22M\x18@@\xc0\xaeF\0\0\xf8\x06memray\0\r\0\0\0\xf0\x0f";
        let error = read(vec![Input::bytes("x", bytes.as_slice())], &Options::default());
        let said = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("memray transform csv"), "{said}");
    }
}
