//! The kernel's unwinder, compiled for user space (`programs/user_space`), run over stacks of live programs: it must
//! find the same frames as `unwind`. No privilege is needed: the programs are child processes of the test.

#[path = "../../unwind/tests/common/capture.rs"]
mod capture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyrograph_unwind::{Arch, Frame, StackCopy, StackEnd, UnwindInfo, Unwinder};

use crate::common::Files;
use crate::in_user_space::InUserSpace;
use crate::layout::{
    FRAME_SHIFT, MAX_FRAMES, MAX_RULES, MODULE_ANONYMOUS, MODULE_END, MODULE_UNKNOWN, MappedFile,
    Segment,
};
use crate::memory::Memory;
use crate::tables::Tables;
use capture::Capture;

const BLOCKS: usize = 16;
const FRAMES: usize = 20_000;

/// `enum end` of `programs/shared.h`.
const END_ROOT: u64 = 0;
const END_TOO_MANY: u64 = 1;
const END_NO_MAPPING: u64 = 3;

/// The unwinder in a process of its own.
struct UnwinderProcess {
    process: InUserSpace,
    /// The mappings that it knows: start, end and module of each.
    mappings: Vec<(u64, u64, u32)>,
    /// Number of frames that were taken over from the previous stack.
    taken_over: u64,
}

impl UnwinderProcess {
    fn start() -> Self {
        Self { process: InUserSpace::start("unwind"), mappings: Vec::new(), taken_over: 0 }
    }

    /// Sends the tables of files, and the segments of the files.
    fn load(&mut self, infos: &[Option<Arc<UnwindInfo>>]) {
        let mut tables = Tables::new(Memory::of_this_process(BLOCKS), Arc::default());
        for (number, info) in (FIRST_MODULE..).zip(infos) {
            let table = info.as_deref().map(UnwindInfo::table).unwrap_or_default();
            tables.publish(number, &table.rules, table.rows.into_iter()).expect("memory");
            let file = MappedFile::new(number, info.as_deref(), 0);
            self.process.send(&[4, number.into()], bytemuck::bytes_of(&file));
        }
        assert_eq!(tables.count().omitted, 0, "room for all tables");
        let blocks = tables.bytes() / 4;
        let memory = tables.memory();
        for number in 0..FIRST_MODULE + infos.len() as u32 {
            let module = memory.modules.read(number as usize);
            self.process.send(&[1, number.into()], bytemuck::bytes_of(&module));
        }
        for number in 0..MAX_RULES {
            let rule = memory.rules.read(number);
            if rule != [0, 0] {
                self.process.send(&[2, number as u64], bytemuck::bytes_of(&rule));
            }
        }
        let words: Vec<u32> = (0..blocks).map(|place| memory.word(place as u32)).collect();
        self.process.send(&[3, 0, words.len() as u64], bytemuck::cast_slice(&words));
    }

    /// Unwinds a stack. Returns its frames, and how it ended.
    fn unwind(&mut self, stack: &Stack<'_>, in_call: bool) -> (Vec<u64>, u64) {
        let mappings = stack.capture.space.mappings().zip(&stack.modules);
        let mappings = mappings.map(|(of, module)| (of.range.start, of.range.end, *module));
        let mappings: Vec<_> = mappings.collect();
        if self.mappings == mappings {
            self.process.send(&[9], &[]);
        } else {
            self.process.send(&[0], &[]);
            self.mappings = mappings;
            for (mapping, module) in stack.capture.space.mappings().zip(&stack.modules) {
                let file = if *module == MODULE_ANONYMOUS { 0 } else { *module };
                let (range, offset) = (&mapping.range, mapping.file_offset);
                self.process.send(&[5, range.start, range.end, offset, file.into()], &[]);
            }
        }
        let bytes = &stack.capture.bytes;
        self.process.send(&[6, stack.capture.start, bytes.len() as u64], bytes);
        let register = |number| stack.capture.registers.get(number).expect("captured");
        let registers: Vec<u64> = (0..17).map(register).collect();
        self.process.send(&[&[7], &registers[..], &[in_call.into()]].concat(), &[]);
        let end = self.process.word();
        self.taken_over += self.process.word();
        let count = self.process.word();
        let mut frames: Vec<u64> = (0..count).map(|_| self.process.word()).collect();
        if frames.last().is_some_and(|frame| frame >> FRAME_SHIFT == u64::from(MODULE_END)) {
            frames.pop();
        }
        (frames, end)
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// First number for modules.
const FIRST_MODULE: u32 = 2;

/// A captured stack, and the module of each of its mappings.
struct Stack<'a> {
    capture: &'a Capture,
    modules: Vec<u32>,
}

impl Stack<'_> {
    /// Encodes a frame as the programs do.
    fn frame(&self, frame: &Frame) -> u64 {
        const ADDRESS: u64 = (1 << FRAME_SHIFT) - 1;
        let address = frame.lookup_address();
        let found = self.capture.space.mappings().zip(&self.modules);
        let mut found = found.filter(|(mapping, _)| mapping.range.contains(&address));
        match found.next() {
            None => u64::from(MODULE_UNKNOWN) << FRAME_SHIFT | address & ADDRESS,
            Some((_, &MODULE_ANONYMOUS)) => {
                u64::from(MODULE_ANONYMOUS) << FRAME_SHIFT | address & ADDRESS
            }
            Some((mapping, &module)) => {
                let offset = address - mapping.range.start + mapping.file_offset;
                u64::from(module) << FRAME_SHIFT | offset & ADDRESS
            }
        }
    }
}

/// Captures stacks of a running program, with its mappings.
fn captures(command: &mut Command, count: usize) -> Vec<Capture> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it runs");
    // At its start, a program does not run its own code yet.
    std::thread::sleep(Duration::from_millis(300));
    let mut files = Files::default();
    let mut captures = Vec::new();
    let limit = Instant::now() + Duration::from_secs(60);
    while captures.len() < count && Instant::now() < limit {
        captures.extend(capture::running_threads(child.id(), &mut files));
        std::thread::sleep(Duration::from_millis(3));
    }
    let _ = child.kill();
    let _ = child.wait();
    assert!(captures.len() >= count, "{command:?} does not run");
    captures
}

/// Results for a program's stacks.
#[derive(Debug, Default)]
struct Agreement {
    /// Stacks with the same frames from both, and both whole or both cut.
    same: usize,
    /// Stacks with more frames than the programs keep: the first ones are the same.
    longer: usize,
    /// Stacks that are whole for both.
    whole: usize,
    /// Descriptions of the other stacks.
    different: Vec<String>,
    /// Number of frames that were taken over from the previous stack, and number of all frames.
    taken_over: (u64, usize),
}

fn compare(captures: &[Capture]) -> Agreement {
    let (paths, infos) = files(captures);
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let mut kernel = UnwinderProcess::start();
    kernel.load(&infos);
    let mut agreement = Agreement::default();
    for capture in captures {
        let stack = Stack { capture, modules: modules(capture, &paths) };
        let mut frames = Vec::new();
        let copy = StackCopy { start: capture.start, bytes: &capture.bytes };
        let unwound =
            unwinder.unwind(&capture.space, &capture.registers, copy, FRAMES, &mut frames);
        let expected: Vec<u64> = frames.iter().map(|frame| stack.frame(frame)).collect();
        // The kernel knows whether a thread is in a system call; here only its registers show it.
        let in_call = frames.first().is_some_and(|frame| frame.is_return_address);
        let (found, end) = kernel.unwind(&stack, in_call);
        agreement.taken_over.1 += found.len();
        let is_whole = unwound.end == StackEnd::Root;
        // Here, an address without a mapping is a frame; `unwind` ends before it.
        let unknown = end == END_NO_MAPPING && !is_whole && found.len() == expected.len() + 1;
        let found = if unknown { &found[..expected.len()] } else { &found[..] };
        agreement.whole += usize::from(is_whole && end == END_ROOT);
        if end == END_TOO_MANY && expected.starts_with(found) {
            agreement.longer += 1;
        } else if found == expected && is_whole == (end == END_ROOT) {
            agreement.same += 1;
        } else {
            let same = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            let place = |frame: Option<&u64>| frame.map(|frame| name(*frame, &paths));
            agreement.different.push(format!(
                "end {end} after {} frames, {:?} after {}; from frame {same} on: {:?}, {:?}",
                found.len(),
                unwound.end,
                expected.len(),
                place(found.get(same)),
                place(expected.get(same))
            ));
        }
    }
    agreement.taken_over.0 = kernel.taken_over;
    agreement
}

fn name(frame: u64, paths: &[String]) -> String {
    let module = (frame >> FRAME_SHIFT) as usize;
    let path = module.checked_sub(FIRST_MODULE as usize).and_then(|at| paths.get(at));
    format!("{}+{:#x}", path.map_or("?", String::as_str), frame & ((1 << FRAME_SHIFT) - 1))
}

/// Mapped files, by path, with their unwind information.
fn files(captures: &[Capture]) -> (Vec<String>, Vec<Option<Arc<UnwindInfo>>>) {
    let mut files = BTreeMap::new();
    for capture in captures {
        for (mapping, path) in capture.space.mappings().zip(paths(capture)) {
            if is_file(path) {
                files.insert(path.to_owned(), mapping.info.clone());
            }
        }
    }
    files.into_iter().unzip()
}

/// Path of each executable mapping.
fn paths(capture: &Capture) -> impl Iterator<Item = &str> {
    capture.lines.iter().filter(|line| line.executable).map(|line| line.path.as_str())
}

fn is_file(path: &str) -> bool {
    path.starts_with('/') || path == "[vdso]"
}

fn modules(capture: &Capture, files: &[String]) -> Vec<u32> {
    let number = |path: &str| match files.iter().position(|file| file == path) {
        Some(at) if is_file(path) => FIRST_MODULE + at as u32,
        _ => MODULE_ANONYMOUS,
    };
    paths(capture).map(number).collect()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/programs").join(name)
}

/// Compiles one of the programs with a known call tree.
fn known(folder: &Path, compiler: &str, name: &str, flags: &[&str]) -> Command {
    let program = folder.join(name.replace('.', "_") + &flags.concat());
    run(Command::new(compiler)
        .args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"])
        .arg("-o")
        .arg(&program)
        .arg(source(name))
        .args(flags));
    Command::new(program)
}

/// Captures stacks and compares the results.
fn check(name: &str, command: &mut Command, count: usize) -> Agreement {
    let captures = captures(command, count);
    let agreement = compare(&captures);
    println!(
        "{name}: {} stacks, {} the same, {} longer than is kept, {} whole; {} of {} frames were those of the stack before",
        captures.len(),
        agreement.same,
        agreement.longer,
        agreement.whole,
        agreement.taken_over.0,
        agreement.taken_over.1
    );
    let mut times = BTreeMap::new();
    for different in &agreement.different {
        *times.entry(different).or_insert(0) += 1;
    }
    for (different, times) in times {
        println!("    {times} times: {different}");
    }
    agreement
}

#[test]
fn the_kernels_unwinder_finds_what_unwind_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut programs = vec![
        ("C", known(folder, "gcc", "split.c", &[])),
        ("static", known(folder, "gcc", "split.c", &["-static"])),
        ("library", known(folder, "gcc", "libc.c", &[])),
        ("contexts", known(folder, "gcc", "contexts.c", &[])),
        ("deep", known(folder, "gcc", "depth.c", &[])),
        ("levels", known(folder, "gcc", "levels.c", &[])),
        ("alike", known(folder, "gcc", "alike.c", &[])),
        ("alike, frame pointers", known(folder, "gcc", "alike.c", &["-fno-omit-frame-pointer"])),
    ];
    programs[0].1.arg("1000000000");
    programs[1].1.arg("1000000000");
    let mut perl = Command::new("perl");
    perl.args(["-e", "sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } f(20) while 1"]);
    programs.push(("perl", perl));
    let mut different = Vec::new();
    for (name, mut command) in programs {
        let is_alike = name.starts_with("alike");
        let agreement = check(name, &mut command, if is_alike { 400 } else { 40 });
        let (taken_over, of) = agreement.taken_over;
        let least = if name == "levels" { of as u64 * 3 / 4 } else { is_alike.into() };
        assert!(taken_over >= least, "{name}: {taken_over} of {of} frames");
        different.extend(agreement.different.into_iter().map(|text| format!("{name}: {text}")));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Tables, mappings, stacks and registers with random values: the sanitizers stop the unwinder at an invalid read, and
/// its output must stay within its limits.
#[test]
fn the_kernels_unwinder_survives_damaged_tables() {
    let mut kernel = InUserSpace::start("unwind");
    // A pseudo-random number generator (Knuth's MMIX).
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 20) % below
    };
    const STACK: u64 = 0x7fff_0000_0000;
    const CODE: u64 = 0x10_0000;
    let mut walked = 0;
    for _ in 0..3000 {
        // Every second table is partly valid, so that there are callers.
        let sane = random(2) == 1;
        let state = if sane { 1 } else { random(5) as u32 };
        let module: [u32; 4] = [random(9) as u32, 1 + random(4) as u32, state, 0];
        kernel.send(&[1, 2], bytemuck::cast_slice(&module));
        for number in 0..4 {
            let mut rule = [random(9), random(1 << 40)].map(u64::to_ne_bytes).concat();
            rule[1] = random(18) as u8;
            rule[4] = 8 * random(5) as u8;
            if sane {
                rule[..8].copy_from_slice(&[1, 7, 0, 0, 8 + 8 * random(6) as u8, 0, 0, 0]);
            }
            kernel.send(&[2, number], &rule);
        }
        let words: Vec<u32> =
            (0..32).map(|at| (at * random(9) as u32) | ((random(9) as u32) << 16)).collect();
        kernel.send(&[3, random(3), 32], bytemuck::cast_slice(&words));
        let segment =
            Segment { start: 0, end: random(1 << 20), to_table: random(2).wrapping_neg() };
        let file = MappedFile {
            module: 2,
            count: random(4) as u16,
            interpreter: 0,
            segments: [segment; 2],
        };
        kernel.send(&[4, 1], bytemuck::bytes_of(&file));
        kernel.send(&[0], &[]);
        kernel.send(&[5, CODE, CODE + (1 << 20), 0, 1], &[]);
        let stack: Vec<u64> = (0..512)
            .map(|_| match random(4) {
                0 | 1 => CODE + random(1 << 18),
                2 => STACK + 8 * random(600),
                _ => random(64),
            })
            .collect();
        kernel.send(&[6, STACK, 4096], bytemuck::cast_slice(&stack));
        let mut registers: Vec<u64> = (0..16).map(|_| STACK + 8 * random(600)).collect();
        registers.extend([CODE + random(1 << 18), random(2)]);
        kernel.send(&[&[7], &registers[..]].concat(), &[]);
        let [end, _, count] = [(); 3].map(|()| kernel.word());
        assert!(end < 16 && count >= 1 && count <= MAX_FRAMES as u64, "{end}, {count}");
        for _ in 0..count {
            kernel.word();
        }
        walked += usize::from(count > 3);
    }
    assert!(walked > 100, "{walked} stacks of more than two frames");
}
