//! pprof: `profile.proto`, gzipped. [`read::pprof`](crate::read) tells the format.
//!
//! - Frames without a module that are no plain user code are in a mapping that is named for their kind: `[remark]`,
//!   `[jit]` …
//! - An address is the offset in the module's file: its mapping begins at 0, with the file.
//! - Threads, CPUs and times stand in labels, which are those of `perf_to_profile`.
//! - Inlined calls are lines of one location, as the format has it.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, TimeUnit, ValueType,
};

use super::start_lines::StartLines;
use crate::holds::Holds;
use crate::holds::above_i64;
use crate::pprof_extras::{GUESSED_FIELD, GUESSED_LABEL, stand_in};
use crate::protobuf;
use crate::writer::{WriteOptions, Writer};

/// See the module.
pub(super) struct Pprof;

/// Bytes that are compressed at once.
const BUFFER: usize = 64 << 10;

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

    fn holds(&self) -> Holds {
        Holds { decimals: false, kinds: false, bare_kinds: true, ..Holds::ALL }
    }

    fn write(
        &self,
        profile: &Profile,
        _options: &WriteOptions,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut out = GzEncoder::new(out, Compression::default());
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

/// Grows the tables while samples are written.
struct Encoder<'a> {
    profile: &'a Profile,
    out: protobuf::Writer,
    strings: Strings,
    /// The values are multiples of so much: decimals are cut off.
    divisors: Vec<u64>,
    keys: Keys,
    /// Frames of each location, innermost first: all but the last are inlined into it.
    locations: Vec<Vec<FrameId>>,
    location_ids: HashMap<Vec<FrameId>, u64, foldhash::fast::FixedState>,
    /// The locations of each stack, once they are known.
    stacks: HashMap<StackId, Vec<u64>, foldhash::fast::FixedState>,
}

/// The string table; its first entry is empty.
#[derive(Default)]
struct Strings {
    table: pyrograph_profile::Strings,
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        self.table.intern(text).0.into()
    }
}

/// The keys of labels.
struct Keys {
    pid: u64,
    tid: u64,
    comm: u64,
    thread_comm: u64,
    host: u64,
    cpu: u64,
    time: u64,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut strings = Strings::default();
        let keys = Keys {
            pid: strings.id("pid"),
            tid: strings.id("tid"),
            comm: strings.id("comm"),
            thread_comm: strings.id("thread_comm"),
            host: strings.id("host"),
            cpu: strings.id("cpu"),
            time: strings.id("timestamp_ns"),
        };
        let divisor = |of: &ValueType| 10u64.saturating_pow(of.decimals.into());
        Self {
            profile,
            out: protobuf::Writer::default(),
            strings,
            divisors: profile.value_types.iter().map(divisor).collect(),
            keys,
            locations: Vec::new(),
            location_ids: HashMap::default(),
            stacks: HashMap::default(),
        }
    }

    fn value_types(&mut self) {
        for of in &self.profile.value_types {
            let ids = (self.strings.id(&of.name), self.strings.id(TimeUnit::long_name(&of.unit)));
            self.out.message(1, |out| value_type(out, ids));
        }
    }

    fn sample(&mut self, sample: Sample, row: usize) {
        let locations = self.stack(sample.stack);
        let profile = self.profile;
        let (strings, keys, divisors) = (&mut self.strings, &self.keys, &self.divisors);
        let thread = profile.threads.get(sample.thread);
        self.out.message(2, |out| {
            out.packed(1, locations);
            out.packed(
                2,
                (0..divisors.len()).map(|column| {
                    let value = profile.samples.values(column)[row] / divisors[column];
                    value.min(i64::MAX as u64)
                }),
            );
            let mut label = |key: u64, text: u64, number: u64, unit: u64| {
                out.message(3, |out| {
                    out.number(1, key);
                    out.number(2, text);
                    out.number(3, number);
                    out.number(4, unit);
                });
            };
            for (key, name) in [
                (keys.comm, thread.process),
                (keys.thread_comm, thread.name),
                (keys.host, thread.host),
            ] {
                if !name.is_empty() {
                    label(key, strings.id(profile.strings.get(name)), 0, 0);
                }
            }
            // A negative number is its two's complement of 64 bits.
            let id = |id: Option<i32>| id.map(|id| i64::from(id) as u64);
            for (key, number) in [
                (keys.pid, id(thread.pid)),
                (keys.tid, id(thread.tid)),
                (keys.cpu, sample.cpu.map(u64::from)),
            ] {
                if let Some(number) = number {
                    label(key, 0, number, 0);
                }
            }
            // As a number, so that `-tagignore` and `-tagfocus` can tell them from those that are sure.
            let guessed = profile.stacks.leaf_first(sample.stack);
            match guessed.filter(|&frame| profile.frames.get(frame).guessed).count() {
                0 => {}
                guessed => label(strings.id(GUESSED_LABEL), 0, guessed as u64, 0),
            }
            if let Some(time) = sample.time {
                label(keys.time, 0, time, strings.id("nanoseconds"));
            }
        });
    }

    /// The locations of a stack, leaf first.
    fn stack(&mut self, stack: StackId) -> Vec<u64> {
        if let Some(known) = self.stacks.get(&stack) {
            return known.clone();
        }
        let mut ids = Vec::new();
        let mut calls = Vec::new();
        for frame in self.profile.stacks.leaf_first(stack) {
            calls.push(frame);
            if self.profile.frames.get(frame).kind != FrameKind::Inlined {
                ids.push(self.location(std::mem::take(&mut calls)));
            }
        }
        if !calls.is_empty() {
            ids.push(self.location(calls));
        }
        self.stacks.insert(stack, ids.clone());
        ids
    }

    fn location(&mut self, calls: Vec<FrameId>) -> u64 {
        if let Some(&id) = self.location_ids.get(&calls) {
            return id;
        }
        self.locations.push(calls.clone());
        let id = self.locations.len() as u64;
        self.location_ids.insert(calls, id);
        id
    }

    /// Mappings, locations, functions, and what is known of the whole.
    fn tables(&mut self) {
        let mut mappings = Mappings::default();
        let profile = self.profile;
        let mut functions = Functions::new(profile);
        for (index, calls) in self.locations.iter().enumerate() {
            let Some(&caller) = calls.last() else { continue };
            let caller = profile.frames.get(caller);
            let mapping = mappings.id(caller);
            self.out.message(4, |out| {
                out.number(1, index as u64 + 1);
                out.number(2, mapping);
                out.number(3, caller.address);
                if caller.guessed {
                    out.number(GUESSED_FIELD, 1);
                }
                for &call in calls {
                    let frame = profile.frames.get(call);
                    // A location without a line is an address without a symbol.
                    if calls.len() > 1 || !frame.function.is_empty() || !frame.file.is_empty() {
                        let function = functions.id(frame);
                        out.message(4, |out| {
                            out.number(1, function);
                            out.number(2, frame.line.into());
                        });
                    }
                }
            });
        }
        for (index, (module, end)) in mappings.rows.iter().enumerate() {
            let file = match module {
                Module::File(path) => self.strings.id(profile.strings.get(*path)),
                Module::StandIn(name) => self.strings.id(name),
            };
            self.out.message(3, |out| {
                out.number(1, index as u64 + 1);
                out.number(3, end.saturating_add(1));
                out.number(5, file);
                // What is known is there: no tool needs to look further.
                for has in 7..=10 {
                    out.number(has, 1);
                }
            });
        }
        for (index, function) in functions.rows.iter().enumerate() {
            let name = self.strings.id(profile.strings.get(function.name));
            let file = self.strings.id(profile.strings.get(function.file));
            self.out.message(5, |out| {
                out.number(1, index as u64 + 1);
                out.number(2, name);
                out.number(3, name);
                out.number(4, file);
                out.number(5, function.start_line.into());
            });
        }
        self.about();
    }

    fn about(&mut self) {
        let (profile, about) = (self.profile, &self.profile.about);
        self.out.number(9, about.start.unwrap_or(0));
        self.out.number(10, about.duration.unwrap_or(0));
        if let Some((of, period)) = &about.period {
            let ids = (self.strings.id(&of.name), self.strings.id(TimeUnit::long_name(&of.unit)));
            self.out.message(11, |out| value_type(out, ids));
            self.out.number(12, *period);
        }
        let comments: Vec<u64> = about.comments.iter().map(|text| self.strings.id(text)).collect();
        self.out.packed(13, comments);
        if let Some(shown) = profile.value_types.get(profile.shown) {
            let name = self.strings.id(&shown.name);
            self.out.number(14, name);
        }
        for text in self.strings.table.iter() {
            self.out.put(6, text.as_bytes());
        }
    }
}

fn value_type(out: &mut protobuf::Writer, (name, unit): (u64, u64)) {
    out.number(1, name);
    out.number(2, unit);
}

/// One for each module, with its highest address.
#[derive(Default)]
struct Mappings {
    rows: Vec<(Module, u64)>,
    ids: HashMap<Module, u64, foldhash::fast::FixedState>,
}

/// The name of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Module {
    /// The path of a file, or the name of other memory.
    File(StringId),
    /// Frames without a module, by their kind.
    StandIn(&'static str),
}

impl Mappings {
    fn id(&mut self, frame: Frame) -> u64 {
        let module = match (frame.module.is_empty(), stand_in(frame.kind)) {
            (false, _) => Module::File(frame.module),
            (true, Some(name)) => Module::StandIn(name),
            (true, None) => return 0,
        };
        let id = *self.ids.entry(module).or_insert_with(|| {
            self.rows.push((module, 0));
            self.rows.len() as u64
        });
        let end = &mut self.rows[id as usize - 1].1;
        *end = (*end).max(frame.address);
        id
    }
}

/// One for each name, source file and line where it begins.
struct Functions {
    rows: Vec<Function>,
    ids: HashMap<Function, u64, foldhash::fast::FixedState>,
    start_lines: StartLines,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    name: StringId,
    file: StringId,
    start_line: u32,
}

impl Functions {
    fn new(profile: &Profile) -> Self {
        let start_lines = StartLines::new(profile);
        Self { rows: Vec::new(), ids: HashMap::default(), start_lines }
    }

    fn id(&mut self, frame: Frame) -> u64 {
        let start_line = self.start_lines.of(frame);
        let row = Function { name: frame.function, file: frame.file, start_line };
        *self.ids.entry(row).or_insert_with(|| {
            self.rows.push(row);
            self.rows.len() as u64
        })
    }
}
