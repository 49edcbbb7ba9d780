//! The program that `../perf-data.sh` records: stacks of generic functions that are partly inlined, over data
//! structures of the standard library. `work SECONDS DEPTH THREADS`: how long it runs, how many of
//! its own functions are on a stack at most (23), and in how many threads (1).

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::{Duration, Instant};

trait Visit {
    fn visit(&mut self, depth: u32, seed: u64) -> u64;
}

#[derive(Default)]
struct Sorted(BTreeMap<u64, u64>);
#[derive(Default)]
struct Hashed(HashMap<u64, u64>);
#[derive(Default)]
struct Text(String);

impl Visit for Sorted {
    #[inline(never)]
    fn visit(&mut self, depth: u32, seed: u64) -> u64 {
        self.0.insert(seed % 4096, seed);
        self.0.range(seed % 64..).take(8).map(|(k, v)| k ^ v).sum::<u64>() + u64::from(depth)
    }
}

impl Visit for Hashed {
    #[inline(never)]
    fn visit(&mut self, depth: u32, seed: u64) -> u64 {
        *self.0.entry(seed % 4096).or_insert(0) += seed;
        self.0.get(&(seed % 1024)).copied().unwrap_or(u64::from(depth))
    }
}

impl Visit for Text {
    #[inline(never)]
    fn visit(&mut self, depth: u32, seed: u64) -> u64 {
        use std::fmt::Write;
        self.0.clear();
        let _ = write!(self.0, "{depth}-{seed:x}");
        self.0.bytes().rev().map(u64::from).sum()
    }
}

macro_rules! level {
    ($name:ident, $next:ident) => {
        #[inline(never)]
        fn $name<V: Visit>(to: &mut V, depth: u32, seed: u64) -> u64 {
            let seed = step(seed, depth);
            if depth == 0 { to.visit(depth, seed) } else { black_box($next(to, depth - 1, seed)) }
        }
    };
}

level!(first, second);
level!(second, third);
level!(third, first);

#[inline(always)]
fn step(seed: u64, depth: u32) -> u64 {
    mix(seed.wrapping_add(u64::from(depth)))
}

#[inline(always)]
fn mix(seed: u64) -> u64 {
    (seed ^ seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(17)
}

/// Runs until `end`.
fn run(end: Instant, deepest: u32) -> u64 {
    let (mut sorted, mut hashed, mut text) =
        (Sorted::default(), Hashed::default(), Text::default());
    let mut sum = 0u64;
    let mut seed = 1u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            seed = mix(seed.wrapping_add(1));
            let depth = deepest.saturating_sub((seed % 10) as u32);
            sum ^= first(&mut sorted, depth, seed);
            sum ^= second(&mut hashed, depth, seed);
            sum ^= third(&mut text, depth, seed);
        }
    }
    sum
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(argument(1).unwrap_or(1.0));
    let (deepest, threads) =
        (argument(2).unwrap_or(23.0) as u32, argument(3).unwrap_or(1.0) as u32);
    let others: Vec<_> =
        (1..threads).map(|_| std::thread::spawn(move || run(end, deepest))).collect();
    let sum = run(end, deepest);
    let sums = others.into_iter().map(|thread| thread.join().unwrap_or_default());
    println!("{}", sums.fold(sum, |sum, next| sum ^ next));
}
