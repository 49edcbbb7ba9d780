//! Reader of OTLP profiles (`v1development`): a file with one `ProfilesData` message, or with an
//! `ExportProfilesServiceRequest` as sent to a collector, which has the same encoding; or with many of these, as a
//! collector's file exporter writes them: each behind its length, or in [JSON](json).
//!
//! ```text
//! resource_profiles { resource { attributes { "host.name": "a" } }
//!   scope_profiles { profiles { sample_type { "cpu", "nanoseconds" }
//!     samples { stack_index: 1, attribute_indices: [2], values: [9, 9], timestamps: [5, 8] } } } }
//! dictionary { stack_table { location_indices: [1, 2] }      leaf first
//!              location_table { mapping_index: 1, address: 0x4a1, lines { function_index: 3 } }
//!              function_table { name_strindex: 4, filename_strindex: 5 } …
//!              attribute_table { key_strindex: 6, value { int_value: 12 } }, string_table: "", … }
//! ```
//!
//! Source: `opentelemetry/proto/profiles/v1development/profiles.proto`, in which row 0 of each table means "none".
//! The version is in development: files from before the end of 2025, in which samples refer to locations by a range,
//! are rejected.
//!
//! - Each profile has one value type; profiles with different types become columns. The first is shown.
//! - A sample may have several timestamps, each of which becomes one sample. Without values, each counts 1.
//! - Thread information that is missing in a sample's attributes is taken from its resource.
//! - Locations without a function are [looked up](crate::nameless) in their mapping's file, by its
//!   `process.executable.build_id.gnu` if it has that attribute.
//! - `profile.frame.type` is the kind of code; the names of languages (`cpython`, `v8js` …) mean interpreted code.

mod detect;
mod json;

use std::borrow::Cow;
use std::ops::Range;

use pyrograph_profile::{
    About, Frame, FrameId, FrameKind, Marker, Profile, Sample, StackId, StringId, Thread, TimeUnit,
    ValueType,
};
use pyrograph_symbol::{BuildId, demangle};

use super::rows::Rows;
use crate::input::Head;
use crate::nameless;
use crate::names::module_kind;
use crate::protobuf::{Damaged, Message};
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};
use crate::write::GUESSED_ATTRIBUTE;

/// Reader of OTLP profiles.
pub struct Otlp;

/// Maximum number of frames per byte of input. A location in a stack takes at least a byte, and few locations have
/// more than a handful of inlined calls.
const FRAMES_A_BYTE: usize = 64;

impl Reader for Otlp {
    fn name(&self) -> &'static str {
        "OTLP"
    }

    fn written_by(&self) -> &'static str {
        "OpenTelemetry's profilers and collectors; pyrograph convert"
    }

    fn detect(&self, head: &[u8]) -> bool {
        detect::is_otlp(head) || detect::is_framed(head) || json::is_json(head)
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, mut warnings) = input.into_bytes();
        // A message may begin with a line feed and a brace: its first field and length.
        let is_json = !detect::is_otlp(&bytes) && json::is_json(&bytes);
        let (encoded, damage) = if is_json { json::encode(&bytes) } else { (Vec::new(), None) };
        let requests: Vec<&[u8]> = match is_json {
            true => encoded.iter().map(Vec::as_slice).collect(),
            false if detect::is_framed(&bytes) => detect::framed(&bytes).collect(),
            false => vec![&bytes],
        };
        if let Some(cause) = damage {
            warnings.add(WarningKind::Truncated(cause), 1, []);
        }
        let size = requests.iter().map(|request| request.len()).sum();
        let mut builder = Builder::new(options, size, warnings);
        for request in requests {
            builder.request(request);
        }
        let (mut reading, files) = builder.build().ok_or_else(|| ReadError::Malformed {
            name,
            reason: "there is no profile of the present version of OTLP in it".to_owned(),
        })?;
        let (profile, warnings) = (&mut reading.profile, &mut reading.warnings);
        nameless::name(profile, &files, nameless::Base::File, options, warnings);
        Ok(reading)
    }
}

/// The tables of a request. Their rows are still encoded.
#[derive(Default)]
struct File<'a> {
    resources: Vec<Message<'a>>,
    mappings: Vec<Message<'a>>,
    locations: Vec<Message<'a>>,
    functions: Vec<Message<'a>>,
    strings: Vec<&'a [u8]>,
    attributes: Vec<Message<'a>>,
    stacks: Vec<Message<'a>>,
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8], warnings: &mut Warnings) -> Self {
        let mut file = Self::default();
        let mut message = Message(bytes);
        loop {
            match message.next() {
                Ok(Some((1, value))) => file.resources.push(value.message()),
                Ok(Some((2, value))) => file.dictionary(value.message(), warnings),
                Ok(Some(_)) => {}
                Ok(None) => return file,
                Err(Damaged) => {
                    let at = bytes.len() - message.0.len();
                    let cause = format!("no field of an OTLP profile at byte {at}");
                    warnings.add(WarningKind::Truncated(cause), 1, []);
                    return file;
                }
            }
        }
    }

    fn dictionary(&mut self, mut message: Message<'a>, warnings: &mut Warnings) {
        loop {
            match message.next() {
                Ok(Some((field, value))) => match field {
                    1 => self.mappings.push(value.message()),
                    2 => self.locations.push(value.message()),
                    3 => self.functions.push(value.message()),
                    5 => self.strings.push(value.bytes()),
                    6 => self.attributes.push(value.message()),
                    7 => self.stacks.push(value.message()),
                    _ => {}
                },
                Ok(None) => return,
                Err(Damaged) => {
                    let cause = "the dictionary is damaged".to_owned();
                    return warnings.add(WarningKind::Truncated(cause), 1, []);
                }
            }
        }
    }

    fn text(&self, index: u64) -> Cow<'a, str> {
        let bytes = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        String::from_utf8_lossy(bytes.copied().unwrap_or_default())
    }

    fn value_type(&self, message: Message) -> Result<ValueType, Damaged> {
        let [name, unit] = numbers(message)?;
        Ok(ValueType::new(&self.text(name), TimeUnit::short_name(&self.text(unit))))
    }
}

/// Decodes the numbers in fields 1 to `N` of a message.
fn numbers<const N: usize>(mut message: Message) -> Result<[u64; N], Damaged> {
    let mut numbers = [0; N];
    while let Some((field, value)) = message.next()? {
        if let Some(number) = numbers.get_mut(field as usize - 1) {
            *number = value.number();
        }
    }
    Ok(numbers)
}

/// A decoded attribute.
#[derive(Clone, Copy)]
enum Meaning {
    ProcessId(Option<i32>),
    ThreadId(Option<i32>),
    Process(StringId),
    Thread(StringId),
    Host(StringId),
    Cgroup(StringId),
    CommandLine(StringId),
    Cpu(Option<u32>),
    Kind(Option<FrameKind>),
    Guessed(bool),
    BuildId(StringId),
    Other,
}

struct Builder<'a> {
    file: File<'a>,
    keep_addresses: bool,
    profile: Profile,
    columns: Vec<ValueType>,
    /// Samples as sample, thread, column and value. Rows are built when all columns are known.
    samples: Vec<(Sample, Thread, usize, u64)>,
    options: Options,
    warnings: Warnings,
    texts: Vec<Option<StringId>>,
    attributes: Vec<Meaning>,
    /// Keys of attributes that a profile has no room for.
    other_keys: Vec<String>,
    locations: Vec<Option<Range<usize>>>,
    frames: Vec<FrameId>,
    stacks: Vec<Option<StackId>>,
    /// Files in which addresses are file offsets.
    files: nameless::Files,
    frames_left: usize,
    unreadable: u64,
    negative: u64,
}

impl<'a> Builder<'a> {
    fn new(options: &Options, size: usize, warnings: Warnings) -> Self {
        Self {
            keep_addresses: options.addresses,
            profile: Profile::default(),
            columns: Vec::new(),
            samples: Vec::new(),
            options: options.clone(),
            warnings,
            texts: Vec::new(),
            attributes: Vec::new(),
            other_keys: Vec::new(),
            locations: Vec::new(),
            frames: Vec::new(),
            stacks: Vec::new(),
            files: nameless::Files::default(),
            frames_left: size.saturating_mul(FRAMES_A_BYTE),
            unreadable: 0,
            negative: 0,
            file: File::default(),
        }
    }

    /// Adds a request, whose tables are its own.
    fn request(&mut self, bytes: &'a [u8]) {
        self.file = File::read(bytes, &mut self.warnings);
        self.texts = vec![None; self.file.strings.len()];
        self.locations = vec![None; self.file.locations.len()];
        self.stacks = vec![None; self.file.stacks.len()];
        self.frames.clear();
        self.attributes.clear();
        for index in 0..self.file.attributes.len() {
            let meaning = self.attribute(self.file.attributes[index]).unwrap_or(Meaning::Other);
            self.attributes.push(meaning);
        }
        for resource in std::mem::take(&mut self.file.resources) {
            if self.resource(resource).is_err() {
                self.unreadable += 1;
            }
        }
    }

    fn build(mut self) -> Option<(Reading, nameless::Files)> {
        if self.columns.is_empty() {
            return None;
        }
        let mut rows = Rows::new(&self.options, self.columns.len());
        let about = std::mem::take(&mut self.profile.about);
        let Profile { strings, frames, stacks, .. } = self.profile;
        let mut profile =
            Profile { strings, frames, stacks, about, ..Profile::new(self.columns.clone()) };
        let mut values = vec![0; self.columns.len()];
        for (sample, thread, column, value) in self.samples {
            let thread = rows.thread(&mut profile, thread);
            values.fill(0);
            values[column] = value;
            rows.push(Sample { thread, ..sample }, &values);
        }
        rows.finish(&mut profile);
        for (kind, count) in [
            (WarningKind::UnreadableRecord, self.unreadable),
            (WarningKind::NegativeValue, self.negative),
        ] {
            if count > 0 {
                self.warnings.add(kind, count, []);
            }
        }
        if !self.other_keys.is_empty() {
            let names = self.other_keys.join(", ");
            let said = format!("attributes of samples are left out: {names}");
            self.warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        Some((Reading::new(profile, self.warnings), self.files))
    }

    /// Interns a string of the file. Each is decoded once only, because many rows may refer to one long string.
    fn intern(&mut self, index: u64) -> StringId {
        let Some(known) = self.texts.get_mut(index as usize) else { return StringId::EMPTY };
        *known.get_or_insert_with(|| self.profile.strings.intern(&self.file.text(index)))
    }

    /// Decodes a row of the attribute table.
    fn attribute(&mut self, mut message: Message<'a>) -> Result<Meaning, Damaged> {
        let (mut key, mut value) = (0, Message(&[]));
        while let Some((field, content)) = message.next()? {
            match field {
                1 => key = content.number(),
                2 => value = content.message(),
                _ => {}
            }
        }
        let name = self.file.text(key);
        self.meaning(&name, value)
    }

    /// Decodes the value of an attribute with this key.
    fn meaning(&mut self, key: &str, mut value: Message<'a>) -> Result<Meaning, Damaged> {
        let (mut text, mut number) = (StringId::EMPTY, 0);
        while let Some((field, content)) = value.next()? {
            match field {
                1 => {
                    let content = String::from_utf8_lossy(content.bytes());
                    text = self.profile.strings.intern(&content);
                }
                3 => number = content.number(),
                8 => text = self.intern(content.number()),
                _ => {}
            }
        }
        let id = i32::try_from(number as i64).ok();
        Ok(match key {
            "process.pid" => Meaning::ProcessId(id),
            "thread.id" => Meaning::ThreadId(id),
            "process.executable.name" | "process.command" => Meaning::Process(text),
            "thread.name" => Meaning::Thread(text),
            "host.name" => Meaning::Host(text),
            "process.linux.cgroup" => Meaning::Cgroup(text),
            "process.command_line" => Meaning::CommandLine(text),
            "cpu.logical_number" => Meaning::Cpu(u32::try_from(number).ok()),
            "process.executable.build_id.gnu" => Meaning::BuildId(text),
            GUESSED_ATTRIBUTE => Meaning::Guessed(number != 0),
            "profile.frame.type" => Meaning::Kind(frame_kind(self.profile.strings.get(text))),
            _ => Meaning::Other,
        })
    }

    fn resource(&mut self, mut message: Message<'a>) -> Result<(), Damaged> {
        let mut thread = Thread::default();
        let mut scopes = Vec::new();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => thread = self.resource_thread(value.message())?,
                2 => scopes.push(value.message()),
                _ => {}
            }
        }
        for mut scope in scopes {
            while let Some((field, value)) = scope.next()? {
                if field == 2 {
                    self.one_profile(value.message(), thread)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes the attributes of a resource, which apply to all threads in it.
    fn resource_thread(&mut self, mut message: Message<'a>) -> Result<Thread, Damaged> {
        let mut thread = Thread::default();
        while let Some((field, value)) = message.next()? {
            if field != 1 {
                continue;
            }
            let (mut key, mut content) = (Cow::Borrowed(""), Message(&[]));
            let mut pair = value.message();
            while let Some((field, value)) = pair.next()? {
                match field {
                    1 => key = String::from_utf8_lossy(value.bytes()),
                    2 => content = value.message(),
                    3 => key = self.file.text(value.number()),
                    _ => {}
                }
            }
            let meaning = self.meaning(&key, content)?;
            apply(meaning, &mut thread, &mut Sample::default());
        }
        Ok(thread)
    }

    fn one_profile(&mut self, message: Message<'a>, thread: Thread) -> Result<(), Damaged> {
        let mut column = None;
        let mut samples = Vec::new();
        let mut about = About::default();
        let (mut period_type, mut period) = (Message(&[]), 0);
        let mut fields = message;
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => column = Some(self.file.value_type(value.message())?),
                2 => samples.push(value.message()),
                3 => about.start = Some(value.number()).filter(|&start| start > 0),
                4 => about.duration = Some(value.number()).filter(|&duration| duration > 0),
                5 => period_type = value.message(),
                6 => period = value.number(),
                _ => {}
            }
        }
        if period > 0 {
            about.period = Some((self.file.value_type(period_type)?, period));
        }
        let Some(column) = column else { return Err(Damaged) };
        if self.columns.is_empty() {
            self.profile.about = about;
        }
        let at = self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        for sample in samples {
            if self.sample(sample, thread, at).is_err() {
                self.unreadable += 1;
            }
        }
        Ok(())
    }

    fn sample(
        &mut self,
        mut message: Message<'a>,
        mut thread: Thread,
        column: usize,
    ) -> Result<(), Damaged> {
        let (mut stack, mut attributes) = (0, Vec::new());
        let (mut values, mut times) = (Vec::new(), Vec::new());
        while let Some((field, value)) = message.next()? {
            match field {
                1 => stack = value.number(),
                2 => value.numbers(&mut attributes)?,
                4 => value.numbers(&mut values)?,
                5 => value.fixed_numbers(&mut times)?,
                _ => {}
            }
        }
        let mut sample = Sample::new(self.stack(stack)?);
        for index in attributes {
            let meaning = usize::try_from(index).ok().and_then(|at| self.attributes.get(at));
            match meaning.copied() {
                Some(Meaning::Other) => self.other(index)?,
                Some(meaning) => apply(meaning, &mut thread, &mut sample),
                None => return Err(Damaged),
            }
        }
        if !values.is_empty() && !times.is_empty() && values.len() != times.len() {
            return Err(Damaged);
        }
        for row in 0..values.len().max(times.len()) {
            let value = values.get(row).copied().unwrap_or(1);
            if value > i64::MAX as u64 {
                self.negative += 1;
                continue;
            }
            let time = times.get(row).copied();
            self.samples.push((Sample { time, ..sample }, thread, column, value));
        }
        Ok(())
    }

    /// Remembers the key of an attribute that a profile has no room for.
    fn other(&mut self, index: u64) -> Result<(), Damaged> {
        const MOST: usize = 100;
        let [key] = numbers(self.file.attributes[index as usize])?;
        let key = self.file.text(key);
        let is_known = self.other_keys.iter().any(|known| *known == key);
        if index > 0 && self.other_keys.len() < MOST && !is_known {
            self.other_keys.push(key.into_owned());
        }
        Ok(())
    }

    fn stack(&mut self, index: u64) -> Result<StackId, Damaged> {
        let at = usize::try_from(index).map_err(|_| Damaged)?;
        match self.stacks.get(at) {
            None => return Err(Damaged),
            Some(Some(known)) => return Ok(*known),
            Some(None) => {}
        }
        let mut locations = Vec::new();
        let mut message = self.file.stacks[at];
        while let Some((field, value)) = message.next()? {
            if field == 1 {
                value.numbers(&mut locations)?;
            }
        }
        let mut stack = StackId::ROOT;
        for location in locations.into_iter().rev() {
            let range = self.location(location)?;
            self.frames_left = self.frames_left.checked_sub(range.len()).ok_or(Damaged)?;
            for at in range {
                stack = self.profile.stacks.intern(stack, self.frames[at]);
            }
        }
        self.stacks[at] = Some(stack);
        Ok(stack)
    }

    /// Returns the frames of a location, outermost first.
    fn location(&mut self, index: u64) -> Result<Range<usize>, Damaged> {
        let at = usize::try_from(index).map_err(|_| Damaged)?;
        match self.locations.get(at) {
            None => return Err(Damaged),
            Some(Some(known)) => return Ok(known.clone()),
            Some(None) => {}
        }
        let start = self.frames.len();
        let (mut mapping, mut address) = (0, 0);
        let (mut lines, mut attributes) = (Vec::new(), Vec::new());
        let mut message = self.file.locations[at];
        while let Some((field, value)) = message.next()? {
            match field {
                1 => mapping = value.number(),
                2 => address = value.number(),
                3 => {
                    let [function, line] = numbers(value.message())?;
                    lines.push((function, line));
                }
                4 => value.numbers(&mut attributes)?,
                _ => {}
            }
        }
        let bare = self.bare_frame(mapping, address, &attributes)?;
        if lines.is_empty() {
            self.frames.push(self.profile.frames.intern(bare));
        }
        for (depth, (function, line)) in lines.into_iter().rev().enumerate() {
            let kind = if depth == 0 { bare.kind } else { FrameKind::Inlined };
            let frame = self.named(Frame { kind, ..bare }, function, line)?;
            self.frames.push(self.profile.frames.intern(frame));
        }
        let range = start..self.frames.len();
        self.locations[at] = Some(range.clone());
        Ok(range)
    }

    /// Returns the frame of a location without its function: module, address and kind.
    fn bare_frame(
        &mut self,
        mapping: u64,
        address: u64,
        attributes: &[u64],
    ) -> Result<Frame, Damaged> {
        let mapping =
            usize::try_from(mapping).ok().and_then(|at| self.file.mappings.get(at)).copied();
        let [start, limit, offset, file] = match mapping {
            Some(mapping) => numbers(mapping)?,
            None => [0; 4],
        };
        let module = self.intern(file);
        let is_mapped = (start..limit).contains(&address);
        if is_mapped && !self.files.contains_key(&module) {
            let build_id = mapping.map_or(Ok(None), |mapping| self.build_id(mapping))?;
            self.files.insert(module, build_id);
        }
        let address = if is_mapped { (address - start).saturating_add(offset) } else { address };
        let (mut declared, mut guessed) = (None, false);
        for index in attributes.iter().filter_map(|&index| usize::try_from(index).ok()) {
            match self.attributes.get(index) {
                Some(Meaning::Kind(kind)) => declared = declared.or(*kind),
                Some(Meaning::Guessed(is)) => guessed |= *is,
                _ => {}
            }
        }
        let kind = declared.unwrap_or_else(|| module_kind(self.profile.strings.get(module)));
        Ok(Frame { module, address, kind, guessed, ..Frame::default() })
    }

    /// Returns the build ID in a mapping's attributes.
    fn build_id(&self, mut mapping: Message<'a>) -> Result<Option<BuildId>, Damaged> {
        let mut attributes = Vec::new();
        while let Some((field, value)) = mapping.next()? {
            if field == 5 {
                value.numbers(&mut attributes)?;
            }
        }
        let id = |index: u64| match self.attributes.get(usize::try_from(index).ok()?)? {
            Meaning::BuildId(text) => self.profile.strings.get(*text).parse().ok(),
            _ => None,
        };
        Ok(attributes.into_iter().find_map(id))
    }

    /// Sets a frame's function, file and line.
    fn named(&mut self, bare: Frame, function: u64, line: u64) -> Result<Frame, Damaged> {
        let function = usize::try_from(function).ok().and_then(|at| self.file.functions.get(at));
        let [name, system_name, file, start_line] = match function {
            Some(function) => numbers(*function)?,
            None => [0; 4],
        };
        let name = self.intern(if name > 0 { name } else { system_name });
        let text = self.profile.strings.get(name);
        let name = match demangle(text) {
            Cow::Borrowed(_) => name,
            Cow::Owned(text) => self.profile.strings.intern(&text),
        };
        Ok(Frame {
            function: name,
            file: self.intern(file),
            line: u32::try_from(line).unwrap_or(0),
            start_line: u32::try_from(start_line).unwrap_or(0),
            address: if name.is_empty() || self.keep_addresses { bare.address } else { 0 },
            ..bare
        })
    }
}

/// Applies an attribute to a thread or a sample.
fn apply(meaning: Meaning, thread: &mut Thread, sample: &mut Sample) {
    match meaning {
        Meaning::ProcessId(id) => thread.pid = id,
        Meaning::ThreadId(id) => thread.tid = id,
        Meaning::Process(name) => thread.process = name,
        Meaning::Thread(name) => thread.name = name,
        Meaning::Host(name) => thread.host = name,
        Meaning::Cgroup(path) => thread.cgroup = path,
        Meaning::CommandLine(text) => thread.command_line = text,
        Meaning::Cpu(cpu) => sample.cpu = cpu,
        Meaning::Kind(_) | Meaning::Guessed(_) | Meaning::BuildId(_) | Meaning::Other => {}
    }
}

/// Maps a value of `profile.frame.type`, including the values that Pyrograph adds, to a kind of code.
fn frame_kind(name: &str) -> Option<FrameKind> {
    match name {
        "kernel" => Some(FrameKind::Kernel),
        "native" | "go" | "rust" | "beam" => Some(FrameKind::User),
        "jit" => Some(FrameKind::Jit),
        "inlined" => Some(FrameKind::Inlined),
        "interpreted" | "cpython" | "php" | "ruby" | "perl" | "v8js" | "jvm" | "dotnet" | "lua" => {
            Some(FrameKind::Interpreted)
        }
        "remark" | "error" => Some(FrameKind::Marker(Marker::Remark)),
        _ => None,
    }
}
