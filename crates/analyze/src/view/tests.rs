use pyrograph_profile::{Frame, StringId, ThreadId, ValueType};

use super::*;

fn profile(samples: &[(&str, Option<u64>, u64)]) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for (stack, time, value) in samples {
        let stack = profile.stack_of_names(stack.split(';'));
        profile.push(Sample { time: *time, ..Sample::new(stack) }, &[*value]);
    }
    profile
}

/// Each stack as text, the empty one first.
fn paths(data: &ViewData<'_>) -> Vec<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut paths = vec![String::new()];
    for stack in &data.stacks {
        path.truncate(stack.depth as usize - 1);
        path.push(&data.texts[data.frames[stack.frame as usize].label as usize]);
        paths.push(path.join(";"));
    }
    paths
}

#[test]
fn stacks_are_in_preorder_and_sorted_by_name() {
    let mut profile = profile(&[("main;b;x", None, 1), ("main;a", None, 2), ("b", None, 3)]);
    profile.stack_of_names(["nobody", "was", "here"]);
    let data = view_data(&profile, 10, ViewNames::Short);
    assert_eq!(paths(&data), ["", "b", "main", "main;a", "main;b", "main;b;x"]);
    assert_eq!(data.texts, ["", "a", "b", "main", "x"]);
    let samples: Vec<_> =
        data.samples.iter().map(|of| of.stack).zip(data.values[0].clone()).collect();
    assert_eq!(samples, [(1, 3), (3, 2), (5, 1)]);
}

#[test]
fn times_are_those_since_the_first_sample_of_each_host() {
    let mut profile = profile(&[("a", Some(70), 1), ("b", Some(50), 2), ("c", None, 3)]);
    let host = profile.strings.intern("other");
    let thread = profile.threads.intern(Thread { host, ..Thread::default() });
    let stack = profile.stack_of_names(["d"]);
    profile.push(Sample { thread, time: Some(1010), ..Sample::new(stack) }, &[4]);
    profile.push(Sample { thread, time: Some(1000), ..Sample::new(stack) }, &[5]);
    let data = view_data(&profile, 10, ViewNames::Short);
    let times: Vec<_> = data.samples.iter().map(|of| of.time).zip(data.values[0].clone()).collect();
    assert_eq!(times, [(None, 3), (Some(0), 2), (Some(0), 5), (Some(10), 4), (Some(20), 1)]);
    let host = data.texts.iter().position(|text| text == "other").expect("a text") as u32;
    assert_eq!(data.starts, BTreeMap::from([(0, 50), (host, 1000)]));
    assert_eq!(data.step, None);
}

#[test]
fn very_many_samples_are_added_up_in_steps() {
    let at = |ms: u64| Some(7 + ms * 1_000_000);
    let profile = profile(&[("a", at(0), 1), ("a", at(9), 2), ("b", at(9), 4), ("a", at(10), 8)]);
    assert_eq!(view_data(&profile, 4, ViewNames::Short).samples.len(), 4);
    let data = view_data(&profile, 3, ViewNames::Short);
    let paths = paths(&data);
    let samples: Vec<_> = data
        .samples
        .iter()
        .zip(&data.values[0])
        .map(|(of, &value)| (of.time, paths[of.stack as usize].as_str(), value))
        .collect();
    assert_eq!(samples, [(Some(0), "a", 3), (Some(0), "b", 4), (Some(VIEW_STEP), "a", 8)]);
    assert_eq!(data.step, Some(VIEW_STEP));
}

#[test]
fn frames_without_a_symbol_have_a_label() {
    let mut profile = profile(&[]);
    let module = profile.strings.intern("/lib/libc.so");
    let frame = Frame { module, address: 16, ..Frame::named(StringId::EMPTY, FrameKind::User) };
    let frame = profile.frames.intern(frame);
    let stack = profile.stacks.intern(StackId::ROOT, frame);
    profile.push(Sample { thread: ThreadId::UNKNOWN, ..Sample::new(stack) }, &[1]);
    let data = view_data(&profile, 10, ViewNames::Short);
    let text = |text: u32| data.texts[text as usize].as_str();
    let ViewFrame { label, function, module, .. } = data.frames[0];
    assert_eq!((text(label), text(function), text(module)), ("libc.so+0x10", "", "/lib/libc.so"));
}

#[test]
fn functions_have_short_names_and_tiers_are_one() {
    let check = |names: &[&str], expect: &[(&str, &str, Option<Tier>)]| {
        let stacks: Vec<_> = names.iter().map(|name| (*name, None, 1)).collect();
        let profile = profile(&stacks);
        let data = view_data(&profile, 10, ViewNames::Short);
        let text = |id: u32| data.texts[id as usize].as_str();
        let found = data.frames.iter().map(|of| (text(of.label), text(of.name), of.tier));
        assert_eq!(found.collect::<Vec<_>>(), expect);
        let data = view_data(&profile, 10, ViewNames::AsTheyAre);
        assert!(data.frames.iter().all(|of| of.label == of.name && of.full == of.name));
    };
    check(
        &["JS:~parse /srv/a.js:3:1", "JS:*parse /srv/a.js:3:1", "java.util.List.add"],
        &[
            ("List.add", "java.util.List.add", None),
            ("parse", "JS:*parse /srv/a.js:3:1", Some(Tier::Optimized)),
            ("parse", "JS:~parse /srv/a.js:3:1", Some(Tier::Interpreted)),
        ],
    );
    // Those of the kernel are others; what is inlined is not.
    check(
        &["memcpy", "memcpy_[k]", "memcpy_[i]", "[unknown]"],
        &[
            ("[unknown]", "[unknown]", None),
            ("memcpy", "memcpy", None),
            ("memcpy", "memcpy_[i]", None),
            ("memcpy_[k]", "memcpy_[k]", None),
        ],
    );
}
