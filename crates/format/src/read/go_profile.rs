//! Reader of Go's profiles as text: `/debug/pprof/NAME?debug=1`, `pprof.Lookup(NAME).WriteTo(out, 1)`.
//!
//! ```text
//! goroutine profile: total 4
//! 3 @ 0x4375f6 0x40619b
//! #\t0x4b3c3a\tmain.worker+0x1a\t/src/g.go:16
//!
//! heap profile: 122: 545384 [122: 545384] @ heap/1048576
//! 5: 532480 [5: 532480] @ 0x4b3d49
//! #\t0x4b3d48\tmain.(*server).grow+0xe8\t/src/g.go:15
//!
//! --- contention:
//! cycles/second=2596200466
//! 52489606 1 @ 0x4b40b7
//! ```
//!
//! Source: `runtime/pprof/pprof.go`. Frames are leaf first.
//!
//! - Heap profiles have `objects: bytes [allocated objects: bytes]` of the samples. Totals are estimated from the
//!   sampling rate, which is half of the number after `heap/`, as in `go tool pprof`.
//! - In contention profiles, the first number is cycles; both numbers are multiplied by `sampling period`.

use pyrograph_profile::{Frame, FrameKind, Profile, Sample, ThreadId, ValueType};

use super::text::{Collector, Lines, first_lines, without_offset};
use crate::input::Head;
use crate::reader::{Options, ReadError, Reader, Reading};
use crate::warnings::WarningKind;

/// Reader of Go's text profiles.
pub struct GoProfile;

impl Reader for GoProfile {
    fn name(&self) -> &'static str {
        "Go profile text"
    }

    fn written_by(&self) -> &'static str {
        "Go's /debug/pprof/…?debug=1, pprof.Lookup(…).WriteTo(…, 1)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = first_lines(head).filter(|line| !line.is_empty());
        lines.next().is_some_and(|line| Kind::of(line).is_some())
            && lines.take(5).any(|line| line.contains(" @"))
    }

    fn read(&self, input: Head, _options: &Options) -> Result<Reading, ReadError> {
        let mut lines = Lines::new(input);
        let mut out = Collector::new(ValueType::samples());
        let mut kind: Option<Kind> = None;
        let mut values: Option<Vec<u64>> = None;
        let mut line = String::new();
        while lines.next(&mut line) {
            if kind.is_none() {
                kind = Kind::of(&line);
                if let Some(kind) = &kind {
                    out.profile = kind.profile();
                }
                continue;
            }
            let Some(kind) = &mut kind else { continue };
            if let Some(frame) = line.strip_prefix("#\t") {
                place(&mut out, frame);
            } else if line.starts_with('#') || line.is_empty() {
                // Memory statistics end a heap profile.
                finish(&mut out, &mut values);
            } else if !kind.setting(&line) {
                finish(&mut out, &mut values);
                values = kind.values(&line);
                if values.is_none() {
                    lines.warn(WarningKind::UnreadableLine);
                }
            }
        }
        finish(&mut out, &mut values);
        Ok(out.reading(lines.warnings))
    }
}

/// The kind of profile.
enum Kind {
    Count(String),
    /// A heap profile with its sampling rate, in bytes.
    Heap(f64),
    /// A contention profile with the cycles per second, and the number of contentions per sample.
    Contention(f64, f64),
}

impl Kind {
    fn of(line: &str) -> Option<Self> {
        if let Some(rest) = line.strip_prefix("heap profile: ") {
            // gperftools' text has the same beginning, but without `heap/`.
            let (_, rate) = rest.rsplit_once("@ heap/")?;
            return Some(Self::Heap(rate.trim().parse().unwrap_or(0.0) / 2.0));
        }
        if matches!(line, "--- contention:" | "--- mutex:") {
            return Some(Self::Contention(1e9, 1.0));
        }
        let (name, total) = line.split_once(" profile: total ")?;
        let is_total = !total.is_empty() && total.bytes().all(|byte| byte.is_ascii_digit());
        (is_total && !name.contains(' ')).then(|| Self::Count(name.to_owned()))
    }

    fn profile(&self) -> Profile {
        let of = ValueType::new;
        match self {
            Self::Count(name) => Profile::new(vec![of(name, "count")]),
            Self::Heap(_) => {
                let types = vec![
                    of("inuse_objects", "count"),
                    of("inuse_space", "bytes"),
                    of("alloc_objects", "count"),
                    of("alloc_space", "bytes"),
                ];
                Profile { shown: 1, ..Profile::new(types) }
            }
            Self::Contention(..) => {
                let types = vec![of("contentions", "count"), of("delay", "ns")];
                Profile { shown: 1, ..Profile::new(types) }
            }
        }
    }

    /// Parses a setting between the title and the stacks; returns `false` if the line is not a valid one.
    fn setting(&mut self, line: &str) -> bool {
        let Self::Contention(second, period) = self else { return false };
        let Some((name, number)) = line.split_once('=') else { return false };
        match (name, number.trim().parse::<f64>()) {
            ("cycles/second", Ok(number)) if number > 0.0 => *second = number,
            ("sampling period", Ok(number)) if number > 0.0 => *period = number,
            _ => return false,
        }
        true
    }

    /// Returns the values of a stack, from the line above it.
    fn values(&self, line: &str) -> Option<Vec<u64>> {
        let (numbers, _) = line.split_once(" @")?;
        let mut numbers = numbers
            .split([' ', ':', '[', ']'])
            .filter(|text| !text.is_empty())
            .map(|text| text.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some(match self {
            Self::Count(_) => vec![next()?],
            Self::Heap(rate) => {
                let (live, live_bytes, all, all_bytes) = (next()?, next()?, next()?, next()?);
                let live = estimated(live, live_bytes, *rate);
                let all = estimated(all, all_bytes, *rate);
                vec![live.0, live.1, all.0, all.1]
            }
            Self::Contention(second, period) => {
                let (cycles, count) = (next()? as f64, next()? as f64);
                vec![(count * period) as u64, (cycles * period / second * 1e9) as u64]
            }
        })
    }
}

/// Scales samples of a heap: an allocation of `size` bytes is sampled with the probability `1 - exp(-size / rate)`.
pub(crate) fn estimated(count: u64, bytes: u64, rate: f64) -> (u64, u64) {
    if count == 0 || bytes == 0 || rate <= 1.0 {
        return (count, bytes);
    }
    let scale = 1.0 / (1.0 - (-(bytes as f64 / count as f64) / rate).exp());
    ((count as f64 * scale) as u64, (bytes as f64 * scale) as u64)
}

/// Adds the frame in `0x4b3c3a\tmain.worker+0x1a\t\t/src/g.go:16`.
fn place(out: &mut Collector, text: &str) {
    let mut parts = text.split('\t').filter(|part| !part.is_empty());
    let (_, name, place) = (parts.next(), parts.next(), parts.next());
    let name = without_offset(name.unwrap_or_default().trim());
    let (file, line) = place.and_then(|place| place.rsplit_once(':')).unwrap_or(("", ""));
    let (function, file) = (out.intern(name), out.intern(file));
    let line = line.trim().parse().unwrap_or(0);
    out.push_frame(Frame { file, line, ..Frame::named(function, FrameKind::User) });
}

fn finish(out: &mut Collector, values: &mut Option<Vec<u64>>) {
    let Some(values) = values.take() else { return out.discard() };
    if out.depth() == 0 {
        // Only the addresses are known.
        out.push_frame(Frame::default());
    }
    let stack = out.profile.stacks.intern_path(out.frames.drain(..).rev());
    out.profile.push(Sample { thread: ThreadId::UNKNOWN, ..Sample::new(stack) }, &values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_heap_stand_for_more() {
        assert_eq!(estimated(5, 532_480, 1.0), (5, 532_480));
        // As `go tool pprof` scales 1: 1024 at the rate of 512 KiB: 1 / (1 - exp(-1/512)).
        assert_eq!(estimated(1, 1024, 524_288.0), (512, 524_800));
    }
}
