//! `perf.data`, what `perf record` writes.
//!
//! The file is mapped, and one pass makes an index: time and place of every record. The index is
//! sorted by time (each CPU's records are sorted already), and the records are taken in that order,
//! where they are: nothing is copied. Samples are unwound by several threads. What cannot be read
//! where it is (from a pipe, or packed with `perf record -z`) is first written to a temporary file.
//!
//! Source of the format: `tools/perf/Documentation/perf.data-file-format.txt` in the kernel's
//! source, and `include/uapi/linux/perf_event.h` for the records that the kernel writes.

mod damage;
mod events;
mod features;
mod fields;
mod files;
mod header;
mod info;
mod lost;
mod recording;
mod records;
mod trace_events;
mod tracepoint;
mod tracing;
mod unpack;

#[cfg(test)]
mod tests;

pub use info::{EventInfo, ProcessInfo, RecordingInfo, SampleRate, recording_info};
pub use tracepoint::{Tracepoint, TracepointField};

use std::collections::BTreeMap;
use std::num::NonZero;

use hashbrown::HashMap;
use pyrograph_event::Record;
use pyrograph_profile::{TraceEvent, ValueType};
use pyrograph_resolve::{Arch, Feed, Files, NATIVE, Resolved, Resolver};

use self::events::Event;
use self::files::RecordedFiles;
use self::lost::Losses;
use self::recording::{Place, Recording};
use crate::input::Head;
use crate::names::tidy_name;
use crate::reader::{Count, Detail, Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// The name of the format.
const NAME: &str = "perf.data";

/// See the module.
pub struct PerfData;

impl Reader for PerfData {
    fn name(&self) -> &'static str {
        NAME
    }

    fn written_by(&self) -> &'static str {
        "perf record"
    }

    fn detect(&self, head: &[u8]) -> bool {
        header::detect(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut recording = Recording::open(input)
            .map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let mut warnings = damage(&recording, &name);
        let chosen = recording.events.choose(options.event.as_deref());
        let mut other_events = BTreeMap::<String, u64>::new();
        for (number, event) in recording.events.list.iter().enumerate() {
            if Some(number) != chosen && event.samples > 0 {
                *other_events.entry(event.name.clone()).or_default() += event.samples;
            }
        }
        let Some(chosen) = chosen else {
            if recording.events.list.iter().all(|event| event.samples == 0) {
                return Err(ReadError::Nothing { name, reason: without_samples(&recording) });
            }
            return Ok(Reading { warnings, other_events, ..Reading::default() });
        };
        let index = std::mem::take(&mut recording.index);
        let event = &recording.events.list[chosen];
        let (mut resolved, losses) = resolve(&recording, index, chosen, options);
        let about = &mut resolved.profile.about;
        about.lost = losses.total();
        about.host = recording.features.hostname.clone();
        let times = recording.features.sample_time;
        about.duration = times.and_then(|(first, last)| last.checked_sub(first));
        warn(&resolved, losses.total(), &mut warnings);
        let event = Some(event.name.clone());
        Ok(Reading { profile: resolved.profile, warnings, event, other_events })
    }

    fn events(
        &self,
        input: Head,
        on_event: &mut dyn FnMut(&TraceEvent<'_>),
    ) -> Result<Warnings, ReadError> {
        let name = input.name().to_owned();
        let recording = Recording::open(input)
            .map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let mut warnings = damage(&recording, &name);
        warnings.extend(trace_events::events(&recording, on_event));
        Ok(warnings)
    }
}

/// Why there is nothing to show.
fn without_samples(recording: &Recording) -> String {
    let events = &recording.events.list;
    if events.is_empty() {
        return "there is no event in it".to_owned();
    }
    // perf adds a dummy event for the records that are no samples.
    let names = events.iter().map(|event| event.name.as_str());
    let names: Vec<&str> = names.filter(|name| !name.starts_with("dummy")).collect();
    let names = names.join(", ");
    let mut losses = Losses::default();
    for &(_, place) in &recording.index {
        let place = Place::from_number(place);
        let (event, bytes) = (&events[place.event()], recording.record_at(place));
        if let Ok(record) = event.layout.decode(bytes) {
            losses.add(event, &record, recording.misc(bytes));
        }
    }
    let damage = recording.damage.first().or(recording.flaws.first());
    match (losses.total(), damage) {
        (0, None) => format!("there is no sample of {names} in it"),
        (0, Some(damage)) => format!("there is no sample of {names} in it: {damage}"),
        (lost, _) => {
            format!("there is no sample of {names} in it: {lost} were lost while recording")
        }
    }
}

/// The damage in the file.
fn damage(recording: &Recording, name: &str) -> Warnings {
    let mut warnings = Warnings::default();
    for damage in &recording.damage {
        warnings.add(WarningKind::Truncated(format!("{name}: {damage}")), 1, []);
    }
    for flaw in &recording.flaws {
        warnings.add(WarningKind::Damaged(format!("{name}: {flaw}")), 1, []);
    }
    if recording.impossible > 0 {
        warnings.add(WarningKind::UnreadableRecord, recording.impossible, []);
    }
    warnings
}

/// Follows all records and resolves the samples of one event. The index goes when it is used up.
fn resolve(
    recording: &Recording,
    index: Vec<(u64, u64)>,
    chosen: usize,
    options: &Options,
) -> (Resolved, Losses) {
    let event = &recording.events.list[chosen];
    let single = options.detail == Detail::Samples && options.count == Count::Period;
    let resolver = Resolver::new(
        RecordedFiles::new(recording, options.symbols.locator.clone()),
        pyrograph_resolve::Options {
            value_type: ValueType::new(&event.name, event.unit()),
            count_samples: options.count == Count::Samples,
            // Go's compiler takes no profile without the number of samples, whatever its values are.
            number_of: single.then(|| "samples".to_owned()),
            keep_time: options.detail == Detail::Samples,
            stack_memory: None,
            guessing: true,
            monotonic_time: event.has_monotonic_time(),
            threads: options.threads,
            user_only: false,
            addresses: options.unknown_addresses,
            arch: arch(recording),
            symbols: options.symbols.clone(),
        },
    )
    .with_names(tidy_name);
    let workers = match options.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    };
    resolver.resolve(recording, workers, |feed| {
        let count_samples = options.count == Count::Samples;
        let (counts, losses) = (HashMap::default(), Losses::default());
        let mut follow = Follow { recording, chosen, count_samples, counts, losses };
        for (_, place) in index {
            follow.record(place, feed);
        }
        follow.losses
    })
}

fn arch(recording: &Recording) -> Arch {
    match recording.features.arch.as_deref() {
        Some("aarch64" | "arm64") => Arch::Aarch64,
        Some("x86_64") => Arch::X86_64,
        _ => NATIVE,
    }
}

/// Takes the records in the order of time.
struct Follow<'a> {
    recording: &'a Recording,
    chosen: usize,
    count_samples: bool,
    /// The last count of each event, where samples tell counts; of each thread's, where threads
    /// inherit events.
    counts: HashMap<(u64, i32), u64, foldhash::fast::FixedState>,
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
            feed.sample(pid, tid, number, if self.count_samples { 1 } else { value });
        }
    }

    /// Growth of the chosen event's count, by a sample that holds counts.
    fn counted(&mut self, place: Place, event: &Event, bytes: &[u8]) -> Option<u64> {
        let Ok(Record::Sample(sample)) = event.layout.decode(bytes) else {
            return (place.event() == self.chosen).then_some(0);
        };
        let thread = if event.inherits() { sample.id.tid.unwrap_or(-1) } else { 0 };
        let mut grown = None;
        for value in sample.read.iter().flat_map(|values| values.iter()) {
            let Some(id) = value.id.or(sample.id.id) else { continue };
            if self.recording.events.index(id).unwrap_or(place.event()) != self.chosen {
                continue;
            }
            let before = self.counts.insert((id, thread), value.value).unwrap_or(0);
            let growth = value.value.saturating_sub(before);
            grown = Some(grown.unwrap_or(0) + growth).filter(|&growth| growth > 0);
        }
        grown
    }
}

/// Warns about all that makes the result less than whole.
fn warn(resolved: &Resolved, lost: u64, warnings: &mut Warnings) {
    let stats = &resolved.stats;
    let mut count = |kind: WarningKind, count: u64| {
        if count > 0 {
            warnings.add(kind, count, []);
        }
    };
    count(WarningKind::LostSamples, lost);
    count(WarningKind::UnreadableRecord, stats.unreadable);
    count(WarningKind::CutStack, stats.truncated);
    count(WarningKind::BrokenStack, stats.broken);
    for path in &stats.missing_files {
        count(WarningKind::MissingFile(path.clone()), 1);
    }
    for warning in &stats.names.warnings {
        count(WarningKind::Symbols(warning.to_string()), 1);
    }
    if stats.names.kernel_hidden {
        count(WarningKind::KernelHidden, 1);
    }
}
