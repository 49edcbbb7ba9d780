//! The table of calls against the running kernel's tracefs.

use std::fs;
use std::path::Path;

use pyrograph_syscall::{Call, all, number_of_tracepoint, tracepoint_name};

// 	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
// 	field:const char * filename;	offset:24;	size:8;	signed:0;
fn arguments_in_kernel(call: &Call) -> Option<Vec<String>> {
    let folder = Path::new("/sys/kernel/tracing/events/syscalls");
    let format =
        fs::read_to_string(folder.join(format!("sys_enter_{}/format", tracepoint_name(call.name))))
            .ok()?;
    let name = |line: &str| {
        let field = line.trim().strip_prefix("field:")?.split(';').next()?;
        field.rsplit([' ', '*']).next().map(str::to_owned)
    };
    let names = format.lines().filter_map(name);
    Some(names.filter(|name| !name.starts_with("common_") && !name.starts_with("__")).collect())
}

#[test]
fn arguments_are_those_of_the_running_kernel() {
    let mut compared = 0;
    for (number, call) in all() {
        let Some(theirs) = arguments_in_kernel(call) else { continue };
        let ours: Vec<&str> = call.arguments.iter().map(|argument| argument.name).collect();
        assert_eq!(ours, theirs, "{number} {}", call.name);
        compared += 1;
    }
    if compared == 0 {
        eprintln!("skipped: the formats of tracefs cannot be read");
        return;
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn no_call_needs_more_copies_than_are_promised() {
    for (_, call) in all() {
        assert!(
            call.copies().len() <= Call::MOST_COPIES && call.arguments.len() <= 6,
            "{}",
            call.name
        );
        for copy in call.copies() {
            assert!(usize::from(copy.argument) < call.arguments.len(), "{}", call.name);
        }
    }
}

/// Calls of the kernel's tracepoints are counted by their numbers: one that is not known would be counted in another way.
#[test]
fn each_tracepoint_of_a_call_has_its_number() {
    let folder = "/sys/kernel/tracing/events/syscalls";
    let names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix("sys_enter_").map(str::to_owned))
        .collect();
    if names.is_empty() {
        eprintln!("skipped: the formats of tracefs cannot be read");
        return;
    }
    let unknown: Vec<&String> =
        names.iter().filter(|name| number_of_tracepoint(name).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for (number, call) in all() {
        assert_eq!(number_of_tracepoint(tracepoint_name(call.name)), Some(number), "{}", call.name);
    }
}
