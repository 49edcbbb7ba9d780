//! Two builds of one program, whose compilers number clones, lambdas and lines in another way: no function is gone, and none
//! is new. Each test first shows that it is so by the texts of the names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{compile, is_root, pyrograph, run, text};

/// The share from which on a function counts: a sample or two of start and end may be anywhere.
const LEAST: f64 = 0.02;

const CPP: &str = r#"
#include <ctime>
volatile unsigned long sink;
#define APART __attribute__((noinline))
static void spin(long n) { for (long i = 0; i < n; i++) sink += i * 7; }
namespace shop {
APART void price(int n) { spin(n); }
APART void price(double n) { spin(3 * (long)n); }
struct Cart { long k; APART Cart(long n) : k(n) { spin(n); } APART virtual ~Cart() { spin(k); } };
struct Gift : Cart { APART Gift(long n) : Cart(n) { spin(n); } APART ~Gift() { spin(k); } };
template <class F> APART void apply(F f) { f(); sink++; }
}
UNUSED
APART static long clone(long n, long by) { for (long i = 0; i < n; i += by) sink += i; return n; }
int main() {
    BEFORE
    clock_t end = clock() + CLOCKS_PER_SEC;
    do {
        shop::price(100000);
        shop::price(100000.0);
        { shop::Gift gift(50000); }
        shop::apply([] { spin(150000); });
        clone(200000, 1);
    } while (clock() < end);
}
"#;

const RUST: &str = r#"
use std::hint::black_box;
use std::time::{Duration, Instant};
#[inline(never)]
fn spin(count: u64) { for at in 0..count { black_box(at * 7); } }
#[inline(never)]
fn apply<F: Fn()>(work: F) { work(); black_box(0); }
UNUSED
struct Cart { count: u64 }
impl Cart {
    #[inline(never)]
    fn add(&self) { spin(self.count); black_box(1); }
}
impl Drop for Cart {
    #[inline(never)]
    fn drop(&mut self) { spin(self.count); black_box(2); }
}
fn main() {
    BEFORE
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        Cart { count: 100_000 }.add();
        apply(|| { spin(100_000); black_box(3); });
    }
}
"#;

const JAVA: &str = r#"
public class Shop {
    interface Work { int run(int n); }
    static volatile int sink;
    static int spin(int n) { for (int i = 0; i < n; i++) { sink += i * 7; } return n; }
    static void apply(Work work) { work.run(20000); }
    public static void main(String[] args) {
        BEFORE
        long end = System.nanoTime() + 1_500_000_000L;
        Work anonymous = new Work() {
            public int run(int n) {
                class Local { int add() { int sum = 0; for (int i = 0; i < n; i++) { sum += i * 3; } return sum; } }
                return new Local().add() + spin(n);
            }
        };
        Work lambda = n -> { int sum = 0; for (int i = 0; i < n; i++) { sum += i * 5; } return sum + spin(n); };
        while (System.nanoTime() < end) {
            apply(anonymous);
            apply(lambda);
        }
    }
}
"#;

/// A build of the source with something else in these places.
fn source(folder: &Path, name: &str, text: &str, places: [&str; 2]) -> PathBuf {
    let path = folder.join(name);
    let text = text.replace("UNUSED", places[0]).replace("BEFORE", places[1]);
    std::fs::write(&path, text).expect("a source");
    path
}

fn record(program: &Path, profile: &Path) {
    run(pyrograph()
        .args(["record", "-q", "--engine", "perf", "-u", "--no-inline", "-F", "1999", "-o"])
        .arg(profile)
        .arg("--")
        .arg(program));
}

/// The functions that are gone or new in a comparison.
fn gone_or_new(profiles: &[PathBuf; 2], options: &[&str]) -> BTreeSet<String> {
    let output = pyrograph()
        .args(["diff", "--json", "--limit", "0"])
        .args(options)
        .args(profiles)
        .output()
        .expect("it runs");
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = table["functions"].as_array().expect("functions").iter();
    let is_one = |of: &&Value| {
        let share = |side: &str| of[side]["rate"].as_f64().expect("a share");
        let is_moved = of["is"] == "gone" || of["is"] == "new";
        is_moved && share("before").max(share("after")) >= LEAST
    };
    functions.filter(is_one).map(|of| of["function"].as_str().expect("a name").to_owned()).collect()
}

fn check(folder: &Path, builds: [Command; 2]) {
    let mut number = 0;
    let profiles = builds.map(|mut compiler| {
        number += 1;
        let own = folder.join(number.to_string());
        std::fs::create_dir(&own).expect("a folder");
        let program = own.join("shop");
        run(compiler.arg("-o").arg(&program));
        let profile = own.join("profile.pb.gz");
        record(&program, &profile);
        profile
    });
    compare(&profiles, "");
}

/// Compares functions with this in their names.
fn compare(profiles: &[PathBuf; 2], own: &str) {
    let own = |mut names: BTreeSet<String>| {
        names.retain(|name| name.contains(own));
        names
    };
    let raw = own(gone_or_new(profiles, &["--names", "raw"]));
    assert!(!raw.is_empty(), "the builds number nothing in another way");
    let unlike = own(gone_or_new(profiles, &[]));
    assert!(unlike.is_empty(), "gone or new: {unlike:?}; by text: {raw:?}");
}

fn has(compiler: &str) -> bool {
    let runs = Command::new(compiler).arg("--version").output().is_ok();
    if !runs {
        eprintln!("skipped: there is no {compiler}");
    }
    runs
}

fn command(program: &str, arguments: &[&str], source: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(source);
    command
}

#[test]
fn two_builds_of_a_program_in_cpp_have_the_same_functions() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = source(folder, "a.cpp", CPP, ["", ""]);
    let more =
        "\n\nAPART long other() { auto one = [] { spin(1); }; shop::apply(one); return 1; }\n";
    let lambda = "auto unused = [] { spin(1); }; if (sink == 1) shop::apply(unused);";
    let second = source(folder, "b.cpp", CPP, [more, lambda]);
    let flags = ["-O2", "-g"];
    let other = ["-O2", "-g", "-fno-ipa-cp", "-fno-ipa-sra"];
    check(folder, [command("g++", &flags, first), command("g++", &other, second)]);
}

#[test]
fn two_builds_of_a_program_in_rust_have_the_same_functions() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if !has(&rustc) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let first = source(folder, "shop.rs", RUST, ["", ""]);
    let lambda = "if black_box(0) == 1 { apply(|| spin(1)); }";
    let again = folder.join("again");
    std::fs::create_dir(&again).expect("a folder");
    let second = source(&again, "shop.rs", RUST, ["\n\n\n", lambda]);
    let edition = ["--edition", "2021", "-O", "-g", "-C"];
    let one = [&edition[..], &["metadata=one", "-C", "symbol-mangling-version=v0"]].concat();
    let two = [&edition[..], &["metadata=two", "-C", "symbol-mangling-version=v0"]].concat();
    check(folder, [command(&rustc, &one, first), command(&rustc, &two, second)]);
}

/// javac counts anonymous and local classes, and lambdas; the virtual machine counts the classes of lambdas.
#[test]
fn two_builds_of_a_program_in_java_have_the_same_functions() {
    if !is_root("two_builds_of_a_program_in_java_have_the_same_functions") || !has("javac") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let more = "Work more = new Work() { public int run(int n) { class Local {} return n; } }; apply(more);
        Runnable other = () -> {}; other.run();";
    let builds = [("one", ""), ("two", more)];
    let profiles = builds.map(|(name, more)| {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).expect("a folder");
        let source = source(&own, "Shop.java", JAVA, ["", more]);
        run(command("javac", &["-d"], own.clone()).arg(source));
        let profile = own.join("profile.pb.gz");
        let mut record = pyrograph();
        record.args(["record", "-q", "--engine", "ebpf", "--no-attach", "-F", "1999", "-o"]);
        run(record.arg(&profile).args(["--", "java", "-Xint", "-cp"]).arg(&own).arg("Shop"));
        profile
    });
    // How much of a run is the virtual machine's start depends on the machine.
    compare(&profiles, "Shop");
}

/// The program in C++, compiled.
fn shop(folder: &Path) -> PathBuf {
    let program = folder.join("shop");
    let source = source(folder, "a.cpp", CPP, ["", ""]);
    run(command("g++", &["-O1", "-g"], source).arg("-o").arg(&program));
    program
}

#[test]
fn overloads_were_one_function() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = shop(folder);
    let profile = folder.join("profile.pb.gz");
    record(&program, &profile);
    let fold = |options: &[&str]| {
        let output = run(pyrograph().arg("fold").args(options).arg(&profile));
        text(&output.stdout)
    };
    let names = fold(&[]);
    for name in ["shop::price(int)", "shop::price(double)"] {
        assert!(names.contains(name), "{name}: {names}");
    }
    // What needs no parameters has none, as in folded text ever since; the full form has them.
    assert!(names.contains(";shop::Gift::Gift"), "{names}");
    assert!(!names.contains("shop::Gift::Gift("), "{names}");
    assert!(fold(&["--names", "full"]).contains("shop::Gift::Gift(long)"));
    let picture = text(&run(pyrograph().arg("flamegraph").arg(&profile)).stdout);
    let details = picture.split("<title>").find(|title| title.starts_with("shop::Gift::Gift\n"));
    assert!(
        details.is_some_and(|title| title.contains("\nshop::Gift::Gift(long)\n")),
        "{details:?}"
    );
    let report = text(&run(pyrograph().arg("report").arg(&profile)).stdout);
    assert!(report.contains("Gift::Gift") && !report.contains("shop::Gift::Gift"), "{report}");
}

/// A stack cannot tell which of them was called.
#[test]
fn functions_with_the_same_code_say_so() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = compile(&["g++", "-O1", "-g"], "same_code.cpp", folder);
    let [profile, page] = ["profile.pb.gz", "page.html"].map(|name| folder.join(name));
    run(pyrograph()
        .args(["record", "-o"])
        .arg(&profile)
        .arg("-o")
        .arg(&page)
        .arg("--")
        .arg(&program));
    for input in [&profile, &page] {
        let fold =
            |form: &str| text(&run(pyrograph().args(["fold", "--names", form]).arg(input)).stdout);
        assert!(fold("full").contains(";packs [same code as sends]"), "{}", fold("full"));
        for form in ["raw", "short", "identity"] {
            let names = fold(form);
            assert!(names.contains(";packs") && !names.contains("same code"), "{form}: {names}");
        }
    }
    let picture = text(&run(pyrograph().arg("flamegraph").arg(&profile)).stdout);
    assert!(picture.contains("packs [same code as sends]"), "{picture}");
}

#[test]
fn record_named_functions_in_one_form_alone() {
    if !has("g++") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = shop(folder);
    let [folded, page] = ["out.folded", "out.html"].map(|name| folder.join(name));
    for (form, is, is_not) in
        [("full", ";shop::Gift::Gift(long)", "no such"), ("short", ";Gift::Gift", "shop::Gift")]
    {
        let mut record = pyrograph();
        record.args(["record", "--names", form, "-o"]).arg(&folded).arg("-o").arg(&page);
        run(record.arg("--").arg(&program));
        let names = std::fs::read_to_string(&folded).expect("folded text");
        assert!(names.contains(is) && !names.contains(is_not), "{form}: {names}");
        // The page of the same recording has the same names, and what they are in full.
        assert_eq!(text(&run(pyrograph().arg("fold").arg(&page)).stdout), names, "{form}");
        let full = text(&run(pyrograph().args(["fold", "--names", "full"]).arg(&page)).stdout);
        assert!(full.contains(";shop::Gift::Gift(long)"), "{form}: {full}");
    }
}
