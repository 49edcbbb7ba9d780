//! Functions of threads, children and stacks that an interpreted program makes, in recordings of programs of known truth.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::interpreters::{check_said, interpreters, record, write};
use crate::common::{Folded, is_root, kept, tolerance};

/// Checks that three functions have 60, 30 and 10 % of the time that all of them have.
fn check_shares(
    folded: &Folded,
    is_wanted: &dyn Fn(&[String]) -> bool,
    names: [&str; 3],
    said: &str,
) {
    let has = |stack: &[String], name: &str| stack.iter().any(|frame| frame == name);
    let shares = names.map(|name| folded.share(|stack| is_wanted(stack) && has(stack, name)));
    let all: f64 = shares.iter().sum();
    assert!(all > 0.0, "{said} {:?}", folded.leaves());
    for ((name, share), expected) in names.iter().zip(shares).zip([60.0, 30.0, 10.0]) {
        let found = share * 100.0 / all;
        let most = tolerance(expected, folded.total() * all / 100.0);
        assert!((found - expected).abs() < most, "{name}: {found:.1} ± {most:.1}\n{said}");
    }
}

/// Interpreter threads: each has an interpreter of its own. Only the first one runs the script itself.
const PERL_THREADS: &str = "
use strict; use threads; use Time::HiRes qw(clock_gettime);
sub spin { my $end = clock_gettime(3) + shift; 1 while clock_gettime(3) < $end }
sub first { spin(0.06) }
sub second { spin(0.03) }
sub third { spin(0.01); 0 }
sub rounds { for (1 .. 6) { first(); second(); my @x = sort { third() } 1, 2 } }
sub worker { rounds() }
my @threads = map { threads->create(\\&worker) } 1 .. 2;
rounds();
$_->join for @threads;
";

fn check_perl_threads(interpreter: &Path, script: &Path, out: &Path) {
    let script = script.to_str().expect("a path");
    let (folded, _, said) =
        record(&["-F", "2999", "--count", "samples"], interpreter, &[script], out);
    let names = ["main::first", "main::second", "main::third"];
    let in_thread = |stack: &[String]| stack.iter().any(|frame| frame == "main::worker");
    check_shares(&folded, &in_thread, names, &said);
    check_shares(&folded, &|stack| !in_thread(stack), names, &said);
    for (stack, _) in
        folded.stacks.iter().filter(|(stack, _)| stack.iter().any(|f| f == "main::spin"))
    {
        let own = stack.iter().filter(|frame| frame.starts_with("main"));
        let own: Vec<&str> = own.map(String::as_str).collect();
        let is_known = match own[..] {
            ["main::worker", "main::rounds", name, "main::spin"] => names.contains(&name),
            // The function of C by which the program begins, and the script.
            ["main", "main", "main::rounds", name, "main::spin"] => names.contains(&name),
            _ => false,
        };
        assert!(is_known, "{interpreter:?} {stack:?}\n{said}");
    }
    check_said(&said);
}

#[test]
fn threads_of_perl_have_their_shares() {
    if !is_root("threads_of_perl_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "threads.pl", PERL_THREADS);
    let out = folder.path().join("threads.folded");
    for (_, interpreter) in interpreters("perl", "/usr/bin/perl") {
        check_perl_threads(&interpreter, &script, &out);
    }
}

/// A thread that goes to another interpreter and back, and another thread that is in one all the time: of the CPU time of the
/// first one, 60 % are of its own code, 30 % of that of the other interpreter, and 10 % of one inside of that.
const INTERPRETERS: &str = "
import sys, threading, time
try: import _interpreters as other
except ImportError: import _xxsubinterpreters as other
run = other.exec if hasattr(other, 'exec') else other.run_string
SPIN = '''
import time
def spin(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
'''
exec(SPIN)
SECOND = SPIN + '''
def second(): spin(0.03)
def worker(): spin(0.1)
'''
def first(): spin(0.06)
def beside():
    there = other.create()
    run(there, SECOND + 'for i in range(6): worker()')
thread = threading.Thread(target=beside)
thread.start()
there = other.create()
for i in range(10):
    first()
    run(there, SECOND + 'second()')
    run(other.create(), SPIN + 'def third(): spin(0.01)\\nthird()')
thread.join()
";

#[test]
fn functions_of_other_interpreters_of_python_have_their_shares() {
    let test = "functions_of_other_interpreters_of_python_have_their_shares";
    if !is_root(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "interpreters.py", INTERPRETERS);
    let out = folder.path().join("interpreters.folded");
    let script = script.to_str().expect("a path");
    for (name, interpreter) in interpreters("python", "/usr/bin/python3") {
        let (folded, _, said) =
            record(&["-F", "2999", "--count", "samples"], &interpreter, &[script], &out);
        let in_thread = |stack: &[String]| stack.iter().any(|frame| frame == "worker");
        check_shares(&folded, &|stack| !in_thread(stack), ["first", "second", "third"], &said);
        let of_main = |stack: &[String]| {
            stack.iter().any(|frame| ["first", "second", "third"].contains(&frame.as_str()))
        };
        let part = folded.share(in_thread) / folded.share(of_main);
        assert!((part - 0.6).abs() < 0.1, "{name}: {part:.2}\n{said}");
        check_said(&said);
    }
}

/// Stacks that are put in the place of a thread's own: each is begun at one depth of calls, and gone on with at others.
const GREENLETS: &str = "
import time, greenlet
def spin(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
def back(): greenlet.getcurrent().parent.switch()
def first():
    while True: spin(0.006); back()
def recurse(n):
    if n: return recurse(n - 1)
    spin(0.003); back()
def second():
    while True: recurse(3)
def key(x): spin(0.001); return x
def third():
    while True: sorted([1], key=key); back()
def drive(stacks):
    for stack in stacks: stack.switch()
def nest(stacks, n):
    return sorted([1], key=lambda x: nest(stacks, n - 1)) if n else drive(stacks)
stacks = [greenlet.greenlet(f) for f in (first, second, third)]
for i in range(90): nest(stacks, i % 4)
";

/// The module `greenlet` for an interpreter, if it is there.
fn greenlet_of(interpreter: &Path) -> Option<PathBuf> {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(interpreter).args(["-c", code]).output().expect("a version");
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let modules = kept().join("../interpreters/greenlet");
    let module = modules.join(&version);
    if module.exists() {
        return Some(module);
    }
    eprintln!("skipped: greenlets of Python {version}: .ci/interpreters fetches them");
    None
}

fn check_greenlets(interpreter: &Path, module: &Path, script: &Path, out: &Path) {
    let path = format!("PYTHONPATH={}", module.display());
    let arguments =
        [&path, interpreter.to_str().expect("a path"), script.to_str().expect("a path")];
    let (folded, _, said) =
        record(&["-F", "2999", "--count", "samples"], Path::new("/usr/bin/env"), &arguments, out);
    check_shares(&folded, &|_| true, ["first", "second", "third"], &said);
    const OWN: [&str; 9] =
        ["<module>", "nest", "<lambda>", "drive", "first", "second", "recurse", "third", "key"];
    for (stack, _) in &folded.stacks {
        let Some(leaf) = stack.iter().rposition(|frame| frame == "spin") else { continue };
        let own =
            stack[..leaf].iter().enumerate().filter(|(_, frame)| OWN.contains(&frame.as_str()));
        let own: Vec<_> = own.collect();
        let names: Vec<_> = own.iter().map(|(_, frame)| frame.as_str()).collect();
        assert!(
            matches!(
                names[..],
                ["first"]
                    | ["second", "recurse", "recurse", "recurse", "recurse"]
                    | ["third", "key"]
            ),
            "{interpreter:?} {stack:?}\n{said}"
        );
        // All of them are below the frame by which the stack begins.
        let start = stack.iter().rposition(|frame| frame.contains("inner_bootstrap"));
        assert!(start.is_some_and(|start| start < own[0].0), "{interpreter:?} {stack:?}\n{said}");
        // That is in code of the module, outside of which is nothing of this greenlet.
        let begin = stack.get(1).is_some_and(|frame| frame.contains("switch"));
        assert!(begin, "{interpreter:?} {stack:?}\n{said}");
    }
    check_said(&said);
}

#[test]
fn greenlets_have_their_shares() {
    if !is_root("greenlets_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "greenlets.py", GREENLETS);
    let out = folder.path().join("greenlets.folded");
    for (_, interpreter) in interpreters("python", "/usr/bin/python3") {
        if let Some(module) = greenlet_of(&interpreter) {
            check_greenlets(&interpreter, &module, &script, &out);
        }
    }
}

/// A child that goes on with its parent's calls, without another program in between; and generators, whose frames are
/// outside of the list of calls while they wait.
const PYTHON_CHILDREN: &str = "
import os, time
def spin(t):
    end = time.thread_time() + t
    while time.thread_time() < end: pass
def first(): spin(0.06)
def second(): spin(0.03)
def third(x): spin(0.01); return x
def generate():
    while True:
        first(); yield 1
        second(); yield 2
        yield from inner()
def inner(): yield sorted([1], key=third)
def parent():
    steps = generate(); next(steps); next(steps); next(steps)
    child(steps) if os.fork() == 0 else os.wait()
def child(steps):
    for i in range(18): next(steps)
    os._exit(0)
parent()
";
const PERL_CHILDREN: &str = "
use strict; use Time::HiRes qw(clock_gettime);
sub spin { my $end = clock_gettime(3) + shift; 1 while clock_gettime(3) < $end }
sub first { spin(0.06) }
sub second { spin(0.03) }
sub third { spin(0.01); 0 }
sub parent { if (fork) { wait } else { child() } }
sub child { for (1 .. 6) { first(); second(); my @x = sort { third() } 1, 2 } exit }
parent();
";
const PHP_CHILDREN: &str = "<?php
function used() { $u = getrusage(); return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6; }
function spin($t) { $end = used() + $t; while (used() < $end); }
function first() { spin(0.06); }
function second() { spin(0.03); }
function third($a, $b) { spin(0.01); return 0; }
function generate() { while (true) { first(); yield 1; second(); yield 2; $v = [1, 2]; usort($v, 'third'); yield 3; } }
function child($steps) { for ($i = 0; $i < 18; $i++) { $steps->next(); } exit; }
function parent_() { $steps = generate(); $steps->current(); if (pcntl_fork()) { pcntl_wait($status); } else { child($steps); } }
parent_();
";
const RUBY_CHILDREN: &str = "
def spin(t)
  finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + t
  while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish; end
end
def first; spin(0.06); end
def second; spin(0.03); end
def third; spin(0.01); end
def child; 6.times { first; second; [1].sort_by { third } }; exit!; end
def parent; fork ? Process.wait : child; end
parent
";

/// Checks the shares in the child, each call of which is below its parent's.
fn check_children(interpreter: &Path, script: &Path, out: &Path, (prefix, parent): (&str, &str)) {
    let script = script.to_str().expect("a path");
    let (folded, _, said) =
        record(&["-F", "2999", "--count", "samples"], interpreter, &[script], out);
    let [child, parent] = ["child", parent].map(|name| format!("{prefix}{name}"));
    let names = ["first", "second", "third"].map(|name| format!("{prefix}{name}"));
    let in_child = |stack: &[String]| stack.contains(&child);
    check_shares(&folded, &in_child, names.each_ref().map(String::as_str), &said);
    for (stack, _) in folded.stacks.iter().filter(|(stack, _)| in_child(stack)) {
        let own = stack.iter().filter(|frame| **frame == child || **frame == parent);
        let own: Vec<_> = own.collect();
        assert_eq!(own, [&parent, &child], "{interpreter:?} {stack:?}\n{said}");
    }
    assert!(!said.contains("without a name"), "{interpreter:?} {said}");
}

#[test]
#[ignore = "nightly: nine seconds; other threads and children are recorded each time"]
fn children_and_generators_have_their_shares() {
    if !is_root("children_and_generators_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("children.folded");
    for (language, system, text, names) in [
        ("python", "/usr/bin/python3", PYTHON_CHILDREN, ("", "parent")),
        ("perl", "/usr/bin/perl", PERL_CHILDREN, ("main::", "parent")),
        ("php", "/usr/bin/php", PHP_CHILDREN, ("", "parent_")),
        ("ruby", "/usr/bin/ruby", RUBY_CHILDREN, ("Object#", "parent")),
    ] {
        let script = write(folder.path(), &format!("children-{language}"), text);
        for (_, interpreter) in interpreters(language, system) {
            check_children(&interpreter, &script, &out, names);
        }
    }
}
