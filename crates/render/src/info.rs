//! Descriptions of recordings from their files, as text and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use pyrograph_analyze::origin;
use pyrograph_profile::{
    EventInfo, NodeInfo, ProcessInfo, Profile, RecordingInfo, SampleRate, Thread,
};
use serde_json::json;

use crate::subtitle::{minute, subtitle};
use crate::units::{Values, counted, grouped, percent};

/// Maximum number of processes listed in text.
const PROCESSES: usize = 10;

/// Writes the description of a recording as text.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn info_text(info: &RecordingInfo, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, text: Option<String>| match text.filter(|text| !text.is_empty()) {
        Some(text) => writeln!(out, "{name:<10} {text}"),
        None => Ok(()),
    };
    line("host", info.host.clone())?;
    line("kernel", info.kernel.clone())?;
    line("cpu", cpu(info))?;
    line("cpuid", info.cpu_id.clone())?;
    line("topology", topology(info))?;
    for node in &info.nodes {
        let memory = grouped(node.memory >> 20);
        line("node", Some(format!("{}: CPUs {}, {memory} MiB", node.number, node.cpus)))?;
    }
    line("memory", info.memory.map(|bytes| format!("{} MiB", grouped(bytes >> 20))))?;
    line("perf", info.perf.clone())?;
    let pmus: Vec<String> =
        info.pmus.iter().map(|(number, name)| format!("{name} {number}")).collect();
    line("pmus", Some(pmus.join(", ")))?;
    let since_epoch = info.written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    line("captured", since_epoch.map(|time| minute(time.as_nanos() as u64)))?;
    line("command", Some(info.command.join(" ")))?;
    for event in &info.events {
        line("event", Some(event_text(event)))?;
        line("  parts", Some(event.parts.join(", ")))?;
        line("  set", Some(event.attributes.join(", ")))?;
        let fields: Vec<&str> = event.fields.iter().map(|field| field.name.as_str()).collect();
        line("  fields", Some(fields.join(", ")))?;
    }
    line("samples", Some(format!("{}, {} lost", grouped(info.samples), grouped(info.lost))))?;
    let throttled = counted(info.throttled, "time");
    line("throttled", (info.throttled > 0).then_some(throttled))?;
    line("time", info.time.map(time_text))?;
    for process in info.processes.iter().take(PROCESSES) {
        line("process", Some(process_text(process, info.samples)))?;
    }
    let more = info.processes.len().saturating_sub(PROCESSES);
    line("", (more > 0).then(|| format!("and {} more", grouped(more as u64))))?;
    info.damage.iter().try_for_each(|damage| line("damaged", Some(damage.clone())))
}

/// Writes the description of a profile in the named format as text.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn profile_text(format: &str, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, text: Option<String>| match text.filter(|text| !text.is_empty()) {
        Some(text) => writeln!(out, "{name:<10} {}", crate::report::plain(&text)),
        None => Ok(()),
    };
    line("format", Some(format.to_owned()))?;
    line("command", profile.about.command.clone())?;
    let recorded = origin(profile, profile.shown).map(|origin| subtitle(&origin, None, 1.0));
    line("recorded", recorded)?;
    for (column, of) in profile.value_types.iter().enumerate() {
        let mut value = String::new();
        Values::plain(of, None, 1.0).write(&mut value, profile.samples.total(column));
        let name = if of.is_unnamed() { "values without a unit" } else { &of.name };
        line("value", Some(format!("{name}: {value}")))?;
    }
    if let Some((of, period)) = &profile.about.period {
        let mut value = String::new();
        Values::plain(of, None, 1.0).write(&mut value, *period);
        line("period", Some(format!("one sample each {value}")))?;
    }
    let counts = [
        (threads(profile), "thread"),
        (profile.stacks.len().saturating_sub(1), "stack node"),
        (profile.frames.len(), "frame"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, of)| counted(count as u64, of)).collect();
    line("size", Some(counts.join(", ")))?;
    let times = if has_times(profile) { "of each sample" } else { "none" };
    line("times", Some(times.to_owned()))?;
    let (processes, whole) = (processes(profile), profile.samples.total(profile.shown));
    for (name, pid, value) in processes.iter().take(PROCESSES) {
        let pid = pid.map(|pid| format!(" ({pid})")).unwrap_or_default();
        line("process", Some(format!("{name}{pid}: {}", percent(*value, whole))))?;
    }
    let more = processes.len().saturating_sub(PROCESSES);
    line("", (more > 0).then(|| format!("and {} more", grouped(more as u64))))?;
    profile.about.comments.iter().try_for_each(|comment| line("comment", Some(comment.clone())))
}

/// Writes the description of a profile in the named format as JSON.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn profile_json(format: &str, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let about = &profile.about;
    let values = profile.value_types.iter().enumerate().map(|(column, of)| {
        json!({
            "name": of.name, "unit": of.unit, "decimals": of.decimals,
            "total": profile.samples.total(column), "shown": column == profile.shown,
        })
    });
    let processes = processes(profile)
        .into_iter()
        .map(|(name, pid, value)| json!({ "name": name, "pid": pid, "value": value }));
    let info = json!({
        "format": format,
        "command": about.command,
        "host": origin(profile, profile.shown).and_then(|origin| origin.host),
        "start_unix_ns": about.start,
        "duration_ns": about.duration,
        "period": about.period.as_ref().map(|(of, period)| json!({ "of": of.name, "unit": of.unit, "value": period })),
        "lost_samples": about.lost,
        "values": values.collect::<Vec<_>>(),
        "threads": threads(profile),
        "stack_nodes": profile.stacks.len().saturating_sub(1),
        "frames": profile.frames.len(),
        "has_times": has_times(profile),
        "processes": processes.collect::<Vec<_>>(),
        "comments": about.comments,
    });
    writeln!(out, "{info:#}")
}

fn has_times(profile: &Profile) -> bool {
    profile.samples.iter().any(|sample| sample.time.is_some())
}

/// Number of known threads that have samples.
fn threads(profile: &Profile) -> usize {
    let threads: BTreeSet<_> = profile.samples.iter().map(|sample| sample.thread).collect();
    let is_known = |thread: Thread| {
        thread.tid.is_some() || !thread.name.is_empty() || !thread.process.is_empty()
    };
    threads.into_iter().filter(|&thread| is_known(profile.threads.get(thread))).count()
}

/// Names and IDs of the known processes with the shown value of their samples, the highest first.
fn processes(profile: &Profile) -> Vec<(String, Option<i32>, u64)> {
    let mut sums = BTreeMap::new();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(profile.shown)) {
        let thread = profile.threads.get(sample.thread);
        let sum: &mut u64 =
            sums.entry((profile.strings.get(thread.process), thread.pid)).or_default();
        *sum = sum.saturating_add(*value);
    }
    let is_known = |(name, pid): &(&str, Option<i32>)| !name.is_empty() || pid.is_some();
    let mut processes: Vec<(String, Option<i32>, u64)> = sums
        .into_iter()
        .filter(|(process, _)| is_known(process))
        .map(|((name, pid), value)| {
            (if name.is_empty() { "(no name)" } else { name }.to_owned(), pid, value)
        })
        .collect();
    processes.sort_by_key(|(_, _, value)| std::cmp::Reverse(*value));
    processes
}

fn cpu(info: &RecordingInfo) -> Option<String> {
    let mut parts: Vec<String> = info.cpu.iter().cloned().collect();
    parts.extend(info.cpus.map(|cpus| counted(u64::from(cpus), "CPU")));
    parts.extend(info.arch.clone());
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn topology(info: &RecordingInfo) -> Option<String> {
    let count = |list: &[String], of: &str| counted(list.len() as u64, of);
    let [sockets, cores] = [&info.sockets, &info.cores].map(|list| list.join("; "));
    (!info.sockets.is_empty()).then(|| {
        format!(
            "{} ({sockets}), {} ({cores})",
            count(&info.sockets, "socket"),
            count(&info.cores, "core")
        )
    })
}

fn event_text(event: &EventInfo) -> String {
    let rate = match event.rate {
        SampleRate::Frequency(hertz) => format!("{} a second", grouped(hertz)),
        SampleRate::Period(0 | 1) => "each one".to_owned(),
        SampleRate::Period(period) => format!("one in {}", grouped(period)),
    };
    format!("{}: {}, {rate}", event.name, counted(event.samples, "sample"))
}

fn time_text((first, last): (u64, u64)) -> String {
    let seconds = |time: u64| format!("{}.{:06}", time / 1_000_000_000, time / 1000 % 1_000_000);
    format!("{} s ({} to {})", seconds(last.saturating_sub(first)), seconds(first), seconds(last))
}

fn process_text(process: &ProcessInfo, all: u64) -> String {
    let name = if process.name.is_empty() { "(no name)" } else { &process.name };
    let samples = counted(process.samples, "sample");
    format!("{name} ({}): {samples}, {}", process.pid, percent(process.samples, all))
}

/// Writes the description of a recording as JSON.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn info_json(info: &RecordingInfo, out: &mut dyn Write) -> io::Result<()> {
    let event = |event: &EventInfo| {
        let (frequency, period) = match event.rate {
            SampleRate::Frequency(hertz) => (Some(hertz), None),
            SampleRate::Period(period) => (None, Some(period)),
        };
        let fields = event.fields.iter().map(|field| {
            json!({
                "name": field.name, "type": field.kind, "offset": field.offset, "size": field.size,
            })
        });
        json!({
            "name": event.name,
            "samples": event.samples,
            "frequency_hz": frequency,
            "period": period,
            "type": event.kind,
            "config": event.config,
            "sample_type": event.parts,
            "attributes": event.attributes,
            "fields": fields.collect::<Vec<_>>(),
        })
    };
    let node = |node: &NodeInfo| json!({ "number": node.number, "memory_bytes": node.memory, "cpus": node.cpus });
    let process = |process: &ProcessInfo| json!({ "pid": process.pid, "name": process.name, "samples": process.samples });
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let info = json!({
        "host": info.host,
        "kernel": info.kernel,
        "arch": info.arch,
        "cpu": info.cpu,
        "cpuid": info.cpu_id,
        "cpus_online": info.cpus,
        "sockets": info.sockets,
        "cores": info.cores,
        "numa_nodes": info.nodes.iter().map(node).collect::<Vec<_>>(),
        "pmus": info.pmus.iter().map(|(number, name)| json!({ "type": number, "name": name })).collect::<Vec<_>>(),
        "memory_bytes": info.memory,
        "perf_version": info.perf,
        "command": info.command,
        "written_unix_seconds": info.written.and_then(since_epoch).map(|time| time.as_secs()),
        "events": info.events.iter().map(event).collect::<Vec<_>>(),
        "samples": info.samples,
        "lost_samples": info.lost,
        "throttled": info.throttled,
        "first_sample_ns": info.time.map(|(first, _)| first),
        "last_sample_ns": info.time.map(|(_, last)| last),
        "processes": info.processes.iter().map(process).collect::<Vec<_>>(),
        "damage": info.damage,
    });
    writeln!(out, "{info:#}")
}
