//! Recordings whose contents several tests look at: each is made once for a build.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::perf::{run_perf, until_perf_ends_well};
use super::{binary, compile, kept, pyrograph, run};

/// The folder of a recording, which `make` fills where this build has none; `make` returns false if that cannot be done here.
/// Other tests, be they threads or processes, wait meanwhile.
fn once(name: &str, make: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let all = kept().join("recorded");
    fs::create_dir_all(&all).expect("a folder");
    let lock = File::options().create(true).append(true).open(all.join(format!("{name}.lock")));
    let lock = lock.expect("a file to lock");
    lock.lock().expect("files here can be locked");
    // Of the program, and of the test that says how it is recorded.
    let mut hasher = DefaultHasher::new();
    for built in [binary(), std::env::current_exe().expect("a path")] {
        built.metadata().and_then(|of| of.modified()).expect("a time").hash(&mut hasher);
    }
    let folder = all.join(format!("{name}-{:016x}", hasher.finish()));
    let done = folder.join("done");
    if !done.exists() {
        let old = fs::read_dir(&all).expect("own folder").flatten().map(|entry| entry.path());
        for old in old.filter(|old| old.to_string_lossy().contains(&format!("/{name}-"))) {
            fs::remove_dir_all(old).expect("own folder");
        }
        fs::create_dir(&folder).expect("own folder");
        if !make(&folder) {
            return None;
        }
        fs::write(done, "").expect("own folder");
    }
    Some(folder)
}

/// Records `split.c`, whose split is known, by an engine, user mode alone, as numbers of samples by stack: some 5,000 in a second
/// of CPU time, of which one standard deviation of a share is 0.7 points at most.
pub fn split(engine: &str) -> PathBuf {
    let folder = once(&format!("split-{engine}"), |folder| {
        let flags = ["gcc", "-O2", "-g", "-fomit-frame-pointer"];
        let program = compile(&flags, "split.c", folder);
        let mut record = pyrograph();
        record.args(["record", "-u", "-F", "4999", "--count", "samples", "--engine", engine, "-o"]);
        record.arg(folder.join("split.folded")).arg("-o").arg(folder.join("split.pb.gz"));
        run(record.arg("--").arg(program).arg("1500"));
        true
    });
    folder.expect("it can be recorded").join("split.folded")
}

/// A recording by `perf`, and what `perf script` prints of it.
pub struct OfPerf {
    pub program: PathBuf,
    pub data: PathBuf,
    /// Without inlined calls, for which perf asks `addr2line`.
    pub text: PathBuf,
}

/// A recording by `perf record` with these options; none, which is said, if that is not possible here. One that perf 6.1 cannot
/// read without an abort is made anew.
fn of_perf(name: &str, source: &str, options: &[&str], words: &[&str]) -> Option<OfPerf> {
    let compiled = |folder: &Path| folder.join(source.replace('.', "_"));
    let folder = once(name, |folder| {
        let program = compiled(folder);
        let flags = FLAGS.iter().find(|(of, _)| *of == source).expect("a program of these").1;
        compile(flags, source, folder);
        until_perf_ends_well(name, || {
            let (data, text) = (folder.join("perf.data"), folder.join("perf.txt"));
            // Other tests load programs into the kernel, which may be gone before perf asks for their names.
            let has_foreign = |text: &[u8]| {
                String::from_utf8_lossy(text).lines().any(|line| {
                    let in_kernel = line.trim_start().starts_with("ffff");
                    in_kernel && (line.contains("[unknown]") || line.contains("bpf_prog_"))
                })
            };
            for attempt in 0..5 {
                let mut perf = Command::new("perf");
                perf.args(["record", "-q", "-N"]).args(options).arg("-o").arg(&data).arg("--");
                run_perf(perf.arg(&program).args(words));
                let mut script = Command::new("perf");
                let printed =
                    run_perf(script.args(["script", "--no-inline", "-i"]).arg(&data)).stdout;
                if attempt < 4 && has_foreign(&printed) {
                    continue;
                }
                fs::write(text, printed).expect("own folder");
                return;
            }
        })
    })?;
    let (data, text) = (folder.join("perf.data"), folder.join("perf.txt"));
    Some(OfPerf { program: compiled(&folder), data, text })
}

/// The programs and how they are compiled.
const FLAGS: [(&str, &[&str]); 3] = [
    // Four threads with odd names, which compute and open files.
    ("named_threads.c", &["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"]),
    // Known calls, and some page faults; as often as its argument says.
    ("calls.c", &["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]),
    // Hot functions with inlined calls.
    ("annotate.c", &["gcc", "-O2", "-g"]),
];

/// Threads, by frame pointers.
pub fn threads_by_frame_pointers() -> Option<OfPerf> {
    of_perf("threads-fp", "named_threads.c", &["-F", "999", "-e", "cpu-clock", "-g"], &[])
}

/// Threads, with two events.
pub fn threads_with_two_events() -> Option<OfPerf> {
    let events = ["-F", "2999", "-e", "cpu-clock,page-faults", "-g"];
    of_perf("threads-two", "named_threads.c", &events, &[])
}

/// Threads, without stacks.
pub fn threads_without_stacks() -> Option<OfPerf> {
    of_perf("threads-bare", "named_threads.c", &["-F", "999", "-e", "cpu-clock"], &[])
}

/// Calls, by frame pointers: some hundred samples.
pub fn calls_by_frame_pointers() -> Option<OfPerf> {
    of_perf("calls-fp", "calls.c", &["-F", "2999", "-e", "cpu-clock", "-g"], &["1500"])
}

/// Calls, with two events.
pub fn calls_with_two_events() -> Option<OfPerf> {
    let events = ["-F", "2999", "-e", "cpu-clock,page-faults", "-g"];
    of_perf("calls-two", "calls.c", &events, &["1500"])
}

/// A program to annotate, by frame pointers.
pub fn annotate_by_frame_pointers() -> Option<OfPerf> {
    of_perf("annotate-fp", "annotate.c", &["-F", "4999", "-e", "cpu-clock", "-g"], &[])
}
