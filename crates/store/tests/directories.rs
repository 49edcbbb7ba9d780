//! Folders of segments: what is asked for is what a sum over all that was written has, also after a crash.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pyrograph_profile::{Profile, Sample, Thread, ValueType};
use pyrograph_store::{Directory, Range, Retention, StoreError, Wanted, Writing};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// 2026-11-22 12:00 UTC.
const NOON: u64 = 1_795_348_800 * SECOND;

const KEEP_ALL: Retention = Retention { age: u64::MAX, bytes: u64::MAX };

/// Samples of a minute, six steps of ten seconds: of two services.
fn minute(from: u64, seed: u64) -> Profile {
    let mut profile = Profile::new(vec![ValueType::new("cpu", "ns")]);
    profile.about.host = Some("web-3".to_owned());
    for step in 0..6 {
        for (service, leaf) in [("shop", "pay"), ("shop", "list"), ("mail", "send")] {
            let stack = profile.stack_of_names(["main", leaf]);
            let cgroup = profile.strings.intern(&format!("/system.slice/{service}.service"));
            let thread = Thread { pid: Some(7), cgroup, ..Thread::default() };
            let thread = profile.threads.intern(thread);
            let time = Some(from + step * 10 * SECOND);
            let value = 1 + (seed * 31 + step * 7 + leaf.len() as u64 * 3) % 1000;
            profile.push(Sample { thread, time, ..Sample::new(stack) }, &[value]);
        }
    }
    profile
}

/// Sums by the leaf's name.
fn sums(profile: Option<&Profile>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let Some(profile) = profile else { return sums };
    for (row, sample) in profile.samples.iter().enumerate() {
        let leaf = profile.stacks.leaf_first(sample.stack).next().expect("a frame");
        let name = profile.strings.get(profile.frames.get(leaf).function).to_owned();
        *sums.entry(name).or_default() += profile.samples.values(0)[row];
    }
    sums
}

/// The same of all minutes, by brute force.
fn expected(minutes: &[u64], range: Range, services: &[&str]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (seed, from) in minutes.iter().enumerate() {
        let profile = minute(*from, seed as u64);
        for (row, sample) in profile.samples.iter().enumerate() {
            let cgroup = profile.strings.get(profile.threads.get(sample.thread).cgroup);
            let is_wanted = services.iter().any(|service| cgroup.contains(service));
            let time = sample.time.expect("a time");
            if !is_wanted || time < range.from || time >= range.to {
                continue;
            }
            let leaf = profile.stacks.leaf_first(sample.stack).next().expect("a frame");
            let name = profile.strings.get(profile.frames.get(leaf).function).to_owned();
            *all.entry(name).or_default() += profile.samples.values(0)[row];
        }
    }
    all
}

fn write(store: &mut Writing, minutes: &[u64]) {
    for (seed, from) in minutes.iter().enumerate() {
        let range = Range { from: *from, to: from + MINUTE };
        store.put(&minute(*from, seed as u64), range).expect("it is written");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").flatten();
    let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".parquet")).collect();
    names.sort();
    names
}

#[test]
fn ranges_and_services_have_the_sums_of_their_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Writing::open(folder.path(), KEEP_ALL).expect("a store");
    // Two hours and a part of a third, so that there are merged segments and others; ten minutes are missing.
    let minutes: Vec<u64> = (0..135)
        .filter(|minute| !(40..50).contains(minute))
        .map(|minute| NOON + minute * MINUTE)
        .collect();
    write(&mut store, &minutes);
    assert_eq!(files(folder.path()).len(), 2 + 15, "{:?}", files(folder.path()));
    let directory = Directory::open(folder.path()).expect("a folder");
    let at = |minutes: u64, seconds: u64| NOON + minutes * MINUTE + seconds * SECOND;
    let all = &["shop", "mail"][..];
    for (from, to) in [
        (0, u64::MAX),
        (at(0, 0), at(60, 0)),
        (at(3, 20), at(3, 30)),
        (at(59, 50), at(60, 10)),
        (at(30, 0), at(130, 0)),
        (at(119, 0), at(121, 0)),
        (at(41, 0), at(49, 0)),
        (at(500, 0), at(501, 0)),
    ] {
        let elsewhere =
            Wanted { range: Range { from, to }, host: "db-*".to_owned(), ..Wanted::default() };
        let elsewhere = directory.query(&elsewhere).expect("an answer");
        assert_eq!(sums(elsewhere.profile.as_ref()), BTreeMap::new());
        for (service, services) in [("", all), ("shop", &["shop"]), ("m*l", &["mail"]), ("x*", &[])]
        {
            let range = Range { from, to };
            let wanted = Wanted { range, service: service.to_owned(), host: "web-?".to_owned() };
            let answer = directory.query(&wanted).expect("an answer");
            assert!(answer.damaged.is_empty(), "{:?}", answer.damaged);
            let expect = expected(&minutes, range, services);
            assert_eq!(sums(answer.profile.as_ref()), expect, "{from}..{to} {service}");
        }
    }
    // What is missing is known of merged segments, too.
    let answer = directory.query(&Wanted::default()).expect("an answer");
    assert_eq!((answer.segments, answer.gaps, answer.missing), (17, 1, 10 * MINUTE));
}

/// Whatever a crash leaves behind: what is half written, and what was merged and not removed.
#[test]
fn nothing_is_counted_twice_or_lost_after_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let minutes: Vec<u64> = (0..60).map(|minute| NOON + minute * MINUTE).collect();
    let mut store = Writing::open(folder.path(), KEEP_ALL).expect("a store");
    write(&mut store, &minutes[..59]);
    let before: Vec<(String, Vec<u8>)> = files(folder.path())
        .into_iter()
        .map(|name| (name.clone(), fs::read(folder.path().join(name)).expect("a segment")))
        .collect();
    let last = Range { from: minutes[59], to: minutes[59] + MINUTE };
    store.put(&minute(minutes[59], 59), last).expect("it is written");
    assert_eq!(files(folder.path()).len(), 1);
    let mut expect = expected(&minutes, Range::ALL, &["shop", "mail"]);
    let total = |store: &Writing| {
        let answer = store.directory().query(&Wanted::default()).expect("an answer");
        (sums(answer.profile.as_ref()), answer.damaged.len())
    };
    assert_eq!(total(&store), (expect.clone(), 0));
    // It crashed at each of the removals.
    for left in 0..before.len() {
        for (name, bytes) in &before[left..] {
            fs::write(folder.path().join(name), bytes).expect("it is written");
        }
        assert_eq!(total(&store), (expect.clone(), 0), "{left}");
    }
    drop(store);
    // It crashed while it wrote.
    fs::write(folder.path().join(".x.pyro.parquet.tmp"), "half").expect("it is written");
    let mut store = Writing::open(folder.path(), KEEP_ALL).expect("a store");
    assert!(!folder.path().join(".x.pyro.parquet.tmp").exists());
    assert_eq!(total(&store), (expect.clone(), 0));
    // Whoever writes next removes what was merged, and merges what was not.
    let next = NOON + 2 * HOUR;
    for (name, bytes) in &before[10..] {
        fs::write(folder.path().join(name), bytes).expect("it is written");
    }
    store.put(&minute(next, 3), Range { from: next, to: next + MINUTE }).expect("it is written");
    assert_eq!(files(folder.path()).len(), 2, "{:?}", files(folder.path()));
    for (name, sum) in sums(Some(&minute(next, 3))) {
        *expect.get_mut(&name).expect("a known name") += sum;
    }
    assert_eq!(total(&store), (expect, 0));
}

/// The clock was set back by an hour after that hour was merged: what comes then has the times of what is there.
#[test]
fn times_that_come_again_are_kept_beside_those_that_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Writing::open(folder.path(), KEEP_ALL).expect("a store");
    let minutes: Vec<u64> = (0..61).map(|minute| NOON + minute * MINUTE).collect();
    write(&mut store, &minutes);
    let before = store.directory().query(&Wanted::default()).expect("an answer");
    let mut expect = sums(before.profile.as_ref());
    // The same times, and other samples.
    for (seed, from) in (500u64..).zip(&minutes[..60]) {
        let again = minute(*from, seed);
        store.put(&again, Range { from: *from, to: from + MINUTE }).expect("it is written");
        for (name, sum) in sums(Some(&again)) {
            *expect.get_mut(&name).expect("a known name") += sum;
        }
    }
    let after = store.directory().query(&Wanted::default()).expect("an answer");
    assert_eq!(sums(after.profile.as_ref()), expect);
}

#[test]
fn damaged_segments_are_said_and_the_others_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Writing::open(folder.path(), KEEP_ALL).expect("a store");
    let minutes = [NOON, NOON + 2 * MINUTE, NOON + 3 * MINUTE];
    write(&mut store, &minutes);
    let damaged = folder.path().join(&files(folder.path())[1]);
    let mut bytes = fs::read(&damaged).expect("a segment");
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).expect("it is written");
    let answer = store.directory().query(&Wanted::default()).expect("an answer");
    assert_eq!((answer.segments, answer.gaps, answer.missing), (2, 1, 2 * MINUTE));
    assert_eq!(answer.damaged.len(), 1);
    assert!(answer.damaged[0].1.contains("damaged"), "{:?}", answer.damaged);
    let first = sums(Some(&minute(minutes[0], 0)));
    let third = sums(Some(&minute(minutes[2], 2)));
    let both = first.iter().map(|(name, sum)| (name.clone(), sum + third[name])).collect();
    assert_eq!(sums(answer.profile.as_ref()), both);
}

#[test]
fn what_is_too_old_or_too_much_goes_and_one_writes_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let minutes: Vec<u64> = (0..10).map(|minute| NOON + minute * MINUTE).collect();
    let of_age = Retention { age: 3 * MINUTE, bytes: u64::MAX };
    let mut store = Writing::open(folder.path(), of_age).expect("a store");
    assert!(matches!(Writing::open(folder.path(), of_age), Err(StoreError::Locked { .. })));
    write(&mut store, &minutes);
    // The last one, and those that ended three minutes before its end or later.
    assert_eq!(files(folder.path()).len(), 4);
    drop(store);
    let size = fs::metadata(folder.path().join(&files(folder.path())[0])).expect("a file").len();
    let of_bytes = Retention { age: u64::MAX, bytes: 2 * size + size / 2 };
    let mut store = Writing::open(folder.path(), of_bytes).expect("a store");
    write(&mut store, &[NOON + HOUR / 2]);
    let left = files(folder.path());
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[1].starts_with("20261122T1230"), "{left:?}");
}
