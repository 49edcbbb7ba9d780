//! What is said of made-up profiles whose truth is known.

use pyrograph_profile::{Frame, FrameKind, LabelOptions, Profile, Sample, Tree, ValueType};

use super::*;

/// A stream of numbers from a fixed seed (Steele, Lea and Flood, "SplitMix", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A program: its stacks, and how often each is sampled.
struct Program(Vec<(String, f64)>);

impl Program {
    /// Functions in a tree of several levels, whose times are spread over three orders of size.
    fn new(stacks: usize) -> Self {
        let mut random = Random(7);
        let stack = |n: usize| format!("main;part{};step{};work{n};leaf{}", n % 7, n % 31, n % 13);
        Self((0..stacks).map(|n| (stack(n), 10f64.powf(3.0 * random.unit()))).collect())
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
    fn run(&self, samples: usize, random: &mut Random) -> Profile {
        let mut ends = Vec::new();
        let mut sum = 0.0;
        for (_, time) in &self.0 {
            sum += time;
            ends.push(sum);
        }
        let mut counts = vec![0u64; self.0.len()];
        for _ in 0..samples {
            let at = random.unit() * sum;
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
        let frames: Vec<_> = stack
            .split(';')
            .map(|name| {
                let name = profile.strings.intern(name);
                profile.frames.intern(Frame::named(name, FrameKind::User))
            })
            .collect();
        let stack = profile.stacks.intern_path(frames);
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
    diff(&before, &after, options)
}

fn function<'a>(diff: &'a Diff, name: &str) -> &'a FunctionChange {
    diff.functions.iter().find(|f| f.name == name).expect("the function is on a stack")
}

const SCALES: [Scale; 2] = [Scale::Shares, Scale::Values];
const MEASURES: [Measure; 2] = [Measure::Total, Measure::OwnSelf];

/// What share of the frames, and of the functions, is called changed over many comparisons of two
/// runs of one program.
fn false_share(samples: (usize, usize), runs: usize, options: &DiffOptions) -> f64 {
    let program = Program::new(120);
    let mut random = Random(2026);
    let (mut called, mut all) = (0, 0);
    for _ in 0..60 {
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

#[test]
fn of_frames_that_did_not_change_fewer_than_one_in_twenty_are_called_changed() {
    for measure in MEASURES {
        for (scale, samples) in [
            (Scale::Shares, (500, 500)),
            (Scale::Shares, (20_000, 20_000)),
            (Scale::Shares, (20_000, 2_000)),
            (Scale::Values, (20_000, 20_000)),
        ] {
            for runs in [1, 3] {
                let options = DiffOptions { measure, scale, each: true, ..DiffOptions::default() };
                let share = false_share(samples, runs, &options);
                println!("{measure:?} {scale:?} {samples:?} {runs} each: {share}");
                assert!(share < 0.05, "{measure:?} {scale:?} {samples:?} {runs} runs: {share}");
                let options = DiffOptions { each: false, ..options };
                let share = false_share(samples, runs, &options);
                println!("   together: {share}");
                assert!(share < 0.002, "{measure:?} {scale:?} {samples:?} {runs} runs: {share}");
            }
        }
    }
}
