//! Counts of the scheduler, for each interval and for the whole time.

use std::collections::{BTreeMap, HashMap};

use pyrograph_event::sched::{Ranges, SchedCounts, TaskNumber};
use pyrograph_profile::{Durations, SchedCount};

use super::SchedKey;
use super::tasks::name_of;

/// Maximum number of ended tasks that have a row each. Beyond it, tasks with the same name are added up.
const MOST_ENDED: usize = 1 << 14;

/// Name of the row for tasks outside of this PID namespace.
const INVISIBLE: &str = "[other PID namespaces]";

/// Sums of counts.
#[derive(Debug)]
pub struct Totals {
    key: SchedKey,
    /// True if counts of intervals are needed.
    has_intervals: bool,
    tasks: HashMap<TaskNumber, Row>,
    cpus: BTreeMap<u32, Row>,
    /// Ended tasks: their counts of the whole time, and of this interval.
    ended: Ended,
    just_ended: Ended,
}

/// Counts of a task or a CPU.
#[derive(Debug, Default)]
struct Row {
    /// Counts as last read from the kernel, and the number of the interval in which that was.
    last: SchedCounts,
    interval: u32,
    total: SchedCount,
    /// Sum since the beginning of the interval.
    part: SchedCount,
}

impl Row {
    /// Adds the increase since the last counts.
    fn add(&mut self, counts: SchedCounts, interval: u32) {
        let last = &self.last;
        let new = self.new_durations(&counts);
        let part = SchedCount {
            run_time: counts.run_time.saturating_sub(last.run_time),
            switches: counts.switches.saturating_sub(last.switches),
            longest_since: new.1,
            delays: new.0,
            on_cpu: new_ranges(&last.on_cpu, &counts.on_cpu),
            off_cpu: new_ranges(&last.off_cpu, &counts.off_cpu),
            ..SchedCount::default()
        };
        for to in [&mut self.total, &mut self.part] {
            (to.pid, to.tid) = (counts.names.pid, counts.names.tid);
            to.name = name_of(&counts.names);
            add(to, &part);
        }
        self.interval = interval;
        // The time of a task that was running was computed from the clock, which may be more than what the kernel
        // counts later.
        let run_time = counts.run_time.max(self.last.run_time);
        self.last = SchedCounts { run_time, ..counts };
    }

    /// Returns the delays since the last counts, and the time at which the longest of them began.
    fn new_durations(&self, counts: &SchedCounts) -> (Durations, u64) {
        let ranges = new_counts(&self.last.ranges, &counts.ranges);
        let extremes = counts.extremes.iter().filter(|of| of.interval > self.interval);
        if ranges.is_empty() {
            return (Durations::default(), 0);
        }
        let least = extremes.clone().map(|of| of.least).min().unwrap_or(0);
        let longest = extremes.max_by_key(|of| of.longest);
        let (longest, since) = longest.map_or((0, 0), |of| (of.longest, of.longest_since));
        let total = counts.delay.saturating_sub(self.last.delay);
        (Durations::from_ranges(total, least, longest, &ranges), since)
    }
}

impl Totals {
    pub fn new(key: SchedKey, has_intervals: bool) -> Self {
        Self {
            key,
            has_intervals,
            tasks: HashMap::new(),
            cpus: BTreeMap::new(),
            ended: Ended::default(),
            just_ended: Ended::default(),
        }
    }

    /// Adds counts that were read at the end of an interval, or during it for a task that has ended.
    pub fn add(&mut self, counts: SchedCounts, interval: u32) {
        if let Some(cpu) = counts.cpu {
            self.cpus.entry(cpu).or_default().add(counts, interval);
            return;
        }
        let (task, has_ended) = (counts.task, counts.has_ended);
        let row = self.tasks.entry(task).or_default();
        row.add(counts, interval);
        if has_ended && let Some(row) = self.tasks.remove(&task) {
            if self.has_intervals {
                self.just_ended.push(row.part);
            }
            self.ended.push(row.total);
        }
    }

    /// Ends an interval. Returns its counts, ordered by ID.
    pub fn take_interval(&mut self) -> Vec<SchedCount> {
        let rows = self.tasks.values_mut().map(|row| std::mem::take(&mut row.part));
        let cpus = self.cpus.iter_mut().map(|(cpu, row)| (*cpu, std::mem::take(&mut row.part)));
        let ended = std::mem::take(&mut self.just_ended.rows);
        shown(self.key, rows.chain(ended).collect(), cpus.collect())
    }

    /// Returns the counts of the whole time, ordered by ID.
    pub fn into_rows(self) -> Vec<SchedCount> {
        let rows = self.tasks.into_values().map(|row| row.total).chain(self.ended.rows);
        let cpus = self.cpus.into_iter().map(|(cpu, row)| (cpu, row.total));
        shown(self.key, rows.collect(), cpus.collect())
    }
}

/// Returns the rows for a kind of key.
fn shown(key: SchedKey, tasks: Vec<SchedCount>, cpus: Vec<(u32, SchedCount)>) -> Vec<SchedCount> {
    let nobody = |name: &str| SchedCount {
        pid: -1,
        tid: -1,
        name: name.to_owned(),
        ..SchedCount::default()
    };
    let one = |name| {
        cpus.iter().fold(nobody(name), |mut sum, (_, count)| {
            add(&mut sum, count);
            sum
        })
    };
    let mut rows = match key {
        SchedKey::Total => vec![one("")],
        SchedKey::Cpu => {
            let of = |(cpu, count): &(u32, SchedCount)| {
                let mut row = SchedCount { cpu: Some(*cpu), ..nobody("") };
                add(&mut row, count);
                row
            };
            cpus.iter().map(of).collect()
        }
        SchedKey::Task => {
            let others = (!cpus.is_empty()).then(|| one(INVISIBLE));
            tasks.into_iter().chain(others).collect()
        }
    };
    rows.retain(|row| key == SchedKey::Total || row.run_time > 0 || row.switches > 0);
    rows.sort_by(|a, b| {
        let key = |row: &SchedCount| (row.cpu, row.pid, row.tid, row.longest_since, row.run_time);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

/// Adds one row of counts to another.
fn add(to: &mut SchedCount, from: &SchedCount) {
    to.run_time = to.run_time.saturating_add(from.run_time);
    to.switches = to.switches.saturating_add(from.switches);
    if from.delays.count > 0 && (to.delays.count == 0 || from.delays.longest > to.delays.longest) {
        to.longest_since = from.longest_since;
    }
    to.delays.merge(&from.delays);
    to.on_cpu.merge(&from.on_cpu);
    to.off_cpu.merge(&from.off_cpu);
}

/// Returns the increase of the counts of ranges, up to the last range that has any.
fn new_counts(last: &[u32], now: &[u32]) -> Vec<u32> {
    let before = last.iter().copied().chain(std::iter::repeat(0));
    let mut counts: Vec<u32> =
        now.iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect();
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    counts.truncate(used);
    counts
}

/// Returns the times since the last counts. The minimum and maximum are the bounds of their ranges.
fn new_ranges(last: &Ranges, now: &Ranges) -> Durations {
    let counts = new_counts(&last.counts, &now.counts);
    if counts.is_empty() {
        return Durations::default();
    }
    let total = now.total.saturating_sub(last.total);
    let known = Durations::from_ranges(total, 0, u64::MAX, &counts);
    let (least, longest) = known
        .ranges()
        .fold((u64::MAX, 0), |(least, longest), (from, to, _)| (least.min(from), longest.max(to)));
    Durations::from_ranges(total, least, longest, &counts)
}

/// Tasks that have ended.
#[derive(Debug, Default)]
struct Ended {
    rows: Vec<SchedCount>,
}

impl Ended {
    fn push(&mut self, row: SchedCount) {
        self.rows.push(row);
        if self.rows.len() <= MOST_ENDED {
            return;
        }
        self.add_up(|row| row.name.clone());
        if self.rows.len() > MOST_ENDED / 2 {
            self.add_up(|_| "[ended threads]".to_owned());
        }
    }

    /// Adds up the tasks with the same name.
    fn add_up(&mut self, name: impl Fn(&SchedCount) -> String) {
        let mut sums: BTreeMap<String, SchedCount> = BTreeMap::new();
        for row in self.rows.drain(..) {
            let name = name(&row);
            match sums.get_mut(&name) {
                Some(sum) => {
                    (sum.pid, sum.tid) = (-1, -1);
                    add(sum, &row);
                }
                None => drop(sums.insert(name.clone(), SchedCount { name, ..row })),
            }
        }
        self.rows.extend(sums.into_values());
    }
}

#[cfg(test)]
mod tests {
    use pyrograph_event::sched::{Extremes, TaskNames};

    use super::*;

    /// Counts of a task with these delays, of which the last ones are those of an interval.
    fn counts(task: u32, name: &str, delays: &[(u32, u64)]) -> SchedCounts {
        let mut names = TaskNames { pid: 7, tid: 100 + task as i32, name: [0; 16] };
        names.name[..name.len()].copy_from_slice(name.as_bytes());
        let mut counts = SchedCounts {
            task,
            names,
            run_time: 10 * delays.len() as u64,
            switches: delays.len() as u64,
            delay: delays.iter().map(|(_, time)| time).sum(),
            ranges: vec![0; 146],
            ..SchedCounts::default()
        };
        for (interval, time) in delays {
            let at = &mut counts.extremes[*interval as usize & 1];
            if at.interval != *interval {
                *at = Extremes { interval: *interval, least: u64::MAX, ..Extremes::default() };
            }
            at.least = at.least.min(*time);
            if *time >= at.longest {
                (at.longest, at.longest_since) = (*time, 1000 + time);
            }
            let range = if *time < 16 {
                0
            } else {
                let bits = time.ilog2();
                1 + 4 * (bits - 4) as usize + (time >> (bits - 2) & 3) as usize
            };
            counts.ranges[range] += 1;
        }
        counts
    }

    /// The sums of these delays.
    fn durations(delays: &[u64]) -> Durations {
        let mut durations = Durations::default();
        delays.iter().for_each(|time| durations.add(*time));
        durations
    }

    #[test]
    fn intervals_add_up_to_the_whole() {
        let mut totals = Totals::new(SchedKey::Task, true);
        // In the third one nothing happens.
        let all = [(1, 100), (1, 3000), (2, 50), (4, 70_000), (4, 20)];
        let of = |until: usize| counts(5, "worker", &all[..until]);
        totals.add(of(2), 1);
        let first = totals.take_interval();
        assert_eq!(first[0].delays, durations(&[100, 3000]));
        assert_eq!((first[0].longest_since, first[0].run_time), (4000, 20));
        totals.add(of(3), 2);
        let second = totals.take_interval();
        assert_eq!(second[0].delays, durations(&[50]));
        // Nothing happened: no row.
        totals.add(of(3), 3);
        assert!(totals.take_interval().is_empty());
        totals.add(SchedCounts { has_ended: true, ..of(5) }, 4);
        let last = totals.take_interval();
        assert_eq!(last[0].delays, durations(&[70_000, 20]));
        assert_eq!((last[0].pid, last[0].tid, &*last[0].name), (7, 105, "worker"));
        let rows = totals.into_rows();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].delays, durations(&[100, 3000, 50, 70_000, 20]));
        assert_eq!((rows[0].switches, rows[0].longest_since), (5, 71_000));
    }

    #[test]
    fn cpus_are_apart_or_together() {
        let check = |key, expect: &[(Option<u32>, u64)]| {
            let mut totals = Totals::new(key, false);
            for cpu in [1, 0] {
                let of = SchedCounts {
                    cpu: Some(cpu),
                    ..counts(0, "", &[(1, 100), (1, 20 + u64::from(cpu))])
                };
                totals.add(of, 1);
            }
            let rows = totals.into_rows();
            let found: Vec<_> = rows.iter().map(|row| (row.cpu, row.delays.total)).collect();
            assert_eq!(found, expect);
        };
        check(SchedKey::Cpu, &[(Some(0), 120), (Some(1), 121)]);
        check(SchedKey::Total, &[(None, 241)]);
    }

    /// Whatever ends, memory is bounded, and no time is lost.
    #[test]
    fn very_many_tasks_are_added_up_by_name() {
        let mut totals = Totals::new(SchedKey::Task, false);
        let tasks = MOST_ENDED as u32 + 100;
        for task in 1..=tasks {
            let name = ["a", "b"][task as usize % 2];
            let of = counts(task, name, &[(1, 100)]);
            totals.add(SchedCounts { has_ended: true, ..of }, 1);
        }
        let rows = totals.into_rows();
        assert!(rows.len() <= 102, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.switches).sum::<u64>(), u64::from(tasks));
        let sums: Vec<_> = rows.iter().filter(|row| row.pid == -1).map(|row| &*row.name).collect();
        assert_eq!(sums, ["a", "b"]);
    }
}
