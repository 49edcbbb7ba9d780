//! `pyrograph heatmap` and `flamegraph --flamechart` as scripts call them.

use std::path::Path;

use assert_cmd::Command;

struct Done {
    out: String,
    err: String,
    code: Option<i32>,
}

fn pyrograph(verb: &str, input: &str, arguments: &[&str]) -> Done {
    let output = Command::cargo_bin("pyrograph")
        .expect("the binary is built")
        .arg(verb)
        .args(arguments)
        .write_stdin(input)
        .output()
        .expect("the binary runs");
    Done {
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code(),
    }
}

fn heatmap(input: &str, arguments: &[&str]) -> Done {
    pyrograph("heatmap", input, arguments)
}

/// Ten events, one a second; the last has the highest value.
fn ten() -> String {
    (1..=10).map(|second| format!("{second} {}\n", second * 100)).collect()
}

/// The value of an attribute of the picture.
fn attribute<'a>(svg: &'a str, name: &str) -> &'a str {
    let (_, rest) = svg.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name}"));
    rest.split('"').next().expect("its end")
}

#[test]
fn options_of_the_established_script_are_taken_as_it_takes_them() {
    let all = [
        "-title",
        "Disk",
        "--unitstime=ms",
        "-unitslabel",
        "ms",
        "--minlat",
        "100",
        "--maxlat=900",
        "--rows",
        "8",
        "--stepsec",
        "0.002",
        "--maxcol",
        "4",
        "--boxsize",
        "10",
        "--fontsize",
        "11",
        "--fonttype",
        "Arial",
        "--grid",
        "--accstats",
    ];
    let done = heatmap(&ten(), &all);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    let svg = &done.out;
    assert!(svg.contains(">Disk</text>"));
    assert_eq!(attribute(svg, "data-points"), "2 2 2 2");
    assert_eq!(attribute(svg, "data-edges"), "100 200 300 400 500 600 700 800 900");
    assert!(svg.contains("<svg class=\"cells\""));
    let cells = svg.split("<svg class=\"cells\"").nth(1).expect("cells");
    assert_eq!((attribute(cells, "width"), attribute(cells, "height")), ("40", "80"));
    assert!(svg.contains("not drawn of 10 events: 2 later"), "{svg}");
    let done = heatmap(&ten(), &["--steplat", "250", "-unitst=us"]);
    assert_eq!(attribute(&done.out, "data-edges"), "0 250 500 750 1000 1250");
}

#[test]
fn the_first_and_last_column_and_the_highest_row_are_drawn() {
    let done = heatmap(&ten(), &["--stepsec", "1", "--rows", "10"]);
    assert_eq!(attribute(&done.out, "data-points"), ["1"; 10].join(" "));
    let cells = done.out.split("<svg class=\"cells\"").nth(1).expect("cells");
    // The top row is row 0 of the picture; 900 and 1000 are both in it.
    assert!(attribute(cells, "d").starts_with("M8 0h2"), "{}", attribute(cells, "d"));
}

#[test]
fn lines_that_do_not_fit_are_said_and_the_rest_is_drawn() {
    let done = heatmap("TIME us\n1 5\nx\n0.5 7\n", &[]);
    assert_eq!(done.code, Some(0));
    assert!(done.err.contains("1 line was skipped: not a time and a number"), "{}", done.err);
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let fails = |input: &str, arguments: &[&str], code: i32, says: &str| {
        let done = heatmap(input, arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}");
        assert!(done.err.contains(says), "{arguments:?}: {}", done.err);
        assert!(done.out.is_empty(), "{arguments:?}");
    };
    fails("", &[], 1, "no line begins with a time and a number");
    fails("a;b;c 1\n", &[], 1, "no line begins with a time and a number");
    fails("a;b;c 1\n", &[], 1, "of a profile --offsets draws");
    fails(&ten(), &["--minlat", "5000"], 1, "none of 10 points");
    fails(&ten(), &["--stepsec", "0.0000001"], 1, "too many");
    fails(&ten(), &["--rows", "5", "--steplat", "1"], 2, "cannot be used with");
    fails(&ten(), &["--comm", "x"], 2, "--offsets");
    fails(&ten(), &["-o", "x.html"], 1, "--offsets");
    fails("a;b 1\n", &["--offsets"], 1, "no sample has a time");
    fails(BLOCK, &["--begin", "block:x", "--end", "block:y"], 1, "block:block_rq_issue");
}

const BLOCK: &str = "\
dd 7 [000] 10.000100: block:block_rq_issue: 8,0 WS 4096 () 100 + 8 [dd]
dd 7 [000] 10.000150: block:block_rq_issue: 8,0 WS 4096 () 200 + 8 [dd]
swapper 0 [001] 10.000600: block:block_rq_complete: 8,0 WS () 100 + 8 [0]
swapper 0 [001] 10.002150: block:block_rq_complete: 8,0 WS () 200 + 8 [0]
swapper 0 [001] 10.002200: block:block_rq_complete: 8,0 WS () 300 + 8 [0]
dd 7 [000] 10.003000: block:block_rq_issue: 8,16 WS 4096 () 100 + 8 [dd]
";

/// The only cells there are, as values and counts, by the tooltips of an embedded picture.
fn tooltips(svg: &str) -> Vec<&str> {
    let cells = svg.split("<svg class=\"cells\"").nth(1).expect("cells");
    let cells = cells.split("<svg class=\"side\"").next().expect("the end of the cells");
    let titles = cells.split("<title>").skip(1).filter_map(|rest| rest.split('<').next());
    titles.collect()
}

#[test]
fn block_io_is_paired_by_device_and_sector() {
    let pair = ["--begin", "block:block_rq_issue", "--end", "block:block_rq_complete"];
    let options = [&pair[..], &["--steplat", "100", "--stepsec", "1", "--embed"]].concat();
    let done = heatmap(BLOCK, &options);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(
        tooltips(&done.out),
        [
            "0–1 s, 2.0–2.1 ms\n1 event, 50.00% of the column",
            "0–1 s, 500–600 µs\n1 event, 50.00% of the column"
        ]
    );
    let said = "1 begin without an end, 1 end without a begin";
    assert!(done.err.contains(said), "{}", done.err);
    assert!(done.out.contains(&format!("by dev, sector: 2 pairs; not drawn: {said}")));
}

#[test]
fn latencies_are_chosen_by_who_begins_them_and_when_they_end() {
    let pair = ["--begin", "block_rq_issue", "--end", "block_rq_complete", "--embed"];
    let of = |more: &[&str]| {
        let text = BLOCK.replace("200 + 8 [dd]", "200 + 8 [cp]");
        heatmap(&text, &[&pair[..], &["--steplat", "100", "--stepsec", "1"], more].concat())
    };
    let said = "2 ends without a begin";
    for (filter, expect) in [
        ("--comm=dd", "0–1 s, 500–600 µs\n1 event, 100.00% of the column"),
        ("--comm=cp,mv", "0–1 s, 2.0–2.1 ms\n1 event, 100.00% of the column"),
        ("--time=..2ms", "0–1 s, 500–600 µs\n1 event, 100.00% of the column"),
        ("--time=@10.002..", "0–1 s, 2.0–2.1 ms\n1 event, 100.00% of the column"),
    ] {
        let done = of(&[filter]);
        assert_eq!(done.code, Some(0), "{filter}: {}", done.err);
        assert_eq!(tooltips(&done.out), [expect], "{filter}");
        assert!(done.out.contains("by dev, sector: 1 pair of 2"), "{filter}");
        assert!(!done.err.contains(said), "{filter}: {}", done.err);
    }
    assert_eq!(tooltips(&of(&["--tid=7", "--cpu=0"]).out).len(), 2, "those that begin");
    let none = of(&["--tid=1"]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("the filters leave none of 2 pairs"), "{}", none.err);
    let apart = of(&["--tid"]);
    assert!(apart.err.contains("--pid and --tid need numbers here"), "{}", apart.err);
    for wrong in [&["--focus", "x"][..], &["--by=thread"], &["--from", "folded"]] {
        let done = of(wrong);
        assert_eq!((done.code, &done.out[..]), (Some(1), ""), "{wrong:?}: {}", done.err);
    }
}

#[test]
fn the_thread_that_is_woken_is_chosen() {
    let text = "\
x 1 [000] 1.000000: sched:sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
x 1 [000] 1.000001: sched:sched_wakeup: comm=b pid=8 prio=120 target_cpu=000
x 1 [000] 1.000050: sched:sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
a 7 [000] 1.000095: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120
";
    let pair = ["--begin", "sched_wakeup", "--end", "sched_switch", "--steplat", "10", "--embed"];
    for filter in ["--comm=b", "--tid=8"] {
        let done = heatmap(text, &[&pair[..], &[filter]].concat());
        assert_eq!(tooltips(&done.out).len(), 1, "{}", done.err);
        assert!(tooltips(&done.out)[0].contains("90–100 µs"));
    }
}

#[test]
fn system_calls_are_paired_by_thread() {
    let text = "\
a 7 [000] 1.000000: syscalls:sys_enter_read: fd: 0x00000003, buf: 0x7ffe, count: 0x00000010
a 8 [001] 1.000010: syscalls:sys_enter_read: fd: 0x00000003, buf: 0x7ffe, count: 0x00000010
a 8 [001] 1.000030: syscalls:sys_exit_read: 0x10
a 7 [000] 1.000090: syscalls:sys_exit_read: 0x10
";
    let pair = ["--begin", "sys_enter_*", "--end", "sys_exit_*"];
    let options = [&pair[..], &["--steplat", "10", "--stepsec", "1", "--embed"]].concat();
    let done = heatmap(text, &options);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    let values: Vec<&str> =
        tooltips(&done.out).iter().filter_map(|text| text.split('\n').next()).collect();
    assert_eq!(values, ["0–1 s, 90–100 µs", "0–1 s, 20–30 µs"]);
}

#[test]
fn a_thread_that_is_woken_while_it_runs_does_not_wait() {
    let text = "\
x 1 [000] 1.000000: sched:sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
x 1 [000] 1.000050: sched:sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
a 7 [000] 1.000100: sched:sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
a 7 [000] 1.000200: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=x next_pid=1 next_prio=120
x 1 [000] 1.900000: sched:sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
";
    let pair = ["--begin", "sched:sched_wakeup", "--end", "sched:sched_switch"];
    let options = [&pair[..], &["--key", "pid=next_pid", "--steplat", "10", "--embed"]].concat();
    let done = heatmap(text, &options);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("2 ends without a begin, 1 cancelled begin"), "{}", done.err);
    assert_eq!(tooltips(&done.out).len(), 1);
    assert!(tooltips(&done.out)[0].contains("50–60 µs"));
}

/// Samples of two threads as perf script writes them: half a second, a gap, half a second.
fn samples() -> String {
    (0..100)
        .map(|at| {
            let time = if at < 50 { 10.2 } else { 11.2 } + f64::from(at) * 0.01;
            let tid = 8 + at % 2;
            format!(
                "app 7/{tid} [000] {time:.6}: 10000000 cpu-clock: \n\t 4a1 busy+0x1 (/bin/app)\n\n"
            )
        })
        .collect()
}

#[test]
fn offsets_have_a_column_a_second_and_a_page_has_the_samples() {
    let done = heatmap(&samples(), &["--offsets", "--tid=8"]);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    assert_eq!(attribute(&done.out, "data-points"), "25 15 10");
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("x.html");
    let path = page.to_str().expect("UTF-8");
    let done = heatmap(&samples(), &["--offsets", "-o", path]);
    assert_eq!((done.code, done.err), (Some(0), format!("pyrograph: wrote {path}\n")));
    let html = std::fs::read_to_string(Path::new(&page)).expect("the page");
    assert!(html.contains("<script type=\"text/plain\" id=\"pyrograph-profile\""));
    // A hundred samples of 10 ms.
    let back = pyrograph("fold", &html, &[]);
    let sum: u64 =
        back.out.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!((back.code, sum), (Some(0), 1_000_000_000), "{}{}", back.out, back.err);
}

/// An input that is not text is a profile: the times of its samples are drawn.
#[test]
fn a_profile_needs_no_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("x.pb.gz");
    let file = profile.to_str().expect("UTF-8");
    let done = pyrograph("convert", &samples(), &["-o", file]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let [plain, asked] =
        [&[file][..], &[file, "--offsets"]].map(|arguments| heatmap("", arguments));
    assert_eq!((plain.code, &plain.out), (Some(0), &asked.out), "{}", plain.err);
}

#[test]
fn a_chart_keeps_gaps_and_gives_each_thread_rows() {
    let done = pyrograph("flamegraph", &samples(), &["--flamechart"]);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    assert_eq!(attribute(&done.out, "data-threads"), "1 3");
    for thread in ["<title>app-7/8\n", "<title>app-7/9\n"] {
        assert!(done.out.contains(thread));
    }
    // Two threads, two parts each.
    assert_eq!(done.out.matches("<title>busy\n").count(), 4);
    let folded = pyrograph("flamegraph", "a;b 1\na;c 2\na;b 1\n", &["--flamechart"]);
    assert!(!folded.out.contains("data-threads"), "text without time stays as it is");
    assert_eq!(folded.out.matches("<title>b\n").count(), 2);
}

#[test]
fn fields_of_events_are_drawn() {
    let event =
        |at: u32, text: &str| format!("app 7 [000] {at}.000000: probe_app:walk: (4011) {text}\n");
    let other = "app 7 [000] 9.500000: sched:sched_wakeup: comm=b pid=8 prio=120 target_cpu=001\n";
    let input: String = (1..=8)
        .map(|at| event(at, &format!("p=0x7ffc0000{at}040 len={} name=\"x\"", at * 3)))
        .chain([other.to_owned()])
        .collect();
    let done =
        heatmap(&input, &["--field", "len", "--stepsec", "1", "--rows", "3", "--minlat", "0"]);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    assert_eq!(attribute(&done.out, "data-points"), "1 1 1 1 1 1 1 1");
    assert!(done.out.contains(">len over time</text>"), "{}", done.out);
    // Addresses are hexadecimal, in rows of powers of two; percentiles of them mean nothing.
    let done = heatmap(&input, &["--field", "p", "--event", "walk"]);
    assert_eq!((done.code, &done.err[..]), (Some(0), ""));
    assert!(done.out.contains(">0x7ffc00002000</text>"), "{}", done.out);
    let edges: Vec<f64> = attribute(&done.out, "data-edges")
        .split(' ')
        .map(|edge| edge.parse().expect("a number"))
        .collect();
    assert!(edges.len() < 52 && (edges[0] - 0x7ffc_0000_1000_u64 as f64).abs() < 64.0, "{edges:?}");
    assert!(edges.windows(2).all(|of| (of[1] - of[0]).log2().fract() == 0.0), "{edges:?}");
    assert!(!done.out.contains(">p50 "), "{}", done.out);
    // Filters, and what is not there.
    let done = heatmap(&input, &["--field", "len", "--tid", "8"]);
    assert!(done.err.contains("the filters leave none of 8 values of len"), "{}", done.err);
    let done = heatmap(&input, &["--field", "length"]);
    let fields = "probe_app:walk (__probe_ip, p, len, name), sched:sched_wakeup (comm, pid, prio, target_cpu)";
    assert!(done.code == Some(1) && done.err.contains(fields), "{}", done.err);
    let done = heatmap(&input, &["--field", "name", "--event", "walk"]);
    assert!(
        done.err.contains("no event has a time and a number in the field name"),
        "{}",
        done.err
    );
    let done = heatmap(&input, &["--field", "len", "--event", "*"]);
    assert!(
        done.err.contains("1 event not drawn, for want of a number in the field len"),
        "{}",
        done.err
    );
}
