//! Latencies of pairs of events in traces, and messages about them.

use anyhow::{anyhow, bail};
use pyrograph_analyze::{Latencies, PairedEvents, Pairing};
use pyrograph_format::{Head, events};

use crate::say::say;
use crate::units::{counted, grouped};

/// Reads the latencies in all inputs; also returns a line that describes them.
pub fn read(pairing: &Pairing, heads: Vec<Head>) -> anyhow::Result<(Latencies, String)> {
    let mut paired = PairedEvents::new(pairing);
    for head in heads {
        let warnings = events(head, &mut |event| paired.add(event))
            .map_err(|error| anyhow!("failed to {error}"))?;
        for (_, line) in warnings.lines() {
            say!("{line}");
        }
    }
    let what = pairing.describe();
    if paired.begins == 0 || paired.ends == 0 {
        let missing = if paired.begins == 0 { "begins" } else { "ends" };
        let others = paired.others.into_iter().collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { "no others".to_owned() } else { others };
        bail!("no event {missing} anything ({what}); the input has {others}");
    }
    if paired.unusable > 0 {
        let fields = match &paired.fields[..] {
            [] => "no fields".to_owned(),
            fields => format!("the fields {}", fields.join(", ")),
        };
        let events = counted(paired.unusable, "event");
        say!("{events} left out, for want of a key or a time; the first has {fields}");
    }
    describe(paired.finish(), &what)
}

fn describe(latencies: Latencies, what: &str) -> anyhow::Result<(Latencies, String)> {
    if latencies.times.is_empty() && latencies.unwanted > 0 {
        let pairs = counted(latencies.unwanted, "pair");
        bail!("nothing is left to draw: the filters leave none of {pairs} ({what})");
    }
    let drawn = latencies.times.len() as u64;
    let mut line = format!("{what}: {}", counted(drawn, "pair"));
    if latencies.unwanted > 0 {
        line.push_str(&format!(" of {}", grouped(latencies.unwanted + drawn)));
    }
    let part = |(count, what): (u64, &str)| format!("{} {what}", grouped(count));
    let parts: Vec<String> = latencies.unmatched().into_iter().map(part).collect();
    if !parts.is_empty() {
        let parts = format!("not drawn: {}", parts.join(", "));
        say!("{parts}");
        line.push_str(&format!("; {parts}"));
    }
    Ok((latencies, line))
}
