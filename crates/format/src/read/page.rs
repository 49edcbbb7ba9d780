//! Reader of the profile that is embedded in a page of `pyrograph view`.
//!
//! ```text
//! <!DOCTYPE html>
//! <html lang="en"> … <meta name="generator" content="Pyrograph"> …
//! <script type="text/plain" id="pyrograph-profile">
//! H4sIAAAAAAAA…
//! </script>
//! ```
//!
//! The script element holds base64 of gzip of columns, which are listed in `docs/viewer.md`. Unknown columns are
//! skipped; columns that only the page uses, for example colours, are among these.

use std::io::Read;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pyrograph_names::Name;
use pyrograph_profile::{
    About, Address, AddressId, Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId,
    Thread, ThreadId, ValueType,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::rows::Rows;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::{WarningKind, Warnings};

/// Reader of pages of `pyrograph view`.
pub struct Page;

const BEGIN: &[u8] = b"<script type=\"text/plain\" id=\"pyrograph-profile\">";

/// Supported version of the format.
const VERSION: u8 = 1;

/// Maximum expansion ratio of gzip; more indicates damage or an attack. Real pages reach 20.
const MOST_EXPANSION: u64 = 1000;

impl Reader for Page {
    fn name(&self) -> &'static str {
        "page"
    }

    fn written_by(&self) -> &'static str {
        "pyrograph view, pyrograph record -o app.html, pyrograph diff -o diff.html"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
        head.starts_with(b"<!DOCTYPE html>")
            && has(b"<meta name=\"generator\" content=\"Pyrograph\">")
    }

    fn may_be_empty(&self) -> bool {
        true
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let (bytes, warnings) = input.into_bytes();
        let read = unpacked(&bytes).and_then(|bytes| profile(&bytes, options, warnings));
        read.map_err(|reason| ReadError::Malformed { name, reason })
    }
}

/// Decodes the bytes of the columns, which follow the version.
fn unpacked(page: &[u8]) -> Result<Vec<u8>, String> {
    let start = memchr::memmem::find(page, BEGIN).ok_or("there is no profile in this page")?;
    let text = &page[start + BEGIN.len()..];
    let end = memchr::memchr(b'<', text).ok_or("the page ends within the profile")?;
    let packed = STANDARD.decode(text[..end].trim_ascii());
    let packed = packed.map_err(|error| format!("the profile in it is damaged: {error}"))?;
    let most = (packed.len() as u64).saturating_mul(MOST_EXPANSION);
    let mut bytes = Vec::new();
    let read = flate2::read::GzDecoder::new(packed.as_slice()).take(most).read_to_end(&mut bytes);
    read.map_err(|error| format!("the profile in it is damaged: {error}"))?;
    let columns = bytes.strip_prefix(b"pyrograph\0").ok_or("the profile in it is damaged")?;
    match columns.split_first() {
        Some((&VERSION, columns)) => Ok(columns.to_vec()),
        Some((version, _)) => {
            Err(format!("the profile in it has version {version}, and only {VERSION} is read"))
        }
        None => Err("the profile in it is damaged".to_owned()),
    }
}

/// Byte ranges of the columns, by number.
struct Columns<'a> {
    bytes: &'a [u8],
    places: Vec<Range<usize>>,
}

impl<'a> Columns<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let mut places = vec![0..0; 48];
        let mut rest = Numbers(bytes);
        while !rest.0.is_empty() {
            let (column, length) = (rest.next()?, rest.next()?);
            let start = bytes.len() - rest.0.len();
            let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
            let end = end.filter(|&end| end <= bytes.len()).ok_or("a column is cut off")?;
            if let Some(place) = usize::try_from(column).ok().and_then(|of| places.get_mut(of)) {
                *place = start..end;
            }
            rest = Numbers(&bytes[end..]);
        }
        Ok(Self { bytes, places })
    }

    fn bytes(&self, column: usize) -> &'a [u8] {
        &self.bytes[self.places[column].clone()]
    }

    /// Returns the numbers of a column.
    fn numbers(&self, column: usize) -> Numbers<'a> {
        Numbers(self.bytes(column))
    }

    /// Returns the numbers of a column, which are all 0 if it is missing.
    fn or_zero(&self, column: usize) -> Column<'a> {
        let numbers = self.numbers(column);
        Column { is_there: !numbers.0.is_empty(), numbers }
    }
}

struct Column<'a> {
    is_there: bool,
    numbers: Numbers<'a>,
}

impl Column<'_> {
    fn next(&mut self) -> Result<u64, String> {
        if self.is_there { self.numbers.next() } else { Ok(0) }
    }

    fn next_u32(&mut self) -> Result<u32, String> {
        u32::try_from(self.next()?).map_err(|_| "a number is too large".to_owned())
    }
}

/// Numbers in LEB128: seven bits per byte, lowest first.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("a column ends too early")?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number is too long".to_owned())
    }
}

#[derive(Deserialize)]
struct Counts {
    frames: usize,
    threads: usize,
    samples: usize,
}

#[derive(Deserialize)]
struct Value {
    name: String,
    unit: String,
    decimals: u8,
}

#[derive(Deserialize)]
struct Period {
    of: Value,
    value: u64,
}

/// The column with JSON metadata.
#[derive(Deserialize)]
struct AboutColumn {
    counts: Counts,
    values: Vec<Value>,
    shown: usize,
    rooted: bool,
    unfiltered: Vec<u64>,
    start: Option<u64>,
    duration: Option<u64>,
    period: Option<Period>,
    host: Option<String>,
    lost: u64,
    #[serde(default)]
    sums: bool,
    #[serde(default)]
    command: Option<String>,
    comments: Vec<String>,
    step: Option<u64>,
}

impl From<Value> for ValueType {
    fn from(Value { name, unit, decimals }: Value) -> Self {
        Self { name, unit, decimals }
    }
}

fn profile(bytes: &[u8], options: &Options, mut warnings: Warnings) -> Result<Reading, String> {
    let columns = Columns::new(bytes)?;
    let about: AboutColumn = serde_json::from_slice(columns.bytes(1))
        .map_err(|error| format!("the profile in it is damaged: {error}"))?;
    if about.values.is_empty() || about.shown >= about.values.len() {
        return Err("there is no value in it".to_owned());
    }
    if about.values.iter().any(|of| of.decimals > 18) {
        return Err("its values have too many decimals".to_owned());
    }
    if let Some(step) = about.step {
        let said = format!(
            "it had so many samples that those of a stack within {} ms were added up",
            step / 1_000_000
        );
        warnings.add(WarningKind::NotHeld(said), 1, []);
    }
    let Counts { frames: frame_count, threads: thread_count, samples } = about.counts;
    let types = about.values.into_iter().map(ValueType::from).collect();
    let mut profile = Profile::new(types);
    let period = about.period.map(|Period { of, value }| (of.into(), value));
    profile.about = About {
        start: about.start,
        duration: about.duration,
        period,
        host: about.host,
        lost: about.lost,
        sums: about.sums,
        command: about.command,
        comments: about.comments,
    };
    (profile.shown, profile.rooted) = (about.shown, about.rooted);
    let is_whole = about.unfiltered.len() == profile.value_types.len();
    profile.unfiltered = if is_whole { about.unfiltered } else { Vec::new() };
    let texts = texts(&columns, &mut profile)?;
    let frames = frames(&columns, frame_count, &texts, &mut profile)?;
    let stacks = stacks(&columns, &frames, &mut profile)?;
    let mut rows = Rows::new(options, profile.value_types.len());
    let threads = threads(&columns, thread_count, &texts, &rows, &mut profile)?;
    let addresses = match options.instructions {
        true => {
            profile.code.extend(code(&columns)?);
            addresses(&columns, &texts, &mut profile)?
        }
        false => Vec::new(),
    };
    let known = Known { stacks: &stacks, threads: &threads, addresses: &addresses };
    read_samples(&columns, samples, known, &mut rows, &profile)?;
    rows.finish(&mut profile);
    Ok(Reading::new(profile, warnings))
}

/// Interns the strings of the page.
fn texts(columns: &Columns<'_>, profile: &mut Profile) -> Result<Vec<StringId>, String> {
    let damaged = "the texts are damaged";
    let mut rest = std::str::from_utf8(columns.bytes(2)).map_err(|_| damaged)?;
    let mut lengths = columns.numbers(3);
    let mut texts = Vec::new();
    while !lengths.0.is_empty() {
        // Lengths are in UTF-16 code units; a character has one or two.
        let (mut left, mut bytes) = (lengths.next()?, 0);
        let mut characters = rest.chars();
        while left > 0 {
            let c = characters.next().ok_or(damaged)?;
            left = left.checked_sub(c.len_utf16() as u64).ok_or(damaged)?;
            bytes += c.len_utf8();
        }
        let (text, after) = rest.split_at(bytes);
        texts.push(profile.strings.intern(text));
        rest = after;
    }
    if texts.is_empty() {
        texts.push(StringId::EMPTY);
    }
    Ok(texts)
}

fn text(texts: &[StringId], place: u64) -> Result<StringId, String> {
    let text = usize::try_from(place).ok().and_then(|place| texts.get(place));
    text.copied().ok_or_else(|| format!("there is no text {place}"))
}

fn frames(
    columns: &Columns<'_>,
    count: usize,
    texts: &[StringId],
    profile: &mut Profile,
) -> Result<Vec<FrameId>, String> {
    let [mut labels, mut functions, mut modules, mut files] =
        [4, 5, 6, 7].map(|of| columns.or_zero(of));
    let [mut lines, mut starts, mut addresses] = [8, 9, 10].map(|of| columns.or_zero(of));
    let [mut kinds, mut guessed, mut full_names] = [11, 12, 39].map(|of| columns.or_zero(of));
    let mut frames = Vec::new();
    let mut label = 0u64;
    for _ in 0..count {
        if !labels.is_there {
            // Otherwise a small file could claim any number of frames.
            return Err("there are no names of frames".to_owned());
        }
        label = label.saturating_add(labels.next()?);
        let function = match functions.next()? {
            0 => label,
            function => function - 1,
        };
        let function = text(texts, function)?;
        if let Some(full) = full_names.next()?.checked_sub(1) {
            set_full_name(function, text(texts, full)?, profile);
        }
        let kind = u8::try_from(kinds.next()?).ok().and_then(FrameKind::of_code);
        frames.push(profile.frames.intern(Frame {
            function,
            module: text(texts, modules.next()?)?,
            file: text(texts, files.next()?)?,
            line: lines.next_u32()?,
            start_line: starts.next_u32()?,
            address: addresses.next()?,
            // A kind may come from a later version.
            kind: kind.unwrap_or_default(),
            guessed: guessed.next()? > 0,
        }));
    }
    Ok(frames)
}

/// Stores the full name of a function, unless it can be derived from the function's name.
fn set_full_name(function: StringId, full: StringId, profile: &mut Profile) {
    let said = Name::of(profile.strings.get(function)).full;
    if !function.is_empty() && profile.strings.get(full) != said {
        profile.full_names.insert(function, full);
    }
}

/// Interns the stacks of the page; the first one is the empty stack.
fn stacks(
    columns: &Columns<'_>,
    frames: &[FrameId],
    profile: &mut Profile,
) -> Result<Vec<StackId>, String> {
    let mut leaves = columns.numbers(15);
    let mut ups = columns.or_zero(14);
    let mut stacks = vec![StackId::ROOT];
    let mut path = vec![StackId::ROOT];
    while !leaves.0.is_empty() {
        let up = usize::try_from(ups.next()?).map_err(|_| "a stack has no caller")?;
        let depth = path.len().checked_sub(up).filter(|&depth| depth > 0);
        path.truncate(depth.ok_or("a stack has no caller")?);
        let leaf = leaves.next()?;
        let frame = usize::try_from(leaf).ok().and_then(|leaf| frames.get(leaf));
        let frame = *frame.ok_or_else(|| format!("there is no frame {leaf}"))?;
        let caller = path.last().copied().unwrap_or(StackId::ROOT);
        let stack = profile.stacks.intern(caller, frame);
        path.push(stack);
        stacks.push(stack);
    }
    Ok(stacks)
}

fn threads(
    columns: &Columns<'_>,
    count: usize,
    texts: &[StringId],
    rows: &Rows,
    profile: &mut Profile,
) -> Result<Vec<ThreadId>, String> {
    let [mut pids, mut tids] = [16, 17].map(|of| columns.or_zero(of));
    let [mut processes, mut names, mut hosts, mut cgroups, mut command_lines] =
        [18, 19, 20, 37, 38].map(|of| columns.or_zero(of));
    // All threads without any information are one.
    let is_known = [&pids, &tids, &processes, &names, &hosts, &cgroups, &command_lines]
        .iter()
        .any(|of| of.is_there);
    if !is_known {
        return Ok(vec![ThreadId::UNKNOWN]);
    }
    let mut threads = Vec::new();
    for _ in 0..count {
        let thread = Thread {
            pid: identifier(pids.next()?)?,
            tid: identifier(tids.next()?)?,
            process: text(texts, processes.next()?)?,
            name: text(texts, names.next()?)?,
            host: text(texts, hosts.next()?)?,
            cgroup: text(texts, cgroups.next()?)?,
            command_line: text(texts, command_lines.next()?)?,
            field: StringId::EMPTY,
        };
        threads.push(rows.thread(profile, thread));
    }
    Ok(threads)
}

/// Decodes an identifier: 0 if unknown, else 1 plus its zigzag encoding.
fn identifier(number: u64) -> Result<Option<i32>, String> {
    let Some(number) = number.checked_sub(1) else { return Ok(None) };
    let number = u32::try_from(number).map_err(|_| "an identifier is too large")?;
    Ok(Some((number >> 1) as i32 ^ -((number & 1) as i32)))
}

/// Returns source and instructions of functions, as JSON.
fn code(columns: &Columns<'_>) -> Result<Option<String>, String> {
    let bytes = columns.bytes(36);
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the source in it is damaged")?;
    serde_json::from_str::<Vec<IgnoredAny>>(text)
        .map_err(|error| format!("the source in it is damaged: {error}"))?;
    Ok(Some(text.to_owned()))
}

/// Interns the addresses of samples.
fn addresses(
    columns: &Columns<'_>,
    texts: &[StringId],
    profile: &mut Profile,
) -> Result<Vec<AddressId>, String> {
    let [mut modules, mut build_ids, mut functions] = [31, 32, 33].map(|of| columns.or_zero(of));
    let mut offsets = columns.numbers(34);
    let mut addresses = Vec::new();
    while !offsets.0.is_empty() {
        addresses.push(profile.addresses.intern(Address {
            module: text(texts, modules.next()?)?,
            build_id: text(texts, build_ids.next()?)?,
            function: text(texts, functions.next()?)?,
            offset: offsets.next()?,
        }));
    }
    Ok(addresses)
}

/// Tables that samples refer to by index.
#[derive(Clone, Copy)]
struct Known<'a> {
    stacks: &'a [StackId],
    threads: &'a [ThreadId],
    /// Empty if addresses are not wanted.
    addresses: &'a [AddressId],
}

fn read_samples(
    columns: &Columns<'_>,
    count: usize,
    Known { stacks, threads, addresses }: Known<'_>,
    rows: &mut Rows,
    profile: &Profile,
) -> Result<(), String> {
    let [mut times, mut plain, mut steps] = [23, 24, 25].map(|of| columns.or_zero(of));
    let [mut of_threads, mut cpus] = [26, 27].map(|of| columns.or_zero(of));
    let mut of_addresses = columns.or_zero(35);
    let mut starts = Vec::new();
    let mut pairs = columns.numbers(22);
    while !pairs.0.is_empty() {
        starts.push((pairs.next()?, pairs.next()?));
    }
    let values = values(columns, count, profile.value_types.len())?;
    let mut hosts = columns.or_zero(20);
    let host: Vec<u64> = threads.iter().map(|_| hosts.next()).collect::<Result<_, _>>()?;
    let (unit, without) = (times.next()?, times.next()?);
    let (mut since, mut stack) = (0u64, 0u64);
    let mut row = Vec::new();
    for sample in 0..count {
        stack = match steps.is_there {
            true => stack.saturating_add(steps.next()?),
            false => plain.next()?,
        };
        let thread = usize::try_from(of_threads.next()?).unwrap_or(usize::MAX);
        let id = *threads.get(thread).ok_or_else(|| format!("there is no thread {thread}"))?;
        let time = if times.is_there && sample as u64 >= without {
            since = since.saturating_add(times.next()?.saturating_mul(unit));
            let start = starts.iter().find(|(of, _)| *of == host[thread]);
            Some(since.saturating_add(start.map_or(0, |(_, start)| *start)))
        } else {
            None
        };
        let place = usize::try_from(stack).ok().and_then(|stack| stacks.get(stack));
        let sample_of = Sample {
            stack: *place.ok_or_else(|| format!("there is no stack {stack}"))?,
            thread: id,
            cpu: cpus.next_u32()?.checked_sub(1),
            // The maximum value means "no time".
            time: time.filter(|&time| time < u64::MAX),
            address: address(of_addresses.next()?, addresses)?,
        };
        row.clear();
        row.extend(values.iter().map(|column| column[sample]));
        rows.push(sample_of, &row);
    }
    Ok(())
}

/// Decodes the address of a sample: 0 if unknown, else 1 plus its index.
fn address(number: u64, addresses: &[AddressId]) -> Result<Option<AddressId>, String> {
    if number == 0 || addresses.is_empty() {
        return Ok(None);
    }
    let address = usize::try_from(number - 1).ok().and_then(|at| addresses.get(at));
    address.copied().map(Some).ok_or_else(|| format!("there is no address {}", number - 1))
}

/// Decodes the values, one column per value type.
fn values(columns: &Columns<'_>, count: usize, types: usize) -> Result<Vec<Vec<u64>>, String> {
    // Each sample takes at least a byte. Otherwise a small file could claim any number of samples.
    if count > columns.bytes(26).len() {
        return Err("there are too few samples".to_owned());
    }
    let mut numbers = columns.or_zero(28);
    (0..types).map(|_| (0..count).map(|_| numbers.next()).collect()).collect()
}
