//! Reader of `perf.data`, the files that `perf record` writes, by means of [`pyrograph_perf_data`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use pyrograph_perf_data::{
    Recording, RecordingInfo, ResolveOptions, Resolved, SingleEvents, Stats, Unread,
};
use pyrograph_profile::TraceEvent;

use crate::input::Head;
use crate::names::tidy_name;
use crate::reader::{Count, Detail, Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Name of the format.
pub const NAME: &str = "perf.data";

/// Reader of `perf.data` files.
pub struct PerfData;

impl Reader for PerfData {
    fn name(&self) -> &'static str {
        NAME
    }

    fn written_by(&self) -> &'static str {
        "perf record"
    }

    fn detect(&self, head: &[u8]) -> bool {
        pyrograph_perf_data::detect(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (recording, mut warnings) = open_recording(input)?;
        let chosen = recording.choose_event(options.event.as_deref());
        let mut other_events = BTreeMap::<String, u64>::new();
        let mut event = None;
        for (number, (name, samples)) in recording.events().enumerate() {
            if Some(number) == chosen {
                event = Some(name.to_owned());
            } else if samples > 0 {
                *other_events.entry(name.to_owned()).or_default() += samples;
            }
        }
        let Some(chosen) = chosen else {
            if recording.events().all(|(_, samples)| samples == 0) {
                return Err(ReadError::Nothing { name, reason: without_samples(&recording) });
            }
            return Ok(Reading { warnings, other_events, ..Reading::default() });
        };
        let options = ResolveOptions {
            count_samples: options.count == Count::Samples,
            keep_times: options.detail == Detail::Samples,
            threads: options.threads,
            field: options.field.clone(),
            unknown_addresses: options.unknown_addresses,
            instructions: options.instructions,
            workers: options.workers,
            symbols: options.symbols.clone(),
            rename: Some(tidy_name),
        };
        let resolution = recording.resolve(chosen, &options);
        warn(&resolution.resolved, resolution.lost, &mut warnings);
        Ok(Reading { profile: resolution.resolved.profile, warnings, event, other_events })
    }

    fn events(
        &self,
        input: Head,
        on_event: &mut dyn FnMut(&TraceEvent<'_>),
    ) -> Result<Warnings, ReadError> {
        let (recording, mut warnings) = open_recording(input)?;
        let unread = recording.each_sample(on_event);
        for (kind, count) in [
            (WarningKind::LostSamples, unread.lost),
            (WarningKind::UnreadableRecord, unread.unreadable),
        ] {
            if count > 0 {
                warnings.add(kind, count, []);
            }
        }
        Ok(warnings)
    }
}

/// Opens a recording. Returns it with warnings about damage in the file.
pub fn open_recording(input: Head) -> Result<(Recording, Warnings), ReadError> {
    let name = input.name().to_owned();
    let recording = open(input).map_err(|source| ReadError::Io { name: name.clone(), source })?;
    let warnings = damage(&recording, &name);
    Ok((recording, warnings))
}

/// Warnings about events that were read one by one.
pub fn warnings_of_events(events: &SingleEvents<'_>, unread: Unread) -> Warnings {
    warnings_of(events.stats(), unread)
}

/// Warnings about events that were read one by one, and about their stacks, if they had any.
pub fn warnings_of(stats: Option<&Stats>, unread: Unread) -> Warnings {
    let mut warnings = Warnings::default();
    let stats = stats.cloned().unwrap_or_default();
    warn_of(&Stats { unreadable: unread.unreadable, ..stats }, unread.lost, &mut warnings);
    warnings
}

fn open(input: Head) -> io::Result<Recording> {
    match input.file() {
        Some(path) => Recording::open(path),
        None => Recording::read(&mut *input.into_stream()),
    }
}

/// Metadata of a file that is in this format.
pub(super) fn info_of(head: Head) -> Result<RecordingInfo, ReadError> {
    let name = head.name().to_owned();
    let recording = open(head).map_err(|source| ReadError::Io { name, source })?;
    Ok(recording.info())
}

/// Message for a recording without samples.
fn without_samples(recording: &Recording) -> String {
    // perf adds a dummy event for records other than samples.
    let names: Vec<&str> = recording.events().map(|(name, _)| name).collect();
    if names.is_empty() {
        return "there is no event in it".to_owned();
    }
    let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with("dummy")).collect();
    let names = names.join(", ");
    let damage = recording.damage().first().or(recording.contradictions().first());
    match (recording.lost(), damage) {
        (0, None) => format!("there is no sample of {names} in it"),
        (0, Some(damage)) => format!("there is no sample of {names} in it: {damage}"),
        (lost, _) => {
            format!("there is no sample of {names} in it: {lost} were lost while recording")
        }
    }
}

/// Warnings about damage in the file.
fn damage(recording: &Recording, name: &str) -> Warnings {
    let mut warnings = Warnings::default();
    for damage in recording.damage() {
        warnings.add(WarningKind::Truncated(format!("{name}: {damage}")), 1, []);
    }
    for flaw in recording.contradictions() {
        warnings.add(WarningKind::Damaged(format!("{name}: {flaw}")), 1, []);
    }
    if recording.impossible_records() > 0 {
        warnings.add(WarningKind::UnreadableRecord, recording.impossible_records(), []);
    }
    warnings
}

/// Adds warnings about everything that makes the profile incomplete.
fn warn(resolved: &Resolved, lost: u64, warnings: &mut Warnings) {
    warn_of(&resolved.stats, lost, warnings);
}

fn warn_of(stats: &Stats, lost: u64, warnings: &mut Warnings) {
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
