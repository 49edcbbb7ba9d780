//! Memory for unwind tables, shared with the programs as array maps.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use crate::error::Error;
use crate::layout::{BLOCK_WORDS, MAX_BLOCKS, MAX_MODULES, MAX_RULES, Module};
use crate::shared::Shared;

/// Memory for tables, in blocks of [`BLOCK_WORDS`] words.
#[derive(Debug)]
pub struct Memory {
    pub modules: Shared<Module>,
    pub rules: Shared<[u64; 2]>,
    blocks: Vec<Shared<u32>>,
    /// Maximum number of blocks.
    limit: usize,
    /// Map that holds a map for each block; `None` if no programs read them.
    outer: Option<MapHandle>,
}

/// Number of blocks for a number of bytes.
fn blocks(bytes: usize) -> usize {
    (bytes / (BLOCK_WORDS * 4)).clamp(1, MAX_BLOCKS)
}

impl Memory {
    /// Creates the memory from the maps of loaded programs. `budget`: size limit in bytes.
    pub fn new(
        outer: MapHandle,
        modules: &MapHandle,
        rules: &MapHandle,
        budget: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            modules: Shared::map(modules, "modules", MAX_MODULES)?,
            rules: Shared::map(rules, "rules", MAX_RULES)?,
            blocks: Vec::new(),
            limit: blocks(budget),
            outer: Some(outer),
        })
    }

    /// Creates memory that is not shared with programs, of at most `limit` blocks.
    #[cfg(test)]
    pub fn of_this_process(limit: usize) -> Self {
        Self {
            modules: Shared::of_this_process(MAX_MODULES).expect("memory"),
            rules: Shared::of_this_process(MAX_RULES).expect("memory"),
            blocks: Vec::new(),
            limit,
            outer: None,
        }
    }

    /// Maximum number of blocks.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Number of blocks in use.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block. Returns false if the limit is reached.
    pub fn add_block(&mut self) -> Result<bool, Error> {
        if self.blocks() == self.limit {
            return Ok(false);
        }
        let block = match &self.outer {
            Some(outer) => shared_block(outer, self.blocks.len() as u32)?,
            None => Shared::of_this_process(BLOCK_WORDS)?,
        };
        self.blocks.push(block);
        Ok(true)
    }

    /// Writes words that are in one block.
    pub fn write(&mut self, place: u32, words: &[u32]) {
        let place = place as usize;
        self.blocks[place / BLOCK_WORDS].write_all(place % BLOCK_WORDS, words);
    }

    /// Reads a word, as the programs do.
    pub fn word(&self, place: u32) -> u32 {
        self.blocks[place as usize / BLOCK_WORDS].read(place as usize % BLOCK_WORDS)
    }
}

/// Creates a block that the programs find by its number.
fn shared_block(outer: &MapHandle, number: u32) -> Result<Shared<u32>, Error> {
    let size = (BLOCK_WORDS * 4) as u32;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let block = MapHandle::create(MapType::Array, Some("rows"), 4, size, 1, &options)
        .map_err(Error::map("rows"))?;
    let fd = block.as_fd().as_raw_fd();
    outer
        .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::map("blocks"))?;
    Shared::map(&block, "rows", BLOCK_WORDS)
}
