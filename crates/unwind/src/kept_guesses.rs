//! Guesses for code without unwind tables in serialized form, for cache files: analysing the code of a browser
//! again takes a second.
//!
//! ```text
//! rules    4 bytes   number of rules
//! pieces   4 bytes   number of pieces
//! rules              21 bytes each
//! pieces             12 bytes each: start address (8), number of rows (4)
//! rows               6 bytes each, grouped by piece: offset in the piece (4), number of the rule (2)
//! ```
//!
//! All numbers are little-endian. The bytes are not trusted: rows that cannot be searched are ignored.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::info::UnwindInfo;
use crate::instructions::{Guess, GuessRow, Guesses};
use crate::registers::REGISTERS;
use crate::rule::{Cfa, Compact};
use crate::stored::TableKey;
use crate::table::MOST_GUESSED;

const RULE: usize = 21;
const PIECE: usize = 12;
const ROW: usize = 6;

/// Minimum size of code in bytes. If a file has less code, the table contains the guesses.
const LEAST_CODE: u64 = MOST_GUESSED;

/// Guesses in the form of [`UnwindInfo::guesses_to_bytes`], read in place, so that a file can be mapped.
pub(crate) struct KeptGuesses {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    rules: Vec<Guess>,
    /// Start address of each piece, and byte range of its rows; sorted.
    pieces: Vec<(u64, Range<usize>)>,
}

impl KeptGuesses {
    fn new(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Option<Self> {
        let whole = (*bytes).as_ref();
        let (rules, rest) = whole.split_first_chunk()?;
        let (pieces, rest) = rest.split_first_chunk()?;
        let size =
            |count: &[u8; 4], of| usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(of);
        let (rules, rest) = rest.split_at_checked(size(rules, RULE)?)?;
        let (starts, rows) = rest.split_at_checked(size(pieces, PIECE)?)?;
        let rules = rules.as_chunks().0.iter().map(guess).collect::<Option<_>>()?;
        let mut at = whole.len() - rows.len();
        let mut pieces = Vec::with_capacity(starts.len() / PIECE);
        for piece in starts.as_chunks::<PIECE>().0 {
            let start = u64::from_le_bytes(*piece.first_chunk()?);
            let end = at.checked_add(size(piece.last_chunk()?, ROW)?)?;
            pieces.push((start, at..end));
            at = end;
        }
        let is_sorted = pieces.is_sorted_by(|(a, _), (b, _)| a < b);
        (is_sorted && at == whole.len()).then_some(Self { rules, pieces, bytes })
    }

    /// Returns true if there are guesses for the piece that starts at an address.
    pub(crate) fn has(&self, start: u64) -> bool {
        self.pieces.binary_search_by_key(&start, |&(start, _)| start).is_ok()
    }

    /// Returns the guesses for the piece that starts at an address; `None` if there are none, or they cannot be
    /// searched.
    pub(crate) fn piece(&self, start: u64) -> Option<Guesses> {
        let at = self.pieces.binary_search_by_key(&start, |&(start, _)| start).ok()?;
        let rows = (*self.bytes).as_ref().get(self.pieces[at].1.clone())?.as_chunks::<ROW>().0;
        let row = |row: &[u8; ROW]| {
            let (offset, rule) = (row.first_chunk()?, row.last_chunk()?);
            let address = start.checked_add(u32::from_le_bytes(*offset).into())?;
            let guess = *self.rules.get(usize::from(u16::from_le_bytes(*rule)))?;
            Some(GuessRow { address, guess })
        };
        let rows: Vec<GuessRow> = rows.iter().map(row).collect::<Option<_>>()?;
        rows.is_sorted_by(|a, b| a.address < b.address).then_some(Guesses { rows })
    }
}

impl UnwindInfo {
    /// Version of guesses. Increment it whenever the same code gives other guesses, or the format of
    /// [`Self::guesses_to_bytes`] changes.
    pub const GUESSES_VERSION: u8 = 1;

    /// Key under which guesses can be cached; `None` if the file has too little code, or no build ID.
    pub fn guesses_key(&self) -> Option<TableKey> {
        let code = self.instruction_ranges().iter().map(|range| range.end - range.start);
        (self.build_id().is_some() && code.sum::<u64>() >= LEAST_CODE).then(|| self.table_key())
    }

    /// Serializes all guesses; `None` if none were made besides those loaded by [`Self::take_guesses`].
    pub fn guesses_to_bytes(&self) -> Option<Vec<u8>> {
        if self.guesses.made.load(Ordering::Acquire) == 0 {
            return None;
        }
        let read = self.pieces().clone();
        let mut pieces: BTreeMap<u64, Guesses> = BTreeMap::new();
        if let Some(kept) = self.guesses.kept.get() {
            let own = kept.pieces.iter().map(|&(start, _)| start);
            pieces.extend(own.filter_map(|start| Some((start, kept.piece(start)?))));
        }
        let read = read.iter().filter_map(|(&start, place)| Some((start, place.get()?.clone())));
        pieces.extend(read);
        let mut numbers = HashMap::new();
        let (mut rules, mut starts, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (&start, guesses) in &pieces {
            starts.extend(start.to_le_bytes());
            starts.extend(u32::try_from(guesses.rows.len()).ok()?.to_le_bytes());
            for row in &guesses.rows {
                let rule = to_bytes(row.guess);
                let next = numbers.len();
                let number = *numbers.entry(rule).or_insert_with(|| {
                    rules.extend(rule);
                    next
                });
                rows.extend(u32::try_from(row.address - start).ok()?.to_le_bytes());
                rows.extend(u16::try_from(number).ok()?.to_le_bytes());
            }
        }
        let counts = [numbers.len(), pieces.len()];
        let mut bytes = Vec::with_capacity(8 + rules.len() + starts.len() + rows.len());
        for count in counts {
            bytes.extend(u32::try_from(count).ok()?.to_le_bytes());
        }
        [rules, starts, rows].iter().for_each(|part| bytes.extend(part));
        Some(bytes)
    }

    /// Loads guesses that [`Self::guesses_to_bytes`] has serialized for the same file. Only the first call has an
    /// effect. Returns the number of pieces; 0 if the bytes are invalid.
    pub fn take_guesses(&self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> usize {
        let Some(kept) = KeptGuesses::new(Box::new(bytes)) else { return 0 };
        let pieces = kept.pieces.len();
        if self.guesses.kept.set(kept).is_ok() { pieces } else { 0 }
    }
}

fn to_bytes(guess: Guess) -> [u8; RULE] {
    let nothing = Compact { cfa: Cfa::Plt { first: 0 }, saved: [0; 12] };
    let (kind, Compact { cfa, saved }) = match guess {
        Guess::Nothing => (0, nothing),
        Guess::Root => (1, nothing),
        Guess::SignalReturn => (2, nothing),
        Guess::Cloned(compact) => (3, compact),
        Guess::Frame(compact) => (4, compact),
    };
    let (form, register, [a, b], offset) = match cfa {
        Cfa::Offset { register, offset } => (0, register, [0; 2], offset),
        Cfa::Deref { register, add, offset } => (1, register, add.to_le_bytes(), offset),
        Cfa::Plt { first } => (2, 0, [first, 0], 0),
        Cfa::Guess { register, lost, offset } => (3, register, [lost, 0], offset),
        Cfa::GuessDeref { register, words, lost, offset } => {
            (4, register, [lost, words.cast_unsigned()], offset)
        }
    };
    let mut bytes = [0; RULE];
    bytes[..5].copy_from_slice(&[kind, form, register, a, b]);
    bytes[5..9].copy_from_slice(&offset.to_le_bytes());
    bytes[9..].copy_from_slice(&saved);
    bytes
}

fn guess(bytes: &[u8; RULE]) -> Option<Guess> {
    let [kind, form, register, a, b, o0, o1, o2, o3, ..] = *bytes;
    let (offset, saved) = (i32::from_le_bytes([o0, o1, o2, o3]), *bytes.last_chunk()?);
    if usize::from(register) >= REGISTERS {
        return None;
    }
    let cfa = match form {
        0 => Cfa::Offset { register, offset },
        1 => Cfa::Deref { register, add: i16::from_le_bytes([a, b]), offset },
        2 => Cfa::Plt { first: a },
        3 => Cfa::Guess { register, lost: a, offset },
        4 => Cfa::GuessDeref { register, words: b.cast_signed(), lost: a, offset },
        _ => return None,
    };
    match kind {
        0 => Some(Guess::Nothing),
        1 => Some(Guess::Root),
        2 => Some(Guess::SignalReturn),
        3 => Some(Guess::Cloned(Compact { cfa, saved })),
        4 => Some(Guess::Frame(Compact { cfa, saved })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::Arch;

    const START: u64 = 0x1000;
    const STEP: usize = 100_003;

    /// The code of the test's own program, as if it had no tables.
    fn code() -> UnwindInfo {
        let own = std::env::current_exe().and_then(std::fs::read).expect("this test");
        let own = UnwindInfo::from_bytes(own).expect("an ELF file");
        let ranges = own.instruction_ranges();
        let text = ranges.iter().max_by_key(|range| range.end - range.start).expect("code");
        let len = usize::try_from(text.end - text.start).expect("a size").min(2 << 20);
        let bytes = own.code(text.start, len).expect("it is in the file");
        assert!(len > 1 << 20, "code of {len} bytes is read as a whole");
        UnwindInfo::from_code(Arch::X86_64, START, bytes, &[])
    }

    fn places() -> impl Iterator<Item = u64> {
        (0..10).map(|at| START + (at * STEP) as u64)
    }

    #[test]
    fn what_was_read_is_known_without_reading() {
        let (first, second) = (code(), code());
        assert_eq!(first.guesses_to_bytes(), None, "nothing was read");
        for place in places() {
            first.guess(place);
        }
        let bytes = first.guesses_to_bytes().expect("code was read");
        assert_eq!(second.take_guesses(bytes), places().count());
        for place in places() {
            assert!(!second.is_unread(place));
            for address in (place & !0x3f..).take(64) {
                assert_eq!(first.guess(address), second.guess(address), "{address:#x}");
            }
        }
        assert_eq!(second.guesses_to_bytes(), None, "nothing else was read");
        second.guess(START + STEP as u64 / 2);
        let more = second.guesses_to_bytes().expect("more was read");
        assert_eq!(code().take_guesses(more), places().count() + 1);
    }

    #[test]
    fn what_is_damaged_is_not_taken() {
        let info = code();
        info.guess(START);
        let whole = info.guesses_to_bytes().expect("code was read");
        let take = |bytes: Vec<u8>| code().take_guesses(bytes);
        let lengths = (0..200).chain((200..whole.len()).step_by(977));
        for len in lengths.step_by(7) {
            assert_eq!(take(whole[..len].to_vec()), 0, "{len} bytes");
        }
        assert_eq!(take([&whole[..], b"x"].concat()), 0);
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(take(with(8, 5)), 0, "a kind that is not known");
        assert_eq!(take(with(9, 5)), 0, "a form that is not known");
        assert_eq!(take(with(10, REGISTERS as u8)), 0, "a register that is not there");
        let rules = u32::from_le_bytes(*whole.first_chunk().expect("a header")) as usize;
        let rows = 8 + RULE * rules + PIECE;
        for (at, what) in [(5, "a rule that is not there"), (3, "offsets that do not grow")] {
            let other = code();
            assert_eq!(other.take_guesses(with(rows + at, 0xff)), 1);
            assert!(other.guesses.kept.get().is_some_and(|kept| kept.piece(START).is_none()));
            assert_eq!(other.guess(START + 99), info.guess(START + 99), "{what}: it is read anew");
        }
    }

    #[test]
    fn no_bytes_are_too_much() {
        let info = code();
        for place in places() {
            info.guess(place);
        }
        let whole = info.guesses_to_bytes().expect("code was read");
        let mut random = 20_u64;
        let mut next = |below: usize| {
            // Knuth's multiplier.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let mut searched = 0;
        for round in 0..3000 {
            let len = if round % 4 == 0 { next(whole.len() + 1) } else { whole.len() };
            let mut bytes = whole[..len].to_vec();
            for _ in 0..next(4) {
                let at = next(bytes.len().max(1));
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = next(256) as u8);
            }
            // Most of what is changed stands at the beginning.
            let at = next(64);
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = next(256) as u8);
            let Some(kept) = KeptGuesses::new(Box::new(bytes)) else { continue };
            for (start, _) in &kept.pieces {
                searched += usize::from(kept.piece(*start).is_some());
            }
        }
        assert!(searched > 1000, "{searched} pieces");
    }
}
