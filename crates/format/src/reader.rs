//! The trait for readers of formats, their options and errors. [`READERS`](crate::READERS) lists all readers.

use std::collections::BTreeMap;

pub use pyrograph_profile::ThreadDetail;
use pyrograph_profile::{Profile, TraceEvent, ValueType};
use pyrograph_symbol::Options as SymbolOptions;

use crate::input::Head;
use crate::warnings::Warnings;

/// A format that can be read.
pub trait Reader: Sync {
    /// Name of the format as its users write it.
    fn name(&self) -> &'static str;

    /// Tool or command that writes the format, as a user would type it, for a list of formats.
    fn written_by(&self) -> &'static str;

    /// Returns true if an input that begins with `head` (see [`Head::bytes`]) is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// Reads an input.
    ///
    /// # Errors
    ///
    /// Only if nothing at all can be read; smaller defects are warnings.
    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError>;

    /// Returns true if an input without samples is valid: a recording in which nothing happened.
    fn may_be_empty(&self) -> bool {
        false
    }

    /// Returns true if the reader supports [`Options::each_event`].
    fn reads_each_event(&self) -> bool {
        false
    }

    /// Calls `on_event` for each event of an input, see [`events`](crate::events).
    ///
    /// # Errors
    ///
    /// If nothing at all can be read, or if the format contains no single events.
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

/// Returns true if a format has this name; case, blanks and punctuation are ignored.
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
    /// Warnings about parts that were not read.
    pub warnings: Warnings,
    /// Name of the event that was counted, if the input names events.
    pub event: Option<String>,
    /// Other events of the input, which are not counted, with their numbers of samples.
    pub other_events: BTreeMap<String, u64>,
}

impl Reading {
    /// Result for an input that does not name events.
    pub fn new(profile: Profile, warnings: Warnings) -> Self {
        Self { profile, warnings, ..Self::default() }
    }

    /// All warnings, including one for each of the other events.
    pub fn all_warnings(&self) -> Warnings {
        let mut warnings = self.warnings.clone();
        warnings.add_other_events(&self.other_events);
        warnings
    }
}

/// Options for reading. By default, totals of the first event are kept, by process name.
#[derive(Clone, Debug)]
pub struct Options {
    /// Totals or single samples.
    pub detail: Detail,
    /// Detail by which threads are distinguished.
    pub threads: ThreadDetail,
    /// Value of a sample.
    pub count: Count,
    /// Format of all inputs; by default, it is detected.
    pub from: Option<&'static dyn Reader>,
    /// Event to count, as the input spells it, with or without modifiers (`cycles` also selects `cycles:u`); the default
    /// is the first event.
    pub event: Option<String>,
    /// Tell samples apart by this field of their events, as a tracepoint's ([`Thread::field`](pyrograph_profile::Thread::field)).
    /// For readers of recordings by `perf`.
    pub field: Option<String>,
    /// Read all events, each into a column of its own that counts samples. Only for readers that [support
    /// this](Reader::reads_each_event).
    pub each_event: bool,
    /// Type of the values of inputs that do not specify it, such as folded text; by default, it stays unknown.
    pub unit: Option<ValueType>,
    /// Name functions without a symbol by their address, as `[libc.so.6 <1f3a0>]`.
    pub unknown_addresses: bool,
    /// Keep the address of every frame of an ELF file, for [`expand_inlined`](crate::expand_inlined).
    pub addresses: bool,
    /// Keep the instruction at which each sample was taken ([`Sample::address`](pyrograph_profile::Sample::address)),
    /// for formats that contain addresses.
    pub instructions: bool,
    /// Options for the reader of folded text; other readers ignore them.
    pub folded: FoldedOptions,
    /// Maximum number of parser threads; 0 for the number of CPUs.
    pub workers: usize,
    /// Options for the lookup of symbols and inlined calls, for formats that contain addresses.
    pub symbols: SymbolOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            detail: Detail::default(),
            threads: ThreadDetail::default(),
            count: Count::default(),
            from: None,
            event: None,
            field: None,
            each_event: false,
            unit: None,
            unknown_addresses: false,
            addresses: false,
            instructions: false,
            folded: FoldedOptions::default(),
            workers: 0,
            // No output shows lines by default.
            symbols: SymbolOptions { lines: false, ..SymbolOptions::default() },
        }
    }
}

/// Options for the reader of folded text, which can apply them earlier than a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedOptions {
    /// With [`Detail::Samples`]: neither the order of samples nor each single one matters. Samples with the same stack
    /// may be added up if there are very many.
    pub any_order: bool,
    /// Leave out frames of a function that calls itself directly.
    pub fold_recursion: bool,
}

/// Totals or single samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One row for each stack of each thread: memory grows with the distinct stacks only.
    #[default]
    Totals,
    /// One row per sample, in the order of the input, with CPU and time if known.
    Samples,
}

/// Value of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// The sample's period if it has one, otherwise 1.
    #[default]
    Period,
    /// Always 1.
    Samples,
}

/// Advice for an input of an unknown format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The input is a binary file of memray.
    Memray,
    /// The input is a log of `node --prof`.
    V8Log,
    /// The input's lines end in numbers: they may be folded stacks of one frame.
    CountedLines,
}

impl Advice {
    fn text(self) -> &'static str {
        match self {
            Self::Memray => {
                "; it is memray's own: `memray transform csv FILE` makes one that is read"
            }
            Self::V8Log => {
                "; it is V8's own log: `node --prof-process FILE > TEXT` makes one that is read"
            }
            Self::CountedLines => "; its lines end in numbers, as those of folded text do",
        }
    }
}

/// Reasons why nothing could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not even the first byte could be read.
    #[error("read {name}")]
    Io {
        /// Name of the input.
        name: String,
        /// Error of the source.
        source: std::io::Error,
    },
    /// The input is empty.
    #[error("{name} is empty")]
    Empty {
        /// Name of the input.
        name: String,
    },
    /// The input was read, but contains nothing to show.
    #[error("read {name}: {reason}")]
    Nothing {
        /// Name of the input.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The input begins like a format, but most of its lines could not be read.
    #[error(
        "read {name}: it looks like {format}, but {unread} of its {lines} lines cannot be read as that:{first}"
    )]
    MostlyUnread {
        /// Name of the input.
        name: String,
        /// Name of the format.
        format: &'static str,
        /// Number of lines that were not read.
        unread: u64,
        /// Number of lines that are neither blank nor comments.
        lines: u64,
        /// The first lines that were not read, truncated to a few dozen characters each.
        first: String,
    },
    /// No reader recognizes the input.
    #[error(
        "read {name}: unrecognized format ({tried} were tried){}; it begins with: {beginning}",
        .advice.map_or("", Advice::text)
    )]
    UnknownFormat {
        /// Name of the input.
        name: String,
        /// Number of readers that were tried.
        tried: usize,
        /// Further advice.
        advice: Option<Advice>,
        /// First lines of the input, truncated to a few dozen characters each.
        beginning: String,
    },
    /// The format is known, but the input is malformed, and no part of it can be used.
    #[error("read {name}: {reason}")]
    Malformed {
        /// Name of the input.
        name: String,
        /// The damage and its position.
        reason: String,
    },
    /// Single events were requested from a format that contains none.
    #[error("read {name}: {format} does not hold single events")]
    NoEvents {
        /// Name of the input.
        name: String,
        /// Name of its format.
        format: &'static str,
    },
    /// The values of the input cannot be added to those of earlier inputs, because they count different things.
    #[error("add {name}, which counts {theirs}, to what counts {ours}")]
    CountsDiffer {
        /// Name of the input.
        name: String,
        /// Value types of the earlier inputs.
        ours: String,
        /// Value types of this input.
        theirs: String,
    },
    /// A unit was given for an input that specifies its own.
    #[error("read {name} as counting something else: it counts {theirs}")]
    HasUnit {
        /// Name of the input.
        name: String,
        /// Value types of the input.
        theirs: String,
    },
    /// The requested event is in none of the inputs.
    #[error("find event {wanted}; the input has {found}")]
    NoSuchEvent {
        /// The requested event.
        wanted: String,
        /// The events in the inputs.
        found: String,
    },
}
