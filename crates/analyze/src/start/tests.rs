use pyrograph_profile::{Frame, LabelOptions, Sample, StackId, Tree, ValueType};

use super::*;
use crate::{FlameGraph, FlameOptions, flame};

/// Lines such as `_start%app main%app 3`: functions with their files, and a count. Functions of `.py` files are Python's.
fn profile(lines: &str) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for line in lines.lines() {
        let (path, count) = line.trim().rsplit_once(' ').expect("a count");
        let mut stack = StackId::ROOT;
        for frame in path.split_whitespace() {
            let (name, module) = frame.rsplit_once('%').unwrap_or((frame, ""));
            let kind = match module {
                _ if module.ends_with(".py") => FrameKind::Interpreted,
                "[kernel]" => FrameKind::Kernel,
                _ => FrameKind::User,
            };
            let function = profile.strings.intern(name);
            let module = profile.strings.intern(module);
            let frame = profile.frames.intern(Frame { module, ..Frame::named(function, kind) });
            stack = profile.stacks.intern(stack, frame);
        }
        profile.push(Sample::new(stack), &[count.parse().expect("a count")]);
    }
    profile
}

fn graph(lines: &str, fold_start: bool) -> FlameGraph {
    let profile = profile(lines);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let options = FlameOptions { fold_start, ..FlameOptions::default() };
    flame(&profile, &tree, &options).expect("samples")
}

/// The frames as `depth name start+value`, with `(+folded, own)` where rows are folded into one.
fn check(lines: &str, expect: &[&str]) {
    let graph = graph(lines, true);
    let frame = |of: &crate::FlameFrame| {
        let folded = match of.folded {
            0 => String::new(),
            more => format!(" (+{more}, own {})", of.own.unwrap_or_default()),
        };
        let name = graph.names.get(of.name);
        format!("{} {name} {}+{}{folded}", of.depth, of.start, of.value)
    };
    let frames: Vec<String> = graph.frames[1..].iter().map(frame).collect();
    assert_eq!(frames, expect, "{lines}");
}

#[test]
fn the_c_librarys_start_is_one_row_and_main_is_the_programs() {
    check(
        "_start%app __libc_start_main@@GLIBC_2.34%/lib/libc.so.6 libc.so.6+0x2724a%/lib/libc.so.6 main%app work%app 3
         _start%app __libc_start_main@@GLIBC_2.34%/lib/libc.so.6 exit%/lib/libc.so.6 1",
        &["1 _start 0+4 (+2, own 0)", "2 exit 0+1", "2 main 1+3", "3 work 1+3"],
    );
    check(
        "clone3%libc.so.6 start_thread%libc.so.6 work%app 3",
        &["1 clone3 0+3 (+1, own 0)", "2 work 0+3"],
    );
}

#[test]
fn rows_of_processes_stay_below_it() {
    check(
        "app _start%app __libc_start_main%libc.so.6 main%app 2",
        &["1 app 0+2", "2 _start 0+2 (+1, own 0)", "3 main 0+2"],
    );
}

#[test]
fn samples_within_the_start_are_its_own() {
    check(
        "_start%app __libc_start_main%libc.so.6 2
         _start%app __libc_start_main%libc.so.6 main%app 3
         _start%app 1",
        &["1 _start 0+6 (+1, own 3)", "2 main 3+3"],
    );
}

#[test]
fn what_rust_and_its_threads_begin_with_ends_at_their_marker() {
    check(
        "_start%app __libc_start_main%libc.so.6 main%app std::rt::lang_start%app \
         std::sys::backtrace::__rust_begin_short_backtrace%app core::ops::function::FnOnce::call_once%app app::main%app 5
         _start%app __libc_start_main%libc.so.6 main%app std::rt::cleanup%app 1",
        &["1 _start 0+6 (+5, own 0)", "2 std::rt::cleanup 0+1", "2 app::main 1+5"],
    );
    check(
        "clone3%libc.so.6 start_thread%libc.so.6 std::sys::thread::thread_start%app \
         std::sys::backtrace::__rust_begin_short_backtrace%app work%app std::fs::read%app 5",
        &["1 clone3 0+5 (+3, own 0)", "2 work 0+5", "3 std::fs::read 0+5"],
    );
}

#[test]
fn the_interpreters_calls_below_the_first_function_of_its_language_are_the_start() {
    check(
        "_start%/usr/bin/python3.11 __libc_start_main%libc.so.6 main%/usr/bin/python3.11 Py_RunMain%/usr/bin/python3.11 \
         <module>%a.py f%a.py 4
         _start%/usr/bin/python3.11 __libc_start_main%libc.so.6 main%/usr/bin/python3.11 Py_RunMain%/usr/bin/python3.11 \
         Py_Finalize%/usr/bin/python3.11 2",
        &["1 _start 0+6 (+3, own 0)", "2 <module> 0+4", "2 Py_Finalize 4+2", "3 f 0+4"],
    );
    // A program with an interpreter in it has functions of its own below.
    check(
        "_start%game main%game render%game lua_pcall%/lib/liblua5.4.so draw%a.py 1",
        &["1 _start 0+1", "2 main 0+1", "3 render 0+1", "4 lua_pcall 0+1", "5 draw 0+1"],
    );
}

#[test]
fn go_begins_with_its_runtime() {
    check(
        "runtime.goexit.abi0%app runtime.main%app main.main%app 1
         runtime.goexit.abi0%app main.worker%app 2",
        &["1 runtime.goexit.abi0 0+3 (+1, own 0)", "2 main.worker 0+2", "2 main.main 2+1"],
    );
}

#[test]
fn text_without_modules_has_no_start() {
    let all = ["1 _start 0+1", "2 __libc_start_main 0+1", "3 main 0+1"];
    check("_start __libc_start_main main 1", &all);
    // Nor is what has such a name further up.
    check(
        "main%app clone3%libc.so.6 start_thread%libc.so.6 1",
        &["1 main 0+1", "2 clone3 0+1", "3 start_thread 0+1"],
    );
}

/// As on the terminal, where names are short.
#[test]
fn short_names_are_known_by_the_full_ones() {
    let lines = "_start%app __libc_start_main%libc.so.6 main%app std::rt::lang_start%app \
                 std::sys::backtrace::__rust_begin_short_backtrace%app core::ops::function::FnOnce::call_once%app \
                 app::main%app app::work%app 5";
    let profile = profile(lines);
    let profile = crate::ShownNames::new(&profile, crate::AsOne::Tiers).rename(profile);
    let tree = Tree::new(&profile, &LabelOptions::default());
    let options = FlameOptions { fold_start: true, ..FlameOptions::default() };
    let graph = flame(&profile, &tree, &options).expect("samples");
    let names: Vec<&str> =
        graph.frames[1..].iter().map(|frame| graph.names.get(frame.name)).collect();
    assert_eq!(names, ["_start", "app::main", "app::work"]);
    assert_eq!(graph.frames[1].folded, 5);
}

#[test]
fn all_rows_are_drawn_unless_it_is_asked_for() {
    let lines = "_start%app __libc_start_main%libc.so.6 main%app 1";
    let graph = graph(lines, false);
    assert_eq!(graph.frames.len(), 4);
    assert!(graph.frames.iter().all(|frame| frame.folded == 0));
}
