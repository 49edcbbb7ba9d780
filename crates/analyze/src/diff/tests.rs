//! Comparisons of made-up profiles whose truth is known.

use pyrograph_profile::{LabelOptions, Profile, Sample, Tree, ValueType};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// A program: its stacks, and how often each is sampled.
struct Program(Vec<(String, f64)>);

impl Program {
    /// Functions in a tree of several levels, whose times are spread over three orders of size.
    fn new(stacks: usize) -> Self {
        let mut random = StdRng::seed_from_u64(7);
        let stack = |n: usize| format!("main;part{};step{};work{n};leaf{}", n % 7, n % 31, n % 13);
        Self((0..stacks).map(|n| (stack(n), 10f64.powf(3.0 * random.random::<f64>()))).collect())
    }

    /// The same with the stacks that hold a function taking this many times as long.
    fn slower(&self, function: &str, factor: f64) -> Self {
        let slow = |stack: &str| stack.split(';').any(|name| name == function);
        Self(
            self.0
                .iter()
                .map(|(s, t)| (s.clone(), if slow(s) { t * factor } else { *t }))
                .collect(),
        )
    }

    /// Samples it.
    fn run(&self, samples: usize, random: &mut StdRng) -> Profile {
        let mut ends = Vec::new();
        let mut sum = 0.0;
        for (_, time) in &self.0 {
            sum += time;
            ends.push(sum);
        }
        let mut counts = vec![0u64; self.0.len()];
        for _ in 0..samples {
            let at = random.random::<f64>() * sum;
            let stack = ends.partition_point(|&end| end <= at);
            counts[stack.min(ends.len() - 1)] += 1;
        }
        profile(self.0.iter().zip(counts).map(|((stack, _), count)| (&stack[..], count)))
    }

    fn time(&self) -> f64 {
        self.0.iter().map(|(_, time)| time).sum()
    }
}

fn profile<'a>(stacks: impl IntoIterator<Item = (&'a str, u64)>) -> Profile {
    let mut profile = Profile::new(vec![ValueType::samples()]);
    for (stack, count) in stacks {
        let stack = profile.stack_of_names(stack.split(';'));
        if count > 0 {
            profile.push(Sample::new(stack), &[count]);
        }
    }
    profile
}

fn compare(before: &[Profile], after: &[Profile], options: &DiffOptions) -> Diff {
    try_compare(before, after, options).expect("they can be compared")
}

fn try_compare(
    before: &[Profile],
    after: &[Profile],
    options: &DiffOptions,
) -> Result<Diff, DiffError> {
    let tree = |profile: &Profile| Tree::new(profile, &LabelOptions::default());
    let trees = [before, after].map(|side| side.iter().map(tree).collect::<Vec<_>>());
    let [before, after] = [(before, &trees[0]), (after, &trees[1])].map(|(side, trees)| {
        let run = |(profile, tree)| Run { profile, tree, column: 0 };
        side.iter().zip(trees).map(run).collect::<Vec<_>>()
    });
    diff(&before, &after, &Alike::default(), options)
}

fn function<'a>(diff: &'a Diff, name: &str) -> &'a FunctionChange {
    diff.functions.iter().find(|f| f.name == name).expect("the function is on a stack")
}

const SCALES: [Scale; 2] = [Scale::Shares, Scale::Values];
const MEASURES: [Measure; 2] = [Measure::Total, Measure::OwnSelf];

/// The share of the frames, and of the functions, that is called changed over many comparisons of two
/// runs of one program.
fn false_share(samples: (usize, usize), runs: usize, options: &DiffOptions) -> f64 {
    let program = Program::new(120);
    let mut random = StdRng::seed_from_u64(2026);
    let (mut called, mut all) = (0, 0);
    for _ in 0..25 {
        let mut side = |samples| -> Vec<Profile> {
            (0..runs).map(|_| program.run(samples, &mut random)).collect()
        };
        let (before, after) = (side(samples.0), side(samples.1));
        let diff = compare(&before, &after, options);
        called += diff.nodes.iter().filter(|&&v| v != Verdict::Noise).count();
        all += diff.nodes.len();
    }
    called as f64 / all as f64
}

/// Returns true in nightly runs, in which statistical tests have more rounds.
fn is_nightly() -> bool {
    std::env::var_os("PYROGRAPH_NIGHTLY").is_some()
}

#[test]
fn of_frames_that_did_not_change_fewer_than_one_in_twenty_are_called_changed() {
    let sides = [
        (Scale::Shares, (20_000, 2_000)),
        (Scale::Values, (20_000, 20_000)),
        (Scale::Shares, (500, 500)),
        (Scale::Shares, (20_000, 20_000)),
    ];
    let (sides, all_runs) = match is_nightly() {
        true => (&sides[..], &[1, 3][..]),
        false => (&sides[..2], &[1][..]),
    };
    for measure in MEASURES {
        for &(scale, samples) in sides {
            for &runs in all_runs {
                let options = DiffOptions { measure, scale, each: true, ..DiffOptions::default() };
                let share = false_share(samples, runs, &options);
                assert!(share < 0.05, "{measure:?} {scale:?} {samples:?} {runs} runs: {share}");
                let options = DiffOptions { each: false, ..options };
                let share = false_share(samples, runs, &options);
                assert!(share < 0.002, "{measure:?} {scale:?} {samples:?} {runs} runs: {share}");
            }
        }
    }
}

#[test]
fn a_function_that_takes_a_tenth_longer_is_found_among_many() {
    let program = Program::new(120);
    let slow = program.slower("leaf5", 1.1);
    // As many samples as each of the two takes for the same work.
    let samples = 300_000.0;
    let more = (samples * slow.time() / program.time()) as usize;
    let (mut found, mut found_by_share) = (0, 0);
    let rounds = if is_nightly() { 20 } else { 10 };
    for seed in 0..rounds as u64 {
        let mut random = StdRng::seed_from_u64(seed);
        let before = [program.run(samples as usize, &mut random)];
        let after = [slow.run(more, &mut random)];
        let options = DiffOptions { scale: Scale::Values, ..DiffOptions::default() };
        let diff = compare(&before, &after, &options);
        let leaf5 = function(&diff, "leaf5");
        found += usize::from(leaf5.verdict == Verdict::More);
        let others = diff.functions.iter().filter(|f| {
            let wrong = f.name.starts_with("leaf") && f.name != "leaf5";
            wrong && f.verdict != Verdict::Noise
        });
        assert!(others.count() <= 1, "seed {seed}: others are called changed");

        // Shares show it, too: everything else has a little less of the whole.
        let diff = compare(&before, &after, &DiffOptions::default());
        found_by_share += usize::from(function(&diff, "leaf5").verdict == Verdict::More);
    }
    assert!(found + 1 >= rounds, "found in {found} of {rounds}");
    assert!(found_by_share + 1 >= rounds, "found by share in {found_by_share} of {rounds}");
}

#[test]
fn bounds_hold_the_true_change_as_often_as_they_say() {
    let program = Program::new(40);
    let slow = program.slower("part3", 1.5);
    let share = |program: &Program, name: &str| {
        let on = |(stack, _): &&(String, f64)| stack.split(';').any(|frame| frame == name);
        program.0.iter().filter(on).map(|(_, time)| time).sum::<f64>() / program.time()
    };
    let names: Vec<String> = (0..7).map(|n| format!("part{n}")).collect();
    let (mut held, mut all) = (0, 0);
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..200 {
        let before = [program.run(3000, &mut random)];
        let after = [slow.run(1500, &mut random)];
        let options = DiffOptions { each: true, ..DiffOptions::default() };
        let diff = compare(&before, &after, &options);
        for name in &names {
            let truth = share(&slow, name) - share(&program, name);
            let of = function(&diff, name).estimate;
            assert!(of.low <= of.change() && of.change() <= of.high, "{of:?}");
            held += usize::from(of.low <= truth && truth <= of.high);
            all += 1;
        }
    }
    let coverage = f64::from(held as u32) / f64::from(all);
    assert!((0.94..0.99).contains(&coverage), "{coverage}");
}

#[test]
fn bounds_leave_out_0_exactly_where_a_change_counts() {
    let program = Program::new(120);
    let slow = program.slower("part3", 1.3);
    for (each, runs) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
        for (scale, measure) in SCALES.into_iter().zip(MEASURES) {
            let mut random = StdRng::seed_from_u64(11);
            let mut side = |program: &Program, samples| -> Vec<Profile> {
                (0..runs).map(|_| program.run(samples, &mut random)).collect()
            };
            let (before, after) = (side(&program, 9000), side(&slow, 4000));
            let options = DiffOptions { each, scale, measure, ..DiffOptions::default() };
            let diff = compare(&before, &after, &options);
            for frame in &diff.graph(0.0).frames {
                let of = frame.estimate;
                let expect = match frame.verdict {
                    Verdict::Noise => of.low <= 0.0 && of.high >= 0.0,
                    Verdict::More => of.low > 0.0,
                    Verdict::Less => of.high < 0.0,
                };
                assert!(expect, "{:?} {of:?} {options:?} {runs} runs", frame.verdict);
            }
        }
    }
}

/// Runs that differ from each other by more than sampling: each function's time is another in each.
fn unsteady(program: &Program, random: &mut StdRng) -> Program {
    let mut factors = std::collections::BTreeMap::new();
    let mut factor = |name: &str| {
        *factors
            .entry(name.to_owned())
            .or_insert_with(|| 1.0 + 0.3 * (random.random::<f64>() - 0.5))
    };
    let part = |stack: &str| stack.split(';').nth(1).unwrap_or_default().to_owned();
    Program(program.0.iter().map(|(s, t)| (s.clone(), t * factor(&part(s)))).collect())
}

#[test]
fn runs_that_differ_among_themselves_raise_no_alarm() {
    let program = Program::new(120);
    let mut random = StdRng::seed_from_u64(99);
    let (mut single, mut several, mut frames) = (0, 0, 0);
    for _ in 0..30 {
        let mut side = || -> Vec<Profile> {
            (0..4).map(|_| unsteady(&program, &mut random).run(20_000, &mut random)).collect()
        };
        let (before, after) = (side(), side());
        let options = DiffOptions { each: true, ..DiffOptions::default() };
        let changed = |diff: &Diff| diff.nodes.iter().filter(|v| **v != Verdict::Noise).count();
        single += changed(&compare(&before[..1], &after[..1], &options));
        let diff = compare(&before, &after, &options);
        several += changed(&diff);
        frames += diff.nodes.len();
    }
    // One run cannot know how much runs differ.
    assert!(single as f64 > 0.05 * frames as f64, "{single} of {frames}");
    assert!((several as f64) < 0.05 * frames as f64, "{several} of {frames}");
}

#[test]
fn a_change_beyond_what_runs_differ_by_is_found() {
    let program = Program::new(120);
    let slow = program.slower("part3", 2.0);
    let mut random = StdRng::seed_from_u64(4);
    let mut side = |program: &Program| -> Vec<Profile> {
        (0..4).map(|_| unsteady(program, &mut random).run(20_000, &mut random)).collect()
    };
    let (before, after) = (side(&program), side(&slow));
    let diff = compare(&before, &after, &DiffOptions::default());
    assert_eq!(function(&diff, "part3").verdict, Verdict::More);
}

#[test]
fn what_is_new_and_what_is_gone_has_a_place_on_its_side_only() {
    let before = [profile([("main;old;deep", 400), ("main;same", 600)])];
    let after = [profile([("main;new;deep", 300), ("main;same", 700)])];
    let diff = compare(&before, &after, &DiffOptions::default());
    let graph = diff.graph(0.0);
    let lines: Vec<String> = graph
        .frames
        .iter()
        .map(|frame| {
            let name = graph.names.get(frame.name);
            let Span { start: x0, value: w0 } = frame.before;
            let Span { start: x1, value: w1 } = frame.after;
            format!("{} {name} {x0}+{w0} {x1}+{w1} {:?}", frame.depth, frame.verdict)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "0  0+1000 0+1000 Noise",
            "1 main 0+1000 0+1000 Noise",
            "2 new 0+0 0+300 More",
            "2 old 0+400 300+0 Less",
            "2 same 400+600 300+700 More",
            "3 deep 0+0 0+300 More",
            "3 deep 0+400 300+0 Less",
        ]
    );
    assert_eq!((graph.rows, graph.narrow), (4, 0));
    // Both together: what calls it has another name.
    assert_eq!((function(&diff, "deep").before, function(&diff, "deep").after), (400, 300));
    assert_eq!(diff.graph(0.5).narrow, 4);
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let before = [profile([("main;f;g;f", 3), ("main;g;f", 2), ("main", 1)])];
    let diff = compare(&before, &before, &DiffOptions::default());
    let total = |name: &str| function(&diff, name).before;
    assert_eq!([total("f"), total("g"), total("main"), total("")], [5, 5, 6, 6]);
    let options = DiffOptions { measure: Measure::OwnSelf, ..DiffOptions::default() };
    let diff = compare(&before, &before, &options);
    assert_eq!(function(&diff, "f").before, 5);
    assert_eq!(function(&diff, "g").before, 0);
}

#[test]
fn times_are_as_sure_as_the_samples_behind_them() {
    let clock = |counts: [u64; 2]| {
        let mut profile = profile([("main;a", counts[0]), ("main;b", counts[1])]);
        profile.value_types = vec![ValueType::new("cpu-clock", "ns")];
        profile.samples.scale(0, 10_101_010);
        profile
    };
    let diff = compare(&[clock([51, 49])], &[clock([49, 51])], &DiffOptions::default());
    assert_eq!((diff.before.samples, diff.before.basis), (100.0, SampleBasis::Counted));
    assert_eq!(diff.frames.changed, 0, "two samples of a hundred are no change");
    let diff = compare(&[clock([900, 100])], &[clock([100, 900])], &DiffOptions::default());
    assert_eq!(function(&diff, "b").verdict, Verdict::More);
}

#[test]
fn nothing_on_one_side_is_no_change_and_nothing_on_both_an_error() {
    let (some, none) = ([profile([("main", 1000)])], [profile([("main", 0)])]);
    for (before, after) in [(&some, &none), (&none, &some)] {
        for scale in SCALES {
            let options = DiffOptions { scale, ..DiffOptions::default() };
            let diff = compare(before, after, &options);
            let graph = diff.graph(0.001);
            assert_eq!(graph.frames.len(), 2);
            if scale == Scale::Shares {
                assert_eq!(diff.frames.changed, 0, "no share of nothing is known");
            }
        }
    }
    let error = try_compare(&none, &none, &DiffOptions::default()).expect_err("nothing");
    assert_eq!(
        error.to_string(),
        "there is nothing to compare: the samples of both sides add up to 0"
    );
    assert_eq!(
        try_compare(&[], &some, &DiffOptions::default()).expect_err("none"),
        DiffError::NoRuns
    );
}

#[test]
fn what_counts_something_else_is_not_compared() {
    let of = |name: &str, unit: &str| {
        let mut made = profile([("main", 1)]);
        made.value_types = vec![ValueType::new(name, unit)];
        [made]
    };
    let compare = |before: (&str, &str), after: (&str, &str), scale| {
        let options = DiffOptions { scale, ..DiffOptions::default() };
        let diff = try_compare(&of(before.0, before.1), &of(after.0, after.1), &options);
        diff.map(|diff| diff.before.unlike(&diff.after)).map_err(|error| error.to_string())
    };
    let (samples, clock) = (("samples", "count"), ("cpu-clock", "ns"));
    let error = compare(clock, ("alloc_space", "bytes"), Scale::Shares).expect_err("they differ");
    assert_eq!(
        error,
        "one counts cpu-clock (ns), another alloc_space (bytes): only what counts the same can be \
         compared"
    );
    let error = compare(samples, clock, Scale::Values).expect_err("values differ");
    assert!(error.ends_with("of these only shares can be compared"), "{error}");
    let unlike = "before counts samples, after cpu-clock (ns): shares are compared";
    assert_eq!(compare(samples, clock, Scale::Shares), Ok(Some(unlike.to_owned())));
    assert_eq!(compare(clock, clock, Scale::Values), Ok(None));
}

#[test]
fn extreme_values_do_no_harm() {
    let huge = [profile([("main;a", u64::MAX), ("main;b", u64::MAX)])];
    let small = [profile([("main;a", 1)])];
    for (before, after) in [(&huge, &small), (&small, &huge), (&huge, &huge)] {
        for (scale, measure) in SCALES.into_iter().zip(MEASURES) {
            for sample in [None, Some(1.0)] {
                let options = DiffOptions { scale, measure, sample, ..DiffOptions::default() };
                let graph = compare(before, after, &options).graph(0.0);
                assert!(graph.frames.iter().all(|frame| !frame.estimate.low.is_nan()));
            }
        }
    }
}

#[test]
fn exact_tails_are_those_of_the_binomial() {
    use super::noise::upper_tail;

    /// Summed term by term.
    fn summed(before: u32, after: u32, share: f64) -> f64 {
        let all = before + after;
        let term = |i: u32| (f64::from(all - i + 1) / f64::from(i)).ln();
        let mut ln_choose: f64 = (1..after).map(term).sum();
        (after..=all)
            .map(|k| {
                ln_choose += if k == 0 { 0.0 } else { term(k) };
                let ln =
                    ln_choose + f64::from(k) * share.ln() + f64::from(all - k) * (1.0 - share).ln();
                ln.exp()
            })
            .sum()
    }
    for (before, after, share) in [
        (0, 6, 0.5),
        (3, 14, 0.5),
        (100, 160, 0.5),
        (5, 4, 0.1),
        (2000, 260, 0.1),
        (240, 300, 0.5),
        (0, 3, 0.001),
    ] {
        let (exact, ours) =
            (summed(before, after, share), upper_tail(before.into(), after.into(), share));
        assert!((ours / exact - 1.0).abs() < 1e-6, "{before} {after} {share}: {ours}, {exact}");
    }
    // Where there are many, the normal distribution is near.
    let (exact, ours) = (summed(9500, 10_500, 0.5), upper_tail(9500.0, 10_500.0, 0.5));
    assert!((ours / exact - 1.0).abs() < 0.05, "{ours}, {exact}");
}

/// A program that waits: its stacks, how often each waits in a run, and for how long on average.
struct Waiter(Vec<(String, f64, f64)>);

impl Waiter {
    fn new() -> Self {
        let mut random = StdRng::seed_from_u64(11);
        let stack = |n: usize| format!("main;part{};step{};wait{n}", n % 5, n % 17);
        let mut wait = |n| {
            let often = 10f64.powf(1.0 + 2.0 * random.random::<f64>());
            (stack(n), often, 10f64.powf(4.0 + 3.0 * random.random::<f64>()))
        };
        Self((0..60).map(&mut wait).collect())
    }

    /// The same with the waits of one stack changed.
    fn with(&self, stack: usize, often: f64, long: f64) -> Self {
        let mut changed = Self(self.0.clone());
        changed.0[stack].1 *= often;
        changed.0[stack].2 *= long;
        changed
    }

    /// A run: numbers of waits by Poisson's distribution, lengths by an exponential one. Values are the time, and
    /// `counted` the number of waits beside it.
    fn run(&self, counted: bool, random: &mut StdRng) -> Profile {
        let mut types = vec![ValueType::new("off-cpu", "ns")];
        if counted {
            types.push(ValueType::new("waits", "count"));
        }
        let mut profile = Profile::new(types);
        for (stack, often, long) in &self.0 {
            let (mut waits, mut time, mut passed) = (0, 0.0, 0.0);
            loop {
                passed -= random.random::<f64>().max(1e-12).ln();
                if passed > *often {
                    break;
                }
                waits += 1;
                time -= random.random::<f64>().max(1e-12).ln() * long;
            }
            let stack = profile.stack_of_names(stack.split(';'));
            if waits > 0 {
                let values = [time as u64, waits];
                profile.push(Sample::new(stack), &values[..1 + usize::from(counted)]);
            }
        }
        profile
    }

    fn runs(&self, count: usize, counted: bool, random: &mut StdRng) -> Vec<Profile> {
        (0..count).map(|_| self.run(counted, random)).collect()
    }
}

/// The share of frames and functions that did not change but are called changed.
fn false_share_of_waits(runs: usize, counted: bool, scale: Scale) -> f64 {
    let program = Waiter::new();
    let mut random = StdRng::seed_from_u64(5);
    let options = DiffOptions { each: true, scale, ..DiffOptions::default() };
    let (mut called, mut all) = (0, 0);
    for _ in 0..25 {
        let before = program.runs(runs, counted, &mut random);
        let after = program.runs(runs, counted, &mut random);
        let diff = compare(&before, &after, &options);
        called += diff.functions.iter().filter(|of| of.verdict != Verdict::Noise).count();
        all += diff.functions.len();
    }
    called as f64 / all as f64
}

#[test]
fn waits_that_did_not_change_raise_no_alarm() {
    let kinds = [(1, true), (3, false), (3, true)];
    let kinds = if is_nightly() { &kinds[..] } else { &kinds[..2] };
    for scale in SCALES {
        for &(runs, counted) in kinds {
            let share = false_share_of_waits(runs, counted, scale);
            assert!(share <= 0.05, "{share} of {scale:?}, {runs} runs, counted: {counted}");
        }
    }
}

#[test]
fn a_hundred_thousand_waits_counted_as_twenty_samples_and_a_halved_wait_was_not_found() {
    let mut program = Waiter::new();
    // Short and very often: `XLogFlush`.
    program.0[7] = ("main;XLogFlush".to_owned(), 20_000.0, 2_000_000.0);
    let mut random = StdRng::seed_from_u64(3);
    for scale in SCALES {
        let options = DiffOptions { scale, ..DiffOptions::default() };
        for (often, long) in [(1.0, 0.5), (0.5, 1.0), (0.0, 1.0)] {
            let changed = program.with(7, often, long);
            for (runs, counted) in [(1, true), (3, true), (3, false)] {
                let before = program.runs(runs, counted, &mut random);
                let after = changed.runs(runs, counted, &mut random);
                let diff = compare(&before, &after, &options);
                assert_eq!(
                    function(&diff, "XLogFlush").verdict,
                    Verdict::Less,
                    "{scale:?}, {runs} runs, counted: {counted}, {often} times as often, {long} as long"
                );
            }
        }
    }
}

#[test]
fn one_run_of_times_without_counts_cannot_tell() {
    let program = Waiter::new();
    let mut random = StdRng::seed_from_u64(9);
    let diff = compare(
        &program.runs(1, false, &mut random),
        &program.runs(1, false, &mut random),
        &DiffOptions::default(),
    );
    assert_eq!(diff.before.basis, SampleBasis::Totals);
    assert!(diff.functions.iter().all(|of| of.verdict == Verdict::Noise));
}
