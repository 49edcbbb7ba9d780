//! Information that a recording holds about itself.

use std::collections::BTreeMap;
use std::time::SystemTime;

use pyrograph_event::{Attr, Record, flag, type_id};

use crate::lost::Losses;
use crate::recording::{Place, Recording};
use crate::tracepoint::{Tracepoint, TracepointField};
use crate::tracing;

/// Information that a `perf.data` file holds about itself. Parts that it lacks are empty or `None`.
#[derive(Clone, Debug, Default)]
pub struct RecordingInfo {
    /// The machine's name.
    pub host: Option<String>,
    /// The kernel's version.
    pub kernel: Option<String>,
    /// The machine's architecture, as `uname -m` has it.
    pub arch: Option<String>,
    /// The CPU's name.
    pub cpu: Option<String>,
    /// Number of CPUs that were online.
    pub cpus: Option<u32>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// perf's version.
    pub perf: Option<String>,
    /// perf's command line.
    pub command: Vec<String>,
    /// When the file was written, as far as is known.
    pub written: Option<SystemTime>,
    /// The events.
    pub events: Vec<EventInfo>,
    /// Samples of all events.
    pub samples: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// Number of times that the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Times of the first and the last sample, in nanoseconds on the recording's clock.
    pub time: Option<(u64, u64)>,
    /// The sampled processes, most samples first.
    pub processes: Vec<ProcessInfo>,
    /// Damage of the file.
    pub damage: Vec<String>,
}

/// An event of a recording.
#[derive(Clone, Debug, Default)]
pub struct EventInfo {
    /// Its name as it was asked for.
    pub name: String,
    /// Its samples.
    pub samples: u64,
    /// Its sample rate.
    pub rate: SampleRate,
    /// Fields in the samples of a tracepoint.
    pub fields: Vec<TracepointField>,
}

/// Sample rate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// So often a second, as near as the kernel came to it.
    Frequency(u64),
    /// Each time that it was counted so often.
    Period(u64),
}

impl Default for SampleRate {
    fn default() -> Self {
        Self::Period(1)
    }
}

impl SampleRate {
    fn of(attr: &Attr) -> Self {
        if attr.has(flag::FREQ) {
            Self::Frequency(attr.sample_period)
        } else {
            Self::Period(attr.sample_period)
        }
    }
}

/// A process of a recording.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Its number; −1 for one that was gone already, 0 for the idle task.
    pub pid: i32,
    /// The last name that it had.
    pub name: String,
    /// Its samples.
    pub samples: u64,
}

impl Recording {
    /// The information that a file holds about itself.
    pub fn info(&self) -> RecordingInfo {
        describe(self)
    }
}

fn describe(recording: &Recording) -> RecordingInfo {
    let features = recording.features.clone();
    let mut info = RecordingInfo {
        host: features.hostname,
        kernel: features.os_release,
        arch: features.arch,
        cpu: features.cpu,
        // Available CPUs come first, those that were online second.
        cpus: features.cpus.map(|(_, online)| online),
        memory: features.memory,
        perf: features.perf_version,
        command: features.command,
        written: recording.written,
        damage: recording.damage.clone(),
        ..RecordingInfo::default()
    };
    let tracepoints = tracing::parse(&recording.tracing_data, recording.order());
    for event in &recording.events.list {
        let is_it = |found: &&Tracepoint| {
            event.attr.type_ == type_id::TRACEPOINT && found.id == event.attr.config
        };
        let tracepoint = tracepoints.iter().find(is_it);
        info.events.push(EventInfo {
            name: event.name.clone(),
            samples: event.samples,
            rate: SampleRate::of(&event.attr),
            fields: tracepoint.map(|tracepoint| tracepoint.fields.clone()).unwrap_or_default(),
        });
    }
    count_records(recording, &mut info);
    info
}

fn count_records(recording: &Recording, info: &mut RecordingInfo) {
    let mut names: BTreeMap<i32, String> = BTreeMap::from([(0, "swapper".to_owned())]);
    let mut samples: BTreeMap<i32, u64> = BTreeMap::new();
    let mut losses = Losses::default();
    for &(time, number) in &recording.index {
        let place = Place::from_number(number);
        let event = &recording.events.list[place.event()];
        let bytes = recording.record_at(place);
        if event.is_sample(bytes) {
            info.samples += 1;
            *samples.entry(event.pid_tid(bytes).0).or_default() += 1;
            if event.layout.time(bytes).is_some() {
                info.time = Some((info.time.map_or(time, |(first, _)| first), time));
            }
            continue;
        }
        let record = event.layout.decode(bytes);
        if let Ok(record) = &record {
            losses.add(event, record, recording.misc(bytes));
        }
        match record {
            Ok(Record::Comm(comm)) if comm.pid == comm.tid => {
                names.insert(comm.pid, String::from_utf8_lossy(comm.name).into_owned());
            }
            Ok(Record::Fork(task)) if task.pid != task.parent_pid => {
                let name = names.get(&task.parent_pid).cloned();
                name.and_then(|name| names.insert(task.pid, name));
            }
            Ok(Record::Throttle(_)) => info.throttled += 1,
            _ => {}
        }
    }
    info.lost = losses.total();
    let process = |(pid, samples): (i32, u64)| ProcessInfo {
        pid,
        name: names.get(&pid).cloned().unwrap_or_default(),
        samples,
    };
    info.processes = samples.into_iter().map(process).collect();
    info.processes.sort_by_key(|process| std::cmp::Reverse(process.samples));
}
