//! Heads, one by one, and all that perf can print.

use super::*;

/// Prints `comm|pid|tid|cpu|time|period|event|rest`, `-` for what is not there.
fn show(header: Option<Header<'_>>) -> String {
    let Some(header) = header else { return "none".to_owned() };
    let text = |text: &[u8]| match String::from_utf8_lossy(text).into_owned() {
        text if text.is_empty() => "-".to_owned(),
        text => text,
    };
    fn number(number: Option<impl ToString>) -> String {
        number.map_or("-".to_owned(), |number| number.to_string())
    }
    [
        text(header.comm),
        number(header.pid),
        number(header.tid),
        number(header.cpu),
        number(header.time()),
        number(header.period),
        text(header.event),
        text(header.rest),
    ]
    .join("|")
}

fn check(line: &str, expect: &str) {
    assert_eq!(show(parse(line.as_bytes(), Layout::default())), expect, "{line}");
}

#[test]
fn with_all_fields_and_with_some() {
    check(
        "perf   977/978   [003] 7628263.042515:   250 cycles: ",
        "perf|977|978|3|7628263042515000|250|cycles|-",
    );
    check(
        "perf 977 [003] 7628263.042515: cycles:u: ",
        "perf|-|977|3|7628263042515000|-|cycles:u|-",
    );
    check("perf 977 cycles:", "perf|-|977|-|-|-|cycles|-");
    check("perf   977    5025125 cpu-clock: ", "perf|-|977|-|-|5025125|cpu-clock|-");
    check("perf 977 [001] cycles: ", "perf|-|977|1|-|-|cycles|-");
    check("perf 977 12.000000001: ", "perf|-|977|-|12000000001|-|-|-");
    check("perf 977 [001] ", "perf|-|977|1|-|-|-|-");
    check("perf [001] ", "perf|-|-|1|-|-|-|-");
    check("w [1] 12 [000] 12.5: cycles: ", "w [1]|-|12|0|12500000000|-|cycles|-");
    check("perf [001] 12.5: cycles: ", "perf|-|-|1|12500000000|-|cycles|-");
    check("perf  12.5:  7 cycles: ", "perf|-|-|-|12500000000|7|cycles|-");
    check("977/978 12.5: cycles: ", "-|977|978|-|12500000000|-|cycles|-");
    check("977 [000] 12.5: cycles: ", "-|-|977|0|12500000000|-|cycles|-");
    check(" 12.5: cycles: ", "-|-|-|-|12500000000|-|cycles|-");
    check("perf 977 [001] KH 12.5: 1 cycles: ", "perf|-|977|1|12500000000|1|cycles|-");
    check("perf 977 U 12.5: 1 cycles: ", "perf|-|977|-|12500000000|1|cycles|-");
}

#[test]
fn names_with_blanks_digits_brackets_or_one_character() {
    check("w 12539  1718.5: 5 cpu-clock: ", "w|-|12539|-|1718500000000|5|cpu-clock|-");
    check(":-1    -1 [000] 1.5: 5 cycles: ", ":-1|-|-1|0|1500000000|5|cycles|-");
    check(":-1 -1/-1 [000] 1.5: 5 cycles: ", ":-1|-1|-1|0|1500000000|5|cycles|-");
    check("my app 2 1234 [000] 1.5: 5 cycles: ", "my app 2|-|1234|0|1500000000|5|cycles|-");
    check("w (x) 13011 1.5: 5 cycles: ", "w (x)|-|13011|-|1500000000|5|cycles|-");
    check("sshd: root 12 [000] 1.5: 5 cycles: ", "sshd: root|-|12|0|1500000000|5|cycles|-");
    check("7 12 [000] 1.5: 5 cycles: ", "7|-|12|0|1500000000|5|cycles|-");
    check("kworker/0:1-ev 12 [000] 1.5: 5 cycles: ", "kworker/0:1-ev|-|12|0|1500000000|5|cycles|-");
    check("[a] 12 [000] 1.5: 5 cycles: ", "[a]|-|12|0|1500000000|5|cycles|-");
    check(
        "dd 29776 666709.771979:   10101010 cpu-clock: ",
        "dd|-|29776|-|666709771979000|10101010|cpu-clock|-",
    );
}

#[test]
fn what_follows_the_event_is_kept() {
    check(
        "            perf 12938 [000]  1.5: sched:sched_switch: prev_comm=a ==> next_prio=0",
        "perf|-|12938|0|1500000000|-|sched:sched_switch|prev_comm=a ==> next_prio=0",
    );
    check(
        "   w 13008  1.5:   10 cpu-clock:  ffffffff821f2fa7 f+0xd7 ([kernel.kallsyms])",
        "w|-|13008|-|1500000000|10|cpu-clock|ffffffff821f2fa7 f+0xd7 ([kernel.kallsyms])",
    );
    assert!(
        parse(b"k 0 [000]  0.000000: PERF_RECORD_FORK(3:3):(2:2)", Layout::default())
            .expect("a header")
            .is_other_record()
    );
    assert!(
        parse(b"k 0 [000]  0.000000: PERF_RECORD_COMM: a:1/1", Layout::default())
            .expect("a header")
            .is_other_record()
    );
}

#[test]
fn other_lines_are_no_header() {
    for line in [
        "",
        "   ",
        "hello world",
        "main;work 12",
        "my func 1 2",
        "w.c:9",
        "ffffffff8103d0ca native_write_msr_safe ([kernel.kallsyms])",
        "c6d7895aac9 LazyCompile:~body_0 evalmachine.<anonymous>:1 (/tmp/perf-31912.map)",
        "# time of first sample : 123.5",
        "99999999999999999999 1",
        // Found by fuzzing.
        "app 1234567890123456789 1234567890123456789/ cycles:x",
        "app 12345678901234567890!: cycles",
    ] {
        check(line, "none");
    }
}

#[test]
fn weak_lines() {
    let check = |line: &str, expect: &str| {
        assert_eq!(show(parse_weak(line.as_bytes(), Layout::default())), expect, "{line}")
    };
    check("w ", "w|-|-|-|-|-|-|-");
    check("my app cpu-clock: ", "my app|-|-|-|-|-|cpu-clock|-");
    check("my app 3 cpu-clock: ", "my app|-|-|-|-|3|cpu-clock|-");
    check("w 12/13 ", "w|12|13|-|-|-|-|-");
    check("cpu-clock: ", "-|-|-|-|-|-|cpu-clock|-");
    check("12 cpu-clock: ", "-|-|-|-|-|12|cpu-clock|-");
    check("  ", "none");
}

/// The columns of a head, as perf prints them.
#[derive(Clone, Copy, Debug)]
struct Columns {
    comm: bool,
    /// 0: none, 1 and 2: `tid` five and seven wide, 3 and 4: `pid/tid`.
    thread: u8,
    cpu: bool,
    /// Decimals of the time; 0: none.
    time: usize,
    period: bool,
    event: bool,
}

/// All columns by which a head differs from other lines by what is in it.
fn all_columns() -> Vec<Columns> {
    let mut all = Vec::new();
    for number in 0..2 * 5 * 2 * 3 * 2 * 2 {
        let mut rest = number;
        let mut choose = |of: usize| {
            let chosen = rest % of;
            rest /= of;
            chosen
        };
        let columns = Columns {
            comm: choose(2) == 1,
            thread: choose(5) as u8,
            cpu: choose(2) == 1,
            time: [0, 6, 9][choose(3)],
            period: choose(2) == 1,
            event: choose(2) == 1,
        };
        if columns.comm || columns.thread > 0 || columns.cpu || columns.time > 0 {
            all.push(columns);
        }
    }
    all
}

/// One head's values.
#[derive(Clone, Copy)]
struct Values<'a> {
    comm: &'a str,
    pid: i32,
    tid: i32,
    cpu: u32,
    seconds: u64,
    period: u64,
    event: &'a str,
}

/// The head as `perf_sample__fprintf_start` and `process_event` of `perf script` print it, and what
/// [`show`] should say of it.
fn print(columns: Columns, values: &Values<'_>, aligned: bool) -> (String, String) {
    use std::fmt::Write;
    let mut head = String::new();
    let absent = || "-".to_owned();
    let mut expect = vec![absent(); 8];
    let mut line = |text: std::fmt::Arguments<'_>| head.write_fmt(text).expect("a string");
    let (pid, tid) = (values.pid, values.tid);
    if columns.comm {
        match aligned {
            true => line(format_args!("{:>16} ", values.comm)),
            false => line(format_args!("{} ", values.comm)),
        }
        expect[0] = values.comm.to_owned();
    }
    match columns.thread {
        0 => {}
        1 => line(format_args!("{tid:>5} ")),
        2 => line(format_args!("{tid:>7} ")),
        3 => line(format_args!("{pid:>5}/{tid:<5} ")),
        _ => line(format_args!("{pid:>7}/{tid:<7} ")),
    }
    if columns.thread > 2 {
        expect[1] = pid.to_string();
    }
    if columns.thread > 0 {
        expect[2] = tid.to_string();
    }
    if columns.cpu {
        line(format_args!("[{:03}] ", values.cpu));
        expect[3] = values.cpu.to_string();
    }
    if columns.time > 0 {
        line(format_args!("{:>5}.{:0width$}: ", values.seconds, 7, width = columns.time));
        let nanoseconds = 7 * 10u64.pow(9 - columns.time as u32);
        expect[4] = (values.seconds * 1_000_000_000 + nanoseconds).to_string();
    }
    if columns.period {
        line(format_args!("{:>10} ", values.period));
        expect[5] = values.period.to_string();
    }
    if columns.event {
        line(format_args!("{}: ", values.event));
        expect[6] = values.event.to_owned();
    }
    (head, expect.join("|"))
}

/// Names with blanks, digits, brackets, colons and slashes, up to the kernel's fifteen bytes.
const NAMES: &[&str] = &[
    "bash",
    "w",
    "7",
    "worker 0",
    "Thread 1",
    "my app 2",
    "pool-1-thread-2",
    "C2 CompilerThre",
    "GC Thread#0",
    "w (x)",
    "w [1]",
    "w [001]",
    "[a]",
    "[001]",
    "[kworker/0:1]",
    "kworker/0:1-ev",
    ":-1",
    ":1234",
    "sshd: root",
    "a: 1",
    "a 1:",
    "1.5",
    "x 1.5",
    "1.5:",
    "x 1.5:",
    "12 34",
    "1/2",
    "Thread 1/2",
    "x 12345 y",
    "12345 x",
    "K",
    "x U",
    "[1] 2",
    "a [1] b",
    "tokio-rt (4)",
    "2471.02: x",
    "a 1 [0] b",
];

/// Prints this head after two of a thread whose name looks like no field, reads it, and compares.
fn check_printed(columns: Columns, values: &Values<'_>, aligned: bool) {
    let (other, _) = print(columns, &Values { comm: "bash", ..*values }, aligned);
    let (head, expect) = print(columns, values, aligned);
    let other = format!("{other}\n\t401000 f+0x0 (/a)\n\n");
    let layout = Layout::of(format!("{other}{other}{head}\n").as_bytes());
    let line = head.as_bytes();
    let read = parse(line, layout).or_else(|| parse_weak(line, layout));
    assert_eq!(show(read), expect, "{head:?} {columns:?}");
}

#[test]
fn every_head_that_perf_prints_comes_back() {
    const EVENTS: &[(bool, &str)] = &[
        (false, "cycles:u"),
        (true, "cpu-clock"),
        (false, "raw 0x1a8"),
        (false, "sched:sched_switch"),
    ];
    const NUMBERS: &[(i32, u64, u64)] = &[
        (1, 2, 1),
        (3456, 2471, 1_001_001),
        (4_194_304, 7_628_263, 12_345_678_901),
        (-1, 54_321, 250_000),
    ];
    let mut count = 0;
    for columns in all_columns() {
        let names = if columns.comm { NAMES } else { &NAMES[..1] };
        for comm in names {
            for &(aligned, event) in EVENTS {
                for &(tid, seconds, period) in NUMBERS {
                    let values = Values { comm, pid: tid, tid, cpu: 3, seconds, period, event };
                    check_printed(columns, &values, aligned);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 50_000, "{count} heads");
}
