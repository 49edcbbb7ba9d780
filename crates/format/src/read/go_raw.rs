//! Reader of the output of `go tool pprof -raw`.
//!
//! ```text
//! PeriodType: cpu nanoseconds
//! Period: 10000000
//! Samples:
//! samples/count cpu/nanoseconds
//!           9   90000000: 1 2 3
//!                 thread:[main]
//! Locations
//!      1: 0x4a890d M=1 main.burn /src/main.go:5 s=0
//!              main.work /src/main.go:6 s=0
//!      2: 0x4a89e4 M=1 main.main /src/main.go:12 s=0
//! Mappings
//! 1: 0x400000/0x4a9000/0x0 app  [FN]
//! ```
//!
//! - Locations in a sample are leaf first, and are defined after the samples.
//! - A location with several lines has inlined calls: innermost first.
//! - Newer versions print `file:line:column`.
//! - `[dflt]` after a value type marks the one to show; otherwise it is the last.
//! - A location without a function has a mapping and an address.

use hashbrown::HashMap;
use pyrograph_profile::{
    Frame, FrameId, FrameKind, Profile, Sample, StackId, StringId, Thread, ThreadId, ValueType,
};

use super::text::Lines;
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of `go tool pprof -raw` text.
pub struct GoRaw;

impl Reader for GoRaw {
    fn name(&self) -> &'static str {
        "pprof -raw"
    }

    fn written_by(&self) -> &'static str {
        "go tool pprof -raw"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let has = |line: &[u8]| {
            let lines = head.split(|&byte| byte == b'\n').take(100);
            lines.map(<[u8]>::trim_ascii_end).any(|found| found == line)
        };
        has(b"Samples:") && (head.starts_with(b"PeriodType:") || head.starts_with(b"Time:"))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let name = input.name().to_owned();
        let mut lines = Lines::new(input);
        let mut file = File::default();
        let mut part = Part::Header;
        let mut line = String::new();
        while lines.next(&mut line) {
            let read = match (part, line.trim_end()) {
                (_, "") => true,
                (_, "Samples:") => {
                    part = Part::Types;
                    true
                }
                (_, "Locations") => {
                    part = Part::Locations;
                    true
                }
                (_, "Mappings") => {
                    part = Part::Mappings;
                    true
                }
                (Part::Header, _) => true,
                (Part::Types, types) => {
                    file.types(types);
                    part = Part::Samples;
                    true
                }
                (Part::Samples, sample) => file.sample(sample).is_some(),
                (Part::Locations, location) => file.location(location).is_some(),
                (Part::Mappings, mapping) => file.mapping(mapping).is_some(),
            };
            if !read {
                lines.warn(WarningKind::UnreadableLine);
            }
        }
        if file.samples.is_empty() {
            let reason = "the profile has no samples".to_owned();
            return Err(ReadError::Nothing { name, reason });
        }
        Ok(Reading::new(file.profile(), lines.warnings))
    }
}

#[derive(Clone, Copy)]
enum Part {
    Header,
    Types,
    Samples,
    Locations,
    Mappings,
}

#[derive(Default)]
struct File {
    value_types: Vec<ValueType>,
    shown: Option<usize>,
    samples: Vec<RawSample>,
    locations: HashMap<u64, Location>,
    /// The location to which lines without a number belong.
    last: u64,
    mappings: HashMap<u64, String>,
}

#[derive(Default)]
struct RawSample {
    values: Vec<u64>,
    /// Location numbers, leaf first.
    locations: Vec<u64>,
    thread: String,
}

#[derive(Default)]
struct Location {
    address: u64,
    mapping: u64,
    /// Calls, innermost first.
    calls: Vec<Call>,
}

struct Call {
    function: String,
    file: String,
    line: u32,
    start_line: u32,
}

impl File {
    /// Parses `samples/count cpu/nanoseconds[dflt]`.
    fn types(&mut self, line: &str) {
        // The types of a second part are the same; if they differ in number, its samples are not read.
        if !self.value_types.is_empty() {
            return;
        }
        for (column, word) in line.split_ascii_whitespace().enumerate() {
            if word.ends_with("[dflt]") {
                self.shown = Some(column);
            }
            let (name, unit) =
                word.trim_end_matches("[dflt]").split_once('/').unwrap_or((word, ""));
            let unit = if unit == "nanoseconds" { "ns" } else { unit };
            self.value_types.push(ValueType::new(name, unit));
        }
    }

    /// Parses `9   90000000: 1 2 3`, or a label of the previous sample.
    fn sample(&mut self, line: &str) -> Option<()> {
        let (values, locations) = line.split_once(':')?;
        let numbers = |text: &str| -> Option<Vec<u64>> {
            // A negative value, as in differences, counts as 0.
            let number = |word: &str| match word.strip_prefix('-') {
                Some(_) => Some(0),
                None => word.parse().ok(),
            };
            text.split_ascii_whitespace().map(number).collect()
        };
        if let Some(values) = numbers(values).filter(|values| !values.is_empty()) {
            if values.len() != self.value_types.len() {
                return None;
            }
            let locations = numbers(locations)?;
            self.samples.push(RawSample { values, locations, ..RawSample::default() });
            return Some(());
        }
        let label = locations.trim().strip_prefix('[')?.strip_suffix(']')?;
        if values.trim() == "thread" {
            label.clone_into(&mut self.samples.last_mut()?.thread);
        }
        Some(())
    }

    /// Parses `1: 0x4a890d M=1 main.burn /src/main.go:5 s=0`, or a further line of a location.
    fn location(&mut self, line: &str) -> Option<()> {
        let mut call = line.trim();
        if let Some((number, rest)) = call.split_once(": ")
            && let Ok(number) = number.parse()
        {
            let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
            let (mapping, rest) = match rest.strip_prefix("M=") {
                Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
                None => ("0", rest),
            };
            let mapping = mapping.parse().ok()?;
            self.locations.insert(number, Location { address, mapping, calls: Vec::new() });
            self.last = number;
            call = rest.trim();
        }
        // `[F]` marks a folded location.
        let call = call.strip_prefix("[F]").map_or(call, str::trim_start);
        if call.is_empty() {
            return Some(());
        }
        let (call, start_line) = call.rsplit_once(" s=").unwrap_or((call, ""));
        let (function, place) = call.rsplit_once(' ')?;
        let mut parts = place.rsplitn(3, ':');
        let (last, before) = (parts.next()?, parts.next()?);
        // The column, if any, comes last.
        let (file, line) = match (parts.next(), before.parse()) {
            (Some(file), Ok(line)) => (file.to_owned(), line),
            (Some(file), Err(_)) => (format!("{file}:{before}"), last.parse().ok()?),
            (None, _) => (before.to_owned(), last.parse().ok()?),
        };
        let location = self.locations.get_mut(&self.last)?;
        let function = function.trim().to_owned();
        let start_line = start_line.parse().unwrap_or(0);
        location.calls.push(Call { function, file, line, start_line });
        Some(())
    }

    /// Parses `1: 0x400000/0x4a9000/0x0 app build-id [FN]`.
    fn mapping(&mut self, line: &str) -> Option<()> {
        let (number, rest) = line.split_once(": ")?;
        let path = rest.split_ascii_whitespace().nth(1).unwrap_or_default();
        self.mappings.insert(number.trim().parse().ok()?, path.to_owned());
        Some(())
    }

    fn profile(self) -> Profile {
        let mut profile = Profile::new(self.value_types);
        profile.shown = self.shown.unwrap_or(profile.value_types.len().saturating_sub(1));
        let mut frames: HashMap<u64, Vec<FrameId>> = HashMap::new();
        for (&number, location) in &self.locations {
            // Hash maps have no defined order, but interning must have one.
            frames.insert(number, Vec::with_capacity(location.calls.len()));
        }
        let mut numbers: Vec<u64> = frames.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let location = &self.locations[&number];
            let path = self.mappings.get(&location.mapping).map_or("", String::as_str);
            frames.insert(number, location_frames(&mut profile, location, path));
        }
        for sample in &self.samples {
            let outermost_first = sample.locations.iter().rev();
            let path = outermost_first.filter_map(|number| frames.get(number)).flatten();
            let stack = path.fold(StackId::ROOT, |at, &frame| profile.stacks.intern(at, frame));
            let thread = match sample.thread.as_str() {
                "" => ThreadId::UNKNOWN,
                name => {
                    let process = profile.strings.intern(name);
                    profile.threads.intern(Thread { process, ..Thread::default() })
                }
            };
            profile.push(Sample { thread, ..Sample::new(stack) }, &sample.values);
        }
        profile
    }
}

/// Returns the frames of a location, outermost first.
fn location_frames(profile: &mut Profile, location: &Location, path: &str) -> Vec<FrameId> {
    let module = profile.strings.intern(path);
    if location.calls.is_empty() {
        let bare = Frame { module, address: location.address, ..Frame::default() };
        return vec![profile.frames.intern(bare)];
    }
    let outermost = location.calls.len() - 1;
    let mut frame = |(index, call): (usize, &Call)| {
        let kind = if index < outermost { FrameKind::Inlined } else { FrameKind::User };
        let function: StringId = profile.strings.intern(&call.function);
        let file = profile.strings.intern(&call.file);
        let (line, start_line) = (call.line, call.start_line);
        let named = Frame { start_line, ..Frame::named(function, kind) };
        profile.frames.intern(Frame { module, file, line, ..named })
    };
    let mut frames: Vec<FrameId> = location.calls.iter().enumerate().map(&mut frame).collect();
    frames.reverse();
    frames
}
