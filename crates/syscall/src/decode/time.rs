//! Time that is left.

use crate::context::{Context, address};

/// The time left of a sleep, which is written only if a signal ends it: its address.
pub(crate) fn remaining(context: &Context<'_>, index: usize, out: &mut String) {
    address(context.raw(index), out);
}
