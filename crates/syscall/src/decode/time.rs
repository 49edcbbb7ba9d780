//! Remaining time of sleeps.

use crate::context::{Context, address};

/// Address of the remaining time of a sleep; the kernel writes to it only if a signal interrupts the sleep.
pub(crate) fn remaining(context: &Context<'_>, index: usize, out: &mut String) {
    address(context.raw(index), out);
}
