//! Records itself for two seconds, and prints its top functions.
//!
//! ```text
//! cargo run --release -p pyrograph-session --example itself
//! ```

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use pyrograph_session::{Message, Plan, Recorder, Target};

/// Records, and prints a line for each function.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::thread::spawn(|| {
        loop {
            black_box((1..1000).fold(0, |most, number| collatz(number).max(most)));
        }
    });

    let mut plan = Plan::new(Target::Processes(vec![i32::try_from(std::process::id())?]));
    plan.scope.duration = Some(Duration::from_secs(2));
    let mut recorder = Recorder::open(&plan, |message| {
        if let Message::Notice(notice) = message {
            eprintln!("{notice}");
        }
    })?;
    while recorder.step()? {}
    let profile = recorder.finish()?.resolved.profile;

    let mut by_function = HashMap::<String, u64>::new();
    for (sample, value) in profile.samples.iter().zip(profile.samples.values(0)) {
        if let Some(leaf) = profile.stacks.leaf_first(sample.stack).next() {
            *by_function.entry(profile.frame_name(leaf)).or_default() += value;
        }
    }
    let mut top: Vec<_> = by_function.into_iter().collect();
    top.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let all = profile.samples.total(0).max(1);
    for (function, value) in top.iter().take(10) {
        println!("{:5.1} % {function}", *value as f64 * 100.0 / all as f64);
    }
    Ok(())
}

/// How many steps a number takes to come to 1, if it is halved where it is even, else tripled and one added.
#[inline(never)]
fn collatz(mut number: u64) -> u64 {
    let mut steps = 0;
    while number > 1 {
        number = if number & 1 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}
