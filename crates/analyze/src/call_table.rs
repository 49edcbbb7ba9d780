//! Tables of system calls: per thread, process or control group, or for all together.

use std::collections::BTreeMap;
use std::time::Duration;

use pyrograph_profile::{CallCount, Durations};

/// Grouping of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKey {
    /// One group per thread.
    Thread,
    /// One group per process.
    #[default]
    Process,
    /// One group per control group.
    Group,
    /// One group for all calls.
    None,
}

/// Table of counted system calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallTable {
    /// Elapsed time, if known.
    pub elapsed: Option<Duration>,
    /// End of this table's interval, measured from the start of the trace, if there are several tables.
    pub end: Option<Duration>,
    /// One group per thread, process or control group, most time first.
    pub groups: Vec<CallGroup>,
}

/// Calls of a thread, process or control group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallGroup {
    /// Title, such as `ls (1234)`; empty if all calls are in one group.
    pub title: String,
    /// One row per system call, most time first.
    pub rows: Vec<CallRow>,
    /// Sums over all rows.
    pub all: CallRow,
}

/// Calls of one system call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallRow {
    /// Name of the system call.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls by error name.
    pub errors: BTreeMap<String, u64>,
    /// Durations of the calls, as far as they are known.
    pub times: Durations,
    /// Total duration as a share of the elapsed time; above 1 if several threads together took longer.
    pub share: Option<f64>,
}

impl CallRow {
    /// Returns the number of failed calls.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn add(&mut self, count: &CallCount) {
        self.calls += count.calls;
        self.times.merge(&count.times);
        for (error, failed) in &count.errors {
            *self.errors.entry(error.clone()).or_default() += failed;
        }
    }
}

/// Formats a title: `ls (1234)`, or `process 1234` if the name is not known, as in text of strace.
fn title(kind: &str, name: &str, number: i32) -> String {
    match name {
        "" => format!("{kind} {number}"),
        name => format!("{name} ({number})"),
    }
}

/// Builds a table from call counts.
pub fn call_table(counts: &[CallCount], by: CallKey, elapsed: Option<Duration>) -> CallTable {
    /// Title of a group, and its rows by name of the system call.
    type Rows<'a> = (String, BTreeMap<&'a str, CallRow>);
    let mut groups: BTreeMap<(i32, &str), Rows<'_>> = BTreeMap::new();
    for count in counts {
        let (key, title) = match by {
            CallKey::Thread => {
                ((count.thread, ""), title("thread", &count.thread_name, count.thread))
            }
            CallKey::Process => {
                ((count.process, ""), title("process", &count.process_name, count.process))
            }
            CallKey::Group => ((0, &count.group[..]), count.group.clone()),
            CallKey::None => ((0, ""), String::new()),
        };
        let (known, rows) = groups.entry(key).or_default();
        // After `execve`, a process has the name of the new program; the last name wins.
        *known = title;
        rows.entry(&count.name).or_default().add(count);
    }
    let share = |row: &mut CallRow| {
        let elapsed = elapsed.map(|time| time.as_nanos() as f64).filter(|time| *time > 0.0);
        row.share = elapsed.map(|elapsed| row.times.total as f64 / elapsed);
    };
    let mut groups: Vec<CallGroup> = groups
        .into_values()
        .map(|(title, rows)| {
            let mut all = CallRow::default();
            let mut rows: Vec<CallRow> = rows
                .into_iter()
                .map(|(name, row)| CallRow { name: name.to_owned(), ..row })
                .collect();
            for row in &mut rows {
                share(row);
                all.calls += row.calls;
                all.times.merge(&row.times);
                for (error, failed) in &row.errors {
                    *all.errors.entry(error.clone()).or_default() += failed;
                }
            }
            share(&mut all);
            rows.sort_by(|a, b| {
                let key = |row: &CallRow| (row.times.total, row.calls);
                key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name))
            });
            CallGroup { title, rows, all }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse((group.all.times.total, group.all.calls)));
    CallTable { elapsed, end: None, groups }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(process: i32, thread: i32, name: &str, times: &[u64], failed: u64) -> CallCount {
        let mut sum = Durations::default();
        times.iter().for_each(|time| sum.add(*time));
        CallCount {
            process,
            process_name: format!("p{process}"),
            thread,
            thread_name: format!("t{thread}"),
            name: name.to_owned(),
            calls: times.len() as u64,
            errors: [("ENOENT".to_owned(), failed)].into_iter().filter(|(_, n)| *n > 0).collect(),
            times: sum,
            ..CallCount::default()
        }
    }

    #[test]
    fn counts_add_up_however_they_are_grouped() {
        let counts = [
            count(1, 1, "read", &[100, 200], 1),
            count(1, 2, "read", &[300], 0),
            count(1, 2, "openat", &[1000], 1),
            count(3, 3, "read", &[5000], 0),
            // Taken twice.
            count(1, 1, "read", &[50], 0),
        ];
        let elapsed = Some(Duration::from_nanos(10_000));
        for (by, titles) in [
            (CallKey::None, vec![""]),
            (CallKey::Process, vec!["p3 (3)", "p1 (1)"]),
            (CallKey::Thread, vec!["t3 (3)", "t2 (2)", "t1 (1)"]),
        ] {
            let table = call_table(&counts, by, elapsed);
            let found: Vec<&str> = table.groups.iter().map(|group| &group.title[..]).collect();
            assert_eq!(found, titles);
            let all = table.groups.iter().flat_map(|group| &group.rows);
            let sums = all.fold((0, 0, 0), |(calls, failed, total), row| {
                (calls + row.calls, failed + row.failed(), total + row.times.total)
            });
            assert_eq!(sums, (6, 2, 6650), "{by:?}");
            let all: u64 = table.groups.iter().map(|group| group.all.calls).sum();
            assert_eq!(all, 6);
        }
        let table = call_table(&counts, CallKey::None, elapsed);
        let names: Vec<&str> = table.groups[0].rows.iter().map(|row| &row.name[..]).collect();
        assert_eq!(names, ["read", "openat"]);
        assert_eq!(table.groups[0].rows[0].share, Some(0.565));
    }
}
