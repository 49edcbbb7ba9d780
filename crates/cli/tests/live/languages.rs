//! Functions of interpreted languages among native frames, in recordings of programs of known truth.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::in_kernel::Running;
use crate::common::interpreters::{check_said, interpreters, write};
use crate::common::{
    Folded, is_root, package, pyrograph, record_until, run, sharp, tolerance, wait_until,
};

/// Three functions, which take 60, 30 and 10 % of the thread's CPU time by its own clock; the last is called by a sort.
pub const PYTHON: &str = "
import sys, time
def spin(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
def first(): spin(0.06)
def second(): spin(0.03)
def third(x): spin(0.01); return x
def rounds():
    first(); second(); sorted([1], key=third)
for i in range(int(sys.argv[1])): rounds()
";

const PERL: &str = "
use strict; use Time::HiRes qw(clock_gettime);
sub spin { my $end = clock_gettime(3) + shift; 1 while clock_gettime(3) < $end }
sub first { spin(0.06) }
sub second { spin(0.03) }
sub third { spin(0.01); 0 }
sub rounds { first(); second(); my @x = sort { third() } 1, 2 }
rounds() for 1 .. $ARGV[0];
";

/// Records a program from its start to its end, and returns what was said, too.
pub fn record(command: &mut Command, out: &Path) -> (Folded, String) {
    let output = run(command);
    (Folded::read(out), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn recorder(out: &Path, flags: &[&str]) -> Command {
    let mut command = pyrograph();
    command.args(["record", "--engine", "ebpf", "-o"]).arg(out).args(flags).arg("--");
    command
}

/// 1.2 s of CPU time at 2999 Hz: one standard deviation of the largest share is 0.8 points at most. (They are in turns of 0.1 s, of
/// which each has nearly as many samples as the others where nothing else runs.)
fn check_shares(interpreter: &Path, script: &Path, prefix: &str, folder: &Path) {
    let out = folder.join("shares.folded");
    let mut command = recorder(&out, &["-F", "2999", "--count", "samples"]);
    let (folded, said) = record(command.arg(interpreter).arg(script).arg(sharp("12", "24")), &out);
    let share = |name: &str| folded.total_share(&format!("{prefix}{name}"));
    let all = share("rounds");
    assert!(all > 90.0, "{interpreter:?}: {all}, {said}, {:?}", folded.leaves());
    for (function, expected) in [("first", 60.0), ("second", 30.0), ("third", 10.0)] {
        let found = share(function) * 100.0 / all;
        let most = sharp(tolerance(expected, folded.total() * all / 100.0), 2.8);
        assert!((found - expected).abs() < most, "{interpreter:?} {function}: {found:.1}\n{said}");
        // In order: a function is called by the ones around it, and by nobody else.
        let wanted =
            [format!("{prefix}rounds"), format!("{prefix}{function}"), format!("{prefix}spin")];
        for (stack, _) in &folded.stacks {
            let mut names = stack.iter().filter(|frame| wanted.contains(frame));
            if stack.contains(&wanted[1]) {
                assert_eq!(names.next(), Some(&wanted[0]), "{interpreter:?}: {stack:?}");
                assert_eq!(names.next(), Some(&wanted[1]), "{interpreter:?}: {stack:?}");
            }
        }
    }
    check_said(&said);
}

#[test]
fn python_functions_have_their_shares() {
    if !is_root("python_functions_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "shares.py", PYTHON);
    for (_, interpreter) in interpreters("python", "/usr/bin/python3") {
        check_shares(&interpreter, &script, "", folder.path());
    }
}

/// Three tasks, which take 60, 30 and 10 % of the thread's CPU time, awaited in as many ways.
const TASKS: &str = "
import asyncio, sys, time
def spin(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
async def first(): spin(0.03); await asyncio.sleep(0); spin(0.03)
async def second(): spin(0.03)
async def third(): spin(0.01)
async def gathers(): await asyncio.gather(first(), asyncio.sleep(0))
async def groups():
    async with asyncio.TaskGroup() as group: group.create_task(second())
async def shields(): await asyncio.shield(asyncio.wait_for(third(), 100))
async def rounds(): await gathers(); await groups(); await shields()
async def repeats():
    for i in range(int(sys.argv[1])): await asyncio.create_task(rounds())
asyncio.run(repeats())
";

/// Coroutines that await a task are its callers, whatever the task is awaited by.
#[test]
fn python_tasks_are_called_by_what_awaits_them() {
    if !is_root("python_tasks_are_called_by_what_awaits_them") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "tasks.py", TASKS);
    for (_, interpreter) in interpreters("python", "/usr/bin/python3") {
        // Before 3.11, frames do not tell whose they are; `TaskGroup` is as old.
        let is_later = "import sys; sys.exit(sys.version_info < (3, 11))";
        if !Command::new(&interpreter).args(["-c", is_later]).status().expect("it runs").success() {
            continue;
        }
        let out = folder.path().join("tasks.folded");
        let mut command = recorder(&out, &["-F", "2999", "--count", "samples"]);
        let (folded, said) = record(command.arg(&interpreter).arg(&script).arg("12"), &out);
        let samples = |names: &[&str]| -> f64 {
            let has = |stack: &[String]| {
                let mut frames = stack.iter();
                names.iter().all(|name| frames.any(|frame| frame == name))
            };
            folded.stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, count)| count).sum()
        };
        let all = samples(&["spin"]);
        for (awaits, function, expected) in
            [("gathers", "first", 60.0), ("groups", "second", 30.0), ("shields", "third", 10.0)]
        {
            let found = samples(&["repeats", "rounds", awaits, function, "spin"]) * 100.0 / all;
            let most = tolerance(expected, all);
            assert!(
                (found - expected).abs() < most,
                "{interpreter:?} {function}: {found:.1}\n{said}"
            );
        }
        check_said(&said);
    }
}

#[test]
fn perl_functions_have_their_shares() {
    if !is_root("perl_functions_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "shares.pl", PERL);
    for (_, interpreter) in interpreters("perl", "/usr/bin/perl") {
        check_shares(&interpreter, &script, "main::", folder.path());
    }
}

/// Threads that wait before the recording begins, and until after it ends: nothing runs in which their stacks could be taken.
#[test]
fn threads_that_only_wait_have_their_functions() {
    if !is_root("threads_that_only_wait_have_their_functions") {
        return;
    }
    const PYTHON: &str = "
import sys, threading, time
def naps(): time.sleep(1000)
def reads(): print(end='x', flush=True); sys.stdin.read()
def outer(f): f()
threading.Thread(target=outer, args=[naps], daemon=True).start(); outer(reads)
";
    const PERL: &str = "
$| = 1; sub reads { print 'x'; <STDIN> } sub naps { reads() } sub outer { naps() } outer();
";
    const PHP: &str = "<?php
function reads() { echo 'x'; return fgets(STDIN); } function naps() { reads(); } function outer() { naps(); } outer();
";
    const RUBY: &str = "
def reads() = ($stdout.write('x'); $stdout.flush; $stdin.read)
def naps() = reads
def outer() = [1].each { naps }
outer
";
    const NODE: &str = "
function reads() { require('fs').writeSync(1, 'x'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0) }
function naps() { reads() } function outer() { naps() } outer();
";
    const LUA: &str = "
local function reads() io.write('x') io.flush() local text = io.read('*a') return text end
local function naps() local text = reads() return text end
local text = naps()
";
    let folder = tempfile::tempdir().expect("a folder");
    let scripts = [
        ("python3", PYTHON, "<module>;outer;reads"),
        ("python3", PYTHON, "Thread.run;outer;naps"),
        ("perl", PERL, "main;main::outer;main::naps;main::reads"),
        ("php", PHP, "script;outer;naps;reads"),
        ("ruby", RUBY, "block in Object#outer;Object#naps;Object#reads"),
        ("node", NODE, "outer;naps;reads"),
        ("luajit", LUA, "main chunk of script;script:3;script:2"),
    ];
    for (interpreter, text, expected) in scripts {
        let script = write(folder.path(), "script", text);
        let child = Command::new(interpreter)
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: there is no {interpreter}");
            continue;
        };
        let mut child = Running(child);
        let mut byte = [0];
        child.0.stdout.as_mut().expect("a pipe").read_exact(&mut byte).expect("it has come there");
        let pid = child.0.id().to_string();
        wait_until("all its threads wait", || is_asleep(&pid));
        let out = folder.path().join("waits.folded");
        run(pyrograph()
            .args(["record", "--engine", "ebpf", "--off-cpu", "-d", "0.5", "-p", &pid, "-o"])
            .arg(&out));
        let folded = fs::read_to_string(&out).expect("the recording");
        let found = folded.lines().any(|line| line.contains(&format!(";{expected};")));
        assert!(found, "{interpreter}: {expected} is not in\n{folded}");
    }
}

/// Returns true if none of a process's threads has run for 50 ms.
fn is_asleep(pid: &str) -> bool {
    // Nanoseconds on a CPU, nanoseconds of waiting for one, and how often it was given one.
    let ran = || -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let account = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("schedstat"));
        threads.map(|thread| account(thread).unwrap_or_default()).collect()
    };
    let before = ran();
    std::thread::sleep(Duration::from_millis(50));
    before == ran()
}

/// A program that calls in 200 ways, and knows how.
struct Chains {
    language: &'static str,
    system: &'static str,
    program: &'static str,
    /// The event that it makes at the end of each.
    event: &'static str,
}

const CHAINS: [Chains; 4] = [
    Chains {
        language: "python",
        system: "/usr/bin/python3",
        program: "chains.py",
        event: "syscalls:sys_enter_kill",
    },
    Chains {
        language: "perl",
        system: "/usr/bin/perl",
        program: "chains.pl",
        event: "syscalls:sys_enter_kill",
    },
    Chains {
        language: "php",
        system: "/usr/bin/php",
        program: "chains.php",
        event: "syscalls:sys_enter_getpid",
    },
    Chains {
        language: "ruby",
        system: "/usr/bin/ruby",
        program: "chains.rb",
        event: "syscalls:sys_enter_getuid",
    },
];

/// A name without its class. Ruby writes classes into labels from 3.4 on, and leaves off what runs in a method's own `rescue` or
/// `ensure`.
fn without_class(frame: &str) -> Option<String> {
    if frame.starts_with("rescue in ") || frame.starts_with("ensure in ") {
        return None;
    }
    let (before, method) = match frame.rfind(" in ") {
        Some(at) => frame.split_at(at + " in ".len()),
        None => ("", frame),
    };
    let is_class = |class: &str| class.starts_with(|first: char| first.is_uppercase());
    let method = match method.split_once(['#', '.']) {
        Some((class, method)) if is_class(class) => method,
        _ => method,
    };
    Some(format!("{before}{method}"))
}

#[test]
fn functions_are_those_that_the_program_itself_has() {
    if !is_root("functions_are_those_that_the_program_itself_has") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for Chains { language, system, program, event } in CHAINS {
        let script = package().join("tests/programs").join(program);
        for (version, interpreter) in interpreters(language, system) {
            let out = folder.path().join("chains.folded");
            let own = folder.path().join(format!("own-{version}-{language}"));
            let flags = ["-e", event, "--stacks", "lang"];
            let mut command = recorder(&out, &flags);
            let (folded, said) =
                record(command.arg(&interpreter).arg(&script).arg(&own).arg("0"), &out);
            let own = fs::read_to_string(own).expect("its own functions");
            assert_eq!(own.lines().count(), 200);
            let name = |frame: &str| match language {
                "ruby" => without_class(frame),
                _ => Some(frame.to_owned()),
            };
            for line in own.lines() {
                let (number, functions) = line.split_once(' ').expect("a number and functions");
                // Perl calls destructors in a block of its own in C, which `caller` has, and which is no statement.
                let functions = functions.replace("(eval);Gone::DESTROY", "Gone::DESTROY");
                let functions: Vec<_> = functions.split(';').filter_map(name).collect();
                let sample = format!("sample_{number}");
                let is_sample = |frame: &String| {
                    let frame = frame.strip_prefix("main::").unwrap_or(frame);
                    frame.strip_prefix("Object#").unwrap_or(frame) == sample
                };
                let found = folded.stacks.iter().find(|(stack, _)| stack.iter().any(is_sample));
                let (stack, _) = found.unwrap_or_else(|| panic!("{version} {sample}: {said}"));
                let of_kernel =
                    stack.iter().position(|frame| frame.starts_with("entry_SYSCALL_64"));
                let found = &stack[1..of_kernel.unwrap_or(stack.len())];
                let mut found: Vec<_> = found.iter().filter_map(|frame| name(frame)).collect();
                // From 3.4 on, Ruby's own account has the method that has called `eval`.
                for at in 2..found.len() {
                    if found[at] == "<compiled>" && found[at - 1] == "eval" {
                        found[at] = found[at - 2].clone();
                    }
                }
                assert_eq!(found, functions, "{language} {version} {sample}");
            }
            check_said(&said);
        }
    }
}

/// Scripts of 20 ms in a recording of the machine, and children that fork makes.
#[test]
fn shares_of_short_scripts_and_children_have_their_functions() {
    if !is_root("shares_of_short_scripts_and_children_have_their_functions") {
        return;
    }
    const PYTHON: &str = "
import os, time
def work(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
def child():
    work(0.02); os._exit(0)
work(0.02)
if os.fork() == 0: child()
os.wait()
";
    const PERL: &str = "
use Time::HiRes qw(clock_gettime);
sub work { my $end = clock_gettime(3) + shift; 1 while clock_gettime(3) < $end }
sub child { work(0.02); exit }
work(0.02); child() if !fork; wait;
";
    let folder = tempfile::tempdir().expect("a folder");
    let python = write(folder.path(), "short.py", PYTHON);
    let perl = write(folder.path(), "short.pl", PERL);
    let out = folder.path().join("short.folded");
    // 15 scripts and 15 children of each language, of 20 ms of CPU time: 1.2 s, half of them in children.
    let shell = format!(
        "for i in $(seq 15); do /usr/bin/python3 -I -S {}; perl {}; done",
        python.display(),
        perl.display()
    );
    run(pyrograph()
        .args(["record", "--engine", "ebpf", "-a", "-F", "997", "--count", "samples"])
        .args(["--by", "cmdline", "-o"])
        .arg(&out)
        .args(["--", "sh", "-c", &shell]));
    let folded = Folded::read(&out);
    let sum = |wanted: &dyn Fn(&[String]) -> bool| -> f64 {
        let stacks = folded.stacks.iter().filter(|(stack, _)| wanted(stack));
        stacks.map(|(_, value)| value).sum()
    };
    let has = |stack: &[String], names: &[&str]| {
        stack.iter().any(|frame| names.contains(&frame.as_str()))
    };
    // The interpreter's loop is only seen as such where its calls were not found. What others run on this machine has other
    // functions, and other command lines.
    let found = sum(&|stack| has(stack, &["work", "main::work"]));
    let loops = ["_PyEval_EvalFrameDefault", "Perl_runops_standard"];
    let in_loops = |stack: &[String]| {
        let scripts = [&python, &perl].map(|script| script.to_string_lossy());
        let is_script = |frame: &String| scripts.iter().any(|script| frame.ends_with(&**script));
        stack.iter().any(is_script) && has(stack, &loops)
    };
    let missed = sum(&in_loops);
    let children = sum(&|stack| has(stack, &["child", "main::child"]));
    // 1,200 at best: a CPU that is taken away takes its samples with it.
    assert!(found > 600.0 && children > 240.0, "{found} {children} {:?}", folded.leaves());
    // While tables are being made, calls are not found: beside compilers that takes some of the first scripts.
    assert!(missed < sharp(0.1, 0.01) * (found + missed), "{missed} of {found}");
    let nameless = |stack: &[String]| stack.iter().any(|frame| frame.ends_with(" function]"));
    assert_eq!(sum(&|stack| has(stack, &["work", "main::work"]) && nameless(stack)), 0.0);
}

/// An interpreter whose version is not known has native frames, and one line says so.
#[test]
fn a_version_that_is_not_known_is_said() {
    if !is_root("a_version_that_is_not_known_is_said") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let perl = fs::canonicalize("/usr/bin/perl").expect("perl");
    let mut bytes = fs::read(&perl).expect("its bytes");
    let image = pyrograph_elf::Image::open(&perl).expect("an ELF file");
    let symbol = |name: &str| {
        use object::{Object, ObjectSymbol};
        let mut symbols = image.elf().dynamic_symbols();
        symbols.find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address())
    };
    let at = image.offset_of(symbol("PL_version").expect("a symbol")).expect("in the file");
    bytes[at as usize] = 99;
    let other = folder.path().join("perl99");
    fs::write(&other, bytes).expect("a file");
    run(Command::new("chmod").arg("755").arg(&other));
    let out = folder.path().join("out.folded");
    let script = write(folder.path(), "spin.pl", "my $x = 0; $x++ while $x < 5e6;");
    let (folded, said) = record(recorder(&out, &["-F", "499"]).arg(&other).arg(&script), &out);
    let line = format!("Perl 5.99.0 ({}): its layout is not known; native frames", other.display());
    assert!(said.contains(&line), "{said}");
    assert!(folded.total_share("Perl_runops_standard") > 80.0, "{:?}", folded.leaves());
}

/// Virtual machines that are known, and not read: here a program with a name that one of them exports.
#[test]
fn machines_that_are_not_read_are_named() {
    if !is_root("machines_that_are_not_read_are_named") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    let cases = [
        ("PyPy", "pypy_main_startup"),
        ("Erlang's BEAM", "erts_schedule"),
        (".NET", "coreclr_initialize"),
    ];
    for (name, symbol) in cases {
        let text = format!(
            "void {symbol}(void) {{ for (volatile int i = 0; i < 100000000; i++); }}\n\
             int main(void) {{ {symbol}(); return 0; }}\n"
        );
        let source = write(folder.path(), "machine.c", &text);
        let program = folder.path().join(symbol);
        run(Command::new("cc").arg("-rdynamic").arg(&source).arg("-o").arg(&program));
        let (folded, said) = record(recorder(&out, &["-F", "499"]).arg(&program), &out);
        let line =
            format!("{name} ({}): its functions are not read; native frames", program.display());
        assert!(said.contains(&line), "{said}");
        assert!(folded.total_share(symbol) > 80.0, "{:?}", folded.leaves());
    }
}

/// Perls of different versions, one in a chroot, and Pythons in one recording of the machine.
#[test]
fn several_versions_are_recorded_at_once() {
    if !is_root("several_versions_are_recorded_at_once") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("several.folded");
    const PYTHON: [&str; 2] = ["-c", "def snake():\n while True: pass\nsnake()"];
    const PERL: [&str; 2] = ["-e", "sub camel { 1 while 1 } camel();"];
    let mut running = Vec::new();
    for (language, system, script) in
        [("python", "/usr/bin/python3", PYTHON), ("perl", "/usr/bin/perl", PERL)]
    {
        let all = interpreters(language, system);
        let mut chosen: Vec<_> = all
            .iter()
            .rev()
            .take(2)
            .chain(all.iter().take(1))
            .map(|(_, run)| run.clone())
            .collect();
        // In the tree of another release.
        let in_chroot = all.iter().map(|(_, run)| run.with_file_name("chroot"));
        chosen.extend(in_chroot.filter(|run| run.exists()).take(1));
        for interpreter in chosen {
            let child = Command::new(interpreter).args(script).spawn().expect("it runs");
            running.push(Running(child));
        }
    }
    // Samples of an interpreter, and those in its function.
    let parts = |folded: &Folded, child: &Running| {
        let suffix = format!("-{}", child.0.id());
        let of = folded.stacks.iter().filter(|(stack, _)| stack[0].ends_with(&suffix));
        let is_own = |stack: &[String]| stack.iter().any(|it| it == "snake" || it == "main::camel");
        of.fold((0.0, 0.0), |(all, own), (stack, samples)| {
            (all + samples, own + if is_own(stack) { *samples } else { 0.0 })
        })
    };
    // Until each of them has some samples, there are more of them than CPUs; and until the tables of all are made, before which
    // calls are not found. These are kept from one recording to the next.
    record_until(
        |folded| {
            let parts: Vec<(f64, f64)> = running.iter().map(|child| parts(folded, child)).collect();
            eprintln!("samples, and those in functions: {parts:?}");
            parts.iter().all(|(all, own)| *all >= 30.0 && *own > 0.95 * all)
        },
        |seconds| {
            let mut command = pyrograph();
            command.args(["record", "--engine", "ebpf", "-a", "-d", seconds, "-F", "999"]);
            run(command.args(["--count", "samples", "--by", "process", "-o"]).arg(&out));
            Folded::read(&out)
        },
    );
    assert!(running.len() >= 4, "{} interpreters", running.len());
}
