//! The short help, `-h`: one screen for each subcommand. `--help` shows all options with their full descriptions.

use clap::Command;

/// Heading, and the options below it in the short help: ID and a description of one line.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

/// The option for the duration, shared by several subcommands.
const DURATION: (&str, &str) = ("duration", "Stop after this time: 10, 500ms, 5m");

const TARGET: Section = (
    "Target",
    &[
        ("command", "Command to run, with its arguments"),
        ("pid", "Attach to processes"),
        ("all_cpus", "Observe the whole machine"),
        ("comm", "Only processes and threads of these names"),
        ("cgroup", "Only this control group"),
    ],
);

const QUESTIONS: Section = (
    "What to record",
    &[
        ("event", "Event, tracepoint or probe [default: cycles or cpu-clock]"),
        ("off_cpu", "Waits: time off the CPU"),
        ("wall", "Elapsed time: on and off the CPU"),
        ("locks", "Waits for locks"),
        ("file_io", "Reads and writes of files, by time"),
        ("net", "Bytes through sockets"),
        ("syscalls", "System calls"),
        ("alloc", "Memory allocations; with --live those that are not freed"),
        ("user_only", "Without the kernel"),
    ],
);

const FILTERS: Section = (
    "Filters",
    &[
        ("focus", "Keep stacks in which a frame matches"),
        ("ignore", "Leave out stacks in which a frame matches"),
        ("comm", "Keep processes and threads of these names"),
        ("time", "Keep samples of this time: 10..20"),
        ("by", "Levels of frames at the root"),
        ("names", "Form of names"),
    ],
);

const VERBS: &[(&str, &[Section])] = &[
    (
        "record",
        &[
            (
                "Target",
                &[
                    ("command", "Command to run, with its arguments"),
                    ("pid", "Attach to processes"),
                    ("tid", "Attach to threads"),
                    ("all_cpus", "Record the whole machine"),
                    ("comm", "Only processes and threads of these names"),
                    ("cgroup", "Only this control group"),
                ],
            ),
            (
                "How long and how often",
                &[DURATION, ("frequency", "Samples a second [default: 997; with -a 99]")],
            ),
            QUESTIONS,
            (
                "Output",
                &[
                    ("output", "File: .svg, .html, .folded, .pb.gz … [default: flamegraph.svg]"),
                    ("open", "Open the flame graph in the browser"),
                    ("by", "Levels of frames at the root"),
                    ("verbose", "Report stacks, tables and the cost of recording"),
                    ("quiet", "Print errors only"),
                ],
            ),
        ],
    ),
    (
        "top",
        &[
            TARGET,
            (
                "How often",
                &[
                    ("interval", "Time between updates [default: 500ms; without a terminal 2s]"),
                    ("frequency", "Samples a second [default: 99 of each CPU]"),
                    DURATION,
                ],
            ),
            QUESTIONS,
            (
                "Output",
                &[
                    ("sort", "Order of functions"),
                    ("by", "Keep functions apart"),
                    ("iterations", "Print this many tables and end"),
                    ("entries", "Functions in a printed table"),
                    ("json", "Print tables as JSON"),
                    ("quiet", "Print errors only"),
                ],
            ),
        ],
    ),
    (
        "stat",
        &[
            TARGET,
            (
                "What to count",
                &[
                    ("event", "Events: a,b, groups {a,b}, patterns 'sched:*'; see pyrograph list"),
                    ("by", "Keep counts apart"),
                    DURATION,
                    ("interval", "A line for each interval: 1s, 500ms"),
                    ("repeat", "Run the command this many times; means with 95 % intervals"),
                ],
            ),
            (
                "Output",
                &[
                    ("output", "File to write to"),
                    ("json", "JSON"),
                    ("csv", "CSV"),
                    ("markdown", "Markdown table"),
                ],
            ),
        ],
    ),
    (
        "trace",
        &[
            TARGET,
            (
                "What to trace",
                &[
                    ("expr", "Calls and events: names, patterns '*at', groups %file, tracepoints"),
                    ("failed", "Only calls that fail"),
                    ("slower", "Only calls that take at least this time: 500us, 10ms"),
                    ("stacks", "Stack below each line"),
                    DURATION,
                ],
            ),
            (
                "Output",
                &[
                    ("summary", "Table of calls, errors and latencies instead of lines"),
                    ("by", "Tables for each"),
                    ("interval", "A table for each interval: 500ms, 10s"),
                    ("output", "File to write to"),
                    ("json", "Table as JSON"),
                    ("input", "Read calls from a file of strace or perf instead of tracing"),
                ],
            ),
        ],
    ),
    (
        "diff",
        &[
            (
                "Profiles",
                &[
                    (
                        "files",
                        "Profile before and profile after [default: the last two recordings here]",
                    ),
                    ("before", "Several runs before"),
                    ("after", "Several runs after"),
                ],
            ),
            (
                "Comparison",
                &[
                    ("change", "Values to compare"),
                    ("absolute", "Compare values instead of shares"),
                    ("confidence", "Confidence in percent"),
                    ("fail_over", "Exit with 1 if a function takes so much more, beyond noise"),
                ],
            ),
            (
                "Output",
                &[
                    ("output", "File: .svg, .html, .folded, .txt, .md, .json [default: a table]"),
                    ("limit", "Rows of the table"),
                    ("markdown", "Table as Markdown"),
                    ("json", "Table as JSON"),
                ],
            ),
            FILTERS,
        ],
    ),
    (
        "report",
        &[
            ("Input", &[("files", "Profiles [default: the last recording here]")]),
            (
                "Output",
                &[
                    ("top", "Number of functions"),
                    ("sort", "Order of functions"),
                    ("lines", "Source lines of each function"),
                    ("callers", "Call tree from the functions that were sampled to their callers"),
                    ("min", "Leave out nodes below this percentage"),
                    ("depth", "Levels of the tree; 0 for no tree"),
                    ("output", "File to write to: .md, .json or text"),
                    ("markdown", "Markdown"),
                    ("json", "JSON"),
                ],
            ),
            FILTERS,
        ],
    ),
];

/// Adds the short help to a subcommand.
pub fn with_short_help(verb: Command) -> Command {
    let Some((_, sections)) = VERBS.iter().find(|(name, _)| *name == verb.get_name()) else {
        return verb;
    };
    let shown = |id: &str| {
        sections.iter().find_map(|(heading, rows)| {
            rows.iter().position(|(of, _)| *of == id).map(|at| (*heading, at, rows[at].1))
        })
    };
    let first = |heading: &str| {
        let before = sections.iter().take_while(|(of, _)| *of != heading);
        before.map(|(_, rows)| rows.len()).sum::<usize>()
    };
    // The first paragraph has the examples; the others are shown by `--help` only.
    let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = after.split("\n\n").next().unwrap_or_default().to_owned();
    let verb = verb.after_help(examples).after_long_help(after);
    verb.mut_args(|arg| match shown(arg.get_id().as_str()) {
        _ if arg.get_id() == "help" => arg,
        Some((heading, at, text)) => {
            let long = arg.get_long_help().or_else(|| arg.get_help()).cloned();
            let arg = arg.help(text).help_heading(heading).display_order(first(heading) + at);
            match long {
                Some(long) => arg.long_help(long),
                None => arg,
            }
        }
        None => arg.hide_short_help(true),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_help_is_one_screen() {
        let mut program = crate::command();
        for (verb, sections) in super::VERBS {
            let verb = program.find_subcommand_mut(verb).expect("a verb");
            let help = verb.clone().render_help().to_string();
            assert!(help.lines().count() <= 45, "{help}");
            let options: usize = sections.iter().map(|(_, rows)| rows.len()).sum();
            assert!(options <= 25, "{options}: {help}");
            let all = verb.clone().render_long_help().to_string();
            for (id, text) in sections.iter().flat_map(|(_, rows)| *rows) {
                let arg = verb.get_arguments().find(|arg| arg.get_id() == id);
                let arg = arg.unwrap_or_else(|| panic!("{}: no option {id}", verb.get_name()));
                assert!(help.contains(text), "{id}: {help}");
                if let Some(long) = arg.get_long() {
                    assert!(all.contains(&format!("--{long}")), "{id}: {all}");
                }
            }
        }
    }
}
