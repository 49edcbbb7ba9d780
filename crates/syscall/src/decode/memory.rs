//! Memory: protection, mappings.

use crate::context::{Context, address, flags};
use crate::kind::Kind;
use crate::words::memory::{MAP, MAP_WAYS, PROTECTION};

pub(crate) fn protection(context: &Context<'_>, index: usize, out: &mut String) {
    match context.raw(index) {
        0 => out.push_str("PROT_NONE"),
        some => flags(PROTECTION, some, out),
    }
}

pub(crate) fn map_flags(context: &Context<'_>, index: usize, out: &mut String) {
    context.value(&Kind::Mixed(3, MAP_WAYS, MAP), context.raw(index), out);
}

/// New address of a mapping in `mremap`, which is used only with its flag.
pub(crate) fn remap_address(context: &Context<'_>, index: usize, out: &mut String) {
    const FIXED_OR_DONTUNMAP: u64 = 2 | 4;
    if context.raw(index - 1) & FIXED_OR_DONTUNMAP != 0 {
        address(context.raw(index), out);
    }
}
