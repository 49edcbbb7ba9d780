//! Waits of functions of interpreted languages, against the clocks that the functions read themselves.

use crate::common::in_kernel::value_of;
use crate::common::interpreters::write;
use crate::common::{Folded, is_root, run, sharp};
use crate::languages::recorder;

/// Waits are under the function that waits, with the kernel's frames, and sum up to what the program measured: elapsed time
/// without the thread's time on a CPU. Two threads that compute wait for each other's lock of the interpreter.
#[test]
fn waits_have_their_shares_under_the_functions_that_wait() {
    if !is_root("waits_have_their_shares_under_the_functions_that_wait") {
        return;
    }
    const SCRIPT: &str = "
import os, threading, time
def waited():
    while True:
        start = time.perf_counter_ns(); ran = time.thread_time_ns()
        if time.perf_counter_ns() - start < 500000: return start - ran
def naps():
    start = waited()
    for i in range(40): time.sleep(0.02)
    return waited() - start
def reads():
    start = waited()
    while os.read(r, 1): pass
    return waited() - start
def say(name, f): os.write(1, f'{name} {f()}\\n'.encode())
r, w = os.pipe()
reader = threading.Thread(target=lambda: say('reads', reads)); reader.start()
say('naps', naps)
for i in range(20): time.sleep(0.02); os.write(w, b'x')
os.close(w); reader.join()
def compute():
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end: pass
def first(): start = waited(); compute(); return waited() - start
def second(): start = waited(); compute(); return waited() - start
other = threading.Thread(target=lambda: say('first', first)); other.start()
say('second', second); other.join()
";
    const PERL_SCRIPT: &str = "
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_THREAD_CPUTIME_ID);
sub waited {
    my ($start, $ran);
    do {
        $start = clock_gettime(CLOCK_MONOTONIC);
        $ran = clock_gettime(CLOCK_THREAD_CPUTIME_ID);
    } while clock_gettime(CLOCK_MONOTONIC) - $start > 0.0005;
    $start - $ran
}
sub naps { my $start = waited(); select undef, undef, undef, 0.02 for 1 .. 40; waited() - $start }
sub reads { my $start = waited(); 1 while sysread $r, my $b, 1; waited() - $start }
sub say { my ($name, $f) = @_; printf \"%s %d\\n\", $name, $f->() * 1e9 }
$| = 1; pipe $r, $w;
if (!fork) { close $r; for (1 .. 20) { select undef, undef, undef, 0.02; syswrite $w, 'x' } exit }
close $w; say('reads', \\&reads); say('naps', \\&naps);
";
    let folder = tempfile::tempdir().expect("a folder");
    let scripts = [
        ("/usr/bin/python3", write(folder.path(), "waits.py", SCRIPT), "", 4),
        ("/usr/bin/perl", write(folder.path(), "waits.pl", PERL_SCRIPT), "main::", 2),
    ];
    for (interpreter, script, prefix, functions) in scripts {
        let out = folder.path().join("waits.folded");
        let output = run(recorder(&out, &["--off-cpu"]).arg(interpreter).arg(&script));
        let folded = Folded::read(&out);
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let (function, measured) = line.split_once(' ').expect("a name and a time");
            let measured: f64 = measured.parse().expect("nanoseconds");
            let found = value_of(&folded, &format!("{prefix}{function}"));
            // A function reads the clocks itself, first and last: what it waits for meanwhile is within it. On a busy machine a thread may
            // lose its CPU after it.
            let most = 0.02 * measured + sharp(20e6, 1e6);
            assert!(
                (found - measured).abs() < most,
                "{interpreter} {function}: {found} and {measured}"
            );
            let in_kernel = folded.share(|stack| {
                stack.iter().any(|frame| *frame == format!("{prefix}{function}"))
                    && stack.iter().any(|frame| frame == "do_syscall_64")
            });
            assert!(in_kernel > 0.0, "{interpreter} {function}: {:?}", folded.leaves());
        }
        assert_eq!(text.lines().count(), functions, "{text}");
    }
}
