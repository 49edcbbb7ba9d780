//! Unwind tables in the form that the programs search: one word for each row, in blocks that are allocated as needed.
//!
//! The memory is limited. The programs count hits of each module. A table for which there is no room replaces tables
//! with fewer hits; a table that was evicted can come back in the same way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hashbrown::HashMap;
use pyrograph_unwind::{Table, TableRow, TableRule};

use crate::error::Error;
use crate::free_list::FreeList;
use crate::layout::{BLOCK_WORDS, Module, TABLE_NONE, TABLE_OMITTED, TABLE_READY};
use crate::memory::Memory;

/// Number of bits of an offset within a page. Offsets of rows are relative to the start of a page of this size.
const PAGE_BITS: u32 = 16;
const IN_PAGE: u32 = (1 << PAGE_BITS) - 1;

/// A table replaces others only if its hit count exceeds the sum of theirs by more than this factor.
const BETTER: u64 = 2;

/// Writes tables into memory that the programs read.
#[derive(Debug)]
pub struct Tables {
    memory: Memory,
    free: FreeList,
    numbers: HashMap<TableRule, u16>,
    known: HashMap<u32, Known>,
    /// Lock that is held while sleepable programs run, which may read for long.
    readers: Arc<Mutex<()>>,
}

/// A module with a table.
#[derive(Debug, Default)]
struct Known {
    rows: usize,
    /// Pieces of the table: place and number of words of each. Empty if the table was left out.
    pieces: Vec<(u32, u32)>,
    /// Number of words of the table.
    words: usize,
    /// Hit count when it was last read.
    hits: u32,
    /// Exponentially decayed hit count.
    recent_hits: u64,
}

impl Known {
    fn is_there(&self) -> bool {
        !self.pieces.is_empty()
    }
}

/// Counts of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of tables in memory.
    pub tables: usize,
    /// Number of their rows.
    pub rows: usize,
    /// Number of tables that were left out.
    pub omitted: usize,
}

impl Tables {
    /// Creates tables in empty memory. `readers`: a lock that is held while sleepable programs run.
    pub fn new(memory: Memory, readers: Arc<Mutex<()>>) -> Self {
        let (free, numbers, known) = Default::default();
        let mut tables = Self { memory, free, numbers, known, readers };
        // Rule 0, which the programs use for code without a table.
        tables.rule(TableRule::default());
        tables
    }

    #[cfg(test)]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Size of the memory for tables, in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.blocks() * BLOCK_WORDS * 4
    }

    /// Current counts.
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        for known in self.known.values() {
            match known.is_there() {
                true => {
                    count.tables += 1;
                    count.rows += known.rows;
                }
                false => count.omitted += 1,
            }
        }
        count
    }

    /// Publishes a module's table to the programs, if there is room for it: its rules, and its rows in the form of
    /// [`Table::rows`].
    pub fn publish(
        &mut self,
        number: u32,
        rules: &[TableRule],
        rows: impl ExactSizeIterator<Item = TableRow>,
    ) -> Result<(), Error> {
        if number as usize >= self.memory.modules.len() {
            return Ok(());
        }
        self.withdraw(&[number]);
        let count = rows.len();
        if count == 0 {
            self.known.remove(&number);
            self.set_state(number, 0, 0, TABLE_NONE);
            return Ok(());
        }
        let (words, ends) = self.words(rules, rows);
        let needed = words.len() + 2 * ends.len();
        let known = self.known.entry(number).or_default();
        (known.rows, known.words) = (count, needed);
        let Some(pieces) = self.place_or_make_room(number, &ends)? else {
            // The free memory may be in pieces that are too small: the table is not tried again before there is more.
            let free = self.free.words();
            self.known.entry(number).or_default().words = needed.max(free + 1);
            self.set_state(number, 0, 0, TABLE_OMITTED);
            return Ok(());
        };
        let (index, rows) =
            pieces.split_first().map_or((0, &[][..]), |(index, rows)| (index.0, rows));
        let mut from = 0;
        for (page, (&(place, len), &end)) in rows.iter().zip(&ends).enumerate() {
            self.memory.write(place, &words[from..end]);
            self.memory.write(index + 2 * page as u32, &[place, len]);
            from = end;
        }
        self.set_state(number, index, ends.len() as u32, TABLE_READY);
        self.known.entry(number).or_default().pieces = pieces;
        Ok(())
    }

    /// Encodes rows as words. Returns these, and the end of each page in them.
    fn words(
        &mut self,
        rules: &[TableRule],
        rows: impl ExactSizeIterator<Item = TableRow>,
    ) -> (Vec<u32>, Vec<usize>) {
        let rules: Vec<u16> = rules.iter().map(|rule| self.rule(*rule)).collect();
        let mut words = Vec::with_capacity(rows.len() + rows.len() / 16);
        let mut ends = Vec::new();
        let mut before = 0;
        // Each page begins with a row for its start, so that there is a row at or below any address in it.
        let open = |words: &mut Vec<u32>, ends: &[usize], before: u16| {
            if words.len() == ends.last().copied().unwrap_or(0) {
                words.push(u32::from(before));
            }
        };
        for row in rows {
            while ends.len() < (row.offset >> PAGE_BITS) as usize {
                open(&mut words, &ends, before);
                ends.push(words.len());
            }
            if row.offset & IN_PAGE != 0 {
                open(&mut words, &ends, before);
            }
            before = rules.get(usize::from(row.rule)).copied().unwrap_or(0);
            words.push((row.offset & IN_PAGE) << PAGE_BITS | u32::from(before));
        }
        ends.push(words.len());
        (words, ends)
    }

    /// Reads a module's table back from the memory that the programs read; `None` if it is not there, or if it differs
    /// from the one that was made.
    pub fn read_back(&self, number: u32, start: u64) -> Option<Table> {
        let known = self.known.get(&number)?;
        let (_, pages) = known.pieces.split_first()?;
        // If there were too many rules, some were replaced by others.
        u16::try_from(self.numbers.len()).ok()?;
        let mut of: Vec<_> = self.numbers.iter().map(|(rule, number)| (*number, *rule)).collect();
        of.sort_unstable_by_key(|(number, _)| *number);
        let mut table = Table { start, ..Table::default() };
        let mut numbers = HashMap::new();
        // Code before the first row has no rule.
        let mut before = 0;
        for (page, &(place, len)) in (0u32..).zip(pages) {
            for word in (place..place + len).map(|place| self.memory.word(place)) {
                let rule = word as u16;
                if std::mem::replace(&mut before, rule) == rule {
                    continue;
                }
                let next = table.rules.len() as u16;
                let number = *numbers.entry(rule).or_insert(next);
                if number == next {
                    table.rules.push(of.get(usize::from(rule))?.1);
                }
                let offset = page << PAGE_BITS | word >> PAGE_BITS;
                table.rows.push(TableRow { offset, rule: number });
            }
        }
        Some(table)
    }

    /// Number of a rule in the common dictionary; 0, which means no table, if that is full.
    fn rule(&mut self, rule: TableRule) -> u16 {
        let next = u16::try_from(self.numbers.len());
        *self.numbers.entry(rule).or_insert_with(|| {
            let Ok(next) = next else { return 0 };
            self.memory.rules.write(next.into(), words(&rule));
            next
        })
    }

    fn place_or_make_room(
        &mut self,
        number: u32,
        ends: &[usize],
    ) -> Result<Option<Vec<(u32, u32)>>, Error> {
        let words = self.known.get(&number).map_or(0, |known| known.words);
        if words > self.memory.limit() * BLOCK_WORDS {
            return Ok(None);
        }
        loop {
            match self.place(ends)? {
                None if self.make_room(number) => {}
                found => return Ok(found),
            }
        }
    }

    /// Allocates an index and pages with these ends; `None` if there is no room for all.
    fn place(&mut self, ends: &[usize]) -> Result<Option<Vec<(u32, u32)>>, Error> {
        let pages = ends.iter().scan(0, |from, end| Some(end - std::mem::replace(from, *end)));
        let mut pieces = Vec::with_capacity(1 + ends.len());
        for words in std::iter::once(2 * ends.len()).chain(pages) {
            let Ok(words) = u32::try_from(words) else { return Ok(None) };
            match self.take(words)? {
                Some(place) => pieces.push((place, words)),
                None => {
                    pieces.into_iter().for_each(|(place, words)| self.free.release(place, words));
                    return Ok(None);
                }
            }
        }
        Ok(Some(pieces))
    }

    fn take(&mut self, words: u32) -> Result<Option<u32>, Error> {
        if words as usize > BLOCK_WORDS {
            return Ok(None);
        }
        loop {
            if let Some(place) = self.free.allocate(words) {
                return Ok(Some(place));
            }
            let block = (self.memory.blocks() * BLOCK_WORDS) as u32;
            if !self.memory.add_block()? {
                return Ok(None);
            }
            self.free.release(block, BLOCK_WORDS as u32);
        }
    }

    /// Evicts tables with fewer hits than this one, if that makes enough room for it. Returns true if it did.
    fn make_room(&mut self, number: u32) -> bool {
        self.look(1);
        let victims = self.less_used(number);
        self.withdraw(&victims);
        !victims.is_empty()
    }

    /// Tables to evict for a module's table, those with the fewest hits first; empty if they have too many hits.
    fn less_used(&self, number: u32) -> Vec<u32> {
        let Some(wanted) = self.known.get(&number) else { return Vec::new() };
        let mut there: Vec<_> = self.known.iter().filter(|(_, known)| known.is_there()).collect();
        // Among tables without hits, one large one is evicted rather than many small ones.
        there.sort_unstable_by_key(|(number, known)| {
            (known.recent_hits, std::cmp::Reverse(known.words), **number)
        });
        let mut free = self.free.words();
        let mut recent_hits = 0;
        let mut victims = Vec::new();
        for (number, known) in there {
            recent_hits += known.recent_hits;
            if BETTER * recent_hits >= wanted.recent_hits {
                break;
            }
            free += known.words;
            victims.push(*number);
            if free >= wanted.words {
                return victims;
            }
        }
        Vec::new()
    }

    /// Evicts tables. Their memory is released when no program can be reading it any more.
    fn withdraw(&mut self, numbers: &[u32]) {
        let is_there = |number: &&u32| self.known.get(*number).is_some_and(Known::is_there);
        let there: Vec<u32> = numbers.iter().filter(is_there).copied().collect();
        if there.is_empty() {
            return;
        }
        for number in &there {
            self.set_state(*number, 0, 0, TABLE_OMITTED);
        }
        // The lock may be poisoned by a panic elsewhere, which leaves nothing unfinished here.
        let readers = Arc::clone(&self.readers);
        let _alone = readers.lock().unwrap_or_else(|error| error.into_inner());
        wait_for_programs();
        for number in &there {
            let pieces = self.known.get_mut(number).map(|known| std::mem::take(&mut known.pieces));
            for (place, words) in pieces.into_iter().flatten() {
                self.free.release(place, words);
            }
        }
    }

    /// Changes a module's entry for the programs; its hit count stays.
    fn set_state(&mut self, number: u32, index: u32, pages: u32, state: u32) {
        let number = number as usize;
        let hits = self.memory.modules.read(number).hits;
        if state == TABLE_READY {
            // A program that sees the new state also sees the other fields.
            let pending = Module { index, pages, state: TABLE_OMITTED, hits };
            self.memory.modules.write(number, pending);
        }
        self.memory.modules.write(number, Module { index, pages, state, hits });
    }

    /// Reads the hit counts of modules, and divides earlier hits by `part`.
    fn look(&mut self, part: u64) {
        for (number, known) in &mut self.known {
            let hits = self.memory.modules.read(*number as usize).hits;
            known.recent_hits = known.recent_hits / part + u64::from(hits.wrapping_sub(known.hits));
            known.hits = hits;
        }
    }

    /// Number of stacks that a module was in.
    pub fn hits(&self, number: u32) -> u32 {
        let number = number as usize;
        if number < self.memory.modules.len() { self.memory.modules.read(number).hits } else { 0 }
    }

    /// Returns true if a table was left out.
    pub fn lacks_some(&self) -> bool {
        self.known.values().any(|known| !known.is_there())
    }

    /// Reads the hit counts of modules; call it from time to time. Returns a module whose table was left out and should
    /// be made again, because there is room for it or others have fewer hits.
    pub fn wanted(&mut self) -> Option<u32> {
        self.look(2);
        let left_out =
            self.known.iter().filter(|(_, known)| !known.is_there() && known.recent_hits > 0);
        let mut left_out: Vec<_> = left_out.collect();
        left_out.sort_unstable_by_key(|(number, known)| {
            (std::cmp::Reverse(known.recent_hits), **number)
        });
        let free = self.free.words();
        let fits =
            |number, known: &Known| free >= known.words || !self.less_used(number).is_empty();
        left_out
            .into_iter()
            .find(|(number, known)| fits(**number, known))
            .map(|(number, _)| *number)
    }
}

/// Waits until all programs that are running now have ended, except for sleepable ones.
fn wait_for_programs() {
    // SAFETY: it takes numbers, and waits.
    let waited = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if waited != 0 {
        // If the system call is not permitted, a pause is enough: programs run for microseconds.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Encodes a rule as `struct rule`.
fn words(rule: &TableRule) -> [u64; 2] {
    let [add_0, add_1] = rule.add.to_ne_bytes();
    let [o0, o1, o2, o3] = rule.offset.to_ne_bytes();
    let [s0, s1, s2, s3, s4, s5] = rule.saved;
    [
        u64::from_ne_bytes([rule.kind as u8, rule.base, add_0, add_1, o0, o1, o2, o3]),
        u64::from_ne_bytes([s0, s1, s2, s3, s4, s5, rule.below_fp, rule.flags]),
    ]
}

#[cfg(test)]
mod tests {
    use pyrograph_unwind::{TableRuleKind, UnwindInfo};

    use super::*;
    use crate::layout::TABLE_PENDING;

    /// Tables in memory of this process alone, in blocks of 1 MiB.
    fn tables(blocks: usize) -> Tables {
        Tables::new(Memory::of_this_process(blocks), Arc::default())
    }

    /// A table of so many KiB. Its rules are no other's, and it has code without rows in between.
    fn table(kib: usize, first: i32) -> Table {
        let rules = (0..100).map(|rule| TableRule {
            kind: TableRuleKind::Offset,
            offset: first + rule,
            ..TableRule::default()
        });
        let rows = (0..kib as u32 * 256).map(|row| TableRow {
            offset: row * 13 + row / 9000 * 300_000 + 5,
            rule: (row % 100) as u16,
        });
        Table { start: 0, rows: rows.collect(), rules: rules.collect() }
    }

    fn publish(tables: &mut Tables, number: u32, table: &Table) {
        tables.publish(number, &table.rules, table.rows.iter().copied()).expect("memory");
    }

    /// Looks up as the programs do; nothing if the table is not there.
    fn find(tables: &Tables, number: u32, offset: u32) -> Option<[u64; 2]> {
        let Module { index, pages, state, .. } = tables.memory.modules.read(number as usize);
        if state != TABLE_READY || offset >> 16 >= pages {
            return None;
        }
        let place = index + 2 * (offset >> 16);
        let (from, len) = (tables.memory.word(place), tables.memory.word(place + 1));
        let rows = (from..from + len).map(|place| tables.memory.word(place));
        let row = rows.take_while(|row| row >> 16 <= offset & 0xffff).last()?;
        Some(tables.memory.rules.read((row & 0xffff) as usize))
    }

    fn meet(tables: &mut Tables, number: u32, times: u32) {
        let module = tables.memory.modules.read(number as usize);
        let hits = module.hits.wrapping_add(times);
        tables.memory.modules.write(number as usize, Module { hits, ..module });
    }

    fn there(tables: &Tables) -> Vec<u32> {
        let is_there =
            |number: &u32| tables.memory.modules.read(*number as usize).state == TABLE_READY;
        (0..16).filter(is_there).collect()
    }

    fn check(tables: &Tables, number: u32, table: &Table) {
        for row in table.rows.iter().step_by(997) {
            let rule = words(&table.rules[usize::from(row.rule)]);
            for offset in [row.offset, row.offset + 12] {
                assert_eq!(find(tables, number, offset), Some(rule), "{number}, {offset:#x}");
            }
        }
        assert_eq!(find(tables, number, 4), Some([0, 0]), "before the first row");
    }

    #[test]
    fn what_is_met_most_is_there() {
        let mut tables = tables(2);
        let made: Vec<_> = (0..6).map(|at| table(450, 1000 * at)).collect();
        let publish = |tables: &mut Tables, number: u32| {
            publish(tables, number, &made[number as usize]);
        };
        // Hits are not known: the first ones stay.
        (0..6).for_each(|number| publish(&mut tables, number));
        assert_eq!(there(&tables), [0, 1, 2, 3]);
        assert_eq!(tables.wanted(), None);
        // Those with hits replace those without.
        for (number, times) in [(0, 100), (2, 40), (4, 50), (5, 30)] {
            meet(&mut tables, number, times);
        }
        for wanted in [4, 5] {
            assert_eq!(tables.wanted(), Some(wanted));
            publish(&mut tables, wanted);
        }
        assert_eq!(there(&tables), [0, 2, 4, 5]);
        // Not much more is no reason.
        meet(&mut tables, 1, 3);
        assert_eq!(tables.wanted(), None);
        // Old hits decay.
        let back = std::iter::from_fn(|| {
            meet(&mut tables, 1, 3);
            Some(tables.wanted())
        });
        assert_eq!(back.take(10).flatten().next(), Some(1));
        publish(&mut tables, 1);
        assert_eq!(there(&tables).len(), 4);
        for number in there(&tables) {
            check(&tables, number, &made[number as usize]);
        }
        assert_eq!(tables.bytes(), 2 << 20);
        assert_eq!(tables.count(), Count { tables: 4, rows: 4 * 450 * 256, omitted: 2 });
    }

    #[test]
    fn a_table_is_read_back_as_it_was_made() {
        let mut tables = tables(3);
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        let own = UnwindInfo::from_bytes(own).expect("an ELF file");
        let made = [table(300, 0), own.table(), table(20, 50)];
        (0..).zip(&made).for_each(|(number, table)| publish(&mut tables, number, table));
        for (number, table) in (0..).zip(&made) {
            let back = tables.read_back(number, table.start).expect("it is there");
            let rule = |table: &Table, row: &TableRow| table.rules[usize::from(row.rule)];
            // No rule, or what stands for none.
            let is_none = |row: &&TableRow| rule(table, row) == TableRule::default();
            let rows: Vec<_> = table.rows.iter().skip_while(is_none).collect();
            assert_eq!((back.start, back.rows.len()), (table.start, rows.len()));
            for (back_row, row) in back.rows.iter().zip(rows) {
                assert_eq!(
                    (back_row.offset, rule(&back, back_row)),
                    (row.offset, rule(table, row))
                );
            }
        }
        assert!(tables.read_back(3, 0).is_none());
    }

    #[test]
    fn what_never_fits_drives_nothing_out() {
        let mut tables = tables(1);
        let (small, large) = (table(900, 0), table(1100, 1000));
        publish(&mut tables, 0, &small);
        for number in 1..3 {
            meet(&mut tables, number, 1000);
            publish(&mut tables, number, &large);
            assert_eq!(tables.wanted(), None);
        }
        check(&tables, 0, &small);
        assert_eq!(there(&tables), [0]);
        assert!(tables.lacks_some());
    }

    #[test]
    fn a_file_without_a_table_lacks_nothing() {
        let mut tables = tables(1);
        assert_eq!(tables.memory.modules.read(3).state, TABLE_PENDING);
        publish(&mut tables, 3, &Table::default());
        assert_eq!(tables.memory.modules.read(3).state, TABLE_NONE);
        assert!(!tables.lacks_some());
        // It may be found later than it was first seen mapped.
        let found = table(10, 0);
        publish(&mut tables, 3, &found);
        check(&tables, 3, &found);
        publish(&mut tables, 3, &found);
        check(&tables, 3, &found);
        assert_eq!(tables.count().tables, 1);
    }

    #[test]
    fn memory_is_used_again_and_never_twice() {
        let mut tables = tables(3);
        // A generator of numbers that are as good as random (Knuth's MMIX).
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let made: Vec<_> = (0..12).map(|at| table(20 + random(800) as usize, 1000 * at)).collect();
        for _ in 0..25 {
            let number = random(12) as u32;
            meet(&mut tables, number, random(1000) as u32);
            publish(&mut tables, number, &made[number as usize]);
            while let Some(wanted) = tables.wanted() {
                publish(&mut tables, wanted, &made[wanted as usize]);
                let is_there = there(&tables).contains(&wanted);
                assert!(is_there || tables.known[&wanted].words > tables.free.words());
            }
            for number in there(&tables) {
                check(&tables, number, &made[number as usize]);
            }
            assert!(tables.bytes() <= 3 << 20);
        }
        assert!(there(&tables).len() > 3);
    }
}
