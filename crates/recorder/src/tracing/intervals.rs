//! Parts of the time of a trace, each with counts of its own.

use std::time::{Duration, Instant};

use pyrograph_profile::CallCount;

/// Counts of calls in a part of the time.
#[derive(Debug)]
pub struct CountedTime {
    /// How long it was.
    pub elapsed: Duration,
    /// When it ended, from the beginning of the trace on.
    pub end: Duration,
    /// How often each thread made which call.
    pub counts: Vec<CallCount>,
}

/// Counts are taken so long after programs in the kernel have begun to count elsewhere: none of them writes to these any more.
const SETTLED: Duration = Duration::from_millis(10);

/// Where the parts of the time are that counts are handed out for.
pub struct Intervals {
    every: Duration,
    /// When the one that is counted began.
    began: Instant,
    /// When it ended, once it has: its counts are taken a moment later.
    ended: Option<Instant>,
}

impl Intervals {
    pub fn new(every: Duration, began: Instant) -> Self {
        Self { every, began, ended: None }
    }

    /// When the one that is counted began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// When something is to be done next.
    pub fn next(&self) -> Instant {
        self.ended.map_or(self.began + self.every, |ended| ended + SETTLED)
    }

    /// Ends the part that is counted, if it is over, after counts were taken. Returns how long it was and when it ended, once its
    /// counts are there: what was counted until its end is handed out when counts are taken the next time.
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
