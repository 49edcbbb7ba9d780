//! Readers of formats: the trait, its options and its errors. [`READERS`](crate::READERS) lists them.

use std::collections::BTreeMap;

pub use pyrograph_profile::ThreadDetail;
use pyrograph_profile::{Profile, TraceEvent, ValueType};
use pyrograph_symbol::Options as SymbolOptions;

use crate::input::Head;
use crate::warnings::Warnings;

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

    /// True if an input without a sample is a whole one: a recording of nothing.
    fn may_be_empty(&self) -> bool {
        false
    }

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
    /// The other events of the input, which are not counted, with the numbers of their samples.
    pub other_events: BTreeMap<String, u64>,
}

impl Reading {
    /// A reading of an input that does not name events.
    pub fn new(profile: Profile, warnings: Warnings) -> Self {
        Self { profile, warnings, ..Self::default() }
    }

    /// The warnings, and one for each of the other events.
    pub fn all_warnings(&self) -> Warnings {
        let mut warnings = self.warnings.clone();
        warnings.add_other_events(&self.other_events);
        warnings
    }
}

/// Parts of an input to keep. The default keeps totals of the first event, by process name.
#[derive(Clone, Debug)]
pub struct Options {
    /// Totals or single samples.
    pub detail: Detail,
    /// Detail by which threads are distinguished.
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
    /// Keep which instruction each sample was taken at ([`Sample::address`](pyrograph_profile::Sample::address)), of
    /// formats that hold addresses.
    pub instructions: bool,
    /// Options of the reader of folded text; the others ignore them.
    pub folded: FoldedOptions,
    /// Number of threads that may parse; 0 for as many as there are CPUs.
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
            from: None,
            event: None,
            each_event: false,
            unit: None,
            unknown_addresses: false,
            addresses: false,
            instructions: false,
            folded: FoldedOptions::default(),
            workers: 0,
            // Nothing that is written so far shows lines.
            symbols: SymbolOptions { lines: false, ..SymbolOptions::default() },
        }
    }
}

/// Options of the reader of folded text, which sees sooner than a filter what they leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedOptions {
    /// Of [`Detail::Samples`], the order does not matter, and neither does each one: those of a stack may be added up
    /// where there are very many.
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

/// Advice for an input of no known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// It is memray's own.
    Memray,
    /// It is the log of `node --prof`.
    V8Log,
    /// Its lines end in numbers: they may be stacks of one frame, as folded text has them.
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

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// It begins as a format does, but most of it is something else.
    #[error(
        "read {name}: it looks like {format}, but {unread} of its {lines} lines cannot be read as that:{first}"
    )]
    MostlyUnread {
        /// The input.
        name: String,
        /// The name of the format.
        format: &'static str,
        /// Number of lines that were not read.
        unread: u64,
        /// Number of lines that are neither blank nor remarks.
        lines: u64,
        /// The first lines that were not read, cut to a few dozen characters each.
        first: String,
    },
    /// No reader knows it.
    #[error(
        "read {name}: unrecognized format ({tried} were tried){}; it begins with: {beginning}",
        .advice.map_or("", Advice::text)
    )]
    UnknownFormat {
        /// The input.
        name: String,
        /// Number of readers that looked at it.
        tried: usize,
        /// Further advice.
        advice: Option<Advice>,
        /// Its first lines, cut to a few dozen characters each.
        beginning: String,
    },
    /// It is of a known format, but not well formed, and no part of it can be separated.
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
    #[error("read {name} as counting something else: it counts {theirs}")]
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
