//! `pyrograph trace --stacks` and `--page-faults`: programs of known truth, without frame pointers.

use std::path::Path;

use crate::common::{compile, is_root, pyrograph, remarks};

const FLAGS: [&str; 6] =
    ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"];

/// A line of a trace, and the frames below it.
struct Traced {
    text: String,
    frames: Vec<String>,
}

impl Traced {
    /// The names of the functions, innermost first; ` (inlined)` is part of a name.
    fn functions(&self) -> Vec<String> {
        let name = |frame: &String| {
            let name = frame.split(['+', ' ']).next().unwrap_or_default().to_owned();
            if frame.contains(" (inlined)") { format!("{name} (inlined)") } else { name }
        };
        self.frames.iter().map(name).collect()
    }

    fn in_kernel(&self) -> usize {
        self.frames.iter().filter(|frame| frame.contains(" (kernel)")).count()
    }
}

/// Runs `pyrograph trace` of a command; returns the lines with their frames, and what was said.
fn trace(folder: &Path, flags: &[&str], command: &[&str]) -> (Vec<Traced>, String) {
    let path = folder.join("trace.txt");
    let mut trace = pyrograph();
    trace.arg("trace").args(flags).arg("-o").arg(&path).arg("--").args(command);
    let output = trace.output().expect("pyrograph runs");
    let mut found: Vec<Traced> = Vec::new();
    for line in std::fs::read_to_string(&path).unwrap_or_default().lines() {
        match line.strip_prefix("    > ") {
            Some(frame) => found.last_mut().expect("a line before").frames.push(frame.to_owned()),
            None => {
                let text = line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
                found.push(Traced { text, frames: Vec::new() });
            }
        }
    }
    (found, remarks(&output.stderr))
}

fn program(folder: &Path) -> String {
    compile(&FLAGS, "asks_deep.c", folder).to_string_lossy().into_owned()
}

/// Checks the stacks of the calls with a name: how many there are, and their functions from the innermost on.
fn check(all: &[Traced], name: &str, count: usize, functions: &[&str]) {
    let found: Vec<&Traced> =
        all.iter().filter(|traced| traced.text.starts_with(&format!("{name}("))).collect();
    assert_eq!(found.len(), count, "{name}");
    for traced in found {
        let names = traced.functions();
        assert_eq!(names[..functions.len().min(names.len())], *functions, "{:?}", traced.frames);
        assert!(!traced.frames.iter().any(|frame| frame.starts_with('[')), "{:?}", traced.frames);
    }
}

#[test]
fn each_call_has_the_stack_that_led_to_it() {
    if !is_root("each_call_has_the_stack_that_led_to_it") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let calls = "getppid,fchdir,getpgid,getuid";
    let (all, said) = trace(folder.path(), &["--stacks", "-e", calls], &[&program, "3000"]);
    assert_eq!(said, "");
    check(&all, "getppid", 5, &["asks (inlined)", "left", "main"]);
    check(&all, "fchdir", 3, &["asks (inlined)", "deeper", "right", "main"]);
    check(&all, "getuid", 2, &["asks (inlined)", "in_thread", "runs"]);
    let mut deep = vec!["asks (inlined)", "bottom"];
    deep.extend(std::iter::repeat_n("descends", 3001));
    deep.push("main");
    check(&all, "getpgid", 1, &deep);
    let source = all.iter().find(|traced| traced.text.starts_with("getppid")).expect("a call");
    assert!(source.frames[0].contains("asks_deep.c:18"), "{:?}", source.frames);
    assert!(source.frames[1].contains(&format!("({program})")), "{:?}", source.frames);
    assert!(source.frames.last().expect("frames").starts_with("_start+"), "{:?}", source.frames);
}

#[test]
fn a_recursion_that_no_copy_holds_is_whole_or_says_that_it_is_not() {
    if !is_root("a_recursion_that_no_copy_holds_is_whole_or_says_that_it_is_not") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let (all, said) = trace(folder.path(), &["--stacks", "-e", "getpgid"], &[&program, "30000"]);
    assert_eq!(said, "");
    let call = all.iter().find(|traced| traced.text.starts_with("getpgid(")).expect("the call");
    let depth = call.functions().iter().filter(|name| *name == "descends").count();
    let last = call.frames.last().expect("frames");
    match call.functions().iter().any(|name| name == "main") {
        true => assert_eq!(depth, 30_001),
        false => assert!(depth > 3000 && last.starts_with('['), "{depth}, {last}"),
    }
}

#[test]
fn only_what_is_shown_has_a_stack() {
    if !is_root("only_what_is_shown_has_a_stack") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let (all, said) =
        trace(folder.path(), &["--stacks", "--failed", "-e", "getppid,fchdir"], &[&program]);
    assert_eq!(said, "");
    let calls = all.iter().filter(|traced| !traced.text.starts_with("+++")).count();
    assert_eq!(calls, 3);
    check(&all, "fchdir", 3, &["asks (inlined)", "deeper", "right", "main"]);
    let (all, _) = trace(folder.path(), &["--stacks", "--slower", "10s"], &[&program]);
    assert!(all.iter().all(|traced| traced.frames.is_empty()));
}

#[test]
fn a_program_that_executes_another_shows_where() {
    if !is_root("a_program_that_executes_another_shows_where") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (all, said) = trace(folder.path(), &["--stacks", "-e", "execve"], &["env", "true"]);
    assert_eq!(said, "");
    let found: Vec<&Traced> =
        all.iter().filter(|traced| traced.text.starts_with("execve(\"")).collect();
    let last = found.iter().rfind(|traced| traced.text.contains(" = 0 <")).expect("a call");
    assert!(last.frames.len() > 2 && last.frames[0].contains("libc"), "{:?}", last.frames);
    // The first is that of the child of Pyrograph that becomes the command.
    assert!(found[0].frames.is_empty(), "{:?}", found[0].frames);
}

#[test]
fn events_have_the_stacks_of_kernel_and_program() {
    if !is_root("events_have_the_stacks_of_kernel_and_program") {
        return;
    }
    if !std::fs::exists("/sys/kernel/tracing/events/sched").unwrap_or(false) {
        eprintln!("skipped: tracefs is not mounted");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let events = "syscalls:sys_enter_getppid,uprobe:{}:deeper".replace("{}", &program);
    let (all, said) = trace(folder.path(), &["--stacks", "-e", &events], &[&program]);
    assert_eq!(said, "");
    let of = |name: &str| -> Vec<&Traced> {
        all.iter().filter(|traced| traced.text.starts_with(name)).collect()
    };
    assert_eq!((of("syscalls:").len(), of("uprobe:").len()), (5, 3));
    for traced in of("syscalls:") {
        let kernel = traced.in_kernel();
        let names = traced.functions();
        assert!(kernel > 0 && names[..kernel].iter().any(|name| name == "do_syscall_64"));
        assert_eq!(names[kernel..][..3], ["asks (inlined)", "left", "main"]);
    }
    for traced in of("uprobe:") {
        // The first instructions are said to be of what is inlined.
        let mut names = traced.functions();
        names.retain(|name| !name.contains("(inlined)"));
        let kernel = traced.in_kernel();
        assert_eq!(names[kernel..][..3], ["deeper", "right", "main"], "{:?}", traced.frames);
    }
}

#[test]
fn page_faults_say_where_and_of_what() {
    if !is_root("page_faults_say_where_and_of_what") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&["gcc", "-O1", "-g"], "touches.c", folder.path());
    let program = program.to_string_lossy();
    let file = folder.path().join("pages");
    std::fs::write(&file, vec![7; 8 * 4096]).expect("a file");
    let file = file.to_string_lossy();
    let (all, said) =
        trace(folder.path(), &["-F", "all", "--no-syscalls", "--stacks"], &[&program, &file]);
    // What the program prints goes to standard output.
    assert_eq!(said, "");
    let of = |function: &str, target: &str| {
        let is_it = |traced: &&Traced| {
            let text = &traced.text;
            text.starts_with("page fault (m")
                && text.contains(&format!(" at {function}+0x"))
                && text.contains(&format!(" in {target}"))
        };
        let found: Vec<&Traced> = all.iter().filter(is_it).collect();
        for traced in &found {
            assert_eq!(traced.functions()[..2], [function, "main"], "{:?}", traced.frames);
        }
        found.len()
    };
    let texts: Vec<&str> = all.iter().map(|traced| &traced.text[..]).collect();
    assert_eq!(of("touches_own", "anon"), 16, "{texts:#?}");
    assert_eq!(of("touches_heap", "heap"), 4, "{texts:#?}");
    assert_eq!(of("touches_file", &format!("{file}+0x")), 8, "{texts:#?}");
    for page in 0..8 {
        let end = format!(" in {file}+{:#x}", page * 4096);
        assert_eq!(texts.iter().filter(|text| text.ends_with(&end)).count(), 1, "{end}");
    }
    assert!(all.iter().all(|traced| traced.text.starts_with("page fault (")), "{texts:#?}");
}

#[test]
fn what_has_no_stacks_says_so() {
    let refuse = |args: &[&str], expect: &str| {
        let output = pyrograph().arg("trace").args(args).output().expect("pyrograph runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expect), "{said}");
    };
    refuse(&["-s", "--stacks", "--", "true"], "pyrograph record --syscalls");
    refuse(&["-s", "-F", "all", "--", "true"], "pyrograph stat -e minor-faults,major-faults");
    refuse(&["-s", "--no-syscalls", "--", "true"], "--no-syscalls");
    refuse(&["--no-syscalls", "--", "true"], "nothing to trace");
}
