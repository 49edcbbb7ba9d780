//! The table of options and subcommands of other programs.

use super::Meaning::{Already, As, Of, Say};
use super::Takes::{Joined, Nothing, Value, Words};
use super::values::{
    call_graph, duration, first, group, milliseconds, most, names, percentage, perf_data,
    qualified, question, separator, sort, string_limit,
};
use super::{Meaning, Takes, option};

/// Options of another program for subcommands of ours: its spellings, its value, and its meaning.
pub(super) type Habit = (&'static [&'static str], &'static [&'static str], Takes, Meaning);

/// Subcommands that read profiles.
pub(super) const READERS: [&str; 9] =
    ["report", "annotate", "view", "flamegraph", "fold", "convert", "info", "heatmap", "diff"];

/// Subcommands that print what perf's subcommands of the same names print of a file.
const PRINTERS: &[&str] = &["report", "annotate", "script", "diff"];

/// Those with tables of functions.
const TABLES: &[&str] = &["report", "diff"];

/// Subcommands with tables and with the code of functions.
const OF_FUNCTIONS: &[&str] = &["report", "annotate"];

/// Words of `perf report -g`.
const CALL_GRAPHS: Takes =
    Words(&["caller", "callee", "graph", "flat", "fractal", "folded", "none"]);

const METADATA: Meaning = Say("`pyrograph info FILE` prints a recording's metadata");

const HARDWARE_TRACES: Meaning =
    Say("branches and traces of hardware are not shown: `perf report` and `perf script` show them");

const RAW_RECORDS: Meaning =
    Say("records are not dumped: `pyrograph script` prints events, `pyrograph info` the metadata");

const ONE_FILE: Meaning = Say("a recording is one file: -d or Ctrl-C ends it, and another begins");

const BY_USER: Meaning = Say("users are not selected: -p takes what `pgrep -d, -u USER` prints");

const METRICS: Meaning =
    Say("metrics of hardware are not computed: -e counts the events that they are made of");

const OF_FUNCTIONS_NAMED: Meaning = Say("`--focus '^(a|b)$'` keeps the stacks through functions");

const OF_FILES_NAMED: Meaning =
    Say("`--focus 'module:libc'` keeps the stacks through a file's functions");

/// Options of other programs. Those that a subcommand has itself are translated only by [`Of`].
pub(super) const HABITS: &[Habit] = &[
    (&["stat"], &["-x", "--field-separator"], Value, Of(separator)),
    (&["stat"], &["-j", "--json-output"], Nothing, As(&["--json"])),
    (&["stat"], &["-A", "--no-aggr"], Nothing, As(&["--by=cpu"])),
    (&["stat"], &["--per-core"], Nothing, As(&["--by=core"])),
    (&["stat"], &["--per-socket"], Nothing, As(&["--by=socket"])),
    (&["stat"], &["--per-node"], Nothing, As(&["--by=node"])),
    (&["stat"], &["--per-thread"], Nothing, As(&["--by=thread"])),
    (
        &["stat"],
        &["--per-die", "--per-cache", "--percore-show-thread"],
        Nothing,
        Say("counts are kept apart by core, socket, node or cpu: --by"),
    ),
    (
        &["stat"],
        &["-B", "--big-num", "-S", "--sync", "--scale", "--no-merge", "-v", "--verbose"],
        Nothing,
        Already,
    ),
    (&["stat", "record", "trace"], &["-G", "--for-each-cgroup"], Value, Of(group)),
    (&["stat", "record"], &["-i"], Nothing, As(&["--no-inherit"])),
    (
        &["stat"],
        &["--interval-print"],
        Value,
        Of(|value| Some(option("--interval", &milliseconds(value)))),
    ),
    (&["stat"], &["--interval-count"], Value, Say("-d ends it: `-I 1 -d 5` has five intervals")),
    (
        &["stat"],
        &["--timeout"],
        Value,
        Of(|value| Some(option("--duration", &milliseconds(value)))),
    ),
    (
        &["stat"],
        &["-D", "--delay"],
        Value,
        Say("stat counts from the start: start the program, and count it by -p once it is ready"),
    ),
    (&["stat"], &["-d"], Value, Of(|value| duration(value, DETAILED))),
    (&["stat"], &["-dd", "-ddd", "--detailed"], Nothing, Say(DETAILED)),
    (
        &["stat"],
        &[
            "--topdown",
            "--td-level",
            "--transaction",
            "-T",
            "-M",
            "--metrics",
            "--metric-only",
            "--metric-no-group",
            "--metric-no-merge",
            "--smi-cost",
            "--iostat",
        ],
        Joined,
        METRICS,
    ),
    (&["stat"], &["-g", "--group"], Nothing, Say("groups are written with braces: -e '{a,b}'")),
    (
        &["stat"],
        &["-n", "--null"],
        Nothing,
        Say("elapsed and CPU time are in every table: -e task-clock counts nothing else"),
    ),
    (
        &["stat"],
        &["-t", "--tid"],
        Value,
        Say("threads are counted with their process: `-p PID --by thread` tells them apart"),
    ),
    (
        &["stat"],
        &["--all-user", "--all-kernel"],
        Nothing,
        Say("events have modifiers: -e cycles:u counts user mode, -e cycles:k the kernel"),
    ),
    (&["stat"], &["--append"], Nothing, Say("-o replaces a file; `--csv >> FILE` appends")),
    (&["stat", "record"], &["--control"], Value, Say("-d or Ctrl-C ends it; it is not paused")),
    (&["record", "trace", "stat", "top"], &["--uid"], Value, BY_USER),
    (&["trace"], &["-u"], Value, BY_USER),
    (
        &["trace"],
        &[
            "-f",
            "-ff",
            "--follow-forks",
            "-t",
            "-tt",
            "-ttt",
            "-T",
            "-y",
            "-yy",
            "--time",
            "--syscalls",
            "--sort-events",
            "--force",
            "--seccomp-bpf",
        ],
        Nothing,
        Already,
    ),
    (&["trace"], &["-m", "--mmap-pages"], Value, Already),
    (&["trace"], &["-k", "--stack-traces", "--call-graph"], Joined, As(&["--stacks"])),
    (&["trace"], &["-c", "--summary-only", "-w"], Nothing, As(&["--summary"])),
    (
        &["trace"],
        &["-S", "--with-summary"],
        Nothing,
        Say("-s prints the summary alone; without it, calls are printed"),
    ),
    (&["trace"], &["-s"], Value, Of(string_limit)),
    (&["trace"], &["-e", "--expr"], Value, Of(qualified)),
    (&["trace"], &["--trace", "--event"], Value, Of(|calls| Some(option("--expr", calls)))),
    (&["trace"], &["--pf"], Value, Of(|kind| Some(option("--page-faults", kind)))),
    (&["trace"], &["--failed-only", "--failure"], Nothing, As(&["--failed"])),
    (
        &["trace"],
        &["-z", "--successful-only"],
        Nothing,
        Say("calls that succeed are shown among all: -Z alone, those that fail, is there"),
    ),
    (
        &["trace"],
        &["-P", "--trace-path"],
        Value,
        Say("calls of one path are not chosen: `pyrograph trace -e %file … 2>&1 | grep PATH`"),
    ),
    (
        &["trace"],
        &["-D", "--delay"],
        Value,
        Say(
            "calls are traced from the start: start the program, and trace it by -p once it is ready",
        ),
    ),
    (&["trace"], &["--tid"], Value, Say("threads are traced with their process: -p PID")),
    (&["trace"], &["--filter-pids"], Value, Say("-p and --comm choose what is traced")),
    (&["trace"], &["--max-events"], Value, Say("`2>&1 | head -n N` shows the first lines")),
    (&["trace"], &["--sched"], Nothing, Say("`pyrograph sched` shows waits and delays of tasks")),
    (PRINTERS, &["-f", "--force"], Nothing, Already),
    (
        PRINTERS,
        &["-v", "--verbose", "--inline", "--demangle", "--demangle-kernel"],
        Nothing,
        Already,
    ),
    (
        PRINTERS,
        &["-q", "--quiet"],
        Nothing,
        Say("remarks go to standard error: 2>/dev/null hides them"),
    ),
    (
        PRINTERS,
        &["-k", "--vmlinux", "--kallsyms", "--guestkallsyms", "--guestvmlinux", "--guestmount"],
        Value,
        Say(
            "--symfs DIR is the file system of a recording's machine, --debug-dir DIR has its debug files",
        ),
    ),
    (PRINTERS, &["-m", "--modules"], Nothing, Already),
    (PRINTERS, &["-D", "--dump-raw-trace"], Nothing, RAW_RECORDS),
    (
        PRINTERS,
        &["-I", "--show-info", "--header", "--header-only", "--stats", "--tasks", "--mmaps"],
        Nothing,
        METADATA,
    ),
    (
        &["report", "annotate", "script"],
        &[
            "-b",
            "--branch-stack",
            "--branch-history",
            "--stitch-lbr",
            "--total-cycles",
            "--mem-mode",
            "--itrace",
            "--insn-trace",
            "--call-trace",
            "--call-ret-trace",
            "--xed",
        ],
        Joined,
        HARDWARE_TRACES,
    ),
    (&["report"], &["-c", "--comms"], Value, Of(names)),
    (&["diff"], &["-C", "--comms"], Value, Of(names)),
    (OF_FUNCTIONS, &["-C"], Value, Of(|cpus| Some(option("--cpu", cpus)))),
    (&["report", "annotate", "diff"], &["-d", "--dsos"], Value, OF_FILES_NAMED),
    (TABLES, &["-S", "--symbols"], Value, OF_FUNCTIONS_NAMED),
    (&["report"], &["--symbol-filter"], Value, OF_FUNCTIONS_NAMED),
    (
        &["report"],
        &["-p", "--parent", "-x", "--exclude-other", "--ignore-callees"],
        Joined,
        Say("`--focus RE --callers` has the callers of functions"),
    ),
    (
        OF_FUNCTIONS,
        &["-n", "--show-nr-samples", "--show-total-period"],
        Nothing,
        Say("values stand beside percentages; `--by event` counts samples"),
    ),
    (TABLES, &["-t", "--field-separator"], Value, Say("-o FILE.csv has columns for programs")),
    (&["report"], &["-T", "--threads"], Nothing, Say("--by thread has threads at the root")),
    (
        &["report"],
        &["-U", "--hide-unresolved"],
        Nothing,
        Say("`--ignore '^\\[unknown'` leaves out the stacks through code without names"),
    ),
    (
        &["report"],
        &["--hierarchy"],
        Nothing,
        Say("--by process,thread has these at the root of the tree"),
    ),
    (&["report"], &["--percent-limit"], Value, Of(|share| Some(option("--min", share)))),
    (TABLES, &["--percentage"], Value, Of(percentage)),
    (&["report"], &["--max-stack"], Value, Of(|levels| Some(option("--depth", levels)))),
    (
        OF_FUNCTIONS,
        &["--group", "--group-sort-idx"],
        Joined,
        Say("one event is shown at a time: --event-filter; --by event has all"),
    ),
    (OF_FUNCTIONS, &["--stdio-color"], Value, Of(|when| Some(option("--color", when)))),
    (OF_FUNCTIONS, &["--objdump", "--addr2line", "-w", "--column-widths"], Value, Already),
    (OF_FUNCTIONS, &["--skip-empty", "--skip-missing", "--ignore-vmlinux"], Nothing, Already),
    (
        OF_FUNCTIONS,
        &["-M", "--disassembler-style"],
        Value,
        Say("instructions are shown in AT&T syntax"),
    ),
    (
        OF_FUNCTIONS,
        &["--prefix", "--prefix-strip"],
        Value,
        Say("--source-dir FROM=TO says where sources are"),
    ),
    (
        OF_FUNCTIONS,
        &["--asm-raw"],
        Nothing,
        Say("bytes of instructions are not shown: `objdump -d` shows them"),
    ),
    (&["report"], &["--stdio", "--stdio2", "--no-pager"], Nothing, Already),
    (
        &["report"],
        &["--tui", "--gtk"],
        Nothing,
        Say("the view on the terminal is `pyrograph view`"),
    ),
    (&["report"], &["--no-children"], Nothing, As(&["--sort=self"])),
    (&["report"], &["--children"], Nothing, As(&["--sort=total"])),
    (&["report"], &["-s", "--sort"], Value, Of(sort)),
    (&["report"], &["-g", "--call-graph"], CALL_GRAPHS, Of(call_graph)),
    (&["report"], &["-G", "--inverted"], Nothing, As(&["--callees"])),
    (
        &["report"],
        &["-F", "--fields"],
        Value,
        Say("columns are fixed: -o FILE.csv and --json have all numbers"),
    ),
    (&["report"], &["-e"], Value, Of(|event| Some(option("--event-filter", event)))),
    (&["annotate"], &["--stdio", "--stdio2", "-l", "--print-line"], Nothing, Already),
    (&["annotate"], &["--tui", "--gtk"], Nothing, Say("-o page.html has a page of a function")),
    (&["annotate"], &["-s", "--symbol"], Value, Of(first)),
    (&["annotate"], &["-e"], Value, Of(|event| Some(option("--event-filter", event)))),
    (
        &["diff"],
        &["-c", "--compute", "-p", "--period", "-F", "--formula", "--order"],
        Joined,
        Say("a table has the change, its interval and both values; --absolute compares values"),
    ),
    (&["diff"], &["--sort"], Value, Say("rows are functions, by the size of their change")),
    (
        &["script"],
        &["-g", "--gen-script", "-s", "--script", "-l", "--list", "--dlfilter", "--list-dlfilters"],
        Joined,
        Say("scripts are not run: --json prints a line for each event, for Python or jq"),
    ),
    (
        &["script"],
        &["-S", "--symbols", "--dsos", "--graph-function", "--stop-bt"],
        Value,
        Say("--comm, --pid, --tid, --cpu, --time and --event-filter select events"),
    ),
    (
        &["script"],
        &["--per-event-dump"],
        Nothing,
        Say("`--event-filter EVENT -o FILE` writes one event"),
    ),
    (&["list"], &["-d", "--desc", "--long-desc", "--details", "--deprecated"], Nothing, Already),
    (&["top"], &["--stdio", "--stdio2", "-b"], Nothing, As(&["--batch"])),
    (&["top"], &["--delay"], Value, Of(|time| Some(option("--interval", time)))),
    (&["top"], &["--comms"], Value, Of(names)),
    (
        &["top"],
        &["--dsos", "--symbols"],
        Value,
        Say("`/` in the view finds functions; --comm selects programs"),
    ),
    (&["top"], &["-f", "--count-filter", "--percent-limit"], Value, Say("-E limits the rows")),
    (
        &["top"],
        &["-z", "--zero", "--tui", "--children", "--force", "--overwrite", "--demangle-kernel"],
        Nothing,
        Already,
    ),
    (
        &["top"],
        &[
            "-m",
            "--mmap-pages",
            "--num-thread-synthesize",
            "--proc-map-timeout",
            "--call-graph",
            "-w",
            "--column-widths",
            "--objdump",
        ],
        Value,
        Already,
    ),
    (
        &["record", "top"],
        &["--realtime"],
        Value,
        Say("`chrt -f PRIORITY pyrograph record …` sets the priority"),
    ),
    (
        &["record"],
        &["--exclude-perf"],
        Nothing,
        Say("`pyrograph flamegraph --ignore '^pyrograph'` leaves the recorder out"),
    ),
    (
        &["record"],
        &["--debuginfod"],
        Joined,
        Say("DEBUGINFOD_URLS names servers of debug information"),
    ),
    (&["trace"], &["--errno-summary"], Nothing, As(&["--verbose"])),
    (
        &["stat"],
        &["--pre", "--post"],
        Value,
        Say("a script runs several commands: `-- sh -c 'before; command'`"),
    ),
    (&["record", "top"], &["-e", "--event"], Value, Of(question)),
    (&["record", "top"], &["-F", "--freq", "--frequency"], Value, Of(most)),
    (&["record"], &["-o", "--output"], Value, Of(perf_data)),
    (
        &["record"],
        &["-d"],
        Value,
        Of(|value| {
            duration(value, "addresses of data are not recorded; -d TIME says for how long")
        }),
    ),
    (
        &["record"],
        &["--data", "--phys-data", "--data-page-size", "--code-page-size"],
        Nothing,
        Say("addresses of data are not recorded"),
    ),
    (&["record"], &["-D"], Value, Of(|value| Some(option("--delay", &milliseconds(value))))),
    (
        &["record"],
        &[
            "-m",
            "--mmap-pages",
            "--clockid",
            "--mmap-flush",
            "--affinity",
            "--num-thread-synthesize",
            "--proc-map-timeout",
            "--synth",
        ],
        Value,
        Already,
    ),
    (
        &["record"],
        &[
            "-R",
            "--raw-samples",
            "-B",
            "--no-buildid",
            "-N",
            "--no-buildid-cache",
            "-W",
            "--weight",
            "-z",
            "--compression-level",
            "-P",
            "-T",
            "--timestamp",
            "--sample-cpu",
            "--sample-identifier",
            "--buildid-all",
            "--buildid-mmap",
            "--namespaces",
            "--all-cgroups",
            "--kcore",
            "--no-bpf-event",
            "--no-buffering",
            "--per-thread",
            "--threads",
            "--aio",
        ],
        Joined,
        Already,
    ),
    (
        &["record"],
        &["-I", "--intr-regs", "--user-regs"],
        Joined,
        Say("registers of samples are not kept: stacks are unwound from them while it records"),
    ),
    (&["record"], &["-n", "--no-samples"], Nothing, Say("`pyrograph stat` counts events")),
    (&["record"], &["-s", "--stat"], Nothing, Say("`pyrograph stat --by thread` counts threads")),
    (&["record"], &["--all-user"], Nothing, As(&["--user-only"])),
    (&["record"], &["--all-kernel"], Nothing, As(&["--kernel-only"])),
    (
        &["record"],
        &[
            "-S",
            "--snapshot",
            "--switch-output",
            "--switch-output-event",
            "--switch-max-files",
            "--overwrite",
            "--tail-synthesize",
            "--max-size",
            "--timestamp-filename",
        ],
        Joined,
        ONE_FILE,
    ),
    (
        &["record"],
        &["--switch-events"],
        Nothing,
        Say("`pyrograph sched` records context switches, `--off-cpu` the stacks of waits"),
    ),
    (
        &["record"],
        &["-b", "--branch-any", "-j", "--branch-filter"],
        Joined,
        Say("branches are not recorded here; the perf.data of `perf record -b` is read"),
    ),
];

/// Explanation for `perf stat -d`.
const DETAILED: &str =
    "events are named by -e here: `pyrograph list` lists them, and -d TIME says for how long";

/// Subcommands of perf and of other profilers, and ours.
pub(super) const VERBS: &[(&[&str], &str)] = &[
    (&["evlist"], "`pyrograph info FILE` lists a recording's events"),
    (&["buildid-list", "buildid-cache"], "`pyrograph info FILE` lists a recording's files"),
    (
        &["probe"],
        "probes need not be made first: `pyrograph list 'uprobe:FILE:*'` lists functions, uprobe:FILE:FUNCTION the lines of one, \
         uprobe:FILE:FUNCTION:LINE the variables there, 'kprobe:*' functions of the kernel; -e of stat, record and trace takes them",
    ),
    (&["lock"], "waits for locks are `pyrograph record --locks`"),
    (&["kmem"], "allocations of the kernel are tracepoints: `pyrograph record -e kmem:kmalloc`"),
    (
        &["mem", "c2c"],
        "accesses to memory are not sampled; -e cache-misses counts, where the machine can",
    ),
    (
        &["kvm", "kwork"],
        "tracepoints are counted, traced and recorded with -e: `pyrograph list 'kvm:*'`",
    ),
    (&["timechart"], "`pyrograph sched chart` draws CPUs and threads over time"),
    (&["ftrace"], "events of the kernel are traced by `pyrograph trace -e 'sched:*'`"),
    (
        &["inject"],
        "code that was made at run time has its names without it: jitdump files are read",
    ),
    (&["archive"], "`perf archive` makes one; give it to a verb as a file beside perf.data"),
    (&["data"], "`pyrograph convert` writes profiles in other formats"),
    (&["daemon"], "`pyrograph record` runs until -d or Ctrl-C ends it"),
    (&["kallsyms"], "`pyrograph list -v` and /proc/kallsyms have the kernel's functions"),
    (&["bench", "test", "config", "iostat"], "is not part of Pyrograph: `perf` has it"),
    (&["load"], "`pyrograph view FILE` shows a profile"),
    (&["dump"], "`pyrograph record -p PID -d 0.1` takes the stacks of a moment"),
    (&["collapse", "stackcollapse"], "`pyrograph fold FILE` folds stacks"),
    (&["version"], "`pyrograph --version` prints it"),
];
