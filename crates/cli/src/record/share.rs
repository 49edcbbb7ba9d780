//! Share of a subset of stacks in a recording.

use pyrograph_profile::{Profile, StackId};

/// Part of the shown value, 0 to 1, in stacks that satisfy a predicate.
pub fn share_of_stacks(profile: &Profile, is_it: impl Fn(StackId) -> bool) -> f64 {
    let (mut part, mut all) = (0u64, 0u64);
    for (sample, &value) in profile.samples.iter().zip(profile.samples.values(profile.shown)) {
        all = all.saturating_add(value);
        if is_it(sample.stack) {
            part = part.saturating_add(value);
        }
    }
    part as f64 / all.max(1) as f64
}
