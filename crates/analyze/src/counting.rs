//! Statistics of event counts without stacks: summaries of several runs, and comparisons of two commands.
//!
//! Means have 95 % confidence intervals by Student's t. The change between two commands has the interval of Welch's t
//! test, relative to the mean before (B. L. Welch, "The generalization of Student's problem when several different
//! population variances are involved", 1947). Outliers are values more than 4.5 standard deviations from the median,
//! with the standard deviation estimated from the median absolute deviation.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pyrograph_profile::{CommandUsage, CountRun, Counter, RangeCount};

use crate::Verdict;
use crate::diff::spread::student_quantile;

/// Mean of the values of several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half width of the 95 % confidence interval; `None` for a single run.
    pub half_width: Option<f64>,
    /// Outliers: run number, starting at 1, and value.
    pub outliers: Vec<(usize, f64)>,
}

/// A derived value that explains a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CountNote {
    /// Average number of CPUs in use.
    CpusUsed(f64),
    /// Rate per second of CPU time or, if CPU time is not counted, of elapsed time.
    PerSecond(f64),
    /// Cycles per nanosecond.
    Gigahertz(f64),
    /// Instructions per cycle.
    PerCycle(f64),
    /// Name of another counter, and the ratio to it: a share from 0 to 1.
    ShareOf(&'static str, f64),
}

/// Value of one counter for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRow {
    /// Key, as in [`CountValue::key`](pyrograph_profile::CountValue::key).
    pub key: String,
    /// Index into [`CountSummary::counters`].
    pub counter: usize,
    /// Value per run; `None` if the counter was never scheduled on the hardware.
    pub value: Option<Mean>,
    /// Share of the enabled time in which the counter was running; values are scaled if this is less than 1.
    pub running: f64,
    /// Derived value, if there is one for this counter.
    pub note: Option<CountNote>,
}

/// Counts of one or several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CountSummary {
    /// The counters.
    pub counters: Vec<Counter>,
    /// Rows sorted by key, then in the order of the counters.
    pub rows: Vec<CountRow>,
    /// Ranges of values by key, counter and value, all runs added up.
    pub ranges: Vec<RangeCount>,
    /// Number of runs.
    pub runs: usize,
    /// Elapsed time in seconds.
    pub elapsed: Mean,
    /// CPU time in user mode and in kernel mode, in seconds, and peak memory in bytes, if a command was run.
    pub usage: Option<[Mean; 3]>,
}

impl CountSummary {
    /// Keeps the first `most` keys, and what belongs to no key. Returns the number of keys that were left out.
    pub fn keep_keys(&mut self, most: usize) -> usize {
        let mut keys: Vec<String> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.key.is_empty()) {
            if keys.last() != Some(&row.key) {
                keys.push(row.key.clone());
            }
        }
        let left_out = keys.len().saturating_sub(most);
        keys.truncate(most);
        let is_kept = |key: &String| key.is_empty() || keys.contains(key);
        self.rows.retain(|row| is_kept(&row.key));
        self.ranges.retain(|range| is_kept(&range.key));
        left_out
    }

    /// Sorts keys by the value of the first counter, largest first; keys with equal values by the next counter, and
    /// finally by name.
    pub fn order_by_value(&mut self) {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for row in &self.rows {
            let of_key = values.entry(row.key.clone()).or_default();
            of_key.resize(self.counters.len().max(row.counter + 1), 0.0);
            of_key[row.counter] = row.value.as_ref().map_or(0.0, |mean| mean.mean);
        }
        // The sort is stable: rows of a key stay in the order of the counters, and equal keys in alphabetical order.
        self.rows.sort_by(|a, b| {
            let pairs = values[&a.key].iter().zip(&values[&b.key]);
            let order = pairs.map(|(a, b)| b.total_cmp(a)).find(|order| order.is_ne());
            order.unwrap_or(Ordering::Equal)
        });
    }
}

/// Change of one counter between two commands.
#[derive(Clone, Debug, PartialEq)]
pub struct CountChange {
    /// Name of the counter.
    pub name: String,
    /// Unit: `ns`, `s`, `bytes`, or empty.
    pub unit: &'static str,
    /// Mean of the first command.
    pub before: Mean,
    /// Mean of the second command.
    pub after: Mean,
    /// Relative change, and the lower and upper bound of its 95 % confidence interval; `None` if the mean before is 0.
    pub change: Option<[f64; 3]>,
    /// Verdict: more, less, or noise.
    pub verdict: Verdict,
}

/// Computes the mean of values, one per run.
///
/// # Panics
///
/// Never; the mean of no values is 0.
pub fn mean(values: &[f64]) -> Mean {
    let count = values.len() as f64;
    let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
    let half_width = (values.len() > 1)
        .then(|| student_quantile(0.05, count - 1.0) * (variance(values, mean) / count).sqrt());
    Mean { mean, half_width, outliers: outliers(values) }
}

fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => 0.5 * (values[middle - 1] + values[middle]),
    }
}

/// Minimum number of runs for detecting outliers; fewer do not show which run is the outlier.
const FEWEST_RUNS: usize = 5;

fn outliers(values: &[f64]) -> Vec<(usize, f64)> {
    if values.len() < FEWEST_RUNS {
        return Vec::new();
    }
    let middle = median(&mut values.to_vec());
    let spread = median(&mut values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>());
    // For a normal distribution, the standard deviation is 1.4826 times the median absolute deviation.
    let limit = 4.5 * 1.4826 * spread;
    let is_far = |value: f64| spread > 0.0 && (value - middle).abs() > limit;
    let numbered = values.iter().enumerate().filter(|&(_, &value)| is_far(value));
    numbered.map(|(run, &value)| (run + 1, value)).collect()
}

/// Sum of a counter, its enabled time and its running time, by key and counter.
fn sums(run: &CountRun) -> BTreeMap<(&str, usize), (f64, u64, u64)> {
    let mut sums: BTreeMap<(&str, usize), (f64, u64, u64)> = BTreeMap::new();
    for value in &run.values {
        let (sum, enabled, running) = sums.entry((&value.key, value.counter)).or_default();
        if value.running > 0 {
            *sum += value.value as f64 * (value.enabled as f64 / value.running as f64);
        }
        *enabled = enabled.saturating_add(value.enabled);
        *running = running.saturating_add(value.running);
    }
    sums
}

/// Summarizes the counters over all runs. Values of multiplexed counters are scaled by enabled over running time.
pub fn summarize(counters: Vec<Counter>, runs: &[CountRun]) -> CountSummary {
    let sums: Vec<_> = runs.iter().map(sums).collect();
    let keys: std::collections::BTreeSet<(&str, usize)> =
        sums.iter().flat_map(|sums| sums.keys().copied()).collect();
    let elapsed = mean(&runs.iter().map(|run| run.elapsed.as_secs_f64()).collect::<Vec<_>>());
    let mut rows: Vec<CountRow> = keys
        .iter()
        .map(|&(key, counter)| {
            let of = |run: &BTreeMap<(&str, usize), (f64, u64, u64)>| {
                run.get(&(key, counter)).copied().unwrap_or_default()
            };
            let values: Vec<f64> = sums.iter().map(|run| of(run).0).collect();
            let enabled: u64 = sums.iter().map(|run| of(run).1).sum();
            let running: u64 = sums.iter().map(|run| of(run).2).sum();
            CountRow {
                key: key.to_owned(),
                counter,
                value: (enabled == 0 || running > 0).then(|| mean(&values)),
                running: if enabled == 0 { 1.0 } else { running as f64 / enabled as f64 },
                note: None,
            }
        })
        .collect();
    rows.sort_by(|a, b| natural(&a.key).cmp(&natural(&b.key)).then(a.counter.cmp(&b.counter)));
    annotate(&counters, &mut rows, elapsed.mean);
    let usages: Option<Vec<CommandUsage>> = runs.iter().map(|run| run.usage).collect();
    let usage = usages.filter(|usages| !usages.is_empty()).map(|usages| {
        let of = |value: &dyn Fn(&CommandUsage) -> f64| {
            mean(&usages.iter().map(value).collect::<Vec<_>>())
        };
        [
            of(&|usage| usage.user.as_secs_f64()),
            of(&|usage| usage.system.as_secs_f64()),
            of(&|usage| usage.peak_memory as f64),
        ]
    });
    CountSummary { counters, rows, ranges: ranges(runs), runs: runs.len(), elapsed, usage }
}

/// Adds up the ranges of all runs, in the order of their values.
fn ranges(runs: &[CountRun]) -> Vec<RangeCount> {
    let mut all: BTreeMap<(String, usize, i64), RangeCount> = BTreeMap::new();
    for range in runs.iter().flat_map(|run| &run.ranges) {
        let key = (range.key.clone(), range.counter, range.first);
        match all.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().count += range.count,
            Entry::Vacant(free) => {
                free.insert(range.clone());
            }
        }
    }
    all.into_values().collect()
}

/// Sort key that orders trailing numbers by value: `CPU 2` before `CPU 10`.
fn natural(text: &str) -> (String, u64, String) {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let number = text[digits..].parse().unwrap_or(0);
    (text[..digits].to_owned(), number, text.to_owned())
}

/// Adds derived values to rows.
fn annotate(counters: &[Counter], rows: &mut [CountRow], elapsed: f64) {
    let base = |name: &str| name.split(':').next().unwrap_or(name).to_owned();
    let values: BTreeMap<(String, String), f64> = rows
        .iter()
        .filter_map(|row| {
            let name = base(&counters.get(row.counter)?.name);
            Some(((row.key.clone(), name), row.value.as_ref()?.mean))
        })
        .collect();
    for row in rows {
        let (Some(counter), Some(value)) = (counters.get(row.counter), &row.value) else {
            continue;
        };
        let of = |name: &str| values.get(&(row.key.clone(), name.to_owned())).copied();
        let ratio = |of: Option<f64>| of.filter(|&of| of > 0.0).map(|of| value.mean / of);
        let time = of("task-clock").or_else(|| of("cpu-clock")).unwrap_or(elapsed * 1e9);
        row.note = match &base(&counter.name)[..] {
            "task-clock" | "cpu-clock" => ratio(Some(elapsed * 1e9)).map(CountNote::CpusUsed),
            "cycles" => ratio(Some(time)).map(CountNote::Gigahertz),
            "instructions" => ratio(of("cycles")).map(CountNote::PerCycle),
            "branch-misses" => {
                ratio(of("branches")).map(|share| CountNote::ShareOf("branches", share))
            }
            "cache-misses" => ratio(of("cache-references"))
                .map(|share| CountNote::ShareOf("cache-references", share)),
            _ if counter.is_time || value.mean == 0.0 => None,
            _ => ratio(Some(time / 1e9)).map(CountNote::PerSecond),
        };
    }
}

/// Compares the counters, elapsed and CPU times, and peak memory of two commands.
pub fn compare_counts(
    counters: &[Counter],
    before: &[CountRun],
    after: &[CountRun],
) -> Vec<CountChange> {
    let total = |runs: &[CountRun], counter: usize| -> Vec<f64> {
        let sum = |run: &CountRun| {
            sums(run).iter().filter(|((_, of), _)| *of == counter).map(|(_, sum)| sum.0).sum()
        };
        runs.iter().map(sum).collect()
    };
    let mut changes: Vec<CountChange> = counters
        .iter()
        .enumerate()
        .map(|(index, counter)| {
            let unit = if counter.is_time { "ns" } else { "" };
            change(counter.name.clone(), unit, &total(before, index), &total(after, index))
        })
        .collect();
    type Measure<'a> = (&'a str, &'static str, &'a dyn Fn(&CountRun) -> Option<f64>);
    let measures: [Measure<'_>; 4] = [
        ("elapsed", "s", &|run| Some(run.elapsed.as_secs_f64())),
        ("user", "s", &|run| run.usage.map(|usage| usage.user.as_secs_f64())),
        ("system", "s", &|run| run.usage.map(|usage| usage.system.as_secs_f64())),
        ("peak memory", "bytes", &|run| run.usage.map(|usage| usage.peak_memory as f64)),
    ];
    for (name, unit, of) in measures {
        let values = |runs: &[CountRun]| runs.iter().map(of).collect::<Option<Vec<f64>>>();
        if let (Some(before), Some(after)) = (values(before), values(after)) {
            changes.push(change(name.to_owned(), unit, &before, &after));
        }
    }
    changes
}

impl CountChange {
    /// Returns true if the count rose beyond noise, and by more than this percentage.
    pub fn is_over(&self, percent: f64) -> bool {
        let share = self.change.map_or(f64::INFINITY, |[change, ..]| change);
        self.verdict == Verdict::More && share * 100.0 > percent
    }
}

fn change(name: String, unit: &'static str, before: &[f64], after: &[f64]) -> CountChange {
    let (mean_before, mean_after) = (mean(before), mean(after));
    let difference = mean_after.mean - mean_before.mean;
    // Half width of Welch's interval; infinite if a side has only one run.
    let half = match (before.len(), after.len()) {
        (0 | 1, _) | (_, 0 | 1) => f64::INFINITY,
        (count_before, count_after) => {
            let (count_before, count_after) = (count_before as f64, count_after as f64);
            let a = variance(before, mean_before.mean) / count_before;
            let b = variance(after, mean_after.mean) / count_after;
            let freedom = (a + b).powi(2)
                / (a.powi(2) / (count_before - 1.0) + b.powi(2) / (count_after - 1.0));
            // Without any spread between runs, every difference counts.
            if a + b == 0.0 { 0.0 } else { student_quantile(0.05, freedom) * (a + b).sqrt() }
        }
    };
    let verdict = match difference {
        more if more > half => Verdict::More,
        less if less < -half => Verdict::Less,
        _ => Verdict::Noise,
    };
    let change = (mean_before.mean > 0.0).then(|| {
        let [change, low, high] =
            [difference, difference - half, difference + half].map(|of| of / mean_before.mean);
        // No count is less than nothing.
        [change, if low.is_finite() { low.max(-1.0) } else { low }, high]
    });
    CountChange { name, unit, before: mean_before, after: mean_after, change, verdict }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pyrograph_profile::CountValue;

    use super::*;

    fn counter(name: &str) -> Counter {
        Counter { name: name.to_owned(), is_time: name.ends_with("-clock"), user_only: false }
    }

    fn run(values: &[(&str, usize, i64, u64, u64)]) -> CountRun {
        let values = values.iter().map(|&(key, counter, value, enabled, running)| CountValue {
            key: key.to_owned(),
            counter,
            value,
            enabled,
            running,
        });
        let (elapsed, ranges) = (Duration::from_secs(2), Vec::new());
        CountRun { values: values.collect(), ranges, elapsed, usage: None }
    }

    /// Bounds were as low as −530 %.
    #[test]
    fn no_count_is_less_than_nothing() {
        let [change, low, high] =
            change("faults".to_owned(), "", &[1.0, 9.0, 0.0], &[1.0, 0.0, 2.0])
                .change
                .expect("a mean before");
        assert!(low == -1.0 && change < 0.0 && high > 0.0, "{change} {low} {high}");
    }

    #[test]
    fn counts_are_added_up_scaled_and_explained() {
        let counters =
            ["task-clock", "cycles", "instructions", "page-faults"].map(counter).to_vec();
        let run = run(&[
            ("", 0, 500_000_000, 10, 10),
            ("", 0, 500_000_000, 10, 10),
            // On the hardware for half of the time.
            ("", 1, 1_000_000_000, 10, 5),
            ("", 2, 4_000_000_000, 10, 10),
            ("", 3, 50, 10, 10),
        ]);
        let summary = summarize(counters, &[run]);
        let value = |row: usize| summary.rows[row].value.as_ref().map(|mean| mean.mean);
        assert_eq!(value(0), Some(1e9));
        assert_eq!(summary.rows[0].note, Some(CountNote::CpusUsed(0.5)));
        assert_eq!((value(1), summary.rows[1].running), (Some(2e9), 0.5));
        assert_eq!(summary.rows[1].note, Some(CountNote::Gigahertz(2.0)));
        assert_eq!(summary.rows[2].note, Some(CountNote::PerCycle(2.0)));
        assert_eq!(summary.rows[3].note, Some(CountNote::PerSecond(50.0)));
    }

    #[test]
    fn keys_are_in_the_order_of_their_values() {
        let counters = ["task-clock", "page-faults"].map(counter).to_vec();
        let run = run(&[
            ("a", 0, 5, 1, 1),
            ("a", 1, 9, 1, 1),
            ("b", 0, 7, 1, 1),
            // Not on a CPU.
            ("c", 1, 8, 1, 1),
            ("e 10", 0, 5, 1, 1),
            ("e 9", 0, 5, 1, 1),
            ("d", 0, 5, 1, 1),
            ("d", 1, 10, 1, 1),
        ]);
        let mut summary = summarize(counters, &[run]);
        summary.order_by_value();
        let rows: Vec<_> = summary.rows.iter().map(|row| (&row.key[..], row.counter)).collect();
        let expect = [("b", 0), ("d", 0), ("d", 1), ("a", 0), ("a", 1), ("e 9", 0), ("e 10", 0)];
        assert_eq!(rows[..7], expect);
        assert_eq!(rows[7..], [("c", 1)]);
    }

    #[test]
    fn a_counter_without_time_on_the_hardware_has_no_value() {
        let summary = summarize(vec![counter("cycles")], &[run(&[("", 0, 0, 10, 0)])]);
        assert_eq!((summary.rows[0].value.clone(), summary.rows[0].running), (None, 0.0));
    }

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let run = run(&[("CPU 10", 0, 1, 1, 1), ("CPU 2", 0, 1, 1, 1), ("CPU 2", 1, 1, 1, 1)]);
        let summary = summarize(vec![counter("a"), counter("b")], &[run]);
        let keys: Vec<_> = summary.rows.iter().map(|row| (&row.key[..], row.counter)).collect();
        assert_eq!(keys, [("CPU 2", 0), ("CPU 2", 1), ("CPU 10", 0)]);
    }

    #[test]
    fn means_have_the_interval_of_students_t() {
        let mean = mean(&[1.0, 2.0, 3.0, 4.0]);
        // Standard deviation 1.29099, t of 3 degrees of freedom 3.18245.
        assert!((mean.mean - 2.5).abs() < 1e-12);
        assert!((mean.half_width.unwrap_or(0.0) - 2.0542).abs() < 1e-3, "{mean:?}");
    }

    #[test]
    fn a_run_that_is_far_off_is_an_outlier() {
        assert_eq!(mean(&[10.0, 11.0, 10.5, 10.2, 30.0]).outliers, [(5, 30.0)]);
        assert_eq!(mean(&[10.0, 11.0, 10.5, 10.2, 10.9]).outliers, []);
        assert_eq!(mean(&[10.0, 10.0, 10.0, 10.0, 11.0]).outliers, [], "nothing to measure it by");
    }

    #[test]
    fn changes_beyond_noise_are_named() {
        let runs = |values: [i64; 5]| values.map(|value| run(&[("", 0, value, 1, 1)]));
        let verdict = |before, after| {
            compare_counts(&[counter("cycles")], &runs(before), &runs(after))[0].verdict
        };
        let base = [100, 102, 98, 101, 99];
        assert_eq!(verdict(base, [110, 112, 108, 111, 109]), Verdict::More);
        assert_eq!(verdict(base, [90, 92, 88, 91, 89]), Verdict::Less);
        assert_eq!(verdict(base, [101, 103, 97, 100, 99]), Verdict::Noise);
        assert_eq!(verdict([5; 5], [6; 5]), Verdict::More, "exact counts that differ");
        assert_eq!(verdict([5; 5], [5; 5]), Verdict::Noise);
    }

    /// The interval of 95 % misses the true change in about one of twenty comparisons.
    #[test]
    fn intervals_hold_the_true_change_as_often_as_they_claim() {
        use rand::rngs::StdRng;
        use rand::{RngExt, SeedableRng};
        let mut random = StdRng::seed_from_u64(14);
        // A sum of twelve even numbers is as good as normal.
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut missed = 0;
        for _ in 0..2000 {
            let mut values =
                |mean: f64| -> Vec<f64> { (0..6).map(|_| mean + mean * 0.05 * normal()).collect() };
            let (before, after) = (values(100.0), values(110.0));
            let change = change(String::new(), "", &before, &after);
            let [_, low, high] = change.change.expect("a mean before");
            // Relative to the mean that was seen, as the interval is.
            let truth = 10.0 / change.before.mean;
            missed += usize::from(truth < low || truth > high);
        }
        assert!((60..140).contains(&missed), "{missed} of 2,000 missed");
    }
}
