//! System calls of threads: one by one, with their arguments as text, and counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::frame::FrameKind;

/// Something that a traced thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// When it began: nanoseconds since 1970-01-01 UTC; 0 if that is not known.
    pub time: u64,
    /// The process's ID; 0 if it is not known.
    pub process: i32,
    /// The thread's ID; 0 if it is not known.
    pub thread: i32,
    /// The thread's name; empty if it is not known.
    pub thread_name: String,
    /// What it did.
    pub action: ThreadAction,
    /// Its stack at that time, the innermost frame first; empty if it is not known.
    pub stack: Vec<Arc<StackLine>>,
}

/// A frame of a stack as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine {
    /// The function's name; of a marker, its text in brackets.
    pub function: String,
    /// How many bytes it is from the function's start, or from the start of the file if the function is not known; `None`
    /// in an inlined one.
    pub offset: Option<u64>,
    /// The file that holds it; empty if there is none.
    pub module: String,
    /// The file and line of its source: `main.c:12`; empty if it is not known.
    pub source: String,
    /// Its kind.
    pub kind: FrameKind,
    /// It was found by a guess.
    pub guessed: bool,
}

/// What a traced thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadAction {
    /// It made a system call.
    Call(TracedCall),
    /// It was given a signal.
    Signal {
        /// The signal's name: `SIGCHLD`.
        name: String,
        /// Why it was sent, by whom: `si_code=CLD_EXITED, si_pid=1234`; empty if that is not known.
        details: String,
    },
    /// It came to an event: a tracepoint, or a place in a program.
    Event {
        /// The event's name: `sched:sched_switch`.
        name: String,
        /// What is known of it; may be empty.
        text: String,
    },
    /// It accessed memory that was not mapped yet, or not there.
    Fault {
        /// A page had to be read.
        major: bool,
        /// Where in the code: `memset+0x1d`.
        place: String,
        /// The address that it accessed.
        address: u64,
        /// What is there: a file and an offset in it, `heap`, `stack`, `anon`; empty if it is not known.
        target: String,
    },
    /// It ended by itself, with an exit code.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal ended it.
    Killed {
        /// The signal's name.
        signal: String,
        /// Its memory was written into a file.
        dumped: bool,
    },
}

/// A system call as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCall {
    /// The call's name.
    pub name: Cow<'static, str>,
    /// Name and value of each argument; names are empty where they are not known.
    pub arguments: Vec<(Cow<'static, str>, String)>,
    /// The result: `3</etc/passwd>`, `-1 ENOENT (No such file or directory)`, `?`.
    pub result: String,
    /// The number that it returned; `None` if it has not returned.
    pub value: Option<i64>,
    /// The error's name, if it failed.
    pub error: Option<Cow<'static, str>>,
    /// How long it took, or had taken when tracing ended, in nanoseconds; `None` if that is not known.
    pub duration: Option<u64>,
    /// It had not returned when tracing ended, or, where the duration is not known, when tracing began.
    pub unfinished: bool,
}

/// Calls of one name that a thread made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// The process's ID.
    pub process: i32,
    /// The process's name.
    pub process_name: String,
    /// The thread's ID.
    pub thread: i32,
    /// The thread's name.
    pub thread_name: String,
    /// The control group's path; empty if it is not known, or not asked for.
    pub group: String,
    /// The call's name.
    pub name: String,
    /// How many there were.
    pub calls: u64,
    /// How many of these failed, by the error's name: `ENOENT`.
    pub errors: BTreeMap<String, u64>,
    /// The time that they took, as far as it is known.
    pub times: CallTimes,
}

impl CallCount {
    /// The count of a call that has returned; `None` for what else a thread does.
    pub fn of(event: &ThreadEvent) -> Option<Self> {
        let ThreadAction::Call(call) = &event.action else { return None };
        call.value?;
        let mut times = CallTimes::default();
        if let Some(duration) = call.duration {
            times.add(duration);
        }
        Some(Self {
            process: event.process,
            process_name: event.thread_name.clone(),
            thread: event.thread,
            thread_name: event.thread_name.clone(),
            group: String::new(),
            name: call.name.clone().into_owned(),
            calls: 1,
            errors: call.error.iter().map(|error| (error.clone().into_owned(), 1)).collect(),
            times,
        })
    }
}

/// Counts of calls that are added up.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    rows: BTreeMap<(i32, i32, String), CallCount>,
}

impl CallCounts {
    /// Adds a count to that of the same calls of the same thread.
    pub fn add(&mut self, count: CallCount) {
        let known = self.rows.entry((count.process, count.thread, count.name.clone()));
        let known = known.or_insert_with(|| CallCount {
            process: count.process,
            thread: count.thread,
            name: count.name,
            ..CallCount::default()
        });
        known.calls += count.calls;
        known.times.merge(&count.times);
        for (error, failed) in count.errors {
            *known.errors.entry(error).or_default() += failed;
        }
        // Names are the last ones: a program that was executed gives another.
        (known.process_name, known.thread_name) = (count.process_name, count.thread_name);
        known.group = count.group;
    }

    /// The counts, by process and thread.
    pub fn into_rows(self) -> Vec<CallCount> {
        self.rows.into_values().collect()
    }
}

/// Durations, as numbers in ranges of them: four for each power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// How many there are.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub total: u64,
    /// The shortest one; 0 if there are none.
    pub least: u64,
    /// The longest one.
    pub longest: u64,
    /// How many are in each range.
    ranges: Vec<u64>,
}

impl CallTimes {
    /// Where the second range begins, in nanoseconds.
    pub const LEAST: u64 = 1 << Self::LEAST_BITS;
    const LEAST_BITS: u32 = 4;

    /// Durations that were counted elsewhere, in the same ranges.
    pub fn from_ranges(total: u64, least: u64, longest: u64, ranges: &[u32]) -> Self {
        let ranges: Vec<u64> = ranges.iter().copied().map(u64::from).collect();
        Self { count: ranges.iter().sum(), total, least, longest, ranges }
    }

    /// Adds a duration.
    pub fn add(&mut self, time: u64) {
        let range = Self::range_of(time);
        if self.ranges.len() <= range {
            self.ranges.resize(range + 1, 0);
        }
        self.ranges[range] += 1;
        self.least = if self.count == 0 { time } else { self.least.min(time) };
        self.longest = self.longest.max(time);
        self.count += 1;
        self.total = self.total.saturating_add(time);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.longest = self.longest.max(other.longest);
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        if self.ranges.len() < other.ranges.len() {
            self.ranges.resize(other.ranges.len(), 0);
        }
        self.ranges.iter_mut().zip(&other.ranges).for_each(|(sum, count)| *sum += count);
    }

    fn range_of(time: u64) -> usize {
        match time.checked_ilog2() {
            Some(bits) if bits >= Self::LEAST_BITS => {
                let quarter = time >> (bits - 2) & 3;
                1 + 4 * (bits - Self::LEAST_BITS) as usize + quarter as usize
            }
            _ => 0,
        }
    }

    /// Where a range begins, in nanoseconds.
    fn begin(range: usize) -> u64 {
        let Some(range) = range.checked_sub(1) else { return 0 };
        let bits = range / 4 + Self::LEAST_BITS as usize;
        let base = 1u64.checked_shl(u32::try_from(bits).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
        base.saturating_add((base >> 2).saturating_mul(range as u64 % 4))
    }

    /// The ranges that are not empty: where each begins and ends, in nanoseconds, and how many durations are in it.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let all = self.ranges.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(range, count)| (Self::begin(range), Self::begin(range + 1), *count))
    }

    /// The duration below which a share of all of them are (0.99: the 99th percentile), within an eighth of it.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        for (begin, end, count) in self.ranges() {
            if before + count >= rank {
                // As if they were spread evenly over the range.
                let part = (rank - before) as f64 / count as f64;
                let time = begin as f64 + (end - begin) as f64 * part;
                return (time as u64).clamp(self.least, self.longest);
            }
            before += count;
        }
        self.longest
    }

    /// Their mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look as if they were drawn by lot.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 1u64;
        std::iter::from_fn(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((state >> 33) % (1 << (state >> 59)) + 1)
        })
    }

    #[test]
    fn each_duration_is_in_its_range() {
        for time in numbers().take(10_000).chain([0, 1, 15, 16, 17, 19, 20, 31, 32, u64::MAX >> 1])
        {
            let range = CallTimes::range_of(time);
            assert!(CallTimes::begin(range) <= time, "{time}");
            assert!(time < CallTimes::begin(range + 1), "{time}");
        }
    }

    #[test]
    fn percentiles_are_near_those_of_all_durations() {
        let mut all: Vec<u64> = numbers().take(5000).collect();
        let mut times = CallTimes::default();
        all.iter().for_each(|time| times.add(*time));
        all.sort_unstable();
        for share in [0.01, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let exact = all[((share * all.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let found = times.percentile(share) as f64;
            assert!((found - exact).abs() <= exact / 4.0 + 16.0, "{share}: {found} and {exact}");
        }
        assert_eq!(times.percentile(1.0), times.longest);
        assert_eq!((times.count, times.total), (5000, all.iter().sum()));
    }

    #[test]
    fn what_is_merged_is_as_if_it_had_been_added() {
        let all: Vec<u64> = numbers().take(1000).collect();
        let of = |times: &[u64]| {
            let mut sum = CallTimes::default();
            times.iter().for_each(|time| sum.add(*time));
            sum
        };
        let mut merged = CallTimes::default();
        merged.merge(&CallTimes::default());
        all.chunks(7).for_each(|part| merged.merge(&of(part)));
        assert_eq!(merged, of(&all));
    }
}
