//! Checksums: one for each row group, in the footer's text; one for the rest of the file, which has the footer in it, and of which
//! the checksum's own place is left out.

use twox_hash::XxHash3_128;

use crate::error::SegmentError;

/// Key of the checksum in the footer. What follows it is known: the header of the next field, the length, and as many digits.
const KEY: &[u8] = b"pyrograph.checksum";
/// Header of a text in Thrift's compact protocol behind another one (field 2, type 8), and its length.
const HEADER: [u8; 2] = [0x18, DIGITS as u8];
const DIGITS: usize = 32;

/// The key of the checksum, and what it is until the file is complete.
pub fn placeholder() -> (String, String) {
    (String::from_utf8_lossy(KEY).into_owned(), "0".repeat(DIGITS))
}

/// Checksum of some bytes, as 32 hexadecimal digits.
pub fn of(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// Fills in the checksum of all bytes from `start` on.
///
/// # Errors
///
/// If they have no place for it.
pub fn seal(bytes: &mut [u8], start: usize) -> Result<(), SegmentError> {
    let place = place(bytes, start)?;
    let sum = of(&bytes[start..]);
    bytes[place..place + DIGITS].copy_from_slice(sum.as_bytes());
    Ok(())
}

/// Checks the checksum of all bytes from `start` on.
///
/// # Errors
///
/// If it is another one.
pub fn check(bytes: &[u8], start: usize) -> Result<(), SegmentError> {
    let place = place(bytes, start)?;
    let mut plain = bytes[start..].to_vec();
    plain[place - start..place - start + DIGITS].fill(b'0');
    match is_same(&of(&plain), &bytes[place..place + DIGITS]) {
        true => Ok(()),
        false => Err(SegmentError::Damaged("the footer's checksum is another one".to_owned())),
    }
}

/// Returns true if a checksum is the expected one. Fuzzing gets past it.
pub fn is_same(sum: &str, expected: &[u8]) -> bool {
    cfg!(fuzzing) || sum.as_bytes() == expected
}

/// Where the digits begin.
fn place(bytes: &[u8], start: usize) -> Result<usize, SegmentError> {
    let missing = || SegmentError::Damaged("the footer has no checksum".to_owned());
    let tail = bytes.get(start..).ok_or_else(missing)?;
    let found = tail.windows(KEY.len()).rposition(|window| window == KEY).ok_or_else(missing)?;
    let header = start + found + KEY.len();
    let place = header + HEADER.len();
    let is_it = bytes.get(header..place) == Some(&HEADER[..]);
    let digits = bytes.get(place..place + DIGITS);
    digits.filter(|_| is_it).map(|_| place).ok_or_else(missing)
}
