//! Data that is shared with the programs: the structures of `programs/shared.h`.

use bytemuck::{Pod, Zeroable};
use pyrograph_event::interpreter;

/// Maximum number of frames of a user stack.
pub const MAX_FRAMES: usize = 512;
/// Number of words in a block of table rows.
pub const BLOCK_WORDS: usize = 1 << 18;
pub const MAX_BLOCKS: usize = 1024;
pub const MAX_RULES: usize = 65536;
pub const MAX_MODULES: usize = 65536;

/// Number of bits of the address in a frame (a file offset, or an address in the process). The module's number is above
/// them.
pub const FRAME_SHIFT: u32 = 47;
/// Module of addresses without a known mapping.
pub const MODULE_UNKNOWN: u32 = 1;
/// First number for files that are still unknown.
pub const MODULE_ASKED: u32 = 65536;
/// Module of code that is in no file.
pub const MODULE_ANONYMOUS: u32 = 0x1fffe;
/// Pseudo-module of the frame that ends a stack whose outer part is missing.
pub const MODULE_END: u32 = 0x1ffff;
/// Pseudo-module of the last word of a stack with interpreter calls.
pub const MODULE_CALLS: u32 = 0x1fffd;
/// Number of counters by `enum end`, which has fewer values. [`END_GUESSED`] is added to such a value if a frame of the
/// stack was guessed.
pub const ENDS: usize = 16;
pub const END_GUESSED: u64 = 16;

#[cfg(test)]
pub const TABLE_PENDING: u32 = 0;
pub const TABLE_READY: u32 = 1;
pub const TABLE_NONE: u32 = 2;
pub const TABLE_OMITTED: u32 = 3;

/// Identity of a mapped file. It changes when the file changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct FileKey {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) changed: i64,
    pub(crate) changed_ns: u32,
    pub(crate) device: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    pub to_table: u64,
}

pub const SEGMENTS: usize = 2;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct MappedFile {
    pub module: u32,
    pub count: u16,
    pub interpreter: u16,
    pub segments: [Segment; SEGMENTS],
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Question {
    pub key: FileKey,
    pub start: u64,
    pub end: u64,
    pub tgid: i32,
    pub module: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Lookup {
    pub address: u64,
    pub start: u64,
    pub end: u64,
    pub key: FileKey,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Module {
    pub index: u32,
    pub pages: u32,
    pub state: u32,
    pub hits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Key {
    pub user: u64,
    pub kernel: u64,
    pub tgid: i32,
    pub tid: i32,
    pub thread: [u8; 16],
    pub process: [u8; 16],
    pub kind: u32,
    pub detail: u32,
    pub waker: u64,
    pub cpu: u32,
    pub time: u32,
}

/// Binary logarithm of the time unit in keys, in nanoseconds.
pub const KEY_TIME_SHIFT: u32 = 20;
/// Binary logarithm of the time unit in keys if each sample has its time, in nanoseconds.
pub const FINE_TIME_SHIFT: u32 = 14;

/// Value of `enum kind` for probes.
pub const KIND_PROBE: u32 = 6;
/// Values of [`Key::detail`] for probes: stacks are kept apart by a number, by a text (its hash), or by a value that could
/// not be read.
pub const BY_NUMBER: u32 = 1;
pub const BY_TEXT: u32 = 2;
pub const BY_UNREAD: u32 = 3;

/// Number of words of a waker: hashes of its user and kernel stack, its process ID, and two names.
pub const WAKER_WORDS: usize = 7;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Count {
    pub events: u64,
    pub value: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Blocked {
    pub since: u64,
    pub stands_for: u64,
    pub key: Key,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Site {
    pub key: Key,
    pub count: Count,
}

/// Number of words of a set of system calls, with a bit for each.
pub const CALL_WORDS: usize = 8;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    pub filter: u32,
    pub inherit: u32,
    pub user: u32,
    pub kernel: u32,
    pub min_block: u64,
    pub wakers_alone: u32,
    pub measure: u32,
    pub files: u32,
    pub futexes: u32,
    pub calls: [u64; CALL_WORDS],
    pub interrupts_start: u64,
    pub interrupts_end: u64,
    pub group: u64,
    pub names: u32,
    pub by_cpu: u32,
    pub copy_budget: u64,
    pub no_guess: u32,
    pub fine_rows: u32,
    pub waits_alike: u32,
    pub wakers_too: u32,
    pub least_quantum: u64,
    pub by_value: u32,
    pub no_idle: u32,
    pub lines: u32,
    pub languages: u32,
    pub commands: u32,
    pub pad: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    pub side: u32,
    pub on: u32,
    pub lost_counts: u64,
    pub lost_stacks: u64,
    pub lost_busy: u64,
    pub ends: [u64; ENDS],
    pub asked: u64,
    pub stopped: u64,
    pub command: u32,
    pub files: u32,
    pub forgotten: u64,
    pub pid_namespace: u64,
    pub pid_level: u32,
    pub times: u32,
    pub copied: u64,
    pub copies_refused: u64,
    pub period: u64,
    pub until: u64,
    pub luajit: u32,
    pub rows: u32,
    pub lost: u64,
    pub unread: u64,
    pub negative: u64,
}

/// Maximum number of interpreters that are known at a time.
pub const MAX_INTERPRETERS: usize = 512;

/// Location of a thread's variable: a value of `enum place_of` and its parameters.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PlaceInThread {
    pub kind: u32,
    pub row: u32,
    pub value: u64,
    pub detail: u64,
}

/// A piece of memory that is read to name a function.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ChunkPlan {
    pub from: u16,
    pub offset: u16,
    pub len: u16,
    pub behind: u16,
    pub pairs: u16,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Interpreter {
    pub language: u32,
    pub module: u32,
    pub chunks: u32,
    pub tag: u32,
    pub to_address: u64,
    pub symbols: [u64; interpreter::Interpreter::SYMBOLS],
    pub place: PlaceInThread,
    pub offsets: [u32; interpreter::Interpreter::OFFSETS],
    pub plan: [ChunkPlan; interpreter::Interpreter::CHUNKS],
}

/// A function of an interpreter; the pieces of memory that name it follow.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Function {
    pub function: u64,
    pub tgid: i32,
    pub identity: u32,
    pub module: u32,
    pub chunks: u32,
    pub owner: u64,
}

pub const CHUNK_BYTES: usize = interpreter::Interpreter::CHUNK_BYTES as usize;

/// A piece of memory.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Chunk {
    pub address: u64,
    pub len: u64,
    pub bytes: [u8; CHUNK_BYTES],
}

/// State of the clock of a CPU.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Tick {
    pub taken: u64,
    pub spent: u64,
    pub skipped: i64,
}

/// A user stack that ended early in the kernel; the bytes of the stack follow.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Copy {
    pub hash: u64,
    pub partial: u64,
    pub time: u64,
    pub tgid: i32,
    pub tid: i32,
    pub end: u32,
    pub called: u32,
    pub registers: [u64; 17],
    pub stack_end: u64,
    pub len: u64,
    pub root: u64,
}

/// A command line; its words follow.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct CommandLine {
    pub time: u64,
    pub tgid: i32,
    pub len: u32,
}

/// Limits of copies: bytes of the stack in a copy, bytes of the thread's first frames ([`ROOT_COPY`]), and the time
/// window of a CPU's budget in nanoseconds ([`COPY_WINDOW_NS`]).
pub const LARGE_COPY: u64 = 64 << 10;
pub const ROOT_COPY: u64 = 4 << 10;
pub const COPY_WINDOW_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{assert_layouts, layout};

    #[test]
    fn structures_are_those_of_the_programs() {
        let structures = [
            layout!("file_key": FileKey { inode, size, changed, changed_ns, device }),
            layout!("segment": Segment { start, end, to_table }),
            layout!("mapped_file": MappedFile { module, count, interpreter, segments }),
            layout!("lookup": Lookup { address, start, end, key }),
            layout!("module": Module { index, pages, state, hits }),
            layout!("rule": pyrograph_unwind::TableRule { kind, base, add, offset, saved, below_fp, flags }),
            layout!("key": Key { user, kernel, tgid, tid, thread, process, kind, detail, waker, cpu, time }),
            layout!("count": Count { events, value }),
            layout!("blocked": Blocked { since, stands_for, key }),
            layout!("site": Site { key, events = count.events, value = count.value }),
            layout!("config": Config { filter, inherit, user, kernel, min_block, wakers_alone, measure, files, futexes, calls, interrupts_start, interrupts_end, group, names, by_cpu, copy_budget, no_guess, fine_rows, waits_alike, wakers_too, least_quantum, by_value, no_idle, lines, languages, commands, pad }),
            layout!("state": State { side, on, lost_counts, lost_stacks, lost_busy, ends, asked, stopped, command, files, forgotten, pid_namespace, pid_level, times, copied, copies_refused, period, until, luajit, rows, lost, unread, negative }),
            layout!("tick": Tick { taken, spent, skipped }),
            layout!("interpreter": Interpreter { language, module, chunks, tag, to_address, symbols, place, offsets, plan }),
            layout!("place_in_thread": PlaceInThread { kind, row, value, detail }),
            layout!("chunk_plan": ChunkPlan { from, offset, len, behind, pairs }),
        ];
        assert_layouts(&crate::load::PROGRAMS, &structures);
    }
}
