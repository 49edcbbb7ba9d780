//! Each filter over folded text.

use proptest::prelude::*;
use pyrograph_profile::{Frame, Sample, Thread, ValueType};

use super::*;
use crate::folded::folded;

/// One stack a line, as `fold` reads it. A word `[pid/tid/cpu/time/host]` before the stack says who
/// ran it where and when; then its first frame is the process, and no frame. `f@m` is a function in
/// a module.
fn profile(text: &str) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (stack, value) = line.rsplit_once(' ').expect("a count");
        let who = stack.strip_prefix('[').and_then(|stack| stack.split_once("] "));
        let mut frames: Vec<&str> = who.map_or(stack, |(_, stack)| stack).split(';').collect();
        let mut sample = Sample::default();
        if let Some((who, _)) = who {
            let mut words = who.split('/');
            let mut word = || words.next().filter(|word| !word.is_empty());
            let mut number = || word().map(|word| word.parse::<u32>().expect("a number"));
            let (pid, tid) = (number().map(|n| n as i32), number().map(|n| n as i32));
            (sample.cpu, sample.time) = (number(), number().map(u64::from));
            let host = profile.strings.intern(word().unwrap_or_default());
            let process = profile.strings.intern(frames.remove(0));
            let thread = Thread { pid, tid, process, host, ..Thread::default() };
            sample.thread = profile.threads.intern(thread);
        }
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| {
                let (name, module) = frame.split_once('@').unwrap_or((frame, ""));
                let function = profile.strings.intern(name);
                let module = profile.strings.intern(module);
                profile.frames.intern(Frame { function, module, ..Frame::default() })
            })
            .collect();
        sample.stack = profile.stacks.intern_path(frames);
        profile.push(sample, &[value.parse().expect("a count")]);
    }
    profile
}

fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| text.parse().expect("a regular expression")).collect()
}

#[track_caller]
fn check(text: &str, filter: &Filter, expect: &[&str]) {
    let left = filter.apply(profile(text)).expect("something is left");
    assert_eq!(folded(&left), expect);
    // Nothing is kept that no sample needs: views would count it.
    let mut needed = vec![false; left.stacks.len()];
    needed[0] = true;
    for sample in left.samples.iter() {
        let mut at = sample.stack;
        while let Some((parent, _)) = left.stacks.get(at) {
            needed[at.index()] = true;
            at = parent;
        }
    }
    assert!(needed.iter().all(|&needed| needed), "stacks that no sample has");
}

#[track_caller]
fn refused(text: &str, filter: &Filter, expect: &str) {
    let error = filter.apply(profile(text)).expect_err("nothing is left");
    assert_eq!(error.to_string(), expect);
}

const STACKS: &str = "
    app;main;read;copy@libc 1
    app;main;parse;read 2
    app;main;idle 4
    [unknown] 8";

#[test]
fn focus_keeps_stacks_with_a_frame_that_matches() {
    let focus = |list| Filter { focus: patterns(list), ..Filter::default() };
    let expect = ["app;main;parse;read 2", "app;main;read;copy 1"];
    check(STACKS, &focus(&["^read$"]), &expect);
    check(STACKS, &focus(&["read", "pars"]), &["app;main;parse;read 2"]);
    check(STACKS, &focus(&["parse|copy"]), &expect);
    check(STACKS, &focus(&["module:^libc"]), &["app;main;read;copy 1"]);
    check(STACKS, &focus(&["^\\[unknown\\]$"]), &["[unknown] 8"]);
    refused(
        STACKS,
        &focus(&["libc"]),
        "the filters leave nothing: no stack has a frame like 'libc'",
    );
    let one_not = focus(&["read", "nowhere"]);
    refused(STACKS, &one_not, "the filters leave nothing: no stack has a frame like 'nowhere'");
}

#[test]
fn ignore_leaves_out_stacks_with_a_frame_that_matches() {
    let ignore = |list| Filter { ignore: patterns(list), ..Filter::default() };
    check(STACKS, &ignore(&["read", "unknown"]), &["app;main;idle 4"]);
    let nothing = "the filters leave nothing: no stack is without a frame like 'app' or 'n'";
    refused(STACKS, &ignore(&["app", "n"]), nothing);
}

#[test]
fn the_process_is_a_frame_of_its_stacks() {
    let text = "[1//] app;main 1\n[2//] job;main 2\n";
    let filter = Filter { focus: patterns(&["^app$"]), ..Filter::default() };
    check(text, &filter, &["app;main 1"]);
    let filter = Filter { ignore: patterns(&["^app$"]), ..Filter::default() };
    check(text, &filter, &["job;main 2"]);
    let filter = Filter { hide: patterns(&["^app$"]), ..Filter::default() };
    check(text, &filter, &["job;main 2", "main 1"]);
    let filter = Filter { from_frame: patterns(&["^app$"]), ..Filter::default() };
    check(text, &filter, &["app;main 1"]);
}

#[test]
fn hidden_frames_leave_their_time_to_their_callers() {
    let filter = Filter { hide: patterns(&["^(read|main)$"]), ..Filter::default() };
    check(STACKS, &filter, &["[unknown] 8", "app;copy 1", "app;idle 4", "app;parse 2"]);
    let filter = Filter { hide: patterns(&["module:libc"]), ..Filter::default() };
    let expect = ["[unknown] 8", "app;main;idle 4", "app;main;parse;read 2", "app;main;read 1"];
    check(STACKS, &filter, &expect);
    let filter = Filter { hide: patterns(&["."]), ..Filter::default() };
    check(STACKS, &filter, &[" 15"]);
}

#[test]
fn stacks_begin_at_a_frame() {
    let from = |list| Filter { from_frame: patterns(list), ..Filter::default() };
    check("a;f;b;f;c 1\nf 2\nb 4\n", &from(&["^f$"]), &["f 2", "f;b;f;c 1"]);
    check("[1//] app;x;f;c 1\n[2//] job;f;c 2\n", &from(&["^f$"]), &["f;c 3"]);
    refused(
        "a 1\n",
        &from(&["f", "g"]),
        "the filters leave nothing: no stack has a frame like 'f' or 'g'",
    );
}

#[test]
fn callers_are_skipped_and_the_process_stays() {
    let skip = |list| Filter { skip_after: patterns(list), ..Filter::default() };
    check("a;f;b;f;c 1\nf 2\nb 4\n", &skip(&["^f$"]), &["b 4", "f 2", "f;c 1"]);
    check("a;f;b;g;c 1\n", &skip(&["^f$", "^g$"]), &["g;c 1"]);
    check("[1//] app;x;f;c 1\n[2//] job;f;c 2\n", &skip(&["^f$"]), &["app;f;c 1", "job;f;c 2"]);
}

#[test]
fn recursion_goes_back_to_the_first_frame() {
    let filter = Filter { fold_recursion: true, ..Filter::default() };
    check("a;f;f;f;c 1\na;f 2\n", &filter, &["a;f 2", "a;f;c 1"]);
    // Through another function, too, wherever the stack ends.
    check("a;f;g;f;g;f;c 1\na;f;g;f;g 2\na;g;f 4\n", &filter, &["a;f;c 1", "a;f;g 2", "a;g;f 4"]);
    let filter = Filter { hide: patterns(&["^b$"]), ..filter };
    check("a;f;b;f;c 1\n", &filter, &["a;f;c 1"]);
}

#[test]
fn packages_are_shortened_but_matched_whole() {
    let filter =
        Filter { focus: patterns(&["^java\\.util"]), shorten_packages: true, ..Filter::default() };
    let text = "java;java.util.List.get 1\njava;main 2\n";
    check(text, &filter, &["java;j.u.List.get 1"]);
}

const RUN: &str = "
    [1/1/0/100] app;main 1
    [1/2/1/200] app;main 2
    [2/3/1/300] job;main 4
    [3/4//] job 2;main 8";

#[test]
fn who_ran_where_and_when() {
    check(RUN, &Filter { pids: vec![1], ..Filter::default() }, &["app;main 3"]);
    check(RUN, &Filter { pids: vec![1, 2], ..Filter::default() }, &["app;main 3", "job;main 4"]);
    check(RUN, &Filter { tids: vec![2], ..Filter::default() }, &["app;main 2"]);
    let comms = vec!["app".to_owned(), "job_2".to_owned()];
    check(RUN, &Filter { comms, ..Filter::default() }, &["app;main 3", "job 2;main 8"]);
    check(RUN, &Filter { cpus: vec![1..=3], ..Filter::default() }, &["app;main 2", "job;main 4"]);
    let error = "the filters leave nothing: no sample is of process 7 or 8";
    refused(RUN, &Filter { pids: vec![7, 8], ..Filter::default() }, error);
    let error = "the filters leave nothing: no sample is on CPU 5-6";
    refused(RUN, &Filter { cpus: vec![5..=6], ..Filter::default() }, error);
}

#[test]
fn times() {
    let time = |from, to| Filter { time: Some(TimeRange { from, to }), ..Filter::default() };
    let since = |ns| Some(Moment::SinceStart(ns));
    check(RUN, &time(since(0), since(100)), &["app;main 1"]);
    check(RUN, &time(since(100), None), &["app;main 2", "job;main 4"]);
    check(RUN, &time(None, Some(Moment::Clock(201))), &["app;main 3"]);
    let error = "the filters leave nothing: no sample is of that time";
    refused(RUN, &time(since(201), None), error);
    // Each machine has a clock of its own.
    let hosts = "[1/1//100/a] app 1\n[1/1//200/a] app 2\n[1/1//9000/b] app 4\n";
    check(hosts, &time(None, since(50)), &["app 5"]);
}

#[test]
fn what_the_input_does_not_tell_cannot_be_asked() {
    let refuses = |filter: Filter, expect| refused(STACKS, &filter, expect);
    let none = Filter::default;
    let missing = "filter by pid: the input does not record process numbers";
    refuses(Filter { pids: vec![1], ..none() }, missing);
    let missing = "filter by tid: the input does not record thread numbers";
    refuses(Filter { tids: vec![1], ..none() }, missing);
    let missing = "filter by comm: the input does not record process names apart from frames; \
                   focus on the frame of that name instead";
    refuses(Filter { comms: vec!["app".to_owned()], ..none() }, missing);
    let missing = "filter by cpu: the input does not record CPUs";
    refuses(Filter { cpus: vec![0..=0], ..none() }, missing);
    let missing = "filter by time: the input does not record times";
    refuses(Filter { time: Some(TimeRange::default()), ..none() }, missing);
    let missing = "group by host: the input does not record hosts";
    refuses(Filter { by: vec![Level::Host], ..none() }, missing);
    let missing = "group by cgroup: the input does not record control groups";
    refuses(Filter { by: vec![Level::Cgroup], ..none() }, missing);
    let missing = "group by cmdline: the input does not record command lines";
    refuses(Filter { by: vec![Level::CommandLine], ..none() }, missing);
    let missing = "group by cpu: the input does not record CPUs";
    refuses(Filter { by: vec![Level::Cpu], ..none() }, missing);
}

#[test]
fn levels_stand_before_the_stacks() {
    let by = |levels: &[Level]| Filter { by: levels.to_vec(), ..Filter::default() };
    let text = "[1/1/0//a] app;main 1\n[1/2/1//b] app;main 2\n[//] app;main 4\n";
    let expect = ["app-1;main 3", "app-?;main 4"];
    check(text, &by(&[Level::Process]), &expect);
    let expect = ["app-1/1;main 1", "app-1/2;main 2", "app-?/?;main 4"];
    check(text, &by(&[Level::Thread]), &expect);
    let expect = ["CPU 0;app;main 1", "CPU 1;app;main 2", "CPU ?;app;main 4"];
    check(text, &by(&[Level::Cpu]), &expect);
    let expect = ["[unknown];app;main 4", "a;app;main 1", "b;app;main 2"];
    check(text, &by(&[Level::Host]), &expect);
    let expect = ["[unknown];app-?;CPU ?;main 4", "a;app-1;CPU 0;main 1", "b;app-1;CPU 1;main 2"];
    check(text, &by(&[Level::Host, Level::Process, Level::Cpu]), &expect);
    // Levels are no frames: nothing takes them away.
    let filter = Filter { from_frame: patterns(&["main"]), ..by(&[Level::Process]) };
    check(text, &filter, &["app-1;main 3", "app-?;main 4"]);
    // Where a level stands in for the process, stacks still begin at it.
    let filter = Filter { from_frame: patterns(&["^app$"]), ..by(&[Level::Process]) };
    check(text, &filter, &["app-1;main 3", "app-?;main 4"]);
}

#[test]
fn events_become_a_level_and_one_column() {
    let mut two = profile("app;main 1\napp;idle 2\n");
    two.value_types.push(ValueType::samples());
    two.value_types[1].name = "faults".to_owned();
    let mut samples = pyrograph_profile::Samples::new(2);
    for (row, values) in [[1, 0], [2, 7]].iter().enumerate() {
        samples.push(two.samples.get(row), values);
    }
    two.samples = samples;
    let by = Filter { by: vec![Level::Event], ..Filter::default() };
    let focused = Filter { focus: patterns(&["idle"]), ..by.clone() };
    let left = focused.apply(two.clone()).expect("something is left");
    assert_eq!(folded(&left), ["faults;app;idle 7", "samples;app;idle 2"]);
    assert_eq!(left.whole(0), 10);
    two.value_types[1].unit = "bytes".to_owned();
    let error = by.apply(two).expect_err("two units");
    let expect = "group by event: the input does not record several events of one unit";
    assert_eq!(error.to_string(), expect);
}

#[test]
fn percentages_stay_those_of_the_whole() {
    let filter = Filter { focus: patterns(&["parse"]), ..Filter::default() };
    let left = filter.apply(profile(STACKS)).expect("something is left");
    assert_eq!((left.samples.total(0), left.whole(0)), (2, 15));
    // Also if it is filtered again, and added to another.
    let mut again = filter.apply(left.clone()).expect("something is left");
    assert_eq!(again.whole(0), 15);
    again.merge(&profile(STACKS)).expect("the same value type");
    assert_eq!((again.samples.total(0), again.whole(0)), (17, 30));
    let left = Filter { rescale: true, ..filter }.apply(profile(STACKS)).expect("something");
    assert_eq!(left.whole(0), 2);
}

fn stacks() -> impl Strategy<Value = String> {
    let line = (prop::collection::vec("[a-d]", 1..6), 1u64..100);
    prop::collection::vec(line, 1..12).prop_map(|lines| {
        lines.iter().map(|(path, value)| format!("{} {value}\n", path.join(";"))).collect()
    })
}

proptest! {
    #[test]
    fn focus_and_ignore_part_the_whole(text in stacks(), wanted in "[a-e]|[ab]") {
        let whole = profile(&text);
        let total = whole.samples.total(0);
        let left = |filter: Filter| filter.apply(whole.clone()).map_or(0, |left| left.samples.total(0));
        let focus = left(Filter { focus: patterns(&[&wanted]), ..Filter::default() });
        let ignore = left(Filter { ignore: patterns(&[&wanted]), ..Filter::default() });
        prop_assert_eq!(focus + ignore, total);
    }

    #[test]
    fn changing_stacks_keeps_the_total(text in stacks(), wanted in "[a-e]|[ab]") {
        let whole = profile(&text);
        let list = || patterns(&[&wanted]);
        for filter in [
            Filter { hide: list(), ..Filter::default() },
            Filter { skip_after: list(), ..Filter::default() },
            Filter { fold_recursion: true, ..Filter::default() },
        ] {
            let left = filter.apply(whole.clone()).expect("all is left");
            prop_assert_eq!(left.samples.total(0), whole.samples.total(0));
            let hidden = folded(&left).join(";");
            prop_assert!(filter.hide.is_empty() || !wanted_frames(&hidden, &wanted));
        }
    }

    #[test]
    fn no_function_is_twice_on_a_stack_without_recursion(text in stacks()) {
        let filter = Filter { fold_recursion: true, ..Filter::default() };
        let mut expect = std::collections::BTreeMap::new();
        for line in folded(&profile(&text)) {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let mut path: Vec<&str> = Vec::new();
            for frame in stack.split(';') {
                match path.iter().position(|known| *known == frame) {
                    Some(first) => path.truncate(first + 1),
                    None => path.push(frame),
                }
            }
            *expect.entry(path.join(";")).or_insert(0) += count.parse::<u64>().expect("a number");
        }
        let left = folded(&filter.apply(profile(&text)).expect("all is left"));
        let mut expect: Vec<String> =
            expect.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect();
        expect.sort();
        let mut left = left;
        left.sort();
        prop_assert_eq!(left, expect);
    }

    #[test]
    fn a_filter_that_was_applied_changes_nothing_more(text in stacks(), wanted in "[a-e]|[ab]") {
        for filter in [
            Filter { focus: patterns(&[&wanted]), ..Filter::default() },
            Filter { hide: patterns(&[&wanted]), ..Filter::default() },
            Filter { skip_after: patterns(&[&wanted]), ..Filter::default() },
            Filter { from_frame: patterns(&[&wanted]), ..Filter::default() },
            Filter { fold_recursion: true, ..Filter::default() },
        ] {
            let Ok(once) = filter.apply(profile(&text)) else { continue };
            let twice = filter.apply(once.clone()).expect("as much as before");
            prop_assert_eq!(folded(&once), folded(&twice));
        }
    }
}

/// True if a frame of `lines` is one of the letters of `wanted`.
fn wanted_frames(lines: &str, wanted: &str) -> bool {
    let regex = Regex::new(wanted).expect("a regular expression");
    let frames = lines.split(';').map(|frame| frame.split(' ').next().unwrap_or_default());
    frames.into_iter().any(|frame| regex.is_match(frame))
}
