//! Code that no table of a file covers, and guesses from its instructions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::info::UnwindInfo;
use crate::instructions::{self, Guess, Guesses, piece_of, with_lead};
use crate::kept_guesses::KeptGuesses;
use crate::registers::Arch;

/// Guesses by the address of the first byte of each piece.
type Pieces = HashMap<u64, Arc<OnceLock<Guesses>>>;

/// Guesses for the code that has been analysed so far.
#[derive(Default)]
pub(crate) struct GuessCache {
    pieces: Mutex<Pieces>,
    /// Starts of all functions that have a symbol, sorted. In a large program, reading them takes longer than
    /// analysing most pieces.
    starts: OnceLock<Vec<u64>>,
    /// Number of pieces that were analysed here, not loaded from elsewhere.
    pub(crate) made: AtomicUsize,
    /// Guesses that were loaded, from an earlier analysis.
    pub(crate) kept: OnceLock<KeptGuesses>,
}

impl UnwindInfo {
    /// Guesses the frame at an address that no table covers, from instructions. The code around it is analysed at
    /// the first call.
    pub(crate) fn guess(&self, svma: u64) -> Guess {
        if self.arch() != Arch::X86_64 {
            return Guess::Nothing;
        }
        let Some((piece, looked_at)) = self.piece(svma) else { return Guess::Nothing };
        let place = Arc::clone(self.pieces().entry(piece.start).or_default());
        // Threads that need the same piece meanwhile wait for it; threads that need another one do not.
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

    /// Returns true if [`guess`](Self::guess) would have to analyse code first.
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

    /// Returns true if a range contains only instructions that do nothing.
    pub(crate) fn is_padding(&self, range: &Range<u64>) -> bool {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        self.code(range.start, len).is_none_or(instructions::is_padding)
    }

    /// Analyses the instructions of a range, in which functions start at `starts`.
    pub(crate) fn guesses_in(&self, range: &Range<u64>, starts: &[u64]) -> Guesses {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        // The file may end before its segments do.
        let Some(code) = self.code(range.start, len) else { return Guesses::default() };
        let entry = self.entry().filter(|entry| range.contains(entry));
        Guesses::new(code, range.start, starts, entry)
    }

    /// Piece of code around an address that no table covers, and the range to analyse for it.
    fn piece(&self, svma: u64) -> Option<(Range<u64>, Range<u64>)> {
        let code = self.instruction_ranges().iter().find(|range| range.contains(&svma))?;
        let gap = self.gap(svma);
        let gap = gap.start.max(code.start)..gap.end.min(code.end);
        // If tables contradict each other, the gap may not contain the address.
        let into = svma.checked_sub(gap.start)?;
        let len = piece_of(gap.end - gap.start);
        let start = svma - into % len;
        let piece = start..gap.end.min(start.saturating_add(len));
        let looked_at = with_lead(&piece, &gap);
        (svma < gap.end).then_some((piece, looked_at))
    }

    /// Sorted starts of the functions in `ranges`, which must be sorted, from symbol tables and the addresses
    /// passed along with the code.
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

/// Addresses of the functions in an ELF symbol table (System V ABI, "Symbol Table"; 24 bytes each).
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
        // Labels in assembly have no type; the global ones are functions.
        let is_function = matches!(kind, FUNC | GNU_IFUNC) || (kind == NOTYPE && binding == GLOBAL);
        if !is_function || section == UNDEFINED || section >= FIRST_RESERVED {
            return None;
        }
        let value = symbol[8..16].first_chunk().map(|value| u64::from_le_bytes(*value));
        value.filter(|&value| value != 0)
    })
}
