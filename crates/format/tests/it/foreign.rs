//! Comparisons with crates that this project did not write: `opentelemetry-proto` for
//! OTLP, `fxprof-processed-profile` (samply's) for the Firefox Profiler.

use std::path::Path;

use fxprof_processed_profile as fx;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::profiles::v1development as otlp;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use pyrograph_format::{
    Detail, Input, Options, Reader, Reading, ThreadDetail, WriteOptions, detect, write_folded,
    writer_named,
};
use pyrograph_profile::{
    Frame, FrameKind, LabelOptions, ProcessLabel, Profile, Sample, StackId, Thread, Tree, ValueType,
};
use serde_json::Value;

fn read(bytes: &[u8], format: &str) -> Reading {
    let head = Input::bytes("x", bytes).begin().expect("bytes");
    let reader = detect(head.bytes()).expect("a known format");
    assert_eq!(Reader::name(reader), format);
    let options =
        Options { detail: Detail::Samples, threads: ThreadDetail::Thread, ..Options::default() };
    reader.read(head, &options).expect("a profile")
}

fn folded(reading: &Reading) -> String {
    let labels = LabelOptions {
        process: ProcessLabel::PidTid,
        mark_kernel: true,
        mark_inlined: true,
        source: true,
        ..LabelOptions::default()
    };
    let mut text = Vec::new();
    for warning in &reading.warnings {
        text.extend_from_slice(format!("# {warning}\n").as_bytes());
    }
    write_folded(&Tree::new(&reading.profile, &labels), &mut text).expect("writing to memory");
    String::from_utf8(text).expect("UTF-8")
}

/// main, with work inlined into it, calls into the kernel; two threads, two values.
fn profile() -> Profile {
    let mut profile = Profile::new(vec![ValueType::new("cpu", "ns"), ValueType::samples()]);
    let mut text = |text: &str| profile.strings.intern(text);
    let (app, kernel, file) = (text("/bin/app"), text("[kernel.kallsyms]"), text("a.c"));
    let (main, work, read) = (text("main"), text("work"), text("read"));
    let (process, worker) = (text("app"), text("worker"));
    let base = Frame { module: app, file, line: 3, ..Frame::default() };
    let frames = [
        Frame { function: main, start_line: 2, ..base },
        Frame { function: work, line: 9, start_line: 7, kind: FrameKind::Inlined, ..base },
        Frame { module: kernel, ..Frame::named(read, FrameKind::Kernel) },
        Frame { module: app, address: 0x4a0, ..Frame::default() },
    ]
    .map(|frame| profile.frames.intern(frame));
    let deep = profile.stacks.intern_path(frames[..3].iter().copied());
    let unnamed = profile.stacks.intern_path([frames[0], frames[3]]);
    for (row, stack) in [deep, deep, unnamed, StackId::ROOT, deep].into_iter().enumerate() {
        let tid = Some(12 + row as i32 % 2);
        let thread = Thread { pid: Some(12), tid, process, name: worker, ..Thread::default() };
        let thread = profile.threads.intern(thread);
        let time = Some(1_000_000 * (row as u64 + 1));
        profile.push(Sample { thread, time, ..Sample::new(stack) }, &[1_000_000, 1]);
    }
    profile
}

fn write(format: &str) -> Vec<u8> {
    let writer = writer_named(format).expect("a format");
    let mut bytes = Vec::new();
    let options = WriteOptions { title: "app".to_owned(), ..WriteOptions::default() };
    writer.write(&profile(), &options, &mut bytes).expect("writing to memory");
    bytes
}

#[test]
fn opentelemetrys_own_types_hold_what_is_written() {
    let data = otlp::ProfilesData::decode(&*write("otlp")).expect("a message of OTLP");
    let dictionary = data.dictionary.expect("a dictionary");
    // Row 0 of every table must be there, and empty.
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.mapping_table[0], otlp::Mapping::default());
    assert_eq!(dictionary.location_table[0], otlp::Location::default());
    assert_eq!(dictionary.function_table[0], otlp::Function::default());
    assert_eq!(dictionary.link_table, [otlp::Link::default()]);
    assert_eq!(dictionary.attribute_table[0], otlp::KeyValueAndUnit::default());
    assert_eq!(dictionary.stack_table[0], otlp::Stack::default());

    let text = |index: i32| &*dictionary.string_table[index as usize];
    let [resource] = &data.resource_profiles[..] else { panic!("one resource") };
    let [scope] = &resource.scope_profiles[..] else { panic!("one scope") };
    let types: Vec<(&str, &str)> = scope
        .profiles
        .iter()
        .map(|profile| {
            let of = profile.sample_type.as_ref().expect("a type");
            (text(of.type_strindex), text(of.unit_strindex))
        })
        .collect();
    assert_eq!(types, [("cpu", "nanoseconds"), ("samples", "count")]);

    let mut shown = Vec::new();
    for sample in &scope.profiles[0].samples {
        let stack = &dictionary.stack_table[sample.stack_index as usize];
        let frames = stack.location_indices.iter().flat_map(|&location| {
            let location = &dictionary.location_table[location as usize];
            let module =
                text(dictionary.mapping_table[location.mapping_index as usize].filename_strindex);
            let address = format!("{module}+{:x}", location.address);
            let names = location.lines.iter().map(|line| {
                let function = &dictionary.function_table[line.function_index as usize];
                format!("{}:{}", text(function.name_strindex), line.line)
            });
            let names: Vec<String> = names.collect();
            if names.is_empty() { vec![address] } else { names }
        });
        let frames: Vec<String> = frames.collect();
        shown.push((frames.join(" "), sample.values.clone(), sample.timestamps_unix_nano.clone()));
    }
    let deep = "read:0 work:9 main:3";
    let expected = [
        (deep, vec![1_000_000, 1_000_000], vec![1_000_000, 5_000_000]),
        (deep, vec![1_000_000], vec![2_000_000]),
        ("/bin/app+4a0 main:3", vec![1_000_000], vec![3_000_000]),
        ("", vec![1_000_000], vec![4_000_000]),
    ];
    let expected = expected.map(|(frames, values, times)| (frames.to_owned(), values, times));
    assert_eq!(shown, expected);

    let functions = dictionary.function_table[1..].iter();
    let starts: Vec<_> = functions.map(|of| (text(of.name_strindex), of.start_line)).collect();
    assert_eq!(starts, [("read", 0), ("work", 7), ("main", 2)]);

    let attributes: Vec<&str> = dictionary.attribute_table[1..]
        .iter()
        .map(|attribute| text(attribute.key_strindex))
        .collect();
    for key in
        ["process.pid", "process.executable.name", "thread.id", "thread.name", "profile.frame.type"]
    {
        assert!(attributes.contains(&key), "{attributes:?}");
    }
}

/// Its first field and length, a line feed and a brace, are the beginning of JSON: the message was read as that.
#[test]
fn a_message_of_opentelemetry_that_begins_as_json_does_is_none() {
    let mut seen = 0;
    for samples in 1..40 {
        for size in 0..9 {
            let mut profile = Profile::new(vec![ValueType::samples()]);
            let main = profile.strings.intern("main");
            let frame = profile.frames.intern(Frame::named(main, FrameKind::User));
            let stack = profile.stacks.intern_path([frame]);
            (0..samples).for_each(|time| {
                let sample = Sample { time: Some(time), ..Sample::new(stack) };
                profile.push(sample, &[1 << (7 * size)]);
            });
            let mut bytes = Vec::new();
            let writer = writer_named("otlp").expect("a format");
            writer.write(&profile, &WriteOptions::default(), &mut bytes).expect("to memory");
            seen += u32::from(bytes.starts_with(b"\n{"));
            assert_eq!(read(&bytes, "OTLP").profile.samples.len(), samples as usize);
        }
    }
    assert!(seen > 0);
}

/// As a collector is sent it, with what the writer above does not write: timestamps without values,
/// what the resource says of all samples, values below 0, indices that lead nowhere.
#[test]
fn what_opentelemetrys_own_types_write_is_read() {
    let strings = [
        "",
        "events",
        "count",
        "main",
        "a.c",
        "/bin/app",
        "thread.name",
        "worker",
        "leaf",
        "color",
        "profile.frame.type",
        "kernel",
    ];
    let texts = |key: i32, value: &str| otlp::KeyValueAndUnit {
        key_strindex: key,
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) }),
        unit_strindex: 0,
    };
    let line = |function_index| otlp::Line { function_index, line: 7, column: 0 };
    let location = |address, lines, attribute_indices| otlp::Location {
        mapping_index: 1,
        address,
        lines,
        attribute_indices,
    };
    let sample = |stack_index, attribute_indices, values, timestamps_unix_nano| otlp::Sample {
        stack_index,
        attribute_indices,
        link_index: 0,
        values,
        timestamps_unix_nano,
    };
    let function = |name_strindex, filename_strindex| otlp::Function {
        name_strindex,
        filename_strindex,
        ..otlp::Function::default()
    };
    let data = otlp::ProfilesData {
        resource_profiles: vec![otlp::ResourceProfiles {
            resource: Some(Resource {
                attributes: vec![KeyValue {
                    key: "process.pid".to_owned(),
                    value: Some(AnyValue { value: Some(any_value::Value::IntValue(77)) }),
                    ..KeyValue::default()
                }],
                ..Resource::default()
            }),
            scope_profiles: vec![otlp::ScopeProfiles {
                profiles: vec![otlp::Profile {
                    sample_type: Some(otlp::ValueType { type_strindex: 1, unit_strindex: 2 }),
                    samples: vec![
                        sample(1, vec![1, 2], vec![], vec![10, 20, 30]),
                        sample(2, vec![], vec![5], vec![]),
                        sample(2, vec![], vec![-5], vec![]),
                        sample(9, vec![], vec![1], vec![]),
                        sample(2, vec![99], vec![1], vec![]),
                        sample(2, vec![], vec![1, 2], vec![1]),
                        sample(3, vec![], vec![1], vec![]),
                    ],
                    time_unix_nano: 1_700_000_000_000_000_000,
                    ..otlp::Profile::default()
                }],
                ..otlp::ScopeProfiles::default()
            }],
            ..otlp::ResourceProfiles::default()
        }],
        dictionary: Some(otlp::ProfilesDictionary {
            mapping_table: vec![
                otlp::Mapping::default(),
                otlp::Mapping {
                    memory_start: 0x1000,
                    memory_limit: 0x2000,
                    file_offset: 0x500,
                    filename_strindex: 5,
                    attribute_indices: vec![],
                },
            ],
            location_table: vec![
                otlp::Location::default(),
                location(0x1100, vec![line(1)], vec![]),
                location(0x1200, vec![], vec![]),
                location(0, vec![line(2)], vec![3]),
            ],
            function_table: vec![otlp::Function::default(), function(3, 4), function(8, 0)],
            link_table: vec![otlp::Link::default()],
            string_table: strings.map(str::to_owned).to_vec(),
            attribute_table: vec![
                otlp::KeyValueAndUnit::default(),
                texts(6, "worker"),
                texts(9, "red"),
                texts(10, "kernel"),
            ],
            stack_table: vec![
                otlp::Stack::default(),
                otlp::Stack { location_indices: vec![3, 1] },
                otlp::Stack { location_indices: vec![2, 1] },
                otlp::Stack { location_indices: vec![4] },
            ],
        }),
    };
    let bytes = data.encode_to_vec();
    // The same is a sample of the format. To bless it, see `formats.rs`.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/otlp/proto_crate.otlp");
    if std::env::var_os("PYROGRAPH_BLESS").is_some() {
        std::fs::write(&sample, &bytes).expect("a sample to bless");
    }
    assert!(std::fs::read(&sample).expect("a sample") == bytes, "not what the crate writes");
    let reading = read(&bytes, "OTLP");
    assert_eq!(
        folded(&reading),
        "# 4 damaged records were skipped\n\
         # /bin/app is not here as it was recorded: functions in it have no names\n\
         # 1 sample with values below 0 was skipped\n\
         # attributes of samples are left out: color\n\
         -77/?;main:a.c:7;app+0x700 5\n\
         worker-77/?;main:a.c:7;leaf_[k] 3\n"
    );
    let times: Vec<_> = reading.profile.samples.iter().map(|sample| sample.time).collect();
    assert_eq!(times, [Some(10), Some(20), Some(30), None]);
    assert_eq!(reading.profile.about.start, Some(1_700_000_000_000_000_000));
}

/// The same recording as that of `profile`, by samply's crate.
fn samplys() -> fx::Profile {
    let start = fx::Timestamp::from_millis_since_reference(0.0);
    let interval = fx::SamplingInterval::from_millis(1);
    let reference = fx::ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let mut profile = fx::Profile::new("app", reference, interval);
    let lib = profile.add_lib(fx::LibraryInfo {
        name: "app".to_owned(),
        debug_name: "app".to_owned(),
        path: "/bin/app".to_owned(),
        debug_path: "/bin/app".to_owned(),
        debug_id: fx::debugid::DebugId::nil(),
        code_id: None,
        arch: None,
        symbol_table: None,
    });
    let process = profile.add_process("app", 12, start);
    profile.add_lib_mapping(process, lib, 0x1000, 0x9000, 0);
    let kernel = profile.add_category("Kernel", fx::CategoryColor::Orange);
    for tid in [12, 13] {
        let thread = profile.add_thread(process, tid, start, tid == 12);
        profile.set_thread_name(thread, "worker");
        let names = ["main", "read"].map(|name| profile.intern_string(name));
        let frames = [
            fx::FrameInfo {
                frame: fx::Frame::Label(names[0]),
                category_pair: fx::CategoryHandle::OTHER.into(),
                flags: fx::FrameFlags::empty(),
            },
            fx::FrameInfo {
                frame: fx::Frame::InstructionPointer(0x14a0),
                category_pair: fx::CategoryHandle::OTHER.into(),
                flags: fx::FrameFlags::empty(),
            },
            fx::FrameInfo {
                frame: fx::Frame::Label(names[1]),
                category_pair: kernel.into(),
                flags: fx::FrameFlags::empty(),
            },
        ];
        let stack = profile.intern_stack_frames(thread, frames.into_iter());
        for milliseconds in [1.0, 2.5] {
            let time = fx::Timestamp::from_millis_since_reference(milliseconds);
            let cpu = fx::CpuDelta::from_micros(900);
            profile.add_sample(thread, time, stack, cpu, 3);
        }
    }
    profile
}

#[test]
fn what_samplys_crate_writes_is_read() {
    let reading = read(&serde_json::to_vec(&samplys()).expect("JSON"), "firefox");
    assert_eq!(
        folded(&reading),
        // It calls a main thread by its process.
        "# /bin/app is not here as it was recorded: functions in it have no names\n\
         app-12/12;main;app+0x4a0;read_[k] 6 1800000\n\
         worker-12/13;main;app+0x4a0;read_[k] 6 1800000\n"
    );
    let types = &reading.profile.value_types;
    assert_eq!(types, &[ValueType::samples(), ValueType::new("cpu", "ns")]);
    let times: Vec<_> = reading.profile.samples.iter().filter_map(|sample| sample.time).collect();
    assert_eq!(times, [1_000_000, 2_500_000, 1_000_000, 2_500_000]);
}

/// Every object, column and type of value that samply's crate writes is in what is written here.
#[test]
fn what_is_written_for_the_firefox_profiler_has_the_form_of_samplys() {
    let ours: Value = serde_json::from_slice(&write("firefox")).expect("JSON");
    let theirs = serde_json::to_value(samplys()).expect("JSON");
    let mut missing = Vec::new();
    compare(&ours, &theirs, "", &mut missing);
    // The types of the Firefox Profiler have these as alternatives: `time` or `timeDeltas`, a number or
    // a text. How much CPU time a sample used, nobody measured.
    let rightly = [
        ".threads[].samples.threadCPUDelta is missing",
        ".threads[].samples.timeDeltas is missing",
        ".threads[].tid: 12 instead of \"12\"",
    ];
    assert_eq!(missing, rightly);
    // Columns of a table are as long as it says, and indices lead somewhere.
    let threads = ours["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 2);
    for thread in threads {
        for table in ["samples", "stackTable", "frameTable", "funcTable", "resourceTable"] {
            let length = thread[table]["length"].as_u64().expect(table);
            let columns = thread[table].as_object().expect(table);
            for (name, column) in columns.iter().filter(|(_, column)| column.is_array()) {
                assert_eq!(
                    column.as_array().map(Vec::len),
                    Some(length as usize),
                    "{table}.{name}"
                );
            }
        }
        let strings = thread["stringArray"].as_array().expect("strings").len() as u64;
        let libs = ours["libs"].as_array().expect("libs").len() as u64;
        let length = |table: &str| thread[table]["length"].as_u64().expect(table);
        for (table, column, limit) in [
            ("samples", "stack", length("stackTable")),
            ("stackTable", "prefix", length("stackTable")),
            ("stackTable", "frame", length("frameTable")),
            ("frameTable", "func", length("funcTable")),
            ("frameTable", "category", 6),
            ("funcTable", "name", strings),
            ("funcTable", "fileName", strings),
            ("funcTable", "resource", length("resourceTable")),
            ("resourceTable", "lib", libs),
            ("resourceTable", "name", strings),
        ] {
            for index in thread[table][column].as_array().expect(column) {
                let fits =
                    index.is_null() || index == -1 || index.as_u64().is_some_and(|i| i < limit);
                assert!(fits, "{table}.{column}: {index}");
            }
        }
    }
}

fn compare(ours: &Value, theirs: &Value, path: &str, missing: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, theirs) in theirs {
                match ours.get(key) {
                    Some(ours) => compare(ours, theirs, &format!("{path}.{key}"), missing),
                    None => missing.push(format!("{path}.{key} is missing")),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) {
                compare(ours, theirs, &format!("{path}[]"), missing);
            }
        }
        // One may know of this recording what the other does not.
        (Value::Null, _) | (_, Value::Null) => {}
        (ours, theirs) => {
            if std::mem::discriminant(ours) != std::mem::discriminant(theirs) {
                missing.push(format!("{path}: {ours} instead of {theirs}"));
            }
        }
    }
}
