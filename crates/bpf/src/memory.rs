//! The memory that unwind tables are in, shared with the programs: arrays, or an arena.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use memmap2::{MmapOptions, MmapRaw};
use pyrograph_event::engine::TableBackend;

use crate::error::Error;
use crate::layout::{
    ARENA_MODULES, ARENA_RULES, ARENA_WORDS, BLOCK_WORDS, MAX_BLOCKS, MAX_MODULES, MAX_RULES,
    Module,
};
use crate::shared::Shared;

/// An arena that no programs use yet.
#[derive(Debug)]
pub struct Arena {
    pub map: MapHandle,
    memory: Arc<MmapRaw>,
    blocks: usize,
}

impl Arena {
    /// With room for so many blocks. It has pages where something was written.
    pub fn new(blocks: usize) -> Result<Self, Error> {
        let bytes = ARENA_WORDS + blocks * BLOCK_WORDS * 4;
        let options = map_options();
        let pages = (bytes / 4096) as u32;
        let map = MapHandle::create(MapType::Arena, Some("arena"), 0, 0, pages, &options)
            .map_err(Error::map("arena"))?;
        let memory = MmapOptions::new()
            .len(bytes)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(Error::map("arena"))?;
        Ok(Self { map, memory: Arc::new(memory), blocks })
    }

    /// The lower half of its address, by which programs know it.
    pub fn address(&self) -> u64 {
        self.memory.as_ptr() as u64 & 0xffff_ffff
    }
}

/// Memory for tables, in blocks of [`BLOCK_WORDS`] words.
#[derive(Debug)]
pub struct Memory {
    pub modules: Shared<Module>,
    pub rules: Shared<[u64; 2]>,
    words: Words,
    /// The most blocks.
    limit: usize,
}

#[derive(Debug)]
enum Words {
    /// The map that holds a map for each block.
    Arrays(MapHandle, Vec<Shared<u32>>),
    /// All words, and how many blocks are in use.
    Arena(Shared<u32>, usize),
}

/// How many blocks make up so many bytes.
pub fn blocks(bytes: usize) -> usize {
    (bytes / (BLOCK_WORDS * 4)).clamp(1, MAX_BLOCKS)
}

impl Memory {
    /// Arrays of programs that are loaded.
    pub fn arrays(
        outer: MapHandle,
        modules: &MapHandle,
        rules: &MapHandle,
        limit: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            modules: Shared::map(modules, "modules", MAX_MODULES)?,
            rules: Shared::map(rules, "rules", MAX_RULES)?,
            words: Words::Arrays(outer, Vec::new()),
            limit,
        })
    }

    pub fn arena(arena: &Arena) -> Self {
        Self::over(&arena.memory, arena.blocks)
    }

    /// Memory that is laid out as an arena.
    pub fn over(memory: &Arc<MmapRaw>, blocks: usize) -> Self {
        let mut modules = Shared::part(memory, ARENA_MODULES, MAX_MODULES);
        // The programs may look up any of these: a page that is not there would cost them a fault.
        modules.write_all(0, &vec![Module::default(); MAX_MODULES]);
        Self {
            modules,
            rules: Shared::part(memory, ARENA_RULES, MAX_RULES),
            words: Words::Arena(Shared::part(memory, ARENA_WORDS, blocks * BLOCK_WORDS), 0),
            limit: blocks,
        }
    }

    /// Memory in which there is something, laid out as an arena.
    #[cfg(test)]
    pub fn over_written(memory: &Arc<MmapRaw>, blocks: usize) -> Self {
        Self {
            modules: Shared::part(memory, ARENA_MODULES, MAX_MODULES),
            rules: Shared::part(memory, ARENA_RULES, MAX_RULES),
            words: Words::Arena(Shared::part(memory, ARENA_WORDS, blocks * BLOCK_WORDS), blocks),
            limit: blocks,
        }
    }

    pub fn backend(&self) -> TableBackend {
        match self.words {
            Words::Arrays(..) => TableBackend::Arrays,
            Words::Arena(..) => TableBackend::Arena,
        }
    }

    /// The most blocks.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Blocks in use.
    pub fn blocks(&self) -> usize {
        match &self.words {
            Words::Arrays(_, blocks) => blocks.len(),
            Words::Arena(_, blocks) => *blocks,
        }
    }

    /// One more block; whether there may be one.
    pub fn add_block(&mut self) -> Result<bool, Error> {
        if self.blocks() == self.limit {
            return Ok(false);
        }
        match &mut self.words {
            Words::Arrays(outer, blocks) => {
                let size = (BLOCK_WORDS * 4) as u32;
                let block =
                    MapHandle::create(MapType::Array, Some("rows"), 4, size, 1, &map_options())
                        .map_err(Error::map("rows"))?;
                let number = blocks.len() as u32;
                blocks.push(Shared::map(&block, "rows", BLOCK_WORDS)?);
                let fd = block.as_fd().as_raw_fd();
                outer
                    .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                    .map_err(Error::map("blocks"))?;
            }
            Words::Arena(_, blocks) => *blocks += 1,
        }
        Ok(true)
    }

    /// Writes words that are in one block.
    pub fn write(&mut self, place: u32, words: &[u32]) {
        let place = place as usize;
        match &mut self.words {
            Words::Arrays(_, blocks) => {
                blocks[place / BLOCK_WORDS].write_all(place % BLOCK_WORDS, words);
            }
            Words::Arena(all, _) => all.write_all(place, words),
        }
    }

    /// A word, as the programs read it.
    pub fn word(&self, place: u32) -> u32 {
        match &self.words {
            Words::Arrays(_, blocks) => {
                blocks[place as usize / BLOCK_WORDS].read(place as usize % BLOCK_WORDS)
            }
            Words::Arena(all, _) => all.read(place as usize),
        }
    }
}

fn map_options() -> libbpf_sys::bpf_map_create_opts {
    libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    }
}
