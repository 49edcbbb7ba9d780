//! Samples of formats beside what their own tools report of them: `reports/FORMAT*` were printed by the tool from the
//! same file. [Where they come from](README.md).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pyrograph_format::{Count, Input, Options, read, write_folded};
use pyrograph_profile::{LabelOptions, Tree};

/// Names of a stack, root first, and its values.
type Rows = Vec<(Vec<String>, Vec<u64>)>;

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

fn report(name: &str) -> String {
    fs::read_to_string(tests().join("reports").join(name)).expect("a report")
}

fn rows(sample: &str, options: &Options) -> Rows {
    let input = Input::open(&tests().join("formats").join(sample)).expect("a sample");
    let (profile, warnings) = read(vec![input], options).expect("a profile");
    assert!(!warnings.any_loss(), "{warnings:?}");
    let columns = profile.value_types.len();
    let mut folded = Vec::new();
    write_folded(&Tree::new(&profile, &LabelOptions::default()), &mut folded).expect("to memory");
    let folded = String::from_utf8(folded).expect("UTF-8");
    let row = |line: &str| {
        let mut parts: Vec<&str> = line.rsplitn(columns + 1, ' ').collect();
        let names = parts.pop().expect("a stack").split(';').map(str::to_owned).collect();
        let values = parts.iter().rev().map(|value| value.parse().expect("a number")).collect();
        (names, values)
    };
    folded.lines().map(row).collect()
}

/// Costs of each function itself, and with all that it calls, each stack counted once.
fn functions(rows: &Rows, column: usize) -> BTreeMap<&str, (u64, u64)> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (names, values) in rows {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        sums.entry(names[names.len() - 1]).or_default().0 += values[column];
        names.sort_unstable();
        names.dedup();
        for name in names {
            sums.entry(name).or_default().1 += values[column];
        }
    }
    sums
}

fn total(rows: &Rows, column: usize) -> u64 {
    rows.iter().map(|(_, values)| values[column]).sum()
}

/// `reports/pstats.tsv` are the values that Python's `pstats.Stats` read: name, file, line, `tottime`, `cumtime`, and
/// whether it is recursive. Of a recursive function Python counts the outermost call's time; stacks that are put
/// together may lack that of calls between two functions of a circle.
#[test]
fn pstats_are_those_of_python() {
    let rows = rows("pstats/work.pstats", &Options::default());
    let ours = functions(&rows, 0);
    let mut of_python: BTreeMap<String, (u64, u64, bool)> = BTreeMap::new();
    for line in report("pstats.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let time = |at: usize| (fields[at].parse::<f64>().expect("seconds") * 1e9).round() as u64;
        // Several functions have one name, of which one may call another: only their own times add up.
        let known = of_python.entry(fields[0].to_owned()).or_insert((0, 0, true));
        let is_first = known.1 == 0;
        *known = (known.0 + time(3), time(4), is_first && fields[5].is_empty());
    }
    let whole: u64 = of_python.values().map(|of| of.0).sum();
    assert_eq!(total(&rows, 0), whole);
    let mut with_callees = 0;
    for (name, (own, cumulative, is_comparable)) in &of_python {
        let (our_own, our_cumulative) = ours.get(name.as_str()).copied().unwrap_or_default();
        assert_eq!(our_own, *own, "{name}");
        if *is_comparable && *own > 0 {
            // Shares are rounded to nanoseconds, and what is less than a millionth falls to one caller.
            let least = whole / 100_000 + 100;
            assert!(
                our_cumulative.abs_diff(*cumulative) <= least,
                "{name}: {our_cumulative} {cumulative}"
            );
            with_callees += 1;
        }
    }
    assert!(with_callees > 20);
}

#[test]
fn gperftools_totals_are_those_of_its_pprof() {
    let first = |name: &str| report(name).lines().next().expect("a line").to_owned();
    let cpu = rows("gperftools/heap.cpuprof", &Options::default());
    assert_eq!(first("gperftools.txt"), format!("Total: {} samples", total(&cpu, 0)));
    // 100 samples a second.
    assert_eq!(total(&cpu, 1), total(&cpu, 0) * 10_000_000);
    let heap = rows("gperftools-heap/heap.txt", &Options::default());
    assert_eq!(first("gperftools-heap.txt"), format!("Total: {} B", total(&heap, 1)));
    // The first line of the profile itself has all four.
    let text = fs::read_to_string(tests().join("formats/gperftools-heap/heap.txt")).expect("it");
    let numbers = |text: &str| -> Vec<u64> {
        let words = text.split(|c: char| !c.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let sums: Vec<u64> = (0..4).map(|column| total(&heap, column)).collect();
    assert_eq!(numbers(text.lines().next().expect("a line")), sums);
}

#[test]
fn heapprofile_sizes_add_up_to_those_of_its_nodes() {
    fn sum(node: &serde_json::Value) -> u64 {
        let children = node["children"].as_array().expect("a list");
        node["selfSize"].as_u64().expect("a size") + children.iter().map(sum).sum::<u64>()
    }
    let sample = "heapprofile/node.heapprofile";
    let text = fs::read(tests().join("formats").join(sample)).expect("a sample");
    let file: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(total(&rows(sample, &Options::default()), 0), sum(&file["head"]));
}

/// pyinstrument's own text of the same session, in seconds with three decimals. It leaves out itself and how Python
/// starts: functions are compared that are in neither.
#[test]
fn pyinstrument_times_are_those_of_its_text() {
    let rows = rows("pyinstrument/session.pyisession", &Options::default());
    let ours = functions(&rows, 0);
    let text = report("pyinstrument.txt");
    let shown: Vec<(f64, &str)> = text
        .lines()
        .filter_map(|line| line.trim_start_matches(['│', '├', '└', '─', ' ']).split_once(' '))
        .filter_map(|(time, rest)| Some((time.parse().ok()?, rest.split("  ").next()?)))
        .collect();
    for name in ["Shop.sell", "text", "findall", "Pattern.findall", "_code", "square"] {
        let (time, _) = shown.iter().find(|(_, of)| *of == name).expect("a line of the report");
        let (_, with_callees) = ours[name];
        assert!((with_callees as f64 / 1e9 - time).abs() < 0.0006, "{name}: {with_callees} {time}");
    }
}

fn stackprof_report(name: &str) -> Vec<(u64, u64, String)> {
    let text = report(name);
    let lines = text.lines().skip_while(|line| !line.contains("TOTAL    (pct)")).skip(1);
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let count = |at: usize| words[at].parse().expect("a count");
        (count(0), count(2), words[4..].join(" "))
    };
    lines.map(row).collect()
}

#[test]
fn stackprof_samples_are_those_of_its_text() {
    for (sample, text, has_stacks) in [
        ("stackprof/cpu.dump", "stackprof.txt", true),
        ("stackprof/no_raw.dump", "stackprof-no_raw.txt", false),
    ] {
        let rows = rows(sample, &Options::default());
        let ours = functions(&rows, 0);
        let mut own = 0;
        for (with_callees, self_samples, name) in stackprof_report(text) {
            let of_name = ours.get(name.as_str()).copied().unwrap_or_default();
            assert_eq!(of_name.0, self_samples, "{sample}: {name}");
            assert!(!has_stacks || of_name.1 == with_callees, "{sample}: {name}");
            own += self_samples;
        }
        assert_eq!(total(&rows, 0), own);
        assert_eq!(total(&rows, 1), own * 1_000_000);
    }
}

/// Names in the order of the alphabet; of what has none, a question mark.
fn unordered<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names
        .map(|name| if name.starts_with('[') || name.starts_with("0x") { "?" } else { name })
        .collect();
    names.sort_unstable();
    names
}

/// heaptrack's folded stacks begin at `main`, name files in brackets, and what has no name by its address. Calls that
/// were inlined at one address stand in them the wrong way round (`__printf_fp_spec` calls `__vfprintf_internal`, while
/// its backtraces and the source have it the other way): so the order is not compared.
#[test]
fn heaptrack_costs_are_those_of_heaptrack_print() {
    let rows = rows("heaptrack/heap.zst", &Options::default());
    for (cost, column) in [("allocations", 0), ("temporary", 1), ("peak", 3), ("leaked", 4)] {
        let text = report(&format!("heaptrack-{cost}.txt"));
        for line in text.lines() {
            let (stack, value) = line.rsplit_once("; ").expect("a stack");
            let names = stack.split(';').map(|name| name.split(" (").next().unwrap_or_default());
            let names = unordered(names);
            let found: Vec<u64> = rows
                .iter()
                .filter(|(ours, _)| {
                    let from = ours.len().saturating_sub(names.len());
                    unordered(ours[from..].iter().map(String::as_str)) == names
                })
                .map(|(_, values)| values[column])
                .collect();
            // Where a stack is the end of another, or a caller of it, both are found.
            let value: u64 = value.parse().expect("a number");
            assert!(found.contains(&value), "{cost}: {stack} {value} {found:?}");
        }
        let theirs = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        // Leaks that it takes for harmless are left out, none here.
        assert_eq!(total(&rows, column), theirs.sum::<u64>(), "{cost}");
    }
}

/// The same program, traced in both formats.
#[test]
fn xdebug_traces_for_people_have_the_calls_of_those_for_programs() {
    let options = Options { count: Count::Samples, ..Options::default() };
    let calls = rows("xdebug/human_as_computer.xt", &options);
    assert!(total(&calls, 0) > 20);
    assert_eq!(rows("xdebug/human.xt", &options), calls);
    assert_eq!(rows("xdebug/human_returns.xt", &options), calls);
    // From the first call to the end of the trace, in nanoseconds.
    let time = |sample| total(&rows(sample, &Options::default()), 0);
    assert_eq!(time("xdebug/human.xt"), 104_200_000);
    assert_eq!(time("xdebug/human_returns.xt"), 29_900_000);
}

/// Sum that memray itself gives in three formats: 1,211,017 bytes of 56 allocations.
#[test]
fn memray_exports_agree() {
    let csv = rows("memray/work.csv", &Options::default());
    assert_eq!((total(&csv, 0), total(&csv, 1)), (56, 1_211_017));
    let of_csv: Rows = csv.into_iter().map(|(names, values)| (names, vec![values[1]])).collect();
    assert_eq!(rows("gprof2dot-json/memray.json", &Options::default()), of_csv);
}
