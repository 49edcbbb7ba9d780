//! Intervals of a trace, each with its own counts.

use std::time::{Duration, Instant};

use pyrograph_profile::CallCount;

/// Counts of calls in an interval.
#[derive(Debug)]
pub struct CountedTime {
    /// Length of the interval.
    pub elapsed: Duration,
    /// End of the interval, since the beginning of the trace.
    pub end: Duration,
    /// Counts of the calls, by thread and call.
    pub counts: Vec<CallCount>,
}

/// Counts are read this long after the eBPF programs have switched to another set of counters: no program writes to the
/// old ones any more.
const SETTLED: Duration = Duration::from_millis(10);

/// The intervals for which counts are returned.
pub struct Intervals {
    every: Duration,
    /// Beginning of the current interval.
    began: Instant,
    /// End of the current interval, if it has ended. Its counts are read a moment later.
    ended: Option<Instant>,
}

impl Intervals {
    pub fn new(every: Duration, began: Instant) -> Self {
        Self { every, began, ended: None }
    }

    /// Beginning of the current interval.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Time of the next action.
    pub fn next(&self) -> Instant {
        self.ended.map_or(self.began + self.every, |ended| ended + SETTLED)
    }

    /// Ends the current interval if it is over. Call it after counts were taken. Once the counts of the interval are
    /// complete, returns its length and the time of its end: counts until its end are returned when counts are taken
    /// the next time.
    pub fn end(&mut self, now: Instant) -> Option<(Duration, Instant)> {
        if now < self.next() {
            return None;
        }
        let Some(ended) = self.ended.take() else {
            self.ended = Some(now);
            return None;
        };
        Some((ended - std::mem::replace(&mut self.began, ended), ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut of = Intervals::new(Duration::from_millis(100), start);
        assert_eq!((of.end(at(99)), of.next()), (None, at(100)));
        // It comes late; the counts follow.
        assert_eq!((of.end(at(103)), of.next()), (None, at(103) + SETTLED));
        assert_eq!(of.end(at(104)), None);
        assert_eq!(of.end(at(120)), Some((Duration::from_millis(103), at(103))));
        assert_eq!((of.began(), of.next()), (at(103), at(203)));
    }
}
