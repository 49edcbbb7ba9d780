//! The code that no table of a file has an entry for, and what its instructions say.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::info::UnwindInfo;
use crate::instructions::{self, Guess, Guesses, piece_of, with_lead};
use crate::kept_guesses::KeptGuesses;
use crate::registers::Arch;

/// By the address of the first byte of each piece.
type Pieces = HashMap<u64, Arc<OnceLock<Guesses>>>;

/// Guesses of the code that was read so far.
#[derive(Default)]
pub(crate) struct GuessCache {
    pieces: Mutex<Pieces>,
    /// Of all functions that have a symbol, sorted: of a large program these take longer to read than most
    /// pieces take.
    starts: OnceLock<Vec<u64>>,
    /// How many pieces were read here, and not taken from elsewhere.
    pub(crate) made: AtomicUsize,
    /// What was read before.
    pub(crate) kept: OnceLock<KeptGuesses>,
}

impl UnwindInfo {
    /// The frame at an address that no table has an entry for, by the instructions. The
    /// first time, the code around it is read.
    pub(crate) fn guess(&self, svma: u64) -> Guess {
        if self.arch() != Arch::X86_64 {
            return Guess::Nothing;
        }
        let Some((piece, looked_at)) = self.piece(svma) else { return Guess::Nothing };
        let place = Arc::clone(self.pieces().entry(piece.start).or_default());
        // Who asks for the same piece meanwhile waits; for another, nobody does.
        let guesses = place.get_or_init(|| {
            if let Some(kept) = self.guesses.kept.get().and_then(|kept| kept.piece(piece.start)) {
                return kept;
            }
            let starts = self.guesses.starts.get_or_init(|| self.all_function_starts());
            let from = starts.partition_point(|&start| start < looked_at.start);
            let to = starts.partition_point(|&start| start < looked_at.end);
            self.guesses.made.fetch_add(1, Ordering::Release);
            self.guesses_in(&looked_at, &starts[from..to]).from(piece.start)
        });
        guesses.at(svma)
    }

    /// Returns true if [`guess`](Self::guess) would have to read code first.
    pub(crate) fn is_unread(&self, svma: u64) -> bool {
        let is_read = |start| self.pieces().get(&start).is_some_and(|place| place.get().is_some());
        let is_kept = |start| self.guesses.kept.get().is_some_and(|kept| kept.has(start));
        self.arch() == Arch::X86_64
            && self
                .piece(svma)
                .is_some_and(|(piece, _)| !is_read(piece.start) && !is_kept(piece.start))
    }

    pub(crate) fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.guesses.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there are only instructions that do nothing in a range.
    pub(crate) fn is_padding(&self, range: &Range<u64>) -> bool {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        self.code(range.start, len).is_none_or(instructions::is_padding)
    }

    /// Guesses by the instructions of a range, in which functions start at `starts`.
    pub(crate) fn guesses_in(&self, range: &Range<u64>, starts: &[u64]) -> Guesses {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        // The file may end before its segments do.
        let Some(code) = self.code(range.start, len) else { return Guesses::default() };
        let entry = self.entry().filter(|entry| range.contains(entry));
        Guesses::new(code, range.start, starts, entry)
    }

    /// The part of the code around an address that no table has an entry for, and what is looked at for it.
    fn piece(&self, svma: u64) -> Option<(Range<u64>, Range<u64>)> {
        let code = self.instruction_ranges().iter().find(|range| range.contains(&svma))?;
        let gap = self.gap(svma);
        let gap = gap.start.max(code.start)..gap.end.min(code.end);
        // Tables that contradict each other can have a gap that is not around the address.
        let into = svma.checked_sub(gap.start)?;
        let len = piece_of(gap.end - gap.start);
        let start = svma - into % len;
        let piece = start..gap.end.min(start.saturating_add(len));
        let looked_at = with_lead(&piece, &gap);
        (svma < gap.end).then_some((piece, looked_at))
    }

    /// The symbols of functions in these ranges, which are sorted: their addresses, sorted.
    pub(crate) fn function_starts(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        let is_inside = |address: &u64| {
            let after = ranges.partition_point(|range| range.start <= *address);
            after.checked_sub(1).is_some_and(|at| ranges[at].contains(address))
        };
        sorted(self.unsorted_starts().filter(is_inside).collect())
    }

    fn all_function_starts(&self) -> Vec<u64> {
        let mut starts = sorted(self.unsorted_starts().collect());
        starts.shrink_to_fit();
        starts
    }

    fn unsorted_starts(&self) -> impl Iterator<Item = u64> {
        self.symbol_tables().flat_map(functions).chain(self.given_starts().iter().copied())
    }
}

fn sorted(mut starts: Vec<u64>) -> Vec<u64> {
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The addresses of the functions in an ELF symbol table (System V ABI, "Symbol Table"; 24 bytes each).
fn functions(table: &[u8]) -> impl Iterator<Item = u64> {
    table.as_chunks::<24>().0.iter().filter_map(|symbol| {
        const NOTYPE: u8 = 0;
        const FUNC: u8 = 2;
        const GNU_IFUNC: u8 = 10;
        const GLOBAL: u8 = 1;
        const UNDEFINED: u16 = 0;
        const FIRST_RESERVED: u16 = 0xff00;
        let (kind, binding) = (symbol[4] & 15, symbol[4] >> 4);
        let section = u16::from_le_bytes([symbol[6], symbol[7]]);
        // Assembly has labels without a type, of which those that others use are functions.
        let is_function = matches!(kind, FUNC | GNU_IFUNC) || (kind == NOTYPE && binding == GLOBAL);
        if !is_function || section == UNDEFINED || section >= FIRST_RESERVED {
            return None;
        }
        let value = symbol[8..16].first_chunk().map(|value| u64::from_le_bytes(*value));
        value.filter(|&value| value != 0)
    })
}
