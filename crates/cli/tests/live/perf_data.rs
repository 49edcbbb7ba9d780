//! `perf.data`, read directly and by way of `perf script`: both must show the same.
//!
//! Where the two differ, and why, is in docs/perf-data.md; [`alike`] evens out what is only another
//! name for the same address. Tests that record are skipped where there is no `perf`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::perf::{
    agreement, fold, fold_script, perf_script, run_perf, with_perf, with_perf_as_root,
};
use crate::common::recorded::{self, OfPerf};
use crate::common::{Folded, pyrograph, run, tolerance};
use pyrograph_format::{Described, Input, Options, describe};

/// Inlined calls are left out here: perf asks `addr2line` for them, which takes minutes. What is
/// found for an address is tested with the symbols.
///
/// How much of the weight must be of the same stacks, in percent.
const AGREE: f64 = 99.0;

/// The nanoseconds that a sample at the rate of 2,999 Hz stands for.
const PERIOD: f64 = 1e9 / 2999.0;

/// How often the program does what it does: for a third of a second, so that there are some hundred
/// samples. More than for that, this is limited by the time that it takes `perf script`.
const ROUNDS: &str = "1500";

/// The program that is recorded: known calls, and some page faults.
fn program(folder: &Path) -> PathBuf {
    let flags = ["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    crate::common::compile(&flags, "calls.c", folder)
}

/// Records the program with these options; not into perf's cache, for several that write there at
/// once make perf 6.1 abort.
fn record(folder: &Path, options: &[&str]) -> PathBuf {
    let data = folder.join("perf.data");
    let program = program(folder);
    run_perf(&mut perf_record(&data, &program, options));
    data
}

fn perf_record(data: &Path, program: &Path, options: &[&str]) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N", "-F", "2999"]).args(options);
    perf.arg("-o").arg(data).arg("--").arg(program).arg(ROUNDS);
    perf
}

/// Records, and folds both ways.
fn check(test: &str, options: &[&str]) {
    with_perf(test, |folder| {
        let data = record(folder, options);
        compare(test, &fold(&data, &[]), &fold_script(&data, &[]));
    });
}

fn compare(test: &str, ours: &Folded, theirs: &Folded) {
    assert!(ours.total() > 0.0, "{test}");
    assert_eq!(ours.total(), theirs.total(), "{test}: nothing is lost");
    let agreement = agreement(ours, theirs);
    assert!(agreement >= AGREE, "{test}: {agreement:.2} %");
}

/// Folds each of two events of a recording both ways.
fn check_events(test: &str, OfPerf { data, text, .. }: &OfPerf) {
    for event in ["cpu-clock", "page-faults"] {
        let options = ["--event-filter", event];
        compare(&format!("{test}, {event}"), &fold(data, &options), &fold(text, &options));
    }
}

#[test]
fn frame_pointers() {
    let Some(OfPerf { data, text, .. }) = recorded::calls_by_frame_pointers() else { return };
    compare("frame pointers", &fold(&data, &[]), &fold(&text, &[]));
}

/// Go's compiler refuses a profile without it.
#[test]
fn perf_data_as_pprof_lacked_the_number_of_samples() {
    let Some(OfPerf { data, .. }) = recorded::calls_by_frame_pointers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let profile = folder.join("default.pgo");
    run(pyrograph().arg("convert").arg(&data).arg("-o").arg(&profile));
    let inputs = vec![Input::open(&profile).expect("it was written")];
    let (profile, _) = pyrograph_format::read(inputs, &Options::default()).expect("pprof");
    let total = |value| profile.samples.total(profile.column(value).expect("a column"));
    let samples = total("samples/count");
    assert!(samples > 100, "{samples}");
    assert_eq!(total("cpu-clock/ns") / samples, 1_000_000_000 / 2999);
}

#[test]
fn copied_stacks() {
    check("copied stacks", &["-e", "cpu-clock", "--call-graph", "dwarf,32768"]);
}

#[test]
fn each_of_several_events() {
    let Some(recorded) = recorded::calls_with_two_events() else { return };
    check_events("several events", &recorded);
}

/// Unasked, the first of them is counted, though the first sample may be of another; and that is said.
#[test]
fn several_events_unasked() {
    with_perf("several events unasked", |folder| {
        for events in [["cpu-clock", "page-faults"], ["page-faults", "cpu-clock"]] {
            let data = record(folder, &["-e", &events.join(","), "-g"]);
            let output = run(pyrograph().args(["fold", "--no-inline"]).arg(&data));
            let first = fold(&data, &["--event-filter", events[0]]);
            let unasked = Folded::parse(&String::from_utf8(output.stdout).expect("text"));
            assert_eq!(unasked.stacks, first.stacks);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let counted = format!("event {} is counted; --event-filter chooses", events[0]);
            assert!(said.contains(&counted), "{said}");
            assert!(said.contains(&format!("of event {} were not", events[1])), "{said}");
        }
    });
}

#[test]
fn each_event_of_a_group() {
    with_perf("a group", |folder| {
        let program = program(folder);
        let data = record(folder, &["-e", "{cpu-clock,page-faults}:S", "-g"]);
        let text = perf_script(&data, &["--no-inline"]);
        check_events("a group", &OfPerf { program, data, text });
    });
}

#[test]
fn packed_records() {
    check("packed records", &["-e", "cpu-clock", "-g", "-z"]);
    check("packed stacks", &["-e", "cpu-clock", "--call-graph", "dwarf,32768", "-z"]);
}

#[test]
fn records_that_others_stumble_over() {
    for extra in [
        &[
            "--switch-events",
            "--data",
            "--phys-data",
            "--data-page-size",
            "--code-page-size",
            "--weight",
        ] as &[&str],
        &[
            "--all-cgroups",
            "--namespaces",
            "--sample-cpu",
            "--sample-identifier",
            "-s",
            "--buildid-all",
        ],
        &["--no-buildid"],
    ] {
        check(&extra.join(" "), &[&["-e", "cpu-clock", "-g"], extra].concat());
    }
}

#[test]
fn the_whole_machine() {
    with_perf_as_root("the whole machine", |folder| {
        for threads in [&[] as &[&str], &["--threads"]] {
            let options = [&["-a", "-e", "cpu-clock", "-g"], threads].concat();
            let data = record(folder, &options);
            let (ours, theirs) = (fold(&data, &[]), fold_script(&data, &[]));
            assert_eq!(ours.total(), theirs.total(), "{threads:?}");
            // Other programs that run here are not known; of the test's own program all must agree.
            let own = |folded: &Folded| Folded {
                stacks: (folded.stacks.iter().filter(|(stack, _)| stack[0].starts_with("calls")))
                    .cloned()
                    .collect(),
            };
            let agreement = agreement(&own(&ours), &own(&theirs));
            assert!(agreement >= AGREE, "{threads:?}: {agreement:.2} %");
            if data.is_dir() {
                std::fs::remove_dir_all(&data).expect("own folder");
            }
        }
    });
}

#[test]
fn from_a_pipe() {
    with_perf("from a pipe", |folder| {
        let program = program(folder);
        for options in [&["-e", "cpu-clock"] as &[&str], &["-e", "cpu-clock,page-faults", "-z"]] {
            let mut perf = Command::new("perf");
            perf.args(["record", "-q", "-N", "-F", "2999", "-g", "-o", "-"]).args(options);
            let piped = run_perf(perf.arg("--").arg(&program).arg(ROUNDS)).stdout;
            // The program prints nothing, so that all of it is the recording.
            let data = folder.join("piped");
            std::fs::write(&data, piped).expect("a temporary file");
            let input = File::open(&data).expect("just written");
            // Without being asked for one, the text's reader takes the event of the first sample, which
            // may be either.
            let cpu = ["fold", "--no-inline", "--event-filter", "cpu-clock"];
            let output = run(pyrograph().args(cpu).stdin(input));
            let ours = Folded::parse(&String::from_utf8(output.stdout).expect("text"));
            let theirs = fold_script(&data, &["--event-filter", "cpu-clock"]);
            assert_eq!(ours.total(), theirs.total(), "{options:?}");
            let agreement = agreement(&ours, &theirs);
            assert!(agreement >= AGREE, "{options:?}: {agreement:.2} %");
        }
    });
}

#[test]
fn a_compressed_file() {
    let Some(OfPerf { data, .. }) = recorded::calls_by_frame_pointers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let packed = folder.join("packed");
    let bytes = run(Command::new("gzip").arg("-c").arg(&data)).stdout;
    std::fs::write(&packed, bytes).expect("a temporary file");
    assert_eq!(fold(&data, &[]).stacks, fold(&packed, &[]).stacks);
}

#[test]
fn a_flame_graph_of_it() {
    let Some(OfPerf { data, .. }) = recorded::calls_by_frame_pointers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let picture = folder.join("out.svg");
    run(pyrograph().arg("flamegraph").arg(&data).arg("-o").arg(&picture));
    let picture = std::fs::read_to_string(picture).expect("written");
    assert!(picture.contains("<svg") && picture.contains("spin"), "the program's functions");
}

/// Cut off anywhere, a file is read up to there; nothing is made up, and nothing panics.
#[test]
fn files_that_are_cut_off() {
    let Some(OfPerf { data, .. }) = recorded::calls_by_frame_pointers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let whole = fold(&data, &[]).total();
    let bytes = std::fs::read(&data).expect("just written");
    let cut = folder.join("cut");
    let mut last = 0.0;
    for part in 0..40 {
        let end = bytes.len() * part / 40;
        std::fs::write(&cut, &bytes[..end]).expect("a temporary file");
        let output = pyrograph().arg("fold").arg(&cut).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(0) || output.status.code() == Some(1), "{said}");
        // The unit of counts is reported for every file.
        let mut lines = said.lines().filter(|line| !line.starts_with("pyrograph: counts are "));
        assert!(lines.next().is_some(), "cut at {end} of {}", bytes.len());
        if output.status.success() {
            let total = Folded::parse(&String::from_utf8_lossy(&output.stdout)).total();
            assert!(last <= total && total <= whole, "{last} {total} {whole}: {said}");
            last = total;
        }
    }
    assert!(last > 0.9 * whole, "nearly all is there: {last} of {whole}");
}

/// Cut off behind any record, a file has the samples before that, and says what is missing.
#[test]
fn files_that_are_cut_off_between_records() {
    const SAMPLE: u32 = 9;
    with_perf("files that are cut off between records", |folder| {
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "20000", "-e", "cpu-clock", "-g", "-o"]).arg(&data);
        run_perf(perf.arg("true"));
        let bytes = std::fs::read(&data).expect("just written");
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        // The header's words at 40 and 48: where the records begin, and how many bytes they take.
        let (start, size) = (word(40) as usize, word(48) as usize);
        let samples = |end: usize| {
            let described =
                describe(Input::bytes("cut", &bytes[..end])).expect("it is a recording");
            let Described::Recording(info) = described else { panic!("{described:?}") };
            (info.samples, !info.damage.is_empty())
        };
        let (mut at, mut before, mut records) = (start, 0, 0);
        while at < start + size {
            assert_eq!(samples(at), (before, true), "cut at {at}");
            before += u64::from(word(at) as u32 == SAMPLE);
            records += 1;
            at += (word(at) >> 48) as usize;
        }
        assert_eq!(samples(bytes.len()), (before, false));
        assert!(before > 5 && records > before, "{before} samples of {records} records");
    });
}

#[test]
fn nothing_to_show() {
    with_perf("nothing to show", |folder| {
        let data = folder.join("perf.data");
        // A sample for each hour of CPU time.
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-e", "cpu-clock", "-c", "3600000000000", "-o"]);
        run_perf(perf.arg(&data).arg("true"));
        let output = pyrograph().arg("fold").arg(&data).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("no sample"));
    });
}

/// Without its end a recording has neither names nor fields of tracepoints.
#[test]
fn tracepoints_of_a_file_that_is_cut_off() {
    with_perf_as_root("tracepoints of a file that is cut off", |folder| {
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "-q",
            "-N",
            "-e",
            "sched:sched_process_exec,sched:sched_process_exit",
        ]);
        run_perf(perf.arg("-o").arg(&data).args(["--", "sh", "-c", "true & sleep 0.01"]));
        let bytes = std::fs::read(&data).expect("just written");
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let end = (word(40) + word(48)) as usize;
        std::fs::write(&data, &bytes[..end]).expect("a temporary file");
        let pair = ["--begin", "sched:sched_process_exec", "--end", "sched:sched_process_exit"];
        let output = pyrograph().arg("heatmap").args(pair).arg(&data).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("names and fields of tracepoints are missing"), "{said}");
        assert!(said.contains("the input has tracepoint "), "{said}");
    });
}

/// A file that was replaced since is not used, and that is said.
#[test]
fn a_program_that_was_built_anew() {
    with_perf("a program that was built anew", |folder| {
        let cache = folder.join("home");
        let data = record(folder, &["-e", "cpu-clock", "-g"]);
        let flags = ["gcc", "-O1", "-g", "-DANEW", "-Wl,--build-id=0x0123456789abcdef"];
        crate::common::compile(&flags, "calls.c", folder);
        let output = run(pyrograph().env("HOME", cache).arg("fold").arg(&data));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("not here as it was recorded"), "{said}");
        let folded = Folded::parse(&String::from_utf8_lossy(&output.stdout));
        assert!(folded.total_share("spin") < 0.1, "names would be guesses");
        assert!(folded.total_share("[calls_c]") > 50.0, "{:?}", folded.leaves());
    });
}

#[test]
fn what_a_recording_says_about_itself() {
    let Some(OfPerf { data, program, .. }) = recorded::calls_with_two_events() else { return };
    let output = run(pyrograph().args(["info", "--json"]).arg(&data)).stdout;
    let info: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!(info["host"], host.trim());
    assert_eq!(info["events"][0]["name"], "cpu-clock");
    assert_eq!(info["events"][0]["frequency_hz"], 2999);
    assert_eq!(info["events"][1]["name"], "page-faults");
    assert_eq!(info["processes"][0]["name"], "calls_c");
    let samples = |at: usize| info["events"][at]["samples"].as_u64().expect("a number");
    assert_eq!(info["samples"], samples(0) + samples(1));
    assert!(info["first_sample_ns"].as_u64() < info["last_sample_ns"].as_u64());
    // perf's own reading of its headers.
    let mut perf = Command::new("perf");
    perf.args(["report", "--header-only", "-I", "-i"]).arg(&data);
    let headers = String::from_utf8_lossy(&run_perf(&mut perf).stdout).into_owned();
    let values = |name: &str| -> Vec<String> {
        let lines = headers.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(':'));
        let lines = lines
            .filter(|(of, _)| of.trim() == name || of.trim().starts_with(&format!("{name} =")));
        lines.map(|(_, value)| value.trim().to_owned()).collect()
    };
    assert_eq!(info["cpuid"], values("cpuid")[0], "{headers}");
    assert_eq!(info["sockets"], serde_json::json!(values("sibling sockets")), "{headers}");
    assert_eq!(info["cores"], serde_json::json!(values("sibling threads")), "{headers}");
    let pmus = info["pmus"].as_array().expect("a list").iter();
    let pmus: Vec<String> = pmus
        .map(|pmu| format!("{} = {}", pmu["name"].as_str().expect("a name"), pmu["type"]))
        .collect();
    assert_eq!(pmus.join(", "), values("pmu mappings")[0], "{headers}");
    let event = &info["events"][0];
    let parts: Vec<&str> = event["sample_type"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|part| part.as_str())
        .collect();
    assert!(
        values("event")[0].contains(&format!("sample_type = {}", parts.join("|"))),
        "{headers}"
    );
    for attribute in event["attributes"].as_array().expect("a list") {
        let attribute = attribute.as_str().expect("a name");
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, "1"));
        assert!(values("event")[0].contains(&format!(", {name} = {value}")), "{name}: {headers}");
    }

    let text = run(pyrograph().arg("info").arg(&data)).stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("perf record -q -N -F 2999"), "{text}");
    let other = pyrograph().arg("info").arg(program).output().expect("it runs");
    assert_eq!(other.status.code(), Some(1), "an ELF file is no recording");
}

#[test]
fn tracepoints() {
    with_perf_as_root("tracepoints", |folder| {
        let data = folder.join("perf.data");
        for output in ["file", "pipe"] {
            let mut perf = Command::new("perf");
            // Writes to a file wait for nothing, but their system calls are traced.
            perf.args(["record", "-q", "-N", "-e", "raw_syscalls:sys_enter", "-g", "-o"]);
            perf.arg(if output == "file" { data.as_os_str() } else { "-".as_ref() });
            let piped = run_perf(perf.args([
                "--",
                "find",
                "/usr/include",
                "-fprintf",
                "/dev/null",
                "%p %s",
            ]));
            if output == "pipe" {
                std::fs::write(&data, piped.stdout).expect("a temporary file");
            }
            let (ours, theirs) = (fold(&data, &[]), fold_script(&data, &[]));
            assert_eq!(ours.total(), theirs.total(), "{output}");
            let agreement = agreement(&ours, &theirs);
            assert!(agreement >= AGREE, "{output}: {agreement:.2} %");
            let info = run(pyrograph().args(["info", "--json"]).arg(&data)).stdout;
            let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
            assert_eq!(info["events"][0]["fields"][0]["name"], "id", "{output}");
            std::fs::remove_file(&data).expect("own file");
        }
    });
}

#[test]
fn code_that_node_makes_as_it_runs() {
    let has_node = Command::new("node").arg("--version").output().is_ok();
    if !has_node {
        eprintln!("skipped: code that node makes needs node");
        return;
    }
    with_perf("code that node makes", |folder| {
        let data = folder.join("perf.data");
        let script = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
            while (process.cpuUsage().user < 0.6e6) fib(20);";
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "2999", "-e", "cpu-clock", "-g", "-o"]).arg(&data);
        // V8 leaves a log where it runs.
        perf.current_dir(folder).args([
            "--",
            "node",
            "--perf-basic-prof",
            "--interpreted-frames-native-stack",
            "-e",
            script,
        ]);
        run_perf(&mut perf);
        let (ours, theirs) = (fold(&data, &[]), fold_script(&data, &[]));
        assert_eq!(ours.total(), theirs.total());
        let agreement = agreement(&ours, &theirs);
        assert!(agreement >= AGREE, "{agreement:.2} %");
        assert!(ours.share(|stack| stack.iter().any(|frame| frame.contains("fib"))) > 50.0);
    });
}

#[test]
fn code_that_java_makes_as_it_runs() {
    const SOURCE: &str = "public class Work {
        static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        public static void main(String[] a) {
            long sum = 0;
            for (int i = 0; i < 2000; i++) sum += fib(25);
            System.out.println(sum);
        }
    }";
    let has_java = Command::new("javac").arg("--version").output().is_ok();
    if !has_java {
        eprintln!("skipped: code that java makes needs java");
        return;
    }
    with_perf("code that java makes", |folder| {
        let source = folder.join("Work.java");
        std::fs::write(&source, SOURCE).expect("a temporary file");
        run(Command::new("javac").arg(&source));
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "997", "-e", "cpu-clock", "-g", "-o"]).arg(&data);
        perf.args(["--", "java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions"]);
        run_perf(perf.args(["-XX:+DumpPerfMapAtExit", "-cp"]).arg(folder).arg("Work"));
        let (ours, theirs) = (fold(&data, &[]), fold_script(&data, &[]));
        assert_eq!(ours.total(), theirs.total());
        let agreement = agreement(&ours, &theirs);
        assert!(agreement >= AGREE, "{agreement:.2} %");
        assert!(ours.share(|stack| stack.iter().any(|frame| frame.contains("Work.fib"))) > 50.0);
    });
}

/// The program is gone from its place: it is found in a copy of its file system, and in the cache
/// that perf keeps, by build ID.
#[test]
fn programs_that_are_elsewhere() {
    with_perf("programs that are elsewhere", |folder| {
        let home = folder.join("home");
        std::fs::create_dir(&home).expect("own folder");
        let program = program(folder);
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.env("HOME", &home).args(["record", "-q", "-F", "999", "-e", "cpu-clock", "-g", "-o"]);
        run_perf(perf.arg(&data).arg("--").arg(&program).arg(ROUNDS));

        let root = folder.join("root");
        let copy = root.join(program.strip_prefix("/").expect("an absolute path"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("own folder");
        std::fs::rename(&program, &copy).expect("own file");
        let folded = |home: &Path, options: &[&str]| {
            let mut command = pyrograph();
            let output = run(command.env("HOME", home).arg("fold").args(options).arg(&data));
            Folded::parse(&String::from_utf8(output.stdout).expect("text"))
        };
        let nowhere = folder.join("nowhere");
        assert!(folded(&nowhere, &[]).total_share("spin") < 0.1, "it is not there");
        assert!(folded(&home, &[]).total_share("spin") > 20.0, "perf's cache");
        let symfs = ["--symfs", root.to_str().expect("plain")];
        assert!(folded(&nowhere, &symfs).total_share("spin") > 20.0, "a copy of the file system");
        let debug = debug_file_alone(&copy, folder);
        let debug = ["--debug-dir", debug.to_str().expect("plain")];
        assert!(folded(&nowhere, &debug).total_share("spin") > 20.0, "the debug file alone");
    });
}

/// A folder with the debug file of a program, by its build ID.
fn debug_file_alone(program: &Path, folder: &Path) -> PathBuf {
    let notes = run(Command::new("readelf").arg("-n").arg(program)).stdout;
    let notes = String::from_utf8(notes).expect("text");
    let id = notes.split("Build ID: ").nth(1).and_then(|id| id.split_whitespace().next());
    let (first, rest) = id.expect("a build ID").split_at(2);
    let debug = folder.join("debug");
    let place = debug.join(".build-id").join(first);
    std::fs::create_dir_all(&place).expect("own folder");
    let file = place.join(format!("{rest}.debug"));
    run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(file));
    debug
}

/// A profile of a stripped program that is gone gets its names from what a debug package has: linkers place code in the file
/// elsewhere than in memory, which is not in that.
#[test]
fn a_debug_file_alone_names_an_old_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let linkers = ["bfd", "gold", "lld"];
    let compiled = linkers.iter().filter(|linker| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o"]);
        gcc.arg(folder.join(linker)).arg(crate::common::program_source("split.c"));
        gcc.arg(format!("-fuse-ld={linker}")).output().is_ok_and(|of| of.status.success())
    });
    let compiled: Vec<&&str> = compiled.collect();
    assert!(!compiled.is_empty(), "no linker");
    for linker in compiled {
        let program = folder.join(linker);
        let debug = debug_file_alone(&program, folder);
        run(Command::new("strip").arg(&program));
        run(pyrograph()
            .current_dir(folder)
            .args(["record", "-o", "old.pb.gz", "--"])
            .args([program.as_os_str(), ROUNDS.as_ref()]));
        std::fs::remove_file(&program).expect("own file");
        let named = |options: &[&Path]| {
            let mut command = pyrograph();
            let output = run(command.current_dir(folder).args(["fold", "old.pb.gz"]).args(options));
            Folded::parse(&String::from_utf8(output.stdout).expect("text")).total_share("beta")
        };
        assert!(named(&[]) < 0.1, "{linker}: it is not there");
        let share = named(&[Path::new("--debug-dir"), &debug]);
        assert!((share - 45.0).abs() < 12.0, "{linker}: {share}");
    }
}

/// By the times of the samples and those in the jitdump file, for which both need the same clock.
#[test]
fn code_that_takes_the_place_of_other_code() {
    with_perf("code that takes the place of other code", |folder| {
        let program = crate::common::compile(&["gcc", "-O1", "-g"], "jit.c", folder);
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-k", "mono", "-F", "2999", "-e", "cpu-clock:u", "-g"]);
        perf.arg("-o").arg(&data).arg("--").arg(&program).current_dir(folder);
        let output = run_perf(&mut perf);
        let folded = fold(&data, &[]);
        // Values are nanoseconds, the same for each of perf's samples.
        crate::jit_code::check_first_and_second(&folded, folded.total() / PERIOD, &output);
    });
}

/// The jitdump file has the only tables of this code, whose frame pointer is 0.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_made_at_run_time_is_unwound_by_the_tables_of_its_jitdump_file() {
    with_perf("code made at run time with tables", |folder| {
        let compiler = ["gcc", "-O2", "-g", "-fomit-frame-pointer"];
        let program = crate::common::compile(&compiler, "jit_tables.c", folder);
        for clock in [&[][..], &["-k", "mono"]] {
            let data = folder.join("perf.data");
            let mut perf = Command::new("perf");
            perf.args(["record", "-q", "-N", "-F", "2999", "-e", "cpu-clock:u"]).args(clock);
            perf.args(["--call-graph", "dwarf", "-o"]).arg(&data).arg("--");
            run_perf(perf.args([program.as_os_str(), "2000".as_ref()]).current_dir(folder));
            let folded = fold(&data, &[]);
            let ends_with = |path: &[&str]| {
                folded.share(|stack| {
                    let tail = stack.len().checked_sub(path.len()).map(|from| &stack[from..]);
                    tail.is_some_and(|tail| tail.iter().eq(path.iter()))
                })
            };
            let outer = ends_with(&["main", "work", "outer"]);
            let inner = ends_with(&["main", "work", "outer", "inner"]);
            let leaves = folded.leaves();
            // 2,000 samples: one standard deviation is a point.
            let most = tolerance(25.0, folded.total() / PERIOD);
            assert!((outer - 25.0).abs() < most && (inner - 75.0).abs() < most, "{leaves:?}");
            let marked = folded.share(|stack| stack.iter().any(|frame| frame.starts_with('[')));
            assert!(marked < 1.0, "{marked} %: {leaves:?}");
        }
    });
}

#[test]
fn kernel_symbols_are_kept_for_the_next_time_unless_refused() {
    with_perf_as_root("kernel symbols are kept", |folder| {
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "4999", "-e", "cpu-clock", "-g", "-o"]);
        run_perf(perf.arg(&data).args([
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "count=300000",
        ]));
        let cache = folder.join("cache");
        std::fs::create_dir(&cache).expect("own folder");
        let kept = cache.join("pyrograph/kernel/symbols");
        let folded = |options: &[&str]| {
            let mut command = pyrograph();
            let command = command.env("XDG_CACHE_HOME", &cache).arg("fold").args(options);
            String::from_utf8(run(command.arg(&data)).stdout).expect("text")
        };
        let without = folded(&["--no-cache"]);
        assert!(!kept.exists());
        let first = folded(&[]);
        assert!(kept.exists() && without.contains("read"), "{without}");
        assert!(without == first && first == folded(&[]), "with and without what was kept");
    });
}
