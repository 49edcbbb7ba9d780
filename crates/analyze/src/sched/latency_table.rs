//! Table of run times and run queue latencies, from counts made here or in the kernel.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use pyrograph_profile::{Durations, SchedCount};

/// Grouping of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyBy {
    /// One row per thread name.
    #[default]
    Name,
    /// One row per thread.
    Thread,
    /// One row per CPU.
    Cpu,
    /// No rows, only the total.
    Total,
}

/// Sort key of rows, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencySort {
    /// Run time.
    Runtime,
    /// Number of switches to the task.
    Switches,
    /// Mean delay.
    Average,
    /// Longest delay.
    Longest,
}

/// A row: the times of one or several tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyRow {
    /// Name of the threads; empty for a CPU or the total.
    pub name: String,
    /// Thread ID, if the row is about a single thread.
    pub tid: Option<i32>,
    /// Process ID of that thread; −1 if unknown.
    pub pid: i32,
    /// Number of threads.
    pub threads: usize,
    /// CPU, if rows are per CPU.
    pub cpu: Option<u32>,
    /// Run time in nanoseconds.
    pub run_time: u64,
    /// Number of switches to these threads.
    pub switches: u64,
    /// Run queue latencies: the times that threads waited for a CPU, as far as they are known.
    pub delays: Durations,
    /// Start of the longest delay, in nanoseconds on the recording's clock.
    pub longest_since: u64,
    /// Durations on a CPU, as far as they are known.
    pub on_cpu: Durations,
    /// Durations off the CPU between these.
    pub off_cpu: Durations,
}

/// Rows and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyTable {
    /// Grouping of the rows.
    pub by: LatencyBy,
    /// Sorted rows.
    pub rows: Vec<LatencyRow>,
    /// Sum of all rows.
    pub total: LatencyRow,
    /// Time range in nanoseconds since the start of the recording, if this is one of several tables.
    pub interval: Option<Range<u64>>,
}

impl LatencyRow {
    fn add(&mut self, count: &SchedCount) {
        if count.delays.count > 0
            && (self.delays.count == 0 || count.delays.longest > self.delays.longest)
        {
            self.longest_since = count.longest_since;
        }
        self.run_time = self.run_time.saturating_add(count.run_time);
        self.switches = self.switches.saturating_add(count.switches);
        self.delays.merge(&count.delays);
        self.on_cpu.merge(&count.on_cpu);
        self.off_cpu.merge(&count.off_cpu);
    }
}

/// Sums counts by row. `sort` contains the sort keys, most significant first.
pub fn sched_latency_table(
    counts: &[SchedCount],
    by: LatencyBy,
    sort: &[LatencySort],
) -> LatencyTable {
    let mut total = LatencyRow { pid: -1, ..LatencyRow::default() };
    // Tasks with the same ID, one after the other, have different names or are the same thread to the user.
    let mut rows: BTreeMap<(String, i32, u32), (LatencyRow, Vec<i32>)> = BTreeMap::new();
    let mut threads = Vec::new();
    for count in counts {
        total.add(count);
        threads.push(count.tid);
        let key = match by {
            LatencyBy::Name => (count.name.clone(), 0, 0),
            LatencyBy::Thread => (count.name.clone(), count.tid, 0),
            LatencyBy::Cpu => (String::new(), 0, count.cpu.unwrap_or(0)),
            LatencyBy::Total => continue,
        };
        let (row, of) = rows.entry(key).or_insert_with(|| {
            let name = if by == LatencyBy::Cpu { String::new() } else { count.name.clone() };
            let cpu = count.cpu.filter(|_| by == LatencyBy::Cpu);
            (LatencyRow { name, pid: count.pid, cpu, ..LatencyRow::default() }, Vec::new())
        });
        row.add(count);
        of.push(count.tid);
    }
    total.threads = distinct(&mut threads);
    let row = |(mut row, mut of): (LatencyRow, Vec<i32>)| {
        row.threads = distinct(&mut of);
        row.tid = of.first().copied().filter(|_| row.threads == 1 && by != LatencyBy::Cpu);
        row
    };
    let mut rows: Vec<LatencyRow> = rows.into_values().map(row).collect();
    // The sort is stable: equal rows stay in the order of names and IDs.
    if by != LatencyBy::Cpu {
        for key in sort.iter().rev() {
            match key {
                LatencySort::Runtime => rows.sort_by_key(|row| Reverse(row.run_time)),
                LatencySort::Switches => rows.sort_by_key(|row| Reverse(row.switches)),
                LatencySort::Average => {
                    rows.sort_by(|a, b| b.delays.mean().total_cmp(&a.delays.mean()));
                }
                LatencySort::Longest => rows.sort_by_key(|row| Reverse(row.delays.longest)),
            }
        }
    }
    LatencyTable { by, rows, total, interval: None }
}

fn distinct(threads: &mut Vec<i32>) -> usize {
    threads.sort_unstable();
    threads.dedup();
    threads.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, tid: i32, run_time: u64, delays: &[u64]) -> SchedCount {
        let mut of = Durations::default();
        delays.iter().for_each(|delay| of.add(*delay));
        let name = name.to_owned();
        let switches = delays.len() as u64;
        let longest_since = 1000 + u64::from(tid.cast_unsigned());
        SchedCount {
            tid,
            name,
            run_time,
            switches,
            delays: of,
            longest_since,
            ..SchedCount::default()
        }
    }

    /// Rows as text: name, thread or number of threads, run time, switches, mean and longest delay, when.
    fn rows(table: &LatencyTable) -> Vec<String> {
        let row = |row: &LatencyRow| {
            let thread = row.tid.map_or(format!("({})", row.threads), |tid| tid.to_string());
            let (mean, longest) = (row.delays.mean(), row.delays.longest);
            let (time, switches) = (row.run_time, row.switches);
            format!(
                "{}:{thread} {time} {switches} {mean} {longest} {}",
                row.name, row.longest_since
            )
        };
        table.rows.iter().map(row).collect()
    }

    #[test]
    fn rows_of_names_and_of_threads() {
        let counts = [
            count("sh", 1, 10, &[10, 30]),
            count("ls", 2, 5, &[100]),
            count("sh", 3, 20, &[50]),
            count("idle", 4, 7, &[]),
        ];
        let table = sched_latency_table(&counts, LatencyBy::Name, &[LatencySort::Average]);
        assert_eq!(
            rows(&table),
            ["ls:2 5 1 100 100 1002", "sh:(2) 30 3 30 50 1003", "idle:4 7 0 0 0 0"]
        );
        assert_eq!((table.total.run_time, table.total.switches, table.total.threads), (42, 4, 4));
        assert_eq!((table.total.delays.longest, table.total.longest_since), (100, 1002));
        let sort = [LatencySort::Switches, LatencySort::Runtime];
        let table = sched_latency_table(&counts, LatencyBy::Thread, &sort);
        assert_eq!(
            rows(&table),
            [
                "sh:1 10 2 20 30 1001",
                "sh:3 20 1 50 50 1003",
                "ls:2 5 1 100 100 1002",
                "idle:4 7 0 0 0 0"
            ]
        );
    }

    #[test]
    fn rows_of_cpus_are_in_their_order() {
        let on = |cpu, of| SchedCount { cpu: Some(cpu), ..of };
        let counts = [
            on(1, count("a", 1, 10, &[9])),
            on(0, count("b", 2, 5, &[3])),
            on(1, count("b", 2, 1, &[])),
        ];
        let table = sched_latency_table(&counts, LatencyBy::Cpu, &[LatencySort::Average]);
        let shown: Vec<_> =
            table.rows.iter().map(|row| (row.cpu, row.run_time, row.threads)).collect();
        assert_eq!(shown, [(Some(0), 5, 1), (Some(1), 11, 2)]);
        let table = sched_latency_table(&counts, LatencyBy::Total, &[]);
        assert_eq!((table.rows.len(), table.total.threads, table.total.run_time), (0, 2, 16));
    }
}
