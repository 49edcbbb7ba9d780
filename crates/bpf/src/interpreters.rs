//! Passes interpreters to the programs, and decodes the functions that the programs emit.

use hashbrown::{HashMap, HashSet};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use pyrograph_event::interpreter::{self, Function, Interpreter, ThreadPlace};

use crate::error::Error;
use crate::layout::{self, Chunk, ChunkPlan, MAX_INTERPRETERS, PlaceInThread};

/// Passes interpreters to the programs.
#[derive(Debug)]
pub struct Interpreters {
    map: MapHandle,
    /// Rows of the map by the number of the module.
    rows: HashMap<u32, u16>,
    /// Modules for which there was no row.
    left_out: HashSet<u32>,
}

impl Interpreters {
    pub fn new(map: MapHandle) -> Self {
        Self { map, rows: HashMap::new(), left_out: HashSet::new() }
    }

    /// Adds an interpreter. Returns its row plus 1, by which mapped files refer to it; 0 if there is no room for it.
    pub fn add(&mut self, module: u32, interpreter: &Interpreter) -> Result<u16, Error> {
        if let Some(row) = self.rows.get(&module) {
            return Ok(row + 1);
        }
        let row = self.rows.len() as u16;
        if usize::from(row) >= MAX_INTERPRETERS {
            self.left_out.insert(module);
            return Ok(0);
        }
        let bytes = encode(module, interpreter);
        let key = u32::from(row).to_ne_bytes();
        self.map
            .update(&key, bytemuck::bytes_of(&bytes), MapFlags::ANY)
            .map_err(Error::map("interpreters"))?;
        self.rows.insert(module, row);
        Ok(row + 1)
    }

    /// Number of modules without a row.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }
}

pub(crate) fn encode(module: u32, interpreter: &Interpreter) -> layout::Interpreter {
    let Interpreter { language, to_address, symbols, place, offsets, plan, tag } = interpreter;
    let mut encoded = layout::Interpreter {
        language: *language as u32,
        module,
        chunks: plan.len().min(Interpreter::CHUNKS) as u32,
        tag: *tag,
        to_address: *to_address,
        symbols: *symbols,
        place: place_of(*place),
        offsets: *offsets,
        plan: bytemuck::Zeroable::zeroed(),
    };
    for (to, plan) in encoded.plan.iter_mut().zip(plan) {
        let behind = plan.behind.map_or(0, |(chunk, offset)| chunk << 8 | offset & 0xff);
        let interpreter::ChunkPlan { from, offset, len, pairs, .. } = *plan;
        *to = ChunkPlan { from, offset, len, behind, pairs };
    }
    encoded
}

fn place_of(place: ThreadPlace) -> PlaceInThread {
    let of = |kind, value, detail, row| PlaceInThread { kind, row, value, detail };
    match place {
        ThreadPlace::Global(at) => of(0, at, 0, 0),
        ThreadPlace::Thread(distance) => of(1, distance, 0, 0),
        ThreadPlace::ThreadAt(at) => of(2, at, 0, 0),
        ThreadPlace::Library { number_at, offset, row } => of(3, number_at, offset, row),
        ThreadPlace::Key { key_at, values } => of(4, key_at, values, 0),
    }
}

/// Decodes a `struct function` and the pieces of memory that follow it.
pub fn read_function(bytes: &[u8]) -> Option<Function> {
    let (head, rest) = bytes.split_at_checked(size_of::<layout::Function>())?;
    let head: layout::Function = bytemuck::try_pod_read_unaligned(head).ok()?;
    let layout::Function { function, tgid, identity, module, chunks, owner } = head;
    let pieces = rest.chunks_exact(size_of::<Chunk>()).take(chunks as usize).map(|bytes| {
        let chunk: Chunk = bytemuck::pod_read_unaligned(bytes);
        let len = usize::try_from(chunk.len).unwrap_or(0).min(chunk.bytes.len());
        (chunk.address, chunk.bytes[..len].to_vec())
    });
    let chunks = pieces.collect();
    Some(Function { pid: tgid, module, function, identity, owner, chunks })
}

#[cfg(test)]
mod tests {
    use libbpf_rs::MapType;
    use libbpf_rs::libbpf_sys::bpf_map_create_opts;
    use pyrograph_event::interpreter::Language;

    use super::*;

    #[test]
    fn files_beyond_the_last_row_are_counted() {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let size = size_of::<layout::Interpreter>() as u32;
        let rows = MAX_INTERPRETERS as u32;
        let map = MapHandle::create(MapType::Array, Some("interpreters"), 4, size, rows, &options);
        let Ok(map) = map else {
            eprintln!("skipped: maps cannot be made (this takes root or CAP_BPF)");
            return;
        };
        let interpreter = Interpreter {
            language: Language::Perl,
            to_address: 0,
            symbols: [0; Interpreter::SYMBOLS],
            place: ThreadPlace::Global(0),
            offsets: Interpreter::offsets([]),
            plan: Vec::new(),
            tag: 0,
        };
        let mut interpreters = Interpreters::new(map);
        for module in 0..rows {
            assert_eq!(interpreters.add(module, &interpreter).unwrap(), module as u16 + 1);
        }
        assert_eq!(interpreters.left_out(), 0);
        for module in [rows, rows + 1, rows, 3] {
            let row = interpreters.add(module, &interpreter).unwrap();
            assert_eq!(row, if module == 3 { 4 } else { 0 });
        }
        assert_eq!(interpreters.left_out(), 2);
    }

    #[test]
    fn damaged_functions_are_none_or_have_fewer_pieces() {
        let head = layout::Function {
            function: 100,
            tgid: 7,
            identity: 3,
            module: 5,
            chunks: 2,
            owner: 200,
        };
        let chunk = Chunk { address: 4096, len: 3, bytes: [9; layout::CHUNK_BYTES] };
        let bytes = [bytemuck::bytes_of(&head), bytemuck::bytes_of(&chunk), &[1; 20]].concat();
        let expected = Function {
            pid: 7,
            module: 5,
            function: 100,
            identity: 3,
            owner: 200,
            chunks: vec![(4096, vec![9; 3])],
        };
        assert_eq!(read_function(&bytes), Some(expected));
        assert_eq!(read_function(&bytes[..10]), None);
        let long = Chunk { len: u64::MAX, ..chunk };
        let bytes = [bytemuck::bytes_of(&head), bytemuck::bytes_of(&long)].concat();
        let read = read_function(&bytes).expect("a head and a piece");
        assert_eq!(read.chunks[0].1.len(), layout::CHUNK_BYTES);
    }
}
