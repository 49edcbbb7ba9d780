//! The command lines of processes, by which profiles are divided.

use crate::common::{Folded, is_root, pyrograph, run};

use super::record::{Case, OFTEN};

/// Processes that are gone before anything could be read of them.
#[test]
fn short_lived_programs_have_command_lines() {
    if !is_root("short_lived_programs_have_command_lines") {
        return;
    }
    let case = Case::new();
    let page = case.path("out.html");
    let script = "for i in 1 2 3 4 5 6 7 8; do /bin/true \"$i x\"; done";
    let mut command = pyrograph();
    command.args(["record", "--exact", "-e", "sched:sched_process_exec", "-o"]).arg(&page);
    run(command.args(["--", "sh", "-c", script]));
    let folded = run(pyrograph().args(["fold", "--by", "cmdline"]).arg(&page));
    let folded = Folded::parse(&String::from_utf8_lossy(&folded.stdout));
    let found: std::collections::BTreeSet<_> =
        folded.stacks.iter().map(|(stack, _)| stack[0].as_str()).collect();
    for number in 1..=8 {
        assert!(found.contains(&*format!("/bin/true '{number} x'")), "{number}: {found:?}");
    }
}

#[test]
fn two_runs_of_one_program_differ_in_their_command_lines() {
    let case = Case::new();
    let page = case.path("out.html");
    for engine in ["perf", "ebpf"] {
        if engine == "ebpf" && !is_root("two_runs_of_one_program_differ_in_their_command_lines") {
            continue;
        }
        let program = case.program.display();
        // One with a word that a shell would divide: the program takes the number in front of it.
        // By perf events they have to stay until their command lines were read, which may take a while on a busy machine.
        let stays = if engine == "perf" { " 2" } else { "" };
        let script = format!("{program} 300{stays} & {program} '600 x'{stays} & wait");
        run(pyrograph()
            .args(["record", "--engine", engine])
            .args(OFTEN)
            .arg("-o")
            .arg(&page)
            .args(["--", "sh", "-c", &script]));
        let folded = run(pyrograph().args(["fold", "--by", "cmdline"]).arg(&page));
        let folded = Folded::parse(&String::from_utf8_lossy(&folded.stdout));
        let of = |line: String| move |stack: &[String]| stack[0] == line;
        folded.check_share("the first", 100.0 / 3.0, of(format!("{program} 300{stays}")));
        folded.check_share("the second", 200.0 / 3.0, of(format!("{program} '600 x'{stays}")));
    }
}
