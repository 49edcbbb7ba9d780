use super::*;
use crate::stacks::FunctionCode;
use pyrograph_language::Native;
use pyrograph_profile::{FrameKind, StringId};

const INTERPRETER: ModuleId = ModuleId(7);
const SWITCHES: ModuleId = ModuleId(9);

/// Functions of an interpreter's file: its loop (`L`), one that is shown (`S`), one that is not (`.`), `main` (`m`).
fn functions() -> Native {
    let one = |start| std::iter::once(start..start + 100).collect();
    Native::from_ranges(one(100), one(200), one(300))
}

/// Native frames by letters, leaf first: those of [`functions`], code that was made at run time (`J`), and others of another
/// file (`x`, `y`, `z`); of one that switches stacks (`g`).
fn native(text: &str) -> Vec<RawFrame> {
    let own = |address| RawFrame::new(INTERPRETER, address);
    let frame = |letter| match letter {
        'L' => own(150),
        'S' => own(250),
        'm' => own(350),
        '.' => own(50),
        'J' => RawFrame::new(ModuleId(ModuleId::JIT), 'J' as u64),
        'g' => RawFrame::new(SWITCHES, 'g' as u64),
        other => RawFrame::new(ModuleId(8), other as u64),
    };
    text.chars().map(frame).collect()
}

/// Calls by letters, leaf first; `|` ends a segment, `3|` in native frame 3; `3E` is an eval that is left to native frame 3.
fn calls(text: &str) -> Vec<RawCall> {
    let mut calls = vec![RawCall::Interpreter(INTERPRETER)];
    let mut native = None;
    for letter in text.chars() {
        match letter {
            '|' => calls.push(RawCall::End(native.take())),
            'M' => calls.push(RawCall::Main(RawFrame::function(
                StringId('M' as u32),
                FunctionCode::Interpreted,
            ))),
            '~' => calls.push(RawCall::Truncated(RawFrame::label(StringId('~' as u32), false))),
            digit if digit.is_ascii_digit() => native = digit.to_digit(10),
            'E' => {
                let catch = native.take().expect("a frame");
                calls.push(RawCall::Eval(
                    RawFrame::function(StringId('E' as u32), FunctionCode::Interpreted),
                    catch,
                ));
            }
            letter => calls.push(RawCall::Frame(RawFrame::function(
                StringId(letter as u32),
                FunctionCode::Interpreted,
            ))),
        }
    }
    calls
}

fn check(frames: &str, of: &str, whole: bool, expected: &str, paired: bool) {
    check_with(&functions(), frames, of, whole, (expected, paired));
}

/// The same, where each call has a native frame of its own.
fn check_each(frames: &str, of: &str, expected: &str, paired: bool) {
    check_with(&functions().with_made_code(), frames, of, true, (expected, paired));
}

fn check_with(functions: &Native, frames: &str, of: &str, whole: bool, expected: (&str, bool)) {
    let files = FilesOfCode {
        interpreter: &|module| (module == INTERPRETER).then_some(functions),
        switches_stacks: &|module| module == SWITCHES,
    };
    let spliced = splice(&native(frames), &calls(of), whole, &files);
    let letter = |frame: &RawFrame| match frame.as_label() {
        Some((text, _)) => char::from_u32(text.0).expect("a letter"),
        None if frame.module != INTERPRETER => {
            char::from_u32(frame.address as u32).expect("a letter")
        }
        None => match frame.address {
            150 => 'L',
            250 => 'S',
            350 => 'm',
            _ => '.',
        },
    };
    let found: String = spliced.frames.iter().map(letter).collect();
    assert_eq!((found.as_str(), spliced.paired), expected, "{frames} and {of}");
}

#[test]
fn segments_take_the_places_of_loops() {
    check("LmX", "a|", true, "amX", true);
    check("x.L..m", "ab|", true, "x.abm", true);
    // Between segments, glue and what has no name is hidden; other files and named functions are not.
    check("L.SyL.m", "a|bc|", true, "aSybcm", true);
    // Outside of all segments the interpreter's own frames are, down to `main`.
    check("L.S.mz", "a|", true, "amz", true);
}

#[test]
fn one_more_or_less_at_the_leaf_is_a_call_that_begins_or_ends() {
    check("LL.m", "a|", true, "am", true);
    check("L.m", "|a|", true, "am", true);
    check("L.L.m", "a||b|", true, "abm", true);
}

/// What has called is about to enter the loop: the frame is there, the function's native frame is not.
#[test]
fn a_call_that_begins_has_the_place_of_the_leaf() {
    check(".SL.L.m", "a|b|c|", true, "aSbcm", true);
    check("S.L.m", "ab|c|", true, "abcm", true);
    // In code of another file nothing is known; neither of a stack that is not whole.
    check("x.L.m", "a|b|", true, "x.bm", false);
    check(".L.", "a|b|", false, ".a", false);
}

#[test]
fn a_program_that_is_compiled_does_not_run_yet() {
    check("L.L.m", "a|b|M|", true, "abm", true);
    check("L.m", "ab|M|", true, "abm", true);
    check("L.L.m", "a|bM|", true, "abMm", true);
    check("..m", "M|", true, "..m", true);
    // With calls of its own, it runs.
    check("Lm", "a|bM|", true, "bMm", false);
}

#[test]
fn other_differences_are_counted() {
    check("LLLm", "a|", true, "am", false);
    check("Lm", "a|b|c|", true, "cm", false);
    // What is not whole is paired from the leaf.
    check("L.L", "a|b|c|", false, "ab", false);
    check("..", "a|", true, "..", false);
}

#[test]
fn functions_of_a_stack_that_was_switched_to_are_at_the_leaf() {
    check("xL.LggLLm", "a|b|", true, "xabgg", true);
    check("LggLm", "a|", true, "agg", true);
    // One that just begins.
    check("LL.gL.gLm", "a|", true, "ag", true);
    // In the switch itself, and where only the stack of the thread itself is.
    check("gLgLm", "a|", true, "gag", true);
    check("gL.Lm", "a|b|", true, "gabm", true);
    // What is outside may be anything: that leads nowhere.
    check("L.ggx", "a|", false, "agg", true);
}

#[test]
fn stacks_that_were_switched_to_were_not_whole() {
    let functions = functions();
    let files = FilesOfCode {
        interpreter: &|module| (module == INTERPRETER).then_some(&functions),
        switches_stacks: &|module| module == SWITCHES,
    };
    let began = |frames: &str| splice(&native(frames), &calls("a|"), false, &files).began;
    assert!(began("L.ggx") && began("L.g") && began("LggLm"));
    assert!(!began("gL.m") && !began("L.x"));
}

#[test]
fn where_calls_are_missing_the_others_are_at_both_ends() {
    check("LLLLLm", "a|b|~c|d|", true, "ab~cdm", true);
    check("LLLLLm", "ab~cd|", true, "ab~cdm", true);
    check("xL.L.Lm", "a|~b|", true, "xa~bm", true);
}

#[test]
fn a_place_that_is_known_is_taken() {
    check("L.L.m", "a0|b2|", true, "abm", true);
    check("LL.L.m", "a1|b3|", true, "abm", true);
    // It is in no loop: pairs are by order.
    check("L.Lm", "a1|b9|", true, "abm", true);
}

#[test]
fn an_eval_may_have_a_run_of_the_loop_for_itself() {
    check("L.SL.m", "a1Eb|", true, "aESbm", true);
    check("L.SL.m", "a1Eb4Ec|", true, "aESbEcm", true);
    check("L.SL.SL.m", "a1Eb4Ec|", true, "aESbEScm", true);
    // It shares that of its caller.
    check("LL.m", "a2Eb|", true, "aEbm", true);
    check("L.SL.m", "a|b4Ec|", true, "aSbEcm", true);
    check("L.m", "a2Eb|", true, "aEbm", true);
    // No loop is below the frame that it is left to.
    check(".L.Lm", "a0Eb|", true, "..aEbm", true);
}

#[test]
fn calls_with_frames_of_their_own_take_the_places_of_these() {
    check_each("JLJ.m", "a0|b1|c2|", "abcm", true);
    // Builtins between them are shown if they are no glue; outside, all but `main` is hidden.
    check_each("xJS.L.S.mz", "a1|b4|", "xaSbmz", true);
    // Inside of the innermost call nothing is hidden.
    check_each("S.LJm", "a2|b3|", "S.abm", true);
    // A leaf that runs in its caller's frame stays, if it is more than glue.
    check_each("SJm", "a0|b1|", "Sabm", true);
    check_each(".Jm", "a0|b1|", "abm", true);
    // Compiled code that is no function stays: it is a regular expression, or of WebAssembly.
    check_each("JJLm", "a1|b2|", "Jabm", true);
}

/// A call is compiled where its native frame is code that was made at run time, unless the interpreter may be such code, too.
#[test]
fn calls_in_code_made_at_run_time_are_compiled() {
    let kinds = |functions: Native, frames: &str| -> Vec<_> {
        let files = FilesOfCode { interpreter: &|_| Some(&functions), switches_stacks: &|_| false };
        let spliced = splice(&native(frames), &calls("a0|b1|c2|"), true, &files);
        spliced.frames.iter().map(|frame| frame.as_label().map(|label| label.1)).collect()
    };
    let (jit, interpreted) = (Some(FrameKind::Jit), Some(FrameKind::Interpreted));
    assert_eq!(kinds(functions().with_made_code(), "JLJm"), [jit, interpreted, jit, None]);
    let without_loop = Native::default().with_made_code();
    assert_eq!(kinds(without_loop, "JJJ"), [interpreted; 3]);
}

#[test]
fn calls_and_frames_that_do_not_belong_together_are_counted() {
    // An interpreted function is not known: its frame stays. The innermost one may just begin.
    check_each("JLLm", "a0|b2|", "aLbm", false);
    check_each("LJm", "a1|", "Lam", true);
    // Frames of another file, and none.
    check_each("Jxm", "a0|b1|", "axm", false);
    check_each("Jm", "a0|b9|", "am", false);
    check_each("Jm", "a|", "Jm", false);
}

/// Compiled code that goes on in the frame of the loop.
#[test]
fn traces_take_the_place_of_loops() {
    let check = |frames, of, expected, paired| {
        check_with(&functions().with_traces(), frames, of, true, (expected, paired));
    };
    check("J.m", "ab0|", "abm", true);
    check("xJ.L.m", "ab1|c3|", "xabcm", true);
    // A run that has called nothing of the language.
    check("J.L.m", "a0|2|", "am", true);
    // Code that is no trace of this interpreter stays.
    check("JxL.m", "a2|", "Jxam", true);
    check("L.JL.m", "a0|b3|", "aJbm", true);
}

#[test]
fn without_calls_stacks_are_what_they_are() {
    let plain = native("x.L.m");
    let functions = functions();
    let check = |calls: &[RawCall], interpreter| {
        let interpreter = &|_| interpreter;
        let files = FilesOfCode { interpreter, switches_stacks: &|_| false };
        assert_eq!(splice(&plain, calls, true, &files).frames, plain);
    };
    check(&[], Some(&functions));
    // An interpreter that is not known.
    check(&calls("a|"), None);
}
