//! Resolves the records of a recording into a profile.

use std::num::NonZero;

use pyrograph_event::{Record, Sample, sample_type};
use pyrograph_profile::{ThreadDetail, ValueType};
use pyrograph_resolve::{Arch, Feed, Files, NATIVE, Rename, Resolved, Resolver};
use pyrograph_symbol::Options as SymbolOptions;

use crate::events::Event;
use crate::field::FieldOfEvents;
use crate::files::RecordedFiles;
use crate::group_counts::Counts;
use crate::lost::Losses;
use crate::recording::{Place, Recording};

/// Options for the profile.
#[derive(Clone, Debug, Default)]
pub struct ResolveOptions {
    /// Count each sample as one, instead of by its period.
    pub count_samples: bool,
    /// Keep each sample, with its time and CPU, instead of totals per stack.
    pub keep_times: bool,
    /// Level of detail at which threads are distinguished.
    pub threads: ThreadDetail,
    /// Tell samples apart by this field of their tracepoint.
    pub field: Option<String>,
    /// Name functions that have no symbol by their address.
    pub unknown_addresses: bool,
    /// Keep the address of each sample's leaf, to identify the instruction.
    pub instructions: bool,
    /// Number of unwinding threads; 0 for the number of CPUs.
    pub workers: usize,
    /// Where to find symbols, and whether to add inlined calls.
    pub symbols: SymbolOptions,
    /// Renames functions.
    pub rename: Option<Rename>,
}

/// Profile of one event.
#[derive(Debug)]
pub struct Resolution {
    /// Profile, and counts of incomplete stacks.
    pub resolved: Resolved,
    /// Number of samples that were lost while recording.
    pub lost: u64,
}

impl Recording {
    /// Processes all records and resolves the samples of one event, given by its index in [`Recording::events`].
    ///
    /// # Panics
    ///
    /// If there is no such event.
    pub fn resolve(mut self, event: usize, options: &ResolveOptions) -> Resolution {
        // Taken out of the recording, so that its memory is freed once it is used up.
        let index = std::mem::take(&mut self.index);
        let (mut resolved, losses) = resolve(&self, index, event, options);
        let lost = losses.total();
        let about = &mut resolved.profile.about;
        about.lost = lost;
        about.host = self.features.hostname.clone();
        about.command = Some(self.features.command.join(" ")).filter(|command| !command.is_empty());
        let times = self.features.sample_time;
        about.duration = times.and_then(|(first, last)| last.checked_sub(first));
        Resolution { resolved, lost }
    }

    /// Returns the number of samples that were lost while recording.
    pub fn lost(&self) -> u64 {
        let mut losses = Losses::default();
        for &(_, place) in &self.index {
            let place = Place::from_number(place);
            let (event, bytes) = (&self.events.list[place.event()], self.record_at(place));
            if let Ok(record) = event.layout.decode(bytes) {
                losses.add(event, &record, self.misc(bytes));
            }
        }
        losses.total()
    }
}

fn resolve(
    recording: &Recording,
    index: Vec<(u64, u64)>,
    chosen: usize,
    options: &ResolveOptions,
) -> (Resolved, Losses) {
    let event = &recording.events.list[chosen];
    let count_samples = options.count_samples;
    let single = options.keep_times && !count_samples;
    let mut resolver = Resolver::new(
        RecordedFiles::new(recording, options.symbols.locator.clone()),
        pyrograph_resolve::Options {
            value_type: ValueType::new(&event.name, event.unit()),
            count_samples,
            // Go's compiler rejects profiles without a number of samples, whatever their values are.
            number_of: single.then(|| "samples".to_owned()),
            ..resolver_options(recording, options, event.has_monotonic_time())
        },
    );
    if let Some(rename) = options.rename {
        resolver = resolver.with_names(rename);
    }
    resolver.resolve(recording, workers(options), |feed| {
        let (counts, losses) = (Counts::default(), Losses::default());
        let field = options.field.as_deref().map(|name| FieldOfEvents::new(recording, name));
        let mut follow = Follow { recording, chosen, count_samples, field, counts, losses };
        for (_, place) in index {
            follow.record(place, feed);
        }
        follow.losses
    })
}

/// Returns options that do not depend on the event.
pub fn resolver_options(
    recording: &Recording,
    options: &ResolveOptions,
    monotonic_time: bool,
) -> pyrograph_resolve::Options {
    pyrograph_resolve::Options {
        value_type: ValueType::samples(),
        count_samples: false,
        number_of: None,
        keep_times: options.keep_times,
        stack_memory: None,
        guessing: true,
        languages: Vec::new(),
        monotonic_time,
        threads: options.threads,
        root_is_field: false,
        user_only: false,
        unknown_addresses: options.unknown_addresses,
        instructions: options.instructions,
        arch: arch(recording),
        symbols: options.symbols.clone(),
    }
}

/// Returns the number of unwinding threads.
pub fn workers(options: &ResolveOptions) -> usize {
    match options.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

/// Returns the architecture of the recorded programs.
pub fn arch(recording: &Recording) -> Arch {
    match recording.features.arch.as_deref() {
        Some("aarch64" | "arm64") => Arch::Aarch64,
        Some("x86_64") => Arch::X86_64,
        _ => NATIVE,
    }
}

/// Processes records in order of time.
struct Follow<'a> {
    recording: &'a Recording,
    chosen: usize,
    count_samples: bool,
    field: Option<FieldOfEvents<'a>>,
    counts: Counts,
    losses: Losses,
}

impl Follow<'_> {
    #[inline]
    fn record<F: Files>(&mut self, number: u64, feed: &mut Feed<'_, F>) {
        let place = Place::from_number(number);
        let bytes = self.recording.record_at(place);
        let event = &self.recording.events.list[place.event()];
        if !event.is_sample(bytes) {
            match event.layout.decode(bytes) {
                Ok(record) if self.losses.add(event, &record, self.recording.misc(bytes)) => {}
                Ok(record) => feed.record(&record),
                Err(_) => feed.unreadable(),
            }
            return;
        }
        let value = if event.has_counts() {
            self.counted(place, event, bytes)
        } else {
            (place.event() == self.chosen).then(|| event.period(bytes))
        };
        if let Some(value) = value {
            let (pid, tid) = event.pid_tid(bytes);
            if event.attr.sample_type & sample_type::CGROUP != 0
                && let Ok(Record::Sample(Sample { cgroup: Some(cgroup), .. })) =
                    event.layout.decode(bytes)
            {
                feed.in_cgroup(pid, cgroup);
            }
            let value = if self.count_samples { 1 } else { value };
            let field = self.field.as_ref().and_then(|field| field.text(place, bytes));
            feed.sample(pid, tid, field.as_deref(), number, value);
        }
    }

    /// Returns the increase of the chosen event's count in a sample that contains counts.
    fn counted(&mut self, place: Place, event: &Event, bytes: &[u8]) -> Option<u64> {
        let Ok(Record::Sample(sample)) = event.layout.decode(bytes) else {
            return (place.event() == self.chosen).then_some(0);
        };
        let chosen = self.chosen;
        let growth = self.counts.growth(self.recording, place, event, &sample);
        let mut grown = None;
        for (_, growth) in growth.filter(|&(kind, _)| kind == chosen) {
            grown = Some(grown.unwrap_or(0) + growth).filter(|&growth| growth > 0);
        }
        grown
    }
}
