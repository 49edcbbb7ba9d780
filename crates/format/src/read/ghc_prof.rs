//! Reader of time and allocation reports of Haskell programs compiled by GHC with `-prof`.
//!
//! ```text
//!     total time  =        0.02 secs   (19 ticks @ 1000 us, 1 processor)
//!     total alloc =  23,145,584 bytes  (excludes profiling overheads)
//! …
//!                                                           individual      inherited
//! COST CENTRE  MODULE   SRC            no.     entries  %time %alloc   %time %alloc  ticks     bytes
//!
//! MAIN         MAIN     <built-in>     148           0    5.3    0.0   100.0  100.0      0       832
//!  CAF         Main     <entire-module> 295          0    0.0    0.0    94.7   99.8      0        32
//!   main       Main     Main.hs:(8,1)-(10,16) 296    1    0.0    0.0    94.7   99.8      0      2752
//! ```
//!
//! - Each blank of indentation is one call deeper. Columns are counted from the right, because source positions may
//!   contain blanks, and versions before 8 have no `SRC`.
//! - `+RTS -P` adds ticks and bytes, which are exact. Otherwise values are computed from percentages of the totals,
//!   which have one decimal: parts below 0.05 % are lost.
//! - The report omits cost centres without costs, unless `-pa` requests all.

use pyrograph_profile::{Frame, FrameId, FrameKind, Profile, Sample, StackId, ValueType};

use super::text::Lines;
use crate::byte_cache::ByteCache;
use crate::bytes;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of GHC's time and allocation reports.
pub struct GhcProf;

impl Reader for GhcProf {
    fn name(&self) -> &'static str {
        "GHC .prof"
    }

    fn written_by(&self) -> &'static str {
        "a Haskell program compiled with -prof, run with +RTS -p or -P"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let first = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        first.is_some_and(|line| {
            memchr::memmem::find(line, b"Time and Allocation Profiling Report").is_some()
        })
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut totals = Totals::default();
        let mut table: Option<Table> = None;
        while let Some(line) = lines.next_line() {
            match &mut table {
                _ if line.trim_ascii_start().is_empty() => {}
                Some(table) => {
                    if table.row(line).is_none() {
                        lines.warn(WarningKind::UnreadableLine);
                    }
                }
                // The first of the two tables has no `entries` column.
                None if line.starts_with("COST CENTRE") && line.contains(" entries ") => {
                    table = Some(Table::new(line, &totals));
                }
                None => totals.line(line.trim()),
            }
        }
        match table {
            Some(table) => Ok(Reading::new(table.profile, lines.warnings)),
            None => {
                let reason = "the report has no table of cost centres with their entries";
                Err(ReadError::Nothing { name, reason: reason.to_owned() })
            }
        }
    }
}

#[derive(Default)]
struct Totals {
    nanoseconds: f64,
    bytes: f64,
}

impl Totals {
    /// Parses `total time  =        0.02 secs   (19 ticks @ 1000 us, 1 processor)`. Ticks are more precise than the
    /// seconds, which have two decimals.
    fn line(&mut self, line: &str) {
        let Some((name, value)) = line.split_once('=') else { return };
        let words: Vec<String> =
            value.split_ascii_whitespace().map(|word| word.replace([',', '('], "")).collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        match name.trim() {
            "total alloc" => self.bytes = number(0).unwrap_or(0.0),
            "total time" => {
                let unit = match words.get(5).map(String::as_str) {
                    Some("us") => 1e3,
                    Some("ms") => 1e6,
                    _ => 0.0,
                };
                let ticks = number(2).zip(number(4)).map(|(ticks, each)| ticks * each * unit);
                let seconds = number(0).unwrap_or(0.0) * 1e9;
                self.nanoseconds = ticks.filter(|&ns| ns > 0.0).unwrap_or(seconds);
            }
            _ => {}
        }
    }
}

struct Table {
    profile: Profile,
    /// Number of numeric columns at the end of each row.
    numbers: usize,
    /// Factors for the printed numbers of each column: 1 if they are exact.
    units: [f64; 2],
    has_source: bool,
    /// The stack at each depth of the current path.
    stacks: Vec<StackId>,
    /// Cache of frames, by the text before the numbers.
    known: ByteCache<FrameId>,
    /// That text in the current row.
    key: Vec<u8>,
}

impl Table {
    fn new(header: &str, totals: &Totals) -> Self {
        let exact = header.trim_end().ends_with("bytes");
        let time =
            if exact { ValueType::new("ticks", "count") } else { ValueType::new("time", "ns") };
        Self {
            profile: Profile::new(vec![time, ValueType::new("alloc", "bytes")]),
            numbers: if exact { 8 } else { 6 },
            units: match exact {
                true => [1.0, 1.0],
                false => [totals.nanoseconds / 100.0, totals.bytes / 100.0],
            },
            has_source: header.contains(" SRC "),
            stacks: Vec::new(),
            known: ByteCache::new(16 << 20),
            key: Vec::new(),
        }
    }

    /// Interns the frame of a cost centre: name, module and source.
    fn frame(&mut self, names: &str) -> Option<FrameId> {
        let mut words = names.split_ascii_whitespace();
        let (centre, module) = (words.next()?, words.next()?);
        let source =
            if self.has_source { words.collect::<Vec<_>>().join(" ") } else { String::new() };
        let strings = &mut self.profile.strings;
        let frame = Frame {
            module: strings.intern(module),
            file: strings.intern(&source),
            ..Frame::named(strings.intern(&format!("{module}.{centre}")), FrameKind::User)
        };
        Some(self.profile.frames.intern(frame))
    }

    fn row(&mut self, line: &str) -> Option<()> {
        let depth = line.bytes().take_while(|&byte| byte == b' ').count();
        if depth > self.stacks.len() {
            return None;
        }
        // The numbers are the last words; the cost centre precedes them.
        let mut names = line.trim_ascii();
        let mut numbers = [""; 8];
        for number in numbers[..self.numbers].iter_mut().rev() {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            let digits = names.bytes().rev().take_while(is_digit).count();
            let (rest, word) = names.split_at(names.len() - digits);
            if word.is_empty() || !rest.ends_with(|c: char| c.is_ascii_whitespace()) {
                return None;
            }
            *number = word;
            names = rest.trim_ascii_end();
        }
        // Exact numbers are the last columns; individual percentages begin at the third.
        let at = if self.numbers == 8 { 6 } else { 2 };
        let value = |column: usize| {
            let number = numbers[at + column];
            // Exact numbers are integers.
            if let (true, Some(number)) = (at == 6, bytes::decimal(number.as_bytes())) {
                return Some(number);
            }
            Some((number.parse::<f64>().ok()? * self.units[column]).round() as u64)
        };
        let values = [value(0)?, value(1)?];
        // Normalize the number of blanks after the name, which depends on the depth.
        let (centre, place) = names.split_at(bytes::find(names.as_bytes(), 0, b' '));
        self.key.clear();
        self.key.extend_from_slice(centre.as_bytes());
        self.key.extend_from_slice(b" ");
        self.key.extend_from_slice(place.as_bytes().trim_ascii_start());
        let hash = self.known.hash(&self.key);
        let frame = match self.known.get(hash, &self.key) {
            Some(frame) => frame,
            None => {
                let frame = self.frame(names)?;
                self.known.insert(hash, &self.key, frame);
                frame
            }
        };
        self.stacks.truncate(depth);
        let caller = self.stacks.last().copied().unwrap_or(StackId::ROOT);
        let stack = self.profile.stacks.intern(caller, frame);
        self.stacks.push(stack);
        if values != [0, 0] {
            self.profile.push(Sample::new(stack), &values);
        }
        Some(())
    }
}
