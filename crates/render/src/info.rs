//! Descriptions of recordings from their files, as text and JSON.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use pyrograph_profile::{EventInfo, ProcessInfo, RecordingInfo, SampleRate};
use serde_json::json;

use crate::units::{counted, grouped, percent};

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
    line("memory", info.memory.map(|bytes| format!("{} MiB", grouped(bytes >> 20))))?;
    line("perf", info.perf.clone())?;
    line("command", Some(info.command.join(" ")))?;
    for event in &info.events {
        line("event", Some(event_text(event)))?;
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

fn cpu(info: &RecordingInfo) -> Option<String> {
    let mut parts: Vec<String> = info.cpu.iter().cloned().collect();
    parts.extend(info.cpus.map(|cpus| counted(u64::from(cpus), "CPU")));
    parts.extend(info.arch.clone());
    (!parts.is_empty()).then(|| parts.join(", "))
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
            "fields": fields.collect::<Vec<_>>(),
        })
    };
    let process = |process: &ProcessInfo| json!({ "pid": process.pid, "name": process.name, "samples": process.samples });
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let info = json!({
        "host": info.host,
        "kernel": info.kernel,
        "arch": info.arch,
        "cpu": info.cpu,
        "cpus_online": info.cpus,
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
