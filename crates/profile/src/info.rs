//! Description of a recording, from its file.

use std::time::SystemTime;

/// Metadata in the file of a recording, such as `perf.data`. Parts that the file lacks are empty or `None`.
#[derive(Clone, Debug, Default)]
pub struct RecordingInfo {
    /// Name of the machine.
    pub host: Option<String>,
    /// Version of the kernel.
    pub kernel: Option<String>,
    /// Architecture of the machine, in the form of `uname -m`.
    pub arch: Option<String>,
    /// Name of the CPU model.
    pub cpu: Option<String>,
    /// ID of the CPU model: vendor, family, model and stepping.
    pub cpu_id: Option<String>,
    /// Number of online CPUs.
    pub cpus: Option<u32>,
    /// CPUs of each socket, as `0-7,16-23`.
    pub sockets: Vec<String>,
    /// CPUs of each core, which are its hardware threads.
    pub cores: Vec<String>,
    /// NUMA nodes.
    pub nodes: Vec<NodeInfo>,
    /// Numbers and names of the PMUs.
    pub pmus: Vec<(u32, String)>,
    /// Size of the machine's memory in bytes.
    pub memory: Option<u64>,
    /// Version of perf.
    pub perf: Option<String>,
    /// Command line of perf.
    pub command: Vec<String>,
    /// Time at which the file was written, as far as known.
    pub written: Option<SystemTime>,
    /// The recorded events.
    pub events: Vec<EventInfo>,
    /// Number of samples of all events.
    pub samples: u64,
    /// Number of lost samples.
    pub lost: u64,
    /// Number of times that the kernel throttled sampling.
    pub throttled: u64,
    /// Times of the first and the last sample, in nanoseconds of the recording's clock.
    pub time: Option<(u64, u64)>,
    /// The sampled processes, by descending number of samples.
    pub processes: Vec<ProcessInfo>,
    /// Descriptions of damage in the file.
    pub damage: Vec<String>,
}

/// A NUMA node of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Number of the node.
    pub number: u32,
    /// Size of its memory in bytes.
    pub memory: u64,
    /// Its CPUs, as `0-7`.
    pub cpus: String,
}

/// An event of a recording.
#[derive(Clone, Debug, Default)]
pub struct EventInfo {
    /// Name of the event, as it was requested.
    pub name: String,
    /// Number of samples.
    pub samples: u64,
    /// Sample rate.
    pub rate: SampleRate,
    /// Type in `perf_event_attr`.
    pub kind: u32,
    /// Event of that type (`config`).
    pub config: u64,
    /// Parts of a sample, by the kernel's names: `IP`, `TID` (`sample_type`).
    pub parts: Vec<&'static str>,
    /// Attributes that are set, by the kernel's names: `inherit`, `exclude_kernel`, `precise_ip=2`.
    pub attributes: Vec<String>,
    /// Fields of a tracepoint's samples.
    pub fields: Vec<FieldInfo>,
}

/// Sample rate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Samples per second, as close to this number as the kernel gets.
    Frequency(u64),
    /// Number of events per sample.
    Period(u64),
}

impl Default for SampleRate {
    fn default() -> Self {
        Self::Period(1)
    }
}

/// A field of a tracepoint's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldInfo {
    /// Name of the field.
    pub name: String,
    /// C type of the field.
    pub kind: String,
    /// Offset in the raw data of a sample, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// A process of a recording.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Process ID; −1 for a process that had already exited, 0 for the idle task.
    pub pid: i32,
    /// Last name of the process.
    pub name: String,
    /// Number of samples.
    pub samples: u64,
}
