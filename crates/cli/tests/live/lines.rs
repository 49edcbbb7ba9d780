//! Lines of native code as frames: of two calls of one function, the one with three times the work takes three quarters.

use std::path::Path;
use std::process::Command;

use crate::common::perf::{run_perf, with_perf};
use crate::common::{Folded, pyrograph, run, text};

const SOURCE: &str = "#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sink += i; sink++; }
int main(void) {
    clock_t end = clock() + CLOCKS_PER_SEC;
    do {
        work(100000);
        work(300000);
    } while (clock() < end);
}
";
/// The line with a quarter of the work.
const LESS: &str = "main (calls.c:7)";
/// The line with the rest.
const MORE: &str = "main (calls.c:8)";

fn check(folded: &Folded, of: &str) {
    let share = |line: &str| folded.share(|stack| stack.iter().any(|frame| frame == line));
    let (less, more) = (share(LESS), share(MORE));
    assert!((20.0..30.0).contains(&less), "{of}: {less:.1} % in {LESS}");
    assert!((70.0..80.0).contains(&more), "{of}: {more:.1} % in {MORE}");
}

fn program(folder: &Path) -> std::path::PathBuf {
    let (source, program) = (folder.join("calls.c"), folder.join("calls"));
    std::fs::write(&source, SOURCE).expect("a source");
    run(Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(source));
    program
}

#[test]
fn lines_of_native_code_are_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let record = |options: &[&str]| {
        let mut command = pyrograph();
        command.args(["record", "-q", "-u", "-F", "1999", "--to", "folded"]).args(options);
        Folded::parse(&text(&run(command.arg("--").arg(&program)).stdout))
    };
    check(&record(&["--lines", "--engine", "perf"]), "record --lines");
    let without = record(&["--engine", "perf"]);
    let has_lines = |stack: &[String]| stack.iter().any(|frame| frame.contains(".c:"));
    assert!(without.share(has_lines) == 0.0, "lines that nobody asked for");
}

#[test]
fn lines_of_native_code_in_perf_data_are_frames() {
    with_perf("lines of native code", |folder| {
        let program = program(folder);
        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "1999", "-e", "cpu-clock:u"]);
        run_perf(perf.args(["--call-graph", "dwarf", "-o"]).arg(&data).arg("--").arg(&program));
        let fold = run(pyrograph().args(["fold", "--lines"]).arg(&data));
        check(&Folded::parse(&text(&fold.stdout)), "fold --lines");
        let picture = run(pyrograph().args(["flamegraph", "--lines"]).arg(&data));
        let picture = text(&picture.stdout);
        assert!(picture.contains(LESS) && picture.contains(MORE), "no lines in the picture");
    });
}
