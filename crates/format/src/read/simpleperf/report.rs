//! Parser of the output of `simpleperf report-sample --protobuf`, which Android Studio and the Firefox Profiler also
//! read.
//!
//! ```text
//! SIMPLEPERF 1                                          the version, 16 bits
//! 88 { meta_info: { event_type: ["cpu-clock"] } }       a record behind its length, 32 bits
//! 421 { sample: { time: 1, thread_id: 7657, callchain: [{ vaddr_in_file: 9, file_id: 1, symbol_id: 0 }], event_count: 2 } }
//! 90 { file: { id: 1, path: "/system/lib/libc.so", symbol: ["read"] } }
//! 0                                                     the end
//! ```
//!
//! Source: `cmd_report_sample.proto` of simpleperf. Numbers are little-endian. Files and threads come after the
//! samples that refer to them, so records are read twice. Scheduler events (`context_switch`) are left out.

use std::borrow::Cow;

use hashbrown::HashMap;
use pyrograph_profile::FrameKind;

use super::{FrameText, SampleText};
use crate::protobuf::{Damaged, Message};
use crate::warnings::{WarningKind, Warnings};

const MAGIC: &[u8] = b"SIMPLEPERF";

/// True if the bytes begin like such a file.
pub(super) fn begins(head: &[u8]) -> bool {
    head.strip_prefix(MAGIC).is_some_and(|rest| rest.len() >= 2)
}

/// Tables that samples refer to by ID.
#[derive(Default)]
struct Tables<'a> {
    events: Vec<Cow<'a, str>>,
    files: HashMap<u64, File<'a>>,
    threads: HashMap<u64, (u64, Cow<'a, str>)>,
    lost: u64,
}

struct File<'a> {
    path: Cow<'a, str>,
    symbols: Vec<&'a [u8]>,
}

/// Calls `on_sample` for each sample.
pub(super) fn read(
    bytes: &[u8],
    warnings: &mut Warnings,
    mut on_sample: impl FnMut(SampleText<'_>),
) {
    let version = bytes.get(MAGIC.len()..).and_then(|rest| rest.first_chunk());
    let version = version.map_or(0, |version| u16::from_le_bytes(*version));
    if version != 1 {
        let said = format!("it is of version {version}, and read as of version 1");
        warnings.add(WarningKind::NotHeld(said), 1, []);
    }
    let (mut tables, mut damaged, mut at) = (Tables::default(), 0, 0);
    let mut records = Records::of(bytes);
    for record in &mut records {
        damaged += u64::from(tables.record(record).is_err());
    }
    if !records.ended {
        at = bytes.len() - records.rest.len();
    }
    for record in Records::of(bytes) {
        let sample = tables.sample(record);
        damaged += u64::from(sample.is_err());
        if let Ok(Some(sample)) = sample {
            on_sample(sample);
        }
    }
    if at > 0 {
        let cause = format!("no record, and no end, at byte {at}");
        warnings.add(WarningKind::Truncated(cause), 1, []);
    }
    for (kind, count) in
        [(WarningKind::UnreadableRecord, damaged), (WarningKind::LostSamples, tables.lost)]
    {
        if count > 0 {
            warnings.add(kind, count, []);
        }
    }
}

/// Iterates over records, up to the end marker or the first incomplete record.
struct Records<'a> {
    rest: &'a [u8],
    ended: bool,
}

impl<'a> Records<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes.get(MAGIC.len() + 2..).unwrap_or_default(), ended: false }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        if length == 0 {
            self.ended = true;
            return None;
        }
        let (record, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Message(record))
    }
}

impl<'a> Tables<'a> {
    /// Stores the contents of a record that is not a sample.
    fn record(&mut self, mut record: Message<'a>) -> Result<(), Damaged> {
        while let Some((field, value)) = record.next()? {
            let mut message = value.message();
            match field {
                2 => {
                    while let Some((field, value)) = message.next()? {
                        if field == 2 {
                            // Each record has the total number of lost samples so far.
                            self.lost = self.lost.max(value.number());
                        }
                    }
                }
                3 => {
                    let (mut id, mut file) =
                        (0, File { path: Cow::default(), symbols: Vec::new() });
                    while let Some((field, value)) = message.next()? {
                        match field {
                            1 => id = value.number(),
                            2 => file.path = String::from_utf8_lossy(value.bytes()),
                            3 => file.symbols.push(value.bytes()),
                            _ => {}
                        }
                    }
                    self.files.insert(id, file);
                }
                4 => {
                    let (mut tid, mut pid, mut name) = (0, 0, Cow::default());
                    while let Some((field, value)) = message.next()? {
                        match field {
                            1 => tid = value.number(),
                            2 => pid = value.number(),
                            3 => name = String::from_utf8_lossy(value.bytes()),
                            _ => {}
                        }
                    }
                    self.threads.insert(tid, (pid, name));
                }
                5 => {
                    while let Some((field, value)) = message.next()? {
                        if field == 1 {
                            self.events.push(String::from_utf8_lossy(value.bytes()));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the sample in a record, if it has one. Damage in other fields has been counted already.
    fn sample(&self, mut record: Message<'a>) -> Result<Option<SampleText<'_>>, Damaged> {
        while let Ok(Some((field, value))) = record.next() {
            if field == 1 {
                return self.sample_of(value.message()).map(Some);
            }
        }
        Ok(None)
    }

    fn sample_of(&self, mut message: Message<'a>) -> Result<SampleText<'_>, Damaged> {
        let mut sample = SampleText::default();
        let (mut tid, mut event) = (0, 0);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => sample.time = Some(value.number()),
                2 => tid = value.number(),
                3 => sample.frames.push(self.frame(value.message())?),
                4 => sample.count = Some(value.number()),
                5 => event = value.number(),
                6 => {
                    let mut result = value.message();
                    while let Some((field, value)) = result.next()? {
                        sample.is_cut |= matches!(field, 1 | 3) && value.number() != 0;
                    }
                }
                _ => {}
            }
        }
        if let Some((pid, name)) = self.threads.get(&tid) {
            sample.pid = i32::try_from(*pid).ok();
            sample.comm = Cow::Borrowed(name);
        }
        sample.tid = i32::try_from(tid).ok();
        let event = usize::try_from(event).ok().and_then(|event| self.events.get(event));
        sample.event = Cow::Borrowed(event.map_or("", |event| event));
        Ok(sample)
    }

    fn frame(&self, mut message: Message<'a>) -> Result<FrameText<'_>, Damaged> {
        let mut frame = FrameText::default();
        // A symbol ID of -1 means "no symbol".
        let (mut file, mut symbol) = (0, u64::MAX);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => frame.address = value.number(),
                2 => file = value.number(),
                3 => symbol = value.number(),
                4 => {
                    frame.kind = match value.number() {
                        1 => Some(FrameKind::Interpreted),
                        2 => Some(FrameKind::Jit),
                        _ => None,
                    }
                }
                _ => {}
            }
        }
        if let Some(file) = self.files.get(&file) {
            frame.file = Cow::Borrowed(&file.path);
            let symbol = usize::try_from(symbol).ok().and_then(|symbol| file.symbols.get(symbol));
            frame.symbol = symbol.map_or(Cow::default(), |symbol| String::from_utf8_lossy(symbol));
        }
        Ok(frame)
    }
}
