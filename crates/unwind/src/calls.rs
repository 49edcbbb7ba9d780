//! Checks from a call's instruction which functions the call may lead to.

use std::ops::Range;

use crate::info::UnwindInfo;
use crate::space::AddressSpace;

/// Returns true if the call before a return address may have led to the function that holds `callee`. A call with
/// an unknown target (through a register or the PLT) may have led anywhere.
pub(crate) fn may_lead_to(space: &AddressSpace, return_address: u64, callee: u64) -> bool {
    let Some(mapping) = space.lookup(return_address.wrapping_sub(1)) else { return false };
    let Some(info) = mapping.info.as_deref() else { return true };
    let svma = mapping.svma(return_address);
    let Some(target) = direct_target(info, svma) else { return true };
    let Some(called) = info.function(target).filter(|_| !info.in_stubs(target)) else {
        return true;
    };
    let callee_here = space
        .lookup(callee)
        .filter(|of| of.info.as_ref().is_some_and(|of| of.id() == info.id()))
        .map(|of| of.svma(callee));
    let Some(callee) = callee_here.and_then(|callee| info.function(callee)) else { return false };
    called == callee || jumps_to(info, &called, &callee)
}

/// Target of a `call rel32` that ends at an address.
fn direct_target(info: &UnwindInfo, end: u64) -> Option<u64> {
    let [0xe8, distance @ ..] = *info.code(end.wrapping_sub(5), 5)?.first_chunk::<5>()? else {
        return None;
    };
    Some(end.wrapping_add_signed(i32::from_le_bytes(distance).into()))
}

/// Returns true if a function seems to jump to another, as a tail call or to its own cold part: `jmp rel32` (`E9`)
/// or `jcc rel32` (`0F 8x`) at any of its bytes.
fn jumps_to(info: &UnwindInfo, from: &Range<u64>, to: &Range<u64>) -> bool {
    let len = usize::try_from(from.end - from.start).unwrap_or(usize::MAX);
    let code = info.code(from.start, len).unwrap_or_default();
    (1..).zip(code.windows(6)).any(|(next, window)| {
        let (at, distance) = match *window {
            [0x0f, 0x80..=0x8f, a, b, c, d] => (next + 5, [a, b, c, d]),
            [0xe9, a, b, c, d, _] => (next + 4, [a, b, c, d]),
            _ => return false,
        };
        let end = from.start.wrapping_add(at);
        to.contains(&end.wrapping_add_signed(i32::from_le_bytes(distance).into()))
    }) || code.last_chunk().is_some_and(|&[first, a, b, c, d]: &[u8; 5]| {
        let distance = i32::from_le_bytes([a, b, c, d]);
        first == 0xe9 && to.contains(&from.end.wrapping_add_signed(distance.into()))
    })
}
