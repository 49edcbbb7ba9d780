use pyrograph_profile::{Sample, StackId};

use super::*;

/// Samples as (tid, time, stack, value).
fn profile(unit: ValueType, samples: &[(i32, u64, &str, u64)]) -> Profile {
    let mut profile = Profile::new(vec![unit]);
    for &(tid, time, stack, value) in samples {
        let id = profile.stack_of_names(stack.split(';'));
        let name = profile.strings.intern("app");
        let thread = Thread { pid: Some(1), tid: Some(tid), name, ..Thread::default() };
        let thread = profile.threads.intern(thread);
        let sample = Sample { time: Some(time), thread, ..Sample::new(id) };
        profile.push(sample, &[value]);
    }
    profile
}

/// `row name start+width`, of all frames but the whole.
fn frames(profile: &Profile) -> Vec<String> {
    let chart = time_chart(profile, &LabelOptions::default(), &FlameOptions::default())
        .expect("samples have times");
    for frame in &chart.frames[1..] {
        let parent = chart.frames[frame.parent as usize];
        let is_thread = chart.threads.contains(&frame.depth);
        assert_eq!(parent.depth, if is_thread { 0 } else { frame.depth - 1 });
        assert!(parent.start <= frame.start);
        assert!(parent.start + parent.value >= frame.start + frame.value);
    }
    assert!(chart.frames.is_sorted_by_key(|frame| (frame.depth, frame.start)));
    chart.frames[1..]
        .iter()
        .map(|frame| {
            let name = chart.names.get(frame.name);
            format!("{} {name} {}+{}", frame.depth, frame.start, frame.value)
        })
        .collect()
}

fn sampled(samples: &[(i32, u64, &str)]) -> Profile {
    let samples: Vec<_> =
        samples.iter().map(|&(tid, time, stack)| (tid, time, stack, 10)).collect();
    profile(ValueType::new("cpu", "ns"), &samples)
}

#[test]
fn gaps_stay_gaps_though_stacks_are_equal() {
    let profile = sampled(&[(1, 100, "a;b"), (1, 111, "a;b"), (1, 200, "a;b"), (1, 210, "a;c")]);
    let expect =
        ["1 app-1/1 0+120", "2 a 0+21", "2 a 100+20", "3 b 0+21", "3 b 100+10", "3 c 110+10"];
    assert_eq!(frames(&profile), expect);
}

#[test]
fn each_thread_has_rows_of_its_own() {
    let profile = sampled(&[(2, 105, "x"), (1, 100, "a;b"), (2, 115, "y"), (1, 110, "a")]);
    let expect =
        ["1 app-1/1 0+20", "2 a 0+20", "3 b 0+10", "4 app-1/2 5+20", "5 x 5+10", "5 y 15+10"];
    assert_eq!(frames(&profile), expect);
}

#[test]
fn spans_of_traces_last_as_long_as_they_say() {
    let unit = ValueType::new("wall", "us");
    let samples = [(1, 0, "a", 3), (1, 5_000, "a", 1), (1, 6_000, "a", 9)];
    let expect = ["1 app-1/1 0+15000", "2 a 0+3000", "2 a 5000+10000"];
    assert_eq!(frames(&profile(unit, &samples)), expect);
}

#[test]
fn waits_end_at_their_sample() {
    let unit = ValueType::new("off-cpu", "us");
    let expect = ["1 app-1/1 0+9000", "2 a 0+3000", "2 b 8000+1000"];
    assert_eq!(frames(&profile(unit, &[(1, 3_000, "a", 3), (1, 9_000, "b", 1)])), expect);
}

#[test]
fn an_unknown_interval_comes_from_the_samples() {
    let samples =
        [(1, 0, "a", 7), (1, 10, "a", 9), (1, 20, "a", 8), (1, 30, "a", 7), (1, 99, "a", 7)];
    let expect = ["1 app-1/1 0+109", "2 a 0+40", "2 a 99+10"];
    assert_eq!(frames(&profile(ValueType::samples(), &samples)), expect);
}

#[test]
fn without_times_there_is_no_such_chart() {
    let mut profile = sampled(&[(1, 100, "a")]);
    profile.push(Sample::new(StackId::ROOT), &[1]);
    assert!(time_chart(&profile, &LabelOptions::default(), &FlameOptions::default()).is_none());
    let empty = sampled(&[]);
    assert!(time_chart(&empty, &LabelOptions::default(), &FlameOptions::default()).is_none());
}
