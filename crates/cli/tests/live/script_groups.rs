//! `pyrograph script` beside `perf script`, of a group of events that one sample counts (`{a,b}:S`).

use std::process::Command;

use crate::common::perf::{run_perf, with_perf};
use crate::common::{pyrograph, run};

/// A sample that holds the counts of a group is one of each event of it.
#[test]
fn groups_that_are_counted_by_one_sample_were_one_record() {
    with_perf("groups_that_are_counted_by_one_sample_were_one_record", |folder| {
        // Of one thread: perf takes no counts of groups from threads that start later.
        let data = folder.join("perf.data");
        let program = "BEGIN { for (i = 0; i < 3000000; i++) { a[i % 90000] = i } }";
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "-q",
            "-N",
            "-g",
            "-F",
            "499",
            "-e",
            "{cpu-clock,page-faults}:S",
            "-o",
        ]);
        run_perf(perf.arg(&data).args(["--", "awk", program]));
        let ours = |options: &[&str]| {
            let output = run(pyrograph().arg("script").args(options).arg("-i").arg(&data));
            String::from_utf8(output.stdout).expect("text")
        };
        let fields = ["-F", "comm,pid,tid,time,period,event"];
        let mut perf = Command::new("perf");
        let output = run_perf(perf.arg("script").args(fields).arg("-i").arg(&data));
        let expect = String::from_utf8(output.stdout).expect("text");
        for event in ["cpu-clock:", "page-faults:"] {
            assert!(expect.lines().filter(|line| line.contains(event)).count() > 1, "{expect}");
        }
        assert_eq!(ours(&fields), expect);
        // One of them alone has the stacks of the samples, too.
        let all = ours(&[]);
        let is_it = |block: &&str| block.contains("page-faults:");
        let only: String = all.split_inclusive("\n\n").filter(is_it).collect();
        assert!(only.contains("\n\t"), "{all}");
        assert_eq!(ours(&["--event-filter", "page-faults"]), only);
    });
}
