//! The walkers of interpreted languages, compiled for user space (`programs/user_space/calls.c`), run over the memory
//! of programs that wait at a known place, intact and damaged. No privilege is needed: the programs are child
//! processes.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pyrograph_elf::Image;
use pyrograph_event::interpreter::{Call, Calls, Interpreter, Language};
use pyrograph_language::{Chunks, Found, Memory, Runtime, find};
use pyrograph_unwind::UnwindInfo;

use crate::in_user_space::InUserSpace;
use crate::interpreters::encode;

mod made;

/// The walkers in a process of their own.
struct Walkers(InUserSpace);

/// Input of a walker.
struct Thread<'a> {
    interpreter: &'a Interpreter,
    /// Difference from an address in the process to the offset in the interpreter's file.
    to_frame: u64,
    fs: u64,
    /// Native frames: the stack pointer, the encoded frame, the frame pointer, and the blob of Java code.
    frames: &'a [[u64; 4]],
}

impl Walkers {
    fn start() -> Self {
        Self(InUserSpace::start("calls"))
    }

    fn forget(&mut self) {
        self.0.send(&[0], &[]);
    }

    fn add_memory(&mut self, address: u64, bytes: &[u8]) {
        self.0.send(&[1, address, bytes.len() as u64], bytes);
    }

    fn walk(&mut self, thread: &Thread<'_>) -> Vec<u64> {
        let interpreter = encode(0, thread.interpreter);
        self.0.send(&[2], bytemuck::bytes_of(&interpreter));
        self.0.send(&[thread.to_frame, thread.fs, thread.frames.len() as u64], &[]);
        self.0.send(thread.frames.as_flattened(), &[]);
        let count = self.0.word();
        (0..count).map(|_| self.0.word()).collect()
    }

    /// The pieces of memory that name a function.
    fn chunks(&mut self, it: &Interpreter, function: u64, owner: u64) -> Vec<(u64, Vec<u8>)> {
        self.0.send(&[3], bytemuck::bytes_of(&encode(0, it)));
        self.0.send(&[function, owner], &[]);
        let count = self.0.word();
        let mut chunk = || {
            let (address, len) = (self.0.word(), self.0.word());
            let mut bytes = vec![0; usize::try_from(len).expect("a length")];
            self.0.bytes(&mut bytes);
            (address, bytes)
        };
        (0..count).map(|_| chunk()).collect()
    }
}

/// A waiting program, with its interpreter and its memory.
struct Waiting {
    child: Child,
    runtime: Box<Runtime>,
    to_frame: u64,
    fs: u64,
    sp: u64,
    frames: Vec<[u64; 4]>,
    memory: Vec<(u64, Vec<u8>)>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Waiting {
    /// Starts a script, and waits until it has written a line and waits in a read.
    fn start(interpreter: &str, script: &str) -> Option<Self> {
        let child = Command::new(interpreter)
            .args(["-e", script].map(|argument| match (interpreter, argument) {
                (python, "-e") if python.contains("python") => "-c",
                (_, argument) => argument,
            }))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: there is no {interpreter}");
            return None;
        };
        let mut line = [0];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it has come there");
        let pid = child.id();
        let waits = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|it| it.starts_with("0 "))
        {
            assert!(Instant::now() < waits, "it does not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
        let code = maps.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (range, mode, offset) = (words.next()?, words.next()?, words.next()?);
            let path = words.nth(2)?;
            let image = Image::open(Path::new(path)).ok().filter(|_| mode.contains('x'))?;
            let info = UnwindInfo::from_bytes(fs::read(path).ok()?).ok()?;
            let Some(Found::Known(runtime)) = find(&image, &|at| info.function(at)) else {
                return None;
            };
            let start = u64::from_str_radix(range.split_once('-')?.0, 16).ok()?;
            Some((runtime, u64::from_str_radix(offset, 16).ok()?.wrapping_sub(start)))
        });
        let (runtime, to_frame) = code.expect("an interpreter that is known");
        let mem = File::open(format!("/proc/{pid}/mem")).expect("its memory");
        let memory = maps.lines().filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let (start, end) =
                (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
            let mut bytes =
                vec![0; usize::try_from(end - start).ok().filter(|len| *len < 64 << 20)?];
            let is_data = rest.starts_with('r') && !rest.contains("[v");
            (is_data && mem.read_exact_at(&mut bytes, start).is_ok()).then_some((start, bytes))
        });
        let registers = registers(pid);
        let memory: Vec<_> = memory.collect();
        let frames = match runtime.language() {
            Language::Lua => luajit_frames(&runtime.interpreter, registers.rsp, &memory),
            _ => (0..64).map(|n| [registers.rsp + n * 0x100, 0, 0, 0]).collect(),
        };
        Some(Self {
            memory,
            frames,
            runtime,
            to_frame,
            fs: registers.fs_base,
            sp: registers.rsp,
            child,
        })
    }

    fn thread(&self) -> Thread<'_> {
        let Self { to_frame, fs, ref runtime, ref frames, .. } = *self;
        Thread { interpreter: &runtime.interpreter, to_frame, fs, frames }
    }

    /// Names of the functions among the calls, innermost first.
    fn names(&self, walkers: &mut Walkers, words: &[u64]) -> Vec<String> {
        let name = |call| match call {
            Call::Function { function, .. } => {
                let chunks = walkers.chunks(&self.runtime.interpreter, function, 0);
                let memory = Chunks { chunks: &chunks, rest: () };
                let name = self.runtime.name(&memory, function, 0);
                Some(name.map_or("?".to_owned(), |name| name.function))
            }
            Call::Main(_) => Some("main".to_owned()),
            Call::Eval { .. } => Some("(eval)".to_owned()),
            Call::End(_) => Some("|".to_owned()),
            _ => None,
        };
        Calls::new(words).iter().filter_map(name).collect()
    }
}

/// Stack frames in which C has called LuaJIT's interpreter. The coroutine in each holds the address of the innermost
/// one, and each frame holds the address of the one before.
fn luajit_frames(it: &Interpreter, sp: u64, memory: &[(u64, Vec<u8>)]) -> Vec<[u64; 4]> {
    let word = |at: u64| {
        let (start, bytes) =
            memory.iter().find(|(start, bytes)| at.wrapping_sub(*start) < bytes.len() as u64)?;
        let bytes = bytes.get((at - start) as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let c_frame = |at: &u64| {
        // `enum luajit_offset` of the programs: LUAJIT_C_FRAME.
        word(word(at + 16)? + u64::from(it.offsets[8])).filter(|found| found & !3 == *at)
    };
    let first = (sp..sp + (1 << 16)).step_by(8).find(|at| c_frame(at).is_some());
    let frame = it.symbols[0].wrapping_sub(it.to_address);
    let all = std::iter::successors(first, |at| word(at + 32).filter(|before| *before != 0));
    all.map(|at| [at & !3, frame, 0, 0]).collect()
}

/// Registers of a waiting thread.
fn registers(pid: u32) -> libc::user_regs_struct {
    let pid = i32::try_from(pid).expect("a process number");
    let request = |request, data: *mut libc::c_void| {
        // SAFETY: `data` is null, or a structure of the size that the request writes.
        let done = unsafe { libc::ptrace(request, pid, std::ptr::null_mut::<u8>(), data) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    // SAFETY: zeros are valid registers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_SEIZE, std::ptr::null_mut());
    request(libc::PTRACE_INTERRUPT, std::ptr::null_mut());
    // SAFETY: it waits for a child.
    assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) }, pid);
    request(libc::PTRACE_GETREGS, (&raw mut registers).cast());
    request(libc::PTRACE_DETACH, std::ptr::null_mut());
    registers
}

const PYTHON: &str = "
import sys
class Key:
    def __lt__(self, other): return wait()
def wait(): print('x', flush=True); sys.stdin.read(); return True
def sorts(): sorted([Key(), Key()])
def outer(n): return sorts() if n == 0 else outer(n - 1)
outer(3)
";

const PERL: &str = "
$| = 1;
sub Some::wait { print 'x'; <STDIN>; 0 }
sub sorts { my @x = sort { Some::wait() } 1, 2 }
sub outer { my $n = shift; $n ? outer($n - 1) : eval { sorts() } }
outer(3);
";

/// Walks a program's calls, intact and damaged, and returns the names of the intact ones.
fn check(interpreter: &str, script: &str) -> Option<Vec<String>> {
    let program = Waiting::start(interpreter, script)?;
    let mut walkers = Walkers::start();
    for (address, bytes) in &program.memory {
        walkers.add_memory(*address, bytes);
    }
    let words = walkers.walk(&program.thread());
    let names = program.names(&mut walkers, &words);

    // A pseudo-random number generator (Knuth's MMIX).
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 20) % below
    };
    // Addresses that the walker reads, and their neighbourhood: pointers to them are written there, which makes loops.
    let mut places: Vec<u64> = words.iter().copied().filter(|word| *word > 1 << 16).collect();
    places.extend([program.fs, program.sp]);
    let pointers: Vec<u64> = places.clone();
    for place in pointers {
        let chunks = walkers.chunks(&program.runtime.interpreter, place, 0);
        places.extend(chunks.iter().map(|(address, _)| *address));
        for (_, bytes) in &chunks {
            let (words, _) = bytes.as_chunks::<8>();
            places.extend(words.iter().map(|word| u64::from_le_bytes(*word)).filter(|at| {
                program
                    .memory
                    .iter()
                    .any(|(start, bytes)| at.wrapping_sub(*start) < bytes.len() as u64)
            }));
        }
    }
    for _ in 0..400 {
        let mut at = || {
            let place = places[random(places.len() as u64) as usize];
            place.wrapping_add(8 * random(32)).wrapping_sub(8 * random(8))
        };
        let (address, pointer) = (at(), at());
        let value = match random(4) {
            0 => random(1 << 40),
            1 => random(64),
            2 => u64::MAX - random(64),
            _ => pointer,
        };
        walkers.add_memory(address, &value.to_ne_bytes());
        let damaged = walkers.walk(&program.thread());
        assert!(damaged.len() <= 2 + 2 * 1024, "{}", damaged.len());
        let found = program.names(&mut walkers, &damaged[..damaged.len().min(64)]);
        assert!(found.iter().all(|name| name.chars().all(|c| !c.is_control())), "{found:?}");
        // Damage accumulates for a while.
        if random(8) == 0 {
            walkers.forget();
            for (address, bytes) in &program.memory {
                if places.iter().any(|place| place.wrapping_sub(*address) < bytes.len() as u64) {
                    walkers.add_memory(*address, bytes);
                }
            }
        }
    }
    Some(names)
}

#[test]
fn the_walker_of_python_finds_the_calls() {
    let Some(names) = check("/usr/bin/python3", PYTHON) else { return };
    let own: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "|").collect();
    let expected = ["wait", "Key.__lt__", "sorts", "outer", "outer", "outer", "outer", "<module>"];
    assert_eq!(own, expected, "{names:?}");
}

const TASKS: &str = "
import asyncio, sys
def wait(): print('x', flush=True); sys.stdin.read()
async def leaf(): wait()
async def started(): await asyncio.create_task(leaf())
async def between(): await started()
async def gathered(): await asyncio.gather(asyncio.sleep(60), between())
async def grouped():
    async with asyncio.TaskGroup() as group: group.create_task(gathered())
async def shielded(): await asyncio.shield(grouped())
async def timed(): await asyncio.wait_for(shielded(), 100)
async def waited(): await asyncio.wait([asyncio.create_task(timed())])
async def called_back():
    task = asyncio.create_task(waited())
    task.add_done_callback(lambda task: None)
    task.add_done_callback({task}.discard)
    await task
asyncio.run(called_back())
";

/// The coroutines that await a task are its callers, before those of the event loop.
#[test]
fn the_walker_of_python_finds_who_awaits_a_task() {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interpreters");
    let later = ["13", "14"].map(|minor| unpacked.join(format!("python-3.{minor}/run")));
    for python in
        [Path::new("/usr/bin/python3")].into_iter().chain(later.iter().map(|path| &**path))
    {
        let Some(names) = check(&python.to_string_lossy(), TASKS) else { continue };
        let own: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "|").collect();
        // They differ from version to version.
        let helpers = ["wait_for", "_wait", "TaskGroup._aexit"];
        let own: Vec<&str> = own.into_iter().filter(|name| !helpers.contains(name)).collect();
        let expected = [
            "wait",
            "leaf",
            "started",
            "between",
            "gathered",
            "TaskGroup.__aexit__",
            "grouped",
            "shielded",
            "timed",
            "wait",
            "waited",
            "called_back",
            "Handle._run",
        ];
        assert_eq!(
            own[..expected.len().min(own.len())],
            expected,
            "{}: {names:?}",
            python.display()
        );
    }
}

#[test]
fn the_walker_of_perl_finds_the_calls() {
    let Some(names) = check("/usr/bin/perl", PERL) else { return };
    let own: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "|").collect();
    let outer = ["main::outer"; 4];
    let expected = [&["Some::wait", "main::sorts", "(eval)"], &outer[..], &["main"]].concat();
    assert_eq!(own, expected, "{names:?}");
}

const LUA: &str = "
local function wait() io.write('x') io.flush() local s = io.read('*a') return s end
local function compare() local s = pcall(wait) return s end
local function sorts() table.sort({1, 2}, compare) return 1 end
local function outer(n, ...) local r = n == 0 and sorts() or outer(n - 1, n, ...) return r end
local r = outer(3)
";

#[test]
fn the_walker_of_luajit_finds_the_calls() {
    let Some(names) = check("/usr/bin/luajit", LUA) else { return };
    let expected = [2, 3, 4, 5, 5, 5, 5].map(|line| format!("(command line):{line}"));
    let own: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "|").collect();
    let main = "main chunk of (command line)";
    assert_eq!(own[..own.len() - 1], expected, "{names:?}");
    assert_eq!(own.last(), Some(&main));
    // C has called the comparison function and the main chunk.
    let ends = |name: &str| {
        let at = names.iter().position(|known| known == name);
        at.and_then(|at| names.get(at + 1)).is_some_and(|next| next == "|")
    };
    assert!(ends("(command line):3") && ends(main) && !ends("(command line):4"), "{names:?}");
}

/// The machine's own files, and those that `.ci/interpreters` has unpacked.
#[test]
fn luajit_is_found_in_files() {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interpreters");
    let library = "usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2";
    // Distance of the dispatch table from the global state (LUAJIT_DISPATCH_TO_GLOBAL), and offset of the traces in
    // that state (LUAJIT_TRACES).
    let cases = [
        (Path::new("/").join(library), Ok((3968, 1112))),
        ("/usr/bin/luajit".into(), Ok((3968, 1112))),
        (unpacked.join("debian-trixie").join(library), Ok((4016, 1128))),
        (unpacked.join("debian-trixie/usr/bin/luajit"), Ok((4016, 1128))),
        (
            unpacked.join("debian-bullseye").join(library),
            Err("its references have 32 bits (built without GC64)"),
        ),
    ];
    for (path, expected) in cases {
        let Ok(image) = Image::open(&path) else {
            eprintln!("skipped: there is no {}", path.display());
            continue;
        };
        let info = UnwindInfo::from_bytes(fs::read(&path).expect("a file")).expect("tables");
        match (find(&image, &|at| info.function(at)).expect("an interpreter"), expected) {
            (Found::Known(runtime), Ok(expected)) => {
                let it = &runtime.interpreter;
                assert_eq!((it.offsets[3], it.offsets[19]), expected, "{}", path.display());
                assert!(it.symbols[1] - it.symbols[0] > 10_000);
                assert!(runtime.version.starts_with("2.1."), "{}", runtime.version);
            }
            (Found::Unknown(unknown), Err(reason)) => assert_eq!(unknown.reason, reason),
            (found, expected) => panic!("{}: {found:?}, {expected:?}", path.display()),
        }
    }
}

/// Without memory, there are no calls and no names.
#[test]
fn without_memory_there_are_no_calls() {
    let Some(program) = Waiting::start("/usr/bin/perl", PERL) else { return };
    let mut walkers = Walkers::start();
    assert_eq!(walkers.walk(&program.thread()), []);
    assert!(program.runtime.name(&NoMemory, 4096, 0).is_none());
}

struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}
