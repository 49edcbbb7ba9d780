//! Reader of the maps that `bpftrace` prints when a program ends or calls `print(@map)`.
//!
//! ```text
//! Attaching 2 probes...
//!
//! @cpu[
//!     read_zero+55
//!     entry_SYSCALL_64_after_hwframe+118
//! ,
//!     __libc_read+76
//!     main+64
//! , my app, 30703]: 12
//! @cpu[,
//!     app::spin(int)+23
//! , my app, 30703]: 1
//! @[
//!         ffffffff81d33e1f read_zero+159
//!         7fde0c7162ec __libc_read+76 (/usr/lib/x86_64-linux-gnu/libc.so.6)
//! ]: 1
//! @by_name[my app]: 13
//! @sizes:
//! [1]          35 |@@@@@@@@@@@@@@@@@@@@                    |
//! ```
//!
//! - A key has one or more parts, separated by `, `, in any order: stacks, leaf first, with one indented line per
//!   frame; numbers; strings, which may contain blanks. A stack without frames is an empty part. The third form of
//!   frames, with an address, is printed by the stack mode `perf`; the mode `raw` prints only addresses.
//! - The first string is the thread's name, the first number the process ID, the second the thread ID. Other parts
//!   become frames above the stack.
//! - The output does not say which stack is the kernel's. It is one with an address in the upper half, or one at a
//!   position of the key at which stacks begin at a kernel entry point; otherwise it is the first of two, as in
//!   `@[kstack, ustack]`. Kernel frames are placed below user frames, regardless of their order in the key.
//! - Several maps with stacks count different things. The first is read, another one with `--event-filter @bytes`.
//!   Maps without stacks and maps with more than one value for each stack (`hist`, `lhist`, `avg`) are left out, with
//!   a warning; for `stats` the total is taken.
//! - A map that is printed several times is summed, which is right if it was cleared each time.
//! - The output of `-f json` is read as well: see [`json`]; and so are stacks that are printed event by event: see
//!   [`single`].

mod json;
mod single;

use std::collections::BTreeMap;

use pyrograph_profile::{FrameKind, ValueType};

use self::single::Singles;
use super::text::{Collector, Lines, first_lines, is_kernel_address, is_kernel_entry};
use crate::input::Head;
use crate::perf_frame::parse as parse_frame;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of bpftrace output.
pub struct Bpftrace;

impl Reader for Bpftrace {
    fn name(&self) -> &'static str {
        "bpftrace"
    }

    fn written_by(&self) -> &'static str {
        "bpftrace -e '… { @[kstack, ustack, comm] = count(); }'"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if first_lines(head).find(|line| !line.is_empty()).is_some_and(json::is_record) {
            return true;
        }
        let mut lines = first_lines(head);
        while let Some(line) = lines.next() {
            let Some((_, key)) =
                split_map(line).and_then(|(map, rest)| Some((map, rest.strip_prefix('[')?)))
            else {
                continue;
            };
            if split_value(key).is_some() {
                return true;
            }
            // A stack must follow.
            return lines.next().is_some_and(|line| line.starts_with([' ', '\t']));
        }
        single::is_beginning(first_lines(head))
    }

    fn read(&self, input: Head, options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut parser =
            Parser { lines: Lines::new(input), maps: Vec::new(), singles: Singles::default() };
        parser.parse();
        let Parser { mut lines, mut maps, singles } = parser;
        maps.extend(singles.into_map());
        if !maps.iter().any(Map::has_stacks) {
            let reason = "no map of it has stacks in its keys, and none was printed".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        let wanted = options.event.as_deref().map(|name| name.trim_start_matches('@'));
        let (with_stacks, without): (Vec<Map>, Vec<Map>) =
            maps.into_iter().partition(Map::has_stacks);
        for map in without {
            lines.warnings.add(WarningKind::NoStacks(format!("map @{}", map.name)), 1, []);
        }
        let several = with_stacks.len() > 1;
        let chosen = wanted.unwrap_or(&with_stacks[0].name).to_owned();
        let mut out = Collector::new(ValueType::samples()).addresses(options);
        let mut other_events = BTreeMap::<String, u64>::new();
        for map in with_stacks {
            if map.name == chosen {
                add(&map, &mut out);
            } else {
                *other_events.entry(format!("@{}", map.name)).or_default() +=
                    map.entries.len() as u64;
            }
        }
        let mut reading = out.reading(lines.warnings);
        reading.event = several.then(|| format!("@{chosen}"));
        reading.other_events = other_events;
        Ok(reading)
    }
}

#[derive(Default)]
struct Map {
    /// Name without its `@`.
    name: String,
    entries: Vec<Entry>,
}

struct Entry {
    key: Vec<Part>,
    value: u64,
}

/// A part of a key.
enum Part {
    /// A string or number. If empty, it may also be a stack without frames.
    Text(String),
    /// The lines of a stack, leaf first.
    Stack(Vec<String>),
}

impl Map {
    fn has_stacks(&self) -> bool {
        self.entries.iter().any(|entry| entry.key.iter().any(|part| matches!(part, Part::Stack(_))))
    }
}

struct Parser {
    lines: Lines,
    maps: Vec<Map>,
    /// Stacks that were printed outside of maps.
    singles: Singles,
}

impl Parser {
    fn parse(&mut self) {
        let mut line = String::new();
        let mut again = false;
        while again || self.lines.next(&mut line) {
            again = false;
            if json::is_record(&line) {
                self.json_record(&line);
                continue;
            }
            let Some((name, rest)) = split_map(&line) else {
                self.singles.line(&line);
                continue;
            };
            let map = self.map(name);
            let Some(rest) = rest.strip_prefix('[') else { continue };
            let rest = rest.to_owned();
            again = self.entry(map, &rest, &mut line);
        }
    }

    fn map(&mut self, name: &str) -> usize {
        self.maps.iter().position(|map| map.name == name).unwrap_or_else(|| {
            self.maps.push(Map { name: name.to_owned(), entries: Vec::new() });
            self.maps.len() - 1
        })
    }

    /// Parses an entry whose first line continues with `rest`. Returns true if `line` is the first line of another
    /// entry.
    fn entry(&mut self, map: usize, rest: &str, line: &mut String) -> bool {
        let mut key = Vec::new();
        let begin = self.lines.number();
        if let Some((parts, value)) = split_value(rest) {
            key.extend(parts.split(", ").map(|part| Part::Text(part.to_owned())));
            self.finish(map, key, value);
            return false;
        }
        add_parts(&mut key, rest);
        let mut frames = Vec::new();
        while self.lines.next(line) {
            if line.starts_with([' ', '\t']) {
                frames.push(line.trim().to_owned());
                continue;
            }
            if line.trim_end().is_empty() {
                continue;
            }
            let joint = split_value(line);
            let parts = joint.map_or(line.as_str(), |(parts, _)| parts);
            if joint.is_none() && !parts.starts_with(',') {
                self.lines.warn_at(WarningKind::UnreadableLine, begin);
                return split_map(line).is_some();
            }
            key.push(stack(&mut frames));
            let value = joint.map(|(_, value)| value);
            match (parts.strip_prefix(','), value) {
                (Some(parts), Some(_)) => {
                    let parts = parts.strip_prefix(' ').unwrap_or(parts);
                    key.extend(parts.split(", ").map(|part| Part::Text(part.to_owned())));
                }
                (Some(parts), None) => {
                    add_parts(&mut key, parts.strip_prefix(' ').unwrap_or(parts))
                }
                (None, _) => {}
            }
            if let Some(value) = value {
                self.finish(map, key, value);
                return false;
            }
        }
        let cause = "within a stack".to_owned();
        self.lines.warn_at(WarningKind::Truncated(cause), begin);
        false
    }

    fn finish(&mut self, map: usize, key: Vec<Part>, value: Value) {
        match value {
            Value::Number(value) => self.maps[map].entries.push(Entry { key, value }),
            Value::OutOfRange => self.lines.warn(WarningKind::CountOutOfRange),
            Value::Other => {
                let name = format!("an entry of map @{}", self.maps[map].name);
                self.lines.warn(WarningKind::NoStacks(name));
            }
        }
    }
}

fn stack(frames: &mut Vec<String>) -> Part {
    match std::mem::take(frames) {
        frames if frames.is_empty() => Part::Text(String::new()),
        frames => Part::Stack(frames),
    }
}

/// Adds the parts of a key that are on one line before a stack: `my app, `.
fn add_parts(key: &mut Vec<Part>, text: &str) {
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    let text = text.strip_suffix(',').unwrap_or(text);
    key.extend(text.split(", ").map(|part| Part::Text(part.to_owned())));
}

/// Splits `@name` from what follows: a key in brackets or a colon.
fn split_map(line: &str) -> Option<(&str, &str)> {
    let text = line.strip_prefix('@')?;
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    rest.starts_with(['[', ':']).then_some((name, rest))
}

#[derive(Clone, Copy)]
enum Value {
    Number(u64),
    OutOfRange,
    /// A histogram or an average.
    Other,
}

/// Splits `…]: 12` into the text before the bracket and the value.
fn split_value(text: &str) -> Option<(&str, Value)> {
    let text = text.trim_end();
    if let Some(key) = text.strip_suffix("]:") {
        return Some((key, Value::Other));
    }
    let (key, value) = text.rsplit_once("]: ")?;
    // `stats()` is `count 5, average 3, total 15`.
    let total = value.rsplit_once("total ").map_or(value, |(_, total)| total);
    let digits = total.strip_prefix('-').unwrap_or(total);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value = match total.parse() {
        Ok(number) => Value::Number(number),
        Err(_) if is_number => Value::OutOfRange,
        Err(_) => Value::Other,
    };
    Some((key, value))
}

/// True if any stack at this position of the keys is recognizable as a kernel stack.
fn is_kernel_place(map: &Map, place: usize) -> bool {
    map.entries.iter().any(|entry| match entry.key.get(place) {
        Some(Part::Stack(frames)) => frames.last().is_some_and(|frame| is_kernel_root(frame)),
        _ => false,
    })
}

fn is_kernel_root(frame: &str) -> bool {
    match with_address(frame) {
        Some((address, ..)) => is_kernel_address(address),
        None => is_kernel_entry(frame),
    }
}

/// Parses a frame of the modes `perf` and `raw`: address, symbol, module.
fn with_address(frame: &str) -> Option<(u64, &str, &str)> {
    let first = frame.split(' ').next().unwrap_or_default();
    if first.len() < 4 {
        return None;
    }
    let parsed = parse_frame(frame.as_bytes())?;
    let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
    Some((parsed.address(), text(parsed.symbol), text(parsed.module)))
}

fn add(map: &Map, out: &mut Collector) {
    let places = map.entries.iter().map(|entry| entry.key.len()).max().unwrap_or(0);
    let is_stack = |place: &usize| {
        map.entries.iter().any(|entry| matches!(entry.key.get(*place), Some(Part::Stack(_))))
    };
    let stacks: Vec<usize> = (0..places).filter(is_stack).collect();
    let mut kernel: Vec<usize> =
        stacks.iter().copied().filter(|&place| is_kernel_place(map, place)).collect();
    if kernel.is_empty() && stacks.len() > 1 {
        kernel.push(stacks[0]);
    }
    for entry in &map.entries {
        let (mut name, mut numbers) = (None, Vec::new());
        for (_, part) in entry.key.iter().enumerate().filter(|(place, _)| !stacks.contains(place)) {
            let Part::Text(text) = part else { continue };
            match text.parse::<i32>() {
                Ok(number) if numbers.len() < 2 => numbers.push(number),
                Err(_) if name.is_none() => name = Some(text.as_str()),
                _ => out.remark(text),
            }
        }
        let (pid, tid) = (numbers.first().copied(), numbers.get(1).copied());
        for is_kernel in [false, true] {
            for &place in stacks.iter().filter(|place| kernel.contains(place) == is_kernel) {
                let Some(Part::Stack(frames)) = entry.key.get(place) else { continue };
                let kind = if is_kernel { FrameKind::Kernel } else { FrameKind::User };
                for frame in frames.iter().rev() {
                    push(out, frame, kind);
                }
            }
        }
        let thread = out.thread(name.unwrap_or_default(), pid, tid);
        out.end_root_first(thread, entry.value);
    }
}

fn push(out: &mut Collector, frame: &str, kind: FrameKind) {
    match with_address(frame) {
        Some((address, "", module)) => out.unknown(address, module, kind),
        Some((_, symbol, module)) => out.symbol(symbol, module, kind),
        None => out.symbol(frame, "", kind),
    }
}
