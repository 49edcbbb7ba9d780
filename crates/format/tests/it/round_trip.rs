//! Round trips: written profiles are read again as the same, as far as the format has room.
//!
//! Any profile, cut down to what a format [`Capabilities`], comes back whole: whatever is lost beyond that
//! is a fault of the writer, of the reader, or of what the writer says of itself.

use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;
use pyrograph_format::{
    Capabilities, Detail, Input, Options, Reader, ThreadDetail, WRITERS, WarningKind, Warnings,
    WriteOptions, Writer, detect, not_held, reader_named, write_folded,
};
use pyrograph_profile::{
    About, Address, Frame, FrameKind, LabelOptions, Labels, Marker, Profile, Sample, StackId,
    StringId, Thread, Tree, ValueType,
};

/// A call, and those that were inlined into it.
#[derive(Clone, Debug)]
struct Call {
    function: String,
    module: usize,
    line: u32,
    /// Without a name: where it is in its module.
    address: u64,
    inlined: Vec<(String, u32)>,
}

/// Modules, and what sort of code they hold.
const MODULES: &[(&str, FrameKind)] = &[
    ("", FrameKind::User),
    ("/usr/bin/app", FrameKind::User),
    ("/usr/lib/lib x.so", FrameKind::User),
    ("[kernel.kallsyms]", FrameKind::Kernel),
    ("/tmp/perf-12.map", FrameKind::Jit),
    ("/src/script.py", FrameKind::Interpreted),
    ("/src/remarks", FrameKind::Marker(Marker::Remark)),
    ("", FrameKind::Kernel),
    ("", FrameKind::Jit),
    ("", FrameKind::Interpreted),
    ("", FrameKind::Marker(Marker::Remark)),
];

#[derive(Clone, Debug)]
struct Row {
    stack: Vec<Call>,
    thread: (Option<i32>, Option<i32>, String, String, String),
    cpu: Option<u32>,
    time: Option<u64>,
    values: [u64; 2],
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "main",
        "a::b<c>",
        "operator()(int)",
        "f 2",
        "größe",
        "\"quoted\\\"",
        "x->y",
        "<script>",
        "fn",
        "(anonymous)",
        "a&b",
    ])
    .prop_map(str::to_owned)
}

fn call() -> impl Strategy<Value = Call> {
    let function = prop_oneof![4 => name(), 1 => Just(String::new())];
    let inlined = prop::collection::vec((name(), 1u32..200), 0..3);
    (function, 0..MODULES.len(), 1u32..200, 1u64..0x1_0000_0000, inlined).prop_map(
        |(function, module, line, address, inlined)| {
            // Nothing is inlined into what is not known.
            let inlined = if function.is_empty() { Vec::new() } else { inlined };
            Call { function, module, line, address, inlined }
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let thread = (
        prop::option::of(1..4i32),
        prop::option::of(1..4i32),
        prop::sample::select(vec!["", "app", "the app"]).prop_map(str::to_owned),
        prop::sample::select(vec!["", "worker", "wörker 2"]).prop_map(str::to_owned),
        prop::sample::select(vec!["", "host1"]).prop_map(str::to_owned),
    );
    let stack = prop::collection::vec(call(), 1..6);
    let values = (1..1_000_000u64, 1..1_000_000u64).prop_map(|(a, b)| [a, b]);
    (stack, thread, prop::option::of(0..4u32), (0..1u64 << 50).prop_map(Some), values)
        .prop_map(|(stack, thread, cpu, time, values)| Row { stack, thread, cpu, time, values })
}

fn any_profile() -> impl Strategy<Value = (Vec<Row>, u8, u8)> {
    let rows =
        (prop::collection::vec(row(), 1..12), any::<bool>()).prop_map(|(mut rows, times)| {
            // All samples have a time, or none.
            rows.iter_mut().for_each(|row| row.time = row.time.filter(|_| times));
            rows
        });
    (rows, 1u8..=2, 0u8..3)
}

/// The profile of these rows, cut down to what `room` has room for.
fn profile(rows: &[Row], columns: usize, decimals: u8, room: Capabilities) -> Profile {
    let columns = if room.columns { columns } else { 1 };
    let types = [ValueType::new("cpu", "ns"), ValueType::new("alloc", "bytes")];
    let mut profile = Profile::new(types[..columns].to_vec());
    if room.decimals {
        profile.value_types[columns - 1].decimals = decimals;
        profile.value_types[columns - 1].unit = "count".to_owned();
    }
    profile.shown = columns - 1;
    if room.start {
        profile.about.start = Some(1_700_000_000_000_000_000);
    }
    if room.comments {
        profile.about = About {
            duration: Some(5_000_000_000),
            period: Some((ValueType::new("cpu", "ns"), 1_000_000)),
            command: Some("./app --x".to_owned()),
            host: Some("web-3".to_owned()),
            lost: 17,
            comments: vec!["a remark".to_owned()],
            ..profile.about
        };
    }
    for row in rows {
        let stack = stack(&mut profile, &row.stack, room);
        let (pid, tid, process, name, host) = &row.thread;
        let mut text = |text: &str| profile.strings.intern(text);
        let mut thread = Thread::default();
        if room.thread_names {
            thread.process = text(process);
            thread.name = text(name);
        }
        if room.thread_ids {
            (thread.pid, thread.tid) = (*pid, *tid);
        } else if room.thread_names {
            // Of names without numbers, there is one.
            let both = format!("{process} {name}");
            (thread.process, thread.name) = (text(both.trim()), text(""));
        }
        if room.hosts {
            thread.host = text(host);
            thread.cgroup = text(if *pid == Some(1) { "/a.slice/b" } else { "" });
            thread.command_line = text(if *pid == Some(1) { "a 'b c'" } else { "" });
        }
        let thread = profile.threads.intern(thread);
        let cpu = row.cpu.filter(|_| room.cpus);
        let time = row.time.filter(|_| room.times);
        profile.push(Sample { thread, cpu, time, ..Sample::new(stack) }, &row.values[..columns]);
    }
    profile
}

fn stack(profile: &mut Profile, calls: &[Call], room: Capabilities) -> StackId {
    let mut stack = StackId::ROOT;
    for call in calls {
        let (module, kind) = MODULES[call.module];
        let is_bare = module.is_empty();
        // A frame without a name is called by its module.
        let module = if room.modules { module } else { "" };
        let kind = match kind {
            _ if is_bare && room.bare_kinds => kind,
            FrameKind::Kernel if room.kernel => kind,
            FrameKind::Jit if room.modules && !is_bare || room.kinds => kind,
            _ if room.kinds => kind,
            _ => FrameKind::User,
        };
        let mut function = call.function.clone();
        if function.is_empty() && !(room.modules && room.addresses) {
            function = "[unknown]".to_owned();
        }
        let mut frame = Frame {
            function: profile.strings.intern(&function),
            module: profile.strings.intern(module),
            kind,
            ..Frame::default()
        };
        if room.files && !function.is_empty() {
            frame.file = profile.strings.intern("/src/a b.c");
        }
        if room.lines && !function.is_empty() {
            frame.line = call.line;
        }
        if room.start_lines {
            frame.start_line = start_line(&call.function);
        }
        if room.addresses {
            frame.address = call.address;
        }
        let id = profile.frames.intern(frame);
        stack = profile.stacks.intern(stack, id);
        for (function, line) in &call.inlined {
            let kind = if room.inlined { FrameKind::Inlined } else { kind };
            let line = if room.lines { *line } else { 0 };
            let start_line = if room.start_lines { start_line(function) } else { 0 };
            let function = profile.strings.intern(function);
            let id = profile.frames.intern(Frame { function, line, start_line, kind, ..frame });
            stack = profile.stacks.intern(stack, id);
        }
    }
    stack
}

/// Where a function begins; that of some is not known.
fn start_line(function: &str) -> u32 {
    function.bytes().map(u32::from).sum::<u32>() % 5
}

/// Everything in a profile, in words, whatever the order of its tables and columns.
fn sums(profile: &Profile) -> BTreeMap<String, Vec<u64>> {
    let mut order: Vec<usize> = (0..profile.value_types.len()).collect();
    order.sort_by_key(|&column| &profile.value_types[column].name);
    let text = |id| profile.strings.get(id);
    let frame = |frame: Frame| {
        format!(
            "{}:{}|{}|{}:{}|{:x}|{:?}",
            text(frame.function),
            frame.start_line,
            text(frame.module),
            text(frame.file),
            frame.line,
            frame.address,
            frame.kind
        )
    };
    let mut sums = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let mut path: Vec<String> = profile
            .stacks
            .leaf_first(sample.stack)
            .map(|id| frame(profile.frames.get(id)))
            .collect();
        path.reverse();
        let thread = profile.threads.get(sample.thread);
        let key = format!(
            "{:?}/{:?} {}/{}@{} in {} as {} cpu {:?} time {:?}\n  {}",
            thread.pid,
            thread.tid,
            text(thread.process),
            text(thread.name),
            text(thread.host),
            text(thread.cgroup),
            text(thread.command_line),
            sample.cpu,
            sample.time,
            path.join("\n  ")
        );
        let sums: &mut Vec<u64> = sums.entry(key).or_insert_with(|| vec![0; order.len()]);
        for (&column, sum) in order.iter().zip(sums) {
            let value = profile.samples.values(column)[row];
            // Values may come with more decimals than they were written with.
            let decimals = profile.value_types[column].decimals;
            *sum += value * 10u64.pow(9 - u32::from(decimals));
        }
    }
    sums
}

fn write(writer: &dyn Writer, profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer.write(profile, &WriteOptions::default(), &mut bytes).expect("writing to memory");
    bytes
}

/// Files of frames without a name are looked for, and there are none.
fn nothing_lost(warnings: &Warnings) -> bool {
    warnings.iter().all(|warning| matches!(warning.kind, WarningKind::MissingFile(_)))
}

fn read_again(reader: &dyn Reader, bytes: &[u8], room: Capabilities) -> Profile {
    let head = Input::bytes("x", bytes).begin().expect("bytes");
    assert_eq!(detect(head.bytes()).map(Reader::name), Some(reader.name()));
    let options = Options {
        detail: if room.times { Detail::Samples } else { Detail::Totals },
        threads: ThreadDetail::Thread,
        addresses: true,
        ..Options::default()
    };
    let reading = reader.read(head, &options).expect("what was just written");
    assert!(nothing_lost(&reading.warnings), "{:?}", reading.warnings);
    reading.profile
}

/// The formats whose stacks come back, with their readers. A Chrome trace has spans of time instead of
/// samples: its writer has tests of its own.
fn formats() -> impl Iterator<Item = (&'static dyn Writer, &'static dyn Reader)> {
    let both = |writer: &&'static dyn Writer| Some((*writer, reader_named(writer.name())?));
    let comes_back = |writer: &&&dyn Writer| {
        let room = writer.capabilities();
        room.stacks && room.files && writer.name() != "Chrome trace"
    };
    WRITERS.iter().filter(comes_back).filter_map(both)
}

#[test]
fn there_is_something_to_test() {
    let names: Vec<_> = formats().map(|(writer, _)| writer.name()).collect();
    assert!(names.starts_with(&["pprof", "firefox", "speedscope", "OTLP"]), "{names:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_format_holds_comes_back((rows, columns, decimals) in any_profile()) {
        for (writer, reader) in formats() {
            let room = writer.capabilities();
            let before = profile(&rows, columns.into(), decimals, room);
            let lost = not_held(&before, writer);
            prop_assert!(lost.is_empty(), "{}: {lost:?}", writer.name());
            let after = read_again(reader, &write(writer, &before), room);
            prop_assert_eq!(sums(&before), sums(&after), "{}", writer.name());
            let types = |profile: &Profile| -> BTreeMap<String, String> {
                profile.value_types.iter().map(|of| (of.name.clone(), of.unit.clone())).collect()
            };
            prop_assert_eq!(types(&before), types(&after), "{}", writer.name());
            let shown = |profile: &Profile| profile.value_types[profile.shown].name.clone();
            prop_assert_eq!(shown(&before), shown(&after), "{}", writer.name());
            prop_assert_eq!(&before.about, &after.about, "{}", writer.name());
        }
    }

    /// Whatever a format has no room for, it is written without a panic, read again, and adds up.
    #[test]
    fn what_a_format_does_not_hold_does_no_harm((rows, columns, decimals) in any_profile()) {
        let full = profile(&rows, columns.into(), decimals, Capabilities::ALL);
        for (writer, reader) in formats() {
            let head = Input::bytes("x", write(writer, &full)).begin().expect("bytes");
            let after = reader.read(head, &Options::default()).expect("what was just written");
            prop_assert!(nothing_lost(&after.warnings), "{}: {:?}", writer.name(), after.warnings);
            let shown = &full.value_types[full.shown];
            let unit = 10u64.pow(shown.decimals.into());
            let after = &after.profile;
            let fine = 10u64.pow(after.value_types[after.shown].decimals.into());
            let (before, after) = (full.samples.total(full.shown), after.samples.total(after.shown));
            let cut = if writer.capabilities().decimals { 0 } else { rows.len() as u64 };
            prop_assert!((before / unit).abs_diff(after / fine) <= cut, "{}", writer.name());
        }
    }
}

/// Formats with bytes of their own: those of text are tested on samples of text.
const OF_BYTES: &[&str] = &["pprof", "OTLP", "firefox", "speedscope", "callgrind", "Chrome trace"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes that were changed, left out or put in are read somehow, or refused, but never with a
    /// panic or without end.
    #[test]
    fn damaged_files_do_no_harm(
        (rows, columns, decimals) in any_profile(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
    ) {
        let full = profile(&rows, columns.into(), decimals, Capabilities::ALL);
        for name in OF_BYTES {
            let writer = pyrograph_format::writer_named(name).expect("a format");
            let reader = reader_named(name).expect("a format");
            // Not the compression: what is in it.
            let mut bytes = Vec::new();
            Input::bytes("x", write(writer, &full))
                .begin()
                .and_then(|head| head.into_stream().read_to_end(&mut bytes))
                .expect("what was just written");
            for (at, byte, how) in &damage {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = *byte,
                    1 => bytes[at] ^= 1 << (byte % 8),
                    2 => bytes.insert(at, *byte),
                    _ => drop(bytes.drain(at..(at + usize::from(*byte)).min(bytes.len() - 1).max(at))),
                }
            }
            let Ok(head) = Input::bytes("x", bytes).begin() else { continue };
            reader.detect(head.bytes());
            let _ = reader.read(head, &Options::default());
        }
    }
}

#[test]
fn names_of_frames_without_symbols_are_written_where_there_is_room_for_names_alone() {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    let module = profile.strings.intern("/usr/bin/app");
    let frame = profile.frames.intern(Frame { module, address: 0x10, ..Frame::default() });
    let stack = profile.stacks.intern(StackId::ROOT, frame);
    profile.push(Sample::new(stack), &[1]);
    for (writer, reader) in formats() {
        let head = Input::bytes("x", write(writer, &profile)).begin().expect("bytes");
        let after = reader.read(head, &Options::default()).expect("just written").profile;
        let labels = Labels::new(&after, &LabelOptions::default());
        assert_eq!(labels.names.get(labels.frames[0]), "app+0x10", "{}", writer.name());
    }
}

/// One sample may be longer than the beginning by which a file is recognized.
#[test]
fn one_very_deep_stack_is_recognized_in_every_format() {
    let stack = (0..100_000).map(|n| format!("f{n}")).collect::<Vec<_>>().join(";");
    let folded = format!("{stack} 7\n");
    let options = Options::default();
    let read = |bytes: &[u8]| {
        pyrograph_format::read(vec![Input::bytes("x", bytes)], &options).expect("a known format").0
    };
    let profile = read(folded.as_bytes());
    for (writer, _) in formats() {
        let after = read(&write(writer, &profile));
        let mut lines = Vec::new();
        write_folded(&Tree::new(&after, &LabelOptions::default()), &mut lines).expect("memory");
        assert!(lines == folded.as_bytes(), "{}", writer.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A Chrome trace of a speedscope profile adds up to what the profile does, or says that it does
    /// not: samples without a stack were left out without a word.
    #[test]
    fn speedscope_to_chrome_trace_loses_no_time_in_silence(
        samples in prop::collection::vec((prop::collection::vec(0u8..3, 0..4), 0u32..100_000), 1..20),
        threads in 1u8..4,
        unit in prop::sample::select(vec!["milliseconds", "microseconds", "seconds"]),
    ) {
        let one = |name: u8| {
            let mine = || samples.iter().skip(name.into()).step_by(threads.into());
            let (stacks, weights): (Vec<_>, Vec<_>) =
                mine().map(|(stack, weight)| (stack, f64::from(*weight) / 1000.0)).unzip();
            let end: f64 = weights.iter().sum();
            format!(
                r#"{{"type":"sampled","name":"{name}","unit":"{unit}","startValue":0,
                    "endValue":{end},"samples":{stacks:?},"weights":{weights:?}}}"#
            )
        };
        let profiles: Vec<String> = (0..threads).map(one).collect();
        let text = format!(
            r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json",
                "shared":{{"frames":[{{"name":"a"}},{{"name":"b"}},{{"name":"c"}}]}},
                "profiles":[{}]}}"#,
            profiles.join(",")
        );
        let read = |name: &str, bytes: Vec<u8>| {
            let head = Input::bytes("x", bytes).begin().expect("bytes");
            let options = Options { detail: Detail::Samples, ..Options::default() };
            reader_named(name).expect("a format").read(head, &options)
        };
        let before = read("speedscope", text.into_bytes()).expect("a profile").profile;
        let writer = pyrograph_format::writer_named("Chrome trace").expect("a format");
        if writer.refuses(&before).is_some() {
            return Ok(());
        }
        let said = writer.changes(&before).is_some();
        let after = read("Chrome trace", write(writer, &before)).expect("a trace");
        prop_assert!(after.warnings.is_empty());
        let (before, after) = (before.samples.total(0), after.profile.samples.total(0));
        prop_assert!(said || before == after, "{before} ns became {after} ns");
    }
}

#[test]
fn pprof_keeps_the_instructions_of_samples() {
    let mut written = Profile::new(vec![ValueType::samples()]);
    let [module, other, function, build_id] =
        ["/bin/app", "/lib/made", "hot", "abcd"].map(|text| written.strings.intern(text));
    let mut frame =
        |kind| written.frames.intern(Frame { module, function, kind, ..Frame::default() });
    let (hot, inlined) = (frame(FrameKind::User), frame(FrameKind::Inlined));
    let outer = written.stacks.intern(StackId::ROOT, hot);
    let inner = written.stacks.intern(outer, inlined);
    let at = |module, build_id, offset| Address { module, build_id, function, offset };
    // The last one is of another file than its frame: there is no place for it, and it is
    // as if it had none.
    for (stack, address, value) in [
        (outer, Some(at(module, build_id, 0x1234)), 1),
        (inner, Some(at(module, build_id, 0x1240)), 2),
        (outer, None, 4),
        (outer, Some(at(other, StringId::EMPTY, 7)), 8),
    ] {
        let address = address.map(|of| written.addresses.intern(of));
        written.push(Sample { address, ..Sample::new(stack) }, &[value]);
    }
    let writer = pyrograph_format::writer_named("pprof").expect("a format");
    let options = Options { instructions: true, ..Options::default() };
    let head = Input::bytes("x", write(writer, &written)).begin().expect("bytes");
    let read = reader_named("pprof").expect("a format").read(head, &options);
    let read = read.expect("a profile").profile;
    let mut found: Vec<_> = read
        .samples
        .iter()
        .enumerate()
        .map(|(row, sample)| {
            let address = sample.address.map(|id| {
                let Address { module, build_id, function, offset } = read.addresses.get(id);
                let [module, build_id, function] =
                    [module, build_id, function].map(|id| read.strings.get(id).to_owned());
                (module, build_id, function, offset)
            });
            (read.samples.values(0)[row], read.stacks.leaf_first(sample.stack).count(), address)
        })
        .collect();
    let address =
        |offset| Some(("/bin/app".to_owned(), "abcd".to_owned(), "hot".to_owned(), offset));
    found.sort_by_key(|row| row.0);
    assert_eq!(found, [(1, 1, address(0x1234)), (2, 2, address(0x1240)), (12, 1, None)]);
}

#[test]
fn pprof_and_otlp_keep_which_frames_were_guessed() {
    let mut written = Profile::new(vec![ValueType::samples()]);
    let (main, leaf) = (written.strings.intern("main"), written.strings.intern("leaf"));
    for guessed in [true, false] {
        let frame = |function| Frame { function, guessed, ..Frame::default() };
        let main = written.frames.intern(frame(main));
        let leaf = written.frames.intern(Frame { guessed: false, ..frame(leaf) });
        let stack = written.stacks.intern(StackId::ROOT, main);
        let stack = written.stacks.intern(stack, leaf);
        written.push(Sample::new(stack), &[if guessed { 3 } else { 5 }]);
    }
    for format in ["pprof", "OTLP"] {
        let writer = pyrograph_format::writer_named(format).expect("a format");
        let reader = reader_named(format).expect("a format");
        let read = read_again(reader, &write(writer, &written), writer.capabilities());
        let guessed = |row: usize| {
            let stack = read.samples.get(row).stack;
            let frames = read.stacks.leaf_first(stack).map(|id| read.frames.get(id).guessed);
            (frames.collect::<Vec<_>>(), read.samples.values(0)[row])
        };
        let rows: Vec<_> = (0..read.samples.len()).map(guessed).collect();
        assert_eq!(rows, [(vec![false, true], 3), (vec![false, false], 5)], "{format}");
    }
}
