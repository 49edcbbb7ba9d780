//! Latencies: durations from begin events to their end events.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Pairs begin and end events with equal keys, in the order in which they come.
///
/// An end belongs to the last begin with its key. If something begins again, such as a request that is queued a
/// second time, the time before is not counted.
///
/// ```
/// use pyrograph_analyze::Pairs;
///
/// let mut pairs = Pairs::default();
/// pairs.begin("8,0 1234", 1_000);
/// pairs.end("8,0 1234", 1_700);
/// pairs.end("8,0 99", 1_800);
/// let latencies = pairs.finish();
/// assert_eq!((latencies.times, latencies.values), (vec![1_700], vec![700]));
/// assert_eq!(latencies.never_begun, 1);
/// ```
#[derive(Debug, Default)]
pub struct Pairs {
    open: HashMap<String, Begun, FixedState>,
    done: Latencies,
}

/// A begin event without an end so far.
#[derive(Clone, Copy, Debug)]
struct Begun {
    time: u64,
    /// True if a pair of this begin is counted as a latency.
    wanted: bool,
}

/// Latencies of all pairs, and numbers of events that did not form one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Time of each end, in nanoseconds.
    pub times: Vec<u64>,
    /// Latency of each pair, in nanoseconds.
    pub values: Vec<u64>,
    /// Number of begins without an end before the end of the input.
    pub never_ended: u64,
    /// Number of begins that were followed by another begin with the same key.
    pub begun_again: u64,
    /// Number of begins that were cancelled.
    pub cancelled: u64,
    /// Number of ends without a begin.
    pub never_begun: u64,
    /// Number of ends with a time before their begin.
    pub backwards: u64,
    /// Number of pairs with an unwanted begin or end.
    pub unwanted: u64,
}

impl Pairs {
    /// Adds a begin event.
    pub fn begin(&mut self, key: &str, time: u64) {
        self.begin_any(key, Begun { time, wanted: true });
    }

    /// Adds a begin event that is not wanted: it forms a pair, which is only counted as unwanted.
    pub fn begin_unwanted(&mut self, key: &str, time: u64) {
        self.begin_any(key, Begun { time, wanted: false });
    }

    fn begin_any(&mut self, key: &str, begun: Begun) {
        match self.open.get_mut(key) {
            Some(before) => {
                self.done.begun_again += u64::from(before.wanted);
                *before = begun;
            }
            None => {
                self.open.insert(key.to_owned(), begun);
            }
        }
    }

    /// Adds an end event that is not wanted.
    pub fn end_unwanted(&mut self, key: &str) {
        self.done.unwanted += u64::from(self.open.remove(key).is_some());
    }

    /// Adds an end event.
    pub fn end(&mut self, key: &str, time: u64) {
        let Some(begun) = self.open.remove(key) else {
            self.done.never_begun += 1;
            return;
        };
        if !begun.wanted {
            self.done.unwanted += 1;
            return;
        }
        match time.checked_sub(begun.time) {
            Some(took) => {
                self.done.times.push(time);
                self.done.values.push(took);
            }
            None => self.done.backwards += 1,
        }
    }

    /// Cancels a begin that will not end, such as the wakeup of a thread that was still running.
    pub fn cancel(&mut self, key: &str) {
        self.done.cancelled += u64::from(self.open.remove(key).is_some_and(|begun| begun.wanted));
    }

    /// Returns all pairs.
    pub fn finish(mut self) -> Latencies {
        self.done.never_ended = self.open.values().filter(|begun| begun.wanted).count() as u64;
        self.done
    }
}

impl Latencies {
    /// Descriptions of events that did not form a pair, with their numbers, highest first; empty if there are none.
    pub fn unmatched(&self) -> Vec<(u64, &'static str)> {
        let mut left: Vec<(u64, &'static str)> = [
            (self.never_begun, "end without a begin", "ends without a begin"),
            (self.never_ended, "begin without an end", "begins without an end"),
            (self.begun_again, "begin before the previous end", "begins before the previous end"),
            (self.cancelled, "cancelled begin", "cancelled begins"),
            (self.backwards, "end before its begin", "ends before their begin"),
        ]
        .into_iter()
        .filter(|(count, _, _)| *count > 0)
        .map(|(count, one, several)| (count, if count == 1 { one } else { several }))
        .collect();
        left.sort_by_key(|(count, what)| (std::cmp::Reverse(*count), *what));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_in_a_pair_or_counted() {
        let mut pairs = Pairs::default();
        pairs.begin("a", 10);
        pairs.begin("a", 12);
        pairs.end("a", 15);
        pairs.end("a", 16);
        pairs.begin("b", 20);
        pairs.end("b", 19);
        pairs.begin("c", 30);
        pairs.begin("d", 31);
        pairs.cancel("d");
        pairs.cancel("e");
        let latencies = pairs.finish();
        assert_eq!((&latencies.times[..], &latencies.values[..]), (&[15][..], &[3][..]));
        assert_eq!(latencies.unmatched().len(), 5);
        assert!(latencies.unmatched().iter().all(|(count, _)| *count == 1));
    }

    #[test]
    fn what_is_not_wanted_is_in_no_pair() {
        let mut pairs = Pairs::default();
        pairs.begin_unwanted("a", 1);
        pairs.end("a", 2);
        pairs.begin("b", 3);
        pairs.end_unwanted("b");
        pairs.end_unwanted("b");
        pairs.begin_unwanted("c", 4);
        pairs.begin("c", 5);
        pairs.end("c", 7);
        pairs.begin_unwanted("d", 8);
        pairs.begin_unwanted("e", 8);
        pairs.cancel("e");
        let expect =
            Latencies { times: vec![7], values: vec![2], unwanted: 2, ..Latencies::default() };
        assert_eq!(pairs.finish(), expect);
    }

    #[test]
    fn what_is_left_over_is_named_most_first() {
        let mut pairs = Pairs::default();
        pairs.begin("a", 1);
        pairs.end("x", 2);
        pairs.end("y", 2);
        let unmatched = pairs.finish().unmatched();
        assert_eq!(unmatched, [(2, "ends without a begin"), (1, "begin without an end")]);
    }
}
