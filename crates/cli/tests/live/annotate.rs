//! `pyrograph annotate` beside `perf annotate --stdio`, and beside counts of `perf script`.
//!
//! Of the ten hottest functions of a program in C, C++ and Rust, each instruction has the share that perf gives it, to the two
//! digits that perf prints. Two things differ, and are evened out here:
//!
//! - perf prints one annotation for each symbol, and names functions without what the compiler appends (`.isra.0`): functions
//!   are found by their addresses.
//! - perf counts a sample for the instruction that begins at its address, and prints none that is in the middle of one. A
//!   sample of `cpu-clock` always is at a beginning.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::perf::{run_perf, with_perf};
use crate::common::recorded::{self, OfPerf};
use crate::common::{compile, pyrograph, run, text};
use serde_json::Value;

/// Shares in percent by address.
type Shares = BTreeMap<u64, f64>;

fn record(program: &Path, options: &[&str]) -> std::path::PathBuf {
    let data = program.with_extension("data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N", "-e", "cpu-clock", "-F", "4999"]).args(options);
    run_perf(perf.arg("-o").arg(&data).arg("--").arg(program));
    data
}

/// The first half of the time of a recording, of which each function has samples, as perf prints their times.
fn first_half(data: &Path) -> String {
    let mut script = Command::new("perf");
    let printed = run_perf(script.args(["script", "-F", "time", "-i"]).arg(data)).stdout;
    let seconds = |line: &str| line.trim().trim_end_matches(':').parse::<f64>();
    let text = text(&printed);
    let times = text.lines().map(|line| seconds(line).unwrap_or_else(|_| panic!("{line:?}")));
    let (first, last) = times.fold((f64::MAX, 0.0_f64), |(a, b), t| (a.min(t), b.max(t)));
    format!("0..{}", (last - first) / 2.0)
}

/// All functions of `perf annotate --stdio`.
///
/// ```text
///  Percent |  Source code & Disassembly of work for cpu-clock (1352 samples, percent: local period)
///    15.01 :   1242:   mov    %edx,%ecx
/// ```
fn of_perf(data: &Path, module: &str) -> Vec<Shares> {
    let mut perf = Command::new("perf");
    let output = run_perf(perf.args(["annotate", "--stdio", "-i"]).arg(data));
    let mut functions: Vec<Shares> = Vec::new();
    let mut is_ours = false;
    for line in text(&output.stdout).lines() {
        if line.trim_start().starts_with("Percent |") {
            is_ours = line.contains(&format!("Disassembly of {module} for"));
            if is_ours {
                functions.push(Shares::new());
            }
        }
        let mut fields = line.splitn(3, ':').map(str::trim);
        let share = fields.next().and_then(|share| share.parse::<f64>().ok());
        let address = fields.next().and_then(|at| u64::from_str_radix(at, 16).ok());
        if let (true, Some(share), Some(address)) = (is_ours, share, address)
            && let Some(function) = functions.last_mut()
        {
            function.insert(address, share);
        }
    }
    functions
}

fn annotate(data: &Path, function: &str, options: &[&str]) -> Value {
    let output = run(pyrograph().args(["annotate", "--json", function]).args(options).arg(data));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn address(instruction: &Value) -> u64 {
    let text = instruction["address"].as_str().expect("a text");
    u64::from_str_radix(text, 16).expect("hexadecimal digits")
}

/// Values by address, and their sum.
fn values(annotation: &Value) -> (BTreeMap<u64, f64>, f64) {
    let instructions = annotation["instructions"].as_array().expect("a list");
    let value = |of: &Value| (address(of), number(&of["values"][0]));
    (instructions.iter().map(value).collect(), number(&annotation["self"][0]))
}

/// The names of the hottest functions of a program. Not stubs that call other files: perf 6.1 prints them as a part of `_init`.
fn hottest(data: &Path, program: &Path) -> Vec<String> {
    let output =
        run(pyrograph().args(["report", "--json", "--no-inline", "--depth", "0"]).arg(data));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = report["functions"].as_array().expect("a list").iter();
    let path = program.to_str().expect("UTF-8");
    let ours = functions.filter(|of| of["module"] == path && number(&of["self"]) > 0.0);
    let names = ours.map(|of| of["name"].as_str().expect("a text").to_owned());
    names.filter(|name| !name.ends_with("@plt")).take(10).collect()
}

/// Samples of the program by address, as `perf script` prints them.
fn counts(data: &Path) -> BTreeMap<u64, f64> {
    let mut perf = Command::new("perf");
    let output = run_perf(perf.args(["script", "-F", "ip", "-i"]).arg(data));
    let mut counts = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        if let Ok(address) = u64::from_str_radix(line.trim(), 16) {
            *counts.entry(address).or_default() += 1.0;
        }
    }
    counts
}

fn compare(compiler: &[&str], source: &str, folder: &Path, at_least: usize) {
    // Addresses of the process are those of the file then.
    let program = compile(compiler, source, folder);
    let data = record(&program, &[]);
    let name = program.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let (theirs, counts) = (of_perf(&data, name), counts(&data));
    let names = hottest(&data, &program);
    assert!(names.len() >= at_least, "{names:?}");
    for name in names {
        let (ours, total) = values(&annotate(&data, &name, &[]));
        let hot = ours.iter().find(|(_, value)| **value > 0.0).map(|(at, _)| *at);
        let their = theirs.iter().find(|of| hot.is_some_and(|hot| of.contains_key(&hot)));
        let their = their.unwrap_or_else(|| panic!("perf has no {name}"));
        assert_eq!(ours.keys().collect::<Vec<_>>(), their.keys().collect::<Vec<_>>(), "{name}");
        let samples: f64 = ours.keys().filter_map(|at| counts.get(at)).sum();
        for (at, value) in &ours {
            let share = 100.0 * value / total;
            assert!(
                (share - their[at]).abs() < 0.0051,
                "{name} {at:x}: {share}, perf {}",
                their[at]
            );
            let counted = 100.0 * counts.get(at).copied().unwrap_or_default() / samples;
            assert!((share - counted).abs() < 1e-9, "{name} {at:x}: {share}, counted {counted}");
        }
    }
}

#[test]
fn c_agrees_with_perf() {
    with_perf("annotate, C", |folder| {
        compare(&["gcc", "-O2", "-g", "-no-pie"], "annotate.c", folder, 6);
    });
}

#[test]
fn cpp_agrees_with_perf() {
    with_perf("annotate, C++", |folder| {
        compare(&["g++", "-O2", "-g", "-no-pie"], "annotate.cpp", folder, 6);
    });
}

#[test]
fn rust_agrees_with_perf() {
    with_perf("annotate, Rust", |folder| {
        let rustc = ["rustc", "-O", "-g", "-C", "relocation-model=static"];
        compare(&rustc, "annotate.rs", folder, 6);
    });
}

/// The same samples of a program whose addresses differ in each process, whatever way they come.
#[test]
fn pages_and_pprof_hold_what_perf_data_has() {
    let Some(OfPerf { program, data, .. }) = recorded::annotate_by_frame_pointers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let page = folder.join("page.html");
    run(pyrograph().arg("view").arg(&data).arg("-o").arg(&page));
    let expect = annotate(&data, "sum", &[]);
    assert!(annotate(&page, "sum", &[]) == expect, "the same as from perf.data");
    let pprof = folder.join("profile.pb.gz");
    run(pyrograph().arg("convert").arg(&data).arg("-o").arg(&pprof));
    assert!(annotate(&pprof, "sum", &[]) == expect, "the same as from perf.data");
    let only_time = annotate(&page, "sum", &["--time", &first_half(&data)]);
    assert!(number(&only_time["self"][0]) < number(&expect["self"][0]));
    let live = folder.join("live.html");
    run(pyrograph().arg("record").arg("-o").arg(&live).arg("--").arg(&program));
    let (values, total) = values(&annotate(&live, "sum", &[]));
    assert!(total > 0.0 && values.values().sum::<f64>() == total, "{values:?}");
    // What a recording leaves in its folder, where no output is named.
    run(pyrograph().current_dir(folder).arg("record").arg("--").arg(&program));
    let kept = run(pyrograph()
        .current_dir(folder)
        .args(["annotate", "--asm", "sum"])
        .arg("flamegraph.pb.gz"));
    assert!(text(&kept.stdout).contains("hottest: "), "{}", text(&kept.stdout));
    // Filters choose samples there, too.
    let none = pyrograph().args(["annotate", "sum", "--comm", "other"]).arg(&page).output();
    let none = none.expect("it runs");
    assert!(!none.status.success() && text(&none.stderr).contains("the filters leave nothing"));
}

/// A page holds source and instructions of its hot functions, for machines that have not the files that ran.
#[test]
fn pages_hold_the_code_of_files_that_are_gone() {
    with_perf("annotate, gone", |folder| {
        let source = folder.join("gone.c");
        std::fs::copy(crate::common::program_source("annotate.c"), &source).expect("our source");
        let program = folder.join("program");
        run(Command::new("gcc").args(["-O2", "-g", "-o"]).args([&program, &source]));
        let data = record(&program, &["-g"]);
        let page = folder.join("page.html");
        run(pyrograph().arg("view").arg(&data).arg("-o").arg(&page));
        let expect = annotate(&page, "sum", &[]);
        let half = first_half(&data);
        let early = annotate(&page, "sum", &["--time", &half]);
        std::fs::remove_file(&program).expect("it was there");
        std::fs::remove_file(&source).expect("it was there");
        let again = folder.join("again.html");
        run(pyrograph().arg("view").arg(&page).arg("-o").arg(&again));
        let both =
            |page: &Path| (annotate(page, "sum", &[]), annotate(page, "sum", &["--time", &half]));
        let (kept, kept_early) = both(&page);
        assert!(
            both(&again) == (kept.clone(), kept_early.clone()),
            "the page that was made of it has the same"
        );
        for (kept, expect) in [(&kept, &expect), (&kept_early, &early)] {
            for part in ["function", "module", "self", "total", "start"] {
                assert_eq!(kept[part], expect[part]);
            }
            let all = expect["instructions"].as_array().expect("a list");
            let by_address: BTreeMap<u64, &Value> =
                all.iter().map(|of| (address(of), of)).collect();
            let shown = kept["instructions"].as_array().expect("a list");
            for of in shown {
                let whole = by_address[&address(of)];
                for part in ["text", "values", "source", "inlined"] {
                    assert_eq!(of[part], whole[part]);
                }
                assert!(of["target"].is_null() || of["target"] == whole["target"], "{of}");
            }
            let hot =
                |all: &[Value]| all.iter().filter(|of| number(&of["values"][0]) > 0.0).count();
            assert_eq!(hot(shown), hot(all));
        }
        let shown = text(&run(pyrograph().args(["annotate", "sum"]).arg(&again)).stdout);
        for line in ["mix, inlined at gone.c:28:  seed = mix(seed);", "x ^= x << 13;"] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        // What it does not hold is not made up.
        let bare = folder.join("bare.html");
        run(pyrograph().args(["view", "--no-source"]).arg(&page).arg("-o").arg(&bare));
        let refused = pyrograph().args(["annotate", "sum"]).arg(&bare).output().expect("it runs");
        assert!(!refused.status.success() && text(&refused.stderr).contains("failed to open"));
    });
}

#[test]
fn inlined_code_shows_whose_it_is() {
    let Some(OfPerf { data, .. }) = recorded::annotate_by_frame_pointers() else { return };
    let found = annotate(&data, "sum", &[]);
    let instructions = found["instructions"].as_array().expect("a list");
    let owners: Vec<&str> =
        instructions.iter().filter_map(|of| of["inlined"][0]["function"].as_str()).collect();
    assert!(owners.contains(&"mix") && owners.contains(&"pick"), "{owners:?}");
    let shown = run(pyrograph().args(["annotate", "sum"]).arg(&data));
    let shown = text(&shown.stdout);
    for line in ["mix, inlined at annotate.c:28:  seed = mix(seed);", "x ^= x << 13;"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    // By the name of what is inlined: the function that has most of its samples.
    let outer = run(pyrograph().args(["annotate", "pick"]).arg(&data));
    assert!(text(&outer.stdout).contains("pick is inlined: this is sum"));
    let source = run(pyrograph().args(["annotate", "--source", "sum"]).arg(&data));
    let source = text(&source.stdout);
    assert!(source.contains("pick (inlined), ") && !source.contains("%e"), "{source}");
    let asm = run(pyrograph().args(["annotate", "--asm", "sum"]).arg(&data));
    assert!(!text(&asm.stdout).contains("seed"));
    // Which lines take less than the usual least share is up to the samples.
    let lines =
        run(pyrograph().args(["report", "--lines", "--depth", "0", "--min", "0"]).arg(&data));
    assert!(text(&lines.stdout).contains("annotate.c:28  seed = mix(seed);"));
}

/// It "has no symbol there", although its name is shown.
#[test]
fn stubs_of_the_linker_are_shown() {
    with_perf("annotate, stubs", |folder| {
        let flags = ["gcc", "-O1", "-g", "-fno-builtin", "-no-pie", "-fcf-protection=none"];
        let program = compile(&[&flags[..], &["-Wl,-z,lazy"]].concat(), "stub.c", folder);
        let shown = run(pyrograph().args(["annotate", "memcpy@plt"]).arg(record(&program, &[])));
        let shown = text(&shown.stdout);
        assert!(shown.contains("jmpq *") && shown.contains("push $"), "{shown}");
        assert!(shown.contains("but none of this function"), "{shown}");
    });
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    with_perf("annotate, missing", |folder| {
        let bare = compile(&["gcc", "-O2"], "annotate.c", folder);
        let data = record(&bare, &[]);
        let shown = text(&run(pyrograph().args(["annotate", "sum"]).arg(&data)).stdout);
        assert!(shown.contains("no debug information; compile with -g"), "{shown}");
        let refusal = |function: &str| {
            let output = pyrograph().args(["annotate", function]).arg(&data).output();
            let output = output.expect("it runs");
            assert!(!output.status.success());
            text(&output.stderr)
        };
        assert!(
            refusal("nothing")
                .contains("no sample is in a function nothing; there are samples in ")
        );

        let page = folder.join("page.html");
        run(pyrograph().args(["view", "--no-source"]).arg(&data).arg("-o").arg(&page));
        let of_page = || {
            let output = pyrograph().args(["annotate", "sum"]).arg(&page).output();
            let output = output.expect("it runs");
            assert!(!output.status.success(), "{}", text(&output.stdout));
            text(&output.stderr)
        };
        compile(&["gcc", "-O1"], "annotate.c", folder);
        assert!(of_page().contains("has another build ID than"), "{}", of_page());
        assert!(
            refusal("sum")
                .contains("is not here as it was recorded: functions in it have no names")
        );
        std::fs::remove_file(&bare).expect("it was there");
        assert!(of_page().contains("failed to open"), "{}", of_page());
    });
}

/// The program runs from where its sources are not, and its debug information has them as they were mapped.
#[test]
fn sources_are_found_where_they_were_moved_to() {
    with_perf("annotate, sources", |folder| {
        let sources = folder.join("moved");
        std::fs::create_dir(&sources).expect("a folder");
        std::fs::copy(crate::common::program_source("annotate.c"), sources.join("annotate.c"))
            .expect("it can be copied");
        let folder_of_sources = crate::common::program_source("");
        let from = folder_of_sources.to_str().expect("UTF-8").trim_end_matches('/');
        let map = format!("-ffile-prefix-map={from}=/nowhere/app");
        let program = compile(&["gcc", "-O2", "-g", &map], "annotate.c", folder);
        let data = record(&program, &[]);
        let shown = |options: &[&str]| {
            text(&run(pyrograph().args(["annotate", "sum"]).args(options).arg(&data)).stdout)
        };
        assert!(shown(&[]).contains("/nowhere/app/annotate.c is not found: --source-dir FROM=TO"));
        let there = format!("/nowhere/app={}", sources.display());
        assert!(shown(&["--source-dir", &there]).contains("seed = mix(seed);"));
        // clang can put the text itself there.
        let embedding = ["clang", "-O2", "-gdwarf-5", "-gembed-source", &map];
        let program = compile(&embedding, "annotate.c", folder);
        let data = record(&program, &[]);
        let shown = text(&run(pyrograph().args(["annotate", "sum"]).arg(&data)).stdout);
        assert!(shown.contains("seed = mix(seed);") && !shown.contains("not found"), "{shown}");
    });
}

/// Text from outside does not reach a terminal or a page as anything but text.
#[test]
fn hostile_sources_are_text() {
    with_perf("annotate, hostile sources", |folder| {
        let source = folder.join("evil<b>.c");
        let code = "volatile int x; /* \x1b[31m </td><script>alert(1)</script> */ __attribute__((noinline)) \
                    void spin(void) { for (int i = 0; i < 100000000; i++) x++; }\nint main(void) { spin(); }\n";
        std::fs::write(&source, code).expect("it is writable");
        let program = folder.join("evil");
        run(Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(&source));
        let data = record(&program, &[]);
        let shown = run(pyrograph().args(["annotate", "spin", "--color", "never"]).arg(&data));
        assert!(!text(&shown.stdout).contains('\x1b'));
        let page = run(pyrograph().args(["annotate", "spin", "--html"]).arg(&data));
        let page = text(&page.stdout);
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"), "{page}");
    });
}
