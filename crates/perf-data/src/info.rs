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

/// Names of the bits of `sample_type`, in their order (`enum perf_event_sample_format`).
const PARTS: [&str; 25] = [
    "IP",
    "TID",
    "TIME",
    "ADDR",
    "READ",
    "CALLCHAIN",
    "ID",
    "CPU",
    "PERIOD",
    "STREAM_ID",
    "RAW",
    "BRANCH_STACK",
    "REGS_USER",
    "STACK_USER",
    "WEIGHT",
    "DATA_SRC",
    "IDENTIFIER",
    "TRANSACTION",
    "REGS_INTR",
    "PHYS_ADDR",
    "AUX",
    "CGROUP",
    "DATA_PAGE_SIZE",
    "CODE_PAGE_SIZE",
    "WEIGHT_STRUCT",
];

/// Names of the bit fields of `perf_event_attr`, in their order; of [`PRECISE_BITS`] bits there is one number.
const ATTRIBUTES: [&str; 37] = [
    "disabled",
    "inherit",
    "pinned",
    "exclusive",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_idle",
    "mmap",
    "comm",
    "freq",
    "inherit_stat",
    "enable_on_exec",
    "task",
    "watermark",
    "",
    "",
    "mmap_data",
    "sample_id_all",
    "exclude_host",
    "exclude_guest",
    "exclude_callchain_kernel",
    "exclude_callchain_user",
    "mmap2",
    "comm_exec",
    "use_clockid",
    "context_switch",
    "write_backward",
    "namespaces",
    "ksymbol",
    "bpf_event",
    "aux_output",
    "cgroup",
    "text_poke",
    "build_id",
    "inherit_thread",
    "remove_on_exec",
];

/// Bits of `precise_ip`.
const PRECISE_BITS: std::ops::Range<usize> = 15..17;

fn parts(attr: &Attr) -> Vec<&'static str> {
    let is_set = |bit: usize| attr.sample_type & 1 << bit != 0;
    PARTS.iter().enumerate().filter(|(bit, _)| is_set(*bit)).map(|(_, name)| *name).collect()
}

fn attributes(attr: &Attr) -> Vec<String> {
    let is_set = |bit: usize| attr.flags & 1 << bit != 0;
    let flags = ATTRIBUTES.iter().enumerate();
    let flags = flags.filter(|(bit, name)| is_set(*bit) && !name.is_empty());
    let precise = attr.flags >> PRECISE_BITS.start & ((1 << PRECISE_BITS.len()) - 1);
    let numbers = [
        ("precise_ip", precise),
        ("sample_stack_user", attr.sample_stack_user.into()),
        ("sample_max_stack", attr.sample_max_stack.into()),
    ];
    let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
    flags
        .map(|(_, name)| (*name).to_owned())
        .chain(numbers.map(|(name, number)| format!("{name}={number}")))
        .collect()
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
        cpu_id: features.cpu_id,
        sockets: features.sockets,
        cores: features.cores,
        nodes: features.nodes,
        pmus: features.pmus,
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
            kind: event.attr.type_,
            config: event.attr.config,
            parts: parts(&event.attr),
            attributes: attributes(&event.attr),
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
