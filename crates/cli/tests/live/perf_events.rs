//! Tracepoints and probes in `perf.data` and in `perf script`'s text: their events one by one, with
//! names, times, threads and fields, and their stacks must be the same both ways. Tests are skipped
//! where there is no `perf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::perf::{agreement, fold, fold_script, perf_script, run_perf, with_perf_as_root};
use crate::common::{Folded, pyrograph, run};
use pyrograph_format::{Input, events};

/// An event with all its values as text.
#[derive(Debug)]
struct Event {
    name: String,
    /// In microseconds, as `perf script` prints it.
    time: u64,
    cpu: Option<u32>,
    tid: Option<i32>,
    comm: String,
    fields: Vec<(String, String)>,
}

impl Event {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }
}

fn read(path: &Path) -> Vec<Event> {
    let head = Input::open(path).expect("it is there").begin().expect("it can be read");
    let mut found = Vec::new();
    let mut last = 0;
    let warnings = events(head, &mut |event| {
        let time = event.time.expect("a time");
        assert!(last <= time, "the order is that of time");
        last = time;
        let fields = event.fields.iter();
        found.push(Event {
            name: event.name.to_owned(),
            time: time / 1000,
            cpu: event.cpu,
            tid: event.tid,
            comm: event.comm.to_owned(),
            fields: fields.map(|it| (it.name.to_owned(), it.value.to_string())).collect(),
        });
    });
    assert!(!warnings.expect("events").any_loss());
    found
}

/// The events of a recording. They must be those of the text that `perf script` makes of it, but for
/// fields that the text does not name.
fn both(data: &Path) -> Vec<Event> {
    let (mut ours, mut theirs) = (read(data), read(&perf_script(data, &[])));
    assert!(!ours.is_empty());
    assert_eq!(ours.len(), theirs.len());
    // Where times are equal, the two may differ in the order.
    for list in [&mut ours, &mut theirs] {
        list.sort_by(|a, b| (a.time, a.cpu, &a.name).cmp(&(b.time, b.cpu, &b.name)));
    }
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!((our.time, our.cpu, our.tid), (their.time, their.cpu, their.tid));
        assert_eq!(our.name, their.name);
        // Of a thread that is nearly gone perf forgets the name.
        assert!(our.comm == their.comm || their.comm.starts_with(':'), "{our:?} {their:?}");
        for (name, value) in &their.fields {
            let our_value = our.field(name).unwrap_or_else(|| panic!("no {name} in {our:?}"));
            assert_eq!(plain(our_value), plain(value), "{name} of {our:?}");
        }
    }
    // Fields that the text does not name are only in the file.
    assert!(theirs.iter().all(|event| !event.fields.is_empty()), "{theirs:?}");
    read(data)
}

/// `001` and `0x1` are a matter of printing.
fn plain(value: &str) -> String {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.map_or_else(|_| value.to_owned(), |number| number.to_string())
}

fn record(folder: &Path, tool: &[&str], command: &[&str]) -> PathBuf {
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    run_perf(perf.args(tool).args(["record", "-q", "-N", "-o"]).arg(&data).arg("--").args(command));
    data
}

fn record_events(folder: &Path, events: &str, command: &[&str]) -> PathBuf {
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    // Buffers for whatever the machine does while perf does not run.
    perf.args(["record", "-q", "-N", "-a", "-m", "4M", "-e", events, "-o"]).arg(&data).arg("--");
    run_perf(perf.args(command));
    data
}

/// Folds each event of a recording both ways: each name must have as many samples. Without
/// callchains perf's text shows no function at all.
fn by_name_alike(data: &Path) {
    let names = |folded: &Folded| {
        let mut sums = BTreeMap::<String, f64>::new();
        for (stack, value) in &folded.stacks {
            // The text cannot hold blanks, and its names of what is gone are numbers.
            let name = stack[0].replace(' ', "_");
            *sums.entry(name).or_default() += value;
        }
        sums
    };
    let info = run(pyrograph().args(["info", "--json"]).arg(data)).stdout;
    let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
    let mut total = 0.0;
    for event in info["events"].as_array().expect("events") {
        let name = event["name"].as_str().expect("a name");
        if event["samples"] == 0 {
            continue;
        }
        // A sample of `sched_stat_runtime` counts for the time that it has; the text has no such
        // number.
        let options = ["--event-filter", name, "--count", "samples"];
        let (ours, theirs) = (fold(data, &options), fold_script(data, &options));
        assert_eq!(ours.total(), theirs.total(), "{name}");
        total += ours.total();
        let (ours, theirs) = (names(&ours), names(&theirs));
        let gone: f64 = theirs.iter().filter(|it| it.0.starts_with(':')).map(|it| it.1).sum();
        let differ: f64 = theirs
            .iter()
            .filter(|(name, _)| !name.starts_with(':'))
            .map(|(name, value)| (value - ours.get(name).copied().unwrap_or(0.0)).abs())
            .sum();
        assert!(differ <= gone, "{name}: {ours:?} {theirs:?}");
    }
    assert_eq!(info["samples"].as_f64(), Some(total));
}

#[test]
fn block_io_and_its_end() {
    with_perf_as_root("block I/O", |folder| {
        let file = folder.join("written");
        let write = format!("dd if=/dev/zero of={} bs=64k count=10 conv=fsync", file.display());
        let command = format!("{write}; {write}; sleep 0.1");
        let found = both(&record_events(
            folder,
            "block:block_rq_issue,block:block_rq_complete",
            &["sh", "-c", &command],
        ));
        let issued = |event: &&Event| event.name == "block:block_rq_issue";
        // A file system in memory writes to no device.
        if !found.iter().any(|event| issued(&event)) {
            eprintln!("skipped: block I/O needs a temporary folder on a disk");
            return;
        }
        let of_file = |event: &&Event| event.field("bytes") == Some("655360");
        assert!(found.iter().filter(issued).any(|event| of_file(&event)), "{found:?}");
        assert!(found.iter().filter(issued).all(|event| event.field("bytes").is_some()));
    });
}

#[test]
fn the_scheduler() {
    with_perf_as_root("the scheduler", |folder| {
        let found = both(&record_events(
            folder,
            "sched:sched_switch,sched:sched_wakeup",
            &["sh", "-c", "for i in 1 2 3; do sleep 0.02; done"],
        ));
        let switches = || found.iter().filter(|event| event.name == "sched:sched_switch");
        let slept = |event: &&Event| {
            event.field("prev_comm") == Some("sleep") && event.field("prev_state") == Some("S")
        };
        assert!(switches().filter(slept).count() >= 3);
        // Who leaves is who runs; a thread that is nearly gone has no number in the event.
        for event in switches().filter(|event| event.tid != Some(-1)) {
            assert_eq!(event.field("prev_pid"), event.tid.map(|tid| tid.to_string()).as_deref());
        }
    });
}

#[test]
fn recorded_by_perf_sched() {
    with_perf_as_root("perf sched", |folder| {
        let sleep = ["sh", "-c", "for i in 1 2 3; do sleep 0.02; done"];
        let data = record(folder, &["sched"], &sleep);
        by_name_alike(&data);
        let found = read(&data);
        let runtimes = found.iter().filter(|event| event.name == "sched:sched_stat_runtime");
        let of_sleep = runtimes.filter(|event| event.field("comm") == Some("sleep"));
        let sum: u64 = of_sleep
            .map(|event| event.field("runtime").expect("it").parse::<u64>().expect("ns"))
            .sum();
        assert!(sum > 10_000, "three programs start in {sum} ns?");
    });
}

#[test]
fn recorded_by_perf_trace() {
    with_perf_as_root("perf trace", |folder| {
        let data = record(folder, &["trace"], &["ls", "/usr"]);
        by_name_alike(&data);
        let found = both(&data);
        let enters = found.iter().filter(|event| event.name == "raw_syscalls:sys_enter");
        let write = libc::SYS_write.to_string();
        let standard_output = |event: &&Event| {
            let arguments = event.field("args").unwrap_or_default();
            event.field("id") == Some(&write) && arguments.starts_with("1,")
        };
        assert!(enters.filter(standard_output).count() >= 1, "ls prints something");
    });
}

/// Probes of a program's functions and of what they return.
#[test]
fn probes() {
    /// Deletes what `perf probe` adds, however the test ends.
    struct Probes(String);

    impl Drop for Probes {
        fn drop(&mut self) {
            let mut perf = Command::new("perf");
            let _ = perf.args(["probe", "-q", "-d", &format!("{}:*", self.0)]).status();
        }
    }

    with_perf_as_root("probes", |folder| {
        let flags = ["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
        let program = crate::common::compile(&flags, "calls.c", folder);
        let group = Probes(format!("pyrograph_{}", std::process::id()));
        for probe in ["spin=spin n", "spun=spin%return $retval"] {
            let mut perf = Command::new("perf");
            perf.args(["probe", "-q", "-x"]).arg(&program).arg(format!("{}:{probe}", group.0));
            if !perf.status().is_ok_and(|status| status.success()) {
                eprintln!("skipped: probes need perf with debug information");
                return;
            }
        }
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-m", "4M", "-g", "-e", &format!("{}:*", group.0), "-o"])
            .arg(&data);
        run_perf(perf.arg("--").arg(&program).arg("8000"));
        // Programs in the kernel get registers of these, and no record.
        for engine in ["ebpf", "perf"] {
            let out = folder.join("probes.folded");
            let mut record = pyrograph();
            record.args([
                "record",
                "--exact",
                "--engine",
                engine,
                "-e",
                &format!("{}:spin", group.0),
            ]);
            run(record.arg("-o").arg(&out).arg("--").arg(&program).arg("800"));
            let calls = Folded::read(&out);
            assert_eq!((calls.total(), calls.total_share("main")), (1600.0, 100.0), "{engine}");
        }
        drop(group);

        let names: Vec<String> = {
            let info = run(pyrograph().args(["info", "--json"]).arg(&data)).stdout;
            let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
            let events = info["events"].as_array().expect("events").iter();
            events.map(|event| event["name"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(names.len(), 2, "{names:?}");
        for name in &names {
            let options = ["--event-filter", name];
            let (ours, theirs) = (fold(&data, &options), fold_script(&data, &options));
            assert_eq!(ours.total(), theirs.total(), "{name}");
            // perf 6.1 now and then has one more, in its own text as well.
            assert!((16_000.0..=16_002.0).contains(&ours.total()), "{name}: {}", ours.total());
            let agreement = agreement(&ours, &theirs);
            assert!(agreement >= 99.0, "{name}: {agreement:.2} %");
        }
        let found = both(&data);
        let with = |value: &str| {
            found
                .iter()
                .filter(|event| event.field("n").is_some_and(|it| plain(it) == value))
                .count()
        };
        assert_eq!((with("100000"), with("50000")), (8000, 8000));
    });
}
