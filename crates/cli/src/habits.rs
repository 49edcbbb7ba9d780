//! Translation of options, subcommands and values of `perf` and `strace` that have another spelling here. Those without
//! an equivalent are errors that name the nearest one.
//!
//! Sources: perf-stat(1), perf-report(1), perf-annotate(1), perf-record(1), perf-top(1), perf-sched(1), perf-script(1),
//! perf-trace(1), strace(1).

mod table;
mod values;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Command;
use pyrograph_record::nearest;

use crate::spelling;
use table::{HABITS, READERS, VERBS};
use values::is_number;

/// How an option of another program is followed by its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A value: the next argument, behind `=`, or joined to a letter.
    Value,
    /// A value only if it is behind `=` or joined to a letter.
    Joined,
    /// As [`Self::Joined`], or the next argument if it begins with one of these words.
    Words(&'static [&'static str]),
}

/// Arguments in place of those of another program, or the line that explains them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ours {
    /// Behind the subcommand.
    first: Vec<String>,
    here: Vec<String>,
    /// Behind all others, such as input files.
    last: Vec<String>,
}

type Translated = Result<Ours, String>;

/// Meaning of an option here.
enum Meaning {
    /// It is so already.
    Already,
    /// These arguments.
    As(&'static [&'static str]),
    /// The function's translation of the value, or of an empty string if there is none; `None` to keep the option unchanged.
    Of(fn(&str) -> Option<Translated>),
    /// It does not exist here: a line that says what does.
    Say(&'static str),
}

use Meaning::{Already, As, Of, Say};
use Takes::{Joined, Nothing, Value, Words};

/// Translates a command line. `program` is its definition.
///
/// # Errors
///
/// If it asks for what is not here: a line that says what is.
pub fn translated(arguments: Vec<OsString>, program: &Command) -> Result<Vec<OsString>, String> {
    let Some(verb) = arguments.get(1).and_then(|verb| verb.to_str()) else { return Ok(arguments) };
    let Some(mut known) = program.find_subcommand(verb) else {
        return match VERBS.iter().find(|(names, _)| names.contains(&verb)) {
            Some((_, line)) => Err(format!("{verb}: {line}")),
            None => file(verb).map_or(Ok(arguments), Err),
        };
    };
    let verb = known.get_name();
    let runs_commands = matches!(verb, "record" | "stat" | "trace" | "top" | "sched");
    let mut ours = arguments[..2].to_vec();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut rest = arguments[2..].iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            last.push(argument.clone());
            last.extend(rest.by_ref().cloned());
            break;
        }
        let text = argument.to_str().unwrap_or_default();
        if !text.starts_with('-') || text == "-" {
            if runs_commands {
                if let Some(view) = view(verb, text, program)? {
                    // Its options follow.
                    known = known.find_subcommand(view).unwrap_or(known);
                    ours.push(view.into());
                    continue;
                }
                ours.push(argument.clone());
                ours.extend(rest.by_ref().cloned());
                break;
            }
            ours.push(argument.clone());
            continue;
        }
        let next = rest.peek().and_then(|next| next.to_str());
        match translation(verb, text, next, known) {
            Some((translated, took_next)) => {
                let Ours { first: at_first, here, last: at_last } = translated?;
                ours.extend(here.into_iter().map(OsString::from));
                first.extend(at_first.into_iter().map(OsString::from));
                last.splice(0..0, at_last.into_iter().map(OsString::from));
                if took_next {
                    rest.next();
                }
            }
            None => {
                ours.push(argument.clone());
                if takes_next(text, known) {
                    ours.extend(rest.next().cloned());
                }
            }
        }
    }
    ours.splice(2..2, first);
    ours.extend(last);
    Ok(ours)
}

/// Translates an option; returns whether the next argument was its value. `None` if it is none of another program.
fn translation(
    verb: &str,
    text: &str,
    next: Option<&str>,
    known: &Command,
) -> Option<(Translated, bool)> {
    let (name, joined) = split(text);
    let is_ours = is_known(name, known);
    for (_, spellings, takes, meaning) in HABITS.iter().filter(|habit| habit.0.contains(&verb)) {
        // Several letters in one word are a spelling of their own.
        let is_whole = spellings.contains(&text);
        if !is_whole && (!spellings.contains(&name) || *takes == Nothing) {
            continue;
        }
        if is_ours && !matches!(meaning, Of(_)) {
            continue;
        }
        let joined = joined.filter(|_| !is_whole);
        let took_next = joined.is_none()
            && match takes {
                Value => true,
                Words(words) => {
                    next.is_some_and(|next| words.iter().any(|word| next.starts_with(word)))
                }
                Nothing | Joined => false,
            };
        let value = if took_next { next } else { joined }.unwrap_or_default();
        return match meaning {
            Already => Some((Ok(Ours::default()), took_next)),
            As(arguments) => Some((here(arguments), took_next)),
            Of(translate) => translate(value).map(|translated| (translated, took_next)),
            Say(line) => Some((Err(format!("{name}: {line}")), false)),
        };
    }
    let is_input = matches!(name, "-i" | "--input") && READERS.contains(&verb) && !is_ours;
    if is_input {
        let value = joined.or(next).unwrap_or_default().to_owned();
        return Some((Ok(Ours { last: vec![value], ..Ours::default() }), joined.is_none()));
    }
    // The value of these is behind `=`, since it can be left out.
    if !matches!(text, "--pid" | "--tid") || !READERS.contains(&verb) {
        return None;
    }
    let ids = next.filter(|next| next.split(',').all(is_number) && !Path::new(next).exists())?;
    Some((option(text, ids), true))
}

/// Splits `--name=value` and `-nvalue`.
fn split(text: &str) -> (&str, Option<&str>) {
    if text.starts_with("--") {
        return match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
    }
    match text.char_indices().nth(2) {
        Some((at, _)) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    }
}

/// The argument of this name in a definition.
fn argument<'a>(name: &str, known: &'a Command) -> Option<&'a clap::Arg> {
    known.get_arguments().find(|argument| match name.strip_prefix("--") {
        Some(long) => {
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => name.chars().nth(1).is_some_and(|letter| {
            argument.get_short() == Some(letter)
                || argument.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
        }),
    })
}

fn is_known(name: &str, known: &Command) -> bool {
    argument(name, known).is_some()
}

/// Returns true if an option of ours has its value in the next argument.
fn takes_next(text: &str, known: &Command) -> bool {
    let (name, joined) = split(text);
    joined.is_none() && argument(name, known).is_some_and(spelling::takes_next)
}

/// The view of `sched` that a word means. `None` if it is the first word of a command.
fn view<'a>(verb: &str, word: &str, program: &'a Command) -> Result<Option<&'a str>, String> {
    let is_program = || pyrograph_session::is_program(word.as_ref());
    let line = match (verb, word) {
        ("sched", "record") => {
            "sched: what runs is followed without a file: `pyrograph sched -- COMMAND`, or -a -d 10; \
             `pyrograph sched script -o FILE -- COMMAND` keeps the events"
        }
        ("sched", "replay") => "sched: recordings are not replayed",
        ("stat", "record" | "report") => {
            "stat: counts are not kept in a perf.data: -o FILE.json or -o FILE.csv keeps them"
        }
        _ => "",
    };
    if !line.is_empty() && !is_program() {
        return Err(line.to_owned());
    }
    let Some(sched) = program.find_subcommand("sched").filter(|_| verb == "sched") else {
        return Ok(None);
    };
    let views = || sched.get_subcommands().map(Command::get_name);
    let word = if word == "lat" { "latency" } else { word };
    if let Some(view) = views().find(|view| *view == word) {
        return Ok(Some(view));
    }
    if !Path::new(word).exists()
        && !is_program()
        && let Some(near) = nearest(word, views().map(str::to_owned)).first()
    {
        return Err(format!(
            "sched: there is no view and no command '{word}'; did you mean {near}?"
        ));
    }
    Ok(None)
}

/// Line for a file, or a program in PATH, in place of a subcommand.
fn file(word: &str) -> Option<String> {
    let path = Path::new(word);
    let is_command = match path.metadata() {
        Ok(file) => file.is_file() && file.permissions().mode() & 0o111 != 0,
        Err(_) => pyrograph_session::is_program(word.as_ref()),
    };
    match is_command {
        true => Some(format!("{word}: `pyrograph record -- {word}` records a program")),
        false => path.is_file().then(|| {
            format!("{word}: `pyrograph report {word}` shows a profile, `pyrograph flamegraph {word}` draws it")
        }),
    }
}

fn here(arguments: &[&str]) -> Translated {
    let here = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Ok(Ours { here, ..Ours::default() })
}

fn option(name: &str, value: &str) -> Translated {
    here(&[&format!("{name}={value}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The translation of a command line, or the line that explains it.
    fn of(line: &str) -> String {
        let words = format!("pyrograph {line}");
        let arguments = words.split(' ').map(OsString::from).collect();
        match translated(arguments, &crate::command()) {
            Ok(ours) => {
                let ours: Vec<_> =
                    ours.iter().map(|word| word.to_str().expect("text")).skip(1).collect();
                ours.join(" ")
            }
            Err(line) => line,
        }
    }

    #[test]
    fn options_of_perf_and_strace_are_ours() {
        for (theirs, ours) in [
            ("stat -x, -A -a -d 1", "stat --csv --by=cpu -a -d 1"),
            ("stat -x , -- true", "stat --csv -- true"),
            ("stat --per-thread -p 1", "stat --by=thread -p 1"),
            ("stat -B -r 3 -- ls -A", "stat -r 3 -- ls -A"),
            ("stat -r 3 ls -A -B", "stat -r 3 ls -A -B"),
            ("stat -G system.slice -a", "stat --cgroup=system.slice -a"),
            ("stat --cgroup system.slice -A -a", "stat --cgroup system.slice --by=cpu -a"),
            ("stat --interval-print 1000 -a", "stat --interval=1000ms -a"),
            ("stat --timeout 500 -a", "stat --duration=500ms -a"),
            ("trace -f -tt -T -y -k -s 100 -- true", "trace --stacks --string-limit=100 -- true"),
            ("trace -e trace=openat,close ls -f", "trace --expr=openat,close ls -f"),
            ("trace -e openat -s -- true", "trace -e openat -s -- true"),
            ("trace -e trace=all -c -p 1", "trace --summary -p 1"),
            ("report --stdio -i perf.data", "report perf.data"),
            ("report -i x.data --no-children -g callee,0.5", "report --sort=self --callers x.data"),
            ("report --call-graph=callee -e cycles", "report --callers --event-filter=cycles"),
            ("report -g --pid 3029 perf.data", "report --pid=3029 perf.data"),
            ("report --sort total x", "report --sort total x"),
            ("annotate --stdio -i perf.data -s main", "annotate main perf.data"),
            ("annotate main -i perf.data", "annotate main perf.data"),
            ("top --stdio -a -d 1", "top --batch -a -d 1"),
            ("record -m 64 -z -a -o x.svg", "record -a -o x.svg"),
            ("record -e off-cpu -p 1", "record --off-cpu -p 1"),
            ("record -ewall -- true", "record --wall -- true"),
            ("top --event=syscalls=openat -a", "top --syscalls=openat -a"),
            ("record -e sched:sched_switch,alloc -a", "record -e sched:sched_switch,alloc -a"),
            ("sched lat -i perf.data", "sched latency -i perf.data"),
            ("sched -- record", "sched -- record"),
            ("fold -i x", "fold x"),
            ("list -v sched:*", "list -v sched:*"),
            ("list --details hw", "list hw"),
            ("record -G a.slice -i -- true", "record --cgroup=a.slice --no-inherit -- true"),
            (
                "record -D 100 --all-user -T --aio=2 -- true",
                "record --delay=100ms --user-only -- true",
            ),
            ("record -d 5 -F 99 -p 1", "record -d 5 -F 99 -p 1"),
            ("stat -d 500ms -v -a", "stat -d 500ms -a"),
            (
                "trace --event openat --pf all -t -m 64 ls",
                "trace --expr=openat --page-faults=all ls",
            ),
            (
                "report -f -v -c sh,awk -C 0 --percent-limit 2 --max-stack 5 --percentage relative x",
                "report --comm=sh,awk --cpu=0 --min=2 --depth=5 --rescale x",
            ),
            ("annotate --objdump=/bin/od --inline main", "annotate main"),
            ("diff -f -C sh a b", "diff --comm=sh a b"),
            ("top --delay 5 -z -a", "top --interval=5 -a"),
            ("trace -s --errno-summary ls", "trace -s --verbose ls"),
            ("diff -v --percentage absolute a b", "diff a b"),
        ] {
            assert_eq!(of(theirs), ours, "{theirs}");
        }
    }

    #[test]
    fn what_is_not_here_is_said_in_a_line() {
        for (theirs, part) in [
            ("stat -D 100 -- true", "by -p once it is ready"),
            ("stat -x; -- true", "--csv"),
            ("stat record -- true", "-o FILE.json"),
            ("trace -e inject=open -- true", "not changed"),
            ("trace -P /etc -- true", "grep PATH"),
            ("report --sort comm,dso", "--by process,thread"),
            ("report --tui", "pyrograph view"),
            ("record -o /tmp/perf.data -- true", "flamegraph.pb.gz"),
            ("record -b -- true", "perf record -b"),
            ("sched record -- true", "pyrograph sched -- COMMAND"),
            ("sched latenxy", "did you mean latency"),
            ("evlist", "pyrograph info"),
            ("probe -x app main", "pyrograph list"),
            ("stat -d -- true", "pyrograph list"),
            ("stat -d ./app", "pyrograph list"),
            ("stat -t 5", "--by thread"),
            ("stat --interval-count 5 -I 1 -a", "-I 1 -d 5"),
            ("record -d -- true", "addresses of data"),
            ("record -d ./app", "addresses of data"),
            ("record --switch-output=1G -a", "one file"),
            ("record -s -- true", "--by thread"),
            ("report -n", "--by event"),
            ("report --header-only", "pyrograph info"),
            ("report -k vmlinux", "--symfs"),
            ("report --dsos libc.so.6 x", "module:"),
            ("annotate -M intel main", "AT&T"),
            ("script -s x.py", "--json"),
            ("script --header", "pyrograph info"),
            ("diff -c ratio a b", "both values"),
            ("kvm stat", "pyrograph list"),
            ("bench all", "perf"),
            ("/bin/true", "pyrograph record -- /bin/true"),
            ("/etc/passwd", "pyrograph report /etc/passwd"),
        ] {
            assert!(of(theirs).contains(part), "{theirs}: {}", of(theirs));
        }
    }

    /// A spelling that is ours would never be reached.
    #[test]
    fn habits_are_not_our_own_options() {
        let program = crate::command();
        let all = HABITS.iter().flat_map(|habit| habit.0.iter().map(move |verb| (verb, habit)));
        for (verb, (_, spellings, _, meaning)) in all {
            let known = program.find_subcommand(verb).expect("a subcommand");
            for name in *spellings {
                let is_word = !name.starts_with("--") && name.len() > 2;
                let is_ours = !is_word && is_known(name, known);
                assert!(!is_ours || matches!(meaning, Of(_)), "{verb} {name}");
            }
        }
    }
}
