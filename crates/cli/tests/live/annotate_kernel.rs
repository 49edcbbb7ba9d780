//! `pyrograph annotate` of functions of kernels: of the one that runs, by its memory, and of others by their `vmlinux`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::common::perf::{run_perf, with_perf_as_root};
use crate::common::pprof::{self, Mapping};
use crate::common::{program_source, pyrograph, run, text};
use serde_json::Value;

/// Many cheap system calls.
const PROGRAM: [&str; 5] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=400000"];

fn annotate(input: &Path, function: &str, options: &[&str]) -> Value {
    let output = run(pyrograph().args(["annotate", "--json", function]).args(options).arg(input));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refusal(input: &Path, function: &str, options: &[&str]) -> String {
    let output = pyrograph().args(["annotate", function]).args(options).arg(input).output();
    let output = output.expect("it runs");
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn hexadecimal(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().expect("a text"), 16).expect("hexadecimal digits")
}

/// Values by address.
fn values(annotation: &Value) -> BTreeMap<u64, u64> {
    let instructions = annotation["instructions"].as_array().expect("a list");
    let value = |of: &Value| (hexadecimal(&of["address"]), of["values"][0].as_u64().expect("one"));
    instructions.iter().map(value).collect()
}

/// Addresses of the functions of the running kernel, by name.
fn symbols() -> BTreeMap<String, BTreeSet<u64>> {
    let all = std::fs::read_to_string("/proc/kallsyms").expect("the kernel has them");
    let mut symbols: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for line in all.lines() {
        if let [start, kind, name, ..] = line.split_ascii_whitespace().collect::<Vec<_>>()[..]
            && kind.eq_ignore_ascii_case("t")
        {
            let start = u64::from_str_radix(start, 16).expect("hexadecimal digits");
            symbols.entry(name.to_owned()).or_default().insert(start);
        }
    }
    symbols
}

/// The functions of the kernel and its modules that have the most samples.
fn hottest(input: &Path, symbols: &BTreeMap<String, BTreeSet<u64>>) -> Vec<String> {
    let output =
        run(pyrograph().args(["report", "--json", "--no-inline", "--depth", "0"]).arg(input));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = report["functions"].as_array().expect("a list").iter();
    let named = functions.filter(|of| {
        let module = of["module"].as_str().unwrap_or_default();
        of["self"].as_f64() > Some(0.0) && module.starts_with('[') && module != "[vdso]"
    });
    let names =
        named.filter_map(|of| of["name"].as_str()).filter(|name| symbols.contains_key(*name));
    names.take(10).map(str::to_owned).collect()
}

/// Each function's instructions begin where its symbol is, and hold all of its samples.
fn check(input: &Path, counts: Option<&BTreeMap<u64, u64>>) {
    let symbols = symbols();
    let names = hottest(input, &symbols);
    assert!(!names.is_empty(), "no function of the kernel has samples");
    if let Err(error) = File::open("/proc/kcore") {
        eprintln!("skipped: annotate, kernel needs /proc/kcore: {error}");
        let said = refusal(input, &names[0], &[]);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("the kernel's code cannot be shown: "), "{said}");
        return;
    }
    for name in &names {
        let found = annotate(input, name, &[]);
        let ours = values(&found);
        let own = found["self"][0].as_u64().expect("a number");
        assert!(own > 0 && ours.values().sum::<u64>() == own, "{name}: {own}, {ours:?}");
        let texts: Vec<&str> = found["instructions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|of| of["text"].as_str().expect("a text"))
            .collect();
        assert!(!texts.contains(&"(bad)"), "{name}: {texts:?}");
        // With a vmlinux, addresses are those of the file.
        let start = *ours.keys().next().expect("an instruction");
        let starts = &symbols[name];
        let distance = starts.iter().map(|of| of.wrapping_sub(start));
        let distance: Vec<u64> = distance.filter(|of| of % (1 << 16) == 0).collect();
        assert!(!distance.is_empty(), "{name} begins at {start:x}, its symbols at {starts:x?}");
        // Each sample is at the beginning of an instruction: what is counted is the sum of all in the function.
        let Some(counts) = counts else { continue };
        let end = *ours.keys().last().expect("an instruction");
        let is_it = distance.iter().any(|&distance| {
            let at = |address: u64| address.wrapping_add(distance);
            let theirs: BTreeMap<u64, u64> = counts
                .range(at(start)..=at(end))
                .map(|(address, count)| (address.wrapping_sub(distance), *count))
                .collect();
            let total: u64 = theirs.values().sum();
            let same = ours.iter().all(|(at, value)| {
                let count = theirs.get(at).copied().unwrap_or_default();
                // Values are of time, the same for each sample.
                u128::from(*value) * u128::from(total) == u128::from(count) * u128::from(own)
            });
            same && theirs.keys().all(|at| ours.contains_key(at))
        });
        assert!(is_it, "{name}: {ours:x?}");
    }
    let shown = text(&run(pyrograph().args(["annotate", &names[0]]).arg(input)).stdout);
    assert!(shown.starts_with(&format!("{} in [kernel.kallsyms]", names[0])), "{shown}");
    eprintln!("{shown}");
}

#[test]
fn the_running_kernel_is_shown_as_it_is_in_memory() {
    with_perf_as_root("annotate, kernel", |folder| {
        let page = folder.join("page.html");
        let mut record = pyrograph();
        record.args(["record", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&page).arg("--");
        run(record.args(PROGRAM));
        check(&page, None);

        let data = folder.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&data).arg("--");
        run_perf(perf.args(PROGRAM));
        let mut script = Command::new("perf");
        let ips = run_perf(script.args(["script", "-F", "ip", "-i"]).arg(&data));
        let mut counts = BTreeMap::new();
        for line in text(&ips.stdout).lines() {
            if let Ok(address) = u64::from_str_radix(line.trim(), 16) {
                *counts.entry(address).or_default() += 1;
            }
        }
        check(&data, Some(&counts));
    });
}

/// A file that stands for the `vmlinux` of a kernel which does not run here, its build ID, and addresses of its functions.
struct Kernel {
    build_id: String,
    functions: Vec<(String, u64, u64)>,
}

fn build(path: &Path) -> Kernel {
    run(Command::new("gcc")
        .args(["-O1", "-g", "-static", "-nostdlib", "-no-pie", "-Wl,--build-id=sha1"])
        .args(["-Wl,-Ttext=0x81000000", "-o"])
        .arg(path)
        .args([program_source("kernel.c"), program_source("kernel_poll.c")]));
    let notes = text(&run(Command::new("readelf").arg("-n").arg(path)).stdout);
    let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    let symbols = text(&run(Command::new("nm").arg("-S").arg(path)).stdout);
    let number = |digits: &str| u64::from_str_radix(digits, 16).expect("hexadecimal digits");
    let function = |line: &str| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [start, size, "t" | "T", name] => Some((name.to_owned(), number(start), number(size))),
        _ => None,
    };
    Kernel {
        build_id: build_id.expect("one").to_owned(),
        functions: symbols.lines().filter_map(function).collect(),
    }
}

/// Samples of a kernel that ran elsewhere, and was moved as it started.
#[test]
fn other_kernels_are_shown_by_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let boot = root.join("usr/lib/debug/boot");
    std::fs::create_dir_all(&boot).expect("it is new");
    let path = boot.join("vmlinux-6.1.0-50-amd64");
    let kernel = build(&path);
    let distance = 0xffff_ffff_0b40_0000;
    let mapping = Mapping {
        start: 0,
        limit: u64::MAX,
        offset: 0,
        file: "[kernel.kallsyms]",
        build_id: &kernel.build_id,
    };
    let mut samples: Vec<(&str, u64, u64)> = Vec::new();
    let mut expect = BTreeMap::new();
    for (at, (name, start, _)) in kernel.functions.iter().enumerate() {
        let value = 10 + at as u64;
        samples.push((name, start + distance, value));
        expect
            .entry(name.as_str())
            .and_modify(|of: &mut (u64, u64)| *of = (*start, value))
            .or_insert((*start, value));
    }
    // A module, which has a function of another name and one of the same name.
    samples.push(("module_read", 0xffff_ffff_c055_c010, 3));
    samples.push(("read_zero", 0xffff_ffff_c055_d010, 1));
    let profile = folder.path().join("profile.pb");
    pprof::write(&profile, &mapping, &samples);

    let symfs = ["--symfs", root.to_str().expect("UTF-8")];
    for (name, (start, value)) in expect {
        let found = annotate(&profile, name, &symfs);
        let of = kernel.functions.iter().find(|(_, at, _)| *at == start).expect("it is there");
        let values = values(&found);
        assert_eq!(values.get(&start), Some(&value), "{name}: {values:x?}");
        assert_eq!(values.keys().next(), Some(&start));
        assert!(values.keys().next_back() < Some(&(start + of.2)));
        let source = found["instructions"][0]["source"]["line"].as_u64();
        assert!(source.is_some_and(|line| line > 2), "{found}");
        let notes = found["notes"].to_string();
        assert!(
            notes.contains("code is that of the file, before the kernel patched it"),
            "{notes}"
        );
        assert_eq!(
            notes.contains("2 functions of this file have the name"),
            name == "poll",
            "{notes}"
        );
    }
    let shown = run(pyrograph().args(["annotate", "--all", "read_zero"]).args(symfs).arg(&profile));
    let shown = text(&shown.stdout);
    assert!(shown.contains("count ^= of;") && shown.contains("<poll>"), "{shown}");

    let module = refusal(&profile, "module_read", &symfs);
    assert!(
        module.contains("module_read is not in the vmlinux of the kernel that ran"),
        "{module}"
    );
    std::fs::remove_file(&path).expect("it is there");
    let gone = refusal(&profile, "read_zero", &symfs);
    assert!(
        gone.contains("there is no vmlinux with its build ID") && gone.contains("--symfs"),
        "{gone}"
    );
}
