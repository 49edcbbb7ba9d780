use super::*;
use crate::input::Input;
use crate::write_folded;
use pyrograph_profile::{LabelOptions, Tree};

fn check(text: &str, expect: &str, warnings: &[&str]) {
    assert!(Dtrace.detect(text.as_bytes()), "{text}");
    let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
    let reading = Dtrace.read(input, &Options::default()).expect("text");
    let labels = LabelOptions { mark_kernel: true, mark_inlined: true, ..Default::default() };
    let mut out = Vec::new();
    write_folded(&Tree::new(&reading.profile, &labels), &mut out).expect("to memory");
    assert_eq!(String::from_utf8_lossy(&out), expect, "{text}");
    let said: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said, warnings);
}

#[test]
fn keys_before_and_after_the_stacks_are_the_process() {
    check(
        "\n  my app          12\n\n  sh                \n              libc.so.1`read+0xa\n              sh`main+0x1\n                3\n\n  sh                \n              libc.so.1`read+0xa\n              sh`main+0x2\n                4\n",
        "sh;sh`main;libc.so.1`read 7\n",
        &["a count of a key alone was left out: no stacks with one value each are in it (x:2)"],
    );
    check(
        "\n              sh`main+0x1\n  my  app                                                  5\n",
        "my app;sh`main 5\n",
        &[],
    );
}

#[test]
fn distributions_and_negative_sums_are_left_out() {
    check(
        "\n              a`g+0x1\n                2\n\n              a`f+0x1\n           value  ------------- Distribution ------------- count    \n               1 |                                         0        \n               2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 3        \n\n              a`f+0x1\n                1\n\n              a`f\n               -5\n",
        "a`f 1\na`g 2\n",
        &[
            "1 line was skipped: the count is out of range (x:14)",
            "a distribution was left out: no stacks with one value each are in it (x:11)",
        ],
    );
}

#[test]
fn lines_before_the_first_stack_are_no_part_of_it() {
    check(
        "Sampling... Hit Ctrl-C to end.\n\n              a`f+0x1\n                2\n",
        "a`f 2\n",
        &["lines that are of no stack were left out (x:1)"],
    );
    // Output behind a probe is not the process, and a number in it no count.
    check(
        "CPU     ID                    FUNCTION:NAME\n  0  64091      :tick-60s   hello\n  1  64091      :tick-60s   42\n\n              a`f+0x1\n                2\n",
        "a`f 2\n",
        &["lines that are of no stack were left out (x:2, x:3)"],
    );
    // A stack of the action `stack()` is no part of the one below.
    check(
        "CPU     ID                    FUNCTION:NAME\n  0  1234      read:entry\n              unix`g+0x1\n\n  0  1235      :tick-1s\n\n              a`f+0x1\n                2\n",
        "a`f 2\n",
        &["1 line without a count was skipped (x:5)"],
    );
    // The second names the process.
    check(
        "  a title\n  sh\n              a`f+0x1\n                2\n",
        "sh;a`f 2\n",
        &["lines that are of no stack were left out (x:2)"],
    );
}

#[test]
fn counts_without_a_stack_are_not_lost_in_silence() {
    check(
        "\n                5\n\n              a`f+0x1\n                2\n\n  sh\n\n                3\n\n                5\n",
        "[unknown] 10\na`f 2\nsh 3\n",
        &["counts without a stack are shown as [unknown] (x:2, x:9, x:11)"],
    );
}

#[test]
fn drops_are_lost_samples() {
    check(
        "dtrace: 12 drops on CPU 0\n              a`f+0x1\n                2\ndtrace: 3 aggregation drops on CPU 1\ndtrace: 9 dynamic variable drops\n",
        "a`f 2\n",
        &["15 samples were lost while recording (x:1, x:4, …)"],
    );
}

#[test]
fn java_and_what_it_inlined() {
    check(
        "              Lorg/x/A;.f->Lorg/x/B;.g+0x12\n              java/lang/Thread.run+0x11\n              libjvm.so`JavaThread::run()+0x2\n              0x7fffbf\n                9\n",
        "[unknown];libjvm.so`JavaThread::run;java/lang/Thread.run;org/x/A:.f;org/x/B:.g_[i] 9\n",
        &[],
    );
}

#[test]
fn pieces_are_cut_after_counts_only() {
    let text = b"  a`f\n   12\n\n   b`g\n  13\n   c`h\n";
    assert_eq!(last_cut(text).map(|at| &text[at..]), Some(&b"   c`h\n"[..]));
    assert_eq!(last_cut(b"  a`f\n"), None);
}
