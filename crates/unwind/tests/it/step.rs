//! Walks programs instruction by instruction, and unwinds at each. The truth is a second stack that
//! grows at each call and shrinks at each return.
//!
//! To walk any other program: `PYROGRAPH_STEP="openssl sha256 /etc/hostname" cargo test -p
//! pyrograph-unwind --test it -- --ignored --nocapture other_program`.

#[path = "../common/capture.rs"]
mod capture;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::Files;
use capture::Stopped;
use pyrograph_unwind::{AddressSpace, Arch, StackCopy, StackEnd, Unwinder};

/// A program under ptrace, and its return addresses.
struct Walk {
    child: Child,
    stopped: Stopped,
    files: Files,
    lines: Vec<crate::common::Line>,
    space: AddressSpace,
    /// Where return addresses are, and what they are; outermost first.
    calls: Vec<(u64, u64)>,
    unwinder: Unwinder,
}

/// Frames and differences of a walk.
#[derive(Debug, Default)]
struct Findings {
    steps: usize,
    deepest: usize,
    /// Steps at which the frames were others, by place.
    wrong: BTreeMap<String, usize>,
    /// Those of them at which the stack was said to be whole.
    wrong_in_silence: usize,
    /// Steps at which a frame was guessed.
    guessed: usize,
}

impl Walk {
    fn new(mut command: Command, alter: Option<fn(&mut [u8])>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let trace_me = || {
            // SAFETY: a ptrace request without memory.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // SAFETY: `trace_me` makes one system call.
        unsafe { command.pre_exec(trace_me) };
        let child = command.spawn().expect("start the program");
        let stopped = Stopped { tid: child.id().cast_signed() };
        assert!(stopped.wait(), "the program stops at its first instruction");
        let mut walk = Self {
            child,
            stopped,
            files: Files::altered(alter),
            lines: Vec::new(),
            space: AddressSpace::new(),
            calls: Vec::new(),
            unwinder: Unwinder::new(Arch::X86_64),
        };
        walk.read_mappings();
        walk
    }

    fn read_mappings(&mut self) {
        let pid = self.child.id().to_string();
        self.lines = crate::common::lines(&pid);
        self.space = self.files.space(&pid, &self.lines);
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.stopped.read(address, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Unwind here, and compare.
    fn check(&mut self, findings: &mut Findings) {
        if let Some(wrong) = self.compare(findings) {
            *findings.wrong.entry(wrong).or_default() += 1;
        }
    }

    /// The difference of the result of unwinding here, if any.
    fn compare(&mut self, findings: &mut Findings) -> Option<String> {
        let registers = self.stopped.registers();
        let (ip, sp) = (registers.ip()?, registers.sp()?);
        let line = self.lines.iter().find(|line| (line.start..line.end).contains(&sp))?;
        let mut bytes = vec![0; (line.end - sp) as usize];
        let len = self.stopped.read(sp, &mut bytes);
        let stack = StackCopy { start: sp, bytes: &bytes[..len] };
        let mut frames = Vec::new();
        let unwound = self.unwinder.unwind(&self.space, &registers, stack, 4096, &mut frames);
        let want = std::iter::once(ip).chain(self.calls.iter().rev().map(|call| call.1));
        let same = frames.iter().map(|frame| frame.address).eq(want);
        findings.guessed += usize::from(unwound.guessed > 0);
        if same && unwound.end == StackEnd::Root {
            return None;
        }
        findings.wrong_in_silence += usize::from(unwound.end == StackEnd::Root);
        let place = self.place(ip);
        let (got, want) = (frames.len(), self.calls.len() + 1);
        let last = self.place(frames.last().map_or(0, |frame| frame.address));
        Some(format!("{place}: {got} frames for {want}, the last at {last}, {unwound:?}"))
    }

    /// Goes on by one instruction, and unwinds as a precise event has it: the instruction pointer is that of the instruction, and
    /// the other registers and the stack are what it has left. False if the program has ended.
    fn check_after(&mut self, findings: &mut Findings, of_returns: &mut usize) -> bool {
        let ip = self.stopped.registers().ip().expect("it is stopped");
        let mut code = [0; 2];
        self.stopped.read(ip, &mut code);
        let is_return = matches!(code, [0xc3 | 0xc2, _] | [0xf3, 0xc3] | [0xf2, 0xc3]);
        let want: Vec<u64> =
            std::iter::once(ip).chain(self.calls.iter().rev().map(|call| call.1)).collect();
        if !self.step() {
            return false;
        }
        let mut registers = self.stopped.registers();
        let Some(sp) = registers.sp() else { return true };
        registers.set(Arch::X86_64.ip(), ip);
        registers.set_after();
        let Some(line) = self.lines.iter().find(|line| (line.start..line.end).contains(&sp)) else {
            return true;
        };
        let mut bytes = vec![0; (line.end - sp) as usize];
        let len = self.stopped.read(sp, &mut bytes);
        let stack = StackCopy { start: sp, bytes: &bytes[..len] };
        let mut frames = Vec::new();
        let unwound = self.unwinder.unwind(&self.space, &registers, stack, 4096, &mut frames);
        if is_return {
            // Its caller cannot be known, and no other one is taken for it.
            *of_returns += 1;
            assert_eq!((unwound.end, frames.len()), (StackEnd::Moved, 1), "{}", self.place(ip));
            return true;
        }
        let same = frames.iter().map(|frame| frame.address).eq(want.iter().copied());
        if !same || unwound.end != StackEnd::Root {
            findings.wrong_in_silence += usize::from(unwound.end == StackEnd::Root);
            let (place, got) = (self.place(ip), frames.len());
            let wrong = format!("{place}: {got} frames for {}, {unwound:?}", want.len());
            *findings.wrong.entry(wrong).or_default() += 1;
        }
        true
    }

    fn place(&self, address: u64) -> String {
        self.lines.iter().find(|line| (line.start..line.end).contains(&address)).map_or_else(
            || format!("{address:#x}"),
            |line| format!("{}+{:#x}", line.path, address - line.start + line.file_offset),
        )
    }

    /// Go on by one instruction; false if the program has ended.
    fn step(&mut self) -> bool {
        let before = self.stopped.registers();
        let (ip, sp) = (before.ip().unwrap(), before.sp().unwrap());
        let mut code = [0; 4];
        self.stopped.read(ip, &mut code);
        if !self.stopped.step() {
            return false;
        }
        let after = self.stopped.registers();
        let (after_ip, after_sp) = (after.ip().unwrap(), after.sp().unwrap());
        let top = self.word(after_sp);
        // More than one call is left by `longjmp`, and by an exception.
        while self.calls.last().is_some_and(|&(at, _)| at < after_sp) {
            self.calls.pop();
        }
        match code {
            [0x0f, 0x05, ..] => self.read_mappings(),
            // A call pushes the address behind itself.
            _ if after_sp == sp - 8
                && (2..=9).contains(&top.wrapping_sub(ip))
                && after_ip != top =>
            {
                self.calls.push((after_sp, top));
            }
            _ => {}
        }
        true
    }

    fn run(mut self, most: usize) -> Findings {
        let mut findings = Findings::default();
        loop {
            self.check(&mut findings);
            findings.deepest = findings.deepest.max(self.calls.len());
            findings.steps += 1;
            if findings.steps == most || !self.step() {
                break;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        findings
    }
}

fn compile(name: &str, options: &[&str]) -> PathBuf {
    compile_with("gcc", "calls.c", name, options).expect("gcc is installed")
}

/// `None` if there is no such compiler, or a library is missing.
fn compile_with(compiler: &str, source: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.arg("-o").arg(&out).arg(source).args(options).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(out)
}

/// All instructions from the first to the last unwind to all callers.
fn check(name: &str, options: &[&str]) {
    check_altered(name, options, None, 0);
}

/// The same with a change to the files that the unwinder sees.
fn check_altered(name: &str, options: &[&str], alter: Option<fn(&mut [u8])>, most_wrong: usize) {
    let mut command = Command::new(compile(name, options));
    command.env_clear();
    let findings = Walk::new(command, alter).run(usize::MAX);
    assert!(findings.steps > 5_000 && findings.deepest > 12, "{findings:?}");
    let wrong: Vec<_> = findings.wrong.iter().take(20).collect();
    assert!(wrong.len() <= most_wrong, "of {} steps, at {wrong:#?} …", findings.steps);
}

/// Of code without tables, at least 99.9 % of the instructions unwind to all callers; and where the frames are
/// others, the stack is not said to be whole.
fn check_guesses(compiler: &str, source: &str, name: &str, options: &[&str]) {
    let Some(program) = compile_with(compiler, source, name, options) else {
        eprintln!("skipped: {compiler} does not compile {source}");
        return;
    };
    let mut command = Command::new(program);
    command.env_clear();
    let findings = Walk::new(command, None).run(usize::MAX);
    let wrong: usize = findings.wrong.values().sum();
    println!("{name}: of {} steps, {wrong} wrong", findings.steps);
    let few: Vec<_> = findings.wrong.iter().take(20).collect();
    assert!(findings.steps > 5_000 && findings.guessed > 1_000, "{findings:?}");
    assert!(wrong * 1000 <= findings.steps, "of {} steps, at {few:#?} …", findings.steps);
    assert_eq!(findings.wrong_in_silence, 0, "{few:#?}");
}

#[test]
fn musl_without_tables() {
    check_guesses("musl-gcc", "library.c", "musl", &["-O2"]);
}

#[test]
fn static_musl_without_tables() {
    check_guesses("musl-gcc", "library.c", "musl-static", &["-O2", "-static"]);
}

#[test]
fn static_musl_without_tables_or_symbols() {
    check_guesses("musl-gcc", "library.c", "musl-stripped", &["-O2", "-static", "-s"]);
}

#[test]
fn assembly_without_tables() {
    check_guesses("gcc", "numbers.c", "gmp", &["-O2", "-lgmp"]);
}

#[test]
fn frames_of_a_size_that_cannot_be_seen() {
    check_guesses("gcc", "odd.c", "odd", &["-O2", "-no-pie"]);
}

/// The first exceptions of a program: all of them are millions of instructions.
#[test]
fn exceptions() {
    let program = compile_with("g++", "exceptions.cpp", "exceptions", &["-O2", "-static"]);
    let mut command = Command::new(program.expect("g++ is installed"));
    command.env_clear();
    let findings = Walk::new(command, None).run(150_000);
    let wrong: usize = findings.wrong.values().sum();
    assert!(findings.steps == 150_000 && findings.deepest > 12, "{findings:?}");
    assert!(wrong * 1000 <= findings.steps, "{findings:?}");
    assert_eq!(findings.wrong_in_silence, 0, "{findings:?}");
}

/// At each instruction as a precise event has it.
#[test]
fn registers_of_precise_events_are_of_the_next_instruction() {
    for options in [&["-O2", "-fomit-frame-pointer"][..], &["-O0"]] {
        let mut command = Command::new(compile("precise", options));
        command.env_clear();
        let mut walk = Walk::new(command, None);
        let (mut findings, mut of_returns) = (Findings::default(), 0);
        while walk.check_after(&mut findings, &mut of_returns) {
            findings.steps += 1;
        }
        let _ = walk.child.wait();
        let wrong: Vec<_> = findings.wrong.iter().take(20).collect();
        assert!(findings.steps > 5_000 && of_returns > 100, "{findings:?}");
        assert!(wrong.is_empty(), "of {} steps, at {wrong:#?} …", findings.steps);
    }
}

#[test]
fn optimized_without_frame_pointers() {
    check("optimized", &["-O2", "-fomit-frame-pointer", "-Wl,-z,lazy"]);
}

#[test]
fn static_executable() {
    check("static", &["-O2", "-static"]);
}

#[test]
fn tables_in_debug_frame_only() {
    check("debug-frame", &["-Og", "-g", "-static", "-fno-asynchronous-unwind-tables"]);
}

#[test]
fn tables_in_compressed_debug_frame_only() {
    check("compressed", &["-O2", "-g", "-gz", "-static", "-fno-asynchronous-unwind-tables"]);
}

#[test]
fn no_search_table() {
    check("no-header", &["-O2", "-static", "-Wl,--no-eh-frame-hdr"]);
}

#[test]
fn no_section_headers() {
    // e_shoff, e_shnum
    let strip = |file: &mut [u8]| {
        file[0x28..0x30].fill(0);
        file[0x3c..0x3e].fill(0);
    };
    // `_fini`, which has no table, cannot be distinguished from other code without its section's name: after
    // its first instruction an old return address at the top of the stack makes it look like a leaf.
    check_altered("no-sections", &["-O2", "-fno-plt"], Some(strip), 1);
}

#[test]
fn frame_pointers_without_tables() {
    check(
        "frame-pointers",
        &[
            "-O1",
            "-fno-omit-frame-pointer",
            "-mno-omit-leaf-frame-pointer",
            "-fno-asynchronous-unwind-tables",
            "-fno-exceptions",
            "-fcf-protection=none",
            // The instructions that align a stack cannot be distinguished from others.
            "-DNO_REALIGN",
        ],
    );
}

#[test]
#[ignore = "walks the program named in PYROGRAPH_STEP"]
fn other_program() {
    let Ok(words) = std::env::var("PYROGRAPH_STEP") else {
        return eprintln!("skipped: PYROGRAPH_STEP names no program");
    };
    let most = std::env::var("PYROGRAPH_STEPS").map_or(200_000, |most| most.parse().unwrap());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    let findings = Walk::new(command, None).run(most);
    let wrong: usize = findings.wrong.values().sum();
    println!("{wrong} of {} steps wrong, deepest {}", findings.steps, findings.deepest);
    let mut places: Vec<_> = findings.wrong.iter().collect();
    places.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (place, count) in places.iter().take(40) {
        println!("{count:7} {place}");
    }
}
