//! Unwinding of JIT-compiled code: by the tables in the process's jitdump file, or by analysing its instructions, which
//! are read from the process while it lives.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use pyrograph_symbol::PerfMap;
use pyrograph_unwind::{AddressSpace, Arch, Frame, StackEnd, UnwindInfo};

use crate::files::Files;
use crate::jit_tables::{Dump, Laid, MOST_LAID};

/// Size of the aligned windows in which code is read. It limits the cost of one stack, however much code there is.
const WINDOW: u64 = 1 << 20;

/// Number of windows that are kept: 64 MiB.
const MOST_WINDOWS: usize = 64;

/// Number of windows that are read for one stack.
const MOST_IN_STACK: usize = 4;

/// Size of the code around an address that is compared with the process's memory to detect changes, in bytes.
const CHECKED: u64 = 64;

/// Size of the largest perf map that is read for the ranges of functions, in bytes.
const LARGEST_MAP: u64 = 64 << 20;

/// Code of processes as it was when it was read.
#[derive(Default)]
pub(crate) struct JitCode {
    laid: Laid,
    windows: HashMap<(i32, u64), Window>,
    maps: HashMap<i32, Functions>,
}

struct Window {
    code: Arc<[u8]>,
    info: Arc<UnwindInfo>,
}

/// Ranges of functions from a perf map, and the map's length when it was read.
#[derive(Default)]
struct Functions {
    map_len: u64,
    ranges: Vec<Range<u64>>,
}

/// An unwinder of stacks.
pub(crate) trait Walker {
    /// Reason why the last stack ended, and its frames, leaf first; no frames if it was not unwound here.
    fn unwound(&self) -> (StackEnd, &[Frame]);
}

/// The process and moment whose code a stack leads through.
pub(crate) struct Code<'a> {
    pub dump: Option<&'a Dump>,
    /// Time of the stack, if it is known.
    pub time: Option<u64>,
    /// Process ID and thread ID.
    pub thread: (i32, i32),
    /// True if callers may be found by analysing instructions.
    pub guessing: bool,
}

/// Number of tables and windows that were added to the mappings for one stack.
#[derive(Default)]
struct Steps {
    tables: usize,
    windows: usize,
}

/// Address in JIT-compiled code at which unwinding ended because there is no table; `None` if it ended elsewhere.
fn ended_in_jit_code(space: &AddressSpace, end: StackEnd, frames: &[Frame]) -> Option<u64> {
    if matches!(end, StackEnd::Root | StackEnd::TooManyFrames | StackEnd::Unread) {
        return None;
    }
    // A wrong step out of JIT-compiled code may have led to other code, where unwinding then ended.
    let jit = |frame: &&Frame| {
        space.lookup(frame.lookup_address()).is_some_and(|mapping| mapping.info.is_none())
    };
    frames.iter().find(jit).map(Frame::lookup_address)
}

impl JitCode {
    /// Unwinds a stack with a process's mappings, and with tables for the JIT-compiled code that the stack leads
    /// through. `live`: access to the process, if it may still run.
    pub fn walk<W: Walker, T>(
        &mut self,
        mut live: Option<&mut dyn Files>,
        code: &Code<'_>,
        bare: &AddressSpace,
        walker: &mut W,
        mut walk: impl FnMut(&mut W, &AddressSpace, Option<&dyn Files>) -> T,
    ) -> T {
        let mut space = match code.dump {
            Some(dump) => Cow::Owned(self.laid.space(dump, bare)),
            None => Cow::Borrowed(bare),
        };
        let mut steps = Steps::default();
        loop {
            let found = walk(walker, &space, live.as_deref());
            let (spaces, live) = ((bare, &*space), live.as_deref_mut());
            match self.lay(live, code, &mut steps, spaces, walker.unwound()) {
                Some(more) => space = Cow::Owned(more),
                None => return found,
            }
        }
    }

    /// Mappings with one more table for JIT-compiled code in a stack that was unwound with `space`; `None` if there is
    /// no further table.
    fn lay(
        &mut self,
        live: Option<&mut (dyn Files + '_)>,
        code: &Code<'_>,
        steps: &mut Steps,
        (bare, space): (&AddressSpace, &AddressSpace),
        (end, frames): (StackEnd, &[Frame]),
    ) -> Option<AddressSpace> {
        if let Some(dump) = code.dump
            && steps.tables < MOST_LAID
            // Code that was read from the process may have changed by the next stack.
            && let bare = Some(bare).filter(|_| steps.windows == 0)
            && let Some(space) = self.laid.lay(dump, code.time, (bare, space), frames)
        {
            steps.tables += 1;
            return Some(space);
        }
        let is_left = code.guessing && steps.windows < MOST_IN_STACK;
        let live = live.filter(|_| is_left)?;
        let at = ended_in_jit_code(space, end, frames)?;
        steps.windows += 1;
        self.space_with_code(live, code.thread, space, at)
    }

    /// A process's mappings with a table made from the instructions around an address; `None` if the address is in a
    /// file or is not mapped, or if the code cannot be read.
    fn space_with_code(
        &mut self,
        files: &mut dyn Files,
        (pid, tid): (i32, i32),
        space: &AddressSpace,
        address: u64,
    ) -> Option<AddressSpace> {
        let mapping = space.lookup(address).filter(|mapping| mapping.info.is_none())?;
        let start = (address & !(WINDOW - 1)).max(mapping.range.start);
        let end = (address | (WINDOW - 1)).saturating_add(1).min(mapping.range.end);
        let tag = mapping.tag;
        let info = self.info(files, (pid, tid), start..end, address)?;
        let mut space = space.clone();
        space.map(start..end, 0, Some(info), tag);
        Some(space)
    }

    fn info(
        &mut self,
        files: &mut dyn Files,
        (pid, tid): (i32, i32),
        window: Range<u64>,
        address: u64,
    ) -> Option<Arc<UnwindInfo>> {
        let key = (pid, window.start);
        if let Some(known) = self.windows.get(&key)
            && is_unchanged(&known.code, files, tid, &window, address)
        {
            return Some(Arc::clone(&known.info));
        }
        let mut code = vec![0; usize::try_from(window.end - window.start).ok()?];
        if !files.read_memory(tid, window.start, &mut code) {
            return None;
        }
        let code: Arc<[u8]> = code.into();
        let functions = self.functions(files, pid, &window);
        let bytes = Arc::clone(&code);
        let info = UnwindInfo::from_code(Arch::X86_64, window.start, bytes, &functions);
        let info = Arc::new(info);
        if self.windows.len() >= MOST_WINDOWS {
            self.windows.clear();
            self.maps.clear();
        }
        self.windows.insert(key, Window { code, info: Arc::clone(&info) });
        Some(info)
    }

    /// Functions in a window, from the perf map of the process; none if it does not write one.
    fn functions(
        &mut self,
        files: &mut dyn Files,
        pid: i32,
        window: &Range<u64>,
    ) -> Vec<Range<u64>> {
        let known = self.maps.entry(pid).or_default();
        if let Some(map) = files.perf_map(pid)
            && let Ok(data) = map.metadata()
            && data.len() != known.map_len
            && data.len() <= LARGEST_MAP
        {
            *known = Functions { map_len: data.len(), ranges: ranges(&map) };
        }
        let first = known.ranges.partition_point(|range| range.start < window.start);
        let inside = known.ranges[first..].iter().take_while(|range| range.end <= window.end);
        inside.cloned().collect()
    }
}

/// Functions of a perf map, by address.
fn ranges(map: &File) -> Vec<Range<u64>> {
    PerfMap::parse(BufReader::new(map)).map(|map| map.ranges().collect()).unwrap_or_default()
}

/// Returns true if the code around an address still equals the copy that was read.
fn is_unchanged(
    code: &[u8],
    files: &dyn Files,
    tid: i32,
    window: &Range<u64>,
    address: u64,
) -> bool {
    let start = (address & !(CHECKED - 1)).max(window.start);
    let end = start.saturating_add(CHECKED).min(window.end);
    let mut now = vec![0; (end - start) as usize];
    let at = (start - window.start) as usize;
    // If the process is gone, the copy is all that is left.
    !files.read_memory(tid, start, &mut now) || code.get(at..at + now.len()) == Some(&now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MappedFile;

    /// `sub $8,%rsp; call *%rcx; add $8,%rsp; ret`, as CPython's trampolines for perf, at 0x10040.
    const TRAMPOLINE: [u8; 11] = [0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3];

    struct Process {
        code: Vec<u8>,
    }

    impl Files for Process {
        fn open(&mut self, _: &MappedFile<'_>) -> Option<(File, bool)> {
            None
        }

        fn perf_map(&mut self, _: i32) -> Option<File> {
            use std::io::{Seek, Write};
            let mut map = tempfile::tempfile().expect("a file");
            writeln!(map, "10040 b py::f:/a.py").expect("it can be written");
            map.rewind().expect("it is a file");
            Some(map)
        }

        fn read_memory(&self, _: i32, address: u64, bytes: &mut [u8]) -> bool {
            let Some(at) = address.checked_sub(0x10000) else { return false };
            let part = self.code.get(at as usize..at as usize + bytes.len());
            part.map(|part| bytes.copy_from_slice(part)).is_some()
        }
    }

    #[test]
    fn jit_compiled_code_is_unwound_by_its_instructions() {
        let mut code = vec![0xcc; 0x1000];
        code[0x40..0x40 + TRAMPOLINE.len()].copy_from_slice(&TRAMPOLINE);
        let mut process = Process { code };
        let mut space = AddressSpace::new();
        space.map(0x10000..0x11000, 0, None, 7);
        let mut code = JitCode::default();
        let found = code.space_with_code(&mut process, (1, 1), &space, 0x10045).expect("code");
        let mapping = found.lookup(0x10045).expect("a mapping");
        assert_eq!((mapping.tag, mapping.range.clone()), (7, 0x10000..0x11000));
        let info = mapping.info.as_ref().expect("tables by its instructions");
        // In the call, a word lies above the return address.
        let rule = *info.table().rule(mapping.svma(0x10045)).expect("a rule");
        assert_eq!((rule.base, rule.offset), (7, 16));

        assert!(Arc::ptr_eq(
            info,
            &code.info(&mut process, (1, 1), 0x10000..0x11000, 0x10045).unwrap()
        ));
        process.code[0x50] = 0x90;
        let changed = code.info(&mut process, (1, 1), 0x10000..0x11000, 0x10045).expect("code");
        assert!(!Arc::ptr_eq(info, &changed), "it is read again");
        assert!(code.space_with_code(&mut process, (1, 1), &space, 0x20000).is_none());
        assert!(code.space_with_code(&mut process, (1, 1), &found, 0x10045).is_none());
    }
}
