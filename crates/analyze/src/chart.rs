//! Flame charts with a true time axis: one group of rows per thread, with gaps where nothing was sampled.
//!
//! [`spans`] determines the time span of each sample. Consecutive samples with common callers share their frames if
//! one span begins where the other ends.

use pyrograph_profile::{
    FrameKind, LabelOptions, Labels, Profile, Span, StringId, Strings, Thread, ThreadId, ValueType,
    spans,
};

use crate::flame::full_names;
use crate::{FlameFrame, FlameGraph, FlameOptions};

/// A frame before its parent is known.
struct Drawn {
    depth: u32,
    start: u64,
    end: u64,
    name: StringId,
    module: StringId,
    kind: FrameKind,
}

/// Lays out a profile in which every sample has a time. Returns `None` if a sample has no time, or if all values are 0.
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
    // Row 0 is the whole chart.
    let mut rows = 1;
    let mut groups = Vec::with_capacity(threads.len());
    for (thread, spans) in &threads {
        groups.push(rows);
        rows = chart.thread(*thread, spans, rows);
    }
    let frames = linked(chart.drawn, total);
    let full_names = full_names(profile, &mut chart.names);
    Some(FlameGraph {
        names: chart.names,
        full_names,
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

struct Chart<'a> {
    profile: &'a Profile,
    labels: Labels,
    names: Strings,
    /// Minimum duration of a frame; shorter frames are left out and counted.
    least: u64,
    start: u64,
    drawn: Vec<Drawn>,
    narrow: u64,
}

impl Chart<'_> {
    /// Adds the frames of a thread from row `first` on, and returns the first row after them.
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

/// Label of a thread: `name-PID/TID`, as far as these are known.
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

/// Orders the frames row by row and sets their parents: the frame one row below at the same time.
fn linked(mut drawn: Vec<Drawn>, total: u64) -> Vec<FlameFrame> {
    drawn.sort_by_key(|frame| (frame.depth, frame.start));
    let frame = |drawn: &Drawn, parent: usize| FlameFrame {
        name: drawn.name,
        module: drawn.module,
        modules: u32::from(!drawn.module.is_empty()),
        kind: drawn.kind,
        depth: drawn.depth,
        parent: parent as u32,
        start: drawn.start,
        value: drawn.end - drawn.start,
        guessed: 0,
        before: 0,
        own: None,
        self_change: 0,
        folded: 0,
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
    // Start and end of the previous row in `frames`, and the current depth.
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
        // The row below the first row of a thread belongs to another thread; such frames have no caller.
        frames.push(frame(drawn, caller.unwrap_or(0)));
    }
    frames
}

#[cfg(test)]
mod tests;
