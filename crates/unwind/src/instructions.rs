//! Rules for x86-64 code that has no unwind table, found from its instructions.
//!
//! From the starts of functions, every branch is followed with the known state of the stack pointer and of the
//! callee-saved registers: where a function pushes and saves them, moves the stack pointer, and restores them. So
//! the row after an early return is the row of the branch that leads there. Values about which two paths to an
//! instruction disagree are unknown.
//!
//! All of this is a guess: where functions start, that calls return and leave the stack unchanged, and where jump
//! tables lead.

mod effect;
mod flow;
mod memo;
mod starts;
mod state;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};

use crate::rule::Compact;
use flow::Flow;
use state::{Kind, State};

/// Maximum size of code without tables that is analysed as a whole, at the first lookup of an address in it.
const WHOLE: u64 = 1 << 20;
/// Size of the pieces in which larger code is analysed, so that a lookup never takes long: some microseconds for
/// each instruction. A function is missed if only code in other pieces calls it and there is no gap between it and
/// the function before.
const PIECE: u64 = 8 << 10;
/// Number of bytes before a piece that are analysed with it: a function that begins there may reach into the piece.
const LEAD: u64 = 4 << 10;

/// Size of the pieces in which code of this length is analysed.
pub(crate) fn piece_of(len: u64) -> u64 {
    if len <= WHOLE { WHOLE } else { PIECE }
}

/// Range to analyse for a piece of a gap.
pub(crate) fn with_lead(
    piece: &std::ops::Range<u64>,
    gap: &std::ops::Range<u64>,
) -> std::ops::Range<u64> {
    gap.start.max(piece.start.saturating_sub(LEAD))..piece.end
}

/// Layout of a frame, guessed from its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// No function is known here, or its effect on the stack is unknown.
    Nothing,
    /// Entry code of a program or of a thread.
    Root,
    /// Signal trampoline, to which signal handlers return.
    SignalReturn,
    /// Code directly after the system call that creates a thread: in the new thread there is no caller.
    Cloned(Compact),
    Frame(Compact),
}

/// A guess that applies from an address on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuessRow {
    pub address: u64,
    pub guess: Guess,
}

/// Rows of a range of code, sorted; the first is for its first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guesses {
    pub rows: Vec<GuessRow>,
}

impl Guesses {
    /// Analyses `code`, which is at `address`. Some of its functions start at `starts`; the program starts at `entry`.
    pub(crate) fn new(code: &[u8], address: u64, starts: &[u64], entry: Option<u64>) -> Self {
        let mut flow = Flow::new(code, address);
        if let Some(entry) = entry {
            flow.add_entry(entry);
        }
        starts.iter().for_each(|&start| flow.add_start(start));
        flow.follow_starts();
        flow.follow_rest();
        flow.follow_padding();
        let mut rows = Rows(Vec::new());
        rows.push(address, Guess::Nothing);
        // Thousands of consecutive instructions have the same state.
        let mut last: Option<(&State, Guess)> = None;
        for (at, state) in flow.reached() {
            let guess = match (state, last) {
                (None, _) => Guess::Nothing,
                (Some(state), Some((known, guess))) if std::ptr::eq(state, known) => guess,
                (Some(state), _) => guess(state),
            };
            last = state.map(|state| (state, guess));
            // The kernel sets the return address of a signal handler, so no call precedes it, and the lookup is one
            // byte back.
            if guess == Guess::SignalReturn && rows.is_padding_before(at, code, address) {
                rows.push(at - 1, guess);
            }
            rows.push(at, guess);
        }
        Self { rows: rows.0 }
    }

    /// Drops the rows before an address.
    pub(crate) fn from(mut self, address: u64) -> Self {
        let at = self.rows.partition_point(|row| row.address <= address);
        let first = at.checked_sub(1).map_or(Guess::Nothing, |at| self.rows[at].guess);
        self.rows.drain(..at);
        self.rows.insert(0, GuessRow { address, guess: first });
        self
    }

    pub(crate) fn at(&self, address: u64) -> Guess {
        let after = self.rows.partition_point(|row| row.address <= address);
        after.checked_sub(1).map_or(Guess::Nothing, |at| self.rows[at].guess)
    }
}

struct Rows(Vec<GuessRow>);

impl Rows {
    fn push(&mut self, address: u64, guess: Guess) {
        if self.0.last().is_some_and(|last| last.guess == guess) {
            return;
        }
        if let Some(last) = self.0.last_mut().filter(|last| last.address == address) {
            last.guess = guess;
            return;
        }
        self.0.push(GuessRow { address, guess });
    }

    fn is_padding_before(&self, at: u64, code: &[u8], address: u64) -> bool {
        const PADDING: [u8; 3] = [0x00, 0x90, 0xcc];
        let before = at.checked_sub(address).and_then(|offset| offset.checked_sub(1));
        let is_new = self.0.last().is_some_and(|row| row.guess != Guess::SignalReturn);
        is_new && before.is_some_and(|before| PADDING.contains(&code[before as usize]))
    }
}

fn guess(state: &State) -> Guess {
    match (state.kind, state.rule()) {
        (Kind::Entry | Kind::Root, _) => Guess::Root,
        (Kind::SignalReturn, _) => Guess::SignalReturn,
        (_, None) => Guess::Nothing,
        (Kind::Function, Some(rule)) => Guess::Frame(rule),
        (Kind::Cloned, Some(rule)) => Guess::Cloned(rule),
    }
}

/// Matches `mov $15,%rax; syscall` (`rt_sigreturn`), in the two encodings that C libraries use.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05])
        || code.starts_with(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])
}

/// Returns true if code contains only instructions that do nothing.
pub(crate) fn is_padding(code: &[u8]) -> bool {
    let mut at = 0;
    while at < code.len() {
        at += match code[at] {
            0x00 | 0xcc | 0x90 => 1,
            0x0f | 0x2e | 0x66 => match nop_len(&code[at..]) {
                Some(len) => len,
                None => return false,
            },
            _ => return false,
        };
    }
    true
}

/// Length of the `nop` at the start of `code`.
fn nop_len(code: &[u8]) -> Option<usize> {
    // Assemblers use a few common nops as padding between functions. These are recognized without a decoder:
    // creating one takes longer than everything else here.
    common_nop_len(code).or_else(|| {
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (instruction.mnemonic() == Mnemonic::Nop).then(|| instruction.len())
    })
}

/// Like [`nop_len`], for `66 90`, and `0F 1F /0` with prefixes 66 and 2E (Intel SDM, volume 2B, "NOP").
fn common_nop_len(code: &[u8]) -> Option<usize> {
    const LONGEST: usize = 15;
    let prefixes = code.iter().take_while(|&&byte| matches!(byte, 0x66 | 0x2e)).count();
    let rest = match code.get(prefixes..)? {
        [0x90, ..] => 1,
        [0x0f, 0x1f, modrm, operand @ ..] if modrm >> 3 & 7 == 0 => {
            let (mode, base) = (modrm >> 6, modrm & 7);
            let has_sib = mode != 3 && base == 4;
            let base = if has_sib { operand.first()? & 7 } else { base };
            let displacement = match mode {
                0 if base == 5 => 4,
                1 => 1,
                2 => 4,
                _ => 0,
            };
            3 + usize::from(has_sib) + displacement
        }
        _ => return None,
    };
    let len = prefixes + rest;
    (len <= LONGEST.min(code.len())).then_some(len)
}

/// Returns true if code begins like a function that sets up a frame.
fn is_prologue(code: &[u8]) -> bool {
    matches!(
        code,
        [0xf3, 0x0f, 0x1e, 0xfa, ..] // endbr64
            | [0x53 | 0x55, ..] // push %rbx, %rbp
            | [0x41, 0x54..=0x57, ..] // push %r12 … %r15
            | [0x48, 0x83 | 0x81, 0xec, ..] // sub $…,%rsp
    )
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Against the decoder, with each byte in the place of each.
    #[test]
    fn nops_are_as_long_as_the_decoder_says() {
        let nops = [
            &[0x66, 0x90][..],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
            &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
            &[0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
        ];
        let mut known = 0;
        for nop in nops {
            assert!(is_padding(nop) && common_nop_len(nop) == Some(nop.len()), "{nop:x?}");
            for (at, byte) in
                (0..nop.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)))
            {
                let mut code = nop.to_vec();
                code[at] = byte;
                code.extend([0; 8]);
                let Some(len) = common_nop_len(&code) else { continue };
                let instruction = Decoder::new(64, &code, DecoderOptions::NONE).decode();
                assert_eq!(
                    (instruction.mnemonic(), instruction.len()),
                    (Mnemonic::Nop, len),
                    "{code:x?}"
                );
                known += 1;
            }
            assert_eq!(common_nop_len(&nop[..nop.len() - 1]), None);
        }
        assert!(known > 1000, "{known}");
    }

    /// Bytes that look random, with many of those that move the stack pointer; no panic, and rows in order.
    #[test]
    fn any_bytes_are_looked_at() {
        const COMMON: [u8; 12] =
            [0x48, 0x81, 0xec, 0xc4, 0x53, 0x5b, 0xc3, 0xe8, 0xeb, 0x80, 0xff, 0x00];
        let mut random = StdRng::seed_from_u64(1);
        for round in 0..200 {
            let code: Vec<u8> = (0..512)
                .map(|_| {
                    let byte = random.random::<u8>();
                    if byte & 1 == 0 { COMMON[usize::from(byte) % COMMON.len()] } else { byte }
                })
                .collect();
            let address = if round % 2 == 0 { 0x1000 } else { u64::MAX - 511 };
            let guesses = Guesses::new(&code, address, &[address, address + 9], Some(address + 50));
            assert!(guesses.rows.is_sorted_by(|a, b| a.address < b.address));
        }
        // lea -0x80000000(%rsp),%rsp after push, and back: offsets at the ends of their range.
        let lea = [0x48, 0x8d, 0xa4, 0x24, 0x00, 0x00, 0x00, 0x80];
        let code = [&[0x58][..], &lea[..], &lea[..], &[0xc3][..]].concat();
        assert!(!Guesses::new(&code, 0x1000, &[0x1000], None).rows.is_empty());
    }
}
