//! Search for a return address on the stack, for frames that no table, instructions or frame pointer can unwind.

use crate::code::ends_with_call;
use crate::registers::{Arch, Memory, Registers};
use crate::space::{AddressSpace, Mapping};

/// Maximum number of words of the stack to search.
const MOST_WORDS: u64 = 512;

/// A return address, and its location on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub return_address: u64,
    pub at: u64,
}

/// Kind of the call before the address in a word of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The call leads to the function that is being unwound.
    Here,
    /// The call goes through a pointer or the PLT, so it may lead to any function.
    Anywhere,
    /// The call leads to another function, or there is no call: the word was left behind by other calls, or is not
    /// an address.
    Elsewhere,
}

/// Finds a plausible return address on the stack for a frame whose code is at `ip` (inside the call, if it is in
/// one). This is the first word that follows a call to the function or, if there is none, the first word that
/// follows a call through a pointer and whose frame has a caller (`leads_on`).
pub(crate) fn scan(
    space: &AddressSpace,
    stack: &Memory<'_>,
    registers: &Registers,
    ip: u64,
    leads_on: &mut dyn FnMut(Scanned) -> bool,
) -> Option<Scanned> {
    /// Maximum number of calls of `leads_on`, which searches tables.
    const MOST_TRIED: usize = 4;
    let mapping = space.lookup(ip)?;
    let start = function_start(mapping, ip);
    let sp = registers.sp().filter(|sp| registers.arch() == Arch::X86_64 && sp % 8 == 0)?;
    let (mut tried, mut pointed) = (0, None);
    for word in 0..MOST_WORDS {
        let at = sp.checked_add(8 * word)?;
        let Some(return_address) = stack.copied(at) else { break };
        let found = Scanned { return_address, at };
        match call_before(space, return_address, start, ip) {
            Call::Here => return Some(found),
            Call::Anywhere if pointed.is_none() && tried < MOST_TRIED => {
                tried += 1;
                if leads_on(found) {
                    pointed = Some(found);
                }
            }
            Call::Anywhere | Call::Elsewhere => {}
        }
    }
    pointed
}

/// Returns true if a word is a return address after a call to the function that contains `ip`.
pub(crate) fn is_from_caller(space: &AddressSpace, word: u64, ip: u64) -> bool {
    let start = space.lookup(ip).and_then(|mapping| function_start(mapping, ip));
    call_before(space, word, start, ip) == Call::Here
}

/// Start of the function at an address, if a table covers it.
fn function_start(mapping: &Mapping, ip: u64) -> Option<u64> {
    let svma = mapping.svma(ip);
    let function = mapping.info.as_ref()?.function(svma)?;
    ip.checked_sub(svma.checked_sub(function.start)?)
}

fn call_before(space: &AddressSpace, address: u64, start: Option<u64>, ip: u64) -> Call {
    let Some(mapping) = space.lookup(address.wrapping_sub(1)) else { return Call::Elsewhere };
    // If the bytes of the code are not available, it may be anything.
    let Some(info) = &mapping.info else { return Call::Elsewhere };
    let end = mapping.svma(address);
    let bytes = |address: u64, len| info.code(address, len);
    if let Some(&[0xe8, ref offset @ ..]) = bytes(end.wrapping_sub(5), 5)
        && let Some(offset) = offset.first_chunk()
    {
        let by = i64::from(i32::from_le_bytes(*offset));
        let target = address.wrapping_add_signed(by);
        if goes_to(target, start, ip) {
            return Call::Here;
        }
        let code = info.code_from(end.wrapping_add_signed(by)).unwrap_or_default();
        return if is_linkage(code) { Call::Anywhere } else { Call::Elsewhere };
    }
    let before = (2..=7).rev().find_map(|len| bytes(end.wrapping_sub(len), len as usize));
    match before.is_some_and(ends_with_call) {
        true => Call::Anywhere,
        false => Call::Elsewhere,
    }
}

/// Returns true if a call leads to the function that contains `ip`. If that function's start is unknown, a target
/// up to 16 KiB before `ip` is accepted.
fn goes_to(target: u64, start: Option<u64>, ip: u64) -> bool {
    const NEAR: u64 = 16 << 10;
    match start {
        Some(start) => target == start,
        None => ip.checked_sub(target).is_some_and(|distance| distance < NEAR),
    }
}

/// Returns true if the code is a PLT entry: a jump through a pointer.
fn is_linkage(code: &[u8]) -> bool {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let code = code.strip_prefix(ENDBR64).unwrap_or(code);
    matches!(code, [0xff, 0x25, ..] | [0xf2, 0xff, 0x25, ..])
}
