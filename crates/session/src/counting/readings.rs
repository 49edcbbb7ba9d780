//! Counts as they are read, and differences between two readings.

use std::collections::{BTreeSet, HashMap};

use pyrograph_record::Count;

/// Owner of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(feature = "bpf"),
    expect(dead_code, reason = "only programs in the kernel keep processes and groups apart")
)]
pub(crate) enum Of {
    /// The whole target.
    All,
    /// A thread.
    Thread(i32),
    /// A process.
    Process(i32),
    /// A control group, by its ID.
    Group(u64),
    /// A value, by the number of its text.
    Value(u32),
}

/// A count that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Index of the event.
    pub event: usize,
    /// Owner of the count.
    pub of: Of,
    /// The CPU, if CPUs are kept apart.
    pub cpu: Option<u32>,
    /// Number of the range of its values.
    pub range: u32,
    /// The count.
    pub value: i64,
    /// Time in nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Time in nanoseconds for which it was counted.
    pub running: u64,
}

impl Reading {
    /// Makes a reading of a count by `perf_event_open`.
    pub fn of_counter(count: &Count, event: usize) -> Self {
        let of = count.thread.map_or(Of::All, Of::Thread);
        let Count { cpu, value, enabled, running, .. } = *count;
        Self { event, of, cpu, range: 0, value: signed(value), enabled, running }
    }

    /// Event, owner, CPU and range of the count.
    fn key(&self) -> (usize, Of, Option<u32>, u32) {
        (self.event, self.of, self.cpu, self.range)
    }

    /// Makes a reading without times.
    pub fn exact(event: usize, of: Of, cpu: Option<u32>, value: u64) -> Self {
        Self { event, of, cpu, range: 0, value: signed(value), enabled: 1, running: 1 }
    }
}

/// A count, which no counter brings near the bound of these numbers.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Adds up the counts of each event and key.
#[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "programs in the kernel count by CPU"))]
pub(crate) fn together(readings: impl Iterator<Item = Reading>) -> Vec<Reading> {
    let mut sums: Vec<Reading> = Vec::new();
    let mut places = HashMap::new();
    for reading in readings {
        let place = *places.entry(reading.key()).or_insert(sums.len());
        match sums.get_mut(place) {
            Some(sum) => {
                sum.value += reading.value;
                sum.enabled = sum.enabled.max(reading.enabled);
                sum.running = sum.running.max(reading.running);
            }
            None => sums.push(reading),
        }
    }
    sums
}

/// Returns the differences to earlier counts of the same counters. If there are none, they are taken as 0.
pub(crate) fn since(now: &[Count], before: &[Count]) -> Vec<Count> {
    let mut counts = now.to_vec();
    for (count, before) in counts.iter_mut().zip(before) {
        count.value = count.value.saturating_sub(before.value);
        count.enabled = count.enabled.saturating_sub(before.enabled);
        count.running = count.running.saturating_sub(before.running);
    }
    counts
}

/// Returns the differences for counts that are kept apart by keys, of which new ones are added over time. Keys with a
/// difference of 0 are left out.
pub(crate) fn apart_since(now: &[Reading], before: &[Reading]) -> Vec<Reading> {
    let before: HashMap<_, _> = before.iter().map(|reading| (reading.key(), reading)).collect();
    let difference = |reading: &Reading| {
        let mut reading = *reading;
        if let Some(before) = before.get(&reading.key()) {
            reading.value = reading.value.saturating_sub(before.value);
            // Events that are counted one by one have no times.
            if reading.enabled > 1 {
                reading.enabled -= before.enabled.min(reading.enabled);
                reading.running -= before.running.min(reading.running);
            }
        }
        reading
    };
    now.iter()
        .map(difference)
        .filter(|reading| reading.value != 0 || reading.of == Of::All)
        .collect()
}

/// Adds a count of 0 for each event that has none.
pub(crate) fn add_missing(readings: &mut Vec<Reading>, events: impl Iterator<Item = usize>) {
    let has: BTreeSet<usize> = readings.iter().map(|reading| reading.event).collect();
    let missing = events.filter(|event| !has.contains(event));
    readings.extend(missing.map(|event| Reading::exact(event, Of::All, None, 0)));
}

/// Adjusts the times so that `running` divided by `enabled` is the share of the time for which the hardware counted the
/// event. The counter of a thread on one CPU is enabled while the thread runs on any CPU, but counts only on its own:
/// the sum over the thread's counters is the time for which the event was counted. Events that the kernel counts are
/// always counted.
pub(crate) fn settle_times(counts: &mut [Count], shares_hardware: &[bool], is_of_machine: bool) {
    let mut all: HashMap<(usize, Option<i32>), (u64, u64)> = HashMap::new();
    for count in counts.iter() {
        let (enabled, running) = all.entry((count.event, count.thread)).or_default();
        *enabled = count.enabled.max(*enabled);
        *running = running.saturating_add(count.running);
    }
    for count in counts {
        let is_shared = shares_hardware.get(count.event).copied().unwrap_or(true);
        let together = all.get(&(count.event, count.thread)).filter(|(_, running)| *running > 0);
        count.enabled = match together {
            _ if !is_shared => count.running.max(1),
            // Counters of a CPU count for as long as they are enabled, except while other events use the hardware.
            _ if is_of_machine => count.enabled,
            Some((enabled, running)) if enabled > running => {
                (count.running as f64 * (*enabled as f64 / *running as f64)) as u64
            }
            Some(_) => count.enabled.min(count.running.max(1)),
            None => count.enabled,
        };
        if !is_shared {
            count.running = count.enabled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(event: usize, cpu: u32, value: u64, enabled: u64, running: u64) -> Count {
        Count { event, thread: None, cpu: Some(cpu), value, enabled, running }
    }

    #[test]
    fn a_thread_that_moves_has_its_whole_share_of_the_hardware() {
        // On each of two CPUs for a half of its time, and all of the time on the hardware.
        let mut counts = vec![count(0, 0, 5, 100, 50), count(0, 1, 7, 100, 50)];
        settle_times(&mut counts, &[true], false);
        assert!(counts.iter().all(|count| count.enabled == count.running), "{counts:?}");
        // On the hardware for a half of that.
        let mut counts = vec![count(0, 0, 5, 100, 25), count(0, 1, 7, 100, 25)];
        settle_times(&mut counts, &[true], false);
        assert!(counts.iter().all(|count| count.enabled == 2 * count.running), "{counts:?}");
        // Counts of the kernel are exact.
        let mut counts = vec![count(0, 0, 5, 100, 25), count(0, 1, 7, 100, 0)];
        settle_times(&mut counts, &[false], false);
        assert!(counts.iter().all(|count| count.enabled == count.running), "{counts:?}");
        // Of two CPUs, each on the hardware for a half.
        let mut counts = vec![count(0, 0, 5, 100, 50), count(0, 1, 7, 100, 50)];
        settle_times(&mut counts, &[true], true);
        assert!(counts.iter().all(|count| count.enabled == 2 * count.running), "{counts:?}");
        // Never on the hardware.
        let mut counts = vec![count(0, 0, 0, 100, 0)];
        settle_times(&mut counts, &[true], false);
        assert_eq!((counts[0].enabled, counts[0].running), (100, 0));
    }

    #[test]
    fn intervals_are_differences() {
        let now = [count(0, 0, 15, 30, 30)];
        assert_eq!(since(&now, &[count(0, 0, 5, 10, 10)]), [count(0, 0, 10, 20, 20)]);
        assert_eq!(since(&now, &[]), now);
    }

    #[test]
    fn counts_of_all_cpus_are_one() {
        let reading = |event, cpu, value| Reading::exact(event, Of::All, cpu, value);
        let apart = [reading(0, Some(0), 2), reading(0, Some(1), 3), reading(1, Some(1), 4)];
        assert_eq!(together(apart.into_iter()), apart);
        let alike = apart.map(|of| Reading { cpu: None, ..of });
        assert_eq!(together(alike.into_iter()), [reading(0, None, 5), reading(1, None, 4)]);
        // A count of 0 is one.
        assert_eq!(apart_since(&[reading(0, None, 5)], &[reading(0, None, 5)])[0].value, 0);
    }

    #[test]
    fn keys_that_come_later_are_counted_from_0() {
        let reading = |event, key, value| Reading::exact(event, Of::Thread(key), None, value);
        let before = [reading(0, 1, 5), reading(1, 1, 4)];
        let now = [reading(0, 2, 3), reading(0, 1, 7), reading(1, 1, 4)];
        let mut since = apart_since(&now, &before);
        assert_eq!(since, [reading(0, 2, 3), reading(0, 1, 2)]);
        add_missing(&mut since, 0..2);
        assert_eq!(since[2..], [Reading::exact(1, Of::All, None, 0)]);
        // On the hardware for a half of the time since.
        let timed = |value, enabled, running| Reading {
            enabled,
            running,
            ..Reading::exact(0, Of::Group(3), None, value)
        };
        assert_eq!(apart_since(&[timed(9, 50, 30)], &[timed(4, 10, 10)]), [timed(5, 40, 20)]);
    }
}
