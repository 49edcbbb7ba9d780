//! Waits of Go: a goroutine that waits has no thread, and what waits instead says nothing of it.

use pyrograph_recorder::Resolved;

use super::share::share_of_stacks;

/// Threads of Go's scheduler wait in these (runtime/proc.go) until there is a goroutine to run, or time to look at all.
const IDLE: [&str; 4] =
    ["runtime.stopm", "runtime.findRunnable", "runtime.findrunnable", "runtime.sysmon"];

/// The part of the value that is of Go's threads that wait for work.
pub fn idle_share(resolved: &Resolved) -> f64 {
    let profile = &resolved.profile;
    let is_idle: Vec<bool> = profile
        .frames
        .iter()
        .map(|frame| {
            let name = profile.strings.get(frame.function);
            IDLE.contains(&name.strip_suffix(".abi0").unwrap_or(name))
        })
        .collect();
    if !is_idle.contains(&true) {
        return 0.0;
    }
    share_of_stacks(profile, |stack| {
        profile.stacks.leaf_first(stack).any(|frame| is_idle[frame.index()])
    })
}
