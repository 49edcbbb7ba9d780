//! The time that each sample of a clock stands for.
//!
//! The kernel's timer takes samples at the multiples of a period. Where it comes too late for one (its own work
//! took longer than a period, or the hypervisor ran another machine) it skips it in silence; in the sample
//! it writes the period that was asked for. The event's count goes on meanwhile. So where the count is in the
//! samples (`PERF_SAMPLE_READ`), what it has grown by is what the sample stands for, and samples that were skipped
//! can be counted.
//!
//! Source: `perf_swevent_hrtimer` in `kernel/events/core.c`.

use std::collections::HashMap;

use pyrograph_event::{Attr, Header, flag, read_format, sample_type};

/// Options for accounting time to samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Nanoseconds between two samples, before they are lowered.
    unit: u64,
    /// Where the sample's number of the CPU is.
    cpu: usize,
    /// Where its period is.
    weight: usize,
    /// Where the event's count is, and after it, perhaps, how many samples it has lost.
    count: Option<usize>,
    has_lost: bool,
    /// One event a CPU, whatever runs there; else one for each thread and CPU.
    is_of_cpus: bool,
}

/// Account of the samples of a recording.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Samples that should have been taken and were not, whose time counts for the sample after.
    pub skipped: u64,
    /// Nanoseconds that all samples stand for, and that samples stood for which were lost, as far as that is known.
    pub time: u64,
    pub lost_time: u64,
    last: HashMap<(u32, u32), Last>,
    /// Threads that have ended, in this round and in those before.
    ended: [Vec<u32>; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    count: u64,
    lost: u64,
}

impl Weights {
    /// For the samples of a clock whose period is fixed. `is_of_cpus`: events are not bound to threads.
    pub(crate) fn new(attr: &Attr, is_of_cpus: bool) -> Option<Self> {
        let before = [sample_type::IP, sample_type::TID, sample_type::TIME, sample_type::CPU];
        let fixed = before.into_iter().fold(0, |fields, field| fields | field);
        let unexpected =
            sample_type::ADDR | sample_type::ID | sample_type::STREAM_ID | sample_type::IDENTIFIER;
        let needed = fixed | sample_type::PERIOD;
        if attr.sample_type & needed != needed || attr.sample_type & unexpected != 0 {
            return None;
        }
        let period = match attr.has(flag::FREQ) {
            true => 1_000_000_000 / attr.sample_period.max(1),
            false => attr.sample_period,
        };
        let weight = Header::SIZE + 8 * before.len();
        Some(Self {
            unit: period.max(1),
            cpu: weight - 8,
            weight,
            count: (attr.sample_type & sample_type::READ != 0).then_some(weight + 8),
            has_lost: attr.read_format == read_format::LOST,
            is_of_cpus,
        })
    }

    /// Returns true if samples hold the event's count: then they may be taken at any pace.
    pub(crate) fn has_counts(&self) -> bool {
        self.count.is_some()
    }

    /// Nanoseconds that a lost sample would have stood for.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// Writes into the sample what it stands for. `period`: nanoseconds between two samples now.
    pub(crate) fn weigh(&self, sample: &mut [u8], period: u64, account: &mut Account) {
        let time = self.time(sample, period, account).unwrap_or(self.unit);
        account.time = account.time.saturating_add(time);
        if let Some(bytes) = sample.get_mut(self.weight..self.weight + 8) {
            bytes.copy_from_slice(&time.to_ne_bytes());
        }
    }

    fn time(&self, sample: &[u8], period: u64, account: &mut Account) -> Option<u64> {
        let at = self.count?;
        let count = word(sample, at)?;
        let lost = if self.has_lost { word(sample, at + 8)? } else { 0 };
        let tid = if self.is_of_cpus { 0 } else { (word(sample, TASK)? >> 32) as u32 };
        let last = account.last.entry((word(sample, self.cpu)? as u32, tid)).or_default();
        // A thread's number that has come again is that of another event.
        if count < last.count {
            *last = Last::default();
        }
        let lost_since = lost.saturating_sub(last.lost);
        let grown = count - last.count;
        *last = Last { count, lost };
        // Lost samples are counted as that.
        let lost_time = lost_since.saturating_mul(period).min(grown.saturating_sub(period));
        let time = grown - lost_time;
        account.lost_time = account.lost_time.saturating_add(lost_time);
        account.skipped += (time.saturating_add(period / 2) / period).saturating_sub(1);
        Some(time)
    }
}

/// Where a sample's process and thread are.
const TASK: usize = Header::SIZE + 8;

fn word(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

impl Account {
    /// Forgets a thread, once no buffer can hold a sample of it any more.
    pub(crate) fn ends(&mut self, tid: u32) {
        self.ended[0].push(tid);
    }

    /// All buffers were read once more.
    pub(crate) fn end_round(&mut self) {
        self.ended.rotate_right(1);
        let ended = std::mem::take(&mut self.ended[0]);
        if !ended.is_empty() {
            self.last.retain(|(_, tid), _| !ended.contains(tid));
        }
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::Layout;

    use super::*;

    const PERIOD: u64 = 50_000;

    fn attr() -> Attr {
        let fields = sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU
            | sample_type::PERIOD
            | sample_type::READ;
        let attr = Attr {
            sample_type: fields,
            read_format: read_format::LOST,
            sample_period: 1_000_000_000 / PERIOD,
            ..Attr::new()
        };
        attr.with(flag::FREQ)
    }

    /// A sample of a thread on a CPU, with what its event has counted and lost until then.
    fn sample((tid, cpu): (u64, u64), count: u64, lost: u64) -> Vec<u8> {
        let words = [9 | 72 << 48, 0x1000, 7 | tid << 32, 1, cpu, PERIOD, count, lost, 0];
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    /// Period of each sample; samples that were skipped.
    fn check(is_of_cpus: bool, samples: &[((u64, u64), u64, u64)], expect: &[u64], skipped: u64) {
        let attr = attr();
        let weights = Weights::new(&attr, is_of_cpus).expect("a clock");
        let mut account = Account::default();
        let found = samples.iter().map(|(who, count, lost)| {
            let mut sample = sample(*who, *count, *lost);
            weights.weigh(&mut sample, PERIOD, &mut account);
            match Layout::new(&attr).decode(&sample).expect("a sample") {
                pyrograph_event::Record::Sample(sample) => sample.period.expect("its period"),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(found.collect::<Vec<_>>(), expect);
        assert_eq!((account.time, account.skipped), (expect.iter().sum(), skipped));
    }

    #[test]
    fn time_of_skipped_samples_counts_for_the_next() {
        let of = (1, 0);
        let samples = [(of, 50_100, 0), (of, 100_000, 0), (of, 250_000, 0), (of, 300_000, 0)];
        check(false, &samples, &[50_100, 49_900, 150_000, 50_000], 2);
    }

    #[test]
    fn threads_and_cpus_have_events_of_their_own() {
        let samples = [
            ((1, 0), 50_000, 0),
            ((2, 0), 60_000, 0),
            ((1, 1), 70_000, 0),
            ((1, 0), 100_000, 0),
            ((2, 0), 110_000, 0),
        ];
        check(false, &samples, &[50_000, 60_000, 70_000, 50_000, 50_000], 0);
        // On a CPU's event, whoever runs.
        check(true, &[((1, 0), 50_000, 0), ((2, 0), 100_000, 0)], &[50_000, 50_000], 0);
    }

    #[test]
    fn lost_samples_are_not_skipped_ones() {
        let of = (1, 0);
        check(false, &[(of, 50_000, 0), (of, 250_000, 3)], &[50_000, 50_000], 0);
    }

    #[test]
    fn a_threads_number_that_comes_again_is_another_thread() {
        let of = (1, 0);
        check(false, &[(of, 900_000, 0), (of, 50_000, 0)], &[900_000, 50_000], 17);
        let mut account = Account::default();
        let weights = Weights::new(&attr(), false).expect("a clock");
        weights.weigh(&mut sample(of, 50_000, 0), PERIOD, &mut account);
        account.ends(1);
        account.end_round();
        account.end_round();
        assert_eq!(account.last.len(), 1, "other buffers may hold samples of it");
        account.end_round();
        assert!(account.last.is_empty());
    }
}
