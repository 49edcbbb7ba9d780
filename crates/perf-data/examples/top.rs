//! Prints the functions that most samples of a `perf.data` file end in.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use pyrograph_perf_data::{Recording, ResolveOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| "perf.data".into(), PathBuf::from);
    let recording = Recording::open(&path)?;
    for (event, samples) in recording.events() {
        println!("{samples:>8} samples of {event}");
    }
    let event = recording.choose_event(None).ok_or("there are no samples in it")?;
    let options = ResolveOptions { count_samples: true, ..ResolveOptions::default() };
    let profile = recording.resolve(event, &options).resolved.profile;
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let leaf = profile.stacks.leaf_first(sample.stack).next();
        let function = leaf.map(|frame| profile.strings.get(profile.frames.get(frame).function));
        *functions.entry(function.unwrap_or_default()).or_default() +=
            profile.samples.values(0)[row];
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    for (function, samples) in functions.into_iter().take(10) {
        println!("{samples:>8} {function}");
    }
    Ok(())
}
