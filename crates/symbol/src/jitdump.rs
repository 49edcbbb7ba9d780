//! Reader of jitdump files (`jit-PID.dump`): JIT-compiled code of a process, with times and lines.
//!
//! ```text
//! header  magic version size machine - pid | timestamp flags
//! record  id size timestamp | …
//!   0 LOAD        pid tid vma address size index name\0 code
//!   1 MOVE        pid tid vma old_address new_address size index
//!   2 DEBUG_INFO  address count { address line column file\0 }…      of the next LOAD
//!   3 CLOSE
//!   4 UNWINDING_INFO  size header_size mapped_size eh_frame eh_frame_hdr      of the next LOAD
//! ```
//!
//! `node --perf-prof`, LLVM's and the JVM's agents, .NET and Wasmtime write this format for `perf inject --jit`
//! (tools/perf/Documentation/jitdump-specification.txt in the kernel's source). Numbers are in the byte order of
//! the machine; the magic number identifies it. Unlike a perf map, a jitdump file records *when* a function was at
//! an address, which matters if memory is reused, and source lines.
//!
//! Quirks: a file name of the single byte `ff` repeats the file name of the previous entry. `perf` writes each
//! function to an ELF file with the code after a header of 64 bytes, so some writers (V8) add 64 to the addresses
//! of their line entries: see [`JitDump::open`]. V8 may also write garbage in place of file names (`lines.rs`).
//! Entries that cannot be right are not used.
//!
//! The file is read on demand: only addresses and file positions are kept in memory, never code. So the file may be
//! large, or damaged in any way.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use crate::timeline::Timeline;

mod lines;
mod order;

use order::Order;

/// "JiTD" as a number in the file's byte order.
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
/// Flag in the header: timestamps are from the processor's own counter.
const ARCH_TIMESTAMP: u64 = 1;
const HEADER: u64 = 40;
const RECORD_HEADER: u64 = 16;
/// Size of the ELF header before the code in files written by `perf`.
const ELF_HEADER: u64 = 64;

/// Maximum length of a name, in bytes. Longer names are cut.
const MAX_NAME: u64 = 4096;
/// Maximum size of a function's line entries, in bytes. The rest is not read.
const MAX_LINES: u64 = 1 << 20;
/// Maximum size of a function's code, in bytes. Larger code is not read, and the unwind table that came with it is
/// not used.
const MAX_CODE: u64 = 16 << 20;
/// Maximum size of an unwind table, in bytes. Each is for one function.
const MAX_UNWINDING: u64 = 1 << 20;
/// Maximum number of changes (functions that were loaded or moved), more than any process makes. A file with more
/// is read up to here.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Maximum number of rows in the timeline. Limits how often functions may overwrite each other.
const MAX_CHANGES: u32 = 1 << 22;

/// Error from opening a jitdump file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitDumpError {
    /// The file could not be read.
    #[error("cannot read the jitdump file")]
    Read(#[from] io::Error),
    /// The file does not start with the magic number of the format.
    #[error("not a jitdump file")]
    Magic,
    /// The file has an unknown version of the format.
    #[error("jitdump version {0}, known is {VERSION}")]
    Version(u32),
}

/// Damage at which reading stopped before the end of the file. All records before it were read. The file of a
/// process that still runs often ends in an incomplete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset} of the jitdump file")]
pub struct JitDumpDamage {
    /// File offset of the first record that could not be read.
    pub offset: u64,
    /// Description of the defect.
    pub what: &'static str,
}

/// A JIT-compiled function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitFunction {
    /// Name, as the writer recorded it.
    pub name: String,
    /// Start of the code, as an address of the process.
    pub start: u64,
    /// Source file of the looked-up address, if there are line entries. In V8's optimized code, it may belong to an
    /// inlined function, whose name is not recorded.
    pub file: Option<String>,
    /// Source line, from 1; 0 if unknown.
    pub line: u32,
}

/// Code of a function and the unwind table for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitUnwinding {
    /// Start of the code, as an address of the process.
    pub start: u64,
    /// Machine code of the function.
    pub code: Vec<u8>,
    /// `.eh_frame` section for this code. Its relative addresses assume that it is at the first multiple of 8 at or
    /// after the end of the code.
    pub eh_frame: Vec<u8>,
}

/// JIT-compiled functions of a process, and when they were at which addresses.
#[derive(Debug)]
pub struct JitDump<R> {
    file: R,
    order: Order,
    pid: u32,
    flags: u64,
    functions: Vec<Function>,
    timeline: Timeline,
    /// Offset that the writer added to the addresses of line entries: 0 or 64.
    shift: u64,
    damage: Option<JitDumpDamage>,
}

/// A function, from a `LOAD` or `MOVE` record.
#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    /// Size of the code in bytes.
    size: u64,
    /// Start of the code before any `MOVE`; line entries refer to it.
    first_start: u64,
    /// Location of the name in the file, with the bytes after it up to the code.
    name: Span,
    /// Location of the line entries in the file.
    lines: Option<Lines>,
    /// Location of the code in the file.
    code: Option<Span>,
    /// Location of the `.eh_frame` in the file, if the writer emitted one.
    eh_frame: Option<Span>,
}

/// File and line; the line is 0 if unknown.
type Line = (Option<String>, u32);

/// Line entries that have not been read yet.
#[derive(Clone, Copy, Debug)]
struct Lines {
    span: Span,
    count: u64,
}

/// A range of bytes in the file.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: u64,
    size: u64,
}

/// From `since` on, `function` is at `start..end`; `None` if it was moved away.
#[derive(Clone, Copy, Debug)]
struct Change {
    since: u64,
    start: u64,
    end: u64,
    function: Option<u32>,
}

impl<R: Read + Seek> JitDump<R> {
    /// Reads which functions were where and when, up to the first damage.
    ///
    /// The addresses of line entries are assumed to have 64 added if, in every function, the first entry is at
    /// least 64 bytes after the function's start: without the offset, line entries begin at the start of the code.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a jitdump file, or has an unknown version.
    pub fn open(mut file: R) -> Result<Self, JitDumpError> {
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        let mut input = Input { reader: BufReader::new(&mut file), at: 0, order: Order::Little };
        let header = read_header(&mut input)?;
        let mut scan = Scan::default();
        let mut damage = scan.records(&mut input, header.size, end)?;
        let order = input.order;
        drop(input);

        // Threads may write records late: the file is not in order of time.
        scan.changes.sort_by_key(|change| change.since);
        let mut timeline = Timeline::default();
        for Change { since, start, end, function } in scan.changes {
            if !timeline.set(start, end, since, function, MAX_CHANGES) {
                let what = "too many functions in each other's place";
                damage.get_or_insert(JitDumpDamage { offset: end, what });
                break;
            }
        }
        let shift =
            if scan.nearest_line.is_some_and(|near| near >= ELF_HEADER) { ELF_HEADER } else { 0 };
        let Header { pid, flags, .. } = header;
        Ok(Self { file, order, pid, flags, functions: scan.functions, timeline, shift, damage })
    }

    /// Finds the function at an address of the process at a time or, without a time, the last one there. Times are
    /// in nanoseconds of the writer's clock, by convention `CLOCK_MONOTONIC`.
    ///
    /// Also returns `None` if the file can no longer be read.
    pub fn lookup(&mut self, address: u64, time: Option<u64>) -> Option<JitFunction> {
        let number = self.timeline.get(address, time)?;
        self.function(number, address)
    }

    /// Returns the function with a number from [`nearest`](Self::nearest), with the source location of `address` in it.
    ///
    /// Also returns `None` if the file can no longer be read.
    pub fn function(&mut self, number: u32, address: u64) -> Option<JitFunction> {
        let function = *self.functions.get(number as usize)?;
        let bytes = self.read(function.name, MAX_NAME).ok()?;
        let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let (file, line) = self.line(&function, &name, address).unwrap_or((None, 0));
        Some(JitFunction { name, start: function.start, file, line })
    }

    /// Returns code and unwind table of the function with a number from [`nearest`](Self::nearest) or
    /// [`last`](Self::last). `None` if the writer emitted no table for it, or the code has more than 16 MiB.
    ///
    /// Also returns `None` if the file can no longer be read.
    pub fn unwinding(&mut self, number: u32) -> Option<JitUnwinding> {
        let Function { start, code, eh_frame, .. } = *self.functions.get(number as usize)?;
        let (code, eh_frame) = code.zip(eh_frame)?;
        Some(JitUnwinding { start, code: self.whole(code)?, eh_frame: self.whole(eh_frame)? })
    }

    /// Returns start and code of the function with a number. `None` if the code has more than 16 MiB, or is not in
    /// the file.
    ///
    /// Also returns `None` if the file can no longer be read.
    pub fn code(&mut self, number: u32) -> Option<(u64, Vec<u8>)> {
        let Function { start, code, .. } = *self.functions.get(number as usize)?;
        Some((start, self.whole(code?)?))
    }

    fn whole(&mut self, span: Span) -> Option<Vec<u8>> {
        let bytes = self.read(span, span.size).ok()?;
        (bytes.len() as u64 == span.size).then_some(bytes)
    }

    fn line(&mut self, function: &Function, name: &str, address: u64) -> Option<Line> {
        let Lines { span, count } = function.lines?;
        let bytes = self.read(span, MAX_LINES).ok()?;
        let Function { first_start, size, .. } = *function;
        let code = first_start..=first_start.saturating_add(size);
        let known =
            lines::Known { order: self.order, count, code, shift: self.shift, function: name };
        let place = address.wrapping_sub(function.start).wrapping_add(first_start);
        let (file, line) = lines::find(&bytes, &known, place)?;
        Some((file.map(str::to_owned), line))
    }

    fn read(&mut self, span: Span, limit: u64) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(span.offset))?;
        let mut bytes = Vec::new();
        self.file.by_ref().take(span.size.min(limit)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R> JitDump<R> {
    /// Returns true if a function at an address was replaced or moved away, so that lookups depend on the time.
    pub fn changes(&self, address: u64) -> bool {
        self.timeline.changes(address)
    }

    /// Number of the function that was at an address at a time. Writers may report a function after it has started
    /// to run, so if none was there, this is the next one, or else the last one before.
    pub fn nearest(&self, address: u64, time: u64) -> Option<u32> {
        self.timeline.nearest(address, time)
    }

    /// Number of the last function that was at an address.
    pub fn last(&self, address: u64) -> Option<u32> {
        self.timeline.get(address, None)
    }

    /// Returns true if any function has an unwind table.
    pub fn has_unwinding(&self) -> bool {
        self.functions.iter().any(|function| function.code.and(function.eh_frame).is_some())
    }

    /// Addresses of the function with a number.
    pub fn range(&self, number: u32) -> Option<Range<u64>> {
        let function = self.functions.get(number as usize)?;
        Some(function.start..function.start.saturating_add(function.size))
    }

    /// ID of the process that wrote the file, in its own PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns true if times are not in nanoseconds but in ticks of the processor's counter (`rdtsc`).
    pub fn has_arch_timestamps(&self) -> bool {
        self.flags & ARCH_TIMESTAMP != 0
    }

    /// Returns true if the file contains no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Damage at which reading stopped, if any.
    pub fn damage(&self) -> Option<JitDumpDamage> {
        self.damage
    }
}

/// Contents of the records that were read so far.
#[derive(Default)]
struct Scan {
    functions: Vec<Function>,
    changes: Vec<Change>,
    /// Start of the code → index of the function that was last loaded or moved there.
    by_start: HashMap<u64, u32>,
    /// Function start and line entries of a `DEBUG_INFO` record, for the next `LOAD`.
    lines: Option<(u64, Lines)>,
    /// The `.eh_frame` of an `UNWINDING_INFO` record, for the next `LOAD`.
    unwinding: Option<Span>,
    /// Smallest distance of a function's first line entry from the function's start.
    nearest_line: Option<u64>,
}

impl Scan {
    /// Reads the records from `at` to `end`, or to the first damaged one.
    fn records<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        mut at: u64,
        end: u64,
    ) -> io::Result<Option<JitDumpDamage>> {
        while at != end {
            let damage = |what| Ok(Some(JitDumpDamage { offset: at, what }));
            if end.saturating_sub(at) < RECORD_HEADER {
                return damage("a cut-off record");
            }
            input.go_to(at)?;
            let header = input.bytes::<16>()?;
            let (id, size) = (input.order.u32(&header, 0), u64::from(input.order.u32(&header, 4)));
            let since = input.order.u64(&header, 8);
            if size < RECORD_HEADER {
                return damage("a record of no size");
            }
            if size > end - at {
                return damage("a cut-off record");
            }
            if self.changes.len() >= MAX_FUNCTIONS {
                return damage("too many functions");
            }
            // A record that is too short for its kind is skipped, like records of unknown kinds: the next one may
            // be right.
            match (id, size - RECORD_HEADER) {
                (0, body @ 40..) => self.load(input, since, body)?,
                (1, 48..) => self.moved(input, since)?,
                (2, body @ 16..) => self.debug_info(input, body)?,
                (4, body @ 24..) => self.unwinding_info(input, body)?,
                _ => {}
            }
            at += size;
        }
        Ok(None)
    }

    fn load<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        since: u64,
        size: u64,
    ) -> io::Result<()> {
        let body = input.bytes::<40>()?;
        // The address that the code runs at; all known writers set `vma` to the same address.
        let (start, code) = (input.order.u64(&body, 16), input.order.u64(&body, 24));
        let name = Span { offset: input.at, size: (size - 40).saturating_sub(code) };
        let lines = self.lines.take().filter(|(address, _)| *address == start);
        let lines = lines.map(|(_, lines)| lines);
        let has_code = code <= (size - 40).min(MAX_CODE);
        let code_span = Span { offset: name.offset + name.size, size: code };
        let eh_frame = self.unwinding.take().filter(|_| has_code);
        let function = Function {
            start,
            size: code,
            first_start: start,
            name,
            lines,
            code: has_code.then_some(code_span),
            eh_frame,
        };
        self.add(function, since);
        Ok(())
    }

    fn unwinding_info<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        size: u64,
    ) -> io::Result<()> {
        let body = input.bytes::<24>()?;
        // `.eh_frame_hdr` comes last: `perf` puts it behind the table in the file that it writes.
        let (all, header) = (input.order.u64(&body, 0), input.order.u64(&body, 8));
        let span = Span { offset: input.at, size: all.saturating_sub(header) };
        let is_there = all <= size - 24 && (1..=MAX_UNWINDING).contains(&span.size);
        self.unwinding = is_there.then_some(span);
        Ok(())
    }

    fn moved<R: Read + Seek>(&mut self, input: &mut Input<R>, since: u64) -> io::Result<()> {
        let body = input.bytes::<48>()?;
        let [old, start, size] = [16, 24, 32].map(|at| input.order.u64(&body, at));
        if let Some(&index) = self.by_start.get(&old) {
            let function = self.functions[index as usize];
            self.by_start.remove(&old);
            let end = old.saturating_add(size);
            self.changes.push(Change { since, start: old, end, function: None });
            self.add(Function { start, size, ..function }, since);
        }
        Ok(())
    }

    fn add(&mut self, function: Function, since: u64) {
        let Ok(index) = u32::try_from(self.functions.len()) else { return };
        let Function { start, size, .. } = function;
        let Some(end) = start.checked_add(size).filter(|&end| end > start) else { return };
        self.functions.push(function);
        self.by_start.insert(start, index);
        self.changes.push(Change { since, start, end, function: Some(index) });
    }

    fn debug_info<R: Read + Seek>(&mut self, input: &mut Input<R>, size: u64) -> io::Result<()> {
        let body = input.bytes::<16>()?;
        let (start, count) = (input.order.u64(&body, 0), input.order.u64(&body, 8));
        let span = Span { offset: input.at, size: size - 16 };
        if count > 0 && span.size > 16 {
            let first = input.bytes::<8>()?;
            let distance = input.order.u64(&first, 0).saturating_sub(start);
            self.nearest_line = Some(self.nearest_line.map_or(distance, |near| near.min(distance)));
            self.lines = Some((start, Lines { span, count }));
        }
        Ok(())
    }
}

struct Header {
    size: u64,
    pid: u32,
    flags: u64,
}

fn read_header<R: Read + Seek>(input: &mut Input<R>) -> Result<Header, JitDumpError> {
    let bytes = input.bytes::<{ HEADER as usize }>().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => JitDumpError::Magic,
        _ => JitDumpError::Read(error),
    })?;
    let orders = [Order::Little, Order::Big];
    let order = orders.into_iter().find(|order| order.u32(&bytes, 0) == MAGIC);
    input.order = order.ok_or(JitDumpError::Magic)?;
    let u32 = |at| input.order.u32(&bytes, at);
    if u32(4) != VERSION {
        return Err(JitDumpError::Version(u32(4)));
    }
    let size = u64::from(u32(8)).max(HEADER);
    Ok(Header { size, pid: u32(20), flags: input.order.u64(&bytes, 32) })
}

/// A file that is read front to back, with skips.
struct Input<R> {
    reader: BufReader<R>,
    at: u64,
    order: Order,
}

impl<R: Read + Seek> Input<R> {
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Skips to a position.
    fn go_to(&mut self, at: u64) -> io::Result<()> {
        match i64::try_from(i128::from(at) - i128::from(self.at)) {
            Ok(distance) => self.reader.seek_relative(distance)?,
            Err(_) => self.reader.seek(SeekFrom::Start(at)).map(drop)?,
        }
        self.at = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
