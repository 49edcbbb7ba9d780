//! Functions of Lua in LuaJIT among native frames, in recordings of programs of known truth: interpreted, and compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::interpreters::{
    all_interpreters, check_measured, check_said, copy, interpreters, record, write,
};
use crate::common::{Folded, is_root, pyrograph, run, sharp};

/// With the compiler and without.
const MODES: [&str; 2] = ["-jon", "-joff"];

/// The system's LuaJIT and those of other versions whose layout is known: that of 2017 has references of 32 bits.
fn luajits() -> Vec<PathBuf> {
    let found = interpreters("luajit", "/usr/bin/luajit").into_iter();
    found.filter(|(name, _)| name != "luajit-2017").map(|(_, path)| path).collect()
}

/// Returns true if a stack has these functions in this order, root first.
fn has(stack: &[String], wanted: &[&str]) -> bool {
    let mut frames = stack.iter();
    wanted.iter().all(|wanted| frames.any(|frame| frame == wanted))
}

/// The functions' shares are those that the program measured by its own clock, and stacks go to their roots.
fn check_shares(luajit: &Path, mode: &str, script: &Path) {
    let out = script.with_extension("folded");
    let path = script.to_str().expect("a path");
    let flags = ["-F", "3001", "--count", "samples"];
    let words = [mode, path, sharp("1", "4")];
    let (folded, printed, said) = record(&flags, luajit, &words, &out);
    let known = check_measured(&folded, &printed, "", &format!("{luajit:?} {mode}: {said}"));
    let ordered = ["main chunk of shares.lua", "shares.lua:26", "shares.lua:20", "shares.lua:15"];
    let wrong = folded
        .share(|stack| stack.iter().any(|frame| frame == ordered[3]) && !has(stack, &ordered));
    // Before its tables are there, a stack may end early.
    assert!(wrong < sharp(3.0, 0.2), "{luajit:?} {mode}: {wrong}");
    let whole = folded.share(|stack| stack.iter().any(|frame| frame == "_start"));
    eprintln!(
        "{luajit:?} {mode}: {known:.1} % in the functions, {whole:.2} % of the stacks go to the root"
    );
    assert!(whole > sharp(95.0, 98.0), "{luajit:?} {mode}: {whole}");
    check_said(&said);
}

#[test]
fn lua_functions_have_their_shares() {
    if !is_root("lua_functions_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("shares.lua", folder.path());
    for luajit in luajits() {
        for mode in MODES {
            check_shares(&luajit, mode, &script);
        }
    }
}

/// Under the main chunk, what leads to `burn`, root first, and nothing of Lua between, by the lines where functions begin.
const CALLS: &[&[u32]] = &[
    &[62, 11, 11, 11, 11, 11, 11, 11, 11, 11],
    &[17, 18, 16],
    &[23, 24, 17, 18, 16],
    &[29, 28],
    // An error's handler runs on top of what raises it.
    &[29, 28, 31],
    &[34, 35],
    &[39, 38],
    &[41, 40],
    &[46, 43],
    &[47, 44],
    &[49, 48],
    &[57],
];

fn check_calls(luajit: &Path, mode: &str, script: &Path) {
    let out = script.with_extension("folded");
    let path = script.to_str().expect("a path");
    let (folded, _, said) = record(&["-F", "3001"], luajit, &[mode, path, "1"], &out);
    let main = "main chunk of calls.lua";
    let (mut right, mut wrong, mut found) = (0.0, Vec::new(), vec![false; CALLS.len()]);
    for (stack, value) in &folded.stacks {
        let own = stack.iter().filter_map(|frame| frame.strip_prefix("calls.lua:"));
        let mut lines: Vec<u32> = own.filter_map(|line| line.parse().ok()).collect();
        if lines.pop() != Some(6) || !stack.iter().any(|frame| frame == main) {
            continue;
        }
        match CALLS.iter().position(|call| *call == lines) {
            Some(at) => (found[at], right) = (true, right + value),
            None => wrong.push((lines, *value)),
        }
        // The chunk that was loaded, and the function that sorts in C.
        let is_loaded = stack.iter().any(|frame| frame == "main chunk of loaded");
        assert_eq!(is_loaded, has(stack, &["calls.lua:57"]), "{stack:?}");
        if has(stack, &["calls.lua:48"]) {
            assert!(stack.iter().any(|frame| frame.contains("qsort")), "{stack:?}");
        }
    }
    assert!(found.iter().all(|found| *found), "{luajit:?} {mode}: {found:?} {said} {wrong:?}");
    let all: f64 = right + wrong.iter().map(|(_, value)| value).sum::<f64>();
    // The moment in which a function is called or returns.
    assert!(right > sharp(0.97, 0.995) * all, "{luajit:?} {mode}: {right} of {all}, {wrong:?}");
    check_said(&said);
}

#[test]
fn shares_of_lua_calls_are_in_order() {
    if !is_root("shares_of_lua_calls_are_in_order") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("calls.lua", folder.path());
    for luajit in luajits() {
        for mode in MODES {
            check_calls(&luajit, mode, &script);
        }
    }
}

/// Functions that the compiler has put into their caller's trace, and lines.
#[test]
fn functions_within_traces_have_lines() {
    if !is_root("functions_within_traces_have_lines") {
        return;
    }
    // What a trace knows of a function within it begins where it can leave the trace.
    const SCRIPT: &str = "\
local sqrt = math.sqrt
local function look(i)
  if i < 0 then return 0 end
  local v = sqrt(sqrt(sqrt(i + 1.5) / 3) / 7)
  if v < 0 then return 1 end
  return v
end
local function step(x, i) local y = look(i) return x + y end
local function loop(n)
  local x = 0
  for i = 1, n do
    x = step(x, i)
  end
  return x
end
local x = loop(4e7)
";
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "within.lua", SCRIPT);
    let out = folder.path().join("within.folded");
    let path = script.to_str().expect("a path");
    for luajit in luajits() {
        let (folded, _, said) = record(&["-F", "1999", "--lines"], &luajit, &["-jon", path], &out);
        let wanted = [
            "main chunk of within.lua (within.lua:16)",
            "within.lua:9 (within.lua:12)",
            "within.lua:8 (within.lua:8)",
        ];
        let found = folded.share(|stack| {
            let look = stack.iter().find(|frame| frame.starts_with("within.lua:2 "));
            let lines = [
                "within.lua:2 (within.lua:3)",
                "within.lua:2 (within.lua:4)",
                "within.lua:2 (within.lua:5)",
            ];
            has(stack, &wanted) && look.is_some_and(|look| lines.contains(&look.as_str()))
        });
        eprintln!("{luajit:?}: {found:.1} % in the function within two others");
        assert!(found > 20.0, "{luajit:?}: {found} {said} {:?}", folded.stacks);
        check_said(&said);
    }
}

/// Waits are under the functions that wait, with the kernel's frames, as long as the program measured itself.
#[test]
fn waits_have_their_shares_under_their_functions() {
    if !is_root("waits_have_their_shares_under_their_functions") {
        return;
    }
    const SCRIPT: &str = "\
local ffi = require('ffi')
ffi.cdef [[ int usleep(unsigned); struct t { long s, n; }; int clock_gettime(int, struct t *); ]]
local now = ffi.new('struct t')
local function clock() ffi.C.clock_gettime(1, now) return tonumber(now.s) * 1e9 + tonumber(now.n) end
local function sleeps() for i = 1, 100 do ffi.C.usleep(5000) end return 1 end
local function reads(pipe) local text = pipe:read('*a') return text end
local start = clock() local a = sleeps()
local slept = clock() - start
local pipe = io.popen('sleep 0.5')
start = clock() local b = reads(pipe)
print(string.format('%.0f %.0f', slept, clock() - start))
";
    let folder = tempfile::tempdir().expect("a folder");
    let script = write(folder.path(), "waits.lua", SCRIPT);
    let out = folder.path().join("waits.folded");
    let path = script.to_str().expect("a path");
    for luajit in luajits() {
        for mode in MODES {
            let (folded, printed, said) = record(&["--off-cpu"], &luajit, &[mode, path], &out);
            let numbers: Vec<f64> =
                printed.split_whitespace().filter_map(|number| number.parse().ok()).collect();
            let [slept, read] = numbers[..] else { panic!("{luajit:?}: {printed} {said}") };
            for (wanted, measured) in [
                (["waits.lua:5", "do_syscall_64"], slept),
                (["waits.lua:6", "do_syscall_64"], read),
            ] {
                let stacks = folded.stacks.iter().filter(|(stack, _)| has(stack, &wanted));
                let found: f64 = stacks.map(|(_, value)| value).sum();
                // The program's clock is that of the wall, with the time in which it runs or waits for a CPU outside of the call.
                let (least, most) = sharp((0.7, 1.01), (0.96, 1.01));
                assert!(
                    found > least * measured && found < most * measured,
                    "{luajit:?} {mode} {wanted:?}: {found} {measured} {said}"
                );
            }
        }
    }
}

/// An interpreter whose layout is not known has native frames, and one line says so: another encoding of an instruction is
/// another version, and so is one whose references have 32 bits.
#[test]
fn a_layout_that_is_not_known_is_said() {
    if !is_root("a_layout_that_is_not_known_is_said") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("shares.lua", folder.path());
    let out = folder.path().join("out.folded");
    let mut cases = Vec::new();
    if let Ok(mut bytes) = fs::read("/usr/bin/luajit") {
        // `add r14, 3968` as `sub r14, -3968`.
        let (add, sub) =
            ([0x49, 0x81, 0xc6, 0x80, 0x0f, 0, 0], [0x49, 0x81, 0xee, 0x80, 0xf0, 0xff, 0xff]);
        let places: Vec<usize> =
            (0..bytes.len() - 7).filter(|at| bytes[*at..at + 7] == add).collect();
        places.iter().for_each(|at| bytes[*at..at + 7].copy_from_slice(&sub));
        let other = folder.path().join("luajit");
        fs::write(&other, bytes).expect("a file");
        run(Command::new("chmod").arg("755").arg(&other));
        cases.push((other, "its layout is not known; native frames"));
    }
    let old = all_interpreters("luajit", "/usr/bin/luajit").into_iter();
    cases.extend(old.filter(|(name, _)| name == "luajit-2017").map(|(_, path)| {
        (path, "its references have 32 bits (built without GC64); native frames")
    }));
    for (luajit, reason) in cases {
        let path = script.to_str().expect("a path");
        let (folded, _, said) = record(&["-F", "199"], &luajit, &[path, "1"], &out);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(reason)).collect();
        assert_eq!(lines.len(), 1, "{luajit:?}: {said}");
        assert!(lines[0].contains("LuaJIT 2.1."), "{lines:?}");
        let lua = folded.share(|stack| stack.iter().any(|frame| frame.contains("shares.lua")));
        assert_eq!(lua, 0.0, "{luajit:?}");
    }
}

/// Compiled bytecode has no lines; LuaJIT in a process of Python has both languages, in order.
#[test]
fn stripped_bytecode_and_an_embedded_interpreter_are_shown() {
    if !is_root("stripped_bytecode_and_an_embedded_interpreter_are_shown") {
        return;
    }
    const LUA: &str = "function spin() local x = 0 for i = 1, 2e8 do x = x + i % 7 end return x end local x = spin()";
    const PYTHON: &str = "
import ctypes
lua = ctypes.CDLL('libluajit-5.1.so.2')
lua.luaL_newstate.restype = ctypes.c_void_p
state = ctypes.c_void_p(lua.luaL_newstate())
lua.luaL_openlibs(state)
def runs():
    assert lua.luaL_loadfile(state, b'spin.lua') == 0 and lua.lua_pcall(state, 0, 0, 0) == 0
runs()
";
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.folded");
    write(folder.path(), "spin.lua", LUA);
    let take = |program: &str, arguments: &[&str]| {
        let mut command = pyrograph();
        command
            .args(["record", "--engine", "ebpf", "-F", "499", "-o"])
            .arg(&out)
            .args(["--", program]);
        let output = run(command.args(arguments).current_dir(folder.path()));
        (Folded::read(&out), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if !Path::new("/usr/bin/luajit").exists() {
        eprintln!("skipped: there is no luajit");
        return;
    }
    run(Command::new("luajit").args(["-b", "spin.lua", "spin.luac"]).current_dir(folder.path()));
    let (folded, said) = take("luajit", &["spin.luac"]);
    let share = folded.share(|stack| has(stack, &["spin.luac:?", "spin.luac:?"]));
    assert!(share > 90.0, "{said} {:?}", folded.stacks);

    if !Path::new("/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2").exists() {
        eprintln!("skipped: there is no libluajit-5.1.so.2");
        return;
    }
    let (folded, said) = take("/usr/bin/python3", &["-c", PYTHON]);
    let wanted = ["<module>", "runs", "main chunk of spin.lua", "spin.lua:1"];
    let share = folded.share(|stack| has(stack, &wanted));
    assert!(share > 80.0, "{share} {said} {:?}", folded.stacks);
    check_said(&said);
}
