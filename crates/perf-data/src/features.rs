//! perf's description of the machine and of itself: the feature sections of a file, and the corresponding records in a
//! pipe.

use std::collections::BTreeMap;

use pyrograph_event::{Attr, ByteOrder};
use pyrograph_profile::NodeInfo;

use crate::fields::{Fields, text};
use crate::header::words_of;

/// Feature numbers (`enum` of `HEADER_*` in the format's documentation).
pub mod number {
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CPUID: u32 = 9;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const CPU_TOPOLOGY: u32 = 13;
    pub const NUMA_TOPOLOGY: u32 = 14;
    pub const PMU_MAPPINGS: u32 = 16;
    pub const GROUP_DESC: u32 = 17;
    pub const SAMPLE_TIME: u32 = 21;
    pub const DIR_FORMAT: u32 = 24;
}

/// Size of a record's header, in bytes.
const RECORD_HEADER: usize = 8;

/// Flag of a build-ID record: its size is in the byte after the 20 bytes of build ID. Before Linux 5.13 the size was
/// always 20.
const BUILD_ID_SIZE: u16 = 1 << 15;

/// Maximum number of command line arguments; the rest is cut off. Empty words take more memory than they take in the
/// file.
const MOST_ARGUMENTS: usize = 1 << 14;

/// Properties of an event in addition to its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDescription {
    /// Name, as given to `perf record`.
    pub name: String,
    /// Its IDs.
    pub ids: Vec<u64>,
}

/// The contents of the features; empty or `None` if not in the file.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Host name.
    pub hostname: Option<String>,
    /// The kernel's version.
    pub os_release: Option<String>,
    /// perf's version.
    pub perf_version: Option<String>,
    /// Architecture of the machine, as in `uname -m`.
    pub arch: Option<String>,
    /// Number of available CPUs, and of online CPUs.
    pub cpus: Option<(u32, u32)>,
    /// Name of the CPU.
    pub cpu: Option<String>,
    /// ID of the CPU: vendor, family, model and the like.
    pub cpu_id: Option<String>,
    /// CPUs of each socket.
    pub sockets: Vec<String>,
    /// CPUs of each core.
    pub cores: Vec<String>,
    /// NUMA nodes.
    pub nodes: Vec<NodeInfo>,
    /// Numbers and names of PMUs.
    pub pmus: Vec<(u32, String)>,
    /// Memory of the machine, in bytes.
    pub memory: Option<u64>,
    /// Command line of perf.
    pub command: Vec<String>,
    /// Events.
    pub events: Vec<EventDescription>,
    /// Groups of events: name, index of the leader, number of members.
    pub groups: Vec<(String, u32, u32)>,
    /// Times of the first and the last sample, in nanoseconds.
    pub sample_time: Option<(u64, u64)>,
    /// Build IDs by path, of files that contain sampled code.
    pub build_ids: BTreeMap<String, Vec<u8>>,
    /// The data is in separate files.
    pub is_directory: bool,
}

impl Features {
    /// Adds a feature. Unknown or damaged ones are ignored.
    pub fn add(&mut self, feature: u32, bytes: &[u8], order: ByteOrder) {
        let mut from = Fields::new(bytes, order);
        let string = || Fields::new(bytes, order).string();
        match feature {
            number::BUILD_ID => self.add_build_ids(bytes, order),
            number::HOSTNAME => self.hostname = string(),
            number::OSRELEASE => self.os_release = string(),
            number::VERSION => self.perf_version = string(),
            number::ARCH => self.arch = string(),
            number::NRCPUS => self.cpus = from.u32().zip(from.u32()),
            number::CPUDESC => self.cpu = string(),
            number::CPUID => self.cpu_id = string(),
            number::TOTAL_MEM => self.memory = from.u64().map(|kib| kib.saturating_mul(1024)),
            number::CMDLINE => {
                from.u32();
                self.command = std::iter::from_fn(|| from.string()).take(MOST_ARGUMENTS).collect();
            }
            number::EVENT_DESC => self.events = event_descriptions(from, order),
            number::CPU_TOPOLOGY => {
                self.sockets = strings(&mut from);
                self.cores = strings(&mut from);
            }
            number::NUMA_TOPOLOGY => {
                from.u32();
                // The free memory follows the size of all.
                let mut node = || {
                    let (number, memory) = (from.u32()?, from.u64()?);
                    from.u64()?;
                    let memory = memory.saturating_mul(1024);
                    Some(NodeInfo { number, memory, cpus: from.string()? })
                };
                self.nodes = std::iter::from_fn(&mut node).collect();
            }
            number::PMU_MAPPINGS => {
                from.u32();
                let mut pmu = || Some((from.u32()?, from.string()?));
                self.pmus = std::iter::from_fn(&mut pmu).collect();
            }
            number::GROUP_DESC => {
                from.u32();
                let mut group = || Some((from.string()?, from.u32()?, from.u32()?));
                self.groups = std::iter::from_fn(&mut group).collect();
            }
            number::SAMPLE_TIME => self.sample_time = from.u64().zip(from.u64()),
            number::DIR_FORMAT => self.is_directory = true,
            _ => {}
        }
    }

    /// Adds build IDs from consecutive records.
    pub fn add_build_ids(&mut self, mut bytes: &[u8], order: ByteOrder) {
        while let Some((record, rest)) = split_record(bytes, order) {
            self.add_build_id(record, order);
            bytes = rest;
        }
    }

    /// Adds one record: `pid`, 20 bytes of build ID, its size, three unused bytes, path.
    fn add_build_id(&mut self, record: &[u8], order: ByteOrder) -> Option<()> {
        let mut from = Fields::new(record, order);
        from.u32()?;
        let misc = from.u16()?;
        from.u16()?;
        from.u32()?;
        let id = from.take(20)?;
        let size = usize::from(from.u8()?);
        from.take(3)?;
        let len = if misc & BUILD_ID_SIZE != 0 { size.min(id.len()) } else { id.len() };
        self.build_ids.insert(text(from.rest()), id[..len].to_vec());
        Some(())
    }
}

/// Reads a list: `u32 count`, and that many texts.
fn strings(from: &mut Fields<'_>) -> Vec<String> {
    let count = from.u32().unwrap_or(0) as usize;
    std::iter::from_fn(|| from.string()).take(count.min(MOST_ARGUMENTS)).collect()
}

/// Splits off the first record of `bytes`.
fn split_record(bytes: &[u8], order: ByteOrder) -> Option<(&[u8], &[u8])> {
    let mut from = Fields::new(bytes, order);
    from.u32()?;
    from.u16()?;
    let size = usize::from(from.u16()?);
    if size < RECORD_HEADER {
        return None;
    }
    bytes.split_at_checked(size)
}

/// Parses `u32 count, u32 attr_size`, and for each event: attributes, `u32 ids`, name, IDs.
fn event_descriptions(mut from: Fields<'_>, order: ByteOrder) -> Vec<EventDescription> {
    let (Some(_), Some(attr_size)) = (from.u32(), from.u32()) else { return Vec::new() };
    let mut event = || {
        let attr = from.take(usize::try_from(attr_size).ok()?)?;
        let ids = usize::try_from(from.u32()?).ok()?;
        let name = from.string()?;
        let ids = words_of(from.take(ids.checked_mul(8)?)?, order);
        // With zero-sized attributes there would be no end of events.
        (!attr.is_empty()).then_some(EventDescription { name, ids })
    };
    std::iter::from_fn(&mut event).collect()
}

/// Returns the name that perf gives to an event without a name.
pub fn default_name(attr: &Attr) -> String {
    use pyrograph_event::type_id;

    const HARDWARE: [&str; 10] = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: [&str; 12] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ];
    let names: &[&str] = match attr.type_ {
        type_id::HARDWARE => &HARDWARE,
        type_id::SOFTWARE => &SOFTWARE,
        _ => &[],
    };
    let known = usize::try_from(attr.config).ok().and_then(|config| names.get(config));
    match known {
        Some(name) => (*name).to_owned(),
        None if attr.type_ == type_id::RAW => format!("raw 0x{:x}", attr.config),
        None if attr.type_ == type_id::TRACEPOINT => format!("tracepoint {}", attr.config),
        None => format!("event type {} config 0x{:x}", attr.type_, attr.config),
    }
}
