//! Converts samples to spans of time.
//!
//! A sample is taken at one moment, but it represents a span, which usually begins there:
//!
//! - If the values are times of different lengths, as in traces, each span is as long as its value.
//! - If sampling is regular, a span lasts until the next sample of the thread, provided that it comes within [`GAP`]
//!   intervals; otherwise it lasts one interval. The interval is the value of the samples if that is a time. If not, it
//!   is the lower quartile of the distances between the samples of a thread. For a thread that is always busy, nearly all
//!   distances are equal to the interval, and sleep only makes them longer.
//! - For waits (`off-cpu`, `off-wake`, `locks`), the span ends at the sample.
//!
//! Spans of a thread do not overlap.

use crate::{Profile, Quantity, ThreadId};

/// Samples that are further apart than this many intervals have a gap between them.
pub const GAP: u64 = 2;

/// Interval to assume if none is known: a millisecond.
const UNKNOWN_INTERVAL: u64 = 1_000_000;

/// The span that a sample represents, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Row of the sample.
    pub row: usize,
    /// Start of the span.
    pub start: u64,
    /// End of the span, not before its start.
    pub end: u64,
}

/// Returns the spans of each thread, in order of time. `None` if a sample has no time. Samples whose value in `column` is
/// 0 have no span. Threads are ordered by process ID, then by thread ID.
pub fn spans(profile: &Profile, column: usize) -> Option<Vec<(ThreadId, Vec<Span>)>> {
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
    let unit = of.unit_kind().time_unit();
    let unit = unit.map(|unit| unit.nanoseconds() as f64 / 10f64.powi(of.decimals.into()));
    let length = |row: usize| unit.map(|unit| (values[row] as f64 * unit) as u64);
    let first = moments.first().and_then(|moment| length(moment.4));
    let regular = moments.iter().all(|moment| length(moment.4) == first);
    let waits = matches!(of.quantity(), Quantity::OffCpu | Quantity::OffWake | Quantity::Locks);
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

/// Lower quartile of the distances between consecutive samples of a thread.
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
