//! Marks behind names in folded text: `f_[j]`, as collapsers and async-profiler write them.

use crate::Tier;

/// The name without its marks, and the tier that they say.
pub(crate) fn split(name: &str) -> (&str, Option<Tier>) {
    let (mut rest, mut tier) = (name, None);
    while let Some((bare, letter)) = last(rest) {
        rest = bare;
        tier = tier.or(match letter {
            b'0' => Some(Tier::Interpreted),
            b'1' => Some(Tier::Baseline),
            b'j' => Some(Tier::Optimized),
            _ => None,
        });
    }
    (rest, tier)
}

fn last(name: &str) -> Option<(&str, u8)> {
    let (rest, letter) = name.strip_suffix(']')?.rsplit_once("_[")?;
    match letter.as_bytes() {
        [letter @ (b'k' | b'j' | b'i' | b'g' | b'0' | b'1')] if !rest.is_empty() => {
            Some((rest, *letter))
        }
        _ => None,
    }
}
