//! States of sampled threads.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::warnings::{WarningKind, Warnings};

/// Number of samples in each thread state.
#[derive(Default)]
pub(super) struct States {
    /// The requested state; `None` for all.
    pub wanted: Option<String>,
    seen: BTreeMap<String, u64>,
}

/// Splits `jdk.ExecutionSample:STATE_RUNNABLE` into event and state, unless an event has that whole name.
pub(super) fn split<'a>(
    wanted: &'a str,
    events: &HashMap<String, u64>,
) -> (Option<&'a str>, Option<String>) {
    match wanted.rsplit_once(':') {
        Some((event, state)) if !events.contains_key(wanted) => {
            (Some(event), Some(state.to_owned()))
        }
        _ => (Some(wanted), None),
    }
}

impl States {
    /// Counts an event, which may represent several samples; returns true if its state is requested.
    pub fn takes(&mut self, state: &str, samples: u64) -> bool {
        match self.seen.get_mut(state) {
            Some(seen) => *seen = seen.saturating_add(samples),
            None => drop(self.seen.insert(state.to_owned(), samples)),
        }
        self.is_wanted(state)
    }

    fn is_wanted(&self, state: &str) -> bool {
        let plain = |name: &str| {
            let name = name.to_ascii_uppercase();
            name.strip_prefix("STATE_").map(str::to_owned).unwrap_or(name)
        };
        self.wanted.as_ref().is_none_or(|wanted| plain(wanted) == plain(state))
    }

    /// Returns the name of the event that was counted. If a state was requested, samples in other states are reported
    /// as other events; otherwise a warning lists the states.
    pub fn finish(
        &self,
        event: String,
        others: &mut BTreeMap<String, u64>,
        warnings: &mut Warnings,
    ) -> String {
        if let Some(wanted) = &self.wanted {
            let left_out = self.seen.iter().filter(|(state, _)| !self.is_wanted(state));
            others.extend(left_out.map(|(state, count)| (format!("{event}:{state}"), *count)));
            return format!("{event}:{wanted}");
        }
        let mut seen: Vec<(&String, &u64)> = self.seen.iter().collect();
        seen.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        if let [(first, _), _, ..] = seen[..] {
            // Most threads sleep, so the suggested state is one in which threads ran.
            let ran = seen.iter().map(|(state, _)| *state).find(|state| !is_asleep(state));
            let first = ran.unwrap_or(first);
            let counts: Vec<String> =
                seen.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let said = format!(
                "samples of threads in all states are counted, {}; --event-filter {event}:{first} counts one state",
                counts.join(", ")
            );
            warnings.add(WarningKind::NotHeld(said), 1, []);
        }
        event
    }
}

/// True for `STATE_SLEEPING`, `STATE_IN_OBJECT_WAIT`, `STATE_PARKED` and similar states.
fn is_asleep(state: &str) -> bool {
    ["SLEEP", "WAIT", "PARK", "BLOCK"].iter().any(|word| state.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of samples in these states, what is counted, and the other events.
    fn check(wanted: Option<&str>, expect: (&str, &str, &[(&str, u64)], usize)) {
        let mut states = States { wanted: wanted.map(str::to_owned), ..States::default() };
        let samples = ["STATE_SLEEPING", "STATE_RUNNABLE", "STATE_SLEEPING"];
        let taken = samples.iter().filter(|state| states.takes(state, 1)).count();
        let (mut others, mut warnings) = (BTreeMap::new(), Warnings::default());
        let event = states.finish("E".to_owned(), &mut others, &mut warnings);
        let said: String = warnings.iter().map(ToString::to_string).collect();
        let others: Vec<_> = others.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!((said.as_str(), event.as_str(), &*others, taken), expect);
    }

    #[test]
    fn sleeping_threads_were_counted_as_those_that_ran() {
        let said = "samples of threads in all states are counted, 2 STATE_SLEEPING, 1 STATE_RUNNABLE; \
                    --event-filter E:STATE_RUNNABLE counts one state";
        check(None, (said, "E", &[], 3));
        check(Some("runnable"), ("", "E:runnable", &[("E:STATE_SLEEPING", 2)], 1));
        check(Some("STATE_SLEEPING"), ("", "E:STATE_SLEEPING", &[("E:STATE_RUNNABLE", 1)], 2));
    }

    #[test]
    fn a_state_stands_behind_an_event() {
        let events = HashMap::from([("a:b".to_owned(), 1)]);
        assert_eq!(split("a:b", &events), (Some("a:b"), None));
        assert_eq!(split("a:c", &events), (Some("a"), Some("c".to_owned())));
        assert_eq!(split("a", &events), (Some("a"), None));
    }
}
