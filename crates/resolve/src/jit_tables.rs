//! Unwinding of JIT-compiled code by the tables that its compiler wrote: `UNWINDING_INFO` records of a jitdump file.
//!
//! A process can compile a hundred thousand functions, of which a stack has a few. So the table of a function is put
//! over the mappings of its process only when a stack leads through it, and the stack is unwound again. Later stacks
//! find the table in its place.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pyrograph_symbol::JitDump;
use pyrograph_unwind::{AddressSpace, Arch, Frame, UnwindInfo};

use crate::module_ids::module_of_tag;

/// A jitdump file. Its writer maps one page of it as executable, so that recordings notice it; there is no other sign.
#[derive(Debug)]
pub struct DumpFile {
    /// Path of the file, as the process sees it.
    pub path: String,
    /// The file.
    pub file: File,
    /// Unwind tables in the file.
    pub tables: Tables,
}

impl DumpFile {
    /// Wraps an open file.
    pub fn new(path: &str, file: File) -> Self {
        Self { path: path.to_owned(), file, tables: Tables::default() }
    }
}

/// Number of tables that are added for one stack; the next one with the same frames goes on from there.
pub const MOST_LAID: usize = 64;

/// Number of functions whose tables are kept.
const MOST_TABLES: usize = 1 << 16;

/// Pause before a growing file is read again, as a multiple of the time that the last read took.
const MOST_TIME: u32 = 50;

/// Shortest pause between two reads of a file.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Jitdump file of a process.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The file.
    pub file: Arc<DumpFile>,
    /// True if samples have times that can be compared with those in the file.
    pub by_time: bool,
}

impl Dump {
    /// The function that was at an address at the time of a sample: its addresses and its unwind table, if it has one.
    fn table(&self, address: u64, time: Option<u64>) -> Option<(Range<u64>, Arc<UnwindInfo>)> {
        self.file.tables.table(&self.file.file, address, time.filter(|_| self.by_time))
    }
}

/// The unwind tables of a jitdump file.
#[derive(Debug, Default)]
pub struct Tables(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    dump: Option<JitDump<At>>,
    /// Length of the file when it was read, the time of that read, and how long it took.
    read: Option<(u64, Instant, Duration)>,
    /// Tables by the number of the function; `None` for functions without one.
    tables: HashMap<u32, Option<Arc<UnwindInfo>>>,
}

impl Tables {
    fn table(
        &self,
        file: &File,
        address: u64,
        time: Option<u64>,
    ) -> Option<(Range<u64>, Arc<UnwindInfo>)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.read(file);
        let State { dump, tables, .. } = &mut *state;
        let dump = dump.as_mut()?;
        let time = time.filter(|_| !dump.has_arch_timestamps());
        let number = match time {
            Some(time) => dump.nearest(address, time),
            None => dump.last(address),
        }?;
        if tables.len() >= MOST_TABLES {
            tables.clear();
        }
        let table = tables.entry(number).or_insert_with(|| {
            let unwinding = dump.unwinding(number)?;
            // The table's address is where `perf inject`, for which it is written, puts it.
            let end = unwinding.start.checked_add(unwinding.code.len() as u64)?;
            let address = end.checked_next_multiple_of(8)?;
            Some(Arc::new(UnwindInfo::from_eh_frame(
                Arch::X86_64,
                unwinding.start,
                &unwinding.code,
                &unwinding.eh_frame,
                address,
            )))
        });
        Some((dump.range(number)?, Arc::clone(table.as_ref()?)))
    }
}

impl State {
    /// Reads the file, if it has grown since the last read.
    fn read(&mut self, file: &File) {
        if let Some((_, at, took)) = self.read
            && at.elapsed() < SHORTEST_PAUSE.max(MOST_TIME * took)
        {
            return;
        }
        let now = Instant::now();
        let Ok(len) = file.metadata().map(|data| data.len()) else { return };
        let before = self.read.map(|(before, ..)| before);
        // A look that finds nothing new says nothing of what a read takes.
        let known = self.read.filter(|(before, ..)| *before == len).map(|(.., took)| took);
        if known.is_none() {
            // A jitdump file only grows; a shorter file is another one.
            if before.is_some_and(|before| len < before) {
                self.tables.clear();
            }
            // Other readers use the same open file, and have their position in it.
            let copy = file.try_clone().ok();
            let dump = copy.and_then(|file| JitDump::open(At { file, at: 0 }).ok());
            self.dump = dump.filter(JitDump::has_unwinding);
        }
        self.read = Some((len, now, known.unwrap_or_else(|| now.elapsed())));
    }
}

/// A file with a position of its own.
#[derive(Debug)]
struct At {
    file: File,
    at: u64,
}

impl Read for At {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for At {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.file.metadata()?.len(), by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let at = from.checked_add_signed(by);
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Mappings of some processes, with the tables of functions put over them.
#[derive(Debug, Default)]
pub struct Laid(Vec<LaidSpace>);

#[derive(Debug)]
struct LaidSpace {
    dump: Arc<DumpFile>,
    /// Mappings without the tables; `laid` has them with the tables.
    bare: AddressSpace,
    laid: AddressSpace,
}

impl Laid {
    /// Number of processes that are kept.
    const MOST: usize = 16;

    /// A process's mappings with the tables of functions that earlier stacks led through.
    pub fn space(&mut self, dump: &Dump, bare: &AddressSpace) -> AddressSpace {
        let is_it = |known: &&LaidSpace| Arc::ptr_eq(&known.dump, &dump.file);
        let known = self.0.iter().find(is_it).filter(|known| known.bare.is_clone_of(bare));
        known.map_or_else(|| bare.clone(), |known| known.laid.clone())
    }

    /// Mappings with the table of one more function in a stack that was unwound with `space`; `None` if `space` has all
    /// of them. If the process's own mappings, `bare`, are given, the tables are kept for later stacks.
    pub fn lay(
        &mut self,
        dump: &Dump,
        time: Option<u64>,
        (bare, space): (Option<&AddressSpace>, &AddressSpace),
        frames: &[Frame],
    ) -> Option<AddressSpace> {
        let laid = frames.iter().find_map(|frame| {
            let address = frame.lookup_address();
            let mapping = space.lookup(address)?;
            if !module_of_tag(mapping.tag).0.is_jit() {
                return None;
            }
            let (function, table) = dump.table(address, time)?;
            if mapping.info.as_ref().is_some_and(|info| Arc::ptr_eq(info, &table)) {
                return None;
            }
            // A function that the file places over other mappings must not replace these.
            let range =
                function.start.max(mapping.range.start)..function.end.min(mapping.range.end);
            let mut laid = space.clone();
            let offset = range.start - function.start;
            laid.map(range.clone(), offset, Some(table), mapping.tag);
            range.contains(&address).then_some(laid)
        })?;
        let Some(bare) = bare.cloned() else { return Some(laid) };
        self.0.retain(|known| !Arc::ptr_eq(&known.dump, &dump.file));
        if self.0.len() >= Self::MOST {
            self.0.remove(0);
        }
        self.0.push(LaidSpace { dump: Arc::clone(&dump.file), bare, laid: laid.clone() });
        Some(laid)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use pyrograph_unwind::{Registers, StackCopy, Unwinder};

    use super::*;
    use crate::module_ids::{ModuleId, mapping_tag};

    const CODE: u64 = 0x10000;
    const CALLER: u64 = 0x20000;

    /// The head of a jitdump file.
    fn header() -> Vec<u8> {
        let words = [0x4a69_5444_u32, 1, 40, 62, 0, 1];
        [words.map(u32::to_le_bytes).concat(), vec![0; 16]].concat()
    }

    /// A function at an address that keeps `words` words on the stack above its return address, and its table.
    fn function(time: u64, start: u64, size: u64, words: u8) -> Vec<u8> {
        let mut cie = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
        cie.extend([0x0c, 7, 8 + 8 * words, 0x90, 1, 0, 0]);
        let table = (start + size).next_multiple_of(8);
        let start_from_here = start.wrapping_sub(table + cie.len() as u64 + 8) as u32;
        let entry = [16, cie.len() as u32 + 4, start_from_here, size as u32, 0, 0];
        let eh_frame = [cie, entry.map(u32::to_le_bytes).concat()].concat();
        let record = |id: u32, body: &[u8]| {
            let head = [id, 16 + body.len() as u32].map(u32::to_le_bytes).concat();
            [head, time.to_le_bytes().to_vec(), body.to_vec()].concat()
        };
        let len = eh_frame.len() as u64;
        let unwinding = [[len, 0, len].map(u64::to_le_bytes).concat(), eh_frame].concat();
        let ids = [1_u32, 1].map(u32::to_le_bytes).concat();
        let place = [start, start, size, 0].map(u64::to_le_bytes).concat();
        let load = [ids, place, b"f\0".to_vec(), vec![0x90; size as usize]].concat();
        [record(4, &unwinding), record(0, &load)].concat()
    }

    struct Case {
        dump: Dump,
        laid: Laid,
        bare: AddressSpace,
    }

    impl Case {
        fn new(bytes: &[u8]) -> Self {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("it can be written");
            let mut bare = AddressSpace::new();
            bare.map(CODE..CODE + 0x1000, 0, None, mapping_tag(ModuleId(ModuleId::JIT), false));
            bare.map(CALLER..CALLER + 0x1000, 0, None, mapping_tag(ModuleId(7), true));
            let dump = Dump { file: Arc::new(DumpFile::new("jit-1.dump", file)), by_time: true };
            Self { dump, laid: Laid::default(), bare }
        }

        /// The addresses of a stack whose words are all given, and how often a table was laid for it.
        fn unwind(&mut self, ip: u64, words: &[u64], time: u64) -> (Vec<u64>, usize) {
            const START: u64 = 0x7000_0000;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut registers = Registers::new(Arch::X86_64);
            registers.set(16, ip);
            registers.set(7, START);
            registers.set(6, 0);
            let mut space = self.laid.space(&self.dump, &self.bare);
            for laid in 0.. {
                let mut frames = Vec::new();
                let copy = StackCopy { start: START, bytes: &bytes };
                let mut unwinder = Unwinder::new(Arch::X86_64);
                unwinder.unwind(&space, &registers, copy, 10, &mut frames);
                let spaces = (Some(&self.bare), &space);
                match self.laid.lay(&self.dump, Some(time), spaces, &frames) {
                    Some(with_table) => space = with_table,
                    None => return (frames.iter().map(|frame| frame.address).collect(), laid),
                }
            }
            unreachable!("a stack has an end")
        }
    }

    #[test]
    fn a_table_is_laid_once_and_found_by_the_next_stack() {
        let mut case = Case::new(&[header(), function(1, CODE, 0x20, 2)].concat());
        let stack = [0, 0, CALLER + 5, 0];
        assert_eq!(case.unwind(CODE + 9, &stack, 10), (vec![CODE + 9, CALLER + 5], 1));
        assert_eq!(case.unwind(CODE + 8, &stack, 11), (vec![CODE + 8, CALLER + 5], 0));
        // New mappings, without it.
        case.bare.map(0x50000..0x51000, 0, None, 9);
        assert_eq!(case.unwind(CODE + 8, &stack, 12).1, 1);
    }

    #[test]
    fn a_function_in_the_place_of_another_has_its_own_table() {
        let functions = [function(10, CODE, 0x20, 2), function(20, CODE, 0x30, 1)].concat();
        let mut case = Case::new(&[header(), functions].concat());
        let (first, second) = ([0, 0, CALLER + 5, 0], [0, CALLER + 5, 0, 0]);
        let expect = vec![CODE + 9, CALLER + 5];
        assert_eq!(case.unwind(CODE + 9, &first, 15), (expect.clone(), 1));
        assert_eq!(case.unwind(CODE + 9, &second, 25), (expect.clone(), 1));
        assert_eq!(case.unwind(CODE + 9, &first, 19), (expect, 1));
    }

    #[test]
    fn functions_that_are_written_down_later_are_found() {
        let mut case = Case::new(&header());
        let stack = [0, 0, CALLER + 5, 0];
        assert_eq!(case.unwind(CODE + 9, &stack, 10).1, 0);
        let more = function(1, CODE, 0x20, 2);
        case.dump.file.file.write_all_at(&more, 40).expect("it can be written");
        // Where reading took longer, as on a busy machine, it pauses for longer.
        let found = (0..1000).find_map(|_| {
            std::thread::sleep(2 * SHORTEST_PAUSE);
            Some(case.unwind(CODE + 9, &stack, 10)).filter(|(_, laid)| *laid > 0)
        });
        assert_eq!(found, Some((vec![CODE + 9, CALLER + 5], 1)));
    }

    /// A file may claim that there is a function where a library is mapped, or over the end of its own mapping.
    #[test]
    fn other_mappings_stay_as_they_are() {
        let functions =
            [function(1, CALLER, 0x20, 2), function(1, CODE + 0xff0, 0x100, 2)].concat();
        let mut case = Case::new(&[header(), functions].concat());
        case.bare.map(CODE + 0x1000..CODE + 0x2000, 0, None, 8);
        let stack = [0, 0, CALLER + 5, 0, 0, 0];
        assert_eq!(case.unwind(CALLER + 9, &stack, 10).1, 0);
        let (frames, laid) = case.unwind(CODE + 0xff8, &stack, 10);
        assert_eq!((frames, laid), (vec![CODE + 0xff8, CALLER + 5], 1));
        let space = case.laid.space(&case.dump, &case.bare);
        let tags = [CODE + 0xff0, CODE + 0x1000, CALLER]
            .map(|at| space.lookup(at).expect("a mapping").tag);
        assert_eq!(tags[1..], [8, mapping_tag(ModuleId(7), true)]);
        assert!(space.lookup(CODE + 0x1000).expect("a mapping").info.is_none());
    }
}
