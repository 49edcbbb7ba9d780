//! Marks behind names in folded text: `f_[j]`, as collapsers and async-profiler write them.

use crate::Tier;

/// That of functions of the kernel, which are others than those of the same name in programs: `memcpy`, `strlen`.
pub(crate) const KERNEL: &str = "_[k]";

/// The name without its marks, the tier that they say, and whether the function is one of the kernel.
pub(crate) fn split(name: &str) -> (&str, Option<Tier>, bool) {
    let (mut rest, mut tier, mut is_kernel) = (name, None, false);
    while let Some((bare, letter)) = last(rest) {
        rest = bare;
        is_kernel |= letter == b'k';
        tier = tier.or(match letter {
            b'0' => Some(Tier::Interpreted),
            b'1' => Some(Tier::Baseline),
            b'j' => Some(Tier::Optimized),
            _ => None,
        });
    }
    (rest, tier, is_kernel)
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
