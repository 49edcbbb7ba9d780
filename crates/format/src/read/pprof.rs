//! Reader of pprof's `profile.proto`, as written by Go, gperftools, many language runtimes and continuous profilers,
//! gzipped or not.
//!
//! ```text
//! sample_type { type: "cpu", unit: "nanoseconds" }        every value of a sample has one
//! sample   { location_id: [3, 1], value: [10000000], label { key: "pid", num: 7 } }  leaf first
//! location { id: 3, mapping_id: 1, address: 0x4a1, line { function_id: 5, line: 12 }, line {…} }
//! function { id: 5, name: "main.work", filename: "/src/main.go", start_line: 10 }
//! mapping  { id: 1, memory_start: 0x400000, memory_limit: 0x500000, filename: "/bin/app" }
//! string_table: "", "cpu", …                              what strings are indices of
//! ```
//!
//! Source: `proto/profile.proto` of google/pprof, and the labels of its users.
//!
//! - A location's first line is its innermost call; the last is the function that the others were
//!   inlined into.
//! - Locations without a function are [looked up](crate::nameless) in their module, or are shown as the module and
//!   the offset in its file.
//! - Frames that match `drop_frames` (and not `keep_frames`) are removed with all their callees, as `go tool pprof`
//!   does: a sampling allocator hides its own frames this way. The outermost frame of a stack is always kept.
//! - `default_sample_type` is the value that is shown, without it the last one that is not 0 throughout.
//! - Negative values, as `pprof -base` writes them, are not counts: such samples are left out, with a warning.
//! - The labels that `perf_to_profile` and others write for threads (`pid`, `tid`, `comm`, `thread_comm`,
//!   `timestamp_ns`, `cpu` …) are interpreted. Other labels are left out, with a warning.
//! - Dangling references are counted, with a warning: they show that a file was truncated.

mod references;
mod tables;

use std::ops::Range;

use pyrograph_profile::{
    About, Address, AddressId, Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId,
    Thread, ThreadId,
};
use pyrograph_symbol::demangle;

use self::tables::{Tables, numbers};
use super::dropped::Dropped;
use super::rows::Rows;
use crate::input::Head;
use crate::nameless;
use crate::names::module_kind;
use crate::pprof_extras::{
    COMMAND, GUESSED_FIELD, GUESSED_LABEL, HOST, KIND_FIELD, LOST, field_kind, stand_in_kind,
};
use crate::protobuf::{Damaged, Message, Value};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of pprof files.
pub struct Pprof;

/// Maximum number of comments that are read; further ones are ignored.
const MOST_COMMENTS: usize = 1000;

/// Maximum number of distinct labels that are remembered. Files have few.
const MOST_LABELS: usize = 100;

/// Maximum number of frames per byte of input. A location in a stack takes at least a byte, and few locations have
/// more than a handful of inlined calls.
const FRAMES_A_BYTE: usize = 64;

impl Reader for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn written_by(&self) -> &'static str {
        "go test -cpuprofile, net/http/pprof, gperftools, many runtimes; pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        is_pprof(Message(head))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        let tables = Tables::collect(&bytes, &mut warnings);
        if tables.value_types.is_empty() {
            let reason = "the pprof profile does not say what it counts (sample_type)".to_owned();
            return Err(ReadError::Malformed { name, reason });
        }
        let mut builder = Builder::new(tables, options, bytes.len(), warnings);
        builder.place_samples();
        let files = std::mem::take(&mut builder.files);
        let mut reading = builder.finish();
        let (profile, warnings) = (&mut reading.profile, &mut reading.warnings);
        nameless::name(profile, &files, nameless::Base::File, options, warnings);
        Ok(reading)
    }
}

/// True if the bytes begin like a profile: only fields of `Profile`, of the right types, including a `sample_type`.
/// The last field may be cut off.
fn is_pprof(mut message: Message) -> bool {
    let mut types = false;
    let mut others = false;
    loop {
        // The tag of one of the fields 2 to 6, as bytes. It is checked before the field is parsed, because the first
        // sample alone may be longer than `head`.
        others |= matches!(message.0.first(), Some(0x12 | 0x1a | 0x22 | 0x2a | 0x32));
        match message.next() {
            Ok(Some((1, Value::Bytes(bytes)))) => {
                // In other formats that begin with a field 1, the field contains text or messages.
                let mut inner = Message(bytes);
                while let Some((field, value)) = match inner.next() {
                    Ok(next) => next,
                    Err(Damaged) => return false,
                } {
                    if !matches!((field, value), (1 | 2, Value::Number(_))) {
                        return false;
                    }
                }
                types = true;
            }
            Ok(Some((2..=6 | 11 | 13, Value::Bytes(_)))) => {}
            Ok(Some((7..=10 | 12..=15, Value::Number(_)))) => {}
            Ok(Some(_)) => return false,
            // The end, or a field that is cut off at the end of `head`.
            Ok(None) | Err(Damaged) => return types && others,
        }
    }
}

/// Builds a profile from the tables.
struct Builder<'a> {
    tables: Tables<'a>,
    keep_addresses: bool,
    /// True if samples keep the address of their leaf.
    instructions: bool,
    profile: Profile,
    warnings: Warnings,
    rows: Rows,
    dropped: Option<Dropped>,
    /// The frames of each location that was used so far, outermost first, as ranges of `frames`.
    locations: Vec<Option<Range<usize>>>,
    frames: Vec<FrameId>,
    /// The instruction address of each location that was used so far, if its file is known.
    addresses: Vec<Option<Address>>,
    /// Files in which addresses are file offsets.
    files: nameless::Files,
    /// Number of frames that stacks may still have: a small file could otherwise expand without limit.
    frames_left: usize,
    /// Number of dangling references of samples.
    dangling: u64,
    /// IDs of the file's strings that were used so far, by index; `names` has those of function names, demangled.
    texts: Vec<Option<StringId>>,
    names: Vec<Option<StringId>>,
    /// The meaning of each label key.
    labels: Vec<(u64, Meaning)>,
}

impl<'a> Builder<'a> {
    fn new(tables: Tables<'a>, options: &Options, size: usize, mut warnings: Warnings) -> Self {
        let types: Vec<_> = tables.value_types.iter().map(|&of| tables.value_type(of)).collect();
        let rows = Rows::new(options, types.len());
        let frames_left = size.saturating_mul(FRAMES_A_BYTE);
        let mut profile = Profile::new(types);
        profile.shown = match tables.default_sample_type {
            0 => None,
            wanted => profile.column(&tables.text(wanted)),
        }
        .unwrap_or(profile.value_types.len() - 1);
        let comments = tables.comments.iter().take(MOST_COMMENTS);
        let mut comments: Vec<String> =
            comments.map(|&comment| tables.text(comment).into_owned()).collect();
        let mut fact = |name: &str| {
            let at = comments.iter().position(|comment| comment.starts_with(name))?;
            Some(comments.remove(at).split_off(name.len()))
        };
        let (command, host) = (fact(COMMAND), fact(HOST));
        let lost = fact(LOST).and_then(|lost| lost.parse().ok()).unwrap_or(0);
        profile.about = About {
            command,
            host,
            lost,
            start: Some(tables.start).filter(|&start| start > 0),
            duration: Some(tables.duration).filter(|&duration| duration > 0),
            period: (tables.period > 0)
                .then(|| (tables.value_type(tables.period_type), tables.period)),
            comments,
            ..About::default()
        };
        let dropped = (tables.drop_frames > 0)
            .then(|| {
                Dropped::new(&tables.text(tables.drop_frames), &tables.text(tables.keep_frames))
            })
            .and_then(|dropped| {
                dropped.map_err(|error| warnings.add(WarningKind::NotHeld(error), 1, [])).ok()
            });
        let (strings, locations) = (tables.strings.len(), tables.locations.rows.len());
        Self {
            keep_addresses: options.addresses,
            instructions: options.instructions,
            tables,
            profile,
            warnings,
            rows,
            dropped,
            locations: vec![None; locations],
            addresses: vec![None; if options.instructions { locations } else { 0 }],
            frames: Vec::new(),
            files: nameless::Files::default(),
            frames_left,
            dangling: 0,
            texts: vec![None; strings],
            names: vec![None; strings],
            labels: Vec::new(),
        }
    }

    /// Returns the frames of a location, parsing it at first use: many locations are in no sample.
    fn location(&mut self, at: usize) -> Range<usize> {
        if let Some(known) = &self.locations[at] {
            return known.clone();
        }
        let start = self.frames.len();
        let location = self.tables.locations.rows[at];
        match self.place_location(Message(location)) {
            Ok(address) if self.instructions => self.addresses[at] = address,
            Ok(_) => {}
            Err(Damaged) => {
                self.frames.truncate(start);
                self.frames.push(self.profile.frames.intern(Frame::default()));
                self.warnings.add(WarningKind::UnreadableRecord, 1, []);
            }
        }
        let range = start..self.frames.len();
        self.locations[at] = Some(range.clone());
        range
    }

    /// Adds the frames of a location; returns its instruction address, if its file is known.
    fn place_location(&mut self, mut message: Message<'a>) -> Result<Option<Address>, Damaged> {
        let (mut mapping, mut address, mut guessed, mut declared) = (0, 0, false, None);
        let mut lines = Vec::new();
        while let Some((field, value)) = message.next()? {
            match field {
                2 => mapping = value.number(),
                3 => address = value.number(),
                GUESSED_FIELD => guessed = value.number() != 0,
                KIND_FIELD => declared = field_kind(value.number()),
                4 => {
                    let [function, line] = numbers(value)?;
                    lines.push((function, line));
                }
                _ => {}
            }
        }
        let mapping = self.tables.mappings.get(mapping).copied().unwrap_or_default();
        let module = self.intern(mapping.file);
        let (module, kind) = match stand_in_kind(self.profile.strings.get(module)) {
            Some(kind) => (StringId::EMPTY, kind),
            None => (module, module_kind(self.profile.strings.get(module))),
        };
        let kind = declared.unwrap_or(kind);
        let is_mapped = address > 0 && (mapping.start..mapping.limit).contains(&address);
        let address = if is_mapped {
            (address - mapping.start).saturating_add(mapping.offset)
        } else {
            address
        };
        if is_mapped {
            let build_id = || self.tables.text(mapping.build_id).parse().ok();
            self.files.entry(module).or_insert_with(build_id);
        }
        let bare = Frame { module, address, kind, guessed, ..Frame::default() };
        let outermost = self.frames.len();
        if lines.is_empty() {
            self.frames.push(self.profile.frames.intern(bare));
        }
        for (depth, (function, line)) in lines.into_iter().rev().enumerate() {
            let kind = if depth == 0 { kind } else { FrameKind::Inlined };
            let frame = self.named(Frame { kind, ..bare }, function, line);
            self.frames.push(self.profile.frames.intern(frame));
        }
        let function = self.profile.frames.get(self.frames[outermost]).function;
        let build_id = self.intern(mapping.build_id);
        let instruction = Address { module, build_id, function, offset: address };
        Ok((is_mapped && !module.is_empty()).then_some(instruction))
    }

    /// Returns the address of the leaf location, which has been parsed already.
    fn instruction(&mut self, leaf: Option<&u64>) -> Option<AddressId> {
        let at = self.tables.locations.position(*leaf?)?;
        let address = (*self.addresses.get(at)?)?;
        Some(self.profile.addresses.intern(address))
    }

    /// Sets a frame's function, file and line.
    fn named(&mut self, bare: Frame, function: u64, line: u64) -> Frame {
        let function = self.tables.functions.get(function).copied().unwrap_or_default();
        let mut name = self.function_name(function.name);
        if name.is_empty() {
            name = self.function_name(function.system_name);
        } else if function.system_name != function.name {
            name = self.with_parameters(name, function.system_name);
        }
        Frame {
            function: name,
            file: self.intern(function.file),
            line: u32::try_from(line).unwrap_or(0),
            start_line: u32::try_from(function.start_line).unwrap_or(0),
            address: if name.is_empty() || self.keep_addresses { bare.address } else { 0 },
            ..bare
        }
    }

    /// Returns the function with the parameters of `system_name`, if that is `name` with parameters or with the names of other
    /// functions that have the same code, as Pyrograph writes it; otherwise `name`.
    fn with_parameters(&mut self, name: StringId, system_name: u64) -> StringId {
        let (plain, full) = (self.profile.strings.get(name), self.tables.text(system_name));
        let is_more = |rest: &str| rest.starts_with('(') || rest.starts_with(" [same code as ");
        if !full.strip_prefix(plain).is_some_and(is_more) {
            return name;
        }
        let plain = plain.to_owned();
        self.profile.function_named(&plain, &full)
    }

    /// Interns a string of the file. Each is decoded once only, because many rows may refer to one long string.
    fn intern(&mut self, index: u64) -> StringId {
        let Some(known) = self.texts.get_mut(index as usize) else { return StringId::EMPTY };
        *known.get_or_insert_with(|| self.profile.strings.intern(&self.tables.text(index)))
    }

    /// Interns the name of a function, demangled.
    fn function_name(&mut self, index: u64) -> StringId {
        let Some(known) = self.names.get_mut(index as usize) else { return StringId::EMPTY };
        *known
            .get_or_insert_with(|| self.profile.strings.intern(&demangle(&self.tables.text(index))))
    }

    fn place_samples(&mut self) {
        let samples = std::mem::take(&mut self.tables.samples);
        let mut scratch = Scratch::default();
        let (mut damaged, mut negative) = (0, 0);
        for bytes in samples {
            scratch.clear();
            let sample = scratch.read(Message(bytes));
            if sample.is_err() || scratch.values.len() != self.profile.value_types.len() {
                damaged += 1;
                continue;
            }
            if scratch.values.iter().any(|&value| value > i64::MAX as u64) {
                negative += 1;
                continue;
            }
            let Some(stack) = self.stack(&scratch.locations) else {
                let cause = "its stacks are far larger than it is itself".to_owned();
                self.warnings.add(WarningKind::Truncated(cause), 1, []);
                break;
            };
            let address = self.instruction(scratch.locations.first());
            let sample = Sample { address, ..Sample::new(stack) };
            let sample = self.labelled(sample, &scratch.labels);
            self.rows.push(sample, &scratch.values);
        }
        if damaged > 0 {
            self.warnings.add(WarningKind::UnreadableRecord, damaged, []);
        }
        if negative > 0 {
            self.warnings.add(WarningKind::NegativeValue, negative, []);
        }
    }

    /// Interns the stack of locations, which are leaf first; `None` if the limit on frames is reached.
    fn stack(&mut self, locations: &[u64]) -> Option<StackId> {
        let mut stack = StackId::ROOT;
        let mut anything = false;
        for &id in locations.iter().rev() {
            let Some(at) = self.tables.locations.position(id) else {
                self.dangling += 1;
                let unknown = self.profile.frames.intern(Frame::default());
                stack = self.profile.stacks.intern(stack, unknown);
                continue;
            };
            let range = self.location(at);
            let frames = &self.frames[range];
            self.frames_left = self.frames_left.checked_sub(frames.len())?;
            for &frame in frames {
                if let Some(dropped) = &mut self.dropped {
                    let drops = dropped.drops(&self.profile, frame);
                    if drops && anything {
                        return Some(stack);
                    }
                    anything |= !drops;
                }
                stack = self.profile.stacks.intern(stack, frame);
            }
        }
        Some(stack)
    }

    /// Adds the information from a sample's labels.
    fn labelled(&mut self, mut sample: Sample, labels: &[Label]) -> Sample {
        let mut thread = Thread::default();
        self.dangling += self.tables.dangling_of_labels(labels);
        for label in labels {
            let number = label.number;
            let id = i32::try_from(number as i64).ok();
            match self.meaning(label.key) {
                Meaning::ProcessId => thread.pid = id,
                Meaning::ThreadId => thread.tid = id,
                Meaning::Process => thread.process = self.intern(label.text),
                Meaning::Thread => thread.name = self.intern(label.text),
                Meaning::Host => thread.host = self.intern(label.text),
                Meaning::Cgroup => thread.cgroup = self.intern(label.text),
                Meaning::CommandLine => thread.command_line = self.intern(label.text),
                Meaning::Cpu => sample.cpu = u32::try_from(number).ok(),
                Meaning::Time => sample.time = Some(number),
                Meaning::Guesses | Meaning::Other => {}
            }
        }
        sample.thread = match labels {
            [] => ThreadId::UNKNOWN,
            _ => self.rows.thread(&mut self.profile, thread),
        };
        sample
    }

    fn meaning(&mut self, key: u64) -> Meaning {
        if let Some(&(_, meaning)) = self.labels.iter().find(|(known, _)| *known == key) {
            return meaning;
        }
        let meaning = meaning(&self.tables.text(key));
        if self.labels.len() < MOST_LABELS {
            self.labels.push((key, meaning));
        }
        meaning
    }

    fn finish(mut self) -> Reading {
        let dangling = self.dangling + self.tables.dangling();
        if dangling > 0 {
            self.warnings.add(references::warning(dangling), 1, []);
        }
        self.rows.finish(&mut self.profile);
        if self.tables.default_sample_type == 0 {
            let samples = &self.profile.samples;
            let columns = (0..self.profile.value_types.len()).rev();
            let last = columns.into_iter().find(|&column| samples.total(column) > 0);
            self.profile.shown = last.unwrap_or(self.profile.shown);
        }
        self.profile.tell_overloads_apart();
        let others = self.labels.iter().filter(|(_, meaning)| *meaning == Meaning::Other);
        let names: Vec<_> = others.map(|&(key, _)| self.tables.text(key)).collect();
        if !names.is_empty() {
            let said = format!("labels of samples are left out: {}", names.join(", "));
            self.warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        Reading::new(self.profile, self.warnings)
    }
}

/// The meaning of a label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    ProcessId,
    ThreadId,
    Process,
    Thread,
    Host,
    Cgroup,
    CommandLine,
    Cpu,
    Time,
    /// The stack has guessed frames.
    Guesses,
    Other,
}

/// Maps a label's key to its meaning: first the keys that `perf_to_profile` writes, then those of other tools.
fn meaning(key: &str) -> Meaning {
    match key {
        "pid" | "process_id" | "process id" => Meaning::ProcessId,
        "tid" | "thread_id" | "thread id" => Meaning::ThreadId,
        "comm" | "process_name" | "process name" => Meaning::Process,
        "thread_comm" | "thread_name" | "thread name" | "thread" => Meaning::Thread,
        "host" | "hostname" => Meaning::Host,
        "cgroup" => Meaning::Cgroup,
        "command_line" => Meaning::CommandLine,
        "cpu" => Meaning::Cpu,
        // Ignored, because locations are marked as guessed, too.
        GUESSED_LABEL => Meaning::Guesses,
        "timestamp_ns" | "end_timestamp_ns" => Meaning::Time,
        _ => Meaning::Other,
    }
}

/// Buffers for the sample that is being read.
#[derive(Default)]
struct Scratch {
    locations: Vec<u64>,
    values: Vec<u64>,
    labels: Vec<Label>,
}

struct Label {
    key: u64,
    text: u64,
    number: u64,
    unit: u64,
}

impl Scratch {
    fn clear(&mut self) {
        self.locations.clear();
        self.values.clear();
        self.labels.clear();
    }

    fn read(&mut self, mut message: Message) -> Result<(), Damaged> {
        while let Some((field, value)) = message.next()? {
            match field {
                1 => value.numbers(&mut self.locations)?,
                2 => value.numbers(&mut self.values)?,
                3 => {
                    let [key, text, number, unit] = numbers(value)?;
                    self.labels.push(Label { key, text, number, unit });
                }
                _ => {}
            }
        }
        Ok(())
    }
}
