//! The table of calls against the running kernel's tracefs.

use std::fs;
use std::path::Path;

use pyrograph_syscall::{Call, all};

/// Names that the kernel's functions have, where they are not those of the calls.
fn in_the_kernel(name: &str) -> &str {
    match name {
        "fstat" => "newfstat",
        "stat" => "newstat",
        "lstat" => "newlstat",
        "uname" => "newuname",
        "umount2" => "umount",
        "sendfile" => "sendfile64",
        name => name,
    }
}

// 	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
// 	field:const char * filename;	offset:24;	size:8;	signed:0;
fn arguments_in_kernel(call: &Call) -> Option<Vec<String>> {
    let folder = Path::new("/sys/kernel/tracing/events/syscalls");
    let format =
        fs::read_to_string(folder.join(format!("sys_enter_{}/format", in_the_kernel(call.name))))
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
