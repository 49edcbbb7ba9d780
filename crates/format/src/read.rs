//! Readers: one file a format.

mod folded;
mod perf_data;
mod perf_script;

pub use perf_data::{
    EventInfo, ProcessInfo, RecordingInfo, SampleRate, TracepointField, recording_info,
};
pub(crate) use perf_script::{is_java, tidy_name};
use pyrograph_profile::Profile;
use pyrograph_resolve::SymbolOptions;

use crate::warnings::{WarningKind, Warnings};
use crate::{Head, Input, detect};

/// A format that can be read.
pub trait Reader: Sync {
    /// What the format is called, in the words of its users.
    fn name(&self) -> &'static str;

    /// Whether an input that begins with `head` (as [`Head::bytes`]) is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// Reads an input.
    ///
    /// # Errors
    ///
    /// Only if nothing at all can be read; everything less is a warning.
    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError>;
}

/// What came of an input.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// What was read.
    pub profile: Profile,
    /// What was not, and why.
    pub warnings: Warnings,
    /// The event that was counted, where the input names events.
    pub event: Option<String>,
}

/// Every format that can be read; the first that recognizes an input gets it.
pub static READERS: &[&dyn Reader] =
    &[&perf_data::PerfData, &perf_script::PerfScript, &folded::Folded];

/// What to keep of an input. The default keeps totals of the first event, by process name.
#[derive(Clone, Debug)]
pub struct Options {
    /// Totals or single samples.
    pub detail: Detail,
    /// How far threads are told apart.
    pub threads: ThreadDetail,
    /// What a sample counts.
    pub count: Count,
    /// Which event to count, as the input spells it, with or without modifiers (`cycles` also
    /// takes `cycles:u`); the default is the first.
    pub event: Option<String>,
    /// Name functions without a symbol by their address, as `[libc.so.6 <1f3a0>]`.
    pub unknown_addresses: bool,
    /// Keep the address of every frame of an ELF file, for [`expand_inlined`](crate::expand_inlined).
    pub addresses: bool,
    /// How many threads may parse; 0 for as many as there are CPUs.
    pub workers: usize,
    /// Where to find symbols, for formats that hold addresses, and whether to add inlined calls.
    pub symbols: SymbolOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            detail: Detail::default(),
            threads: ThreadDetail::default(),
            count: Count::default(),
            event: None,
            unknown_addresses: false,
            addresses: false,
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

/// How far threads are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadDetail {
    /// By name only.
    #[default]
    Name,
    /// By name and process.
    Process,
    /// By name, process and thread.
    Thread,
}

/// What a sample counts.
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
    #[error("read {name}: not a known format ({known})")]
    UnknownFormat {
        /// The input.
        name: String,
        /// The names of all known formats.
        known: String,
    },
    /// Adding up values of different things would be meaningless.
    #[error("add {name}, which counts {theirs}, to what counts {ours}")]
    CountsDiffer {
        /// The input.
        name: String,
        /// What the earlier inputs count.
        ours: String,
        /// What this one counts.
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
/// than those before it; if the event asked for is nowhere.
pub fn read(inputs: Vec<Input>, options: &Options) -> Result<(Profile, Warnings), ReadError> {
    let mut warnings = Warnings::default();
    let mut merged: Option<Profile> = None;
    let mut options = options.clone();
    let wanted = options.event.clone();
    for input in inputs {
        let name = input.name().to_owned();
        let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        if head.bytes().is_empty() {
            return Err(ReadError::Empty { name });
        }
        let reader = detect(head.bytes()).ok_or_else(|| ReadError::UnknownFormat {
            name: name.clone(),
            known: READERS.iter().map(|reader| reader.name()).collect::<Vec<_>>().join(", "),
        })?;
        let reading = reader.read(head, &options)?;
        warnings.extend(reading.warnings);
        options.event = options.event.or(reading.event);
        match &mut merged {
            Some(merged) => add(merged, reading.profile, name)?,
            None => merged = Some(reading.profile),
        }
    }
    let profile = merged.unwrap_or_default();
    match &wanted {
        Some(wanted) if profile.samples.is_empty() => match other_events(&warnings) {
            found if found.is_empty() => Ok((profile, warnings)),
            found => Err(ReadError::NoSuchEvent { wanted: wanted.clone(), found }),
        },
        _ => Ok((profile, warnings)),
    }
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
    let words = |profile: &Profile| {
        let names = profile.value_types.iter().map(|of| format!("{} ({})", of.name, of.unit));
        names.collect::<Vec<_>>().join(", ")
    };
    merged.merge(&profile).map_err(|_| ReadError::CountsDiffer {
        name,
        ours: words(merged),
        theirs: words(&profile),
    })
}

fn other_events(warnings: &Warnings) -> String {
    let names = warnings.iter().filter_map(|warning| match &warning.kind {
        WarningKind::OtherEvent(event) => Some(event.as_str()),
        _ => None,
    });
    names.collect::<Vec<_>>().join(", ")
}
