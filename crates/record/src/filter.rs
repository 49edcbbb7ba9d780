//! Filters for records that come from all processes of the machine.

use std::collections::HashSet;
use std::ops::Range;

use pyrograph_event::{Header, Layout, Record, kind, sample_type};

/// Keeps only the records of some processes, or the samples of a time range.
#[derive(Debug)]
pub(crate) struct Filter {
    /// The processes whose records are kept, and true if child processes that they start are included. `None` for all.
    processes: Option<(HashSet<i32>, bool)>,
    /// Offset of the process and thread ID in a sample, in bytes.
    task: usize,
    /// Time range in which samples are kept, in nanoseconds of the records' clock.
    times: Range<u64>,
}

impl Filter {
    /// Keeps all records.
    pub(crate) fn all() -> Self {
        Self { processes: None, task: 0, times: 0..u64::MAX }
    }

    /// Keeps the records of these processes and, with `inherit`, of the processes that they start.
    pub(crate) fn of(pids: &[i32], inherit: bool, layout: &Layout) -> Self {
        let processes = Some((pids.iter().copied().collect(), inherit));
        Self { processes, task: task(layout), ..Self::all() }
    }

    /// Keeps only samples within these times.
    pub(crate) fn between(self, times: Range<u64>) -> Self {
        Self { times, ..self }
    }

    /// Returns true if a time is before those that are kept.
    pub(crate) fn is_early(&self, time: u64) -> bool {
        time < self.times.start
    }

    /// Returns true if a record is to be kept. Records must be passed in order of time.
    pub(crate) fn keeps(&mut self, kind: u32, time: u64, record: &[u8], layout: &Layout) -> bool {
        if kind == kind::SAMPLE && !self.times.contains(&time) {
            return false;
        }
        let pid = |at: usize| {
            let bytes = record.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| i32::from_ne_bytes(*bytes))
        };
        let Some((pids, inherit)) = &mut self.processes else { return true };
        match kind {
            kind::SAMPLE => pids.contains(&pid(self.task)),
            kind::FORK => {
                let Ok(Record::Fork(task)) = layout.decode(record) else { return true };
                if task.pid != task.parent_pid {
                    if *inherit && pids.contains(&task.parent_pid) {
                        pids.insert(task.pid);
                    } else {
                        // A new process reuses the PID of one that has ended.
                        pids.remove(&task.pid);
                    }
                }
                pids.contains(&task.pid)
            }
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::EXIT => pids.contains(&pid(Header::SIZE)),
            _ => true,
        }
    }
}

/// Offset of the process and thread ID in a sample, in bytes: they follow the instruction pointer.
fn task(layout: &Layout) -> usize {
    let before = layout.sample_type() & (sample_type::IDENTIFIER | sample_type::IP);
    Header::SIZE + 8 * before.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use pyrograph_event::{Attr, Comm, SampleId, Task};

    use super::*;

    fn layout() -> Layout {
        let fields = sample_type::IP | sample_type::TID | sample_type::TIME;
        Layout::new(&Attr { sample_type: fields, ..Attr::new() })
    }

    fn sample(pid: u64, tid: u64) -> Vec<u8> {
        let words = [u64::from(kind::SAMPLE) | 32 << 48, 0x1000, pid | tid << 32, 5];
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    fn keeps_sample(filter: &mut Filter, pid: u64) -> bool {
        filter.keeps(kind::SAMPLE, 5, &sample(pid, pid), &layout())
    }

    fn fork(filter: &mut Filter, parent_pid: i32, pid: i32) -> bool {
        let id = SampleId::default();
        let task = Task {
            pid,
            parent_pid,
            tid: pid,
            parent_tid: parent_pid,
            time: 5,
            synthesized: false,
            id,
        };
        let mut record = Vec::new();
        task.encode_fork(&layout(), &mut record);
        filter.keeps(kind::FORK, 5, &record, &layout())
    }

    #[test]
    fn idle_cpus_are_dropped() {
        let mut filter = Filter::of(&[7], false, &layout());
        assert!(keeps_sample(&mut filter, 7) && !keeps_sample(&mut filter, 0));
        assert!(keeps_sample(&mut Filter::all(), 0));
    }

    #[test]
    fn processes_are_kept_with_those_that_they_start() {
        let mut filter = Filter::of(&[7], true, &layout());
        assert!(fork(&mut filter, 7, 8) && !fork(&mut filter, 9, 10) && fork(&mut filter, 8, 11));
        let kept = [7, 8, 9, 10, 11].map(|pid| keeps_sample(&mut filter, pid));
        assert_eq!(kept, [true, true, false, false, true]);
        // Another process has the number of one that has ended.
        assert!(!fork(&mut filter, 9, 8) && !keeps_sample(&mut filter, 8));
        let mut alone = Filter::of(&[7], false, &layout());
        assert!(!fork(&mut alone, 7, 8) && !keeps_sample(&mut alone, 8));
        let mut name = Vec::new();
        let id = SampleId::default();
        Comm { pid: 8, tid: 8, name: b"a", exec: false, id }.encode(&layout(), &mut name);
        assert!(!alone.keeps(kind::COMM, 5, &name, &layout()));
    }

    #[test]
    fn samples_of_other_times_are_dropped() {
        let mut filter = Filter::all().between(3..6);
        let kept =
            [2, 3, 5, 6].map(|time| filter.keeps(kind::SAMPLE, time, &sample(7, 7), &layout()));
        assert_eq!(kept, [false, true, true, false]);
        assert!(filter.is_early(2) && !filter.is_early(3) && !filter.is_early(6));
        assert!(filter.keeps(kind::EXIT, 9, &[], &layout()));
    }
}
