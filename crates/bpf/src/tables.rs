//! Unwind tables as the programs search them: one row a word, in blocks that are made as needed.

use hashbrown::HashMap;
use pyrograph_unwind::{Table, TableRule};

use crate::error::Error;
use crate::layout::{BLOCK_WORDS, Module, TABLE_NONE, TABLE_OMITTED, TABLE_READY};
use crate::memory::Memory;

/// Rows are counted from the start of a page of this size.
const PAGE_BITS: u32 = 16;

/// Writes tables into memory that the programs read.
#[derive(Debug)]
pub struct Tables {
    memory: Memory,
    /// Words used of the last block.
    used: usize,
    numbers: HashMap<TableRule, u16>,
}

/// What became of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is there, with so many rows.
    Ready(usize),
    /// There is none.
    None,
    /// There is no room for it.
    Omitted,
}

impl Tables {
    /// In memory that nothing is in yet.
    pub fn new(memory: Memory) -> Self {
        let mut tables = Self { memory, used: BLOCK_WORDS, numbers: HashMap::new() };
        // The programs take it for code without a table.
        tables.rule(TableRule::default());
        tables
    }

    /// Bytes of tables.
    pub fn bytes(&self) -> usize {
        self.memory.blocks() * BLOCK_WORDS * 4
    }

    /// Makes a module's table known to the programs.
    pub fn publish(&mut self, number: u32, table: &Table) -> Result<Published, Error> {
        let number = number as usize;
        if number >= self.memory.modules.len() {
            return Ok(Published::Omitted);
        }
        if table.rows.is_empty() {
            let none = Module { index: 0, pages: 0, state: TABLE_NONE, pad: 0 };
            self.memory.modules.write(number, none);
            return Ok(Published::None);
        }
        let (module, published) = match self.rows(table)? {
            Some((index, pages)) => {
                let module = Module { index, pages, state: TABLE_READY, pad: 0 };
                (module, Published::Ready(table.rows.len()))
            }
            None => {
                let module = Module { index: 0, pages: u32::MAX, state: TABLE_OMITTED, pad: 0 };
                (module, Published::Omitted)
            }
        };
        self.memory.modules.write(number, module);
        Ok(published)
    }

    /// Writes the rows and their index; the place of the index, and how many pages it has.
    fn rows(&mut self, table: &Table) -> Result<Option<(u32, u32)>, Error> {
        let rules: Vec<u16> = table.rules.iter().map(|rule| self.rule(*rule)).collect();
        let pages = table.rows.last().map_or(0, |row| (row.offset >> PAGE_BITS) as usize + 1);
        let Some(index) = self.allocate(2 * pages)? else { return Ok(None) };
        let mut rest = &table.rows[..];
        let mut before = None;
        let mut words = Vec::new();
        for page in 0..pages {
            let in_page = rest.partition_point(|row| (row.offset >> PAGE_BITS) as usize <= page);
            let (here, after) = rest.split_at(in_page);
            rest = after;
            words.clear();
            // Whatever the address, there is a row at or below it in the page.
            if here.first().is_none_or(|row| row.offset & 0xffff != 0) {
                words.push(u32::from(before.unwrap_or(0)));
            }
            for row in here {
                let rule = rules.get(usize::from(row.rule)).copied().unwrap_or(0);
                words.push((row.offset & 0xffff) << 16 | u32::from(rule));
                before = Some(rule);
            }
            let Some(place) = self.allocate(words.len())? else { return Ok(None) };
            self.memory.write(place, &words);
            self.memory.write(index + 2 * page as u32, &[place, words.len() as u32]);
        }
        Ok(Some((index, pages as u32)))
    }

    /// The number of a rule in the common dictionary; 0, no table, if that is full.
    fn rule(&mut self, rule: TableRule) -> u16 {
        let next = u16::try_from(self.numbers.len());
        *self.numbers.entry(rule).or_insert_with(|| {
            let Ok(next) = next else { return 0 };
            self.memory.rules.write(next.into(), words(&rule));
            next
        })
    }

    /// Room for so many words in one block.
    fn allocate(&mut self, words: usize) -> Result<Option<u32>, Error> {
        if words > BLOCK_WORDS {
            return Ok(None);
        }
        if self.used + words > BLOCK_WORDS {
            if !self.memory.add_block()? {
                return Ok(None);
            }
            self.used = 0;
        }
        let place = (self.memory.blocks() - 1) * BLOCK_WORDS + self.used;
        self.used += words;
        Ok(u32::try_from(place).ok())
    }
}

/// A rule as `struct rule` has it.
fn words(rule: &TableRule) -> [u64; 2] {
    let [add_0, add_1] = rule.add.to_ne_bytes();
    let [o0, o1, o2, o3] = rule.offset.to_ne_bytes();
    let [s0, s1, s2, s3, s4, s5] = rule.saved;
    [
        u64::from_ne_bytes([rule.kind as u8, rule.base, add_0, add_1, o0, o1, o2, o3]),
        u64::from_ne_bytes([s0, s1, s2, s3, s4, s5, rule.below_fp, 0]),
    ]
}
