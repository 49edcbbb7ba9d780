//! Functions of PHP and Ruby among native frames, in recordings of programs of known truth.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::common::interpreters::{check_measured, check_said, copy, interpreters};
use crate::common::{Folded, is_root, run, sharp};

/// Records a program for so many seconds; returns its stacks, what it printed, and what was said.
fn record(
    interpreter: &Path,
    script: &Path,
    seconds: &str,
    flags: &[&str],
) -> (Folded, String, String) {
    let out = script.with_extension("folded");
    // A call takes about a millisecond, in turns that come again: several samples in each are not in step with them.
    let flags = [&["-F", "3001"], flags].concat();
    let arguments = [script.to_str().expect("a path"), seconds];
    crate::common::interpreters::record(&flags, interpreter, &arguments, &out)
}

/// The functions' shares are those that the program measured by its own clock.
fn check_shares(interpreter: &Path, script: &Path, prefix: &str) {
    let (folded, printed, said) =
        record(interpreter, script, sharp("1.5", "4"), &["--count", "samples"]);
    check_measured(&folded, &printed, prefix, &format!("{interpreter:?}: {said}"));
    check_said(&said);
}

/// Returns true if a stack has these functions in this order, root first. A function that is only known in part ends with
/// a star, or begins with one.
fn has(stack: &[String], wanted: &[&str]) -> bool {
    let mut frames = stack.iter();
    wanted.iter().all(|wanted| {
        frames.any(|frame| match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
            (Some(end), _) => frame.ends_with(end),
            (_, Some(start)) => frame.starts_with(start),
            _ => frame == wanted,
        })
    })
}

/// Each of these calls is found; `leaf` takes the time, under all of them, and calls nothing of the program.
fn check_calls(interpreter: &Path, script: &Path, leaf: &str, calls: &[&[&str]]) {
    let (folded, _, said) = record(interpreter, script, "1", &[]);
    let stacks = || folded.stacks.iter().map(|(stack, _)| stack);
    for wanted in calls {
        let wanted = [wanted, &[leaf][..]].concat();
        assert!(
            stacks().any(|stack| has(stack, &wanted)),
            "{interpreter:?} {wanted:?}\n{said}\n{:?}",
            stacks().filter(|stack| stack.iter().any(|frame| frame == leaf)).collect::<Vec<_>>()
        );
    }
    let root = leaf.split(['.', '\\']).next().unwrap_or(leaf);
    for stack in stacks() {
        let mut below = stack.iter().skip_while(|frame| *frame != leaf).skip(1);
        assert!(below.all(|frame| !frame.starts_with(root)), "{interpreter:?}: {stack:?}");
    }
    assert!(folded.total_share(leaf) > 50.0, "{interpreter:?} {said} {:?}", folded.leaves());
    check_said(&said);
}

/// By programs whose names in `has` are those of all versions.
const PHP: &[&[&str]] = &[
    &["calls.php", "App\\recurse", "App\\recurse", "App\\recurse"],
    &["calls.php", "App\\consumes", "App\\numbers"],
    &["calls.php", "App\\throws"],
    &["calls.php", "App\\sorts", "usort"],
    &["calls.php", "App\\evaluates", "(eval)"],
    &["calls.php", "App\\Thing::method"],
    &["calls.php", "App\\Thing::maps", "array_map"],
    &["calls.php", "App\\Thing::__call"],
    &["calls.php", "App\\Thing::__get"],
    &["calls.php", "App\\Thing::__destruct"],
];
const PHP_FIBERS: &[&[&str]] = &[
    &["calls.php", "App\\fibers", "Fiber::start"],
    &["calls.php", "App\\fibers", "Fiber::resume", "App\\sorts", "usort"],
];
/// Up to 8.3; later closures are named by where they are, and the file of code that was run once cannot be had.
const PHP_CLOSURES: &[&[&str]] = &[
    &["calls.php", "included.php"],
    &["App\\sorts", "usort", "App\\{closure}"],
    &["App\\Thing::method", "App\\Thing::App\\{closure}"],
    &["App\\Thing::maps", "array_map", "App\\Thing::App\\{closure}"],
];
const PHP_NAMED_CLOSURES: &[&[&str]] = &[
    &["App\\sorts", "usort", "{closure:App\\sorts()*"],
    &["App\\Thing::method", "{closure:App\\Thing::method()*"],
    &["App\\Thing::maps", "array_map", "{closure:App\\Thing::maps()*"],
];

const RUBY: &[&[&str]] = &[
    &["<main>", "Object#recurse", "Object#recurse", "Object#recurse"],
    &["<main>", "Object#sorts", "*#sort_by", "block in Object#sorts"],
    &["<main>", "Object#consumes", "App::Thing#each", "block in Object#consumes"],
    &["block in Object#fibers"],
    &["block in Object#fibers", "Object#sorts", "*#sort_by", "block in Object#sorts"],
    &["<main>", "Object#throws", "rescue in Object#throws"],
    &["<main>", "App::Thing#blocks", "Array#each", "block in App::Thing#blocks"],
    &["<main>", "App::Thing#method_missing"],
    &["<main>", "App::Thing.fixed"],
    &["<main>", "App::Thing.own"],
    &["<main>", "Kernel#load", "<top (required)>"],
    &["block in <main>"],
];

/// Major and minor version.
fn version(interpreter: &Path, code: &str, flag: &str) -> (u32, u32) {
    let output = run(std::process::Command::new(interpreter).args([flag, code]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().split('.').filter_map(|number| number.parse().ok());
    (numbers.next().expect("a number"), numbers.next().expect("a number"))
}

#[test]
fn php_functions_have_their_shares() {
    if !is_root("php_functions_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("shares.php", folder.path());
    for (_, interpreter) in interpreters("php", "/usr/bin/php") {
        check_shares(&interpreter, &script, "");
    }
}

#[test]
fn ruby_methods_have_their_shares() {
    if !is_root("ruby_methods_have_their_shares") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("shares.rb", folder.path());
    for (_, interpreter) in interpreters("ruby", "/usr/bin/ruby") {
        check_shares(&interpreter, &script, "Shares#");
    }
}

#[test]
fn php_calls_are_in_order() {
    if !is_root("php_calls_are_in_order") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("calls.php", folder.path());
    for (_, interpreter) in interpreters("php", "/usr/bin/php") {
        let version = version(&interpreter, "echo PHP_VERSION;", "-r");
        let closures = if version < (8, 4) { PHP_CLOSURES } else { PHP_NAMED_CLOSURES };
        let fibers = if version < (8, 1) { &[] } else { PHP_FIBERS };
        let calls = [PHP, closures, fibers].concat();
        check_calls(&interpreter, &script, "App\\burn", &calls);
    }
}

#[test]
fn ruby_calls_are_in_order() {
    if !is_root("ruby_calls_are_in_order") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("calls.rb", folder.path());
    for (_, interpreter) in interpreters("ruby", "/usr/bin/ruby") {
        check_calls(&interpreter, &script, "App.burn", RUBY);
    }
}

/// Records `classes.rb`: methods have their classes by `Method#owner`, and each stack of labels that Ruby has is there.
fn check_classes(interpreter: &Path, script: &Path) {
    let flags = ["--stacks", "lang"];
    let (folded, printed, said) = record(interpreter, script, "1.5", &flags);
    let burning = folded.stacks.iter().filter_map(|(stack, _)| {
        let at = stack.iter().position(|frame| frame == "Burner.burn")?;
        let main = stack.iter().position(|frame| frame == "<main>")?;
        Some(stack.get(main..at)?.join(";"))
    });
    let burning: HashSet<String> = burning.collect();
    let mut labelled = 0;
    for line in printed.lines() {
        if let Some(stack) = line.strip_prefix("stack;") {
            labelled += 1;
            assert!(burning.contains(stack), "{interpreter:?} {stack} {said} {burning:#?}");
            continue;
        }
        let is_there = |stack: &String| stack.split(';').any(|frame| frame == line);
        assert!(burning.iter().any(is_there), "{interpreter:?} {line} {said} {burning:#?}");
    }
    let is_labelled = version(interpreter, "puts RUBY_VERSION", "-e") >= (3, 4);
    assert_eq!(labelled, if is_labelled { 11 } else { 0 }, "{printed}");
}

#[test]
fn ruby_methods_have_their_classes() {
    if !is_root("ruby_methods_have_their_classes") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = copy("classes.rb", folder.path());
    for (_, interpreter) in interpreters("ruby", "/usr/bin/ruby") {
        check_classes(&interpreter, &script);
    }
}

const SHORT_PHP: &str = "<?php
class AWorkerWithALongName {
    static function work($rounds) { for ($sum = 0; $sum < $rounds; $sum++); }
}
AWorkerWithALongName::work(4000000);
";
const SHORT_RUBY: &str = "
class AWorkerWithALongName
  def self.work(till) while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < till; end; end
end
AWorkerWithALongName.work(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + 0.02)
";

/// Scripts that are gone when their functions are named have classes, and PHP's have files and lines.
#[test]
fn short_scripts_have_classes_and_files() {
    if !is_root("short_scripts_have_classes_and_files") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (language, text, function) in [
        ("php", SHORT_PHP, "AWorkerWithALongName::work"),
        ("ruby", SHORT_RUBY, "AWorkerWithALongName.work"),
    ] {
        let name = format!("short.{language}");
        let script = crate::common::interpreters::write(folder.path(), &name, text);
        let out = folder.path().join("short.folded");
        for (_, interpreter) in interpreters(language, &format!("/usr/bin/{language}")) {
            let rounds = format!(
                "for i in 1 2 3 4 5 6 7 8 9 10; do {} {}; done",
                interpreter.display(),
                script.display()
            );
            let flags = ["-F", "999", "--lines"];
            let (folded, _, said) = crate::common::interpreters::record(
                &flags,
                Path::new("/bin/sh"),
                &["-c", &rounds],
                &out,
            );
            let frames = || folded.stacks.iter().flat_map(|(stack, _)| stack);
            let found: Vec<_> = frames().filter(|frame| frame.starts_with("AWorker")).collect();
            let wanted = format!("{function} ({name}:3)");
            // Ruby's table of lines is only read while the process runs.
            let has_no_lines = language == "ruby";
            assert!(!found.is_empty(), "{interpreter:?} {said}");
            assert!(
                found.iter().all(|frame| **frame == wanted || has_no_lines && *frame == function),
                "{interpreter:?} {said} {found:?}"
            );
            assert!(!said.contains("without a name"), "{interpreter:?} {said}");
        }
    }
}

/// Lines, where they are asked for.
#[test]
fn calls_have_lines() {
    if !is_root("calls_have_lines") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (language, name, function) in
        [("php", "calls.php", "App\\throws"), ("ruby", "calls.rb", "Thing.fixed")]
    {
        let script = copy(name, folder.path());
        let text = fs::read_to_string(&script).expect("a program");
        let own = function.rsplit(['.', '\\']).next().unwrap_or(function);
        let is_start =
            |line: &str| line.contains(&format!(" {own}(")) || line.contains(&format!(".{own};"));
        let expected = 1 + text.lines().position(is_start).expect("the function's line");
        for (_, interpreter) in interpreters(language, &format!("/usr/bin/{language}")) {
            let (folded, _, said) = record(&interpreter, &script, "1", &["--lines"]);
            let wanted = format!("{name}:{expected}");
            let found = folded
                .stacks
                .iter()
                .flat_map(|(stack, _)| stack)
                .find(|frame| frame.contains(function) && frame.contains(&wanted));
            let of_function = || {
                folded.stacks.iter().flat_map(|(stack, _)| stack).filter(|f| f.contains(function))
            };
            assert!(found.is_some(), "{interpreter:?} {wanted} {said} {:?}", of_function().next());
        }
    }
}
