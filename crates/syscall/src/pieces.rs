//! Copies that consist of several pieces of memory: `iovec`, `argv`, messages.

use crate::context::number;

/// A piece of memory in a copy of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where the program has it.
    pub address: u64,
    /// Bytes that there were to copy.
    pub length: u64,
    /// What was copied of them.
    pub bytes: &'a [u8],
}

/// Returns the pieces of a copy: for each its address and its length, 8 bytes each, how many bytes of it follow, 4 bytes, and these. What
/// comes after a piece that is cut is not there.
pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let address = number(rest, 0, 8)?;
        let length = number(rest, 8, 8)?;
        let end = usize::try_from(number(rest, 16, 4)?).ok()?.checked_add(20)?;
        let bytes = rest.get(20..end)?;
        rest = rest.get(end..)?;
        Some(Piece { address, length, bytes })
    })
}

/// Appends a piece to a copy, as [`pieces`] reads it.
pub fn push_piece(copy: &mut Vec<u8>, piece: &Piece<'_>) {
    copy.extend_from_slice(&piece.address.to_le_bytes());
    copy.extend_from_slice(&piece.length.to_le_bytes());
    let taken = u32::try_from(piece.bytes.len()).unwrap_or(u32::MAX);
    copy.extend_from_slice(&taken.to_le_bytes());
    copy.extend_from_slice(piece.bytes.get(..taken as usize).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{Piece, pieces, push_piece};

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let all = [
            Piece { address: 1, length: 5, bytes: b"hello" },
            Piece { address: 2, length: 0, bytes: b"" },
            Piece { address: 3, length: 100, bytes: b"cut" },
        ];
        let mut copy = Vec::new();
        for piece in &all {
            push_piece(&mut copy, piece);
        }
        assert!(pieces(&copy).eq(all));
        copy.pop();
        assert_eq!(pieces(&copy).count(), 2, "the last is not whole");
    }
}
