//! Copies that consist of several pieces of memory: `iovec`, `argv`, messages.

use crate::context::number;

/// One piece of such a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Address in the program.
    pub address: u64,
    /// Size of the memory in bytes.
    pub length: u64,
    /// Copied bytes, which may be fewer.
    pub bytes: &'a [u8],
}

/// Decodes the pieces of a copy: each has its address and length, 8 bytes each, the number of copied bytes, 4 bytes,
/// and the copied bytes. A truncated piece is the last one.
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

/// Appends a piece to a copy, in the form that [`pieces`] decodes.
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
