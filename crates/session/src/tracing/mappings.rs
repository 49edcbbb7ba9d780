//! Mappings of traced processes: files, heap, stack.

use std::collections::{BTreeMap, HashMap};

use pyrograph_event::Record;

/// Mappings of processes, from the kernel's records and `/proc`.
#[derive(Debug, Default)]
pub struct Mappings {
    processes: HashMap<i32, BTreeMap<u64, Mapping>>,
}

/// A mapping. Its start is the key in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    end: u64,
    offset: u64,
    name: String,
}

impl Mapping {
    fn new(end: u64, offset: u64, path: &[u8]) -> Self {
        Self { end, offset, name: String::from_utf8_lossy(path).into_owned() }
    }
}

impl Mappings {
    /// Handles a record.
    pub fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(it) => self.map(it.pid, it.start, it.len, it.offset, it.path),
            Record::Mmap2(it) => self.map(it.pid, it.start, it.len, it.offset, it.path),
            Record::Comm(comm) if comm.exec => {
                self.processes.remove(&comm.pid);
            }
            Record::Fork(task) if task.pid != task.parent_pid => {
                let parent = self.processes.get(&task.parent_pid).cloned();
                self.processes.insert(task.pid, parent.unwrap_or_default());
            }
            // A fault of another thread of the process may still follow.
            Record::Exit(task) if task.pid == task.tid => {
                self.processes.remove(&task.pid);
            }
            _ => {}
        }
    }

    fn map(&mut self, pid: i32, start: u64, len: u64, offset: u64, path: &[u8]) {
        let Some(end) = start.checked_add(len) else { return };
        let mapping = Mapping::new(end, offset, path);
        add(self.processes.entry(pid).or_default(), start, mapping);
    }

    /// Describes an address: a file and the offset in it, `heap`, `stack`, `anon` or `kernel`. Empty if it is not
    /// known.
    pub fn describe(&mut self, pid: i32, address: u64) -> String {
        if address >= 1 << 63 {
            return "kernel".to_owned();
        }
        if let Some(text) = self.find(pid, address) {
            return text;
        }
        // Heap and stack grow without a record, and processes that ran already had mappings before.
        if let Ok(mappings) = pyrograph_record::mappings(pid) {
            let known = self.processes.entry(pid).or_default();
            for it in mappings {
                add(known, it.start, Mapping::new(it.end, it.offset, &it.path));
            }
        }
        self.find(pid, address).unwrap_or_default()
    }

    fn find(&self, pid: i32, address: u64) -> Option<String> {
        let (start, mapping) = self.processes.get(&pid)?.range(..=address).next_back()?;
        if address >= mapping.end {
            return None;
        }
        Some(match &*mapping.name {
            "[heap]" => "heap".to_owned(),
            "[stack]" => "stack".to_owned(),
            "" | "//anon" => "anon".to_owned(),
            name => {
                let name = super::text::printable(name.as_bytes());
                format!("{name}+{:#x}", mapping.offset + (address - start))
            }
        })
    }
}

/// Adds a mapping, and removes the parts of others that it covers.
fn add(all: &mut BTreeMap<u64, Mapping>, start: u64, mapping: Mapping) {
    let end = mapping.end;
    let under: Vec<u64> = all
        .range(..end)
        .rev()
        .take_while(|(_, other)| other.end > start)
        .map(|(at, _)| *at)
        .collect();
    for at in under {
        let Some(other) = all.remove(&at) else { continue };
        if at < start {
            all.insert(at, Mapping { end: start, ..other.clone() });
        }
        if other.end > end {
            all.insert(end, Mapping { offset: other.offset + (end - at), ..other });
        }
    }
    all.insert(start, mapping);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mapping_of_an_address_counts() {
        // By brute force: the last one that holds the page, and how far the page is in it.
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let mut mappings = Mappings::default();
            let mut all = Vec::new();
            for number in 0..12 {
                let (start, len) = (next(40), 1 + next(12));
                all.push((start, len, number));
                mappings.map(
                    1,
                    start << 12,
                    len << 12,
                    number << 20,
                    format!("f{number}").as_bytes(),
                );
            }
            for page in 0..60 {
                let expect = all
                    .iter()
                    .rfind(|(start, len, _)| (*start..start + len).contains(&page))
                    .map(|(start, _, number)| {
                        format!("f{number}+{:#x}", (number << 20) + ((page - start) << 12) + 5)
                    });
                assert_eq!(mappings.find(1, (page << 12) + 5), expect, "{page} in {all:?}");
            }
        }
    }

    #[test]
    fn lines_of_maps() {
        let check = |line: &str, expect: &str| {
            let it = pyrograph_record::Mapping::parse(line.as_bytes()).expect("a mapping");
            let mut mappings = Mappings::default();
            mappings.map(1, it.start, it.end - it.start, it.offset, &it.path);
            assert_eq!(mappings.find(1, it.start + 16).as_deref(), Some(expect));
        };
        check("7f01000-7f02000 r-xp 00001000 fe:01 99   /usr/lib/a b.so", "/usr/lib/a b.so+0x1010");
        check("55a0000-55b0000 rw-p 00000000 00:00 0    [heap]", "heap");
        check("7ff0000-7ff1000 rw-p 00000000 00:00 0    [stack]", "stack");
        check("7e00000-7e01000 rw-p 00000000 00:00 0 ", "anon");
    }
}
