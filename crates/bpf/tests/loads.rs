//! Every program is taken by the kernel that runs, for every question, with all that makes programs longer.
//! Verifiers differ: what one kernel refuses another takes. `tests/kernels/load` runs this on other kernels.

#![cfg(target_arch = "x86_64")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pyrograph_bpf::{
    CallOptions, CallTracer, CountKey, CountedEvent, Engine, Error, EventCounter, EventOptions,
    Options, SchedKey, SchedOptions, SchedTracer, Scope,
};
use pyrograph_event::interpreter::Language;
use pyrograph_event::request::{Ends, GoFunctions, Measure, Trigger, Waits};
use pyrograph_event::traced::EventSource;
use pyrograph_event::values::{
    Bits, Check, EventValues, Memory, Operator, Pattern, Ranges, ReadBase, ReadNumber, ReadStep,
    ReadValue, Sum,
};

/// Numbers of system calls of x86-64.
const READ: u32 = 0;
const WRITE: u32 = 1;

/// Loads programs, with a folder for a cache; returns how many instructions the verifier visited, of the one that took most.
type Load = Box<dyn Fn(&Path) -> Result<u64, Error>>;

/// One way to load programs.
struct Case {
    name: String,
    load: Load,
}

fn case(name: String, load: impl Fn(&Path) -> Result<u64, Error> + 'static) -> Case {
    Case { name, load: Box::new(load) }
}

/// The most instructions that the verifier visited of a program that this process has loaded (`bpf_prog_show_fdinfo` of
/// Linux, kernel/bpf/syscall.c; since 5.16, before that 0). A kernel refuses a program when they come to a million.
fn most_visited() -> u64 {
    let Ok(all) = Path::new("/proc/self/fdinfo").read_dir() else { return 0 };
    let texts = all.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let of = |text: String| {
        text.lines().find_map(|l| l.strip_prefix("verified_insns:")?.trim().parse().ok())
    };
    texts.filter_map(of).max().unwrap_or(0)
}

fn tracepoint() -> Trigger {
    Trigger::Tracepoint { category: "sched".to_owned(), name: "sched_process_exec".to_owned() }
}

/// A probe in the kernel that is made for this; `None` where the kernel has none.
fn kernel_probe() -> Option<Trigger> {
    const PROBE: &str = "p:pyrograph_loads/fork kernel_clone";
    let list = Path::new("/sys/kernel/tracing/kprobe_events");
    let mut list = std::fs::File::options().append(true).open(list).ok()?;
    list.write_all(PROBE.as_bytes()).ok()?;
    Some(Trigger::Tracepoint { category: "pyrograph_loads".to_owned(), name: "fork".to_owned() })
}

/// A place in this program, at which nothing is attached.
fn function() -> Trigger {
    let path = PathBuf::from("/proc/self/exe");
    Trigger::Function { path, name: "main".to_owned(), offset: 0, returns: false }
}

fn allocations(live: bool) -> Trigger {
    Trigger::Allocations { path: PathBuf::from("/proc/self/exe"), others: Vec::new(), live }
}

/// Events that are chosen, added up and kept apart by their values.
fn valued(of: Trigger) -> Trigger {
    let sum = Sum { by: Some(1), value: Some(0), ..Sum::default() };
    Trigger::Values { of: Box::new(of), values: filtered_values(), sum }
}

/// Places at which nothing is attached.
fn goroutines() -> Trigger {
    let functions = GoFunctions { park: 0, execute: 0 };
    Trigger::Goroutines { path: PathBuf::from("/proc/self/exe"), functions }
}

fn calls(measure: Measure, files: bool) -> Trigger {
    Trigger::Calls { numbers: vec![READ, WRITE], measure, files }
}

/// Tasks that are limited in each way.
fn narrow() -> Scope {
    Scope {
        only_targets: true,
        inherit: true,
        names: vec!["nobody".to_owned()],
        group: Some(1),
        cache: None,
    }
}

fn cached(scope: &Scope, cache: &Path) -> Scope {
    Scope { cache: Some(cache.to_owned()), ..scope.clone() }
}

/// Questions that are recorded with stacks.
fn questions() -> Vec<(&'static str, Options)> {
    let triggered = |trigger| Options { trigger, ..Options::default() };
    let waits = |waits, at_switches| Options {
        trigger: Trigger::None,
        waits,
        at_switches,
        ..Options::default()
    };
    let requests = |measure| triggered(Trigger::BlockRequests { measure });
    let probe = kernel_probe().map(|probe| ("a probe in the kernel", triggered(probe)));
    let questions = [
        ("CPU time", Options { hertz: Some(99), ..Options::default() }),
        ("waits", waits(Waits::Alone, false)),
        ("waits, at switches", waits(Waits::Alone, true)),
        ("waits and wakers", waits(Waits::WithWakers, false)),
        ("waits and wakers, at switches", waits(Waits::WithWakers, true)),
        ("wakers", waits(Waits::Wakers, false)),
        ("a tracepoint", triggered(tracepoint())),
        ("a function", triggered(function())),
        ("values of a tracepoint", triggered(valued(tracepoint()))),
        ("values of a function", triggered(valued(function()))),
        ("allocations", triggered(allocations(false))),
        ("live memory", triggered(allocations(true))),
        ("numbers of calls", triggered(calls(Measure::Count, false))),
        ("bytes of calls", triggered(calls(Measure::Bytes, true))),
        ("times of calls", triggered(calls(Measure::Time, true))),
        ("numbers of requests", requests(Measure::Count)),
        ("times of requests", requests(Measure::Time)),
        ("locks", triggered(Trigger::Locks)),
        ("goroutines", triggered(goroutines())),
        ("sockets", triggered(Trigger::Sockets)),
    ];
    questions.into_iter().chain(probe).collect()
}

/// Loads, and where that asks for nothing else, attaches, begins and ends.
fn record(options: &Options) -> Result<u64, Error> {
    let mut engine = Engine::load(options)?;
    if let Some(refused) = engine.refused_languages() {
        eprintln!("refused: {:?}", refused.languages);
        return Err(refused.error);
    }
    engine.follow()?;
    let attaches_nothing = matches!(
        options.trigger,
        Trigger::Function { .. }
            | Trigger::Allocations { .. }
            | Trigger::Goroutines { .. }
            | Trigger::Values { .. }
    );
    if !attaches_nothing {
        engine.trigger(std::iter::empty())?;
    }
    engine.start()?;
    engine.stop()?;
    Ok(most_visited())
}

/// Questions with what makes their programs longer, without it, or both: by emulation, a verifier may take ten seconds for those
/// of waits, which have programs in common. Before Linux 6.16, all of these are taken at switches. Where `PYROGRAPH_SLICE` is
/// set, of questions that have programs of others, or differ in a branch of the same program, there is one, and the walkers of
/// languages, which are half of what a verifier visits, are in two of those that call them.
fn recordings() -> Vec<Case> {
    const BOTH: [&str; 2] = ["CPU time", "waits"];
    const PLAIN: [&str; 2] = ["waits, at switches", "waits and wakers, at switches"];
    const LEFT_OUT: [&str; 6] = [
        "waits",
        "waits, at switches",
        "wakers",
        "numbers of calls",
        "bytes of calls",
        "numbers of requests",
    ];
    const WITH_LANGUAGES: [&str; 2] = ["CPU time", "waits and wakers"];
    let slice = std::env::var_os("PYROGRAPH_SLICE").is_some();
    let mut all = Vec::new();
    for (name, plain) in questions() {
        if slice && LEFT_OUT.contains(&name) {
            continue;
        }
        let languages = !slice || WITH_LANGUAGES.contains(&name);
        let full = Options {
            scope: narrow(),
            no_idle: true,
            by_cpu: true,
            keep_times: true,
            languages: if languages { Language::ALL.to_vec() } else { Vec::new() },
            lines: languages,
            ..plain.clone()
        };
        let is_plain = PLAIN.contains(&name);
        let plain = (is_plain || !slice && BOTH.contains(&name)).then_some((plain, "plain"));
        let how = if languages { "all languages, times, filters" } else { "times, filters" };
        let full = (!is_plain).then_some((full, how));
        for (options, how) in plain.into_iter().chain(full) {
            all.push(case(format!("{name}: {how}"), move |cache| {
                record(&Options { scope: cached(&options.scope, cache), ..options.clone() })
            }));
        }
    }
    all
}

fn counters() -> Vec<Case> {
    let events = vec![
        CountedEvent::Call(READ),
        CountedEvent::Return(READ),
        CountedEvent::Tracepoint("sched_process_exec".to_owned()),
    ];
    let with = |key, members| EventOptions {
        scope: if members { narrow() } else { Scope::default() },
        key,
        events: events.clone(),
        counters: vec![true],
    };
    let all = [
        ("counts", with(CountKey::None, false)),
        ("counts by thread, of members", with(CountKey::Thread, true)),
        ("counts by process", with(CountKey::Process, false)),
        ("counts by control group", with(CountKey::Group, false)),
        ("counts by root, of members", with(CountKey::Root, true)),
    ];
    let to_case = |(name, options): (&str, EventOptions)| {
        case(name.to_owned(), move |cache| {
            let scope = cached(&options.scope, cache);
            let mut counter = EventCounter::load(EventOptions { scope, ..options.clone() })?;
            counter.attach()?;
            Ok(most_visited())
        })
    };
    all.into_iter().map(to_case).collect()
}

/// A value of each kind, and a filter with all kinds of steps.
fn filtered_values() -> EventValues {
    let step = ReadStep { add: 8, load: 8, memory: Memory::Program };
    let number = || ReadNumber { base: ReadBase::Register(5), steps: vec![step, step] };
    let of_call = ReadNumber { base: ReadBase::Called(5), steps: vec![step] };
    let pattern = Pattern::new("a*", true).expect("a short text");
    EventValues {
        reads: vec![vec![
            ReadValue::Number(number(), Bits::ALL),
            ReadValue::Text(number(), Memory::Program),
            ReadValue::TextOf(number(), of_call),
            ReadValue::TextInData(number()),
            ReadValue::ThreadName,
        ]],
        shown: 5,
        filter: vec![
            Check::Number { value: 0, operator: Operator::Less, number: 5, signed: true },
            Check::Text { value: 1, pattern: Box::new(pattern) },
            Check::Not,
            Check::Or,
        ],
    }
}

/// Sums of values of places and tracepoints, by texts and in ranges. Nothing is attached: it would ask for more.
fn sums() -> Vec<Case> {
    let values = |trigger, ranges| CountedEvent::Values {
        trigger,
        ends: None,
        values: filtered_values(),
        sum: Sum { by: Some(1), value: Some(0), ranges, ..Sum::default() },
    };
    let measured = |trigger: fn() -> Trigger, keyed| {
        let of_call =
            Sum { by: Some(1), ranges: Ranges::Powers, frame: Some(0), keyed, ..Sum::default() };
        let ends = match keyed {
            true => Ends::Event(trigger(), filtered_values(), of_call),
            false => Ends::Returns(trigger()),
        };
        let (ends, values) = (Some(Box::new(ends)), filtered_values());
        CountedEvent::Values { trigger: trigger(), ends, values, sum: of_call }
    };
    let equal = Ranges::Equal { least: 0, size: 10, count: 10 };
    let options = EventOptions {
        scope: narrow(),
        key: CountKey::Group,
        events: vec![
            values(function(), Ranges::Powers),
            values(tracepoint(), equal),
            measured(function, false),
            measured(function, true),
            measured(tracepoint, true),
        ],
        counters: Vec::new(),
    };
    let of_values = case("sums of values, of members".to_owned(), move |cache| {
        let scope = cached(&options.scope, cache);
        EventCounter::load(EventOptions { scope, ..options.clone() })?;
        Ok(most_visited())
    });
    vec![of_values]
}

fn tracers() -> Vec<Case> {
    let event =
        |trigger| EventSource { trigger, size: 16, places: Vec::new(), values: filtered_values() };
    let plain = CallOptions { memory: 1 << 20, text: 32, ..CallOptions::default() };
    let full = CallOptions {
        scope: narrow(),
        events: vec![event(tracepoint()), event(function())],
        faults: (true, true),
        stacks: true,
        filters: Some(vec![(READ, filtered_values())]),
        ..plain.clone()
    };
    let counted = CallOptions { counts: true, ..plain.clone() };
    let all = [
        ("calls", plain, true),
        ("calls, events, stacks", full, false),
        ("counts of calls", counted, true),
    ];
    let to_case = |(name, options, starts): (&str, CallOptions, bool)| {
        case(name.to_owned(), move |cache| {
            let mut tracer = CallTracer::load(&CallOptions {
                scope: cached(&options.scope, cache),
                ..options.clone()
            })?;
            if starts {
                tracer.start()?;
                tracer.stop()?;
            }
            Ok(most_visited())
        })
    };
    all.into_iter().map(to_case).collect()
}

fn schedulers() -> Vec<Case> {
    let with = |members, counts, stacks| SchedOptions {
        scope: if members { narrow() } else { Scope::default() },
        counts,
        stacks,
        memory: 1 << 20,
    };
    let all = [
        ("scheduler", with(false, None, false)),
        ("scheduler, members, stacks", with(true, None, true)),
        ("scheduler, counts by task", with(false, Some(SchedKey::Task), false)),
        ("scheduler, counts by CPU, members", with(true, Some(SchedKey::Cpu), false)),
    ];
    let to_case = |(name, options): (&str, SchedOptions)| {
        case(name.to_owned(), move |cache| {
            let scope = cached(&options.scope, cache);
            let mut tracer = SchedTracer::load(&SchedOptions { scope, ..options.clone() })?;
            tracer.attach()?;
            Ok(most_visited())
        })
    };
    all.into_iter().map(to_case).collect()
}

/// The end of the log of loader and verifier, and the lines in it that name what was wrong.
fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    last.iter().map(|line| format!("    {line}\n")).collect()
}

#[test]
fn every_program_is_taken() {
    // SAFETY: it takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root may load programs");
        return;
    }
    let cache = tempfile::tempdir().expect("a folder");
    let mut refused = Vec::new();
    for case in [recordings(), counters(), sums(), tracers(), schedulers()].into_iter().flatten() {
        let started = Instant::now();
        let result = (case.load)(cache.path());
        let took = started.elapsed();
        let line = |what: &str| format!("{what:8} {:5.1} s  {}", took.as_secs_f64(), case.name);
        match result {
            Ok(visited) => println!("{}: {visited} instructions visited", line("loaded")),
            Err(Error::Lacks { what }) => println!("{}: the kernel lacks {what}", line("skipped")),
            Err(error) => {
                let log = last_lines(error.details().unwrap_or_default());
                println!("{}: {error}\n{log}", line("REFUSED"));
                refused.push(case.name);
            }
        }
        // In a virtual machine a line is there before what may not end.
        let _ = std::io::stdout().flush();
    }
    assert!(refused.is_empty(), "refused: {}", refused.join("; "));
}
