//! Which code each process has mapped, for the programs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::Error;
use crate::layout::{MAX_MAPPINGS, Mapping, Process};
use crate::shared::Shared;

/// How long a list stays as it is when no process has it any more: programs may be reading it, and a
/// process that was just forked may have it without our knowing.
const GRACE: Duration = Duration::from_secs(3);

/// The lists of mappings. Processes whose mappings are the same, as after a fork, share one.
#[derive(Debug)]
pub struct Processes {
    map: MapHandle,
    rows: Shared<Mapping>,
    /// Free ranges of rows by their first: (length).
    free: std::collections::BTreeMap<u32, u32>,
    lists: HashMap<Vec<Mapping>, List>,
    by_pid: HashMap<i32, Vec<Mapping>>,
    dying: VecDeque<(Instant, u32, u32)>,
    /// Processes whose mappings could not be told, for there was no room.
    pub omitted: u64,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    users: u32,
}

impl Processes {
    pub fn new(map: MapHandle, mappings: &MapHandle) -> Result<Self, Error> {
        Ok(Self {
            map,
            rows: Shared::map(mappings, "mappings", MAX_MAPPINGS)?,
            free: [(0, MAX_MAPPINGS as u32)].into(),
            lists: HashMap::new(),
            by_pid: HashMap::new(),
            dying: VecDeque::new(),
            omitted: 0,
        })
    }

    /// The process has these mappings now, sorted.
    pub fn set(&mut self, pid: i32, rows: Vec<Mapping>) {
        let count = rows.len() as u32;
        let same = self.by_pid.get(&pid).is_some_and(|known| *known == rows);
        if !same {
            let Some(()) = self.take(&rows) else {
                self.omitted += 1;
                return self.forget(pid);
            };
            if let Some(old) = self.by_pid.insert(pid, rows) {
                self.release(&old);
            }
        }
        // Also if nothing changed: the programs forget a process when it executes another.
        let Some(list) = self.by_pid.get(&pid).and_then(|rows| self.lists.get(rows)) else {
            return;
        };
        let process = Process { first: list.first, count };
        let written =
            self.map.update(&pid.to_ne_bytes(), bytemuck::bytes_of(&process), MapFlags::ANY);
        if written.is_err() {
            self.omitted += 1;
        }
    }

    /// The process is gone.
    pub fn forget(&mut self, pid: i32) {
        // It is no error if it was not known.
        let _ = self.map.delete(&pid.to_ne_bytes());
        if let Some(rows) = self.by_pid.remove(&pid) {
            self.release(&rows);
        }
    }

    fn take(&mut self, rows: &[Mapping]) -> Option<()> {
        if let Some(list) = self.lists.get_mut(rows) {
            list.users += 1;
            return Some(());
        }
        let first = self.allocate(rows.len() as u32)?;
        self.rows.write_all(first as usize, rows);
        self.lists.insert(rows.to_vec(), List { first, users: 1 });
        Some(())
    }

    fn release(&mut self, rows: &[Mapping]) {
        let Some(list) = self.lists.get_mut(rows) else { return };
        list.users -= 1;
        if list.users == 0 {
            let first = list.first;
            self.lists.remove(rows);
            self.dying.push_back((Instant::now(), first, rows.len() as u32));
        }
    }

    fn allocate(&mut self, len: u32) -> Option<u32> {
        let now = Instant::now();
        while let Some(&(since, first, len)) = self.dying.front()
            && now.duration_since(since) > GRACE
        {
            self.dying.pop_front();
            self.give_back(first, len);
        }
        if len == 0 {
            return Some(0);
        }
        let (&first, &room) = self.free.iter().find(|&(_, &room)| room >= len)?;
        self.free.remove(&first);
        if room > len {
            self.free.insert(first + len, room - len);
        }
        Some(first)
    }

    fn give_back(&mut self, mut first: u32, mut len: u32) {
        if len == 0 {
            return;
        }
        if let Some((&before, &room)) = self.free.range(..first).next_back()
            && before + room == first
        {
            self.free.remove(&before);
            (first, len) = (before, len + room);
        }
        if let Some(room) = self.free.remove(&(first + len)) {
            len += room;
        }
        self.free.insert(first, len);
    }
}
