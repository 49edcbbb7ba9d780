//! Functions of JavaScript among native frames, in recordings of Node without any option.

use std::fs::{self, File};
use std::io::Write;
use std::iter;
use std::path::Path;
use std::time::Duration;

use pyrograph_format::{Input, Options, read};
use pyrograph_profile::FrameKind;

use crate::common::in_kernel::value_of;
use crate::common::interpreters::{check_said, interpreters, write};
use crate::common::{Folded, is_root, kept, pyrograph, run, sharp, text, tolerance};

/// Has the tables for unwinding Node's file made, which are kept for the next recording: on a busy machine that takes
/// seconds, in which calls in stacks that are copied out are not found. All tests do so, one after the other, but for what
/// was done in the last minutes.
fn keep_tables(node: &Path, out: &Path) {
    let name = node.to_string_lossy().replace('/', "-");
    let mark = kept().join(format!("kept{name}"));
    let mark = File::options().create(true).append(true).open(mark).expect("a file");
    mark.lock().expect("a lock");
    let facts = mark.metadata().expect("facts of the file");
    let age = facts.modified().expect("a time").elapsed().unwrap_or_default();
    if facts.len() == 0 || age > Duration::from_secs(900) {
        let script = "const end = Date.now() + 1000; while (Date.now() < end);";
        let mut recorder = pyrograph();
        recorder.args(["record", "--engine", "ebpf", "-o"]).arg(out).arg("--");
        recorder.arg(node).args(["-e", script]);
        // Of a recording that finds them nothing is said.
        let is_kept = || !text(&run(&mut recorder).stderr).contains("unwind tables were not ready");
        assert!(
            iter::repeat_with(is_kept).take(20).any(|it| it),
            "tables of {node:?} are not kept"
        );
        (&mark).write_all(b".").expect("a file");
    }
}

/// Records a script from its start to its end; what Node and Pyrograph wrote, too.
fn record(node: &Path, out: &Path, flags: &[&str], arguments: &[&str]) -> (Folded, String, String) {
    keep_tables(node, out);
    crate::common::interpreters::record(flags, node, arguments, out)
}

/// Three functions, which take 60, 30 and 10 % of the CPU time by its own clock; the last is called by a sort. What V8
/// compiles beside is of the process's clock, too: all has been compiled after the first rounds. It waits until tables for
/// unwinding are there, however busy the machine is.
const SHARES: &str = "
function clock() { const { user, system } = process.cpuUsage(); return user + system; }
function spin(ms) { const end = clock() + ms * 1000; while (clock() < end) for (let i = 0; i < 300; i++); }
function first() { spin(60); }
function second() { spin(30); }
function third() { spin(10); return 0; }
function rounds() { first(); second(); [1, 2].sort(third); }
setTimeout(() => { for (let i = 0; i < Number(process.argv[2]); i++) rounds(); }, 700);
";

/// Of frames of JavaScript functions, the share of those with names, percent. The others are of the interpreter, or of
/// compiled code that no file has.
fn named_share(folded: &Folded, names: &[&str]) -> f64 {
    let (mut named, mut nameless) = (0.0, 0.0);
    for (stack, value) in &folded.stacks {
        for frame in stack {
            if names.contains(&frame.as_str()) {
                named += value;
            } else if frame.starts_with("Builtins_InterpreterEntryTrampoline")
                || frame.starts_with("[unknown")
                || frame == "[javascript function]"
            {
                nameless += value;
            }
        }
    }
    100.0 * named / (named + nameless)
}

/// 1.2 s of CPU time at 2999 Hz: one standard deviation of the largest share is 0.8 points.
fn check_shares(node: &Path, script: &Path, folder: &Path) {
    let out = folder.join("shares.folded");
    let script = script.to_str().expect("a path");
    let (folded, _, said) =
        record(node, &out, &["-F", "2999", "--count", "samples"], &[script, sharp("12", "24")]);
    let all = folded.total_share("rounds");
    assert!(all > 80.0, "{node:?}: {all}, {said}, {:?}", folded.leaves());
    let mut shares = Vec::new();
    for (function, expected) in [("first", 60.0), ("second", 30.0), ("third", 10.0)] {
        let found = folded.total_share(function) * 100.0 / all;
        // A point for what V8's own threads do, which is of the process's clock.
        let most = sharp(1.0 + tolerance(expected, folded.total() * all / 100.0), 2.8);
        assert!((found - expected).abs() < most, "{node:?} {function}: {found:.1}\n{said}");
        shares.push(found);
        // In order: a function is called by the ones around it, and by nobody else.
        let wanted = ["rounds", function, "spin"];
        for (stack, _) in
            folded.stacks.iter().filter(|(stack, _)| stack.iter().any(|f| f == function))
        {
            let names = stack.iter().filter(|frame| wanted.contains(&frame.as_str()));
            let names: Vec<&String> = names.collect();
            // `spin` may have been compiled into the function.
            assert!(names.len() >= 2 && names[..] == wanted[..names.len()], "{node:?}: {stack:?}");
            let sorts = stack.iter().any(|frame| frame == "Builtins_ArrayPrototypeSort");
            assert_eq!(sorts, function == "third", "{node:?}: {stack:?}");
        }
    }
    let named = named_share(&folded, &["rounds", "first", "second", "third", "spin"]);
    eprintln!("{node:?}: shares {shares:.1?}, {named:.1} % of the frames of functions are named");
    // How soon V8 has compiled a function depends on its other threads.
    assert!(named > sharp(85.0, 95.0), "{node:?}: {named} {:?}", folded.leaves());
    check_said(&said);
}

#[test]
fn functions_have_their_shares() {
    if !is_root("functions_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "shares.js", SHARES);
    for (_, node) in interpreters("node", "node") {
        check_shares(&node, &script, folder.path());
    }
}

/// Interpreted and compiled functions of all kinds, for 0.1 s of CPU time each. `%s` would be too little to be compiled: `spin` is.
/// It waits as [`SHARES`] does.
const WAYS: &str = "
function clock() { const { user, system } = process.cpuUsage(); return user + system; }
function spin() { const end = clock() + 100000; let x = 0; while (clock() < end) for (let i = 0; i < 500; i++) x += i; return x; }
function recurse(n) { return n === 0 ? spin() : recurse(n - 1); }
class Shape { constructor() { spin(); } area() { return spin(); } static make() { return spin(); } get size() { return spin(); } }
function closure() { const a = 1; return function inner() { spin(); return a; }; }
function* numbers() { spin(); yield 1; }
function consume() { return [...numbers()]; }
async function later() { await null; spin(); }
function sorts() { [2, 1].sort(function compare(a, b) { spin(); return a - b; }); }
function maps() { return [1].map(x => spin()); }
function throws() { try { throw new Error('x'); } catch (e) { spin(); } }
const holder = {}; holder.member = function (x) { return spin(); };
function many() { const a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8; spin(); return () => a + b + c + d + e + f + g + h + i; }
function evaluates() { return eval('(function evaluated() { return spin(); })()'); }
function größer() { return spin('\u{4e2d}'); }
setTimeout(() => {
    recurse(20); new Shape().area(); Shape.make(); new Shape().size; closure()(); consume(); sorts(); maps(); throws();
    holder.member(); many(); evaluates(); größer();
    later().then(function after() { spin(); setTimeout(function timer() { spin(); }, 1); });
}, 700);
";

#[test]
fn calls_are_in_order() {
    if !is_root("calls_are_in_order") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "ways.js", WAYS);
    let script = script.to_str().expect("a path");
    let out = folder.path().join("ways.folded");
    let recursion = vec!["recurse"; 21].join(" ");
    let expected: [&str; 17] = [
        &recursion,
        "Shape",
        "area",
        "make",
        "get size",
        "inner",
        "consume Builtins_IterableToList Builtins_GeneratorPrototypeNext numbers",
        "sorts Builtins_ArrayPrototypeSort Builtins_ArrayTimSort Builtins_SortCompareUserFn compare",
        "maps Builtins_ArrayMap (anonymous)",
        "throws",
        "holder.member",
        "many",
        "evaluates (anonymous) evaluated",
        "größer",
        "later",
        "after",
        "listOnTimeout timer",
    ];
    for (_, node) in interpreters("node", "node") {
        let (folded, _, said) = record(&node, &out, &["-F", "997"], &[script]);
        let mut ways: Vec<String> = Vec::new();
        for (stack, _) in &folded.stacks {
            let Some(end) = stack.iter().rposition(|frame| frame == "spin") else { continue };
            ways.push(format!("{} ", stack[..end].join(" ")));
        }
        ways.sort();
        ways.dedup();
        for way in expected {
            let has = ways.iter().any(|known| known.ends_with(&format!(" {way} ")));
            assert!(has, "{node:?} {way}: {ways:#?} {said}");
        }
    }
}

/// Files, lines, modules, and code that V8 names for perf, too. Where V8 is to compile nothing, all is interpreted; else the loop
/// is compiled while it runs.
#[test]
fn functions_have_files_and_lines() {
    if !is_root("functions_have_files_and_lines") {
        return;
    }
    const MODULE: &str = "\
function clock() { const { user, system } = process.cpuUsage(); return user + system; } function spin(ms) {
  const end = clock() + ms * 1000; while (clock() < end);
}

export function called() { /* \u{65e5} */
  spin(800);
}
";
    let folder = tempfile::tempdir().expect("a folder");
    // Longer than what is read at once.
    let text = MODULE.replace("\n\nexport", &format!("\n{}\nexport", "// a line\n".repeat(9_000)));
    let lines = text.lines().position(|line| line.starts_with("export")).expect("it is there");
    let module = write(folder.path(), "module.mjs", &text);
    let main = write(
        folder.path(),
        "main.mjs",
        "import { called } from './module.mjs';\ncalled();\nconsole.log(process.pid);\n",
    );
    let main = main.to_str().expect("a path");
    let out = folder.path().join("lines.pb.gz");
    for (_, node) in interpreters("node", "node") {
        for option in [None, Some("--perf-basic-prof"), Some("--jitless")] {
            let mut command = pyrograph();
            command.args(["record", "--engine", "ebpf", "-F", "199", "-o"]).arg(&out).arg("--");
            let output = run(command.arg(&node).args(option).arg(main).current_dir(folder.path()));
            let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if option == Some("--perf-basic-prof") {
                fs::remove_file(format!("/tmp/perf-{pid}.map")).expect("V8 has written it");
            }
            let inputs = vec![Input::open(&out).expect("a profile")];
            let (profile, _) = read(inputs, &Options::default()).expect("pprof");
            for (name, line) in [("spin", 1), ("called", lines + 1)] {
                let text = |id| profile.strings.get(id).to_owned();
                let frames = profile.frames.iter();
                let mut found: Vec<(String, u32)> = frames
                    .filter(|frame| text(frame.function) == name)
                    .map(|frame| (text(frame.file), frame.start_line))
                    .collect();
                found.dedup();
                let expected = (module.display().to_string(), line as u32);
                assert_eq!(found, [expected], "{node:?} {option:?}: {name}");
            }
            let kind = match option {
                Some("--jitless") => FrameKind::Interpreted,
                _ => FrameKind::Jit,
            };
            let (mut all, mut of_kind) = (0, 0);
            for (sample, value) in profile.samples.iter().zip(profile.samples.values(profile.shown))
            {
                let mut stack =
                    profile.stacks.leaf_first(sample.stack).map(|id| profile.frames.get(id));
                if let Some(spin) =
                    stack.find(|frame| profile.strings.get(frame.function) == "spin")
                {
                    all += value;
                    of_kind += if spin.kind == kind { *value } else { 0 };
                }
            }
            // What is compiled while it runs is interpreted before.
            let share = of_kind as f64 / all as f64;
            assert!(share > 0.6, "{node:?} {option:?}: {share} of {all} is {kind:?}");
        }
    }
}

/// A worker that waits is seen under the function that waits, with the kernel's frames, as long as it measured itself.
#[test]
fn waits_of_workers_have_their_shares_under_their_functions() {
    if !is_root("waits_of_workers_have_their_shares_under_their_functions") {
        return;
    }
    const SCRIPT: &str = "
const { Worker, isMainThread } = require('worker_threads');
if (isMainThread) setTimeout(() => new Worker(__filename), 700);
else {
  const shared = new Int32Array(new SharedArrayBuffer(4));
  function waits() { for (let i = 0; i < 40; i++) Atomics.wait(shared, 0, 0, 20); }
  const start = process.hrtime.bigint(); waits();
  console.log(String(process.hrtime.bigint() - start));
}
";
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "waits.js", SCRIPT);
    let script = script.to_str().expect("a path");
    let out = folder.path().join("waits.folded");
    for (_, node) in interpreters("node", "node") {
        let (folded, written, _) = record(&node, &out, &["--off-cpu"], &[script]);
        let measured: f64 = written.trim().parse().expect("nanoseconds");
        let found = value_of(&folded, "waits");
        // The program's clock is that of the wall, with the time in which it runs and waits for a CPU.
        let (least, most) = sharp((0.8, 1.01), (0.96, 1.01));
        assert!(
            found > least * measured && found < most * measured,
            "{node:?}: {found} and {measured}: {:?}",
            folded.leaves()
        );
        let in_kernel = folded.share(|stack| {
            let at = stack.iter().position(|frame| frame == "waits");
            at.is_some_and(|at| stack[at..].iter().any(|frame| frame == "do_syscall_64"))
        });
        assert!(in_kernel > 0.0, "{node:?}: {:?}", folded.leaves());
    }
}
