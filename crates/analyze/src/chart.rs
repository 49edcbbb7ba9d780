//! Flame charts in true time: a group of rows a thread, and gaps where nothing was sampled.
//!
//! A sample is a moment; what it stands for is a span that begins there:
//!
//! - Of what counts time in spans of different length, as traces do, each lasts as long as it says.
//! - Of what is sampled regularly, it lasts until the next sample of its thread, if that comes
//!   within [`GAP`] intervals, and one interval if not. The interval is the value of the samples, if
//!   it is a time; else the lower quartile of the distances between samples of a thread: of a thread
//!   that is busy all the time nearly all are the interval, and sleep only makes them longer.
//! - What was waited for (`off-cpu`) ends at its sample.
//!
//! Spans of a thread do not overlap. Neighbours with the same callers share them if one begins
//! where the other ends.

use pyrograph_profile::{
    FrameKind, LabelOptions, Labels, Profile, StringId, Strings, Thread, ThreadId, ValueType,
};

use crate::{FlameFrame, FlameGraph, FlameOptions};

/// Samples that are further apart than this many intervals have a gap between them.
pub const GAP: u64 = 2;

/// The interval where nothing tells it: a millisecond.
const UNKNOWN_INTERVAL: u64 = 1_000_000;

/// A sample and the span that it stands for, in nanoseconds.
struct Span {
    row: usize,
    start: u64,
    end: u64,
}

/// A frame whose parent is not known yet.
struct Drawn {
    depth: u32,
    start: u64,
    end: u64,
    name: StringId,
    module: StringId,
    kind: FrameKind,
}

/// Lays out a profile all of whose samples have a time; `None` if one has none, or all count nothing.
pub(crate) fn time_chart(
    profile: &Profile,
    labels: &LabelOptions,
    options: &FlameOptions,
) -> Option<FlameGraph> {
    let threads = spans(profile, options.column)?;
    let all = || threads.iter().flat_map(|(_, spans)| spans);
    let start = all().map(|span| span.start).min()?;
    let total = all().map(|span| span.end).max()?.saturating_sub(start).max(1);
    let mut chart = Chart {
        profile,
        labels: Labels::new(profile, labels),
        names: Strings::default(),
        least: (options.min_share.max(0.0) * total as f64) as u64,
        start,
        drawn: Vec::new(),
        narrow: 0,
    };
    // Row 0 is the whole.
    let mut rows = 1;
    let mut groups = Vec::with_capacity(threads.len());
    for (thread, spans) in &threads {
        groups.push(rows);
        rows = chart.thread(*thread, spans, rows);
    }
    let frames = linked(chart.drawn, total);
    Some(FlameGraph {
        names: chart.names,
        value_type: ValueType::new("time", "ns"),
        rows,
        frames,
        total,
        whole: total,
        narrow: chart.narrow,
        narrow_below: chart.least,
        comparison: None,
        threads: groups,
    })
}

/// The spans of each thread, in the order of time; threads in the order of their identifiers.
fn spans(profile: &Profile, column: usize) -> Option<Vec<(ThreadId, Vec<Span>)>> {
    let values = profile.samples.values(column);
    let mut moments = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let time = sample.time?;
        if values[row] > 0 {
            let thread = profile.threads.get(sample.thread);
            moments.push((thread.pid, thread.tid, sample.thread, time, row));
        }
    }
    moments.sort_unstable();
    let of = &profile.value_types[column];
    let unit = match of.unit.as_str() {
        "ns" | "nanoseconds" => Some(1.0),
        "us" | "µs" | "microseconds" => Some(1e3),
        "ms" | "milliseconds" => Some(1e6),
        "s" | "seconds" => Some(1e9),
        _ => None,
    };
    let unit = unit.map(|unit| unit / 10f64.powi(of.decimals.into()));
    let length = |row: usize| unit.map(|unit| (values[row] as f64 * unit) as u64);
    let first = moments.first().and_then(|moment| length(moment.4));
    let regular = moments.iter().all(|moment| length(moment.4) == first);
    let waits = of.name == "off-cpu";
    let interval = match first {
        Some(length) if regular => length,
        _ => interval(&moments),
    }
    .max(1);

    let mut threads: Vec<(ThreadId, Vec<Span>)> = Vec::new();
    for group in moments.chunk_by(|a, b| a.2 == b.2) {
        let mut spans = Vec::with_capacity(group.len());
        let mut ended = 0;
        for (at, &(_, _, _, time, row)) in group.iter().enumerate() {
            let next = group.get(at + 1).map(|moment| moment.3);
            let (start, end) = match length(row) {
                Some(length) if waits => (time.saturating_sub(length).max(ended), time),
                Some(length) if !regular => {
                    let end = time.saturating_add(length);
                    (time, next.map_or(end, |next| end.min(next)))
                }
                _ => {
                    let end = time.saturating_add(interval);
                    let reach = time.saturating_add(interval.saturating_mul(GAP));
                    (time, next.filter(|next| *next <= reach).unwrap_or(end))
                }
            };
            ended = end;
            spans.push(Span { row, start, end });
        }
        threads.push((group[0].2, spans));
    }
    Some(threads)
}

type Moment = (Option<i32>, Option<i32>, ThreadId, u64, usize);

/// The lower quartile of the distances between samples of a thread.
fn interval(moments: &[Moment]) -> u64 {
    let mut distances: Vec<u64> = moments
        .windows(2)
        .filter(|pair| pair[0].2 == pair[1].2)
        .map(|pair| pair[1].3 - pair[0].3)
        .filter(|distance| *distance > 0)
        .collect();
    if distances.is_empty() {
        return UNKNOWN_INTERVAL;
    }
    let quartile = distances.len() / 4;
    *distances.select_nth_unstable(quartile).1
}

struct Chart<'a> {
    profile: &'a Profile,
    labels: Labels,
    names: Strings,
    /// Shorter frames are left out and counted.
    least: u64,
    start: u64,
    drawn: Vec<Drawn>,
    narrow: u64,
}

impl Chart<'_> {
    /// Draws a thread from row `first` on, and returns the row above it.
    fn thread(&mut self, thread: ThreadId, spans: &[Span], first: u32) -> u32 {
        let (Some(begin), Some(end)) = (spans.first(), spans.last()) else { return first };
        let name = thread_label(self.profile, self.profile.threads.get(thread));
        let name = self.names.intern(&name);
        self.drawn.push(Drawn {
            depth: first,
            start: begin.start - self.start,
            end: end.end.max(begin.end) - self.start,
            name,
            module: StringId::EMPTY,
            kind: FrameKind::User,
        });
        let before = self.drawn.len();
        let mut open: Vec<(StringId, Drawn)> = Vec::new();
        let mut ended = None;
        let mut path = Vec::new();
        for span in spans.iter().filter(|span| span.end > span.start) {
            let (start, end) = (span.start - self.start, span.end - self.start);
            let stack = self.profile.samples.get(span.row).stack;
            path.clear();
            path.extend(self.profile.stacks.leaf_first(stack));
            path.reverse();
            let joined = ended == Some(start);
            let label = |frame: &pyrograph_profile::FrameId| self.labels.frames[frame.index()];
            let same = if joined {
                open.iter().zip(&path).take_while(|(open, frame)| open.0 == label(frame)).count()
            } else {
                0
            };
            for (_, frame) in open.drain(same..) {
                close(&mut self.drawn, &mut self.narrow, self.least, frame);
            }
            for (_, frame) in &mut open {
                frame.end = end;
            }
            for id in &path[same..] {
                let frame = self.profile.frames.get(*id);
                let label = label(id);
                let drawn = Drawn {
                    depth: first + 1 + open.len() as u32,
                    start,
                    end,
                    name: self.names.intern(self.labels.names.get(label)),
                    module: self.names.intern(self.profile.strings.get(frame.module)),
                    kind: frame.kind,
                };
                open.push((label, drawn));
            }
            ended = Some(end);
        }
        for (_, frame) in open {
            close(&mut self.drawn, &mut self.narrow, self.least, frame);
        }
        let top = self.drawn[before..].iter().map(|frame| frame.depth).max().unwrap_or(first);
        top + 1
    }
}

fn close(drawn: &mut Vec<Drawn>, narrow: &mut u64, least: u64, frame: Drawn) {
    if frame.end - frame.start >= least {
        drawn.push(frame);
    } else {
        *narrow += 1;
    }
}

/// `name-PID/TID`, as far as it is known.
fn thread_label(profile: &Profile, thread: Thread) -> String {
    let name = if thread.name.is_empty() { thread.process } else { thread.name };
    let name = match profile.strings.get(name) {
        "" => "thread",
        name => name,
    };
    match (thread.pid, thread.tid) {
        (Some(pid), Some(tid)) => format!("{name}-{pid}/{tid}"),
        (Some(id), None) | (None, Some(id)) => format!("{name}-{id}"),
        (None, None) => name.to_owned(),
    }
}

/// Row by row, each frame with its caller: the one below it at the same time.
fn linked(mut drawn: Vec<Drawn>, total: u64) -> Vec<FlameFrame> {
    drawn.sort_by_key(|frame| (frame.depth, frame.start));
    let frame = |drawn: &Drawn, parent: usize| FlameFrame {
        name: drawn.name,
        module: drawn.module,
        kind: drawn.kind,
        depth: drawn.depth,
        parent: parent as u32,
        start: drawn.start,
        value: drawn.end - drawn.start,
        before: 0,
        self_change: 0,
    };
    let whole = Drawn {
        depth: 0,
        start: 0,
        end: total,
        name: StringId::EMPTY,
        module: StringId::EMPTY,
        kind: FrameKind::User,
    };
    let mut frames = vec![frame(&whole, 0)];
    // Where the row below begins in `frames`, and where it ends.
    let (mut below, mut row, mut depth) = (0, 0, 0);
    for drawn in &drawn {
        if drawn.depth != depth {
            (below, row, depth) = (row, frames.len(), drawn.depth);
        }
        let callers = &frames[below..row];
        let at = callers.partition_point(|frame| frame.start <= drawn.start);
        let caller = at.checked_sub(1).map(|at| below + at).filter(|&at| {
            let caller = &frames[at];
            caller.depth + 1 == drawn.depth && caller.start + caller.value >= drawn.end
        });
        // The first row of a thread stands above another's last.
        frames.push(frame(drawn, caller.unwrap_or(0)));
    }
    frames
}

#[cfg(test)]
mod tests;
