//! Information that a recording contains about itself.

use std::collections::BTreeMap;

use pyrograph_event::{Attr, Record, flag, type_id};
use pyrograph_profile::{EventInfo, FieldInfo, ProcessInfo, RecordingInfo, SampleRate};

use crate::lost::Losses;
use crate::recording::{Place, Recording};
use crate::tracepoint::{Tracepoint, TracepointField};
use crate::tracing;

fn rate(attr: &Attr) -> SampleRate {
    match attr.has(flag::FREQ) {
        true => SampleRate::Frequency(attr.sample_period),
        false => SampleRate::Period(attr.sample_period),
    }
}

fn field(field: &TracepointField) -> FieldInfo {
    let TracepointField { name, kind, offset, size, .. } = field;
    FieldInfo { name: name.clone(), kind: kind.clone(), offset: *offset, size: *size }
}

impl Recording {
    /// Returns the information that a file contains about itself.
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
        // Available CPUs come first, online CPUs second.
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
            rate: rate(&event.attr),
            fields: tracepoint.iter().flat_map(|of| of.fields.iter().map(field)).collect(),
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
