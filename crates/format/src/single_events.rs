//! Single events of an input, with their stacks, as `perf script` prints them.
//!
//! A `perf.data` file yields all its events, in order of time. Other formats that keep timed samples yield each sample
//! as an event.

use std::ops::ControlFlow;

#[cfg(feature = "perf-data")]
use pyrograph_perf_data::{Recording, ResolveOptions, SingleEvents};
use pyrograph_profile::{
    EventClass, EventFilter, EventKind, Location, Locations, Profile, Sample, SingleEvent,
    StackEntry, StringId,
};

use crate::input::Input;
#[cfg(feature = "perf-data")]
use crate::read::perf_data;
use crate::read::{read_with, reader_of};
use crate::reader::{Detail, Options, ReadError, ThreadDetail};
use crate::warnings::Warnings;

/// An input with single events.
pub struct EventInput {
    source: Source,
    kinds: Vec<EventKind>,
    warnings: Warnings,
    options: Options,
}

enum Source {
    #[cfg(feature = "perf-data")]
    Recording(Box<Recording>),
    Profile(Box<(Profile, Locations)>),
}

/// The events of an input that a filter keeps.
pub struct ChosenEvents<'a> {
    input: &'a EventInput,
    filter: EventFilter,
    #[cfg(feature = "perf-data")]
    recorded: Option<SingleEvents<'a>>,
}

impl EventInput {
    /// Opens an input. Of `options`, only the format, the symbol options and the number of workers are used for `perf.data`;
    /// other formats are read with all options except the level of detail, which is fixed.
    ///
    /// # Errors
    ///
    /// If the input cannot be read at all, is empty or of an unknown format, or if it contains no single events.
    pub fn open(input: Input, options: &Options) -> Result<Self, ReadError> {
        let name = input.name().to_owned();
        let label = input.label().map(str::to_owned);
        let head = input.begin().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let reader = reader_of(&head, options.from)?;
        #[cfg(feature = "perf-data")]
        if reader.name() == perf_data::NAME {
            let (recording, warnings) = perf_data::open_recording(head)?;
            let (kinds, options) = (recording.kinds(), options.clone());
            return Ok(Self {
                source: Source::Recording(Box::new(recording)),
                kinds,
                warnings,
                options,
            });
        }
        let options = Options {
            detail: Detail::Samples,
            threads: ThreadDetail::Thread,
            unknown_addresses: true,
            instructions: false,
            ..options.clone()
        };
        let reading = read_with(reader, head, &options, label.as_deref())?;
        let warnings = reading.all_warnings();
        let profile = reading.profile;
        if profile.samples.iter().all(|sample| sample.time.is_none()) {
            return Err(ReadError::NoEvents { name, format: reader.name() });
        }
        let kinds = vec![kind_of(&profile, reading.event)];
        let locations = locate(&profile);
        let source = Source::Profile(Box::new((profile, locations)));
        Ok(Self { source, kinds, warnings, options })
    }

    /// Kinds of events in the input.
    pub fn kinds(&self) -> &[EventKind] {
        &self.kinds
    }

    /// Returns true if the input may contain records other than samples.
    pub fn has_records(&self) -> bool {
        match &self.source {
            #[cfg(feature = "perf-data")]
            Source::Recording(_) => true,
            Source::Profile(_) => false,
        }
    }

    /// Warnings about the input itself.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// First and last timestamp, in nanoseconds.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        match &self.source {
            #[cfg(feature = "perf-data")]
            Source::Recording(recording) => recording.time_span(),
            Source::Profile(of) => {
                let times = || of.0.samples.iter().filter_map(|sample| sample.time);
                times().min().zip(times().max())
            }
        }
    }

    /// Selects the events that `filter` keeps. `with_stacks`: for each kind, whether to resolve the stacks of its
    /// events, which is the most expensive part.
    pub fn choose(&self, filter: EventFilter, with_stacks: &[bool]) -> ChosenEvents<'_> {
        #[cfg(feature = "perf-data")]
        let recorded = match &self.source {
            Source::Recording(recording) => {
                let options = ResolveOptions {
                    workers: self.options.workers,
                    symbols: self.options.symbols.clone(),
                    ..ResolveOptions::default()
                };
                Some(recording.single_events(filter.clone(), with_stacks, &options))
            }
            Source::Profile(_) => None,
        };
        #[cfg(not(feature = "perf-data"))]
        let _ = with_stacks;
        ChosenEvents {
            input: self,
            filter,
            #[cfg(feature = "perf-data")]
            recorded,
        }
    }
}

fn kind_of(profile: &Profile, event: Option<String>) -> EventKind {
    let any = |known: fn(&Sample) -> bool| profile.samples.iter().any(|sample| known(&sample));
    let shown = profile.value_types.get(profile.shown).map(|of| of.name.clone());
    EventKind {
        name: event.or(shown).unwrap_or_default(),
        class: EventClass::Software,
        stack: true,
        thread: profile
            .threads
            .iter()
            .any(|thread| thread != profile.threads.get(pyrograph_profile::ThreadId::UNKNOWN)),
        time: true,
        cpu: any(|sample| sample.cpu.is_some()),
        ip: true,
        period: true,
        ..EventKind::default()
    }
}

/// Makes each frame a location of its own.
fn locate(profile: &Profile) -> Locations {
    let (strings, frames) = (profile.strings.clone(), profile.frames.clone());
    let rows: Vec<_> = (0..frames.len()).map(pyrograph_profile::FrameId::from_index).collect();
    let list = rows.iter().map(|&row| Location {
        address: frames.get(row).address,
        offset: None,
        rows: row.0..row.0 + 1,
    });
    Locations { list: list.collect(), rows, strings, frames }
}

impl ChosenEvents<'_> {
    /// Locations of the frames in the stacks.
    pub fn locations(&self) -> &Locations {
        match &self.input.source {
            #[cfg(feature = "perf-data")]
            Source::Recording(_) => {
                static NONE: std::sync::LazyLock<Locations> =
                    std::sync::LazyLock::new(Locations::default);
                self.recorded.as_ref().map_or(&NONE, SingleEvents::locations)
            }
            Source::Profile(of) => &of.1,
        }
    }

    /// Calls `on_event` for each event until it breaks: for `perf.data` in order of time, otherwise in the order of the
    /// input. `with_trace`: decode the fields of tracepoints to text.
    pub fn each(
        &self,
        with_trace: bool,
        on_event: &mut dyn FnMut(&SingleEvent<'_>) -> ControlFlow<()>,
    ) -> Warnings {
        #[cfg(feature = "perf-data")]
        if let Some(recorded) = &self.recorded {
            return perf_data::warnings_of_events(recorded, recorded.each(with_trace, on_event));
        }
        let _ = with_trace;
        match &self.input.source {
            #[cfg(feature = "perf-data")]
            Source::Recording(_) => {}
            Source::Profile(of) => each_sample(&of.0, &self.filter, on_event),
        }
        Warnings::default()
    }
}

fn each_sample(
    profile: &Profile,
    filter: &EventFilter,
    on_event: &mut dyn FnMut(&SingleEvent<'_>) -> ControlFlow<()>,
) {
    let mut stack = Vec::new();
    let values = profile.samples.values(profile.shown);
    for (sample, &period) in profile.samples.iter().zip(values) {
        let thread = profile.threads.get(sample.thread);
        let name = if thread.name == StringId::EMPTY { thread.process } else { thread.name };
        let event = SingleEvent {
            kind: 0,
            comm: profile.strings.get(name),
            pid: thread.pid,
            tid: thread.tid,
            cpu: sample.cpu,
            time: sample.time,
            period,
            ..SingleEvent::default()
        };
        if !filter.keeps(&event) {
            continue;
        }
        stack.clear();
        let frames = profile.stacks.leaf_first(sample.stack);
        stack.extend(frames.map(|frame| StackEntry { location: frame.0, returns: false }));
        if on_event(&SingleEvent { stack: &stack, ..event }).is_break() {
            break;
        }
    }
}
