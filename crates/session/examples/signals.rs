//! Counts signals by sender and receiver, of the whole machine, for some seconds.
//!
//! ```text
//! sudo cargo run -p pyrograph-session --example signals -- 5
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use pyrograph_profile::{ThreadAction, ThreadEvent};
use pyrograph_session::{Error, Scope, Target, TracePlan, Tracing, traced_names};

/// Sender, receiver and signal, as names.
type Sent = (String, String, String);

/// Records, and prints a line for each kind of signal, the most frequent first.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(2), |seconds| seconds.parse())?;
    let (calls, events) = traced_names(&["signal:signal_generate".to_owned()], None)?;
    let duration = Some(Duration::from_secs(seconds));
    let scope = Scope { duration, ..Scope::new(Target::System) };
    let plan = TracePlan { calls, events, ..TracePlan::new(scope) };
    let mut counts = BTreeMap::<Sent, u64>::new();
    let mut tracing = Tracing::open(&plan)?;
    while tracing.step(&mut |event: ThreadEvent| {
        if let Some(sent) = sent(event) {
            *counts.entry(sent).or_default() += 1;
        }
        Ok::<(), Error>(())
    })? {}
    let lost = tracing.finish().lost;
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for ((sender, receiver, signal), count) in counts {
        println!("{count:6} {sender} → {receiver}: signal {signal}");
    }
    if lost.calls > 0 {
        eprintln!("{} events were lost", lost.calls);
    }
    Ok(())
}

/// Sender, receiver and number of a signal: the thread that ran, and fields of `signal_generate` (`sig=10 … comm=sleep pid=12 …`).
fn sent(event: ThreadEvent) -> Option<Sent> {
    let ThreadAction::Event { text, .. } = event.action else { return None };
    let field = |name: &str| {
        let value = text.split(&format!("{name}=")).nth(1)?;
        Some(value.split(' ').next().unwrap_or_default().to_owned())
    };
    Some((event.thread_name, field("comm")?, field("sig")?))
}
