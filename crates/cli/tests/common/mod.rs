//! Helpers of the tests that record.

pub mod in_kernel;
pub mod interpreters;
pub mod perf;
pub mod perf_sched;
pub mod permitted;
pub mod pprof;
pub mod recorded;
pub mod terminal;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The folder of an archive that `.ci/elsewhere` made, for tests on a machine without sources and compilers.
fn archive() -> Option<PathBuf> {
    std::env::var_os("PYROGRAPH_ELSEWHERE").map(PathBuf::from)
}

/// The folder of this package, for data of tests.
pub fn package() -> PathBuf {
    archive().unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
}

/// A folder for files that tests keep from run to run.
pub fn kept() -> PathBuf {
    skip_if_refused();
    archive().map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), |archive| archive.join("kept"))
}

/// All tests in `live` record.
fn skip_if_refused() {
    if env!("CARGO_CRATE_NAME") == "live" {
        permitted::or_skip();
    }
}

/// The program that is tested.
pub fn binary() -> PathBuf {
    skip_if_refused();
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_pyrograph"));
    archive().map_or_else(built, |archive| archive.join("pyrograph"))
}

/// The programs that are recorded.
pub fn program_source(name: &str) -> PathBuf {
    package().join("tests/programs").join(name)
}

/// Compiles a program of the tests without a library for 32 bits; none, which is said, where that is not possible.
pub fn compile32(source: &str, folder: &Path) -> Option<PathBuf> {
    let program = folder.join("program32");
    let mut command = Command::new("gcc");
    command
        .args(["-m32", "-nostdlib", "-static", "-O1", "-fno-pie", "-no-pie", "-o"])
        .arg(&program);
    if command.arg(program_source(source)).output().is_ok_and(|done| done.status.success()) {
        return Some(program);
    }
    eprintln!("skipped: gcc makes no 32-bit programs here");
    None
}

/// Compiles a test program; `compiler` with its flags, the source's name, and where to put it. It is compiled once, and copied
/// from then on.
pub fn compile(compiler: &[&str], source: &str, folder: &Path) -> PathBuf {
    let program = folder.join(source.replace('.', "_"));
    let path = program_source(source);
    let of_this_folder = |flag: &&str| flag.contains(folder.to_string_lossy().as_ref());
    if compiler.iter().any(of_this_folder) {
        run(Command::new(compiler[0]).args(&compiler[1..]).arg("-o").arg(&program).arg(path));
        return program;
    }
    let mut hasher = DefaultHasher::new();
    (compiler, std::fs::read(&path).expect("a source")).hash(&mut hasher);
    for header in ["breakpoints.h", "clock.h", "spin.h", "units.h"] {
        std::fs::read(program_source(header)).expect("a header").hash(&mut hasher);
    }
    let compiled = kept().join(format!("programs/{source}-{:016x}", hasher.finish()));
    if !compiled.exists() {
        std::fs::create_dir_all(kept().join("programs")).expect("a folder");
        // Other tests, threads or processes, may compile it as well. In a folder: other users may run what a compiler makes,
        // and not what it writes over a temporary file.
        let own = tempfile::tempdir_in(kept().join("programs")).expect("a folder");
        let own = own.path().join("program");
        run(Command::new(compiler[0]).args(&compiler[1..]).arg("-o").arg(&own).arg(path));
        std::fs::rename(&own, &compiled).expect("a folder of the same file system");
    }
    std::fs::copy(&compiled, &program).expect("a copy");
    program
}

/// Puts the classes of a Java program into a folder, for virtual machines of version 11 and later; false, where there is no JDK. It
/// is compiled once, and copied from then on.
pub fn compile_java(source: &str, folder: &Path) -> bool {
    let path = program_source(source);
    let mut hasher = DefaultHasher::new();
    std::fs::read(&path).expect("a source").hash(&mut hasher);
    let compiled = kept().join(format!("programs/{source}-{:016x}", hasher.finish()));
    if !compiled.exists() {
        std::fs::create_dir_all(kept().join("programs")).expect("a folder");
        let own = tempfile::tempdir_in(kept().join("programs")).expect("a folder");
        let mut javac = Command::new("javac");
        javac.args(["--release", "11", "-d"]).arg(own.path()).arg(path);
        match javac.output() {
            Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
            Err(_) => return false,
        }
        // Another test may have been first.
        let _ = std::fs::rename(own.path(), &compiled);
    }
    for class in std::fs::read_dir(&compiled).expect("a folder") {
        let class = class.expect("a file");
        std::fs::copy(class.path(), folder.join(class.file_name())).expect("a copy");
    }
    true
}

/// A copy of `pyrograph` in a folder, which gets these permissions: the build's own may be closed to other users.
pub fn binary_for_others(folder: &Path, mode: u32) -> PathBuf {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(folder, mode).expect("own folder");
    let copy = folder.join("pyrograph");
    if !copy.exists() {
        std::fs::copy(binary(), &copy).expect("a copy");
    }
    copy
}

/// A program as `nobody`, a user without privileges, who must be able to reach it.
pub fn as_nobody(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// `pyrograph` as it was built for this test. What it keeps stays below the build's own folder, and so do recordings that are
/// written wherever it runs.
pub fn pyrograph() -> Command {
    let here = kept().join("here");
    std::fs::create_dir_all(&here).expect("a folder");
    let mut command = Command::new(binary());
    command.env("XDG_CACHE_HOME", kept().join("cache")).current_dir(here);
    command
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard error without the lines about files that were written.
pub fn remarks(stderr: &[u8]) -> String {
    let text = text(stderr);
    let is_remark = |line: &&str| !line.starts_with("pyrograph: wrote ");
    text.split_inclusive('\n').filter(is_remark).collect()
}

/// Counts by event and key.
pub type Counts = BTreeMap<(String, String), f64>;

/// The counts in the output of `pyrograph stat --json`.
pub fn counts(output: &Output) -> Counts {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |event: &serde_json::Value| {
        let name = event["event"].as_str().expect("a name").to_owned();
        let key = event["key"].as_str().expect("a key").to_owned();
        ((name, key), event["value"]["mean"].as_f64().expect("a count"))
    };
    value["events"].as_array().expect("events").iter().map(of).collect()
}

/// The sum of an event's counts over all keys.
pub fn of(counts: &Counts, event: &str) -> f64 {
    counts.iter().filter(|((name, _), _)| name == event).map(|(_, count)| count).sum()
}

/// Returns true if this runs as root. If not, says that a test is skipped.
pub fn is_root(test: &str) -> bool {
    // SAFETY: The call takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: {test} needs root");
    }
    root
}

/// Returns true in the nightly run, which has the time for all of what others have a slice of.
pub fn is_nightly() -> bool {
    std::env::var_os("PYROGRAPH_NIGHTLY").is_some()
}

/// The first of some cases; nightly all of them.
pub fn slice<T>(cases: &[T], first: usize) -> &[T] {
    if is_nightly() { cases } else { &cases[..first] }
}

/// The first bound, or the second where `PYROGRAPH_SHARP` is set: a bound that holds on any machine, and one that holds on a
/// machine that does nothing else. `.ci/nightly` sets it, and repeats the tests that measure (`sharp_tests`); most of their names
/// have the word `shares`. (What others share with these may call this, too.)
pub fn sharp<T>(loose: T, sharp: T) -> T {
    if std::env::var_os("PYROGRAPH_SHARP").is_some() { sharp } else { loose }
}

/// Percentage points by which a share of so many samples may be off: six standard deviations, which chance exceeds once in 500
/// million times, and half a point for what a program does beside what is known of it. Tests count samples and not time:
/// the sample after a CPU was taken away stands for all of that time.
pub fn tolerance(percent: f64, samples: f64) -> f64 {
    let part = (percent / 100.0).clamp(0.0, 1.0);
    0.5 + 600.0 * (part * (1.0 - part) / samples.max(1.0)).sqrt()
}

/// How long the host of a virtual machine has kept its CPUs from it, the times of all CPUs added up: the eighth number of the
/// line `cpu` of `/proc/stat`, hundredths of a second. Clocks of CPU time leave this out, and the clock that samples does not.
pub fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel has it");
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    Duration::from_millis(10 * ticks.unwrap_or(0u64))
}

/// Waits until something is so. How long that takes is the machine's affair: the limit is only there
/// for what will never be.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "not yet so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has started this many threads beside its first.
pub fn wait_for_threads(pid: u32, threads: usize) {
    let tasks = format!("/proc/{pid}/task");
    wait_until("it has all its threads", || {
        std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() > threads)
    });
}

/// Waits until `pyrograph stat` has begun to count, and waits for the end itself: in poll(2), which is call 7 of x86-64.
pub fn wait_until_counting(pid: u32) {
    wait_until("it counts", || {
        std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|call| call.starts_with("7 "))
    });
}

/// The CPU time that a process has used. The number of samples depends on this alone, however busy
/// the machine is.
pub fn cpu_time(pid: u32) -> Duration {
    let pid = pid.try_into().expect("a process number");
    let mut clock: libc::clockid_t = 0;
    // SAFETY: The call writes a clock's number to the pointer.
    assert_eq!(unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) }, 0, "process {pid}");
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The call writes a time to the pointer.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0, "process {pid}");
    let seconds = u64::try_from(time.tv_sec).expect("not before it began");
    Duration::new(seconds, time.tv_nsec.try_into().expect("below a second"))
}

/// Records for a second, for two, and so on, until there is enough: what is recorded may get but a
/// fraction of a busy machine, and what is expected of it needs a number of samples.
pub fn record_until(
    enough: impl Fn(&Folded) -> bool,
    mut record: impl FnMut(&str) -> Folded,
) -> Folded {
    let mut last = None;
    for seconds in ["1", "2", "4", "8", "16", "32", "64"] {
        let folded = record(seconds);
        if enough(&folded) {
            return folded;
        }
        last = Some(folded);
    }
    panic!("too few samples: {:?}", last.map(|folded| folded.leaves()));
}

/// Folded text, read back.
pub struct Folded {
    /// Each stack, root first, with its value.
    pub stacks: Vec<(Vec<String>, f64)>,
}

impl Folded {
    /// From the lines of folded text.
    pub fn parse(text: &str) -> Self {
        let stacks = text
            .lines()
            .map(|line| {
                let (stack, value) = line.rsplit_once(' ').expect("a count");
                let value = value.parse().expect("a number");
                (stack.split(';').map(str::to_owned).collect(), value)
            })
            .collect();
        Self { stacks }
    }

    /// Reads a file of folded text.
    pub fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).expect("folded text was written"))
    }

    /// Without what was lost, which is at most this share, in percent: beside other work a reader comes late, and users have little
    /// room for samples.
    pub fn without_lost(mut self, most: f64) -> Self {
        let is_lost = |stack: &[String]| stack.last().is_some_and(|frame| frame == "[lost]");
        let lost = self.share(is_lost);
        assert!(lost <= most, "{lost:.1} % lost of {}", self.total());
        self.stacks.retain(|(stack, _)| !is_lost(stack));
        self
    }

    /// The sum of all values.
    pub fn total(&self) -> f64 {
        self.stacks.iter().map(|(_, value)| value).sum()
    }

    /// The share, in percent, of the stacks that `wanted` chooses.
    pub fn share(&self, wanted: impl Fn(&[String]) -> bool) -> f64 {
        let part: f64 =
            self.stacks.iter().filter(|(stack, _)| wanted(stack)).map(|(_, value)| value).sum();
        if part == 0.0 { 0.0 } else { part * 100.0 / self.total() }
    }

    /// The share, in percent, of stacks with `function` anywhere in them.
    pub fn total_share(&self, function: &str) -> f64 {
        self.share(|stack| stack.iter().any(|frame| frame == function))
    }

    /// The share, in percent, of stacks that end in `function`.
    pub fn self_share(&self, function: &str) -> f64 {
        self.share(|stack| stack.last().is_some_and(|frame| frame == function))
    }

    /// Checks that a share of samples is the known one. The values must be numbers of samples.
    #[track_caller]
    pub fn check_share(&self, what: &str, percent: f64, wanted: impl Fn(&[String]) -> bool) {
        let (found, most) = (self.share(wanted), tolerance(percent, self.total()));
        let leaves = self.leaves();
        assert!(
            (found - percent).abs() <= most,
            "{what}: {found:.1} % of {} samples, known to be {percent} ± {most:.1} %\n{leaves:?}",
            self.total()
        );
    }

    /// The heaviest leaf functions, for messages.
    pub fn leaves(&self) -> Vec<(String, f64)> {
        let mut leaves: HashMap<String, f64> = HashMap::new();
        for (stack, value) in &self.stacks {
            *leaves.entry(stack.last().cloned().unwrap_or_default()).or_default() += value;
        }
        let mut leaves: Vec<_> = leaves.into_iter().collect();
        leaves.sort_by(|a, b| b.1.total_cmp(&a.1));
        leaves.truncate(12);
        leaves
    }
}
