//! The order of calls of interpreters in a stack, among native frames; and the views of them.

use std::process::Command;

use crate::common::interpreters::{interpreters, write};
use crate::common::{Folded, is_root, pyrograph, slice};

use super::languages::{PYTHON, record, recorder};

/// Recursion, generators, exceptions, callbacks, destructors: calls are in the order in which they were made.
#[test]
fn calls_are_in_order() {
    if !is_root("calls_are_in_order") {
        return;
    }
    const PYTHON: &str = "
import time, sys, functools
def spin():
    end = time.thread_time() + 0.05
    while time.thread_time() < end: pass
def recurse(n): return spin() if n == 0 else recurse(n - 1)
def generate(): spin(); yield 1
def consume(): return list(generate())
def throws():
    try: raise KeyError()
    except KeyError: spin()
class Class:
    def __lt__(self, other): spin(); return True
    def __del__(self): spin()
    def method(self): return functools.reduce(lambda a, b: spin(), [1, 2])
def compares(): sorted([Class(), Class()])
def closes(): x = Class(); x.method(); del x
def evaluates(): exec('def inner():\\n spin()\\ninner()')
recurse(20); consume(); throws(); compares(); closes(); evaluates()
sys.setrecursionlimit(5000); recurse(1500)
";
    const PERL: &str = "
use Time::HiRes qw(clock_gettime);
sub spin { my $end = clock_gettime(3) + 0.05; 1 while clock_gettime(3) < $end }
sub recurse { my $n = shift; $n ? recurse($n - 1) : spin() }
sub throws { eval { die 'x' }; spin() if $@ }
sub evals { eval 'sub inner { spin() } inner(); 1' or die }
package Tied; sub TIESCALAR { bless [] } sub FETCH { main::spin(); 1 }
package Over; use overload '+' => sub { main::spin(); 1 }; sub new { bless [] } sub DESTROY { main::spin() }
package Auto; our $AUTOLOAD; sub AUTOLOAD { main::spin() unless $AUTOLOAD =~ /DESTROY/ }
package main;
sub ties { tie my $x, 'Tied'; my $y = $x }
sub adds { my $x = Over->new; my $y = $x + 1; }
sub loads { Auto->missing }
sub blocks { my @x = map { spin(); $_ } 1; my $f = sub { spin() }; $f->() }
recurse(20); throws(); evals(); ties(); adds(); loads(); blocks();
";
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("order.folded");
    let python = write(folder.path(), "order.py", PYTHON);
    let perl = write(folder.path(), "order.pl", PERL);
    let ways = |folded: &Folded, spin: &str, is_own: &dyn Fn(&str) -> bool| -> Vec<String> {
        let mut ways: Vec<String> = Vec::new();
        for (stack, _) in &folded.stacks {
            let Some(end) = stack.iter().rposition(|frame| frame == spin) else { continue };
            let names = stack[..end].iter().filter(|frame| is_own(frame));
            ways.push(names.cloned().collect::<Vec<_>>().join(" "));
        }
        ways.sort();
        ways.dedup();
        ways
    };
    for (_, interpreter) in interpreters("python", "/usr/bin/python3") {
        let (folded, said) =
            record(recorder(&out, &["-F", "997"]).arg(&interpreter).arg(&python), &out);
        let minor = Command::new(&interpreter)
            .args(["-c", "import sys; print(sys.version_info.minor)"])
            .output()
            .expect("a version");
        let minor: u32 = String::from_utf8_lossy(&minor.stdout).trim().parse().expect("a number");
        let name = |class: &str, name: &str| match minor {
            // Names are qualified since then.
            11.. => format!("{class}{name}"),
            _ => name.to_owned(),
        };
        const OWN: [&str; 14] = [
            "<module>",
            "recurse",
            "consume",
            "generate",
            "throws",
            "compares",
            "closes",
            "method",
            "<lambda>",
            "__lt__",
            "__del__",
            "evaluates",
            "inner",
            "[truncated]",
        ];
        let own = |frame: &str| OWN.contains(&frame.rsplit('.').next().unwrap_or(frame));
        let ways = ways(&folded, "spin", &own);
        let has = |way: &str| ways.iter().any(|known| known.ends_with(way));
        assert!(
            has(&format!("<module>{}", " recurse".repeat(21))),
            "{interpreter:?} {ways:?} {said}"
        );
        assert!(has("<module> consume generate"), "{interpreter:?} {ways:?}");
        assert!(has("<module> throws"), "{interpreter:?} {ways:?}");
        assert!(
            has(&format!("<module> compares {}", name("Class.", "__lt__"))),
            "{interpreter:?} {ways:?}"
        );
        let lambda = name("Class.method.<locals>.", "<lambda>");
        assert!(
            ways.iter().any(|way| way.contains(&name("Class.", "method")) && way.contains(&lambda))
        );
        assert!(has(&format!("closes {}", name("Class.", "__del__"))), "{interpreter:?} {ways:?}");
        assert!(has("<module> evaluates <module> inner"), "{interpreter:?} {ways:?}");
        let deep = ways.iter().filter(|way| way.contains("[truncated]")).count();
        assert!(deep > 0, "1,500 calls are more than are kept");
    }
    for (_, interpreter) in interpreters("perl", "/usr/bin/perl") {
        let (folded, said) =
            record(recorder(&out, &["-F", "997"]).arg(&interpreter).arg(&perl), &out);
        let own = |frame: &str| frame.contains("::") || frame == "(eval)";
        let ways = ways(&folded, "main::spin", &own);
        let expected = [
            vec!["main::recurse"; 21].join(" "),
            "main::throws".to_owned(),
            "main::evals (eval) main::inner".to_owned(),
            "main::ties Tied::FETCH".to_owned(),
            "main::adds Over::__ANON__".to_owned(),
            "main::adds Over::DESTROY".to_owned(),
            "main::loads Auto::AUTOLOAD".to_owned(),
            "main::blocks".to_owned(),
            "main::blocks main::__ANON__".to_owned(),
        ];
        for way in expected {
            assert!(ways.contains(&way), "{interpreter:?} {way}: {ways:?} {said}");
        }
    }
}

/// Views, lines, and what is said where calls cannot be read.
#[test]
fn views_show_what_they_name() {
    if !is_root("views_show_what_they_name") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "shares.py", PYTHON);
    let out = folder.path().join("views.folded");
    let take = |flags: &[&str]| {
        let flags = [&["-F", "997", "--count", "samples"], flags].concat();
        record(recorder(&out, &flags).arg("/usr/bin/python3").arg(&script).arg("5"), &out)
    };
    let (merged, _) = take(&[]);
    assert!(merged.total_share("rounds") > 80.0 && merged.total_share("_start") > 80.0);
    let (language, _) = take(&["--stacks", "lang"]);
    assert!(language.total_share("rounds") > 80.0 && language.total_share("_start") == 0.0);
    for &flags in slice(&[&["--stacks", "native"][..], &["--lang", "none"], &["--lang", "perl"]], 1)
    {
        let (native, _) = take(flags);
        assert!(native.total_share("_PyEval_EvalFrameDefault") > 80.0, "{flags:?}");
        assert_eq!(native.total_share("rounds"), 0.0, "{flags:?}");
    }
    let (lines, _) = take(&["--lines"]);
    // `first(); second(); …` is line 10 of the script.
    assert!(lines.total_share("rounds (shares.py:10)") > 80.0, "{:?}", lines.leaves());
    assert!(lines.total_share("first (shares.py:6)") > 40.0, "{:?}", lines.leaves());
    let (_, said) = {
        let mut command = pyrograph();
        command
            .args(["record", "--engine", "perf", "-o"])
            .arg(&out)
            .args(["--", "/usr/bin/python3"]);
        record(command.arg(&script).arg("2"), &out)
    };
    assert!(said.contains("functions of python 3.") && said.contains("CAP_BPF"), "{said}");
}
