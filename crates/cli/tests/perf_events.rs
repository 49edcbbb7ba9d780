//! Single events of `perf.data` and of `perf script`'s text: names, times, threads and fields must
//! be the same both ways. Tests are skipped where there is no `perf`.

mod common;

use std::path::Path;
use std::process::Command;

use common::perf::{has_perf_as_root, run_perf};
use common::run;
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

/// The events of a recording, and of the text that `perf script` makes of it, which must be the same
/// but for fields that the text does not name.
fn both(folder: &Path, events: &str, command: &[&str]) -> Vec<Event> {
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    run_perf(perf.args(["record", "-q", "-N", "-a", "-e", events, "-o"]).arg(&data).args(command));
    let text = data.with_extension("txt");
    let script = run(Command::new("perf").args(["script", "-i"]).arg(&data)).stdout;
    std::fs::write(&text, script).expect("a temporary file");

    let (mut ours, mut theirs) = (read(&data), read(&text));
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
            // `target_cpu=001` is a matter of printing.
            let plain = |text: &str| text.parse().map_or(text.to_owned(), |it: u64| it.to_string());
            let our_value = our.field(name).map(plain);
            assert_eq!(our_value, Some(plain(value)), "{name} of {our:?}");
        }
    }
    // What the text does not name is only in the file.
    assert!(theirs.iter().all(|event| !event.fields.is_empty()), "{theirs:?}");
    read(&data)
}

#[test]
fn block_io_and_its_end() {
    let Some(_alone) = has_perf_as_root("block I/O") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("written");
    let write = format!("dd if=/dev/zero of={} bs=64k count=10 conv=fsync", file.display());
    let found = both(
        folder.path(),
        "block:block_rq_issue,block:block_rq_complete",
        &["sh", "-c", &format!("{write}; {write}; sleep 0.1")],
    );
    let issued = |event: &&Event| event.name == "block:block_rq_issue";
    // A file system in memory writes to no device.
    if !found.iter().any(|event| issued(&event)) {
        eprintln!("skipped: block I/O needs a temporary folder on a disk");
        return;
    }
    let of_file = |event: &&Event| event.field("bytes") == Some("655360");
    assert!(found.iter().filter(issued).any(|event| of_file(&event)), "{found:?}");
    assert!(found.iter().filter(issued).all(|event| event.field("bytes").is_some()));
}

#[test]
fn the_scheduler() {
    let Some(_alone) = has_perf_as_root("the scheduler") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let found = both(
        folder.path(),
        "sched:sched_switch,sched:sched_wakeup",
        &["sh", "-c", "for i in 1 2 3; do sleep 0.02; done"],
    );
    let switches = || found.iter().filter(|event| event.name == "sched:sched_switch");
    let slept = |event: &&Event| {
        event.field("prev_comm") == Some("sleep") && event.field("prev_state") == Some("S")
    };
    assert!(switches().filter(slept).count() >= 3);
    // Who leaves is who runs; of what is nearly gone the kernel does not tell the thread.
    for event in switches().filter(|event| event.tid != Some(-1)) {
        assert_eq!(event.field("prev_pid"), event.tid.map(|tid| tid.to_string()).as_deref());
    }
}
