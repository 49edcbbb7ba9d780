//! What is in a page is read back as it was, whatever it is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRng;
use pyrograph_analyze::{ViewNames, view_data};
use pyrograph_format::{Detail, Input, Options, ThreadDetail, read};
use pyrograph_profile::{
    About, Address, AddressId, Frame, FrameKind, Marker, Profile, Sample, StackId, Thread,
    ThreadId, ValueType,
};
use pyrograph_render::{ViewLook, view_html};

const TEXTS: [&str; 9] =
    ["", "main", "a::b", "naïve", "𝛼𝛽", "</script>", "\u{feff}x", "a\nb\0c", "/bin/app"];

/// Few different values, and now and then a very large one.
fn number(rng: &mut TestRng) -> u64 {
    match rng.random_range(0..10) {
        0 => u64::MAX - 1 - u64::from(rng.random::<u8>()),
        1 => rng.random(),
        _ => rng.random_range(0..300),
    }
}

fn optional<T>(rng: &mut TestRng, some: impl FnOnce(&mut TestRng) -> T) -> Option<T> {
    rng.random_bool(0.6).then(|| some(rng))
}

fn frame(rng: &mut TestRng, profile: &mut Profile) -> Frame {
    let mut text =
        |rng: &mut TestRng| profile.strings.intern(TEXTS[rng.random_range(0..TEXTS.len())]);
    let (function, module, file) = (text(rng), text(rng), text(rng));
    let kinds = [FrameKind::User, FrameKind::Kernel, FrameKind::Inlined, FrameKind::Jit];
    let kind = match rng.random_range(0..6) {
        4 => FrameKind::Interpreted,
        5 => FrameKind::Marker(Marker::ALL[rng.random_range(0..Marker::ALL.len())]),
        other => kinds[other],
    };
    if let FrameKind::Marker(marker) = kind {
        return Frame::named(profile.strings.intern(marker.label()), kind);
    }
    Frame {
        function,
        module,
        file,
        line: rng.random_range(0..3),
        start_line: rng.random_range(0..3),
        address: number(rng),
        kind,
        guessed: rng.random(),
    }
}

fn thread(rng: &mut TestRng, profile: &mut Profile) -> ThreadId {
    let mut text =
        |rng: &mut TestRng| profile.strings.intern(TEXTS[rng.random_range(0..TEXTS.len())]);
    let [process, name, host, cgroup, command_line] = [(); 5].map(|()| text(rng));
    let pid = optional(rng, |rng| [-1, 0, 7, i32::MAX, i32::MIN][rng.random_range(0..5)]);
    let tid = optional(rng, |rng| rng.random());
    profile.threads.intern(Thread {
        pid,
        tid,
        process,
        name,
        host,
        cgroup,
        command_line,
        ..Thread::default()
    })
}

fn address(rng: &mut TestRng, profile: &mut Profile) -> AddressId {
    let mut text =
        |rng: &mut TestRng| profile.strings.intern(TEXTS[rng.random_range(0..TEXTS.len())]);
    let (module, build_id, function) = (text(rng), text(rng), text(rng));
    let offset = number(rng);
    profile.addresses.intern(Address { module, build_id, function, offset })
}

fn profile(rng: &mut TestRng) -> Profile {
    let columns = rng.random_range(1..4);
    let types = (0..columns).map(|of| ValueType {
        decimals: of as u8,
        ..ValueType::new(TEXTS[rng.random_range(0..TEXTS.len())], "count")
    });
    let mut profile = Profile::new(types.collect());
    profile.shown = rng.random_range(0..columns);
    profile.rooted = rng.random();
    profile.unfiltered = if rng.random() { vec![number(rng); columns] } else { Vec::new() };
    profile.about = About {
        start: optional(rng, number),
        duration: optional(rng, number),
        period: optional(rng, |rng| (ValueType::new("cpu", "ns"), number(rng))),
        host: optional(rng, |_| "h</script>".to_owned()),
        lost: number(rng),
        sums: rng.random(),
        command: optional(rng, |_| "./app </script>".to_owned()),
        comments: vec!["a remark".to_owned(); rng.random_range(0..3)],
    };
    let (has_times, has_cpus) = (rng.random_bool(0.6), rng.random::<bool>());
    let (has_threads, has_addresses) = (rng.random_bool(0.7), rng.random());
    for _ in 0..rng.random_range(0..40) {
        let mut stack = StackId::ROOT;
        for _ in 0..rng.random_range(0..6) {
            let frame = frame(rng, &mut profile);
            let frame = profile.frames.intern(frame);
            stack = profile.stacks.intern(stack, frame);
        }
        let thread = if has_threads { thread(rng, &mut profile) } else { ThreadId::UNKNOWN };
        let time = optional(rng, number).filter(|_| has_times);
        let cpu = optional(rng, |rng| rng.random_range(0..300)).filter(|_| has_cpus);
        let values: Vec<u64> = (0..columns).map(|_| number(rng)).collect();
        let address = optional(rng, |rng| address(rng, &mut profile)).filter(|_| has_addresses);
        profile.push(Sample { stack, thread, cpu, time, address }, &values);
    }
    profile
}

/// All that a profile says, whatever its tables' numbers are.
fn said(profile: &Profile) -> String {
    let text = |id| profile.strings.get(id);
    let mut samples: BTreeMap<String, u32> = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let frames: Vec<_> = profile
            .stacks
            .leaf_first(sample.stack)
            .map(|id| {
                let Frame { function, module, file, line, start_line, address, kind, guessed } =
                    profile.frames.get(id);
                let texts = (text(function), text(module), text(file));
                (texts, line, start_line, address, kind, guessed)
            })
            .collect();
        let thread = profile.threads.get(sample.thread);
        let thread = (thread.pid, thread.tid, thread.texts().map(text));
        let values: Vec<u64> =
            (0..profile.samples.columns()).map(|of| profile.samples.values(of)[row]).collect();
        let address = sample.address.map(|address| {
            let Address { module, build_id, function, offset } = profile.addresses.get(address);
            (text(module), text(build_id), text(function), offset)
        });
        let place = (sample.cpu, sample.time, address);
        let key = format!("{frames:?} {thread:?} {place:?} {values:?}");
        *samples.entry(key).or_insert(0) += 1;
    }
    let whole = (&profile.value_types, profile.shown, profile.rooted, &profile.unfiltered);
    format!("{whole:?} {:?} {samples:#?}", profile.about)
}

#[test]
fn a_page_is_read_back_as_it_was() {
    let options = Options {
        detail: Detail::Samples,
        threads: ThreadDetail::Thread,
        instructions: true,
        ..Options::default()
    };
    proptest!(|(mut rng in any::<u64>().prop_perturb(|_, rng| rng))| {
        let profile = profile(&mut rng);
        prop_assert_eq!(profile.check(), Ok(()));
        let mut page = Vec::new();
        let look = ViewLook { title: "</title>".to_owned(), ..ViewLook::default() };
        view_html(&view_data(&profile, usize::MAX, ViewNames::Short), &look, &mut page).expect("memory");
        let (again, warnings) = read(vec![Input::bytes("x.html", page)], &options).expect("a page");
        prop_assert!(warnings.is_empty(), "{:?}", warnings);
        prop_assert_eq!(said(&again), said(&profile));
    });
}

#[test]
fn a_damaged_page_is_an_error_and_no_panic() {
    let options = Options::default();
    proptest!(|(mut rng in any::<u64>().prop_perturb(|_, rng| rng))| {
        let profile = profile(&mut rng);
        let mut page = Vec::new();
        view_html(&view_data(&profile, usize::MAX, ViewNames::Short), &ViewLook::default(), &mut page).expect("memory");
        let start = page.windows(22).position(|at| at == b"id=\"pyrograph-profile\"").expect("it");
        for _ in 0..3 {
            let at = rng.random_range(start..page.len());
            page[at] = rng.random();
        }
        // Damage in the script changes nothing.
        if let Ok((again, _)) = read(vec![Input::bytes("x.html", page)], &options) {
            prop_assert_eq!(again.check(), Ok(()));
        }
    });
}
