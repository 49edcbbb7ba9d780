//! Waits in Go programs: a waiting goroutine has no thread, and the stacks of waiting threads do not show it.

use pyrograph_session::Resolved;

use super::share::share_of_stacks;

/// Functions of the runtime (runtime/proc.go) in which scheduler threads wait until a goroutine can run, or until it is
/// time to check.
const IDLE: [&str; 4] =
    ["runtime.stopm", "runtime.findRunnable", "runtime.findrunnable", "runtime.sysmon"];

/// Part of the shown value, 0 to 1, in Go's threads that wait for work.
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
