//! Unwind tables as the programs search them: one row a word, in blocks that are made as needed.

use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use pyrograph_unwind::{Table, TableRule};

use crate::error::Error;
use crate::layout::{
    BLOCK_WORDS, MAX_BLOCKS, MAX_MODULES, MAX_RULES, Module, TABLE_NONE, TABLE_OMITTED, TABLE_READY,
};
use crate::shared::Shared;

/// Rows are counted from the start of a page of this size.
const PAGE_BITS: u32 = 16;

/// Writes tables into memory that the programs read.
#[derive(Debug)]
pub struct Tables {
    outer: MapHandle,
    blocks: Vec<Shared<u32>>,
    /// Words used of the last block.
    used: usize,
    /// The most blocks.
    budget: usize,
    modules: Shared<Module>,
    rules: Shared<[u64; 2]>,
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
    /// With a budget of memory in bytes.
    pub fn new(
        outer: MapHandle,
        modules: &MapHandle,
        rules: &MapHandle,
        budget: usize,
    ) -> Result<Self, Error> {
        let mut tables = Self {
            outer,
            blocks: Vec::new(),
            used: BLOCK_WORDS,
            budget: (budget / (BLOCK_WORDS * 4)).clamp(1, MAX_BLOCKS),
            modules: Shared::map(modules, "modules", MAX_MODULES)?,
            rules: Shared::map(rules, "rules", MAX_RULES)?,
            numbers: HashMap::new(),
        };
        // The programs take it for code without a table.
        tables.rule(TableRule::default());
        Ok(tables)
    }

    /// Bytes of tables.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_WORDS * 4
    }

    /// Makes a module's table known to the programs.
    pub fn publish(&mut self, number: u32, table: &Table) -> Result<Published, Error> {
        let number = number as usize;
        if number >= self.modules.len() {
            return Ok(Published::Omitted);
        }
        if table.rows.is_empty() {
            let none = Module { index: 0, pages: 0, state: TABLE_NONE, pad: 0 };
            self.modules.write(number, none);
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
        self.modules.write(number, module);
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
            self.write(place, &words);
            self.write(index + 2 * page as u32, &[place, words.len() as u32]);
        }
        Ok(Some((index, pages as u32)))
    }

    /// The number of a rule in the common dictionary; 0, no table, if that is full.
    fn rule(&mut self, rule: TableRule) -> u16 {
        let next = u16::try_from(self.numbers.len());
        *self.numbers.entry(rule).or_insert_with(|| {
            let Ok(next) = next else { return 0 };
            self.rules.write(next.into(), words(&rule));
            next
        })
    }

    /// Room for so many words in one block.
    fn allocate(&mut self, words: usize) -> Result<Option<u32>, Error> {
        if words > BLOCK_WORDS {
            return Ok(None);
        }
        if self.used + words > BLOCK_WORDS {
            if self.blocks.len() == self.budget {
                return Ok(None);
            }
            self.add_block()?;
        }
        let place = (self.blocks.len() - 1) * BLOCK_WORDS + self.used;
        self.used += words;
        Ok(u32::try_from(place).ok())
    }

    fn add_block(&mut self) -> Result<(), Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let size = (BLOCK_WORDS * 4) as u32;
        let block = MapHandle::create(MapType::Array, Some("rows"), 4, size, 1, &options)
            .map_err(Error::map("rows"))?;
        let number = self.blocks.len() as u32;
        self.blocks.push(Shared::map(&block, "rows", BLOCK_WORDS)?);
        self.used = 0;
        use std::os::fd::{AsFd, AsRawFd};
        let fd = block.as_fd().as_raw_fd();
        self.outer
            .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::map("blocks"))
    }

    fn write(&mut self, place: u32, words: &[u32]) {
        let place = place as usize;
        self.blocks[place / BLOCK_WORDS].write_all(place % BLOCK_WORDS, words);
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
