//! Recordings as their files describe them.

use std::time::SystemTime;

/// Information that a file of a recording, as `perf.data`, holds about itself. Parts that it lacks are empty or `None`.
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
    pub fields: Vec<FieldInfo>,
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

/// A field in the samples of a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// Its type as C has it.
    pub kind: String,
    /// Where in the raw data of a sample it is, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
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
