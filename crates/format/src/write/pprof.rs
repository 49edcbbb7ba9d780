//! Writer for pprof: `profile.proto`, gzipped. [`read::pprof`](crate::read) describes the format.
//!
//! - Frames without a module, unless they are plain user code, belong to a mapping named after their kind: `[remark]`,
//!   `[jit]` … A field of our own holds the kind of frames whose mapping does not imply it.
//! - The first mapping is the program: other tools assume this.
//! - An address is the offset in the module's file: its mapping begins at 0. If samples have instruction addresses, the
//!   location of the leaf has it; these locations have even IDs, the others odd ones.
//! - Threads, CPUs and times are labels, named as by `perf_to_profile`.
//! - Inlined calls are lines of one location, as the format specifies.

use std::io::{self, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use pyrograph_profile::{
    Address, AddressId, Frame, FrameId, Profile, Sample, StackId, StringId, Strings, ThreadId,
    ValueType,
};

use super::program::program;
use super::tables::{Places, Table, string, value_type};
use crate::capabilities::Capabilities;
use crate::capabilities::above_i64;
use crate::pprof_extras::{
    COMMAND, GUESSED_FIELD, GUESSED_LABEL, HOST, KIND_FIELD, LOST, kind_field, stand_in,
};
use crate::protobuf;
use crate::writer::{WriteOptions, Writer};

/// Writer for pprof.
pub(super) struct Pprof;

/// Number of bytes that are compressed at once.
const BUFFER: usize = 64 << 10;

/// Compression level.
const LEVEL: Compression = Compression::new(3);

impl Writer for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["pb.gz", "pprof", "pgo"]
    }

    fn opened_by(&self) -> &'static str {
        "go tool pprof, go build -pgo, speedscope, continuous profilers"
    }

    fn changes(&self, profile: &Profile) -> Option<String> {
        above_i64(profile)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { decimals: false, ..Capabilities::ALL }
    }

    fn write(
        &self,
        profile: &Profile,
        _options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // The highest levels take several times as long as everything else, and save a few percent.
        let mut out = GzEncoder::new(out, LEVEL);
        let mut encoder = Encoder::new(profile);
        encoder.value_types();
        for (row, sample) in profile.samples.iter().enumerate() {
            encoder.sample(sample, row);
            if encoder.out.bytes.len() >= BUFFER {
                out.write_all(&encoder.out.bytes)?;
                encoder.out.bytes.clear();
            }
        }
        encoder.tables();
        out.write_all(&encoder.out.bytes)?;
        out.finish()?.flush()
    }
}

/// Builds the tables while samples are written.
struct Encoder<'a> {
    profile: &'a Profile,
    out: protobuf::Writer,
    strings: Strings,
    /// Values are divided by these powers of ten: decimals are cut off.
    divisors: Vec<u64>,
    keys: Keys,
    places: Places<'a>,
    /// Leaf locations with an instruction address: the location without it, and the address.
    leaves: Table<(u64, AddressId)>,
    /// Encoded stacks, by stack ID.
    stacks: Vec<Option<StackRow>>,
    /// Locations of all encoded stacks, one stack after the other.
    stack_locations: Vec<u64>,
    /// Encoded labels of each thread, by thread ID.
    threads: Vec<Option<Vec<u8>>>,
}

/// A stack that is used by a sample.
#[derive(Clone)]
struct StackRow {
    locations: Range<usize>,
    /// Number of guessed frames in the stack.
    guessed: u64,
}

/// String numbers of the keys of labels.
struct Keys {
    pid: u64,
    tid: u64,
    comm: u64,
    thread_comm: u64,
    host: u64,
    cgroup: u64,
    command_line: u64,
    cpu: u64,
    time: u64,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut strings = Strings::default();
        let keys = Keys {
            pid: string(&mut strings, "pid"),
            tid: string(&mut strings, "tid"),
            comm: string(&mut strings, "comm"),
            thread_comm: string(&mut strings, "thread_comm"),
            host: string(&mut strings, "host"),
            cgroup: string(&mut strings, "cgroup"),
            command_line: string(&mut strings, "command_line"),
            cpu: string(&mut strings, "cpu"),
            time: string(&mut strings, "timestamp_ns"),
        };
        let divisor = |of: &ValueType| 10u64.saturating_pow(of.decimals.into());
        Self {
            profile,
            out: protobuf::Writer::default(),
            strings,
            divisors: profile.value_types.iter().map(divisor).collect(),
            keys,
            places: Places::new(profile),
            leaves: Table::default(),
            stacks: vec![None; profile.stacks.len()],
            stack_locations: Vec::new(),
            threads: vec![None; profile.threads.len()],
        }
    }

    fn value_types(&mut self) {
        for of in &self.profile.value_types {
            value_type(&mut self.out, 1, &mut self.strings, of);
        }
    }

    fn sample(&mut self, sample: Sample, row: usize) {
        let StackRow { locations, guessed } = self.stack(sample.stack);
        let leaf = match (self.stack_locations[locations.clone()].first(), sample.address) {
            (Some(&leaf), Some(address)) => Some(self.leaf(leaf, address)),
            (leaf, _) => leaf.copied(),
        };
        self.thread_labels(sample.thread);
        let guessed_label = match guessed {
            0 => 0,
            _ => string(&mut self.strings, GUESSED_LABEL),
        };
        let nanoseconds = match sample.time {
            None => 0,
            Some(_) => string(&mut self.strings, "nanoseconds"),
        };
        let (profile, keys, divisors) = (self.profile, &self.keys, &self.divisors);
        let callers = self.stack_locations[locations].iter().skip(1).copied();
        let labels = self.threads[sample.thread.index()].as_deref().unwrap_or_default();
        self.out.message(2, |out| {
            out.packed(1, leaf.into_iter().chain(callers));
            out.packed(
                2,
                (0..divisors.len()).map(|column| {
                    let value = profile.samples.values(column)[row] / divisors[column];
                    value.min(i64::MAX as u64)
                }),
            );
            out.bytes.extend_from_slice(labels);
            if let Some(cpu) = sample.cpu {
                label(out, keys.cpu, 0, cpu.into(), 0);
            }
            // A numeric label, so that `-tagignore` and `-tagfocus` can distinguish guessed stacks.
            if guessed > 0 {
                label(out, guessed_label, 0, guessed, 0);
            }
            if let Some(time) = sample.time {
                label(out, keys.time, 0, time, nanoseconds);
            }
        });
    }

    /// Encodes the labels of a thread, unless that was done before.
    fn thread_labels(&mut self, id: ThreadId) {
        if self.threads[id.index()].is_some() {
            return;
        }
        let (profile, keys) = (self.profile, &self.keys);
        let thread = profile.threads.get(id);
        let mut out = protobuf::Writer::default();
        for (key, name) in [
            (keys.comm, thread.process),
            (keys.thread_comm, thread.name),
            (keys.host, thread.host),
            (keys.cgroup, thread.cgroup),
            (keys.command_line, thread.command_line),
        ] {
            if !name.is_empty() {
                label(&mut out, key, string(&mut self.strings, profile.strings.get(name)), 0, 0);
            }
        }
        for (key, number) in [(keys.pid, thread.pid), (keys.tid, thread.tid)] {
            if let Some(number) = number {
                // A negative number is written in 64-bit two's complement.
                label(&mut out, key, 0, i64::from(number) as u64, 0);
            }
        }
        self.threads[id.index()] = Some(out.bytes);
    }

    /// Locations of a stack, leaf first, and the number of guessed frames.
    fn stack(&mut self, stack: StackId) -> StackRow {
        if let Some(known) = &self.stacks[stack.index()] {
            return known.clone();
        }
        let start = self.stack_locations.len();
        self.places.add_stack(stack, &mut self.stack_locations);
        self.stack_locations[start..].iter_mut().for_each(|id| *id = 2 * *id - 1);
        let frames = self.profile.stacks.leaf_first(stack);
        let guessed = frames.filter(|&frame| self.profile.frames.get(frame).guessed).count();
        let row =
            StackRow { locations: start..self.stack_locations.len(), guessed: guessed as u64 };
        self.stacks[stack.index()] = Some(row.clone());
        row
    }

    /// The location with the instruction at an address, derived from a location without one. Returns `location` itself
    /// if the address is not in its module, or if the location has another address already, which identifies it if it
    /// has no name.
    fn leaf(&mut self, location: u64, address: AddressId) -> u64 {
        let row = location / 2;
        let caller = self.places.locations.rows[row as usize].last();
        let caller = caller.map(|&frame| self.profile.frames.get(frame));
        let of = self.profile.addresses.get(address);
        match caller {
            Some(frame) if frame.module == of.module && frame.address == 0 && of.offset > 0 => {
                2 * self.leaves.id((row, address))
            }
            _ => location,
        }
    }

    /// Writes mappings, locations, functions, and the properties of the profile.
    fn tables(&mut self) {
        let mut mappings = Mappings::new(self.profile);
        let profile = self.profile;
        let locations = std::mem::take(&mut self.places.locations.rows);
        for (calls, id) in locations.iter().zip((1..).step_by(2)) {
            self.location(id, calls, None, &mut mappings);
        }
        let leaves = std::mem::take(&mut self.leaves.rows);
        for (&(row, address), id) in leaves.iter().zip((2..).step_by(2)) {
            self.location(id, &locations[row as usize], Some(address), &mut mappings);
        }
        for (index, ((module, build_id), end)) in
            mappings.rows.rows.iter().zip(&mappings.ends).enumerate()
        {
            let build_id = string(&mut self.strings, profile.strings.get(*build_id));
            let file = match module {
                Module::File(path) => string(&mut self.strings, profile.strings.get(*path)),
                Module::StandIn(name) => string(&mut self.strings, name),
            };
            self.out.message(3, |out| {
                out.number(1, index as u64 + 1);
                out.number(3, end.saturating_add(1));
                out.number(5, file);
                out.number(6, build_id);
                // Everything known is in the profile: tools need not symbolize it again.
                for has in 7..=10 {
                    out.number(has, 1);
                }
            });
        }
        for (index, &(name, file, start_line)) in self.places.functions.rows.iter().enumerate() {
            let full = profile.full_names.get(name).unwrap_or(name);
            let full = string(&mut self.strings, profile.strings.get(full));
            let name = string(&mut self.strings, profile.strings.get(name));
            let file = string(&mut self.strings, profile.strings.get(file));
            self.out.message(5, |out| {
                out.number(1, index as u64 + 1);
                out.number(2, name);
                out.number(3, full);
                out.number(4, file);
                out.number(5, start_line.into());
            });
        }
        self.about();
    }

    fn location(
        &mut self,
        id: u64,
        calls: &[FrameId],
        instruction: Option<AddressId>,
        mappings: &mut Mappings,
    ) {
        let Some(&caller) = calls.last() else { return };
        let caller = self.profile.frames.get(caller);
        let (mapping, address) =
            mappings.place(caller, instruction.map(|of| self.profile.addresses.get(of)));
        let lines = self.places.lines(calls);
        let kind = kind_field(caller.kind, self.profile.strings.get(caller.module));
        self.out.message(4, |out| {
            out.number(1, id);
            out.number(2, mapping);
            out.number(3, address);
            if caller.guessed {
                out.number(GUESSED_FIELD, 1);
            }
            out.number(KIND_FIELD, kind);
            for (function, line) in lines {
                out.message(4, |out| {
                    out.number(1, function);
                    out.number(2, line.into());
                });
            }
        });
    }

    fn about(&mut self) {
        let (profile, about) = (self.profile, &self.profile.about);
        self.out.number(9, about.start.unwrap_or(0));
        self.out.number(10, about.duration.unwrap_or(0));
        if let Some((of, period)) = &about.period {
            value_type(&mut self.out, 11, &mut self.strings, of);
            self.out.number(12, *period);
        }
        let facts = [
            about.command.as_ref().map(|command| format!("{COMMAND}{command}")),
            about.host.as_ref().map(|host| format!("{HOST}{host}")),
            (about.lost > 0).then(|| format!("{LOST}{}", about.lost)),
        ];
        let comments: Vec<u64> = facts
            .into_iter()
            .flatten()
            .chain(about.comments.iter().cloned())
            .map(|text| string(&mut self.strings, &text))
            .collect();
        self.out.packed(13, comments);
        if let Some(shown) = profile.value_types.get(profile.shown) {
            let name = string(&mut self.strings, &shown.name);
            self.out.number(14, name);
        }
        for text in self.strings.iter() {
            self.out.put(6, text.as_bytes());
        }
    }
}

/// Writes a label of a sample: a string or a number.
fn label(out: &mut protobuf::Writer, key: u64, text: u64, number: u64, unit: u64) {
    out.message(3, |out| {
        out.number(1, key);
        out.number(2, text);
        out.number(3, number);
        out.number(4, unit);
    });
}

/// One row for each module and build ID, with its highest address.
struct Mappings {
    rows: Table<(Module, StringId)>,
    ends: Vec<u64>,
    /// Build ID of each module that has one; if there are several, the last one.
    build_ids: HashMap<StringId, StringId, foldhash::fast::FixedState>,
}

/// Name of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Module {
    /// Path of a file, or name of other memory.
    File(StringId),
    /// Stand-in for frames without a module, by kind.
    StandIn(&'static str),
}

impl Mappings {
    fn new(profile: &Profile) -> Self {
        let build_ids = profile.addresses.iter().map(|of| (of.module, of.build_id)).collect();
        let mut mappings = Self { rows: Table::default(), ends: Vec::new(), build_ids };
        if let Some(program) = program(profile) {
            mappings.id(Module::File(program), mappings.build_id(program));
        }
        mappings
    }

    /// Mapping and address of a frame, or of its instruction if given.
    fn place(&mut self, frame: Frame, instruction: Option<Address>) -> (u64, u64) {
        let address = instruction.map_or(frame.address, |of| of.offset);
        let module = match (frame.module.is_empty(), stand_in(frame.kind)) {
            (false, _) => Module::File(frame.module),
            (true, Some(name)) => Module::StandIn(name),
            (true, None) => return (0, address),
        };
        let build_id = match instruction {
            Some(of) => of.build_id,
            None => self.build_id(frame.module),
        };
        let id = self.id(module, build_id);
        let end = &mut self.ends[id as usize - 1];
        *end = (*end).max(address);
        (id, address)
    }

    fn build_id(&self, module: StringId) -> StringId {
        self.build_ids.get(&module).copied().unwrap_or_default()
    }

    /// Number of a mapping, which is added if it is new.
    fn id(&mut self, module: Module, build_id: StringId) -> u64 {
        let id = self.rows.id((module, build_id));
        self.ends.resize(self.rows.rows.len(), 0);
        id
    }
}
