//! A worker thread: takes chunks of text, returns interned stacks and their weights.

use std::borrow::Cow;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use memchr::memmem;
use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, StackId, StringId, Thread, ThreadId};

use super::arguments::arguments;
use super::functions::Functions;
use super::header::{self, Header, Layout};
use crate::byte_cache::ByteCache;
use crate::bytes;
use crate::chunks::{Chunks, count_lines, drop_carriage_returns};
use crate::names::{is_java, module_kind, tidy_name};
use crate::perf_frame::{self as frame, FrameLine};
use crate::reader::{Count, Detail, Options};
use crate::warnings::{LocalWarnings, WarningKind};

/// Capacity of the cache of sample blocks, in bytes.
const BLOCKS: usize = 32 << 20;
/// Capacity of the cache of threads, in bytes of their names.
const THREADS: usize = 4 << 20;
/// A longer block is not one sample but many single-line samples, which the cache would never find again.
const LONGEST_BLOCK: usize = 256 << 10;

/// The result of one worker thread.
#[derive(Default)]
pub struct Part {
    /// Strings, frames, stacks and threads; no samples.
    pub tables: Profile,
    /// The distinct events, in the order in which this thread found them.
    pub events: Vec<Event>,
    /// The samples for [`Detail::Samples`], their sums for [`Detail::Totals`], in the order in which this thread
    /// found them.
    pub rows: Vec<Row>,
    pub warnings: LocalWarnings,
    /// Number of each chunk, and its number of lines.
    pub lines: Vec<(u64, u64)>,
}

/// An event and its counts in this thread.
#[derive(Default)]
pub struct Event {
    pub name: Vec<u8>,
    pub samples: u64,
    pub first: Position,
    /// True if any of its samples has a period.
    pub has_period: bool,
}

/// The key by which samples are summed. `event` is an index in [`Part::events`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub stack: StackId,
    pub thread: ThreadId,
    pub event: u32,
}

/// One sample, or the sum of all samples with the same key.
pub struct Row {
    /// Position of the first sample.
    pub position: Position,
    pub key: Key,
    pub weight: u64,
    pub cpu: Option<u32>,
    pub time: Option<u64>,
}

/// Position of a sample in the input: number of the chunk, and of the sample in it. A chunk has at most 64 MiB and a
/// sample at least two bytes, so 26 bits are enough for the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

impl Position {
    fn new(chunk: u64, sample: u64) -> Self {
        Self(chunk << 26 | sample)
    }
}

/// The frames of one line: a [`FrameId`], or, with [`MANY`] set, an index in [`Worker::many`].
type LineFrames = u32;
const MANY: u32 = 1 << 31;

/// Parses chunks of the input.
pub struct Worker<'a> {
    options: &'a Options,
    layout: Layout,
    part: Part,
    /// The row of each key, for [`Detail::Totals`].
    totals: HashMap<Key, usize, FixedState>,
    event_index: HashMap<Vec<u8>, u32, FixedState>,
    last_event: u32,
    blocks: ByteCache<StackId>,
    seen_blocks: Seen,
    /// The distinct sequences of frames that come from one line.
    many: Vec<Vec<FrameId>>,
    many_index: HashMap<Vec<FrameId>, u32, FixedState>,
    functions: Functions<LineFrames>,
    threads: ByteCache<ThreadId>,
    blank_line: memmem::Finder<'static>,
    /// The frames of the current sample, leaf first.
    path: Vec<FrameId>,
    chunk: u64,
    sample: u64,
}

/// Hashes of recently seen blocks. Most blocks never occur again, so a block is cached only when it is seen for the
/// second time.
struct Seen(Vec<u32>);

impl Seen {
    fn new() -> Self {
        Self(vec![0; 1 << 16])
    }

    /// Stores the hash, and returns true if it was stored already.
    fn replace(&mut self, hash: u64) -> bool {
        let place = (hash >> 48) as usize;
        // The low 32 bits are enough to tell hashes in the same slot apart.
        let rest = hash as u32;
        std::mem::replace(&mut self.0[place], rest) == rest
    }
}

/// A sample whose header has been parsed and whose frames are being read.
#[derive(Default)]
struct Begun<'a> {
    header: Header<'a>,
    thread: ThreadId,
    place: usize,
}

/// An error in a line.
enum Trouble {
    NotAFrame,
    NotUtf8,
}

impl<'a> Worker<'a> {
    pub fn new(options: &'a Options, layout: Layout) -> Self {
        Self {
            options,
            layout,
            part: Part::default(),
            totals: HashMap::default(),
            event_index: HashMap::default(),
            last_event: 0,
            blocks: ByteCache::new(BLOCKS),
            seen_blocks: Seen::new(),
            many: Vec::new(),
            many_index: HashMap::default(),
            functions: Functions::new(),
            threads: ByteCache::new(THREADS),
            blank_line: memmem::Finder::new(b"\n\n"),
            path: Vec::new(),
            chunk: 0,
            sample: 0,
        }
    }

    /// Parses chunks until there are no more.
    pub fn run(mut self, chunks: &Chunks) -> Part {
        let mut text = Vec::new();
        while let Some(chunk) = chunks.next(&mut text) {
            self.part.lines.push((chunk, count_lines(&text)));
            drop_carriage_returns(&mut text);
            (self.chunk, self.sample) = (chunk, 0);
            self.blocks(&text);
        }
        self.part
    }

    /// Parses the blocks between blank lines.
    fn blocks(&mut self, text: &[u8]) {
        let mut at = 0;
        while at < text.len() {
            if text[at] == b'\n' {
                at += 1;
                continue;
            }
            let end = self.blank_line.find(&text[at..]).map_or(text.len(), |length| at + length);
            self.block(text, at, end);
            at = end + 2;
        }
    }

    /// Parses the lines from `start` to `end`, none of which is blank. They are nearly always one sample, and its
    /// frames are nearly always in the cache.
    fn block(&mut self, text: &[u8], start: usize, end: usize) {
        let block = &text[start..end];
        let block = block.strip_suffix(b"\n").unwrap_or(block);
        let newline = bytes::find(block, 0, b'\n');
        let (first, body) = (&block[..newline], block.get(newline + 1..).unwrap_or_default());
        if body.is_empty() || body.len() > LONGEST_BLOCK || first.first() == Some(&b'\t') {
            return self.lines(text, start, end);
        }
        let header = header::parse(first, self.layout);
        let Some(header) = header.filter(|header| !header.is_other_record()) else {
            return self.lines(text, start, end);
        };
        let hash = self.blocks.hash(body);
        let stack = match self.blocks.get(hash, body) {
            Some(stack) => stack,
            None => {
                if !self.all_frames(body) {
                    return self.lines(text, start, end);
                }
                let stack = self.intern_path();
                if self.seen_blocks.replace(hash) {
                    self.blocks.insert(hash, body, stack);
                }
                stack
            }
        };
        let thread = self.thread(&header, text, start);
        self.add(&header, thread, stack);
    }

    /// Parses `body` into `path`; returns false if a line is not a frame, or would cause a warning.
    fn all_frames(&mut self, body: &[u8]) -> bool {
        self.path.clear();
        let mut at = 0;
        while at < body.len() {
            let unit = Unit::at(body, at);
            if !begins_frame(unit.line()) || self.push_frames(unit.text, unit.has_source()).is_err()
            {
                return false;
            }
            at += unit.text.len() + 1;
        }
        true
    }

    /// Parses lines of any kind one by one.
    fn lines(&mut self, text: &[u8], start: usize, end: usize) {
        let block = &text[start..end];
        let mut sample: Option<Begun<'_>> = None;
        let mut skipping = None;
        let mut at = 0;
        self.path.clear();
        while at < block.len() {
            let unit = Unit::at(block, at);
            let line = unit.line();
            let place = start + at;
            if sample.is_some() && frame::is_after_frames(line) {
                at += line.len() + 1;
                continue;
            }
            if begins_frame(line) {
                at += unit.text.len() + 1;
                if skipping == Some(Skipped::Unreadable) {
                    self.part.warnings.skipped += 1;
                } else if skipping.is_none() {
                    sample.get_or_insert_with(|| Begun { place, ..Begun::default() });
                    if let Err(trouble) = self.push_frames(unit.text, unit.has_source()) {
                        self.push_troubled(unit.text, trouble, text, place);
                    }
                }
                continue;
            }
            at += line.len() + 1;
            let next = block.get(at..).unwrap_or_default();
            let first_of_block = sample.is_none() && skipping.is_none();
            let header = header::parse(line, self.layout)
                .or_else(|| weak(line, next, first_of_block, self.layout));
            if let Some(header) = header {
                self.finish(sample.take(), text);
                skipping = header.is_other_record().then_some(Skipped::OtherRecord);
                if skipping.is_none() {
                    let thread = self.thread(&header, text, place);
                    sample = Some(Begun { header, thread, place });
                }
            } else if line.starts_with(b"#") || skipping == Some(Skipped::OtherRecord) {
                // A comment, or a line after a side-band record.
            } else if skipping.is_some() {
                self.part.warnings.skipped += 1;
            } else if sample.is_some() {
                self.warn(WarningKind::UnreadableLine, text, place);
            } else {
                self.warn(WarningKind::UnreadableSample, text, place);
                skipping = Some(Skipped::Unreadable);
            }
        }
        self.finish(sample, text);
    }

    /// Adds the sample whose frames are in `path`. If there are none, the header line may contain one.
    fn finish(&mut self, sample: Option<Begun<'_>>, text: &[u8]) {
        let Some(Begun { header, thread, place }) = sample else { return };
        if self.path.is_empty() && frame::is_likely(header.rest) {
            // Otherwise the rest of the line is the arguments of a tracepoint.
            let unit = last_frame(header.rest);
            if let Err(Trouble::NotUtf8) = self.push_frames(unit, false) {
                self.push_troubled(unit, Trouble::NotUtf8, text, place);
            }
        }
        if self.path.is_empty() && header.comm.is_empty() {
            // Folded text has no lines without a name.
            let unknown = self.part.tables.frames.intern(Frame::default());
            self.path.push(unknown);
        }
        let stack = self.intern_path();
        self.path.clear();
        self.add(&header, thread, stack);
    }

    /// Adds the frames of a line to the path. If there is a source line below it, or if addresses are wanted, the
    /// cache by function cannot be used.
    fn push_frames(&mut self, unit: &[u8], has_source: bool) -> Result<(), Trouble> {
        let mut place = None;
        if !has_source && !self.options.addresses {
            let after = frame::after_address(unit).ok_or(Trouble::NotAFrame)?;
            match self.functions.find(after) {
                Ok(frames) => {
                    self.push(frames);
                    return Ok(());
                }
                Err(unknown) => place = unknown,
            }
        }
        let line = frame::parse(unit).ok_or(Trouble::NotAFrame)?;
        let frames = self.intern_line(&line)?;
        self.push(frames);
        let is_address = line.symbol.is_empty() && self.options.unknown_addresses;
        if let Some(place) = place.filter(|_| !is_address) {
            self.functions.remember(&place, frames);
        }
        Ok(())
    }

    /// Parses a line that is not UTF-8 lossily, and counts it as damaged.
    fn push_troubled(&mut self, unit: &[u8], trouble: Trouble, text: &[u8], place: usize) {
        let line = String::from_utf8_lossy(unit);
        let frames = match (trouble, frame::parse(line.as_bytes())) {
            (Trouble::NotUtf8, Some(line)) => self.intern_line(&line),
            (trouble, _) => Err(trouble),
        };
        match frames {
            Ok(frames) => {
                self.push(frames);
                self.warn(WarningKind::InvalidUtf8, text, place);
            }
            Err(_) => self.warn(WarningKind::UnreadableLine, text, place),
        }
    }

    fn push(&mut self, frames: LineFrames) {
        if frames & MANY == 0 {
            self.path.push(FrameId(frames));
        } else {
            self.path.extend_from_slice(&self.many[(frames & !MANY) as usize]);
        }
    }

    /// Interns the frames of a line: a function, and the calls inlined into it if its name lists them.
    fn intern_line(&mut self, line: &FrameLine<'_>) -> Result<LineFrames, Trouble> {
        let text = |text| std::str::from_utf8(text).map_err(|_| Trouble::NotUtf8);
        let (symbol, module, file) = (text(line.symbol)?, text(line.module)?, text(line.file)?);
        let kind = if line.inlined { FrameKind::Inlined } else { module_kind(module) };
        let strings = &mut self.part.tables.strings;
        let frame = Frame {
            function: StringId::EMPTY,
            module: strings.intern(module),
            file: strings.intern(file),
            line: line.line,
            start_line: 0,
            address: 0,
            kind,
            guessed: false,
        };
        if kind != FrameKind::Jit || !symbol.contains("->") || !is_java(symbol) {
            let function = self.function(symbol, module, line.address());
            let address = self.address(line, kind);
            let frame = Frame { function, address, ..frame };
            return Ok(self.part.tables.frames.intern(frame).0 & !MANY);
        }
        // `caller->inlined->inlined`; the path is leaf first.
        let calls: Vec<&str> = symbol.split("->").filter(|call| !call.is_empty()).collect();
        let mut frames = Vec::with_capacity(calls.len());
        for (depth, call) in calls.into_iter().enumerate().rev() {
            let function = self.function(call, module, line.address());
            let kind = if depth == 0 { kind } else { FrameKind::Inlined };
            frames.push(self.part.tables.frames.intern(Frame { function, kind, ..frame }));
        }
        let (many, next) = (&mut self.many, self.many_index.len() as u32);
        let number = *self.many_index.entry_ref(&frames).or_insert_with(|| {
            many.push(frames.clone());
            next
        });
        Ok(number | MANY)
    }

    fn function(&mut self, symbol: &str, module: &str, address: u64) -> StringId {
        let strings = &mut self.part.tables.strings;
        match symbol {
            "" if self.options.unknown_addresses => {
                let module = module.rsplit('/').next().filter(|module| !module.is_empty());
                strings.intern(&format!("[{} <{address:x}>]", module.unwrap_or("unknown")))
            }
            "" => StringId::EMPTY,
            symbol => strings.intern(&tidy_name(symbol)),
        }
    }

    /// Returns the address of a frame for which inlined calls can be looked up: code in a file, unless perf has
    /// resolved inlined calls and printed them before it. Otherwise 0.
    fn address(&self, line: &FrameLine<'_>, kind: FrameKind) -> u64 {
        if !self.options.addresses || kind != FrameKind::User || !line.module.starts_with(b"/") {
            return 0;
        }
        match self.path.last().map(|&callee| self.part.tables.frames.get(callee).kind) {
            None => line.address(),
            Some(FrameKind::Inlined) => 0,
            // A caller's address is a return address: that of the instruction after the call.
            Some(_) => line.address().saturating_sub(1),
        }
    }

    fn intern_path(&mut self) -> StackId {
        self.part.tables.stacks.intern_path(self.path.iter().rev().copied())
    }

    /// Adds a sample.
    fn add(&mut self, header: &Header<'_>, thread: ThreadId, stack: StackId) {
        let position = Position::new(self.chunk, self.sample);
        self.sample += 1;
        let event = self.event(header.event, position);
        let counted = &mut self.part.events[event as usize];
        counted.samples += 1;
        counted.has_period |= header.period.is_some();
        let weight = match self.options.count {
            Count::Period => header.period.unwrap_or(1),
            Count::Samples => 1,
        };
        let key = Key { stack, thread, event };
        let rows = &mut self.part.rows;
        let number = rows.len();
        if self.options.detail == Detail::Totals {
            let at = *self.totals.entry(key).or_insert(number);
            if let Some(row) = rows.get_mut(at) {
                row.weight = row.weight.saturating_add(weight);
                return;
            }
            rows.push(Row { position, key, weight, cpu: None, time: None });
        } else {
            let (cpu, time) = (header.cpu, header.time());
            rows.push(Row { position, key, weight, cpu, time });
        }
    }

    fn event(&mut self, name: &[u8], first: Position) -> u32 {
        if self.part.events.get(self.last_event as usize).is_some_and(|event| event.name == name) {
            return self.last_event;
        }
        self.last_event = match self.event_index.get(name) {
            Some(&event) => event,
            None => {
                let event = self.part.events.len() as u32;
                self.event_index.insert(name.to_owned(), event);
                self.part.events.push(Event { name: name.to_owned(), first, ..Event::default() });
                event
            }
        };
        self.last_event
    }

    /// The thread of a sample, and of its event's field if samples are told apart by one.
    fn thread(&mut self, header: &Header<'_>, text: &[u8], place: usize) -> ThreadId {
        let thread = self.thread_named(header, text, place);
        match &self.options.field {
            Some(field) => self.with_field(thread, field, header),
            None => thread,
        }
    }

    fn with_field(&mut self, thread: ThreadId, field: &str, header: &Header<'_>) -> ThreadId {
        let (event, rest) =
            (String::from_utf8_lossy(header.event), String::from_utf8_lossy(header.rest));
        let fields = arguments(&event, &rest);
        let found = fields.iter().find(|of| of.name == field);
        let Some(value) = found.map(|of| format!("{field}={}", of.value)) else { return thread };
        let field = self.part.tables.strings.intern(&value);
        let thread = Thread { field, ..self.part.tables.threads.get(thread) };
        self.part.tables.threads.intern(thread)
    }

    fn thread_named(&mut self, header: &Header<'_>, text: &[u8], place: usize) -> ThreadId {
        if header.who.is_empty() {
            return ThreadId::UNKNOWN;
        }
        let hash = self.threads.hash(header.who);
        if let Some(thread) = self.threads.get(hash, header.who) {
            return thread;
        }
        let comm = String::from_utf8_lossy(header.comm);
        let is_whole = matches!(comm, Cow::Borrowed(_));
        // As the original stackcollapse-perf.pl writes it.
        let comm = if comm.contains(' ') { Cow::Owned(comm.replace(' ', "_")) } else { comm };
        let (pid, tid) = self.options.threads.numbers(header.pid, header.tid);
        let process = self.part.tables.strings.intern(&comm);
        let thread = Thread { pid, tid, process, ..Thread::default() };
        let thread = self.part.tables.threads.intern(thread);
        if is_whole {
            self.threads.insert(hash, header.who, thread);
        } else {
            self.warn(WarningKind::InvalidUtf8, text, place);
        }
        thread
    }

    fn warn(&mut self, kind: WarningKind, text: &[u8], place: usize) {
        let line = || memchr::memchr_iter(b'\n', &text[..place]).count() as u64;
        self.part.warnings.add(kind, self.chunk, line);
    }
}

/// Reason why the lines up to the next header are skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skipped {
    /// They belong to a side-band record.
    OtherRecord,
    /// Their header cannot be parsed.
    Unreadable,
}

/// A line, with the source line below it if there is one.
struct Unit<'a> {
    text: &'a [u8],
    line_length: usize,
}

impl<'a> Unit<'a> {
    fn at(text: &'a [u8], at: usize) -> Self {
        let end = bytes::find(text, at, b'\n');
        let mut unit_end = end;
        if text.get(end + 1..end + 3) == Some(b"  ") && begins_frame(&text[at..end]) {
            let below_end = bytes::find(text, end + 1, b'\n');
            let below = &text[end + 1..below_end];
            if frame::is_source(below) && !header::is_certain(below) {
                unit_end = below_end;
            }
        }
        Self { text: &text[at..unit_end], line_length: end - at }
    }

    fn line(&self) -> &'a [u8] {
        &self.text[..self.line_length]
    }

    fn has_source(&self) -> bool {
        self.line_length < self.text.len()
    }
}

/// True if a line has the indentation or the form of a frame.
fn begins_frame(line: &[u8]) -> bool {
    match line.first() {
        Some(b'\t') => true,
        _ => frame::is_likely(line) && !header::is_certain(line),
    }
}

/// Parses a header that needs more evidence: that frames follow, or that the whole line can be parsed.
fn weak<'a>(
    line: &'a [u8],
    next: &[u8],
    first_of_block: bool,
    layout: Layout,
) -> Option<Header<'a>> {
    if line.starts_with(b"#") {
        return None;
    }
    let header = header::parse_weak(line, layout)?;
    let whole = header.rest.is_empty() || frame::is_likely(header.rest);
    let next = &next[..bytes::find(next, 0, b'\n')];
    let frames_follow = first_of_block && !next.is_empty() && begins_frame(next);
    let reads_whole = whole && !header.event.is_empty() && !header.comm.is_empty();
    (frames_follow || reads_whole).then_some(header)
}

/// Returns the frame at the end of a header line; a data address with its own symbol may precede it.
///
/// ```text
/// page-faults:  7ff41c6cb110 _res+0x0 (/lib/ld.so) ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])
/// ```
fn last_frame(rest: &[u8]) -> &[u8] {
    let mut frame = rest;
    for at in memchr::memchr_iter(b')', rest) {
        let next = rest[at + 1..].trim_ascii_start();
        if rest.get(at + 1) == Some(&b' ') && frame::is_likely(next) {
            frame = next;
        }
    }
    frame
}
