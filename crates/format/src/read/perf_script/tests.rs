//! Whole texts in, folded stacks out. Lines alone are tested beside their parsers, recordings in
//! `tests/fixtures.rs`.

use std::io::Cursor;

use proptest::prelude::*;
use pyrograph_profile::{LabelOptions, ProcessLabel, Profile, Tree, ValueType};

use super::*;
use crate::input::Input;
use crate::reader::{Count, Detail, ThreadDetail};
use crate::warnings::Warnings;
use crate::{read, write_folded};

fn folded(profile: &Profile, labels: &LabelOptions) -> String {
    let mut out = Vec::new();
    write_folded(&Tree::new(profile, labels), &mut out).expect("writing to memory");
    String::from_utf8(out).expect("folded text is UTF-8")
}

fn shown(warnings: &Warnings) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

fn fold(text: &[u8], options: &Options) -> (String, Vec<String>) {
    let input = Input::bytes("x", text).begin().expect("bytes in memory");
    let reading = PerfScript.read(input, options).expect("perf script text");
    (folded(&reading.profile, &LabelOptions::default()), shown(&reading.all_warnings()))
}

fn check(text: &str, expect: &str) {
    check_with(&Options::default(), text, expect, &[]);
}

fn check_warns(text: &str, expect: &str, warnings: &[&str]) {
    check_with(&Options::default(), text, expect, warnings);
}

fn check_with(options: &Options, text: &str, expect: &str, warnings: &[&str]) {
    let (folded, warned) = fold(text.as_bytes(), options);
    assert_eq!(folded, expect, "{text}");
    assert_eq!(warned, warnings, "{text}");
    if !text.contains('\r') {
        let (folded, warned) = fold(text.replace('\n', "\r\n").as_bytes(), options);
        assert_eq!(folded, expect, "with CR LF: {text}");
        assert_eq!(warned, warnings, "with CR LF: {text}");
    }
}

const FRAMES: &str = "\t    4a1 work+0x1 (/bin/app)\n\t    4b2 main (/bin/app)\n";

#[test]
fn a_sample_is_a_line_and_its_frames() {
    check(&format!("app 12 [000] 1.5: 250 cycles: \n{FRAMES}\n"), "app;main;work 250\n");
    check(&format!("app 12 [000] 1.5: cycles: \n{FRAMES}\n"), "app;main;work 1\n");
    let two = format!("app 12 1.5: 3 cycles: \n{FRAMES}\napp 13 1.6: 4 cycles: \n{FRAMES}\n");
    check(&two, "app;main;work 7\n");
}

#[test]
fn instructions_of_branches_became_frames() {
    // As perf 6.1 prints with `-F +brstackinsn`; newer ones also with `+brstackdisasm`.
    let code = "\twork:\n\t00007f0000001220\tinsn: 48 83 ec 08\n\
        \t00007f0000001224\tpush %rbp\t# PRED 4 cycles [4] 1.00 IPC\n\tmain+33:\n\
        \t000055aa00001111\tinsn: e8 0a 00 00 00 \t# MISPRED 12 cycles [16]\n";
    let text =
        format!("app 12 1.5: 3 cycles: \n{FRAMES}{code}\napp 12 1.5: 4 cycles: \n{FRAMES}{code}\n");
    check(&text, "app;main;work 7\n");
    // Without a callchain.
    check(&format!("app 12 1.5: 3 cycles: \n{code}\n"), "app 3\n");
}

#[test]
fn fields_after_the_frames_were_unreadable_lines() {
    // As perf 6.1 prints with `-F +iregs,+insn,+insnlen`.
    let fields =
        " ABI:2    SP:0x7ffce23976e0    IP:0x7fef2a4e769e \n ilen: 6\n insn: 81 fe bb 00 00 00\n";
    let text =
        format!("app 12 1.5: 3 cycles: \n{FRAMES}{fields}app 12 1.5: 4 cycles: \n{FRAMES}\n");
    check(&text, "app;main;work 7\n");
}

#[test]
fn the_last_sample_needs_no_blank_line() {
    check(&format!("app 12 1.5: cycles: \n{FRAMES}"), "app;main;work 1\n");
    check("app 12 1.5: cycles: \n\t 4a1 work (/bin/app)", "app;work 1\n");
    check("app 12 1.5: cycles: ", "app 1\n");
}

#[test]
fn samples_without_a_blank_line_between_are_apart() {
    let text = format!("app 12 1.5: cycles: \n{FRAMES}b 13 1.6: cycles: \n\t 1 f (/bin/b)\n");
    check(&text, "app;main;work 1\nb;f 1\n");
}

#[test]
fn names_of_processes() {
    let of = |who: &str| format!("{who} [000] 1.5: 2 cycles: \n{FRAMES}\n");
    check(&of("w 12"), "w;main;work 2\n");
    check(&of(":-1 -1"), ":-1;main;work 2\n");
    check(&of(":-1 -1/-1"), ":-1;main;work 2\n");
    check(&of("my app 12/13"), "my_app;main;work 2\n");
    check(&of("my app 2 12"), "my_app_2;main;work 2\n");
    check(&of("#app 12"), "#app;main;work 2\n");
    check(&of("C2 CompilerThre 12"), "C2_CompilerThre;main;work 2\n");
    check(&of("dd 12"), "dd;main;work 2\n");
}

#[test]
fn numbers_at_the_end_of_names_are_not_the_threads() {
    let of = |who: &str| format!("{who}  3456  2471.02:  1001001 cpu-clock:\n{FRAMES}\n");
    check(&of("worker 0"), "worker_0;main;work 1001001\n");
    check(&of("Thread 1"), "Thread_1;main;work 1001001\n");
    check(&of("my app 2"), "my_app_2;main;work 1001001\n");
    // Without thread numbers, which the other head shows.
    let of = |who: &str| format!("{who}  2471.020000: cpu-clock:\n{FRAMES}\n");
    let both = format!("{}{}", of("bash"), of("worker 0"));
    check(&both, "bash;main;work 1\nworker_0;main;work 1\n");
}

#[test]
fn samples_without_a_callchain_are_kept() {
    check("app 12 [000] 1.5: 250 cycles: \n\napp 12 [000] 1.5: 1 cycles: \n\n", "app 251\n");
    // Without callchains perf prints the one frame on the same line, and no blank lines.
    check(
        "     app 12 1.5: 5 cycles:  ffffffff821f2fa7 f+0xd7 ([kernel.kallsyms])\n\
         \x20    app 12 1.5: 6 cycles:      7f85346690ba g (/lib/my libc.so)\n\
         \x20    app 12 1.5: 7 cycles:      7f85346690ba [unknown] ([unknown])\n\
         \x20    app 12 1.5: 8 cycles: \n",
        "app 8\napp;[unknown] 7\napp;f 5\napp;g 6\n",
    );
    check(
        "     app 12 1.5: 5 faults:  7ff41c6cb110 [unknown] ([stack]) ffffffff8175336a f ([ext4])\n",
        "app;f 5\n",
    );
}

#[test]
fn tracepoints_with_arguments() {
    let event = "sched:sched_switch: prev_comm=a prev_pid=12 ==> next_comm=b (x) next_prio=0";
    check(&format!("app 12 [000] 1.5: {event}\n{FRAMES}\n"), "app;main;work 1\n");
    check(&format!("app 12 [000] 1.5: {event}\napp 12 [000] 1.5: {event}\n"), "app 2\n");
    check("app 12 1.5: probe:f: (55d0c0ffee00) x=1\n", "app 1\n");
}

#[test]
fn process_events_are_no_samples() {
    check(
        "app 12 [000] 0.0: PERF_RECORD_FORK(3:3):(2:2)\n\
         app 12 [000] 0.0: PERF_RECORD_COMM: app:12/12\n\
         app 12 [000] 0.0: PERF_RECORD_MMAP2 12/12: [0x1(0x2) @ 0 0:0 0 0]: r-xp /bin/app\n\
         app 12 [000] 1.5: 5 cycles: \n\t 1 main (/bin/app)\n\n",
        "app;main 5\n",
    );
}

#[test]
fn headers_of_the_file_are_remarks() {
    check(
        &format!(
            "# ========\n# captured on: Thu Jul  9 17:14:37 2015\n# nrcpus online : 4\n#\napp 12 1.5: cycles: \n{FRAMES}\n"
        ),
        "app;main;work 1\n",
    );
}

#[test]
fn fields_that_are_not_printed() {
    check(&format!("app cycles: \n{FRAMES}\n"), "app;main;work 1\n");
    check(&format!("my app \n{FRAMES}\n"), "my_app;main;work 1\n");
    check(&format!("app 12 \n{FRAMES}\n"), "app;main;work 1\n");
    check(&format!("12 1.5: cycles: \n{FRAMES}\n"), "main;work 1\n");
    check(&format!("\n{FRAMES}\n\n{FRAMES}\n"), "main;work 2\n");
    check("app 12 1.5: cycles: \n\t 4a1 work\n\t 4b2 main\n\n", "app;main;work 1\n");
    check("app 12 1.5: cycles: \n\t 4a1\n\t 4b2\n\n", "app;[unknown];[unknown] 1\n");
    check("app 12 cycles:\n4a1f work (/bin/app)\n4b2f main (/bin/app)\n\n", "app;main;work 1\n");
    check("     app cycles: \n     app cycles: \n", "app 2\n");
    check("1.5: cycles: \n\n", "[unknown] 1\n");
}

#[test]
fn functions_without_a_symbol() {
    let text = "app 12 1.5: cycles: \n\t ff01 [unknown] ([vdso])\n\t ff02 [unknown] (/bin/my app)\n\
                \t ff03 [unknown] ([unknown])\n\t ff04  (/lib/libc.so (deleted))\n\n";
    check(text, "app;[libc.so];[unknown];[my app];[vdso] 1\n");
    let options = Options { unknown_addresses: true, ..Options::default() };
    let expect = "app;[libc.so <ff04>];[unknown <ff03>];[my app <ff02>];[[vdso] <ff01>] 1\n";
    check_with(&options, text, expect, &[]);
}

#[test]
fn java_calls_that_were_inlined_are_frames() {
    let text = "java 12 1.5: cycles: \n\t ff01 La/B;::f->La/C;::g->La/D;::h (/tmp/perf-12.map)\n\
                \t ff02 std::unique_ptr<int>::operator->() (/bin/java)\n\n";
    check(text, "java;std::unique_ptr<int>::operator->;a/B:::f;a/C:::g;a/D:::h 1\n");
    let input = Input::bytes("x", text).begin().expect("bytes in memory");
    let reading = PerfScript.read(input, &Options::default()).expect("perf script text");
    let labels = LabelOptions { mark_jit: true, mark_inlined: true, ..LabelOptions::default() };
    assert_eq!(
        folded(&reading.profile, &labels),
        "java;std::unique_ptr<int>::operator->;a/B:::f_[j];a/C:::g_[i];a/D:::h_[i] 1\n"
    );
}

#[test]
fn processes_and_threads_are_told_apart_on_request() {
    let text = format!(
        "app 12/13 1.5: 1 cycles: \n{FRAMES}\napp 12/14 1.5: 2 cycles: \n{FRAMES}\n\
         app 15 1.5: 4 cycles: \n{FRAMES}\n"
    );
    let labelled = |threads, process| {
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let options = Options { threads, ..Options::default() };
        let reading = PerfScript.read(input, &options).expect("perf script text");
        folded(&reading.profile, &LabelOptions { process, ..LabelOptions::default() })
    };
    assert_eq!(labelled(ThreadDetail::Name, ProcessLabel::Name), "app;main;work 7\n");
    assert_eq!(
        labelled(ThreadDetail::Process, ProcessLabel::Pid),
        "app-12;main;work 3\napp-?;main;work 4\n"
    );
    assert_eq!(
        labelled(ThreadDetail::Thread, ProcessLabel::PidTid),
        "app-12/13;main;work 1\napp-12/14;main;work 2\napp-?/15;main;work 4\n"
    );
}

#[test]
fn the_first_event_is_counted_or_the_one_asked_for() {
    let text = format!(
        "app 12 1.5: 5 cycles:u: \n{FRAMES}\napp 12 1.5: 6 faults: \n{FRAMES}\n\
         app 12 1.5: 7 cycles:u: \n{FRAMES}\n"
    );
    check_warns(&text, "app;main;work 12\n", &["1 sample of event faults was not counted"]);
    let wanted = |event: &str| Options { event: Some(event.to_owned()), ..Options::default() };
    let not_counted = &["2 samples of event cycles:u were not counted"];
    check_with(&wanted("faults"), &text, "app;main;work 6\n", not_counted);
    let not_counted = &["1 sample of event faults was not counted"];
    check_with(&wanted("cycles"), &text, "app;main;work 12\n", not_counted);
    let error = read(vec![Input::bytes("x", text)], &wanted("cycle")).expect_err("no such event");
    assert_eq!(error.to_string(), "find event cycle; the input has cycles:u, faults");
}

#[test]
fn all_files_are_asked_for_the_event_of_the_first() {
    let of = |event: &str| format!("app 12 1.5: 5 {event}: \n{FRAMES}\n");
    let texts = [of("cycles"), of("faults") + &of("cycles"), of("faults")];
    let inputs = texts.map(|text| Input::bytes("x", text)).into();
    let (profile, warnings) = read(inputs, &Options::default()).expect("perf script text");
    assert_eq!(folded(&profile, &LabelOptions::default()), "app;main;work 10\n");
    let said = ["event cycles is counted", "2 samples of event faults were not counted"];
    assert_eq!(shown(&warnings), said);
}

#[test]
fn periods_or_samples_are_counted() {
    let text = format!("app 12 1.5: 250 cpu-clock: \n{FRAMES}\n").repeat(2);
    check(&text, "app;main;work 500\n");
    let options = Options { count: Count::Samples, ..Options::default() };
    check_with(&options, &text, "app;main;work 2\n", &[]);

    let of = |options: &Options| {
        let input = Input::bytes("x", text.as_bytes()).begin().expect("bytes in memory");
        let mut reading = PerfScript.read(input, options).expect("perf script text");
        reading.profile.value_types.remove(0)
    };
    let by_period = of(&Options::default());
    assert_eq!((by_period.name.as_str(), by_period.unit.as_str()), ("cpu-clock", "ns"));
    assert_eq!(of(&options).name, "samples");
}

#[test]
fn single_samples_keep_time_and_cpu() {
    let text = format!(
        "app 12 [001] 1.5: 1 cycles: \n{FRAMES}\napp 12 [000] 1.000000007: 2 cycles: \n{FRAMES}\n"
    );
    let input = Input::bytes("x", text).begin().expect("bytes in memory");
    let options = Options { detail: Detail::Samples, ..Options::default() };
    let profile = PerfScript.read(input, &options).expect("perf script text").profile;
    let samples: Vec<_> = profile.samples.iter().map(|sample| (sample.time, sample.cpu)).collect();
    assert_eq!(samples, [(Some(1_500_000_000), Some(1)), (Some(1_000_000_007), Some(0))]);
    assert_eq!(profile.samples.values(0), [1, 2]);
}

#[test]
fn single_samples_have_their_number_as_those_of_perf_data_have() {
    let columns = |head: &str, count| {
        let text = format!("app 12 1.5: {head} \n{FRAMES}\n");
        let input = Input::bytes("x", text).begin().expect("bytes in memory");
        let options = Options { detail: Detail::Samples, count, ..Options::default() };
        let profile = PerfScript.read(input, &options).expect("perf script text").profile;
        let column = |(at, of): (usize, &ValueType)| {
            (of.name.clone(), of.unit.clone(), profile.samples.values(at).to_vec())
        };
        profile.value_types.iter().enumerate().map(column).collect::<Vec<_>>()
    };
    let column = |name: &str, unit: &str, value| (name.to_owned(), unit.to_owned(), vec![value]);
    let samples = column("samples", "count", 1);
    let clock = column("cpu-clock", "ns", 1_001_001);
    // Once is enough.
    assert_eq!(columns("1001001 cpu-clock:", Count::Samples), std::slice::from_ref(&samples));
    assert_eq!(columns("cpu-clock:", Count::Period), std::slice::from_ref(&samples));
    assert_eq!(columns("1001001 cpu-clock:", Count::Period), [clock, samples]);
}

#[test]
fn what_cannot_be_read_is_counted_and_named() {
    check_warns(
        &format!("nonsense\nmore\n\n\napp 12 1.5: cycles: \n\tnot a frame\n{FRAMES}???\n\n"),
        "app;main;work 1\n",
        &[
            "1 sample was skipped: no readable first line (x:1)",
            "2 lines within samples were skipped: not a frame (x:6, x:9)",
        ],
    );
    // Seen before or not, in a block or not: each time it is counted.
    let block = "app 12 1.5: cycles: \n\t 1 f (/bin/x)\n\tnot a frame\n\n";
    check_warns(
        &block.repeat(5),
        "app;f 5\n",
        &["5 lines within samples were skipped: not a frame (x:3, x:7, x:11, \u{2026})"],
    );
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced_and_counted() {
    let block = b"a\xffp 12 1.5: cycles: \n\t 1 f\xfe (/bin/x)\n\t 2 main (/bin/x)\n\n";
    let (folded, warnings) = fold(&block.repeat(3), &Options::default());
    assert_eq!(folded, "a\u{fffd}p;main;f\u{fffd} 3\n");
    assert_eq!(
        warnings,
        ["6 lines had bytes that are not UTF-8, now replaced (x:1, x:2, x:5, \u{2026})"]
    );
}

#[test]
fn an_input_that_is_cut_short_is_read_as_far_as_it_goes() {
    let mut text = String::new();
    for n in 0..5000 {
        text.push_str(&format!("app 12 1.5: 1 cycles: \n\t {n:x} f{n} (/bin/app)\n\n"));
    }
    let whole = zstd::encode_all(text.as_bytes(), 1).expect("zstd");
    let input = Input::bytes("x.zst", &whole[..whole.len() - 1000]);
    let (profile, warnings) = read(vec![input], &Options::default()).expect("a first part");
    assert!(profile.samples.len() > 1000 && profile.samples.len() < 5000);
    assert!(warnings.any_loss());
    assert!(shown(&warnings)[0].starts_with("the input ends early"), "{warnings:?}");
}

/// Any text of lines such as perf prints, and others, in any order.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "app 12 [000] 1.5: 3 cycles: \n",
        "my app 12/13 1.6: 5 cycles: \n",
        "app 12 1.5: 2 faults: \n",
        "  app 12 1.5: 7 cycles:  ffffffff821f2fa7 k+0xd7 ([kernel.kallsyms])\n",
        "  app cycles: \n",
        "\t    4a1 work+0x1 (/bin/app)\n",
        "\t    4b2 main (/bin/app)\n",
        "\t    4b3 main (/bin/app)\n  main.c:7\n",
        "\t    4b4 La/B;::f->La/C;::g (/tmp/perf-1.map)\n",
        "4a1f old (/bin/app)\n",
        "\t    4b5 x\u{e9} (/bin/app)\n",
        "\tnonsense\n",
        "nonsense\n",
        "# remark\n",
        "\n",
        "\n",
        "\r\n",
        "app 0 [000] 0.0: PERF_RECORD_COMM: app:1/1\n",
    ]);
    prop::collection::vec(line, 0..60).prop_map(|lines| lines.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn neither_pieces_nor_threads_make_a_difference(
        text in any_text(),
        size in 1usize..300,
        workers in 1usize..5,
        samples in any::<bool>(),
    ) {
        let detail = if samples { Detail::Samples } else { Detail::Totals };
        let options = Options { detail, ..Options::default() };
        let whole = Chunks::new(Box::new(Cursor::new(text.clone())), last_cut);
        let whole = read_chunks(whole, Layout::default(), 1, "x", &options);
        let pieces = Chunks::with_size(Box::new(Cursor::new(text)), last_cut, size);
        let pieces = read_chunks(pieces, Layout::default(), workers, "x", &options);
        prop_assert_eq!(shown(&pieces.all_warnings()), shown(&whole.all_warnings()));
        prop_assert_eq!(pieces.event, whole.event);
        // Not only what is folded: every table.
        prop_assert_eq!(
            pieces.profile.strings.iter().collect::<Vec<_>>(),
            whole.profile.strings.iter().collect::<Vec<_>>()
        );
        prop_assert_eq!(
            pieces.profile.frames.iter().collect::<Vec<_>>(),
            whole.profile.frames.iter().collect::<Vec<_>>()
        );
        prop_assert_eq!(
            pieces.profile.samples.iter().collect::<Vec<_>>(),
            whole.profile.samples.iter().collect::<Vec<_>>()
        );
        prop_assert_eq!(pieces.profile.samples.values(0), whole.profile.samples.values(0));
    }

    #[test]
    fn no_bytes_make_it_panic(text in prop::collection::vec(
        prop::sample::select(b"\t\n\r ():[]/0a1f.,;->+x#\xff".to_vec()), 0..200)
    ) {
        fold(&text, &Options::default());
    }
}
