//! The time that each sample of a clock represents.
//!
//! The kernel's timer takes samples at multiples of the sample period. If it is too late for one (its own work took
//! longer than a period, or the hypervisor ran another machine), it skips that sample silently; samples always contain
//! the requested period. The event's count goes on meanwhile. So if samples contain the count (`PERF_SAMPLE_READ`), its
//! increase since the previous sample is the time that a sample represents, and skipped samples can be counted.
//!
//! Source: `perf_swevent_hrtimer` in `kernel/events/core.c`.

use std::collections::HashMap;

use pyrograph_event::{Attr, Header, flag, read_format, sample_type};

/// Layout of samples, for computing the time that each represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Initial sample period in nanoseconds.
    unit: u64,
    /// Offset of the CPU number in a sample, in bytes.
    cpu: usize,
    /// Offset of the period in a sample, in bytes. The weight is written here.
    weight: usize,
    /// Offset of the event's count in a sample, if there is one. The number of lost samples follows if `has_lost` is
    /// set.
    count: Option<usize>,
    has_lost: bool,
}

/// Totals of the samples' weights in a recording.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Number of skipped samples: those that were due and not taken. Their time is part of the next sample's weight.
    pub skipped: u64,
    /// Total time in nanoseconds that the samples represent (`time`), and that lost samples represented, as far as it
    /// is known (`lost_time`).
    pub time: u64,
    pub lost_time: u64,
    last: HashMap<(u32, u32), Last>,
    /// Threads that have ended, in this round and in the ones before.
    ended: [Vec<u32>; 3],
}

/// Time in nanoseconds since the sample before: what a sample represents, and what lost samples represented.
#[derive(Clone, Copy, Debug)]
struct Weight {
    time: u64,
    lost_time: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    count: u64,
    lost: u64,
}

impl Weights {
    /// Returns the layout for the samples of a clock, or `None` if the fields of `attr` are not the expected ones.
    pub(crate) fn new(attr: &Attr) -> Option<Self> {
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
        })
    }

    /// Time in nanoseconds that a lost sample represents.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// Writes the time that the sample represents into its period field. `period`: current sample period in
    /// nanoseconds. `is_early`: the sample is from before the recording, and adds nothing to the totals.
    pub(crate) fn weigh(
        &self,
        sample: &mut [u8],
        period: u64,
        is_early: bool,
        account: &mut Account,
    ) {
        let weight = self.weight(sample, period, account);
        let time = weight.map_or(period, |weight| weight.time);
        if !is_early {
            let lost_time = weight.map_or(0, |weight| weight.lost_time);
            account.time = account.time.saturating_add(time);
            account.lost_time = account.lost_time.saturating_add(lost_time);
            if weight.is_some() {
                account.skipped += (time.saturating_add(period / 2) / period).saturating_sub(1);
            }
        }
        if let Some(bytes) = sample.get_mut(self.weight..self.weight + 8) {
            bytes.copy_from_slice(&time.to_ne_bytes());
        }
    }

    /// Returns what a sample with a count represents.
    fn weight(&self, sample: &[u8], period: u64, account: &mut Account) -> Option<Weight> {
        let at = self.count?;
        let count = word(sample, at)?;
        let lost = if self.has_lost { word(sample, at + 8)? } else { 0 };
        let tid = (word(sample, TASK)? >> 32) as u32;
        let last = account.last.entry((word(sample, self.cpu)? as u32, tid)).or_default();
        // A lower count is that of another event: the thread ID was reused.
        if count < last.count {
            *last = Last::default();
        }
        let lost_since = lost.saturating_sub(last.lost);
        let grown = count - last.count;
        *last = Last { count, lost };
        // The time of lost samples is reported as lost, and not added to this sample.
        let lost_time = lost_since.saturating_mul(period).min(grown.saturating_sub(period));
        Some(Weight { time: grown - lost_time, lost_time })
    }
}

/// Offset of the process and thread ID in a sample, in bytes.
const TASK: usize = Header::SIZE + 8;

fn word(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

impl Account {
    /// Forgets a thread later, once no ring buffer can hold a sample of it any more.
    pub(crate) fn ends(&mut self, tid: u32) {
        self.ended[0].push(tid);
    }

    /// Ends a round: all ring buffers have been read once more.
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
    fn check(samples: &[((u64, u64), u64, u64)], expect: &[u64], skipped: u64) {
        let attr = attr();
        let weights = Weights::new(&attr).expect("a clock");
        let mut account = Account::default();
        let found = samples.iter().map(|(who, count, lost)| {
            let mut sample = sample(*who, *count, *lost);
            weights.weigh(&mut sample, PERIOD, false, &mut account);
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
        check(&samples, &[50_100, 49_900, 150_000, 50_000], 2);
    }

    /// The rate may be lowered meanwhile.
    #[test]
    fn without_a_count_a_sample_is_a_period() {
        let attr =
            Attr { sample_type: attr().sample_type & !sample_type::READ, read_format: 0, ..attr() };
        let weights = Weights::new(&attr).expect("a clock");
        let mut account = Account::default();
        for period in [PERIOD, 2 * PERIOD] {
            let mut sample = sample((1, 0), 0, 0);
            weights.weigh(&mut sample, period, false, &mut account);
            assert_eq!(word(&sample, weights.weight), Some(period));
        }
        assert_eq!((account.time, account.skipped), (3 * PERIOD, 0));
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
        check(&samples, &[50_000, 60_000, 70_000, 50_000, 50_000], 0);
    }

    /// A sample from before the recording is the one that the next one's count is compared with.
    #[test]
    fn early_samples_are_in_no_total() {
        let weights = Weights::new(&attr()).expect("a clock");
        let mut account = Account::default();
        for (count, lost, is_early) in [(250_000, 2, true), (300_000, 2, false)] {
            weights.weigh(&mut sample((1, 0), count, lost), PERIOD, is_early, &mut account);
        }
        assert_eq!((account.time, account.lost_time, account.skipped), (50_000, 0, 0));
    }

    #[test]
    fn lost_samples_are_not_skipped_ones() {
        let of = (1, 0);
        check(&[(of, 50_000, 0), (of, 250_000, 3)], &[50_000, 50_000], 0);
    }

    #[test]
    fn a_threads_number_that_comes_again_is_another_thread() {
        let of = (1, 0);
        check(&[(of, 900_000, 0), (of, 50_000, 0)], &[900_000, 50_000], 17);
        let mut account = Account::default();
        let weights = Weights::new(&attr()).expect("a clock");
        weights.weigh(&mut sample(of, 50_000, 0), PERIOD, false, &mut account);
        account.ends(1);
        account.end_round();
        account.end_round();
        assert_eq!(account.last.len(), 1, "other buffers may hold samples of it");
        account.end_round();
        assert!(account.last.is_empty());
    }
}
